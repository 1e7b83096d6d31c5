//! Sockets that listen, bound here or inherited.
//!
//! It binds before anything else starts, so that a bad address is known at once. It accepts nothing: `accept` does.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use config::Listen;
use rustix::fs::Mode;
use rustix::net::SocketType;
use rustix::net::sockopt;
use socket2::{Domain, Protocol, Socket, Type};

use crate::net::unix_path::{FileAccess, UnixPath};

/// A socket that a service manager opened for this port, and that no setting names, speaks TLS.
const HTTPS_PORT: u16 = 443;

/// A socket that is bound and listens.
#[derive(Debug)]
pub struct Listener {
    pub(super) socket: Bound,
    /// Whether its clients speak TLS.
    pub(super) tls: bool,
}

#[derive(Debug)]
pub(super) enum Bound {
    Tcp(std::net::TcpListener),
    Unix(std::os::unix::net::UnixListener, UnixPath),
}

/// A listener that could not be bound.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {reason}")]
pub struct BindError {
    address: String,
    reason: String,
}

/// An inherited descriptor that nothing can be accepted from.
#[derive(Debug, thiserror::Error)]
pub enum AdoptError {
    /// It is another kind of file, or a socket that does not listen.
    #[error("it is not a listening stream socket")]
    NoListener,
    /// It has neither an address of the internet nor a path.
    #[error("it has neither an IP address nor a path")]
    NoAddress,
    /// The kernel says nothing of it.
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl Listener {
    /// Takes over a socket that listens already. The file of a UNIX socket stays with the process that made it.
    ///
    /// # Errors
    /// Nothing can be accepted from it.
    pub fn adopt(socket: OwnedFd) -> Result<Self, AdoptError> {
        let stream = sockopt::socket_type(&socket).is_ok_and(|kind| kind == SocketType::STREAM);
        if !stream || !sockopt::socket_acceptconn(&socket).unwrap_or(false) {
            return Err(AdoptError::NoListener);
        }
        let socket = Socket::from(socket);
        let address = socket.local_addr()?;
        let socket = match (address.as_socket(), address.as_pathname()) {
            (Some(_), _) => Bound::Tcp(socket.into()),
            (None, Some(path)) => Bound::Unix(socket.into(), UnixPath::new(path, false)),
            (None, None) => return Err(AdoptError::NoAddress),
        };
        // Where the settings name it, they say whether it is one for TLS.
        let tls = address
            .as_socket()
            .is_some_and(|address| address.port() == HTTPS_PORT);
        Ok(Self { socket, tls })
    }

    /// Has its clients speak TLS if they do at this address.
    #[must_use]
    pub fn for_clients_of(mut self, address: &Listen) -> Self {
        self.tls = matches!(address, Listen::Tls(_));
        self
    }

    /// Whether its clients speak TLS.
    pub fn is_tls(&self) -> bool {
        self.tls
    }

    /// Has the kernel hold so many connections before they are accepted, and name this process to a client that asks for the
    /// peer of a UNIX socket: both stay as the process left them that bound it.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn claim(&self, backlog: u32) -> io::Result<()> {
        let backlog = i32::try_from(backlog).unwrap_or(i32::MAX);
        Ok(rustix::net::listen(self, backlog)?)
    }

    /// Whether clients of this address reach it. A socket for IPv6 may serve IPv4 as well.
    pub fn stands_for(&self, wanted: &Listen) -> bool {
        match (&self.socket, wanted) {
            (Bound::Unix(_, path), Listen::Unix(wanted)) => path.path == *wanted,
            (Bound::Tcp(listener), Listen::Tcp(wanted) | Listen::Tls(wanted)) => {
                let Ok(own) = listener.local_addr() else {
                    return false;
                };
                let both = || {
                    let any = own.is_ipv6() && own.ip().is_unspecified();
                    any && !sockopt::ipv6_v6only(listener).unwrap_or(true)
                };
                let every = wanted.is_ipv4() && wanted.ip().is_unspecified();
                own == *wanted || own.port() == wanted.port() && every && both()
            }
            _ => false,
        }
    }

