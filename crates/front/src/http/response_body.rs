//! The body of a response as hyper takes it; and the one log line of its request, written when the body is dropped, however
//! that came about.
//!
//! It never reads a socket, and a cut response is always visible: hyper then closes the connection without the end that the
//! framing promises.

use std::cell::Cell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{StatusCode, Version};
use http_body::{Body, Frame, SizeHint};

use crate::edge::Edge;
use crate::failure::Outcome;
use crate::http::buffer::End;
use crate::http::chunked::Decoder;
use crate::http::h1::state::ConnectionState;
use crate::http::incoming::Piece;
use crate::http::transaction::Transaction;
use crate::serve::files::FileBody;

/// What is wrong with a body that the application did not code as it said.
pub(super) const NOT_CHUNKED: &str =
    "it says transfer-encoding: chunked, and its body is not chunked";

/// A response that ends before its time; hyper then cuts the connection.
#[derive(Debug, thiserror::Error)]
#[error("the response was cut")]
pub struct Cut;

pub(super) enum Source {
    /// All of it, or what is left of it.
    Memory(Option<Bytes>),
    /// From the worker, as it comes.
    Stream { decoder: Option<Decoder> },
    /// From a file.
    File(FileBody),
}

/// A response's body.
pub struct ResponseBody {
    pub(super) source: Source,
    /// Bytes that may still be sent, where a length was declared.
    pub(super) left: Option<u64>,
    log: AccessLogGuard,
}

/// What the line of the access log will say. Logs when dropped.
struct AccessLogGuard {
    edge: Rc<Edge>,
    connection: Rc<ConnectionState>,
    transaction: Transaction,
    status: StatusCode,
    bytes: Cell<u64>,
    /// None until it is known; a body dropped before that had its client leave.
    outcome: Cell<Option<Outcome>>,
}

impl AccessLogGuard {
    fn is_whole(&self) {
        self.outcome.set(self.outcome.get().or(Some(Outcome::Ok)));
    }

    /// `framed` says that the response declared its length.
    fn is_cut(&self, framed: bool) {
        let late = matches!(
            self.transaction.response.buffer().end,
            Some(End::Aborted { late: true })
        );
        let outcome = match late {
            true => Outcome::Expired,
            false => Outcome::Aborted,
        };
        self.outcome.set(Some(outcome));
        // In HTTP/1.0 the close itself is the end of such a response (RFC 9112 section 6.3).
        if !framed && self.transaction.request.version == Version::HTTP_10 {
            self.connection.needs_reset.set(true);
        }
    }
}

impl Drop for AccessLogGuard {
    fn drop(&mut self) {
        let outcome = self.outcome.get().or(self.connection.cut_by.get());
        let outcome = outcome.unwrap_or(Outcome::ClientGone);
        self.connection.busy.set(false);
        let (status, bytes) = (Some(self.status), self.bytes.get());
        self.edge.ended(&self.transaction, status, bytes, outcome);
    }
}

impl ResponseBody {
    /// Returns a body whose line in the log is written when it is dropped.
    pub(super) fn new(
        edge: &Rc<Edge>,
        connection: &Rc<ConnectionState>,
        transaction: &Transaction,
        source: Source,
        left: Option<u64>,
        status: StatusCode,
    ) -> Self {
        let log = AccessLogGuard {
            edge: Rc::clone(edge),
            connection: Rc::clone(connection),
            transaction: transaction.clone(),
            status,
            bytes: Cell::new(0),
            outcome: Cell::new(None),
        };
        Self { source, left, log }
    }

    /// Returns a body of the front's own; the outcome is known where it is not the application's.
    pub(crate) fn own(
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
    pub(super) fn is_stream(&self) -> bool {
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
                Piece::End(End::Complete) if decoder.as_ref().is_none_or(Decoder::is_complete) => {
                    return Poll::Ready(None);
                }
                Piece::End(End::Complete) => return Poll::Ready(Some(Err(self.not_chunked()))),
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
            self.log.is_cut(self.left.is_some());
        }
        let whole = match (&counted, &self.source) {
            (None, _) => true,
            // hyper asks no further once it has all that `size_hint` promised.
            (Some(Ok(_)), Source::Memory(None)) => true,
            (Some(Ok(_)), _) => self.left == Some(0),
            _ => false,
        };
        if whole {
            self.log.is_whole();
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
            self.log.is_whole();
        }
        if !self.is_stream() {
            return;
        }
        self.log.connection.current.set(None);
        let response = &self.log.transaction.response;
        let Some(id) = response.id() else { return };
        let dispatcher = &self.log.edge.dispatcher;
        if self.left == Some(0) {
            // All that was promised is out. The worker is told that no more is wanted when it writes more.
            dispatcher.no_more(id);
            // Its end may have been waiting for room all the while, and nobody would speak of it again.
            dispatcher.consumed(id);
        } else if !response.is_complete() {
            // Also one that was cut: the application may write on, or may be run again by a dispatcher that did not know of
            // the head yet.
            dispatcher.abandon(id);
        }
    }
}
