//! What happens to one message of one connection, from hyper's request to the response; and the log line
//! and counters of every request.
//!
//! It never reads raw bytes (the screen did) and never holds a request back: the dispatcher does.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use config::Settings;
use exchange::scheduling::monotonic_ns;
use http::header::{self, HeaderValue};
use http::{Method, Response, StatusCode, Version};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use tokio::sync::Notify;

use crate::dispatch::Dispatcher;
use crate::failure::{Failure, Outcome};
use crate::http::h1::connection::Connection;
use crate::http::request::{Peer, Request, RequestBody, RequestHead};
use crate::http::response::{self, ResponseBody};
use crate::http::screen::Refusal;
use crate::log::{AccessLog, Entry, Level, filter};
use crate::net::client_io::ClientIo;
use crate::net::idle::IdleConnections;
use crate::serve::errors;
use crate::serve::files::ApplicationFiles;
use crate::spool::{Spool, SpoolError};

/// Longest body that travels inside a slot.
pub const INLINE_BODY_BYTES: usize = 64 * 1024;

/// What all connections of a server share.
pub struct Service {
    /// The settings in force.
    pub settings: InForce,
    /// The queue and the exchange.
    pub dispatcher: Rc<Dispatcher>,
    /// The log.
    pub log: Rc<AccessLog>,
    /// Files that the application names.
    pub files: ApplicationFiles,
    /// Requests by outcome, in the order of [`Outcome::ALL`].
    pub counts: [Cell<u64>; Outcome::ALL.len()],
    /// Connections that are open.
    pub connections: Cell<usize>,
    /// Connections that were awake at the last tick or woke since. Weak: the list must keep none open.
    pub awake: RefCell<Vec<Weak<Connection>>>,
    /// Connections that idle without buffers.
    pub idle: IdleConnections,
    /// Whether newcomers find no place: idle connections then give their buffers back at the next tick, so that they can be
    /// given up.
    pub is_crowded: Cell<bool>,
    /// Told when a connection idles without buffers that is to be given away.
    pub rested: Notify,
}

/// Settings that may be replaced while the server runs.
pub struct InForce(RefCell<Rc<Settings>>);

impl InForce {
    /// These, until they are replaced.
    pub fn new(settings: Rc<Settings>) -> Self {
        Self(RefCell::new(settings))
    }

    /// Those of this moment.
    pub fn get(&self) -> Rc<Settings> {
        Rc::clone(&self.0.borrow())
    }

    /// From now on these.
    pub fn replace(&self, settings: Rc<Settings>) {
        self.0.replace(settings);
    }
}

/// What one connection and its service future tell each other.
pub struct Exchanged {
    /// The request that is with the dispatcher.
    pub current: RefCell<Option<Rc<Request>>>,
    /// The request whose application has taken the connection.
    pub hijacked: RefCell<Option<Rc<Request>>>,
    /// Whether a message is being answered: from its head until the response's body is dropped.
    pub busy: Cell<bool>,
    /// Whether the response to it is there, save what may still come of its body.
    pub responds: Cell<bool>,
    /// Whether the next message is to be its last one.
    pub stopping: Cell<bool>,
    /// What ended it before its time, other than the client's leaving. Written by the connection.
    pub cut_by: Cell<Option<Outcome>>,
    /// Whether only a reset tells the client that its response is not whole.
    pub needs_reset: Cell<bool>,
    /// Both ends of the connection.
    pub peer: Rc<Peer>,
    /// The socket.
    pub io: ClientIo,
}

/// The connection must be closed without a further byte.
#[derive(Debug, thiserror::Error)]
#[error("the connection is over")]
pub struct Over;