    /// Whether the file of a UNIX socket is to be removed when the listener ends.
    pub fn own_file(&self, owned: bool) {
        if let Bound::Unix(_, path) = &self.socket {
            path.owned.set(owned);
        }
    }

    /// Binds an address.
    ///
    /// A UNIX socket's file on which no process listens any more is replaced; one on which a process listens is
    /// an address in use. The file never admits a user whom `access` does not.
    ///
    /// # Errors
    /// What is wrong with the address, named.
    pub fn bind(listen: &Listen, backlog: u32, access: FileAccess) -> Result<Self, BindError> {
        let backlog = i32::try_from(backlog).unwrap_or(i32::MAX);
        let bound = match listen {
            Listen::Tcp(address) | Listen::Tls(address) => bind_tcp(*address, backlog),
            Listen::Unix(path) => bind_unix(path, backlog, access),
        };
        bound
            .map(|socket| Self {
                socket,
                tls: matches!(listen, Listen::Tls(_)),
            })
            .map_err(|error| BindError {
                address: name(listen),
                reason: explain(&error),
            })
    }

    /// Where it listens, for people: the real port where 0 was asked for.
    pub fn name(&self) -> String {
        match &self.socket {
            Bound::Tcp(listener) => {
                let scheme = if self.tls { "https" } else { "http" };
                listener.local_addr().map_or_else(
                    |_| "tcp".to_owned(),
                    |address| format!("{scheme}://{address}"),
                )
            }
            Bound::Unix(_, path) => format!("unix:{}", path.path.display()),
        }
    }

    /// The file of a UNIX socket.
    pub fn path(&self) -> Option<&Path> {
        match &self.socket {
            Bound::Unix(_, path) => Some(&path.path),
            Bound::Tcp(_) => None,
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.socket {
            Bound::Tcp(listener) => listener.as_fd(),
            Bound::Unix(listener, _) => listener.as_fd(),
        }
    }
}

fn name(listen: &Listen) -> String {
    match listen {
        Listen::Tcp(address) | Listen::Tls(address) => address.to_string(),
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

fn bind_unix(path: &Path, backlog: i32, access: FileAccess) -> io::Result<Bound> {
    let stale = std::fs::symlink_metadata(path).is_ok_and(|facts| facts.file_type().is_socket())
        && std::os::unix::net::UnixStream::connect(path)
            .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
    if stale {
        std::fs::remove_file(path)?;
    }
    let socket = bind_private(path)?;
    // Removed again where it cannot be as it was asked for.
    let file = UnixPath::new(path, true);
    access.apply(path)?;
    socket.listen(backlog)?;
    Ok(Bound::Unix(socket.into(), file))
}

/// Binds a socket to a file that its owner alone can connect to.
fn bind_private(path: &Path) -> io::Result<Socket> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    // The kernel makes the file with the mode that the socket has already, less the umask.
    rustix::fs::fchmod(&socket, Mode::from(0o600))?;
    socket.bind(&socket2::SockAddr::unix(path)?)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_file_of_a_socket_is_its_owners_alone_until_it_gets_its_mode() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.sock");
        let mode = || std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777;
        let socket = bind_private(&path).unwrap();
        assert_eq!(mode() & !0o600, 0);
        for wanted in [0o666, 0o660, 0o600] {
            let access = FileAccess {
                mode: wanted,
                ..FileAccess::PRIVATE
            };
            access.apply(&path).unwrap();
            assert_eq!(mode(), wanted);
        }
        drop(socket);
    }

    #[test]
    fn a_file_that_took_the_place_of_the_socket_keeps_its_mode() {
        let dir = tempfile::tempdir().unwrap();
        let (path, other) = (dir.path().join("a.sock"), dir.path().join("other"));
        std::fs::write(&other, "").unwrap();
        std::fs::set_permissions(&other, PermissionsExt::from_mode(0o600)).unwrap();
        std::os::unix::fs::symlink(&other, &path).unwrap();
        let access = FileAccess {
            mode: 0o666,
            ..FileAccess::PRIVATE
        };
        assert!(access.apply(&path).is_err());
        let mode = std::fs::metadata(&other).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o600);
    }
}
