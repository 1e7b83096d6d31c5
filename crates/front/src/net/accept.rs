//! Accepting: who gets a connection, and what happens where there is no place for one more. It serves nothing itself.

use std::cell::RefCell;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use tokio::net::{TcpStream, UnixStream};
use tokio::task::AbortHandle;

use crate::edge::Edge;
use crate::edges::Edges;
use crate::http::h1::state::{ConnectionState, IdleConnection};
use crate::log::throttle::Throttle;
use crate::log::{Level, Value};
use crate::net::acceptor::{ACCEPT_PAUSE, Accepted, Acceptor};
use crate::net::descriptors;
use crate::net::listener::Listener;
use crate::net::newcomer::{Arrived, Newcomer};
use crate::net::reception::Reception;

/// A listener and the task that accepts from it.
struct Accepting {
    acceptor: Rc<Acceptor>,
    task: AbortHandle,
}

/// All listeners that connections are accepted from.
pub struct Acceptors {
    /// The edge of this thread.
    edge: Rc<Edge>,
    /// Those of other threads.
    edges: Rc<Edges>,
    reception: Rc<Reception>,
    accepting: RefCell<Vec<Accepting>>,
    /// The line that says that accepting pauses.
    pause_line: Throttle,
}

impl Acceptors {
    /// Returns no listener. Connections will be those of this thread's edge and of these of other threads.
    pub fn new(edge: &Rc<Edge>, edges: &Rc<Edges>) -> Rc<Self> {
        Rc::new(Self {
            edge: Rc::clone(edge),
            edges: Rc::clone(edges),
            reception: Reception::new(edge),
            accepting: RefCell::default(),
            pause_line: Throttle::default(),
        })
    }

