//! One request in the front: what the client asked, where it stands, and what has come back so far.
//!
//! Only the dispatcher moves a request from place to place; the connection waits on it and takes the
//! response out. It never touches a socket or the exchange.

mod arrived;
mod chunks;
mod target;

use std::cell::{Cell, OnceCell, RefCell};
use std::future::poll_fn;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use exchange::WorkerId;
use exchange::request::{BodyPlace, Facts, TEXTS, TooLarge, Writer};
use exchange::scheduling::monotonic_ns;
use http::{HeaderMap, Method, Uri, Version};

pub use arrived::{Arrived, End, ResponseHead};
pub use chunks::Chunks;

use crate::dispatch::env::Env;
use crate::dispatch::{Death, Lane};
use crate::failure::Failure;
use crate::http::screen::RawTarget;
use crate::spool::Spool;

/// Both ends of a connection, as the env tells them.
#[derive(Debug)]
pub struct Peer {
    /// `REMOTE_ADDR`; `unix` peers have none and are given as 127.0.0.1, as Puma does.
    pub address: String,
    /// `REMOTE_PORT`, 0 for a UNIX socket.
    pub port: u16,
    /// The listener's host, where a request names none.
    pub local_host: String,
    /// The listener's port.
    pub local_port: u16,
    /// Whether what it says in X-Forwarded-* is believed.
    pub trusted: bool,
}

/// A request's body, complete.
#[derive(Debug)]
pub enum RequestBody {
    /// Small enough for a slot.
    Inline(Bytes),
    /// In an unnamed file.
    File(Spool),
}

impl RequestBody {
    /// Its length in bytes.
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Inline(bytes) => bytes.len() as u64,
            Self::File(file) => file.len(),
        }
    }
}

/// A request's body, and the times that count from its end.
#[derive(Debug)]
pub struct Arrival {
    /// Its body.
    pub body: RequestBody,
    /// When it had arrived whole: microseconds since 1970.
    pub us: u64,
    /// The same, nanoseconds of the monotonic clock.
    pub ns: u64,
    /// When its response must have begun, nanoseconds of the monotonic clock.
    pub deadline_ns: u64,
}

/// Where a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the queue.
    Queue,
    /// In a slot of a generation's exchange.
    Slot {
        /// The generation.
        generation: u32,
        /// The slot.
        slot: u16,
    },
    /// With nobody: not yet submitted, or the exchange has no more to do with it.
    Out,
}

/// One request, from its arrival to its outcome.
pub struct Request {
    /// Its method.
    pub method: Method,
    /// Its target as hyper read it.
    uri: Uri,
    /// Its target as the client sent it, where hyper would not have read that.
    raw_target: Option<RawTarget>,
    /// Its version.
    pub version: Version,
    /// Its fields.
    pub headers: HeaderMap,
    /// Who sent it.
    pub peer: Rc<Peer>,
    /// What is known once it has arrived whole.
    arrival: OnceCell<Arrival>,
    /// Written by the dispatcher.
    pub place: Cell<Place>,
    /// Where it waits. Written by the dispatcher.
    pub lane: Cell<Lane>,
    /// How often it was run again. Written by the dispatcher.
    pub retries: Cell<u32>,
    /// The death of the worker that had it before it was run again. Written by the dispatcher.
    pub killed: RefCell<Option<Rc<Death>>>,
    /// The worker that has it or had it last.
    pub worker: Cell<Option<WorkerId>>,
    /// When a worker claimed it and when the application was done; 0 = not yet.
    pub times: Cell<(u64, u64)>,
    /// Whether nobody wants the response any more.
    abandoned: Cell<bool>,
    /// When it must be done or, once its response has begun, go on: nanoseconds of the monotonic clock.
    deadline_ns: Cell<u64>,
    /// Whether its deadline is to be moved on: something of the response came since the last look, or the last who
    /// wanted it left.
    moved: Cell<bool>,
    /// Whether a thread had it at its deadline. Written by the dispatcher.
    pub overdue: Cell<bool>,
    /// Whether a task waits for the disk to take more of the response. Written by the dispatcher.
    pub waits_for_disk: Cell<bool>,
    /// What came back.
    pub arrived: RefCell<Arrived>,
    /// The worker's socket, when the application took the connection over.
    pub socket: RefCell<Option<OwnedFd>>,
    waker: Cell<Option<Waker>>,
}

