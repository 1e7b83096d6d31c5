//! A client's socket past the screen, for an application that took the connection over. It checks nothing.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::ClientIo;

/// The socket past the screen, for an application that took the connection over: first what was held back.
pub(crate) struct Raw(pub(crate) ClientIo);

impl AsyncRead for Raw {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let inner = &mut *self.0.inner.borrow_mut();
        if inner.held.is_empty() {
            return Pin::new(&mut inner.stream).poll_read(cx, into);
        }
        let count = inner.held.len().min(into.remaining());
        into.put_slice(&inner.held[..count]);
        inner.held.drain(..count);
        if inner.held.is_empty() {
            // Nothing is held back from now on.
            inner.held = Vec::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Raw {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0.inner.borrow_mut().stream).poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0.inner.borrow_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0.inner.borrow_mut().stream).poll_shutdown(cx)
    }
}
