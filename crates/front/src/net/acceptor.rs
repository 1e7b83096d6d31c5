//! A listener on the runtime: accepting from it. It never reads from a connection.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

use crate::http::request::Peer;
use crate::net::stream::Stream;
use crate::net::unix_path::UnixPath;

/// How long accepting pauses where the system has nothing to accept with.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A listener on the runtime.
#[derive(Debug)]
pub(crate) enum Acceptor {
    Tcp(TcpListener, SocketAddr),
    Unix(UnixListener, UnixPath),
}

/// An accepted socket, before it is known whom to believe.
#[derive(Debug)]
pub(crate) enum Accepted {
    /// With both its ends, the client's first.
    Tcp(TcpStream, SocketAddr, SocketAddr),
    Unix(UnixStream),
}

impl Accepted {
    /// The connection and its ends.
    pub(crate) fn known(self, trusted: &config::TrustedProxies) -> (Stream, Peer) {
        match self {
            Self::Tcp(stream, peer, local) => {
                let peer = tcp_peer(peer, local, trusted);
                (Stream::Tcp(stream), peer)
            }
            Self::Unix(stream) => (Stream::Unix(stream), unix_peer(trusted)),
        }
    }
}

impl Acceptor {
    /// The same socket once more.
    pub(crate) fn duplicate(&self) -> io::Result<OwnedFd> {
        match self {
            Self::Tcp(listener, _) => listener.as_fd().try_clone_to_owned(),
            Self::Unix(listener, _) => listener.as_fd().try_clone_to_owned(),
        }
    }

    /// Leaves the file of a UNIX socket where it is.
    pub(crate) fn leave_file(&self) {
        if let Self::Unix(_, path) = self {
            path.owned.set(false);
        }
    }

    /// Whether a client waits to be accepted: asked of the kernel.
    pub(crate) fn has_newcomer(&self) -> bool {
        let socket = match self {
            Self::Tcp(listener, _) => listener.as_fd(),
            Self::Unix(listener, _) => listener.as_fd(),
        };
        let mut socket = [PollFd::new(&socket, PollFlags::IN)];
        poll(&mut socket, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
    }

    /// The next connection. Out of descriptors or memory it calls `short`, and pauses instead of spinning; clients then
    /// wait in the backlog.
    pub(crate) async fn accept(&self, short: impl Fn(&io::Error)) -> Accepted {
        loop {
            let accepted = match self {
                Self::Tcp(listener, local) => listener.accept().await.map(|(stream, peer)| {
                    // Responses go out whole; waiting for more would only add the client's delayed ack.
                    let _ = stream.set_nodelay(true);
                    Accepted::Tcp(stream, peer, *local)
                }),
                Self::Unix(listener, _) => {
                    let accepted = listener.accept().await;
                    accepted.map(|(stream, _)| Accepted::Unix(stream))
                }
            };
            match accepted {
                Ok(accepted) => return accepted,
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    short(&error);
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

fn tcp_peer(peer: SocketAddr, local: SocketAddr, trusted: &config::TrustedProxies) -> Peer {
    Peer {
        address: peer.ip().to_canonical().to_string(),
        port: peer.port(),
        local_host: local.ip().to_string(),
        local_port: local.port(),
        trusted: trusted.contains(peer.ip()),
    }
}

fn unix_peer(trusted: &config::TrustedProxies) -> Peer {
    Peer {
        address: "127.0.0.1".to_owned(),
        port: 0,
        local_host: "localhost".to_owned(),
        local_port: 80,
        trusted: trusted.contains_unix(),
    }
}