/// The parts of a request that hyper gives.
pub struct RequestHead {
    /// The method.
    pub method: Method,
    /// The target as hyper read it.
    pub uri: Uri,
    /// The target as the client sent it, where hyper would not have read that.
    pub raw_target: Option<RawTarget>,
    /// The version.
    pub version: Version,
    /// The fields.
    pub headers: HeaderMap,
}

impl Request {
    /// A request whose head has arrived.
    pub fn new(head: RequestHead, peer: Rc<Peer>) -> Self {
        Self {
            method: head.method,
            uri: head.uri,
            raw_target: head.raw_target,
            version: head.version,
            headers: head.headers,
            peer,
            arrival: OnceCell::new(),
            place: Cell::new(Place::Out),
            lane: Cell::default(),
            retries: Cell::new(0),
            killed: RefCell::new(None),
            worker: Cell::new(None),
            times: Cell::new((0, 0)),
            abandoned: Cell::new(false),
            deadline_ns: Cell::new(u64::MAX),
            moved: Cell::new(false),
            overdue: Cell::new(false),
            waits_for_disk: Cell::new(false),
            arrived: RefCell::default(),
            socket: RefCell::new(None),
            waker: Cell::new(None),
        }
    }

    /// It has arrived whole, and has `timeout` to be answered in.
    pub fn arrive(&self, body: RequestBody, timeout: Duration) {
        let ns = monotonic_ns();
        let us = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_micros() as u64);
        let deadline_ns = ns + timeout.as_nanos() as u64;
        self.deadline_ns.set(deadline_ns);
        // A second arrival would be a bug of the caller's; the first one counts.
        let _ = self.arrival.set(Arrival {
            body,
            us,
            ns,
            deadline_ns,
        });
    }

    /// What is known since it arrived whole; none before.
    pub fn arrival(&self) -> Option<&Arrival> {
        self.arrival.get()
    }

    /// Its deadline, nanoseconds of the monotonic clock.
    pub fn deadline_ns(&self) -> u64 {
        self.deadline_ns.get()
    }

    /// The deadline that it had before its response began, nanoseconds of the monotonic clock.
    pub fn first_deadline_ns(&self) -> u64 {
        self.arrival()
            .map_or(u64::MAX, |arrival| arrival.deadline_ns)
    }

    /// Whether its deadline has passed at `now`, nanoseconds of the monotonic clock.
    pub fn is_late(&self, now: u64) -> bool {
        self.deadline_ns() <= now
    }

    /// The time that it has to be answered in, in nanoseconds.
    pub fn timeout_ns(&self) -> u64 {
        self.arrival()
            .map_or(0, |arrival| arrival.deadline_ns - arrival.ns)
    }

    /// Something of its response has come.
    pub fn moves(&self) {
        self.moved.set(true);
    }

    /// Whether something of its response came since this was last asked.
    pub fn has_moved(&self) -> bool {
        self.moved.take()
    }

    /// Gives it its time again, from `now` on, nanoseconds of the monotonic clock.
    pub fn extend(&self, now: u64) {
        self.deadline_ns.set(now.saturating_add(self.timeout_ns()));
    }

    /// Whether nobody wants the response any more.
    pub fn is_abandoned(&self) -> bool {
        self.abandoned.get()
    }

    /// Nobody wants the response any more. A thread that has begun it has its time once more to notice.
    pub fn abandon(&self) {
        if !self.abandoned.replace(true) {
            self.moves();
        }
    }

    /// Whether it may be run a second time: a safe method (RFC 9110 section 9.2.1) of which nothing has
    /// been sent.
    pub fn may_run_again(&self) -> bool {
        let safe = matches!(
            self.method,
            Method::GET | Method::HEAD | Method::OPTIONS | Method::TRACE
        );
        safe && !self.arrived.borrow().head_taken && !self.is_abandoned()
    }

    /// Whether a worker died with it.
    pub fn is_suspect(&self) -> bool {
        self.killed.borrow().is_some()
    }

    /// Whether its end is known.
    pub fn has_ended(&self) -> bool {
        self.arrived.borrow().end.is_some()
    }

    /// Forgets what a worker had answered, before the request is run again: in what is left of its first time.
    pub fn forget_response(&self) {
        *self.arrived.borrow_mut() = Arrived::default();
        self.deadline_ns.set(self.first_deadline_ns());
    }

    /// Ends it without an answer of the application, unless it has ended already.
    pub fn fail(&self, failure: Failure) {
        self.arrived.borrow_mut().fail(failure);
        self.wake();
    }

    /// Ends it where its application took the connection over but the socket for it will not come.
    pub fn lose_hijack(&self, failure: Failure) {
        self.arrived.borrow_mut().end = Some(End::Failed(failure));
        self.wake();
    }

    /// Wakes the connection, if it waits. True when it did.
    pub fn wake(&self) -> bool {
        self.waker.take().map(Waker::wake).is_some()
    }

    /// Forgets who waits: its task is gone, or looks for itself.
    pub fn forget_waiter(&self) {
        self.waker.take();
    }

    /// Remembers who waits.
    pub fn wait(&self, waker: &Waker) {
        self.waker.set(Some(waker.clone()));
    }

    /// Waits for the head, or for what came instead. `hint` is called for every early hint before it.
    ///
    /// # Errors
    /// The failure that took the response's place. `Ok(None)`: the application took the connection over.
    pub async fn head(&self, mut hint: impl FnMut(&[u8])) -> Result<Option<ResponseHead>, Failure> {
        poll_fn(|cx| {
            let mut arrived = self.arrived.borrow_mut();
            while let Some(bytes) = arrived.hints.pop_front() {
                hint(&bytes);
            }
            if let Some(head) = arrived.take_head(&self.method) {
                return Poll::Ready(Ok(Some(head)));
            }
            match arrived.end {
                Some(End::Failed(failure)) => Poll::Ready(Err(failure)),
                Some(End::Hijacked) if self.socket.borrow().is_some() => Poll::Ready(Ok(None)),
                Some(End::Hijacked) => {
                    self.wait(cx.waker());
                    Poll::Pending
                }
                Some(End::Complete | End::Aborted) => {
                    Poll::Ready(Err(Failure::BadResponse("it ended without a status")))
                }
                None => {
                    self.wait(cx.waker());
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// Writes the record for the worker and returns its length.
    ///
    /// # Errors
    /// It does not fit.
    pub fn write_record(&self, env: &Env, area: &mut [u8]) -> Result<u32, TooLarge> {
        let Some(arrival) = self.arrival() else {
            return Err(TooLarge);
        };
        let (host, port) = env.server(self);
        let body = match &arrival.body {
            RequestBody::Inline(_) => BodyPlace::Inline,
            RequestBody::File(file) => BodyPlace::File {
                descriptor: file.raw_fd() as u32,
                length: file.len(),
            },
        };
        let facts = Facts {
            arrived_us: arrival.us,
            deadline_ns: arrival.deadline_ns,
            server_port: port,
            remote_port: self.peer.port,
            body,
        };
        let protocol = if self.version == Version::HTTP_10 {
            "HTTP/1.0"
        } else {
            "HTTP/1.1"
        };
        let texts: [&[u8]; TEXTS] = [
            self.method.as_str().as_bytes(),
            self.path(),
            self.query(),
            host,
            self.peer.address.as_bytes(),
            protocol.as_bytes(),
            env.scheme(self).as_bytes(),
        ];
        let mut writer = Writer::new(area, facts, texts)?;
        env.write_fields(self, arrival.body.bytes(), &mut writer)?;
        writer.finish(match &arrival.body {
            RequestBody::Inline(bytes) => bytes,
            RequestBody::File(_) => &[],
        })
    }
}