impl Service {
    /// Answers one message.
    ///
    /// # Errors
    /// [`Over`]: the client is gone, so nobody is answered.
    pub async fn answer(
        self: Rc<Self>,
        connection: Rc<Exchanged>,
        message: hyper::Request<Incoming>,
    ) -> Result<Response<ResponseBody>, Over> {
        connection.busy.set(true);
        connection.responds.set(false);
        let (parts, incoming) = message.into_parts();
        let head = RequestHead {
            method: parts.method,
            uri: parts.uri,
            raw_target: connection.io.take_raw_target(),
            version: parts.version,
            headers: parts.headers,
        };
        let request = Rc::new(Request::new(head, Rc::clone(&connection.peer)));
        let watch = Watch {
            service: &self,
            connection: &connection,
            request: &request,
        };
        let answer = match self.run(&connection, &request, incoming).await {
            Ok(Some(response)) => Ok(response),
            // The connection takes over from here and drops this future.
            Ok(None) => {
                watch.disarm();
                self.ended(&request, None, 0, Outcome::Hijacked);
                *connection.hijacked.borrow_mut() = Some(request);
                return std::future::pending().await;
            }
            // Dropping the watch tells of it.
            Err(Failure::ClientGone) if connection.io.is_gone() => return Err(Over),
            Err(failure) => {
                self.dispatcher.abandon(&request);
                Ok(errors::from_failure(&self, &connection, &request, failure))
            }
        };
        watch.disarm();
        connection.responds.set(true);
        answer.map(|mut response| {
            if connection.stopping.get() {
                let headers = response.headers_mut();
                headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            let closes = response.headers().contains_key(header::CONNECTION);
            if closes && request.version == Version::HTTP_10 {
                // Else hyper adds keep-alive beside it.
                *response.version_mut() = Version::HTTP_10;
            }
            response
        })
    }

    /// The response to a request; none when the application took the connection over.
    async fn run(
        self: &Rc<Self>,
        connection: &Rc<Exchanged>,
        request: &Rc<Request>,
        incoming: Incoming,
    ) -> Result<Option<Response<ResponseBody>>, Failure> {
        if request.method == Method::TRACE && !self.settings.get().allow_trace {
            return Err(Failure::TraceRefused);
        }
        let body = self.admit_and_read(connection, request, incoming).await?;
        request.arrive(body, self.request_timeout(request.path()));
        if request.method == Method::OPTIONS && request.path() == b"*" {
            return Ok(Some(errors::options(self, connection, request)));
        }
        self.dispatcher.submit(Rc::clone(request))?;
        *connection.current.borrow_mut() = Some(Rc::clone(request));
        let head = request
            .head(|hint| {
                // A client of HTTP/1.0 knows no interim responses (RFC 9110 section 15.2).
                if request.version == Version::HTTP_11 {
                    connection.io.try_write_between(hint);
                }
            })
            .await;
        connection.current.borrow_mut().take();
        let Some(head) = head? else { return Ok(None) };
        match response::from_worker(self, connection, request, head).await {
            Err(Failure::BadResponse(reason)) => {
                let text = format!("InvalidResponse: {reason}");
                crate::log::errors::app_error(&self.log, request, &text);
                Err(Failure::BadResponse(reason))
            }
            other => other.map(Some),
        }
    }

    /// The time that a request for this path has.
    pub(crate) fn request_timeout(&self, path: &[u8]) -> Duration {
        let settings = self.settings.get();
        let own = settings.request_timeouts.find(path);
        own.copied().unwrap_or(settings.request_timeout)
    }

    /// Reads the whole body, so that a slow client never holds Ruby. A client that waits for 100
    /// (Continue) gets it from hyper with the first read, and only if the request would be taken.
    async fn admit_and_read(
        &self,
        connection: &Exchanged,
        request: &Request,
        mut incoming: Incoming,
    ) -> Result<RequestBody, Failure> {
        if connection
            .io
            .head()
            .is_some_and(|head| head.expect_continue)
        {
            self.dispatcher.admits(request.path())?;
        }
        if incoming.is_end_stream() {
            return Ok(RequestBody::Inline(Bytes::new()));
        }
        let mut memory = BytesMut::new();
        let mut file: Option<Spool> = None;
        while let Some(frame) = incoming.frame().await {
            let frame = frame.map_err(|_| match connection.io.refusal() {
                Some(refusal) => Failure::Refused(refusal),
                None => Failure::BodyCut,
            })?;
            let Ok(data) = frame.into_data() else {
                continue;
            };
            if file.is_none() && memory.len() + data.len() <= INLINE_BODY_BYTES {
                memory.extend_from_slice(&data);
                continue;
            }
            if file.is_none() {
                let spools = self.dispatcher.spools();
                let directory = Arc::clone(&spools.directory);
                let mut spool = Spool::new(directory, crate::spool::BATCH_BYTES).within(spools);
                spool.push(&std::mem::take(&mut memory));
                file = Some(spool);
            }
            if let Some(spool) = &mut file {
                connection.io.stores(true);
                let stored = spool.append(&data).await;
                connection.io.stores(false);
                stored.map_err(|error| self.not_stored(&error))?;
            }
        }
        match file {
            None => Ok(RequestBody::Inline(memory.freeze())),
            Some(mut spool) => {
                spool
                    .flush()
                    .await
                    .map_err(|error| self.not_stored(&error))?;
                Ok(RequestBody::File(spool))
            }
        }
    }

    fn not_stored(&self, error: &SpoolError) -> Failure {
        self.log.event(
            Level::Error,
            "a request's body could not be stored",
            &[("reason", error)],
        );
        Failure::NotStored("its body could not be kept on disk")
    }

    /// A message that never became a request, for the screen refused it.
    pub fn refused(&self, refusal: Refusal, io: &ClientIo) {
        let failure = Failure::Refused(refusal);
        self.count(failure.outcome());
        let settings = self.settings.get();
        if settings.access_log {
            let (method, target) = io.refused_line();
            self.log.record(&Entry {
                method: &method,
                path: &filter(&target, &settings.log_filter_parameters),
                status: Some(refusal.status),
                bytes: 0,
                queue: None,
                app: None,
                worker: None,
                generation: None,
                outcome: failure.outcome().name(),
            });
        }
    }

    /// A request has its outcome: one line, one count.
    pub fn ended(
        &self,
        request: &Request,
        status: Option<StatusCode>,
        bytes: u64,
        outcome: Outcome,
    ) {
        self.count(outcome);
        let settings = self.settings.get();
        if !settings.access_log {
            return;
        }
        let (claimed, finished) = request.times.get();
        let claimed = Some(claimed).filter(|&at| at != 0);
        let finished = if finished == 0 {
            monotonic_ns()
        } else {
            finished
        };
        let since = |from: u64, to: u64| Duration::from_nanos(to.saturating_sub(from));
        self.log.record(&Entry {
            method: request.method.as_str().as_bytes(),
            path: &filter(request.target(), &settings.log_filter_parameters),
            status: status.map(|status| status.as_u16()),
            bytes,
            queue: claimed
                .zip(request.arrival())
                .map(|(claimed, arrival)| since(arrival.ns, claimed)),
            app: claimed.map(|claimed| since(claimed, finished)),
            worker: request.worker.get().map(|by| by.worker.into()),
            generation: request.worker.get().map(|by| by.generation),
            outcome: outcome.name(),
        });
    }

    fn count(&self, outcome: Outcome) {
        let count = &self.counts[outcome as usize];
        count.set(count.get() + 1);
    }
}

/// Gives the request up, and logs it, when the connection's future is dropped before there is a response.
struct Watch<'a> {
    service: &'a Rc<Service>,
    connection: &'a Rc<Exchanged>,
    request: &'a Rc<Request>,
}

impl Watch<'_> {
    fn disarm(self) {
        std::mem::forget(self);
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        self.connection.current.borrow_mut().take();
        self.connection.busy.set(false);
        self.service.dispatcher.abandon(self.request);
        let outcome = self.connection.cut_by.get();
        let outcome = outcome.unwrap_or(Outcome::ClientGone);
        self.service.ended(self.request, None, 0, outcome);
    }
}
