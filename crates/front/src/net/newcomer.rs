//! A socket that was accepted, on its way to the edge that serves it: on this thread, or taken off its runtime and put on that
//! of another one. It reads nothing from it.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::net::{TcpStream, UnixStream};
use tokio::sync::Notify;

use crate::http::request::Peer;
use crate::net::addresses::Counted;
use crate::net::stream::Stream;

/// What is known of a socket that was accepted.
#[derive(Debug)]
pub(crate) struct Arrived {
    /// Both its ends.
    pub(crate) peer: Peer,
    /// Its place among those of its address.
    pub(crate) counted: Option<Counted>,
    /// Its place among those of its edge, if that has a thread of its own.
    pub(crate) place: Option<Place>,
    /// Whether its listener speaks TLS.
    pub(crate) tls: bool,
    /// Whether a PROXY header or a handshake comes before HTTP.
    pub(crate) has_opening: bool,
    /// Whether another server answered a request on it before.
    pub(crate) answered: bool,
}

/// The same, with the socket, on the runtime of this thread.
#[derive(Debug)]
pub(crate) struct Newcomer {
    pub(crate) stream: Stream,
    pub(crate) arrived: Arrived,
}

/// The same, on no runtime.
#[derive(Debug)]
pub(crate) struct Detached {
    socket: OwnedFd,
    is_tcp: bool,
    arrived: Arrived,
}

impl Newcomer {
    /// Takes it off the runtime of this thread.
    ///
    /// # Errors
    /// The system refuses; the socket is closed.
    pub(crate) fn detach(self) -> io::Result<Detached> {
        let is_tcp = matches!(self.stream, Stream::Tcp(_));
        let socket: OwnedFd = match self.stream {
            Stream::Tcp(stream) => stream.into_std()?.into(),
            Stream::Unix(stream) => stream.into_std()?.into(),
            Stream::Tls(_) => return Err(io::Error::other("a session of TLS stays at its edge")),
        };
        let arrived = self.arrived;
        Ok(Detached {
            socket,
            is_tcp,
            arrived,
        })
    }
}

impl Detached {
    /// Puts it on the runtime of this thread.
    ///
    /// # Errors
    /// The system refuses; the socket is closed.
    pub(crate) fn attach(self) -> io::Result<Newcomer> {
        let stream = match self.is_tcp {
            true => Stream::Tcp(TcpStream::from_std(self.socket.into())?),
            false => Stream::Unix(UnixStream::from_std(self.socket.into())?),
        };
        let arrived = self.arrived;
        Ok(Newcomer { stream, arrived })
    }
}

impl AsFd for Newcomer {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// A connection's place among those of an edge with a thread of its own, from the moment in which it is handed over; free
/// again when this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    taken: Arc<AtomicUsize>,
    ended: Arc<Notify>,
}

impl Place {
    /// Takes a place; `ended` is notified when it is free again.
    pub(crate) fn take(taken: &Arc<AtomicUsize>, ended: &Arc<Notify>) -> Self {
        taken.fetch_add(1, Ordering::SeqCst);
        Self {
            taken: Arc::clone(taken),
            ended: Arc::clone(ended),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.taken.fetch_sub(1, Ordering::SeqCst);
        self.ended.notify_waiters();
    }
}
