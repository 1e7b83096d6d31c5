//! The body of a response as hyper takes it: from memory, a stream from a worker, or a file; compressed and stored on its way.
//!
//! It never reads a socket, and a cut body is always visible: hyper then closes the connection without the end that the
//! framing promises.

use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::StatusCode;
use http_body::{Body, Frame, SizeHint};

use crate::failure::Outcome;
use crate::http::access_log::AccessLogGuard;
use crate::http::transaction::Transaction;
use crate::http::worker_body::{Cut, WorkerStream};
use crate::serve::cached::attempt::Recorder;
use crate::serve::compression::stream::{Broken, EncodedStream};
use crate::serve::file_body::{Chunk, FileBody};
use crate::serve::kept_body::{EncodedCopy, KeptBody};

pub(super) enum Source {
    /// All of it, or what is left of it.
    Memory(Option<Bytes>),
    /// From the worker, as it comes.
    Stream(WorkerStream),
    /// From a file.
    File(FileBody),
}

/// A response's body. In a box, for a response is moved some forty times on its way to hyper and in there.
pub struct ResponseBody(Box<BodyState>);

/// What a response's body consists of.
pub struct BodyState {
    pub(super) source: Source,
    /// Stores it as it passes.
    recorder: Option<Box<Recorder>>,
    /// What of it stays in memory, where it is the whole of that.
    kept: Option<KeptBody>,
    /// Keeps it with that in the coding in which it is sent.
    copy: Option<Box<EncodedCopy>>,
    /// Bytes that may still be sent, where a length was declared.
    pub(super) left: Option<u64>,
    /// What compresses it on its way.
    encoder: Option<Box<EncodedStream>>,
    log: AccessLogGuard,
}

impl ResponseBody {
    /// Returns a body whose line in the log is written when it is dropped.
    pub(super) fn new(
        transaction: &Transaction,
        source: Source,
        left: Option<u64>,
        status: StatusCode,
    ) -> Self {
        let log = AccessLogGuard::new(transaction, status);
        Self(Box::new(BodyState {
            source,
            recorder: None,
            kept: None,
            copy: None,
            left,
            encoder: None,
            log,
        }))
    }

    /// Returns a body of the front's own; the outcome is known where it is not the application's.
    pub fn own(
        transaction: &Transaction,
        text: Option<Bytes>,
        status: StatusCode,
        outcome: Option<Outcome>,
    ) -> Self {
        let source = Source::Memory(text);
        let body = Self::new(transaction, source, None, status);
        body.log.outcome.set(outcome);
        body
    }

    /// Returns a body of the front's own that is a file.
    pub fn of_file(transaction: &Transaction, file: FileBody, status: StatusCode) -> Self {
        let left = Some(file.bytes());
        let file = file.past_hyper(transaction.client.file_socket());
        Self::new(transaction, Source::File(file), left, status)
    }
}

impl Deref for ResponseBody {
    type Target = BodyState;

    fn deref(&self) -> &BodyState {
        &self.0
    }
}

impl DerefMut for ResponseBody {
    fn deref_mut(&mut self) -> &mut BodyState {
        &mut self.0
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = Cut;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        Pin::new(&mut self.0).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}

impl BodyState {
    /// Has it stored: at once where it is in memory, or as it passes. A file is not.
    pub fn record(&mut self, mut recorder: Box<Recorder>) {
        match &self.source {
            Source::Memory(whole) => {
                if whole.as_ref().is_none_or(|whole| recorder.push(whole)) {
                    self.kept = Some(KeptBody::Stored(recorder.store()));
                }
            }
            Source::Stream(_) => self.recorder = Some(recorder),
            Source::File(_) => {}
        }
    }

    /// Notes that all of it was sent.
    fn note_whole(&mut self) {
        self.log.note_whole();
        if let Some(recorder) = self.recorder.take() {
            recorder.store();
        }
        if let Some(copy) = self.copy.take() {
            copy.keep(&self.log.transaction);
        }
    }

    /// Notes that this is the whole of a body that stays in memory.
    pub fn set_kept(&mut self, kept: KeptBody) {
        self.kept = Some(kept);
    }

    /// The body that stays in memory, where this is the whole of it.
    pub fn kept(&self) -> Option<&KeptBody> {
        self.kept.as_ref()
    }

    /// The whole body, where it is in memory.
    pub fn whole(&self) -> Option<&Bytes> {
        match &self.source {
            Source::Memory(bytes) => bytes.as_ref(),
            Source::Stream(_) | Source::File(_) => None,
        }
    }

