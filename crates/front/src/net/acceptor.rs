//! A listener on the runtime, and what comes out of it: sockets with their ends. It decides nothing about them.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::SockRef;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

use crate::http::request::Peer;
use crate::net::listener::{Bound, Listener};
use crate::net::stream::Stream;
use crate::net::unix_path::UnixPath;

/// How long accepting pauses where the system has nothing to accept with.
pub(super) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A listener on the runtime.
#[derive(Debug)]
pub(super) enum Acceptor {
    Tcp(TcpListener, SocketAddr),
    Unix(UnixListener, UnixPath),
}

/// An accepted socket, before it is known whom to believe.
#[derive(Debug)]
pub(super) enum Accepted {
    /// With both its ends, the client's first.
    Tcp(TcpStream, SocketAddr, SocketAddr),
    Unix(UnixStream),
}

impl Accepted {
    /// The connection and its ends.
    pub(super) fn known(self, trusted: &config::AddressList) -> (Stream, Peer) {
        match self {
            Self::Tcp(stream, peer, local) => {
                let peer = tcp_peer(peer, local, trusted);
                (Stream::Tcp(stream), peer)
            }
            Self::Unix(stream) => (Stream::Unix(stream), unix_peer(trusted)),
        }
    }

    /// Moves the socket to the lowest descriptor that is free.
    ///
    /// # Errors
    /// The system refuses; the socket is closed.
    pub(super) fn on_lowest_descriptor(self) -> io::Result<Self> {
        let socket = self.as_fd().try_clone_to_owned()?;
        match self {
            // The one before leaves the runtime first: both are the same socket.
            Self::Tcp(stream, peer, local) => {
                drop(stream);
                let stream = TcpStream::from_std(socket.into())?;
                Ok(Self::Tcp(stream, peer, local))
            }
            Self::Unix(stream) => {
                drop(stream);
                Ok(Self::Unix(UnixStream::from_std(socket.into())?))
            }
        }
    }
}

impl AsFd for Accepted {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream, ..) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
        }
    }
}

impl Acceptor {
    /// Returns the same socket on the runtime.
    pub(super) fn new(listener: Listener) -> io::Result<Self> {
        match listener.socket {
            Bound::Tcp(listener) => {
                listener.set_nonblocking(true)?;
                // Responses go out whole; waiting for more would only add the client's delayed ack. Linux lets accepted
                // sockets inherit it, which saves a call for each.
                let _ = SockRef::from(&listener).set_tcp_nodelay(true);
                let address = listener.local_addr()?;
                Ok(Self::Tcp(TcpListener::from_std(listener)?, address))
            }
            Bound::Unix(listener, path) => {
                listener.set_nonblocking(true)?;
                Ok(Self::Unix(UnixListener::from_std(listener)?, path))
            }
        }
    }

    /// Returns a duplicate of the socket.
    pub(super) fn duplicate(&self) -> io::Result<OwnedFd> {
        match self {
            Self::Tcp(listener, _) => listener.as_fd().try_clone_to_owned(),
            Self::Unix(listener, _) => listener.as_fd().try_clone_to_owned(),
        }
    }

    /// Leaves the file of a UNIX socket where it is.
    pub(super) fn leave_file(&self) {
        if let Self::Unix(_, path) = self {
            path.owned.set(false);
        }
    }

    /// Whether a client waits to be accepted: asked of the kernel.
    pub(super) fn has_newcomer(&self) -> bool {
        let socket = match self {
            Self::Tcp(listener, _) => listener.as_fd(),
            Self::Unix(listener, _) => listener.as_fd(),
        };
        let mut socket = [PollFd::new(&socket, PollFlags::IN)];
        poll(&mut socket, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
    }

    /// The next connection. Out of descriptors or memory it calls `short`, and pauses instead of spinning; clients then
    /// wait in the backlog.
    pub(super) async fn accept(&self, short: impl AsyncFn(&io::Error)) -> Accepted {
        loop {
            let accepted = match self {
                Self::Tcp(listener, local) => {
                    let accepted = listener.accept().await;
                    accepted.map(|(stream, peer)| Accepted::Tcp(stream, peer, *local))
                }
                Self::Unix(listener, _) => {
                    let accepted = listener.accept().await;
                    accepted.map(|(stream, _)| Accepted::Unix(stream))
                }
            };
            match accepted {
                Ok(accepted) => return accepted,
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    short(&error).await;
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

fn tcp_peer(peer: SocketAddr, local: SocketAddr, trusted: &config::AddressList) -> Peer {
    Peer {
        address: peer.ip().to_canonical().to_string(),
        port: peer.port(),
        local_host: local.ip().to_string(),
        local_port: local.port(),
        trusted: trusted.contains(peer.ip()),
        tls: None,
        proxied: false,
    }
}

fn unix_peer(trusted: &config::AddressList) -> Peer {
    Peer {
        address: "127.0.0.1".to_owned(),
        port: 0,
        local_host: "localhost".to_owned(),
        local_port: 80,
        trusted: trusted.contains_unix(),
        tls: None,
        proxied: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn accepted_connections_send_without_delay() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let socket = Bound::Tcp(listener);
        let acceptor = Acceptor::new(Listener { socket, tls: false }).unwrap();
        let _client = std::net::TcpStream::connect(address).unwrap();
        let Accepted::Tcp(stream, ..) = acceptor.accept(async |error| panic!("{error}")).await
        else {
            panic!("it came over TCP")
        };
        assert!(stream.nodelay().unwrap());
    }
}
