//! The response as hyper takes it: a body in memory, a stream from a worker, or a file; and the one log line of
//! its request, written when the body is dropped, however that came about.
//!
//! It never reads a socket, and a cut response is always visible: hyper then closes the connection
//! without the end that the framing promises.

use std::cell::Cell;
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

use crate::failure::{Failure, Outcome};
use crate::http::chunked::{self, Decoder};
use crate::http::request::{End, Request, ResponseHead};
use crate::http::response_head::{self, declared_length};
use crate::http::service::{Exchanged, Service};
use crate::log::errors;
use crate::serve::files::{FileBody, FileError, FileLimits};

/// What is wrong with a body that the application did not code as it said.
const NOT_CHUNKED: &str = "it says transfer-encoding: chunked, and its body is not chunked";

/// A response that ends before its time; hyper then cuts the connection.
#[derive(Debug, thiserror::Error)]
#[error("the response was cut")]
pub struct Cut;

pub(crate) enum Source {
    /// All of it, or what is left of it.
    Memory(Option<Bytes>),
    /// From the worker, as it comes.
    Stream {
        request: Rc<Request>,
        decoder: Option<Decoder>,
    },
    /// From a file.
    File(FileBody),
}

/// A response's body.
pub struct ResponseBody {
    pub(crate) source: Source,
    /// Bytes that may still be sent, where a length was declared.
    pub(crate) left: Option<u64>,
    pub(crate) record: Record,
}

/// What the log line will say. Logs when dropped.
pub struct Record {
    service: Rc<Service>,
    connection: Rc<Exchanged>,
    request: Rc<Request>,
    status: StatusCode,
    bytes: Cell<u64>,
    /// None until it is known; a body dropped before that had its client leave.
    outcome: Cell<Option<Outcome>>,
}

impl Record {
    pub(crate) fn new(
        service: &Rc<Service>,
        connection: &Rc<Exchanged>,
        request: &Rc<Request>,
        status: StatusCode,
        outcome: Option<Outcome>,
    ) -> Self {
        Self {
            service: Rc::clone(service),
            connection: Rc::clone(connection),
            request: Rc::clone(request),
            status,
            bytes: Cell::new(0),
            outcome: Cell::new(outcome),
        }
    }
}

impl Record {
    fn is_whole(&self) {
        self.outcome.set(self.outcome.get().or(Some(Outcome::Ok)));
    }

    /// `framed` says that the response declared its length.
    fn is_cut(&self, framed: bool) {
        let outcome = match self.request.overdue.get() {
            true => Outcome::Expired,
            false => Outcome::Aborted,
        };
        self.outcome.set(Some(outcome));
        // In HTTP/1.0 the close itself is the end of such a response (RFC 9112 section 6.3).
        if !framed && self.request.version == Version::HTTP_10 {
            self.connection.needs_reset.set(true);
        }
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        let outcome = self.outcome.get().or(self.connection.cut_by.get());
        let outcome = outcome.unwrap_or(Outcome::ClientGone);
        self.connection.busy.set(false);
        self.service
            .ended(&self.request, Some(self.status), self.bytes.get(), outcome);
    }
}

/// The application's response to `request`, whose head has arrived.
///
/// # Errors
/// It can't be sent as it is.
pub async fn from_worker(
    service: &Rc<Service>,
    connection: &Rc<Exchanged>,
    request: &Rc<Request>,
    head: ResponseHead,
) -> Result<Response<ResponseBody>, Failure> {
    let ResponseHead {
        status,
        mut headers,
        chunked_by_app,
    } = head;
    let declared = declared_length(&headers).map_err(Failure::BadResponse)?;
    let mut left = declared;
    let file = request.arrived.borrow_mut().file.take();
    let source = if response_head::is_bodyless(&request.method, status) {
        left = None;
        if declared.is_none()
            && !chunked_by_app
            && !response_head::is_bodyless(&Method::GET, status)
        {
            let length = content_length_of_get(request).map(HeaderValue::from);
            headers.extend(length.map(|length| (header::CONTENT_LENGTH, length)));
        }
        drain(request)
    } else if let Some(path) = file {
        let body = open_file(service, request, &path, declared).await?;
        left = Some(body.bytes());
        Source::File(body)
    } else {
        match take_whole(request, declared, chunked_by_app)? {
            Some(whole) => whole,
            None => {
                // Still watched: the client of a response that pauses may leave in a pause.
                *connection.current.borrow_mut() = Some(Rc::clone(request));
                Source::Stream {
                    request: Rc::clone(request),
                    decoder: chunked_by_app.then(Decoder::default),
                }
            }
        }
    };
    let mut response = Response::new(ResponseBody {
        source,
        left,
        record: Record::new(service, connection, request, status, None),
    });
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response_head::complete(&mut response, request.version);
    Ok(response)
}

/// The length that a GET would have got in place of this HEAD (RFC 9110 section 8.6): that of what the application answers
/// with, once it is whole. An empty body says nothing, for middleware (`Rack::Head`) leaves one of any.
fn content_length_of_get(request: &Request) -> Option<u64> {
    let arrived = request.arrived.borrow();
    let whole = arrived.end == Some(End::Complete) && arrived.spool.is_none();
    Some(arrived.chunks.bytes() as u64).filter(|&length| whole && length > 0)
}

/// A response without a body still lets its worker finish: what it writes is not wanted.
fn drain(request: &Rc<Request>) -> Source {
    let mut arrived = request.arrived.borrow_mut();
    arrived.chunks.clear();
    arrived.file = None;
    if arrived.end.is_some() {
        return Source::Memory(None);
    }
    drop(arrived);
    request.abandon();
    Source::Memory(None)
}