    /// Accepts from a listener from now on.
    ///
    /// # Errors
    /// The listener can't be put on the runtime.
    pub fn accept(self: &Rc<Self>, listener: Listener) -> io::Result<()> {
        let tls = listener.tls;
        let acceptor = Rc::new(Acceptor::new(listener)?);
        if let (true, Acceptor::Tcp(_, address)) = (tls, &*acceptor) {
            self.edge.tls.listens(address.port());
        }
        let (all, accepts) = (Rc::clone(self), Rc::clone(&acceptor));
        let task = tokio::task::spawn_local(async move {
            loop {
                all.wait_for_room(|| accepts.has_newcomer()).await;
                let accepted = accepts
                    .accept(async |error| all.cannot_accept(error).await)
                    .await;
                let Ok(accepted) = all.out_of_reserve(accepted).await else {
                    continue;
                };
                let settings = all.edge.settings.get();
                let (stream, peer) = accepted.known(&settings.trusted_proxies);
                let limit = settings.max_connections_per_address;
                // It is not counted: its header names who is.
                let sends_header = settings.proxy_protocol && peer.trusted;
                let counted = match all.edge.addresses.count(&peer, limit) {
                    Ok(counted) => counted,
                    Err(error) => {
                        all.reception.refuse_address(&peer, &error);
                        continue;
                    }
                };
                let arrived = Arrived {
                    peer,
                    counted,
                    place: None,
                    tls,
                    has_opening: tls || sends_header,
                    answered: false,
                };
                all.hand_on(Newcomer { stream, arrived }).await;
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
        self.reception.stop();
        self.edges.tell_all(|parts| parts.reception.stop());
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
        let newcomer = self.known_again(socket, idle)?;
        self.hand_on(newcomer).await;
        Ok(())
    }

    /// Serves a connection on at this thread's edge, which another one has let go of to give it away.
    ///
    /// # Errors
    /// It can't be served: its client has left.
    pub(crate) fn take_back(&self, socket: OwnedFd, idle: &IdleConnection) -> io::Result<()> {
        self.reception.take_back(self.known_again(socket, idle)?);
        Ok(())
    }

    /// Returns a connection that was given away.
    fn known_again(&self, socket: OwnedFd, idle: &IdleConnection) -> io::Result<Newcomer> {
        let accepted = match idle.listener {
            Some(local) => {
                let stream = TcpStream::from_std(socket.into())?;
                let peer = stream.peer_addr()?;
                Accepted::Tcp(stream, peer, local)
            }
            None => Accepted::Unix(UnixStream::from_std(socket.into())?),
        };
        let settings = self.edge.settings.get();
        let (stream, mut peer) = accepted.known(&settings.trusted_proxies);
        if let Some(client) = &idle.proxied {
            peer.address.clone_from(&client.address);
            (peer.port, peer.trusted, peer.proxied) = (client.port, client.trusted, true);
        }
        // It was let in before; it counts as far as there is room.
        let limit = settings.max_connections_per_address;
        let counted = self.edge.addresses.count(&peer, limit).ok().flatten();
        let arrived = Arrived {
            peer,
            counted,
            place: None,
            tls: false,
            has_opening: false,
            answered: idle.answered,
        };
        Ok(Newcomer { stream, arrived })
    }

    /// Gives an idle connection up. Where there is none it logs that accepting pauses.
    async fn cannot_accept(&self, error: &io::Error) {
        self.edge.connections.set_crowded(true);
        if !self.close_first_idle(None).await {
            self.log_pause(error);
        }
    }

    /// Logs that accepting pauses; once in a while, for that may last.
    fn log_pause(&self, error: &io::Error) {
        if !self.pause_line.take(self.edge.clock.now_ms()) {
            return;
        }
        let text = "accepting pauses: new connections wait until descriptors or memory are free";
        let log = &self.edge.log;
        log.event(Level::Error, text, &[("reason", Value::Text(error))]);
    }

    /// Waits until there may be another connection; until then clients wait in the backlog. While `waits` says that one
    /// does, an idle connection is given up for it.
    async fn wait_for_room(&self, waits: impl Fn() -> bool) {
        let connections = &self.edge.connections;
        loop {
            // Before the question, so that an end between the two is not missed.
            let ended = connections.ended.notified();
            if self.open_connections() < self.edge.settings.get().max_connections {
                return connections.set_crowded(false);
            }
            connections.set_crowded(true);
            if waits() {
                self.close_first_idle(None).await;
            }
            // No event says whether one waits.
            let _ = tokio::time::timeout(ACCEPT_PAUSE, ended).await;
        }
    }

    /// Has the edge with the fewest connections serve it. Comes back when there may be descriptors for another one.
    async fn hand_on(&self, newcomer: Newcomer) {
        let reserved = descriptors::is_reserved(&newcomer);
        let state = match self.edges.with_fewest(self.edge.connections.len()) {
            None => self.reception.receive(newcomer),
            Some(other) => {
                other.hand_over(newcomer);
                None
            }
        };
        self.make_room(reserved, state.as_ref()).await;
    }

    /// Number of connections of all edges.
    fn open_connections(&self) -> usize {
        self.edge.connections.len() + self.edges.connections()
    }

    /// Closes the first idle connection of all edges, other than `newcomer`. False where there is none.
    async fn close_first_idle(&self, newcomer: Option<&Rc<ConnectionState>>) -> bool {
        let own = &self.edge.connections;
        if self.edges.have_earlier_idle(own.first_idle(newcomer)).await {
            return self.edges.close_first_idle().await;
        }
        own.close_first_idle(newcomer) || self.edges.close_first_idle().await
    }

    /// Where a socket got a descriptor of the reserve, waits until there is another one and moves it there: it would hold
    /// that place for as long as it is open, and the next newcomers the places beside it, up to the end of the reserve.
    async fn out_of_reserve(&self, accepted: Accepted) -> io::Result<Accepted> {
        if !descriptors::is_reserved(&accepted) {
            return Ok(accepted);
        }
        self.edge.connections.set_crowded(true);
        self.wait_for_descriptors(None).await;
        accepted.on_lowest_descriptor()
    }

    /// Where the newest connection's descriptor was one of the reserve, waits until there are others.
    async fn make_room(&self, reserved: bool, newcomer: Option<&Rc<ConnectionState>>) {
        self.edge.connections.set_crowded(reserved);
        if reserved {
            self.wait_for_descriptors(newcomer).await;
        }
    }

    /// Waits until there are descriptors for another connection besides this one, and closes idle ones for them.
    async fn wait_for_descriptors(&self, newcomer: Option<&Rc<ConnectionState>>) {
        let connections = &self.edge.connections;
        while descriptors::are_short() {
            let ended = connections.ended.notified();
            if !self.close_first_idle(newcomer).await {
                self.log_pause(&descriptors::none_left());
            }
            // They may be had without a connection's end as well.
            let _ = tokio::time::timeout(ACCEPT_PAUSE, ended).await;
        }
    }
}
