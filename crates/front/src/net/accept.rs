//! Accepting: who gets a connection, what happens where there is no place for one more, and the connection's place in
//! the register. It serves nothing itself.

use std::cell::Cell;
use std::fmt::Display;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use tokio::task::AbortHandle;

use crate::Front;
use crate::http::h1::connection::Connection;
use crate::http::request::Peer;
use crate::log::Level;
use crate::net::addresses::{Counted, TooMany};
use crate::net::descriptors;
use crate::net::listener::{ACCEPT_PAUSE, Acceptor, Listener};
use crate::net::stream::Stream;

/// How often it is told that accepting pauses.
const TELL_SHORT: Duration = Duration::from_secs(10);

impl Front {
    /// Accepts from a listener from now on.
    ///
    /// # Errors
    /// The listener can't be put on the runtime.
    pub fn accept(self: &Rc<Self>, listener: Listener) -> io::Result<()> {
        let acceptor = Rc::new(listener.into_acceptor()?);
        let (front, accepts) = (Rc::clone(self), Rc::clone(&acceptor));
        let task = tokio::task::spawn_local(async move {
            loop {
                front.room(|| accepts.has_newcomer()).await;
                let accepted = accepts.accept(|error| front.cannot_accept(error)).await;
                let settings = front.settings();
                let (stream, peer) = accepted.known(&settings.trusted_proxies);
                let limit = settings.max_connections_per_address;
                match front.addresses.count(&peer, limit) {
                    Ok(counted) => front.open(stream, peer, counted, false).await,
                    Err(error) => front.refuse_address(&peer, &error),
                }
            }
        });
        self.accepting.borrow_mut().push(Accepting {
            acceptor,
            task: task.abort_handle(),
        });
        Ok(())
    }

    /// Gives an idle connection up. Where there is none it says that accepting pauses; once in a while, for that may last.
    fn cannot_accept(&self, error: &io::Error) {
        self.service.is_crowded.set(true);
        if self.service.idle.close_first(None) {
            return;
        }
        self.say_accepting_pauses(error);
    }

    fn say_accepting_pauses(&self, error: &io::Error) {
        if !self.is_time_to_tell(&self.told_short_ms) {
            return;
        }
        let text = "accepting pauses: new connections wait until descriptors or memory are free";
        let log = &self.service.log;
        log.event(Level::Error, text, &[("reason", error)]);
    }

    /// Whether something that may go on for long was not told for a while; then it is told now.
    fn is_time_to_tell(&self, last: &Cell<u64>) -> bool {
        let (told, now) = (last.get(), self.clock.now_ms());
        let due = told == 0 || now.saturating_sub(told) >= TELL_SHORT.as_millis() as u64;
        if due {
            last.set(now);
        }
        due
    }

    /// Says that a connection is closed because its address has as many as it may.
    fn refuse_address(&self, peer: &Peer, error: &TooMany) {
        if self.is_time_to_tell(&self.told_address_ms) {
            let text = "connections of an address are closed at once, for it has as many as it may";
            let fields: [(&str, &dyn Display); 2] = [("address", &peer.address), ("reason", error)];
            self.service.log.event(Level::Warn, text, &fields);
        }
    }

    /// Waits until there may be another connection; until then clients wait in the backlog. While `waits` says that one
    /// does, an idle connection is given up for it.
    pub(crate) async fn room(&self, waits: impl Fn() -> bool) {
        let service = &self.service;
        loop {
            // Before the question, so that an end between the two is not missed.
            let ended = self.ended.notified();
            if service.connections.get() < service.settings.get().max_connections {
                return service.is_crowded.set(false);
            }
            service.is_crowded.set(true);
            if waits() {
                service.idle.close_first(None);
            }
            // Whether one waits is told by nothing.
            let _ = tokio::time::timeout(ACCEPT_PAUSE, ended).await;
        }
    }

    /// Serves a connection; `answered` says whether a request was answered on it before. While this front stops, only
    /// what has come on it already. Comes back when there may be descriptors for another one.
    pub(crate) async fn open(
        self: &Rc<Self>,
        stream: Stream,
        peer: Peer,
        counted: Option<Counted>,
        answered: bool,
    ) {
        let reserved = descriptors::is_reserved(&stream);
        let number = self.next_connection.get();
        self.next_connection.set(number + 1);
        let connection = Rc::new(Connection::new(
            Rc::clone(&self.service),
            stream,
            peer,
            Rc::clone(&self.clock),
            answered,
        ));
        self.connections
            .borrow_mut()
            .insert(number, Rc::clone(&connection));
        self.service
            .connections
            .set(self.service.connections.get() + 1);
        if self.accepting.borrow().is_empty() {
            connection.stop();
        }
        let open = Open {
            front: Rc::clone(self),
            number,
            _counted: counted,
        };
        let served = Rc::clone(&connection);
        tokio::task::spawn_local(async move {
            let _open = open;
            served.serve().await;
        });
        self.service.is_crowded.set(reserved);
        if reserved {
            self.have_descriptors(connection).await;
        }
    }

    /// Waits until there are descriptors for another connection beside this one, and gives idle ones up for them.
    async fn have_descriptors(&self, newcomer: Rc<Connection>) {
        while descriptors::are_short() {
            let ended = self.ended.notified();
            if !self.service.idle.close_first(Some(&newcomer)) {
                self.say_accepting_pauses(&descriptors::none_left());
            }
            // They may be had without a connection's end as well.
            let _ = tokio::time::timeout(ACCEPT_PAUSE, ended).await;
        }
    }
}

/// A listener and the task that accepts from it.
pub(crate) struct Accepting {
    pub(crate) acceptor: Rc<Acceptor>,
    pub(crate) task: AbortHandle,
}

/// A connection's place in the register; given back however its task ends.
struct Open {
    front: Rc<Front>,
    number: u64,
    _counted: Option<Counted>,
}

impl Drop for Open {
    fn drop(&mut self) {
        let connections = &self.front.service.connections;
        connections.set(connections.get() - 1);
        // Not dropped while the register is borrowed: its own end may want to look.
        let ended = self.front.connections.borrow_mut().remove(&self.number);
        drop(ended);
        self.front.ended.notify_waiters();
    }
}
