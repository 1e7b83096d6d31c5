//! The response as hyper takes it: checked against what its head promises, and made from memory, a stream from a worker, or
//! a file.
//!
//! It never reads a socket.

use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use exchange::scheduling::monotonic_ns;
use http::header::{self, HeaderValue};
use http::{Method, Response, StatusCode, Version};
use hyper::ext::ReasonPhrase;

use crate::edge::Edge;
use crate::failure::Failure;
use crate::http::buffer::End;
use crate::http::chunked::{self, Decoder};
use crate::http::h1::state::ConnectionState;
use crate::http::incoming::IncomingResponse;
use crate::http::response_body::{NOT_CHUNKED, ResponseBody, Source};
use crate::http::response_head::{self, ResponseHead, declared_length};
use crate::http::transaction::Transaction;
use crate::serve::files::{FileBody, FileError, FileLimits};

/// Returns the application's response, whose head has arrived.
///
/// # Errors
/// It can't be sent as it is.
pub async fn from_worker(
    edge: &Rc<Edge>,
    connection: &Rc<ConnectionState>,
    transaction: &Transaction,
    head: ResponseHead,
) -> Result<Response<ResponseBody>, Failure> {
    let ResponseHead {
        status,
        mut headers,
        chunked_by_app,
    } = head;
    let Transaction { request, response } = transaction;
    let declared = declared_length(&headers).map_err(Failure::BadResponse)?;
    let mut left = declared;
    let file = response.buffer().file.take();
    let source = if response_head::is_bodyless(&request.method, status) {
        left = None;
        if declared.is_none()
            && !chunked_by_app
            && !response_head::is_bodyless(&Method::GET, status)
        {
            let length = content_length_of_get(response).map(HeaderValue::from);
            headers.extend(length.map(|length| (header::CONTENT_LENGTH, length)));
        }
        drain(edge, response)
    } else if let Some(path) = file {
        let body = open_file(edge, transaction, &path, declared).await?;
        left = Some(body.bytes());
        Source::File(body)
    } else {
        match take_whole(response, declared, chunked_by_app)? {
            Some(whole) => whole,
            None => {
                // Still watched: the client of a response that pauses may leave in a pause.
                connection.current.set(response.id());
                let decoder = chunked_by_app.then(Decoder::default);
                Source::Stream { decoder }
            }
        }
    };
    let body = ResponseBody::new(edge, connection, transaction, source, left, status);
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    complete(&mut response, request.version);
    Ok(response)
}

/// Adds what the front says of a response beside the application.
fn complete(response: &mut Response<ResponseBody>, version: Version) {
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
        // Only the end of the connection tells an HTTP/1.0 client where the body ends, also one that asked
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
    let whole = buffer.end == Some(End::Complete) && buffer.spool.is_none();
    Some(buffer.chunks.bytes() as u64).filter(|&length| whole && length > 0)
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
    }
    Source::Memory(None)
}

/// The whole body, where all of it has come.
fn take_whole(
    response: &IncomingResponse,
    declared: Option<u64>,
    coded: bool,
) -> Result<Option<Source>, Failure> {
    let mut buffer = response.buffer();
    if coded && buffer.begins_with_chunk() == Some(false) {
        return Err(Failure::BadResponse(NOT_CHUNKED));
    }
    if buffer.end != Some(End::Complete) || buffer.spool.is_some() {
        return Ok(None);
    }
    if coded {
        let whole = chunked::decode_whole(buffer.chunks.pieces())
            .map_err(|_| Failure::BadResponse(NOT_CHUNKED))?;
        let whole = (!whole.is_empty()).then(|| whole.into());
        return Ok(Some(Source::Memory(whole)));
    }
    if declared.is_some_and(|declared| declared != buffer.chunks.bytes() as u64) {
        return Err(Failure::BadResponse("its length is not its content-length"));
    }
    Ok(Some(Source::Memory(buffer.chunks.pop_all())))
}

/// Opens the file that is the body. Where that fails the log says why, with its path.
async fn open_file(
    edge: &Edge,
    transaction: &Transaction,
    path: &Path,
    declared: Option<u64>,
) -> Result<FileBody, Failure> {
    let settings = edge.settings.get();
    let deadline = transaction.request.deadline_ns();
    let left = deadline.saturating_sub(monotonic_ns());
    let limits = FileLimits {
        open: settings.file_timeout.min(Duration::from_nanos(left)),
        read: settings.file_timeout,
        waiting: settings.queue_limit,
    };
    let opened = edge.files.open(path, declared, limits).await;
    opened.map_err(|error| {
        let text = format!("cannot send the file {}: {error}", path.display());
        edge.invalid_response(transaction, &text);
        match error {
            FileError::TooManyWait(_) => Failure::TooManyFiles,
            FileError::Timeout(_) => Failure::FileTimeout,
            FileError::TooShort | FileError::Io(_) => Failure::AppError,
        }
    })
}
