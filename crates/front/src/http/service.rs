//! What happens to one message of one connection, from hyper's request to the response.
//!
//! It never reads raw bytes (the screen did) and never holds a request back: the dispatcher does.

use std::rc::Rc;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::header::{self, HeaderValue};
use http::{Method, Response, Version};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};

use crate::edge::Edge;
use crate::failure::{Failure, Outcome};
use crate::http::access_log::log_request;
use crate::http::h1::state::ConnectionState;
use crate::http::incoming::Transaction;
use crate::http::request::{NO_DEADLINE, Request, RequestBody, RequestHead};
use crate::http::request_id::{self, X_REQUEST_ID};
use crate::http::response::{self, ResponseBody};
use crate::messages::Admission;
use crate::serve::errors;
use crate::spool::Spool;

/// Longest body that travels inside a slot.
pub const INLINE_BODY_BYTES: usize = 64 * 1024;

/// The client has left, so the connection must be closed without a further byte.
#[derive(Debug, thiserror::Error)]
#[error("the client has left")]
pub struct ClientGone;

/// Answers one message.
///
/// # Errors
/// [`ClientGone`]: no answer is sent.
pub async fn answer(
    edge: Rc<Edge>,
    connection: Rc<ConnectionState>,
    message: hyper::Request<Incoming>,
) -> Result<Response<ResponseBody>, ClientGone> {
    connection.busy.set(true);
    connection.responds.set(false);
    let (parts, incoming) = message.into_parts();
    let id = request_id::of(&edge.settings.get(), &connection.peer, &parts.headers);
    let head = RequestHead {
        id,
        method: parts.method,
        uri: parts.uri,
        raw_target: connection.io.take_raw_target(),
        version: parts.version,
        headers: parts.headers,
    };
    let transaction = Transaction {
        request: Arc::new(Request::new(head, Arc::clone(&connection.peer))),
        response: connection.next_response(&edge.responses),
    };
    let guard = AbandonGuard {
        edge: &edge,
        connection: &connection,
        transaction: &transaction,
    };
    let answer = match run(&edge, &connection, &transaction, incoming).await {
        Ok(Some(response)) => Ok(response),
        // The connection takes over from here and drops this future.
        Ok(None) => {
            guard.disarm();
            log_request(&edge, &transaction, None, 0, Outcome::Hijacked);
            *connection.hijacked.borrow_mut() = Some(transaction);
            return std::future::pending().await;
        }
        // Dropping the guard logs it.
        Err(Failure::ClientGone) if connection.io.is_gone() => return Err(ClientGone),
        Err(failure) => {
            abandon(&edge, &transaction);
            Ok(errors::from_failure(
                &edge,
                &connection,
                &transaction,
                failure,
            ))
        }
    };
    guard.disarm();
    connection.responds.set(true);
    answer.map(|response| add_common_fields(&connection, &transaction.request, response))
}

