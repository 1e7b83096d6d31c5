//! Answers of the front's own: failures, and what asks about the server and not the application. It never
//! decides that there is one.

use std::rc::Rc;

use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::{Response, StatusCode};

use crate::failure::Failure;
use crate::http::request::Request;
use crate::http::response::{Record, ResponseBody, Source};
use crate::http::service::{Exchanged, Service};

/// What `Allow` says of the server as a whole: the application decides for each path.
const METHODS: &str = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";

/// An answer of the front's own.
pub fn from_failure(
    service: &Rc<Service>,
    connection: &Rc<Exchanged>,
    request: &Rc<Request>,
    failure: Failure,
) -> Response<ResponseBody> {
    let status = failure.status();
    let text = failure_text(failure);
    let record = Record::new(
        service,
        connection,
        request,
        status,
        Some(failure.outcome()),
    );
    let body = ResponseBody {
        left: None,
        source: Source::Memory(Some(Bytes::from(text))),
        record,
    };
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
    service: &Rc<Service>,
    connection: &Rc<Exchanged>,
    request: &Rc<Request>,
) -> Response<ResponseBody> {
    let record = Record::new(service, connection, request, StatusCode::NO_CONTENT, None);
    let mut response = Response::new(ResponseBody {
        left: None,
        source: Source::Memory(None),
        record,
    });
    *response.status_mut() = StatusCode::NO_CONTENT;
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
