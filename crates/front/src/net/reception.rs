//! Where an edge receives connections: what must happen before HTTP, and the task that serves each. It accepts nothing, and
//! does not decide whether there is room.

use std::cell::Cell;
use std::rc::Rc;

use crate::edge::Edge;
use crate::http::h1::connection::Connection;
use crate::http::h1::state::ConnectionState;
use crate::http::request::Peer;
use crate::log::throttle::Throttle;
use crate::log::{Level, Value};
use crate::net::addresses::TooMany;
use crate::net::newcomer::{Arrived, Detached, Newcomer};
use crate::net::opening::{self, Refused};
use crate::net::stream::Stream;
use crate::panics::spawn_contained;

/// Where one edge receives connections.
pub(crate) struct Reception {
    edge: Rc<Edge>,
    /// Whether the server accepts no more.
    stopped: Cell<bool>,
    /// The line that says that an address has too many connections.
    address_line: Throttle,
    /// The line that says why a connection ended before HTTP.
    refused_line: Throttle,
}

impl Reception {
    /// Returns that of this edge.
    pub(crate) fn new(edge: &Rc<Edge>) -> Rc<Self> {
        Rc::new(Self {
            edge: Rc::clone(edge),
            stopped: Cell::new(false),
            address_line: Throttle::default(),
            refused_line: Throttle::default(),
        })
    }

    /// From now on a connection that comes is closed after its first request, for which it has a moment.
    pub(crate) fn stop(&self) {
        self.stopped.set(true);
    }

    /// Serves a connection that another thread has accepted.
    pub(crate) fn receive_from_thread(self: &Rc<Self>, newcomer: Detached) {
        // The system refuses where it has no memory: then the connection is closed.
        if let Ok(newcomer) = newcomer.attach() {
            self.receive(newcomer);
        }
    }

    /// Serves a connection; while the server stops, its first request alone. Returns its state, unless something comes
    /// before HTTP.
    pub(crate) fn receive(self: &Rc<Self>, newcomer: Newcomer) -> Option<Rc<ConnectionState>> {
        let Newcomer { stream, arrived } = newcomer;
        if arrived.has_opening {
            self.open(stream, arrived);
            return None;
        }
        let (state, served) = self.serve(stream, arrived);
        if self.stopped.get() {
            state.stop();
        }
        spawn_contained(served);
        Some(state)
    }

    /// Serves a connection that is to be given away as soon as it is idle.
    pub(crate) fn take_back(&self, newcomer: Newcomer) {
        let Newcomer { stream, arrived } = newcomer;
        let (state, served) = self.serve(stream, arrived);
        state.free_buffers_when_idle();
        spawn_contained(served);
    }

    /// Does what must happen on the socket before HTTP, and serves the connection then.
    fn open(self: &Rc<Self>, stream: Stream, mut arrived: Arrived) {
        let all = Rc::clone(self);
        let opening = self.edge.connections.begin_opening();
        spawn_contained(async move {
            let (peer, tls) = (arrived.peer, arrived.tls);
            let opened = tokio::select! {
                () = opening.cut() => return,
                // In a box of its own: a connection that is open holds none of it.
                opened = Box::pin(opening::open(&all.edge, stream, peer, tls)) => opened,
            };
            match opened {
                Ok(Some((stream, peer))) => {
                    if peer.proxied {
                        let limit = all.edge.settings.get().max_connections_per_address;
                        arrived.counted = match all.edge.addresses.count(&peer, limit) {
                            Ok(counted) => counted,
                            Err(error) => return all.refuse_address(&peer, &error),
                        };
                    }
                    let (state, served) = all.serve(stream, Arrived { peer, ..arrived });
                    drop(opening);
                    if all.stopped.get() {
                        state.stop_soon();
                    }
                    drop((state, all));
                    served.await;
                }
                Ok(None) => {}
                Err(refused) => all.log_refused(&refused),
            }
        });
    }

    /// Begins a connection on which HTTP can be spoken, and returns what serves it until it ends.
    fn serve(
        &self,
        stream: Stream,
        arrived: Arrived,
    ) -> (Rc<ConnectionState>, impl Future<Output = ()> + use<>) {
        let Arrived {
            peer,
            counted,
            place,
            answered,
            ..
        } = arrived;
        let connection = Connection::new(&self.edge, stream, peer, answered);
        let state = Rc::clone(connection.state());
        let open = self.edge.connections.add(&state);
        let served = async move {
            let _open = (open, counted, place);
            connection.serve().await;
        };
        (state, served)
    }

    /// Logs that a connection is closed because its address has as many as it may.
    pub(crate) fn refuse_address(&self, peer: &Peer, error: &TooMany) {
        if self.address_line.take(self.edge.clock.now_ms()) {
            let text = "closing new connections of an address that has too many";
            let fields = [
                ("address", Value::Text(&peer.address)),
                ("reason", Value::Text(error)),
            ];
            self.edge.log.event(Level::Warn, text, &fields);
        }
    }

    /// Logs why no HTTP is spoken on a connection; once in a while, for clients may do that often.
    fn log_refused(&self, refused: &Refused) {
        if self.refused_line.take(self.edge.clock.now_ms()) {
            let text = "closing a connection before its first request";
            let fields = [
                ("address", Value::Text(&refused.address)),
                ("reason", Value::Text(&refused.reason)),
            ];
            self.edge.log.event(Level::Warn, text, &fields);
        }
    }
}
