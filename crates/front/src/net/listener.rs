//! Sockets that listen, bound here or inherited, and accepting from each.
//!
//! It binds before anything else starts, so that a bad address is known at once. It never reads from a
//! connection.

use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use config::Listen;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, OFlags, Uid};
use rustix::net::SocketType;
use rustix::net::sockopt;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

use crate::http::request::Peer;
use crate::net::stream::Stream;

/// How long accepting pauses where the system has nothing to accept with.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A socket that is bound and listens.
#[derive(Debug)]
pub struct Listener {
    socket: Bound,
}

#[derive(Debug)]
enum Bound {
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
    #[error("it is no stream socket that listens")]
    NoListener,
    /// It has neither an address of the internet nor a path.
    #[error("it has neither an IP address nor a path")]
    NoAddress,
    /// The kernel says nothing of it.
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl Listener {
    /// Takes over a socket that listens already. The file of a UNIX socket stays somebody else's.
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
        Ok(Self { socket })
    }

    /// Has the kernel hold so many connections before they are accepted, and name this process to whoever asks for the
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
            (Bound::Tcp(listener), Listen::Tcp(wanted)) => {
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
    /// A UNIX socket's file that nobody listens on any more is replaced; one that somebody listens on is
    /// an address in use. From its first moment on the file lets nobody in whom `access` does not.
    ///
    /// # Errors
    /// What is wrong with the address, named.
    pub fn bind(listen: &Listen, backlog: u32, access: FileAccess) -> Result<Self, BindError> {
        let backlog = i32::try_from(backlog).unwrap_or(i32::MAX);
        let bound = match listen {
            Listen::Tcp(address) => bind_tcp(*address, backlog),
            Listen::Unix(path) => bind_unix(path, backlog, access),
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
                Ok(Acceptor::Unix(UnixListener::from_std(listener)?, path))
            }
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

/// Who may connect to a UNIX socket, by its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileAccess {
    /// The file's mode.
    pub mode: u32,
    /// Its owner, where that is not who makes it.
    pub user: Option<u32>,
    /// Its group, where that is not that of who makes it.
    pub group: Option<u32>,
}

impl FileAccess {
    /// For the owner alone.
    pub const PRIVATE: Self = Self {
        mode: 0o600,
        user: None,
        group: None,
    };

    /// Owner and group first: the mode is not for those that the file has before.
    fn apply(self, path: &Path) -> io::Result<()> {
        // By a descriptor, for the name may lead elsewhere by now.
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(CWD, path, flags, Mode::empty())?;
        if !FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode).is_socket() {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        let (user, group) = (self.user.map(Uid::from_raw), self.group.map(Gid::from_raw));
        if user.is_some() || group.is_some() {
            rustix::fs::chownat(&file, "", user, group, AtFlags::EMPTY_PATH).map_err(|error| {
                let (user, group) = (self.user, self.group);
                let whom = [user.map(|uid| format!("user {uid}")), group.map(|gid| format!("group {gid}"))];
                let whom = whom.into_iter().flatten().collect::<Vec<_>>().join(" and ");
                io::Error::other(format!(
                    "its file cannot be given to {whom}: {error}; only a member of the group, or root, can do that \
                     (setting `unix_socket_group`)"
                ))
            })?;
        }
        let entry = format!("/proc/self/fd/{}", file.as_raw_fd());
        Ok(rustix::fs::chmodat(
            CWD,
            entry,
            Mode::from(self.mode),
            AtFlags::empty(),
        )?)
    }
}

/// A socket's file, removed when its listener ends unless it is another's.
#[derive(Debug)]
pub(crate) struct UnixPath {
    path: PathBuf,
    owned: Cell<bool>,
}

impl UnixPath {
    fn new(path: &Path, owned: bool) -> Self {
        Self {
            path: path.to_owned(),
            owned: Cell::new(owned),
        }
    }
}

impl Drop for UnixPath {
    fn drop(&mut self) {
        if self.owned.get() {
            // Somebody may have removed it already, which is what is wanted.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

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

    /// The next connection. Out of descriptors or memory it tells `short`, and pauses instead of spinning; clients then
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
