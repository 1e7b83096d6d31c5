//! Responses made of stored ones. It decides nothing about storing.

use std::sync::Arc;
use std::time::SystemTime;

use ::cache::{Entry, is_not_modified};
use bytes::Bytes;
use http::header::{self, HeaderName, HeaderValue};
use http::{HeaderMap, Method, Response, StatusCode};

use crate::http::request_id::X_REQUEST_ID;
use crate::http::response;
use crate::http::response_body::ResponseBody;
use crate::http::transaction::Transaction;
use crate::serve::kept_body::KeptBody;
use crate::serve::preconditions::{parse_date, range_holds};
use crate::serve::ranges::{self, Wanted};
use crate::serve::server_fields;

/// How caches handled a request (RFC 9211).
const CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");

/// Fields of an answer 304 (RFC 9110 section 15.4.5), besides those about caches that are the application's own.
const OF_CONTENT: [HeaderName; 6] = [
    header::CONTENT_LENGTH,
    header::CONTENT_TYPE,
    header::CONTENT_ENCODING,
    header::CONTENT_LANGUAGE,
    header::CONTENT_RANGE,
    header::CONTENT_DISPOSITION,
];

/// The stored response for a request that it answers; 304, 206 or 416 where the client asked for that.
pub fn hit(
    transaction: &Transaction,
    entry: &Arc<Entry>,
    now: SystemTime,
) -> Response<ResponseBody> {
    let left = entry.freshness.lifetime_s as i64 - entry.freshness.age_s(now) as i64;
    from_entry(
        transaction,
        entry,
        now,
        &format!("Highball; hit; ttl={left}"),
    )
}

/// The same, after the application was asked about it.
pub fn after_asking(
    transaction: &Transaction,
    entry: &Arc<Entry>,
    status: u16,
) -> Response<ResponseBody> {
    let text = format!("Highball; fwd=stale; fwd-status={status}");
    from_entry(transaction, entry, SystemTime::now(), &text)
}

/// 504: only a stored response was wanted (RFC 9111 section 5.2.1.7).
pub fn only_if_cached(transaction: &Transaction) -> Response<ResponseBody> {
    let status = StatusCode::GATEWAY_TIMEOUT;
    let text = Bytes::from_static(b"504 Gateway Timeout: no stored response\n");
    let body = ResponseBody::own(transaction, Some(text), status, None);
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, plain);
    response
}

fn from_entry(
    transaction: &Transaction,
    entry: &Arc<Entry>,
    now: SystemTime,
    note: &str,
) -> Response<ResponseBody> {
    let request = &transaction.request;
    let mut fields = entry.fields.clone();
    // It is the id of the request that the application has answered.
    fields.remove(X_REQUEST_ID);
    server_fields::remove(&mut fields);
    fields.insert(header::AGE, entry.freshness.age_s(now).into());
    if let Ok(note) = HeaderValue::from_str(note) {
        fields.append(CACHE_STATUS, note);
    }
    let (status, body) = content(&request.method, &request.headers, entry, &mut fields);
    let mut body = ResponseBody::own(transaction, body, status, None);
    if status == entry.status {
        body.set_kept(KeptBody::Stored(Arc::clone(entry)));
    }
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = fields;
    response::complete(&mut response, request.version);
    response
}

/// Status and body, and the fields that go with them.
fn content(
    method: &Method,
    request: &HeaderMap,
    entry: &Arc<Entry>,
    fields: &mut HeaderMap,
) -> (StatusCode, Option<Bytes>) {
    if is_not_modified(request, entry.status, &entry.fields) {
        OF_CONTENT.iter().for_each(|name| drop(fields.remove(name)));
        return (StatusCode::NOT_MODIFIED, None);
    }
    let length = entry.body.len() as u64;
    let wanted = match method == Method::GET && entry.status == StatusCode::OK {
        true => wanted_part(request, &entry.fields, length),
        false => Wanted::All,
    };
    let range = |text: String| HeaderValue::from_str(&text).ok();
    let (status, body, range) = match wanted {
        Wanted::Parts(parts) if parts.len() == 1 => {
            let part = &parts[0];
            let text = ranges::content_range(part, length);
            let body = entry.body.slice(part.start as usize..part.end as usize);
            (StatusCode::PARTIAL_CONTENT, body, range(text))
        }
        // Several parts at once get the whole, which is allowed.
        Wanted::All | Wanted::Parts(_) => (entry.status, entry.body.clone(), None),
        Wanted::Unsatisfiable => {
            let text = format!("bytes */{length}");
            (StatusCode::RANGE_NOT_SATISFIABLE, Bytes::new(), range(text))
        }
    };
    if let Some(range) = range {
        fields.insert(header::CONTENT_RANGE, range);
    }
    if status != StatusCode::NO_CONTENT {
        fields.insert(header::CONTENT_LENGTH, body.len().into());
    }
    let body = (method == Method::GET && !body.is_empty()).then_some(body);
    (status, body)
}

/// What a GET asks for of a stored response with these fields, and a body of `length` bytes.
fn wanted_part(request: &HeaderMap, response: &HeaderMap, length: u64) -> Wanted {
    let mut lines = request.get_all(header::RANGE).iter();
    let (Some(line), None) = (lines.next(), lines.next()) else {
        return Wanted::All;
    };
    let modified = response.get(header::LAST_MODIFIED);
    let modified = modified.and_then(|date| parse_date(date.as_bytes()));
    match range_holds(request, response.get(header::ETAG), modified) {
        true => ranges::parse(line.as_bytes(), length),
        false => Wanted::All,
    }
}
