//! Files that go from the kernel's memory to a client's socket, past hyper. It opens and reads none.

use std::io;
use std::os::fd::BorrowedFd;
use std::task::{Context, Poll};

use super::{ClientIo, ClientState};
use crate::net::stream::is_of_socket;

impl ClientIo {
    /// Whether files can go past hyper.
    pub fn takes_files(&self) -> bool {
        self.inner.borrow().stream.takes_files()
    }

    /// Sends bytes of a file past hyper: at most `count` from `at` on. Once what hyper holds is sent; hyper must then be
    /// given as many other bytes, which are not sent. A client that is gone is found by hyper, which flushes.
    ///
    /// # Errors
    /// The file cannot be sent so, or has nothing there.
    pub fn poll_send_file(
        &self,
        cx: &mut Context<'_>,
        file: BorrowedFd<'_>,
        at: u64,
        count: usize,
    ) -> Poll<io::Result<usize>> {
        let inner = &mut *self.inner.borrow_mut();
        if inner.client == ClientState::Gone {
            return Poll::Pending;
        }
        let sent = inner.stream.poll_send_file(cx, file, at, count);
        self.flow.note_write(&sent);
        match sent {
            Poll::Ready(Ok(0)) => Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
            Poll::Ready(Ok(count)) => {
                inner.sent_past += count;
                Poll::Ready(Ok(count))
            }
            Poll::Ready(Err(error)) if is_of_socket(&error) => {
                inner.client = ClientState::Gone;
                Poll::Pending
            }
            other => other,
        }
    }
}
