//! A client's socket as hyper sees it: every byte goes through the screen first.
//!
//! It holds back what comes after the current message, notices when a client leaves while its request
//! waits, and knows how long each side has made no progress. It never parses, and it closes nothing: the
//! connection does.

pub(crate) mod raw;
mod sending;

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::rt::ReadBufCursor;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::clock::Clock;
use crate::http::screen::{Head, Limits, Phase, RawTarget, Refusal, Screen};
use crate::net::flow::Flow;
use crate::net::stream::Stream;

/// Bytes read at once, and the most that is held back of later messages.
const CHUNK: usize = 16 * 1024;

thread_local! {
    /// One read buffer for all connections: an idle connection holds none.
    static SCRATCH: RefCell<Vec<u8>> = RefCell::new(vec![0; CHUNK]);
}

/// What is known of the client's sending side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientState {
    /// Nothing says that it left.
    Here,
    /// It has sent its FIN: it left, or it only has nothing more to send.
    HalfClosed,
    /// Its connection was reset.
    Gone,
}

struct Inner {
    stream: Stream,
    screen: Screen,
    /// Bytes read that hyper has not seen.
    held: Vec<u8>,
    /// How many of them the screen has passed.
    passed: usize,
    refusal: Option<Refusal>,
    client: ClientState,
    /// Bytes of files that went past hyper, and for which hyper has not written the same number of others yet.
    sent_past: usize,
}

/// The shared handle: hyper has one, the connection another.
#[derive(Clone)]
pub struct ClientIo {
    inner: Rc<RefCell<Inner>>,
    flow: Rc<Flow>,
}

impl ClientIo {
    /// Wraps an accepted socket.
    pub fn new(stream: Stream, screen: Screen, clock: Rc<Clock>) -> Self {
        let inner = Inner {
            stream,
            screen,
            held: Vec::new(),
            passed: 0,
            refusal: None,
            client: ClientState::Here,
            sent_past: 0,
        };
        Self {
            inner: Rc::new(RefCell::new(inner)),
            flow: Rc::new(Flow::new(clock)),
        }
    }

    /// How the client sends and takes.
    pub fn flow(&self) -> &Flow {
        &self.flow
    }

    /// Whether the client takes a response at fewer than `rate` bytes a second. To be asked with every check of clocks. What
    /// its kernel has taken since is progress, also where our own is not ready for more.
    pub fn takes_too_slowly(&self, rate: Option<u64>) -> bool {
        self.flow.takes_too_slowly(rate, || {
            exchange::sockets::unsent(&self.inner.borrow().stream).ok()
        })
    }

    /// The limits of each message.
    pub fn limits(&self) -> Limits {
        self.inner.borrow().screen.limits()
    }

    /// How far the current message has come.
    pub fn phase(&self) -> Phase {
        self.inner.borrow().screen.phase()
    }

    /// The accepted head of the current message.
    pub fn head(&self) -> Option<Head> {
        self.inner.borrow().screen.head().copied()
    }

    /// The current message's target as the client sent it, if hyper got another one in its place.
    pub fn take_raw_target(&self) -> Option<RawTarget> {
        self.inner.borrow_mut().screen.take_raw_target()
    }

    /// Why the message was refused, if it was.
    pub fn refusal(&self) -> Option<Refusal> {
        self.inner.borrow().refusal
    }

    /// What a refused head seems to ask for: the first two words of its first line, as far as there are
    /// any, unchecked. For the log only.
    pub fn refused_line(&self) -> (Vec<u8>, Vec<u8>) {
        let inner = self.inner.borrow();
        let line = inner
            .held
            .split(|byte| matches!(byte, b'\r' | b'\n'))
            .next();
        let mut words = line.unwrap_or_default().split(|&byte| byte == b' ');
        let mut word = |longest: usize| match words.next() {
            Some(word) if !word.is_empty() => word[..word.len().min(longest)].to_vec(),
            _ => b"-".to_vec(),
        };
        (word(64), word(4096))
    }

    /// Whether what is held begins with these bytes.
    pub fn begins_with(&self, bytes: &[u8]) -> bool {
        self.inner.borrow().held.starts_with(bytes)
    }

    /// Refuses the message from outside: its time is over.
    pub fn refuse(&self, refusal: Refusal) {
        self.inner.borrow_mut().refusal.get_or_insert(refusal);
    }

    /// Whether the connection holds nothing of a message.
    pub fn is_idle(&self) -> bool {
        let inner = self.inner.borrow();
        inner.held.is_empty() && matches!(inner.screen.phase(), Phase::Idle | Phase::Complete)
    }

    /// Whether the client is known to be unable to read an answer.
    pub fn is_gone(&self) -> bool {
        self.inner.borrow().client == ClientState::Gone
    }

    /// Shows the socket itself.
    pub fn with_stream<T>(&self, look: impl FnOnce(&mut Stream) -> T) -> T {
        look(&mut self.inner.borrow_mut().stream)
    }

