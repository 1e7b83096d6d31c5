//! All connections of an edge: those that are open, those that need to be checked often, and those on which nothing is
//! under way, in the order in which they are given up where a newcomer finds no place. It accepts nothing, and does not
//! decide when there is a place.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};

use config::Settings;
use tokio::sync::Notify;

use crate::failure::Outcome;
use crate::http::h1::state::ConnectionState;

/// How many idle ones are looked at for one newcomer: something may have come on each that its task has not seen.
const LOOKED_AT: usize = 64;

/// Of those that were answered the one that has been idle longest, then those that have never sent anything: whether it
/// is of the latter, since when it is idle, and which it is.
type IdleKey = (bool, u64, usize);

/// The connections of one edge.
#[derive(Default)]
pub struct Connections {
    open: RefCell<BTreeMap<u64, Rc<ConnectionState>>>,
    next: Cell<u64>,
    /// Where the next check of a share of them begins.
    next_check: Cell<u64>,
    /// Connections that were awake at the last tick or woke since.
    awake: RefCell<Vec<Weak<ConnectionState>>>,
    /// Connections that idle without buffers.
    idle: RefCell<BTreeMap<IdleKey, Weak<ConnectionState>>>,
    /// Whether newcomers find no place: idle connections then give their buffers back at the next tick, so that they can be
    /// given up.
    is_crowded: Cell<bool>,
    /// Notified when a connection has ended.
    pub ended: Notify,
    /// Notified when a connection that is to be given away idles without buffers.
    pub rested: Notify,
}

impl Connections {
    /// Adds a connection; it is open until what this returns is dropped.
    pub fn add(self: &Rc<Self>, connection: &Rc<ConnectionState>) -> OpenConnection {
        let number = self.next.get();
        self.next.set(number + 1);
        self.open.borrow_mut().insert(number, Rc::clone(connection));
        OpenConnection {
            all: Rc::clone(self),
            number,
        }
    }

    /// Number of connections that are open.
    pub fn len(&self) -> usize {
        self.open.borrow().len()
    }

    /// Whether none is open.
    pub fn is_empty(&self) -> bool {
        self.open.borrow().is_empty()
    }

    /// Number of connections that idle without buffers.
    pub fn resting(&self) -> usize {
        self.idle.borrow().len()
    }

    /// All connections that are open.
    pub fn all(&self) -> Vec<Rc<ConnectionState>> {
        self.open.borrow().values().cloned().collect()
    }

    /// Waits until `reached`, asked again after each connection's end.
    pub async fn until(&self, reached: impl Fn(&Self) -> bool) {
        loop {
            // Before the question, so that an end between the two is not missed.
            let ended = self.ended.notified();
            if reached(self) {
                return;
            }
            ended.await;
        }
    }

    /// Records whether newcomers find no place.
    pub fn set_crowded(&self, crowded: bool) {
        self.is_crowded.set(crowded);
    }

    /// This connection is checked with each tick until it idles without buffers.
    pub fn woke(&self, connection: &Rc<ConnectionState>) {
        self.awake.borrow_mut().push(Rc::downgrade(connection));
    }

    /// This connection idles without buffers until what this returns is dropped.
    pub fn rests(&self, connection: &Rc<ConnectionState>) -> Resting<'_> {
        let (answered, since) = connection.idle_since();
        let key = (!answered, since, Rc::as_ptr(connection).addr());
        let weak = Rc::downgrade(connection);
        self.idle.borrow_mut().insert(key, weak);
        Resting { all: self, key }
    }

    /// Closes the first idle connection on which nothing has come, other than `newcomer`. False where there is none.
    pub fn close_first_idle(&self, newcomer: Option<&Rc<ConnectionState>>) -> bool {
        let mut idle = self.idle.borrow_mut();
        let found = idle.iter().take(LOOKED_AT).find_map(|(key, connection)| {
            let connection = connection.upgrade()?;
            let other = newcomer.is_none_or(|newcomer| !Rc::ptr_eq(newcomer, &connection));
            (other && !connection.has_news()).then_some((*key, connection))
        });
        let Some((key, connection)) = found else {
            return false;
        };
        // Not found a second time before its task has run.
        idle.remove(&key);
        drop(idle);
        connection.kill(Outcome::Timeout);
        true
    }

    /// Checks the clocks of the connections that are awake and of a share of the others, so that all are checked in so many
    /// ticks. A share and not all: ten thousand idle ones at once would hold the busy ones up for milliseconds.
    pub fn check_clocks(&self, now_ms: u64, settings: &Settings, ticks_in_period: usize) {
        let check = |connection: &Rc<ConnectionState>| {
            connection.check_clocks(now_ms, settings, self.is_crowded.get());
        };
        self.awake.borrow_mut().retain(|connection| {
            connection.upgrade().is_some_and(|connection| {
                check(&connection);
                !connection.is_hibernating()
            })
        });
        let open = self.open.borrow();
        let share = open.len().div_ceil(ticks_in_period);
        let mut checked = open.range(self.next_check.get()..).take(share + 1);
        checked
            .by_ref()
            .take(share)
            .for_each(|(_, connection)| check(connection));
        let next = checked.next().map_or(0, |(&number, _)| number);
        self.next_check.set(next);
    }
}

/// A connection that is open; it is not any more when this is dropped.
pub struct OpenConnection {
    all: Rc<Connections>,
    number: u64,
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        // Not dropped while the register is borrowed: its own end may want to look.
        let ended = self.all.open.borrow_mut().remove(&self.number);
        drop(ended);
        self.all.ended.notify_waiters();
    }
}

/// A connection's place among the idle ones.
pub struct Resting<'a> {
    all: &'a Connections,
    key: IdleKey,
}

impl Drop for Resting<'_> {
    fn drop(&mut self) {
        self.all.idle.borrow_mut().remove(&self.key);
    }
}
