//! The response as hyper takes it: checked against what its head promises, and made from memory, a stream from a worker, or
//! a file.
//!
//! It never reads a socket, and a cut response is always visible: hyper then closes the connection without the end that the
//! framing promises.

use std::path::Path;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use exchange::scheduling::monotonic_ns;
use http::header::{self, HeaderValue};
use http::{Method, Response, StatusCode, Version};
use http_body::{Body, Frame, SizeHint};
use hyper::ext::ReasonPhrase;

use crate::edge::Edge;
use crate::failure::{Failure, Outcome};
use crate::http::access_log::AccessLogGuard;
use crate::http::chunked::{self, Decoder};
use crate::http::h1::state::ConnectionState;
use crate::http::incoming::{IncomingResponse, Piece, Transaction};
use crate::http::response_head::{self, ResponseHead, declared_length};
use crate::messages::ResponseEnd;
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

/// Adds the fields that are the front's and not the application's.
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
    if buffer.end != Some(ResponseEnd::Complete) || buffer.spool.is_some() {
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

/// What is wrong with a body that the application did not code as it said.
const NOT_CHUNKED: &str = "it says transfer-encoding: chunked, and its body is not chunked";

/// A response that ends before its time; hyper then cuts the connection.
#[derive(Debug, thiserror::Error)]
#[error("the response was cut")]
pub struct Cut;

enum Source {
    /// All of it, or what is left of it.
    Memory(Option<Bytes>),
    /// From the worker, as it comes.
    Stream { decoder: Option<Decoder> },
    /// From a file.
    File(FileBody),
}

/// A response's body.
pub struct ResponseBody {
    source: Source,
    /// Bytes that may still be sent, where a length was declared.
    left: Option<u64>,
    log: AccessLogGuard,
}

impl ResponseBody {
    /// Returns a body whose line in the log is written when it is dropped.
    fn new(
        edge: &Rc<Edge>,
        connection: &Rc<ConnectionState>,
        transaction: &Transaction,
        source: Source,
        left: Option<u64>,
        status: StatusCode,
    ) -> Self {
        let log = AccessLogGuard::new(edge, connection, transaction, status);
        Self { source, left, log }
    }

    /// Returns a body of the front's own; the outcome is known where it is not the application's.
    pub fn own(
        edge: &Rc<Edge>,
        connection: &Rc<ConnectionState>,
        transaction: &Transaction,
        text: Option<Bytes>,
        status: StatusCode,
        outcome: Option<Outcome>,
    ) -> Self {
        let source = Source::Memory(text);
        let body = Self::new(edge, connection, transaction, source, None, status);
        body.log.outcome.set(outcome);
        body
    }

    /// Whether it comes from a worker.
    fn is_stream(&self) -> bool {
        matches!(self.source, Source::Stream { .. })
    }

    fn stream(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Cut>>> {
        let Source::Stream { decoder } = &mut self.source else {
            return Poll::Ready(None);
        };
        let response = &self.log.transaction.response;
        let dispatcher = &*self.log.edge.dispatcher;
        loop {
            let chunk = match ready!(response.poll_piece(dispatcher, cx)) {
                Piece::Data(chunk) => chunk,
                Piece::Unreadable => return Poll::Ready(Some(Err(Cut))),
                Piece::End(ResponseEnd::Complete)
                    if decoder.as_ref().is_none_or(Decoder::is_complete) =>
                {
                    return Poll::Ready(None);
                }
                Piece::End(ResponseEnd::Complete) => {
                    return Poll::Ready(Some(Err(self.not_chunked())));
                }
                Piece::End(_) => return Poll::Ready(Some(Err(Cut))),
            };
            match decoder {
                None => return Poll::Ready(Some(Ok(chunk))),
                Some(decoder) => match decoder.decode(&chunk) {
                    Ok(decoded) if decoded.is_empty() => {}
                    Ok(decoded) => return Poll::Ready(Some(Ok(Bytes::from(decoded)))),
                    Err(_) => return Poll::Ready(Some(Err(self.not_chunked()))),
                },
            }
        }
    }

    /// Logs that what came of the body is not what its head promised.
    fn not_chunked(&self) -> Cut {
        let AccessLogGuard {
            edge, transaction, ..
        } = &self.log;
        edge.invalid_response(transaction, NOT_CHUNKED);
        Cut
    }

    /// Keeps to the declared length: bytes beyond it would be read as the next response.
    fn count(&mut self, chunk: Bytes) -> Result<Bytes, Cut> {
        if let Some(left) = &mut self.left {
            if chunk.len() as u64 > *left {
                if *left == 0 {
                    return Err(Cut);
                }
                // What was promised still goes out, with its head; the surplus goes nowhere.
                let promised = std::mem::take(left) as usize;
                self.log.outcome.set(Some(Outcome::Aborted));
                let bytes = &self.log.bytes;
                bytes.set(bytes.get() + promised as u64);
                return Ok(chunk.slice(..promised));
            }
            *left -= chunk.len() as u64;
        }
        self.log
            .bytes
            .set(self.log.bytes.get() + chunk.len() as u64);
        let memory = &self.log.edge.responses.memory;
        self.log.connection.io.flow().holds(memory, chunk.len());
        Ok(chunk)
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = Cut;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        let memory = &self.log.edge.responses.memory;
        if memory.is_short() {
            // One piece at a time, where hyper would take several.
            ready!(self.log.connection.io.flow().poll_sent(cx));
        }
        let chunk = match &mut self.source {
            Source::Memory(bytes) => bytes.take().map(Ok),
            Source::File(file) => ready!(file.poll_chunk(cx)).map(|read| read.map_err(|_| Cut)),
            Source::Stream { .. } => ready!(self.stream(cx)),
        };
        let mut counted = chunk.map(|chunk| chunk.and_then(|chunk| self.count(chunk)));
        if counted.is_none() && self.left.is_some_and(|left| left > 0) {
            counted = Some(Err(Cut));
        }
        if matches!(counted, Some(Err(Cut))) {
            self.log.note_cut(self.left.is_some());
        }
        let whole = match (&counted, &self.source) {
            (None, _) => true,
            // hyper asks no further once it has all that `size_hint` promised.
            (Some(Ok(_)), Source::Memory(None)) => true,
            (Some(Ok(_)), _) => self.left == Some(0),
            _ => false,
        };
        if whole {
            self.log.note_whole();
        }
        Poll::Ready(counted.map(|chunk| chunk.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        matches!(&self.source, Source::Memory(None))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            Source::Memory(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Source::File(file) => SizeHint::with_exact(file.left()),
            Source::Stream { .. } => SizeHint::default(),
        }
    }
}

impl Drop for ResponseBody {
    fn drop(&mut self) {
        if matches!(&self.source, Source::Memory(None)) {
            self.log.note_whole();
        }
        if !self.is_stream() {
            return;
        }
        self.log.connection.current.set(None);
        let response = &self.log.transaction.response;
        let Some(id) = response.id() else { return };
        let dispatcher = &self.log.edge.dispatcher;
        if self.left == Some(0) {
            // All that was promised is out. The worker learns that no more is wanted when it writes more.
            dispatcher.no_more(id);
            // Its end may have waited for room all the while, and no other event would announce it.
            dispatcher.consumed(id);
        } else if !response.is_complete() {
            // Also one that was cut: the application may write on, or may be run again by a dispatcher that did not know of
            // the head yet.
            dispatcher.abandon(id);
        }
    }
}
