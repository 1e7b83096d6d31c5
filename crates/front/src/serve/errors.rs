//! Answers of the front's own: failures, and what asks about the server and not the application. It never
//! decides that there is one.

use std::rc::Rc;

use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::{Response, StatusCode};

use crate::edge::Edge;
use crate::failure::Failure;
use crate::http::h1::state::ConnectionState;
use crate::http::incoming::Transaction;
use crate::http::response::ResponseBody;

/// What `Allow` says of the server as a whole: the application decides for each path.
const METHODS: &str = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";

/// An answer of the front's own.
pub fn from_failure(
    edge: &Rc<Edge>,
    connection: &Rc<ConnectionState>,
    transaction: &Transaction,
    failure: Failure,
) -> Response<ResponseBody> {
    let status = failure.status();
    let text = failure_text(failure);
    let text = Some(Bytes::from(text));
    let outcome = Some(failure.outcome());
    let body = ResponseBody::own(edge, connection, transaction, text, status, outcome);
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    if let Some(seconds) = failure.retry_after() {
        headers.insert(header::RETRY_AFTER, seconds.into());
    }
    if failure == Failure::TraceRefused {
        headers.insert(header::ALLOW, HeaderValue::from_static(METHODS));
    }
    if failure.closes() {
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// The server's own answer to `OPTIONS *`, which asks about the server and not the application
/// (RFC 9110 section 9.3.7).
pub fn options(
    edge: &Rc<Edge>,
    connection: &Rc<ConnectionState>,
    transaction: &Transaction,
) -> Response<ResponseBody> {
    let status = StatusCode::NO_CONTENT;
    let body = ResponseBody::own(edge, connection, transaction, None, status, None);
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(header::ALLOW, HeaderValue::from_static(METHODS));
    response
}

/// The text of an answer of the front's own: the status and, where it is the client's business, the reason.
pub fn failure_text(failure: Failure) -> String {
    let status = failure.status();
    let reason = status.canonical_reason().unwrap_or("Error");
    match failure {
        Failure::Refused(refusal) => format!("{} {reason}: {}\n", status.as_u16(), refusal.reason),
        _ => format!("{} {reason}\n", status.as_u16()),
    }
}
