//! A connection that its application has taken over: bytes go both ways. It never reads what they say.

use std::future::poll_fn;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::task::Poll;

use tokio::net::UnixStream;

use super::state::ConnectionState;
use crate::edge::Edge;
use crate::http::incoming::{Hijack, hijacked_by};
use crate::net::client_io::ClientIo;
use crate::net::client_io::raw::Raw;
use crate::net::descriptors;
use crate::net::stream::probe_when_silent;

/// Moves bytes both ways between the client and the application's socket until both are done.
pub(super) async fn splice(edge: &Edge, connection: &ConnectionState, hijack: Hijack) {
    let response = &hijack.response;
    connection.spliced.set(true);
    connection.hijacked_by.set(hijacked_by(response));
    let socket = response.take_socket();
    let io = connection.io.clone();
    io.with_stream(|stream| probe_when_silent(stream.as_fd()));
    // Without a descriptor for it both sides see the other one leave.
    let socket = socket.and_then(|socket| descriptors::keep_reserve(socket).ok());
    if let Some(socket) = socket.and_then(|socket| to_stream(socket).ok()) {
        let killed = poll_fn(|cx| {
            connection.remember(cx);
            match connection.killed.get() {
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
    if let Some(id) = response.id() {
        edge.dispatcher.abandon(id);
    }
}

fn to_stream(socket: OwnedFd) -> io::Result<UnixStream> {
    let socket = std::os::unix::net::UnixStream::from(socket);
    socket.set_nonblocking(true)?;
    UnixStream::from_std(socket)
}

async fn relay(io: ClientIo, mut socket: UnixStream) {
    // Errors end it like an end: either side may just go away.
    let _ = tokio::io::copy_bidirectional(&mut Raw(io), &mut socket).await;
}
