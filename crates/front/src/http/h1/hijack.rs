//! A connection that its application has taken over: bytes go both ways, and nobody looks at them.

use std::future::poll_fn;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::task::Poll;

use tokio::net::UnixStream;

use super::connection::Connection;
use crate::http::request::Request;
use crate::net::client_io::{ClientIo, Raw};
use crate::net::descriptors;
use crate::net::stream::probe_when_silent;

impl Connection {
    /// Moves bytes both ways between the client and the application's socket until both are done.
    pub(super) async fn splice(&self, request: &Rc<Request>) {
        self.spliced.set(true);
        let socket = request.socket.borrow_mut().take();
        let io = self.exchanged.io.clone();
        io.with_socket(probe_when_silent);
        // Without a descriptor for it both sides see the other one leave.
        let socket = socket.and_then(|socket| descriptors::beside_reserve(socket).ok());
        if let Some(socket) = socket.and_then(|socket| to_stream(socket).ok()) {
            let killed = poll_fn(|cx| {
                self.remember(cx);
                match self.killed.get() {
                    true => Poll::Ready(()),
                    false => Poll::Pending,
                }
            });
            tokio::select! {
                () = killed => {}
                () = relay(io, socket) => {}
            }
        }
        // A thread that still serves it has its time once more to notice.
        self.service.dispatcher.abandon(request);
    }
}

fn to_stream(socket: OwnedFd) -> std::io::Result<UnixStream> {
    let socket = std::os::unix::net::UnixStream::from(socket);
    socket.set_nonblocking(true)?;
    UnixStream::from_std(socket)
}

async fn relay(io: ClientIo, mut socket: UnixStream) {
    // Errors end it like an end: either side may just go away.
    let _ = tokio::io::copy_bidirectional(&mut Raw(io), &mut socket).await;
}
