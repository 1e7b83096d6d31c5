//! The response of a worker as hyper takes it: checked against what its head promises. It never reads a socket, and takes no
//! byte of the body.

use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use exchange::scheduling::monotonic_ns;
use http::header::{self, HeaderValue};
use http::{HeaderMap, Method, Response, StatusCode, Version};
use hyper::ext::ReasonPhrase;

use crate::edge::Edge;
use crate::failure::Failure;
use crate::http::incoming::IncomingResponse;
use crate::http::response_body::{ResponseBody, Source};
use crate::http::response_head::{self, ResponseHead};
use crate::http::transaction::Transaction;
use crate::http::worker_body::{WorkerStream, take_whole};
use crate::messages::ResponseEnd;
use crate::serve::file_body::{FILE_READ_BYTES, FileBody};
use crate::serve::files::answer::{self, FileFacts};
use crate::serve::files::named::NamedFile;
use crate::serve::files::{FileError, FileLimits};
use crate::serve::ranges::{self, Wanted};
use crate::serve::server_fields;

/// Returns the application's response, whose head has arrived.
///
/// # Errors
/// It can't be sent as it is.
pub async fn from_worker(
    transaction: &Transaction,
    head: ResponseHead,
) -> Result<Response<ResponseBody>, Failure> {
    let ResponseHead {
        status,
        mut headers,
        declared,
        chunked_by_app,
        has_server_fields,
        named_file,
        unbuffered: _,
    } = head;
    if has_server_fields {
        server_fields::hide(&transaction.request.peer, &mut headers);
    }
    let Transaction {
        edge,
        request,
        response,
        ..
    } = transaction;
    let mut left = declared;
    let file = response.buffer().file.take();
    let has_content = !response_head::is_bodyless(&Method::GET, status);
    let source = if let Some(file) = named_file.filter(|_| has_content) {
        discard(transaction);
        return from_file(transaction, *file, None, status, headers).await;
    } else if response_head::is_bodyless(&request.method, status) {
        left = None;
        if declared.is_none() && !chunked_by_app && has_content {
            let length = content_length_of_get(response).map(HeaderValue::from);
            headers.extend(length.map(|length| (header::CONTENT_LENGTH, length)));
        }
        drain(edge, response)
    } else if let Some(path) = file {
        let file = NamedFile { path, roots: None };
        return from_file(transaction, file, declared, status, headers).await;
    } else {
        match take_whole(response, declared, chunked_by_app)? {
            Some(whole) => Source::Memory(whole),
            None => {
                // Still watched: the client of a response that pauses may leave in a pause.
                transaction.client.set_submitted(response.id());
                Source::Stream(WorkerStream::new(chunked_by_app))
            }
        }
    };
    let body = ResponseBody::new(transaction, source, left, status);
    Ok(completed(transaction, status, headers, body))
}

fn completed(
    transaction: &Transaction,
    status: StatusCode,
    headers: HeaderMap,
    body: ResponseBody,
) -> Response<ResponseBody> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    complete(&mut response, transaction.request.version);
    response
}

/// Returns a response whose body is a file that the application named, or what the client wants of it. `declared` is the length
/// that the response declares.
async fn from_file(
    transaction: &Transaction,
    file: NamedFile,
    declared: Option<u64>,
    status: StatusCode,
    mut headers: HeaderMap,
) -> Result<Response<ResponseBody>, Failure> {
    let request = &transaction.request;
    let method = &request.method;
    let (mut body, facts) = open_file(transaction, file, declared).await?;
    let (mut status, mut wanted) = (status, Some(Wanted::All));
    let is_part = headers.contains_key(header::CONTENT_RANGE);
    if status == StatusCode::OK && matches!(*method, Method::GET | Method::HEAD) && !is_part {
        (status, wanted) = answer::decide(method, &request.headers, &mut headers, facts);
    }
    let body = match wanted {
        Some(_) if *method == Method::HEAD => {
            headers.insert(header::CONTENT_LENGTH, facts.bytes.into());
            ResponseBody::own(transaction, None, status, None)
        }
        Some(Wanted::Parts(mut parts)) if parts.len() > 1 => {
            let parts = std::mem::take(&mut parts);
            let whole = put_together(transaction, body, parts, facts, &mut headers).await?;
            ResponseBody::own(transaction, Some(whole), status, None)
        }
        Some(Wanted::Parts(parts)) => {
            parts.into_iter().for_each(|part| body.narrow(part));
            ResponseBody::of_file(transaction, body, status)
        }
        Some(_) => ResponseBody::of_file(transaction, body, status),
        None => ResponseBody::own(transaction, None, status, None),
    };
    Ok(completed(transaction, status, headers, body))
}

