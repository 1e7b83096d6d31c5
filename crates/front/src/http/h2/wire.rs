//! A client's socket as the crate h2 sees it. It notes what frames cost and how the client takes what is written, gives the
//! memory of buffers back while nothing comes, and changes nothing that is said.

use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::frames::{FrameBudget, FrameReader};
use crate::clock::Clock;
use crate::net::client_io::ClientIo;
use crate::net::client_io::raw::Raw;
use crate::net::stream::Stream;

/// What reading notes, for the connection.
pub(super) struct Reading {
    /// What is left of the budget for frames.
    pub(super) budget: FrameBudget,
    /// When the client last sent something, by the coarse clock.
    pub(super) last_ms: Cell<u64>,
    /// When the head began of which the client has not sent all, by the coarse clock.
    pub(super) head_since_ms: Cell<Option<u64>>,
    pub(super) buffers: Cell<Buffers>,
}

/// The memory of the buffers that are read into.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Buffers {
    Held,
    /// It is to be given back, unless something comes.
    Unneeded,
    Released,
}

/// The socket of a connection of HTTP/2.
pub(super) struct Wire {
    raw: Raw,
    io: ClientIo,
    frames: FrameReader,
    reading: Rc<Reading>,
    clock: Rc<Clock>,
}

impl Wire {
    /// Wraps a socket, of which what was read is still held.
    pub(super) fn new(io: ClientIo, reading: Rc<Reading>, clock: Rc<Clock>) -> Self {
        Self {
            raw: Raw(io.clone()),
            io,
            frames: FrameReader::new(),
            reading,
            clock,
        }
    }

    /// Gives the memory of buffers back if it is not needed; nothing has come.
    fn release_buffers(&mut self, into: &mut ReadBuf<'_>) {
        if self.reading.buffers.get() != Buffers::Unneeded {
            return;
        }
        self.reading.buffers.set(Buffers::Released);
        self.io.with_stream(Stream::release_buffers);
        exchange::pages::release(into.initialize_unfilled());
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        // The connection ends with what was read before; nothing more is looked at.
        if this.reading.budget.is_exhausted() {
            return Poll::Pending;
        }
        let before = into.filled().len();
        match Pin::new(&mut this.raw).poll_read(cx, into) {
            Poll::Ready(read) => read?,
            Poll::Pending => {
                this.release_buffers(into);
                return Poll::Pending;
            }
        }
        this.reading.buffers.set(Buffers::Held);
        let now_ms = this.clock.now_ms();
        this.reading.last_ms.set(now_ms);
        let bytes = &into.filled()[before..];
        this.frames.read(bytes, &this.reading.budget, now_ms);
        this.reading.head_since_ms.set(this.frames.head_since_ms());
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        hyper::rt::Write::poll_write(Pin::new(&mut self.get_mut().io), cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        hyper::rt::Write::poll_flush(Pin::new(&mut self.get_mut().io), cx)
    }

    /// The connection shuts down itself.
    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
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
        hyper::rt::Write::poll_write_vectored(Pin::new(&mut self.get_mut().io), cx, slices)
    }
}