    /// Waits until the client sends something or leaves.
    pub fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.inner.borrow().stream.poll_readable(cx)
    }

    /// Looks, while a request is with the application, whether its client leaves. What the client sends
    /// meanwhile is held back, up to a bound.
    pub fn poll_client(&self, cx: &mut Context<'_>) -> ClientState {
        let inner = &mut *self.inner.borrow_mut();
        while inner.client == ClientState::Here && inner.held.len() < CHUNK {
            match inner.fill(&self.flow, cx) {
                Poll::Ready(Ok(0)) => inner.client = ClientState::HalfClosed,
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(_)) => inner.client = ClientState::Gone,
                Poll::Pending => break,
            }
        }
        inner.client
    }

    /// Writes bytes between two responses, if none of an earlier one is still on its way. For early hints:
    /// they are advice, so a socket that would block just goes without.
    pub fn try_write_between(&self, bytes: &[u8]) {
        if !self.flow.is_flushed() {
            return;
        }
        let inner = &mut *self.inner.borrow_mut();
        let written = inner.stream.try_write(bytes);
        // What follows a part of it would be read as its rest: nothing may follow.
        if written.is_ok_and(|count| count < bytes.len()) {
            inner.client = ClientState::Gone;
        }
    }

    /// Gives back the memory that an idle connection does not need.
    pub fn release_buffers(&self) {
        let inner = &mut *self.inner.borrow_mut();
        if inner.held.is_empty() {
            inner.held = Vec::new();
        }
    }

    /// Lets the coming close reach the client as a reset, which no response's end looks like. What is still in
    /// the kernel's buffers is lost.
    pub fn reset_on_close(&self) {
        if let Some(stream) = self.inner.borrow().stream.tcp() {
            // A socket that refuses is gone already.
            let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
        }
    }

    /// Ends the sending side of the socket, after what is still to be sent.
    pub fn poll_shut_down_writing(&self, cx: &mut Context<'_>) -> Poll<()> {
        let inner = &mut *self.inner.borrow_mut();
        // An error means that the client is gone already.
        Pin::new(&mut inner.stream).poll_shutdown(cx).map(drop)
    }

    /// Reads and throws away what the client still sends: until it is done, or `left` bytes have come.
    pub fn poll_discard(&self, cx: &mut Context<'_>, left: &mut usize) -> Poll<()> {
        let inner = &mut *self.inner.borrow_mut();
        while *left > 0 {
            inner.held.clear();
            match ready!(inner.fill(&self.flow, cx)) {
                Ok(count) if count > 0 => *left = left.saturating_sub(count),
                _ => break,
            }
        }
        Poll::Ready(())
    }

    fn read(&self, cx: &mut Context<'_>, mut into: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        let inner = &mut *self.inner.borrow_mut();
        loop {
            if inner.refusal.is_some() {
                return Poll::Ready(Err(io::Error::other("refused")));
            }
            if inner.passed > 0 {
                let count = inner.passed.min(into.remaining());
                into.put_slice(&inner.held[..count]);
                inner.held.drain(..count);
                inner.passed -= count;
                return Poll::Ready(Ok(()));
            }
            // hyper asks for more only when it is done with the message before.
            if inner.screen.phase() == Phase::Complete {
                inner.screen.next_message();
            }
            let before = inner.screen.phase();
            match inner.screen.advance(&mut inner.held) {
                Ok(step) if step.skip > 0 => drop(inner.held.drain(..step.skip)),
                Ok(step) if step.pass > 0 => {
                    inner.passed = step.pass;
                    self.flow.note_progress();
                }
                Ok(_) => {
                    if before == Phase::Idle && inner.screen.phase() == Phase::Head {
                        self.flow.note_progress();
                    }
                    if inner.client == ClientState::HalfClosed {
                        return Poll::Ready(Ok(()));
                    }
                    if ready!(inner.fill(&self.flow, cx))? == 0 {
                        inner.client = ClientState::HalfClosed;
                    }
                }
                Err(refusal) => inner.refusal = Some(refusal),
            }
        }
    }

    /// Writes what hyper has, `count` bytes.
    fn write(
        &self,
        count: usize,
        write: impl FnOnce(Pin<&mut Stream>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let inner = &mut *self.inner.borrow_mut();
        if inner.client == ClientState::Gone {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        if inner.sent_past > 0 {
            let count = count.min(inner.sent_past);
            inner.sent_past -= count;
            return Poll::Ready(Ok(count));
        }
        let result = write(Pin::new(&mut inner.stream));
        self.flow.note_write(&result);
        result
    }
}

impl Inner {
    /// Reads once from the socket into `held`.
    fn fill(&mut self, flow: &Flow, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        SCRATCH.with_borrow_mut(|scratch| {
            let mut buffer = ReadBuf::new(scratch);
            let read = Pin::new(&mut self.stream).poll_read(cx, &mut buffer);
            flow.note_read(read.is_pending(), buffer.filled().len());
            ready!(read)?;
            if self.held.is_empty() && self.held.capacity() > 4 * CHUNK {
                self.held = Vec::new();
            }
            self.held.extend_from_slice(buffer.filled());
            Poll::Ready(Ok(buffer.filled().len()))
        })
    }
}

impl hyper::rt::Read for ClientIo {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        self.read(cx, buffer)
    }
}

impl hyper::rt::Write for ClientIo {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let slices = [io::IoSlice::new(bytes)];
        self.write(bytes.len(), |stream| match self.flow.file_follows() {
            true => stream.poll_write_before_file(cx, &slices),
            false => stream.poll_write(cx, bytes),
        })
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // hyper flushes after its own buffer is empty.
        let inner = &mut *self.inner.borrow_mut();
        if inner.client == ClientState::Gone {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let flushed = Pin::new(&mut inner.stream).poll_flush(cx);
        match &flushed {
            Poll::Ready(_) => self.flow.note_flush(),
            Poll::Pending => self.flow.note_write_blocked(),
        }
        flushed
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // The connection shuts down itself, after a refusal that hyper knows nothing of.
        Poll::Ready(Ok(()))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let count = slices.iter().map(|slice| slice.len()).sum();
        self.write(count, |stream| match self.flow.file_follows() {
            true => stream.poll_write_before_file(cx, slices),
            false => stream.poll_write_vectored(cx, slices),
        })
    }
}