/// Puts several parts of a file into one body, and says so in the fields.
async fn put_together(
    transaction: &Transaction,
    file: FileBody,
    parts: Vec<Range<u64>>,
    facts: FileFacts,
    headers: &mut HeaderMap,
) -> Result<Bytes, Failure> {
    let parts = file.read_parts(parts).await.map_err(|error| {
        transaction.log_invalid_response(&format!("cannot read the file: {error}"));
        Failure::AppError
    })?;
    let boundary = ranges::boundary();
    let value = format!("multipart/byteranges; boundary={boundary}");
    let value = HeaderValue::from_str(&value).expect("printable characters");
    let content_type = headers.insert(header::CONTENT_TYPE, value);
    let content_type = content_type.as_ref().and_then(|value| value.to_str().ok());
    let content_type = content_type.unwrap_or("application/octet-stream");
    Ok(ranges::multipart(
        &parts,
        facts.bytes,
        content_type,
        &boundary,
    ))
}

/// Adds the fields that are the front's and not the application's.
pub fn complete(response: &mut Response<ResponseBody>, version: Version) {
    let status = response.status();
    if status.canonical_reason().is_none() {
        // As nginx does (RFC 9112 section 4); hyper would write `<none>`.
        let none = ReasonPhrase::from_static(b"");
        response.extensions_mut().insert(none);
    }
    let body = response.body();
    let unknown_length = body.is_stream() && body.left.is_none();
    let length = match &body.source {
        Source::File(file) => Some(file.bytes()),
        _ if status == StatusCode::RESET_CONTENT => Some(0),
        _ => None,
    };
    let headers = response.headers_mut();
    if version == Version::HTTP_10 && unknown_length {
        // Only the end of the connection shows an HTTP/1.0 client where the body ends, also one that asked
        // for keep-alive (RFC 9112 section 6.3).
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    if let Some(length) = length {
        headers.insert(header::CONTENT_LENGTH, length.into());
    }
}

/// The length that a GET would have got in place of this HEAD (RFC 9110 section 8.6): that of what the application answers
/// with, once it is whole. An empty body says nothing, for middleware (`Rack::Head`) leaves one of any.
fn content_length_of_get(response: &IncomingResponse) -> Option<u64> {
    let buffer = response.buffer();
    let whole = buffer.end == Some(ResponseEnd::Complete) && buffer.spool.is_none();
    Some(buffer.chunks.bytes() as u64).filter(|&length| whole && length > 0)
}

/// Lets the worker finish a response that no client gets.
pub fn discard(transaction: &Transaction) {
    drain(&transaction.edge, &transaction.response);
}

/// A response without a body still lets its worker finish: what it writes is not wanted.
fn drain(edge: &Edge, response: &IncomingResponse) -> Source {
    let mut buffer = response.buffer();
    buffer.chunks.clear();
    buffer.file = None;
    let open = buffer.end.is_none();
    drop(buffer);
    if let (true, Some(id)) = (open, response.id()) {
        edge.dispatcher.no_more(id);
        // What did not fit until now waits in the worker's ring, and nothing else would announce the room.
        edge.dispatcher.consumed(id);
    }
    Source::Memory(None)
}

/// Opens the file that is the body. Where that fails the log says why, with its path.
async fn open_file(
    transaction: &Transaction,
    file: NamedFile,
    declared: Option<u64>,
) -> Result<(FileBody, FileFacts), Failure> {
    let application = &transaction.application;
    let settings = application.settings.get();
    let deadline = transaction.request.deadline_ns();
    let left = deadline.saturating_sub(monotonic_ns());
    // What is sent past hyper is read by nobody, nor what the client may not want.
    let unread = match transaction.client.file_socket() {
        _ if answer::may_want_less(&transaction.request.headers) => 0,
        Some(_) => FILE_READ_BYTES as u64,
        None => u64::MAX,
    };
    let limits = FileLimits {
        open: settings.file_timeout.min(Duration::from_nanos(left)),
        read: settings.file_timeout,
        waiting: settings.queue_limit,
        unread,
    };
    let path = file.path.clone();
    let opened = application.files.open(file, declared, limits).await;
    opened.map_err(|error| {
        let text = format!("cannot send the file {}: {error}", path.display());
        transaction.log_invalid_response(&text);
        match error {
            FileError::TooManyWait(_) => Failure::TooManyFiles,
            FileError::Timeout(_) => Failure::FileTimeout,
            FileError::Outside | FileError::TooShort | FileError::Io(_) => Failure::AppError,
        }
    })
}
