//! Accepting: who gets a connection, and what happens where there is no place for one more. It serves nothing itself.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::task::AbortHandle;

use crate::edge::Edge;
use crate::http::h1::connection::Connection;
use crate::http::h1::state::{ConnectionState, IdleConnection};
use crate::http::request::Peer;
use crate::log::{Level, Value};
use crate::net::addresses::{Addresses, Counted, TooMany};
use crate::net::descriptors;
use crate::net::listener::{Bound, Listener};
use crate::net::stream::Stream;
use crate::net::unix_path::UnixPath;

/// How long accepting pauses where the system has nothing to accept with.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How often the log says that accepting pauses, or that an address has too many connections.
const ACCEPT_PAUSE_LOG_INTERVAL: Duration = Duration::from_secs(10);

/// A listener and the task that accepts from it.
struct Accepting {
    acceptor: Rc<Acceptor>,
    task: AbortHandle,
}

/// All listeners that connections are accepted from.
pub struct Acceptors {
    edge: Rc<Edge>,
    addresses: Rc<Addresses>,
    accepting: RefCell<Vec<Accepting>>,
    /// When the log last said that accepting pauses, by the coarse clock; 0 before.
    logged_pause_ms: Cell<u64>,
    /// When the log last said that an address has too many connections, by the coarse clock; 0 before.
    logged_address_ms: Cell<u64>,
}

impl Acceptors {
    /// Returns no listener. Connections will be this edge's.
    pub fn new(edge: &Rc<Edge>) -> Rc<Self> {
        Rc::new(Self {
            edge: Rc::clone(edge),
            addresses: Rc::default(),
            accepting: RefCell::default(),
            logged_pause_ms: Cell::new(0),
            logged_address_ms: Cell::new(0),
        })
    }

    /// Accepts from a listener from now on.
    ///
    /// # Errors
    /// The listener can't be put on the runtime.
    pub fn accept(self: &Rc<Self>, listener: Listener) -> io::Result<()> {
        let acceptor = Rc::new(Acceptor::new(listener)?);
        let (all, accepts) = (Rc::clone(self), Rc::clone(&acceptor));
        let task = tokio::task::spawn_local(async move {
            loop {
                all.wait_for_room(|| accepts.has_newcomer()).await;
                let accepted = accepts.accept(|error| all.cannot_accept(error)).await;
                let settings = all.edge.settings.get();
                let (stream, peer) = accepted.known(&settings.trusted_proxies);
                let limit = settings.max_connections_per_address;
                match all.addresses.count(&peer, limit) {
                    Ok(counted) => all.open(stream, peer, counted, false).await,
                    Err(error) => all.refuse_address(&peer, &error),
                }
            }
        });
        self.accepting.borrow_mut().push(Accepting {
            acceptor,
            task: task.abort_handle(),
        });
        Ok(())
    }

    /// Accepts nothing more.
    pub(crate) fn stop(&self) {
        for accepting in self.accepting.borrow_mut().drain(..) {
            accepting.task.abort();
        }
    }

    /// Duplicates of the sockets that connections are accepted from, in the order in which they came.
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn sockets(&self) -> io::Result<Vec<OwnedFd>> {
        let accepting = self.accepting.borrow();
        let sockets = accepting.iter().map(|one| one.acceptor.duplicate());
        sockets.collect()
    }

    /// Leaves the files of UNIX sockets where they are when the listeners end: another process accepts from them.
    pub fn leave_socket_files(&self) {
        for accepting in self.accepting.borrow().iter() {
            accepting.acceptor.leave_file();
        }
    }

    /// Serves a connection that another server gave away, once there is room for it, and comes back when there may be
    /// descriptors for another one. One that comes while this server stops is closed, as every idle one is, when what
    /// has come on it is answered.
    ///
    /// # Errors
    /// It can't be served: its client has left.
    pub async fn take_over(&self, socket: OwnedFd, idle: &IdleConnection) -> io::Result<()> {
        self.wait_for_room(|| true).await;
        let accepted = match idle.listener {
            Some(local) => {
                let stream = TcpStream::from_std(socket.into())?;
                let peer = stream.peer_addr()?;
                Accepted::Tcp(stream, peer, local)
            }
            None => Accepted::Unix(UnixStream::from_std(socket.into())?),
        };
        let settings = self.edge.settings.get();
        let (stream, peer) = accepted.known(&settings.trusted_proxies);
        // The other server let it in; here it counts as far as there is room.
        let limit = settings.max_connections_per_address;
        let counted = self.addresses.count(&peer, limit).ok().flatten();
        self.open(stream, peer, counted, idle.answered).await;
        Ok(())
    }

    /// Gives an idle connection up. Where there is none it logs that accepting pauses.
    fn cannot_accept(&self, error: &io::Error) {
        self.edge.connections.set_crowded(true);
        if !self.edge.connections.close_first_idle(None) {
            self.log_pause(error);
        }
    }

