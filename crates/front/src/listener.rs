//! Bound sockets, and the loop that accepts from each.
//!
//! It binds before anything else starts, so that a bad address is known at once. It never reads from a
//! connection.

use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use config::Listen;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, UnixListener};

use crate::client_io::Stream;
use crate::request::Peer;

/// How long accepting pauses where the system has nothing to accept with.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A socket that is bound and listens.
#[derive(Debug)]
pub struct Listener {
    socket: Bound,
}

#[derive(Debug)]
enum Bound {
    Tcp(std::net::TcpListener),
    Unix(std::os::unix::net::UnixListener, PathBuf),
}

/// A listener that could not be bound.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {reason}")]
pub struct BindError {
    address: String,
    reason: String,
}

impl Listener {
    /// Binds an address.
    ///
    /// A UNIX socket's file that nobody listens on any more is replaced; one that somebody listens on is
    /// an address in use.
    ///
    /// # Errors
    /// What is wrong with the address, named.
    pub fn bind(listen: &Listen, backlog: u32) -> Result<Self, BindError> {
        let backlog = i32::try_from(backlog).unwrap_or(i32::MAX);
        let bound = match listen {
            Listen::Tcp(address) => bind_tcp(*address, backlog),
            Listen::Unix(path) => bind_unix(path, backlog),
        };
        bound
            .map(|socket| Self { socket })
            .map_err(|error| BindError {
                address: name(listen),
                reason: explain(&error),
            })
    }

    /// Where it listens, for people: the real port where 0 was asked for.
    pub fn name(&self) -> String {
        match &self.socket {
            Bound::Tcp(listener) => listener
                .local_addr()
                .map_or_else(|_| "tcp".to_owned(), |address| format!("http://{address}")),
            Bound::Unix(_, path) => format!("unix:{}", path.display()),
        }
    }

    /// The file of a UNIX socket.
    pub fn path(&self) -> Option<&Path> {
        match &self.socket {
            Bound::Unix(_, path) => Some(path),
            Bound::Tcp(_) => None,
        }
    }

    /// The same socket on the runtime.
    pub(crate) fn into_acceptor(self) -> io::Result<Acceptor> {
        match self.socket {
            Bound::Tcp(listener) => {
                listener.set_nonblocking(true)?;
                let address = listener.local_addr()?;
                Ok(Acceptor::Tcp(TcpListener::from_std(listener)?, address))
            }
            Bound::Unix(listener, path) => {
                listener.set_nonblocking(true)?;
                Ok(Acceptor::Unix(
                    UnixListener::from_std(listener)?,
                    UnixPath(path),
                ))
            }
        }
    }
}

fn name(listen: &Listen) -> String {
    match listen {
        Listen::Tcp(address) => address.to_string(),
        Listen::Unix(path) => format!("unix:{}", path.display()),
    }
}

fn explain(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            "the address is in use by another process; end it or choose another".to_owned()
        }
        io::ErrorKind::PermissionDenied => {
            "permission denied; ports below 1024 and other users' folders need more rights"
                .to_owned()
        }
        io::ErrorKind::AddrNotAvailable => "this machine has no such address".to_owned(),
        io::ErrorKind::NotFound => "its folder does not exist".to_owned(),
        _ => error.to_string(),
    }
}

fn bind_tcp(address: SocketAddr, backlog: i32) -> io::Result<Bound> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        // `[::]:3000` and `0.0.0.0:3000` may both be asked for.
        socket.set_only_v6(true)?;
    }
    socket.bind(&address.into())?;
    socket.listen(backlog)?;
    Ok(Bound::Tcp(socket.into()))
}

fn bind_unix(path: &Path, backlog: i32) -> io::Result<Bound> {
    let stale = std::fs::symlink_metadata(path).is_ok_and(|facts| facts.file_type().is_socket())
        && std::os::unix::net::UnixStream::connect(path)
            .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
    if stale {
        std::fs::remove_file(path)?;
    }
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.bind(&socket2::SockAddr::unix(path)?)?;
    socket.listen(backlog)?;
    Ok(Bound::Unix(socket.into(), path.to_owned()))
}

/// A socket's file, removed when its listener ends.
#[derive(Debug)]
pub(crate) struct UnixPath(PathBuf);

impl Drop for UnixPath {
    fn drop(&mut self) {
        // Somebody may have removed it already, which is what is wanted.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A listener on the runtime.
#[derive(Debug)]
pub(crate) enum Acceptor {
    Tcp(TcpListener, SocketAddr),
    /// The path only to be removed at the end.
    Unix(UnixListener, #[expect(dead_code)] UnixPath),
}

impl Acceptor {
    /// The next connection. Out of descriptors or memory it tells `short`, and pauses instead of spinning; clients then
    /// wait in the backlog.
    pub(crate) async fn accept(
        &self,
        trusted: &config::TrustedProxies,
        short: impl Fn(&io::Error),
    ) -> (Stream, Peer) {
        loop {
            let accepted = match self {
                Self::Tcp(listener, local) => listener.accept().await.map(|(stream, peer)| {
                    // Responses go out whole; waiting for more would only add the client's delayed ack.
                    let _ = stream.set_nodelay(true);
                    (Stream::Tcp(stream), tcp_peer(peer, *local, trusted))
                }),
                Self::Unix(listener, _) => listener
                    .accept()
                    .await
                    .map(|(stream, _)| (Stream::Unix(stream), unix_peer(trusted))),
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