/// The whole body, where all of it has come.
fn take_whole(
    request: &Rc<Request>,
    declared: Option<u64>,
    coded: bool,
) -> Result<Option<Source>, Failure> {
    let mut arrived = request.arrived.borrow_mut();
    if coded && arrived.begins_with_chunk() == Some(false) {
        return Err(Failure::BadResponse(NOT_CHUNKED));
    }
    if arrived.end != Some(End::Complete) || arrived.spool.is_some() {
        return Ok(None);
    }
    if coded {
        let whole = chunked::decode_whole(arrived.chunks.pieces())
            .map_err(|_| Failure::BadResponse(NOT_CHUNKED))?;
        let whole = (!whole.is_empty()).then(|| whole.into());
        return Ok(Some(Source::Memory(whole)));
    }
    if declared.is_some_and(|declared| declared != arrived.chunks.bytes() as u64) {
        return Err(Failure::BadResponse("its length is not its content-length"));
    }
    Ok(Some(Source::Memory(arrived.chunks.pop_all())))
}

/// Opens the file that is the body. Where that fails the log says why, with its path.
async fn open_file(
    service: &Service,
    request: &Request,
    path: &Path,
    declared: Option<u64>,
) -> Result<FileBody, Failure> {
    let settings = service.settings.get();
    let left = request.deadline_ns().saturating_sub(monotonic_ns());
    let limits = FileLimits {
        open: settings.file_timeout.min(Duration::from_nanos(left)),
        read: settings.file_timeout,
        waiting: settings.queue_limit,
    };
    let opened = service.files.open(path, declared, limits).await;
    opened.map_err(|error| {
        let text = format!("cannot send the file {}: {error}", path.display());
        errors::app_error(&service.log, request, &format!("InvalidResponse: {text}"));
        match error {
            FileError::TooManyWait(_) => Failure::TooManyFiles,
            FileError::Timeout(_) => Failure::FileTimeout,
            FileError::TooShort | FileError::Io(_) => Failure::AppError,
        }
    })
}

impl ResponseBody {
    pub(crate) fn is_stream(&self) -> bool {
        matches!(self.source, Source::Stream { .. })
    }

    fn stream(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Cut>>> {
        let Source::Stream { request, decoder } = &mut self.source else {
            return Poll::Ready(None);
        };
        loop {
            let mut arrived = request.arrived.borrow_mut();
            let memory = self.record.service.dispatcher.response_memory();
            let chunk = match arrived.chunks.pop() {
                Some(chunk) => Some(chunk),
                None => match arrived.read_spool(memory, cx) {
                    Some(Poll::Ready(Ok(chunk))) => chunk,
                    Some(Poll::Ready(Err(_))) => {
                        return Poll::Ready(Some(Err(Cut)));
                    }
                    Some(Poll::Pending) => return Poll::Pending,
                    None => None,
                },
            };
            let end = arrived.end;
            if chunk.is_none() && end.is_none() {
                request.wait(cx.waker());
            }
            drop(arrived);
            let Some(chunk) = chunk else {
                return match end {
                    None => {
                        // There may be news that had no room before.
                        self.record.service.dispatcher.resume(request);
                        let arrived = request.arrived.borrow();
                        let unread = arrived
                            .spool
                            .as_ref()
                            .is_some_and(|spool| spool.unread() > 0);
                        if arrived.chunks.is_empty() && !unread && arrived.end.is_none() {
                            return Poll::Pending;
                        }
                        continue;
                    }
                    Some(End::Complete) if decoder.as_ref().is_none_or(Decoder::is_complete) => {
                        Poll::Ready(None)
                    }
                    Some(End::Complete) => Poll::Ready(Some(Err(self.not_chunked()))),
                    Some(_) => Poll::Ready(Some(Err(Cut))),
                };
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
        let text = format!("InvalidResponse: {NOT_CHUNKED}");
        errors::app_error(&self.record.service.log, &self.record.request, &text);
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
                self.record.outcome.set(Some(Outcome::Aborted));
                let bytes = &self.record.bytes;
                bytes.set(bytes.get() + promised as u64);
                return Ok(chunk.slice(..promised));
            }
            *left -= chunk.len() as u64;
        }
        self.record
            .bytes
            .set(self.record.bytes.get() + chunk.len() as u64);
        let memory = self.record.service.dispatcher.response_memory();
        self.record.connection.io.holds(memory, chunk.len());
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
        let memory = self.record.service.dispatcher.response_memory();
        if memory.is_short() {
            // One piece at a time, where hyper would take several.
            ready!(self.record.connection.io.poll_sent(cx));
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
            self.record.is_cut(self.left.is_some());
        }
        let whole = match (&counted, &self.source) {
            (None, _) => true,
            // hyper asks no further once it has all that `size_hint` promised.
            (Some(Ok(_)), Source::Memory(None)) => true,
            (Some(Ok(_)), _) => self.left == Some(0),
            _ => false,
        };
        if whole {
            self.record.is_whole();
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
            self.record.is_whole();
        }
        let Source::Stream { request, .. } = &self.source else {
            return;
        };
        self.record.connection.current.borrow_mut().take();
        if self.left == Some(0) {
            // All that was promised is out. The worker is told that no more is wanted when it writes more.
            request.abandon();
            // Its end may have been waiting for room all the while, and nobody would speak of it again.
            self.record.service.dispatcher.resume(request);
        } else if !request.has_ended() {
            self.record.service.dispatcher.abandon(request);
        }
    }
}