    /// Logs that accepting pauses; once in a while, for that may last.
    fn log_pause(&self, error: &io::Error) {
        if !self.is_time_to_log(&self.logged_pause_ms) {
            return;
        }
        let text = "accepting pauses: new connections wait until descriptors or memory are free";
        let log = &self.edge.log;
        log.event(Level::Error, text, &[("reason", Value::Text(error))]);
    }

    /// Whether something that may go on for long was not logged for a while; then it is logged now.
    fn is_time_to_log(&self, last: &Cell<u64>) -> bool {
        let (logged, now) = (last.get(), self.edge.clock.now_ms());
        let interval = ACCEPT_PAUSE_LOG_INTERVAL.as_millis() as u64;
        let due = logged == 0 || now.saturating_sub(logged) >= interval;
        if due {
            last.set(now);
        }
        due
    }

    /// Logs that a connection is closed because its address has as many as it may.
    fn refuse_address(&self, peer: &Peer, error: &TooMany) {
        if self.is_time_to_log(&self.logged_address_ms) {
            let text = "closing new connections of an address that has too many";
            let fields = [
                ("address", Value::Text(&peer.address)),
                ("reason", Value::Text(error)),
            ];
            self.edge.log.event(Level::Warn, text, &fields);
        }
    }

    /// Waits until there may be another connection; until then clients wait in the backlog. While `waits` says that one
    /// does, an idle connection is given up for it.
    async fn wait_for_room(&self, waits: impl Fn() -> bool) {
        let connections = &self.edge.connections;
        loop {
            // Before the question, so that an end between the two is not missed.
            let ended = connections.ended.notified();
            if connections.len() < self.edge.settings.get().max_connections {
                return connections.set_crowded(false);
            }
            connections.set_crowded(true);
            if waits() {
                connections.close_first_idle(None);
            }
            // No event says whether one waits.
            let _ = tokio::time::timeout(ACCEPT_PAUSE, ended).await;
        }
    }

    /// Serves a connection; `answered` says whether a request was answered on it before. While this front stops, only
    /// what has come on it already. Comes back when there may be descriptors for another one.
    async fn open(&self, stream: Stream, peer: Peer, counted: Option<Counted>, answered: bool) {
        let reserved = descriptors::is_reserved(&stream);
        let connection = Connection::new(&self.edge, stream, peer, answered);
        let state = Rc::clone(connection.state());
        let open = self.edge.connections.add(&state);
        if self.accepting.borrow().is_empty() {
            state.stop();
        }
        tokio::task::spawn_local(async move {
            let _open = (open, counted);
            connection.serve().await;
        });
        self.edge.connections.set_crowded(reserved);
        if reserved {
            self.wait_for_descriptors(&state).await;
        }
    }

    /// Waits until there are descriptors for another connection besides this one, and closes idle ones for them.
    async fn wait_for_descriptors(&self, newcomer: &Rc<ConnectionState>) {
        let connections = &self.edge.connections;
        while descriptors::are_short() {
            let ended = connections.ended.notified();
            if !connections.close_first_idle(Some(newcomer)) {
                self.log_pause(&descriptors::none_left());
            }
            // They may be had without a connection's end as well.
            let _ = tokio::time::timeout(ACCEPT_PAUSE, ended).await;
        }
    }
}

/// A listener on the runtime.
#[derive(Debug)]
enum Acceptor {
    Tcp(TcpListener, SocketAddr),
    Unix(UnixListener, UnixPath),
}

/// An accepted socket, before it is known whom to believe.
#[derive(Debug)]
enum Accepted {
    /// With both its ends, the client's first.
    Tcp(TcpStream, SocketAddr, SocketAddr),
    Unix(UnixStream),
}

impl Accepted {
    /// The connection and its ends.
    fn known(self, trusted: &config::TrustedProxies) -> (Stream, Peer) {
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
    /// Returns the same socket on the runtime.
    fn new(listener: Listener) -> io::Result<Self> {
        match listener.socket {
            Bound::Tcp(listener) => {
                listener.set_nonblocking(true)?;
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
    fn duplicate(&self) -> io::Result<OwnedFd> {
        match self {
            Self::Tcp(listener, _) => listener.as_fd().try_clone_to_owned(),
            Self::Unix(listener, _) => listener.as_fd().try_clone_to_owned(),
        }
    }

    /// Leaves the file of a UNIX socket where it is.
    fn leave_file(&self) {
        if let Self::Unix(_, path) = self {
            path.owned.set(false);
        }
    }

    /// Whether a client waits to be accepted: asked of the kernel.
    fn has_newcomer(&self) -> bool {
        let socket = match self {
            Self::Tcp(listener, _) => listener.as_fd(),
            Self::Unix(listener, _) => listener.as_fd(),
        };
        let mut socket = [PollFd::new(&socket, PollFlags::IN)];
        poll(&mut socket, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
    }

    /// The next connection. Out of descriptors or memory it calls `short`, and pauses instead of spinning; clients then
    /// wait in the backlog.
    async fn accept(&self, short: impl Fn(&io::Error)) -> Accepted {
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
