//! What happens to one message of one connection, from hyper's request to the response; and the log line
//! and counters of every request.
//!
//! It never reads raw bytes (the screen did) and never holds a request back: the dispatcher does.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use config::Settings;
use exchange::scheduling::monotonic_ns;
use http::{Method, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};

use crate::access_log::{AccessLog, Entry, Level};
use crate::client_io::ClientIo;
use crate::dispatch::Dispatcher;
use crate::failure::{Failure, Outcome};
use crate::request::{Peer, Request, RequestBody, RequestHead};
use crate::response::{self, ResponseBody};
use crate::screen::Refusal;
use crate::spool::{Spool, SpoolError};

/// Longest body that travels inside a slot.
pub const INLINE_BODY_BYTES: usize = 64 * 1024;

/// What all connections of a server share.
pub struct Service {
    /// The settings.
    pub settings: Rc<Settings>,
    /// The queue and the exchange.
    pub dispatcher: Rc<Dispatcher>,
    /// The log.
    pub log: Rc<AccessLog>,
    /// The generation that serves.
    pub generation: u32,
    /// Requests by outcome, in the order of [`Outcome::ALL`].
    pub counts: [Cell<u64>; Outcome::ALL.len()],
    /// Connections that are open.
    pub connections: Cell<usize>,
}

/// What one connection and its service future tell each other.
pub struct Exchanged {
    /// The request that is with the dispatcher.
    pub current: RefCell<Option<Rc<Request>>>,
    /// The request whose application has taken the connection.
    pub hijacked: RefCell<Option<Rc<Request>>>,
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
        let (parts, incoming) = message.into_parts();
        let head = RequestHead {
            method: parts.method,
            uri: parts.uri,
            version: parts.version,
            headers: parts.headers,
        };
        let waits_for_continue = connection
            .io
            .head()
            .is_some_and(|head| head.expect_continue);
        let body = match self
            .admit_and_read(&connection, incoming, waits_for_continue)
            .await
        {
            Ok(body) => body,
            Err(failure) => {
                let request =
                    Rc::new(self.request(head, RequestBody::Inline(Bytes::new()), &connection));
                if failure == Failure::ClientGone {
                    self.ended(&request, None, 0, Outcome::ClientGone);
                    return Err(Over);
                }
                return Ok(response::from_failure(&self, Some(&request), failure));
            }
        };
        let request = Rc::new(self.request(head, body, &connection));
        if request.method == Method::OPTIONS && request.uri.path() == "*" {
            return Ok(response::options(&self, &request));
        }
        self.run(&connection, request).await
    }

    async fn run(
        self: &Rc<Self>,
        connection: &Rc<Exchanged>,
        request: Rc<Request>,
    ) -> Result<Response<ResponseBody>, Over> {
        if let Err(failure) = self.dispatcher.submit(Rc::clone(&request)) {
            return Ok(response::from_failure(self, Some(&request), failure));
        }
        let watch = Watch {
            service: self,
            connection,
            request: &request,
        };
        *connection.current.borrow_mut() = Some(Rc::clone(&request));
        let head = request
            .head(|hint| {
                connection.io.try_write_between(hint);
            })
            .await;
        connection.current.borrow_mut().take();
        std::mem::forget(watch);
        let head = match head {
            Ok(Some(head)) => head,
            Ok(None) => {
                self.ended(&request, None, 0, Outcome::Hijacked);
                *connection.hijacked.borrow_mut() = Some(request);
                // The connection takes over from here and drops this future.
                std::future::pending::<()>().await;
                return Err(Over);
            }
            Err(failure) => return Ok(response::from_failure(self, Some(&request), failure)),
        };
        let response = response::from_worker(self, &request, head).await;
        response.or_else(|failure| {
            if let Failure::BadResponse(reason) = failure {
                self.bad_response(&request, reason);
            }
            self.dispatcher.abandon(&request);
            Ok(response::from_failure(self, Some(&request), failure))
        })
    }

    fn request(&self, head: RequestHead, body: RequestBody, connection: &Exchanged) -> Request {
        let timeout = self.settings.request_timeout.as_nanos() as u64;
        Request::new(head, body, Rc::clone(&connection.peer), timeout)
    }

    /// Reads the whole body, so that a slow client never holds Ruby. A client that waits for 100
    /// (Continue) gets it from hyper with the first read, and only if the request would be taken.
    async fn admit_and_read(
        &self,
        connection: &Exchanged,
        mut incoming: Incoming,
        waits_for_continue: bool,
    ) -> Result<RequestBody, Failure> {
        if waits_for_continue {
            self.dispatcher.admits()?;
        }
        if incoming.is_end_stream() {
            return Ok(RequestBody::Inline(Bytes::new()));
        }
        let mut memory = BytesMut::new();
        let mut file: Option<Spool> = None;
        while let Some(frame) = incoming.frame().await {
            let frame = frame.map_err(|_| match connection.io.refusal() {
                Some(refusal) => Failure::Refused(refusal),
                None => Failure::ClientGone,
            })?;
            let Ok(data) = frame.into_data() else {
                continue;
            };
            if file.is_none() && memory.len() + data.len() <= INLINE_BODY_BYTES {
                memory.extend_from_slice(&data);
                continue;
            }
            if file.is_none() {
                let mut spool = Spool::new(std::env::temp_dir().into(), crate::spool::BATCH_BYTES);
                spool.push(&std::mem::take(&mut memory));
                file = Some(spool);
            }
            if let Some(spool) = &mut file {
                spool
                    .append(&data)
                    .await
                    .map_err(|error| self.not_stored(&error))?;
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
    pub fn refused(&self, refusal: Refusal) {
        let failure = Failure::Refused(refusal);
        self.count(failure.outcome());
        if self.settings.access_log {
            self.log.record(&Entry {
                method: b"-",
                path: b"-",
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
        if !self.settings.access_log {
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
            path: request
                .uri
                .path_and_query()
                .map_or("/", |target| target.as_str())
                .as_bytes(),
            status: status.map(|status| status.as_u16()),
            bytes,
            queue: claimed.map(|claimed| since(request.arrived_ns, claimed)),
            app: claimed.map(|claimed| since(claimed, finished)),
            worker: request.worker.get().map(u32::from),
            generation: request.worker.get().map(|_| self.generation),
            outcome: outcome.name(),
        });
    }

    fn bad_response(&self, request: &Request, reason: &'static str) {
        crate::error_log::app_error(
            &self.log,
            self.generation,
            request,
            &format!("InvalidResponse: {reason}"),
        );
    }

    fn count(&self, outcome: Outcome) {
        let count = &self.counts[outcome as usize];
        count.set(count.get() + 1);
    }
}

/// Gives the request up when the connection's future is dropped while it waits.
struct Watch<'a> {
    service: &'a Rc<Service>,
    connection: &'a Rc<Exchanged>,
    request: &'a Rc<Request>,
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        self.connection.current.borrow_mut().take();
        self.service.dispatcher.abandon(self.request);
        self.service
            .ended(self.request, None, 0, Outcome::ClientGone);
    }
}