    /// Its length in bytes, where that is known before its end.
    pub fn length(&self) -> Option<u64> {
        match &self.source {
            Source::Memory(bytes) => Some(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Source::File(file) => Some(file.bytes()),
            Source::Stream(_) => self.left,
        }
    }

    /// Sends these bytes in place of the whole body: it in another coding.
    pub fn replace(&mut self, bytes: Bytes, encoding: &'static str) {
        self.left = None;
        self.kept = None;
        self.source = Source::Memory(Some(bytes));
        self.log.encoding.set(Some(encoding));
    }

    /// Sends the same bytes from a file in place of those in memory.
    pub fn send_from(&mut self, file: FileBody) {
        self.left = Some(file.bytes());
        self.source = Source::File(file);
    }

    /// Has the body encoded on its way.
    pub fn encode(&mut self, encoder: EncodedStream, encoding: &'static str) {
        if let Source::File(file) = &mut self.source {
            file.keep_in_hyper();
        }
        self.encoder = Some(Box::new(encoder));
        let kept = self.kept.take();
        self.copy = kept.map(|kept| Box::new(EncodedCopy::new(kept, encoding)));
        self.log.encoding.set(Some(encoding));
    }

    /// Whether it comes from a worker.
    pub(super) fn is_stream(&self) -> bool {
        matches!(self.source, Source::Stream(_))
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
                self.recorder = None;
                return Ok(chunk.slice(..promised));
            }
            *left -= chunk.len() as u64;
        }
        if let Some(recorder) = &mut self.recorder
            && !recorder.push(&chunk)
        {
            self.recorder = None;
        }
        Ok(chunk)
    }

    /// Waits for the next piece of the body as it is before it is compressed.
    fn poll_plain(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Cut>>> {
        let chunk = match &mut self.source {
            Source::Memory(bytes) => bytes.take().map(Ok),
            Source::File(file) => {
                ready!(file.poll_chunk(cx)).map(|read| read.map(Chunk::into_bytes).map_err(|_| Cut))
            }
            Source::Stream(stream) => ready!(stream.poll(&self.log.transaction, cx)),
        };
        let counted = chunk.map(|chunk| chunk.and_then(|chunk| self.count(chunk)));
        let short = counted.is_none() && self.left.is_some_and(|left| left > 0);
        Poll::Ready(if short { Some(Err(Cut)) } else { counted })
    }

    /// Waits for the next piece of the body in its coding.
    fn poll_encoded(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Cut>>> {
        let Some(mut encoder) = self.encoder.take() else {
            return self.poll_plain(cx);
        };
        let polled = encoder.poll(cx, |cx| match self.left {
            // hyper, which would stop asking here, does not know this length.
            Some(0) => Poll::Ready(None),
            _ => self.poll_plain(cx),
        });
        self.encoder = Some(encoder);
        polled.map(|piece| piece.map(|piece| piece.map_err(|Broken| Cut)))
    }

    /// Counts bytes that are about to be sent.
    fn note_sent(&self, bytes: usize) {
        let AccessLogGuard {
            transaction,
            bytes: sent,
            ..
        } = &self.log;
        sent.set(sent.get() + bytes as u64);
        let application = transaction.request.application();
        let memory = transaction.edge.responses.memory_of(application);
        if !matches!(&self.source, Source::File(file) if file.went_past_hyper()) {
            transaction.client.hold(memory, bytes);
        }
    }

    /// Whether hyper asks no further after a piece: it has all that `size_hint` promised.
    fn promises_no_more(&self) -> bool {
        let given = matches!(self.source, Source::Memory(None)) || self.left == Some(0);
        given && self.encoder.is_none()
    }
}

impl Body for BodyState {
    type Data = Bytes;
    type Error = Cut;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        let transaction = &self.log.transaction;
        let application = transaction.request.application();
        let memory = transaction.edge.responses.memory_of(application);
        if memory.is_short() {
            // One piece at a time, where hyper would take several.
            ready!(transaction.client.poll_sent(cx));
        }
        let chunk = ready!(self.poll_encoded(cx));
        let whole = match &chunk {
            None => true,
            Some(Ok(piece)) => {
                self.note_sent(piece.len());
                if let Some(copy) = &mut self.copy {
                    copy.push(piece);
                }
                self.promises_no_more()
            }
            Some(Err(Cut)) => {
                self.log.note_cut(self.left.is_some());
                false
            }
        };
        if whole {
            self.note_whole();
        }
        Poll::Ready(chunk.map(|chunk| chunk.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.encoder.is_none() && matches!(&self.source, Source::Memory(None))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            _ if self.encoder.is_some() => SizeHint::default(),
            Source::Memory(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Source::File(file) => SizeHint::with_exact(file.left()),
            Source::Stream(_) => SizeHint::default(),
        }
    }
}

impl Drop for BodyState {
    fn drop(&mut self) {
        if self.is_end_stream() {
            self.note_whole();
        }
        if !self.is_stream() {
            return;
        }
        let Transaction {
            edge,
            client,
            response,
            ..
        } = &self.log.transaction;
        client.set_submitted(None);
        let Some(id) = response.id() else { return };
        let dispatcher = &edge.dispatcher;
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
