//! Answers of the front's own: failures, and what asks about the server and not the application. It never
//! decides that there is one.

use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::{Response, StatusCode};

use crate::failure::Failure;
use crate::http::response_body::ResponseBody;
use crate::http::transaction::Transaction;

/// What `Allow` says of the server as a whole: the application decides for each path.
const METHODS: &str = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";

/// An answer of the front's own.
pub fn from_failure(transaction: &Transaction, failure: Failure) -> Response<ResponseBody> {
    let status = failure.status();
    let (content, content_type) = content(transaction, failure);
    let outcome = Some(failure.outcome());
    let body = ResponseBody::own(transaction, Some(content), status, outcome);
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    if let Some(seconds) = failure.retry_after() {
        headers.insert(header::RETRY_AFTER, seconds.into());
    }
    if failure == Failure::TraceRefused {
        headers.insert(header::ALLOW, HeaderValue::from_static(METHODS));
    }
    if failure == Failure::Unauthorized {
        let challenge = HeaderValue::from_static(r#"Basic realm="Restricted", charset="UTF-8""#);
        headers.insert(header::WWW_AUTHENTICATE, challenge);
    }
    if failure == Failure::Maintenance {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    if failure.closes() {
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// The content of such an answer, and its type: a page of the application's folder, or one line of text.
fn content(transaction: &Transaction, failure: Failure) -> (Bytes, &'static str) {
    let Transaction {
        application,
        request,
        ..
    } = transaction;
    let maintenance = match failure {
        Failure::Maintenance => application.gate.maintenance.page(&request.headers),
        _ => None,
    };
    let page = || {
        let page = application
            .error_pages
            .find(failure.status(), &request.headers)?;
        Some((page, "text/html; charset=utf-8"))
    };
    maintenance.or_else(page).unwrap_or_else(|| {
        let text = failure_text(failure);
        (text.into(), "text/plain; charset=utf-8")
    })
}

/// The server's own answer to `OPTIONS *`, which asks about the server and not the application
/// (RFC 9110 section 9.3.7).
pub fn options(transaction: &Transaction) -> Response<ResponseBody> {
    let status = StatusCode::NO_CONTENT;
    let body = ResponseBody::own(transaction, None, status, None);
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