/// Adds the fields that every response has: the request's id, and whether the connection is closed after it.
fn add_common_fields(
    connection: &ConnectionState,
    request: &Request,
    mut response: Response<ResponseBody>,
) -> Response<ResponseBody> {
    if let Some(id) = &request.id {
        // The application may have set another one.
        let entry = response.headers_mut().entry(X_REQUEST_ID);
        entry.or_insert_with(|| id.clone());
    }
    if connection.stopping.get() {
        let headers = response.headers_mut();
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    let closes = response.headers().contains_key(header::CONNECTION);
    if closes && request.version == Version::HTTP_10 {
        // Otherwise hyper adds keep-alive to it.
        *response.version_mut() = Version::HTTP_10;
    }
    response
}

/// Returns the response to a request; none when the application took the connection over.
async fn run(
    edge: &Rc<Edge>,
    connection: &Rc<ConnectionState>,
    transaction: &Transaction,
    incoming: Incoming,
) -> Result<Option<Response<ResponseBody>>, Failure> {
    let Transaction { request, response } = transaction;
    if request.method == Method::TRACE && !edge.settings.get().allow_trace {
        return Err(Failure::TraceRefused);
    }
    let body = admit_and_read(edge, connection, request, incoming).await?;
    let timeout = edge.settings.get().request_timeout_of(request.path());
    let timeout = timeout.unwrap_or(NO_DEADLINE);
    request.arrive(body, timeout);
    if request.method == Method::OPTIONS && request.path() == b"*" {
        return Ok(Some(errors::options(edge, connection, transaction)));
    }
    let id = edge.dispatcher.submit(
        Arc::clone(request),
        Rc::clone(response) as Rc<dyn crate::messages::Reply>,
    );
    response.answers(id);
    connection.current.set(Some(id));
    let head = response
        .head(&request.method, |hint| {
            // A client of HTTP/1.0 knows no interim responses (RFC 9110 section 15.2).
            if request.version == Version::HTTP_11 {
                connection.io.try_write_between(hint);
            }
        })
        .await;
    connection.current.set(None);
    let Some(head) = head? else { return Ok(None) };
    edge.dispatcher.head_taken(id);
    match response::from_worker(edge, connection, transaction, head).await {
        Err(Failure::BadResponse(reason)) => {
            edge.invalid_response(transaction, reason);
            Err(Failure::BadResponse(reason))
        }
        other => other.map(Some),
    }
}

/// Reads the whole body, so that a slow client never holds Ruby. A client that waits for 100
/// (Continue) gets it from hyper with the first read, and only if the request would be taken.
async fn admit_and_read(
    edge: &Edge,
    connection: &ConnectionState,
    request: &Request,
    mut incoming: Incoming,
) -> Result<RequestBody, Failure> {
    let expects = connection
        .io
        .head()
        .is_some_and(|head| head.expect_continue);
    if expects {
        admit(edge, request).await?;
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
            let spools = &edge.responses.spools;
            let directory = Arc::clone(&spools.directory);
            let mut spool = Spool::new(directory, crate::spool::BATCH_BYTES).within(spools);
            spool.push(&std::mem::take(&mut memory));
            file = Some(spool);
        }
        if let Some(spool) = &mut file {
            connection.io.flow().set_storing(true);
            let stored = spool.append(&data).await;
            connection.io.flow().set_storing(false);
            stored.map_err(|error| edge.not_stored(&error))?;
        }
    }
    match file {
        None => Ok(RequestBody::Inline(memory.freeze())),
        Some(mut spool) => {
            let flushed = spool.flush().await;
            flushed.map_err(|error| edge.not_stored(&error))?;
            Ok(RequestBody::File(spool))
        }
    }
}

/// Asks whether the request would be taken.
async fn admit(edge: &Edge, request: &Request) -> Result<(), Failure> {
    match edge.dispatcher.admits(request.path()) {
        Admission::Decided(decided) => decided,
        Admission::Asked(asked) => asked.await.unwrap_or(Err(Failure::Stopping)),
    }
}

/// Gives the request up: no client wants the response any more.
fn abandon(edge: &Edge, transaction: &Transaction) {
    if let Some(id) = transaction.response.id() {
        edge.dispatcher.abandon(id);
    }
}

/// Gives the request up, and logs it, when the connection's future is dropped before there is a response.
struct AbandonGuard<'a> {
    edge: &'a Rc<Edge>,
    connection: &'a Rc<ConnectionState>,
    transaction: &'a Transaction,
}

impl AbandonGuard<'_> {
    fn disarm(self) {
        std::mem::forget(self);
    }
}

impl Drop for AbandonGuard<'_> {
    fn drop(&mut self) {
        self.connection.current.set(None);
        self.connection.busy.set(false);
        abandon(self.edge, self.transaction);
        let outcome = self.connection.cut_by.get();
        let outcome = outcome.unwrap_or(Outcome::ClientGone);
        log_request(self.edge, self.transaction, None, 0, outcome);
    }
}
