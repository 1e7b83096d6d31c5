//! All connections of an edge: those that are open, those that need to be checked often, and those on which nothing is
//! under way, in the order in which they are given up where a newcomer finds no place. It accepts nothing, and does not
//! decide when there is a place.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use config::Settings;
use tokio::sync::Notify;

use crate::failure::Outcome;
use crate::http::h1::state::{ConnectionState, FIRST_REQUEST_WAIT, IdleConnection};
use crate::http::incoming::HijackedBy;
use crate::log::throttle::Throttle;

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
    /// Sockets on which no HTTP is spoken yet, with what ends each.
    opening: RefCell<BTreeMap<u64, Rc<Notify>>>,
    /// Where the next check of a share of them begins.
    next_check: Cell<u64>,
    /// Connections that were awake at the last tick or woke since.
    awake: RefCell<Vec<Weak<ConnectionState>>>,
    /// Connections that idle without buffers.
    idle: RefCell<BTreeMap<IdleKey, Weak<ConnectionState>>>,
    /// Whether newcomers find no place: idle connections then give their buffers back at the next tick, so that they can be
    /// given up.
    is_crowded: Arc<AtomicBool>,
    /// Whether the server is to stop, also while it serves on (`stop_delay`).
    is_leaving: Arc<AtomicBool>,
    /// The line that says that an HTTP/2 client floods.
    pub flood_line: Throttle,
    /// Notified when a connection has ended.
    pub ended: Arc<Notify>,
    /// Notified when a connection that is to be given away idles without buffers.
    pub rested: Arc<Notify>,
}

/// What the connections of all edges share.
#[derive(Clone)]
pub(crate) struct Signals {
    is_crowded: Arc<AtomicBool>,
    is_leaving: Arc<AtomicBool>,
    rested: Arc<Notify>,
}

impl Connections {
    /// What they share with those of other edges.
    pub(crate) fn signals(&self) -> Signals {
        Signals {
            is_crowded: Arc::clone(&self.is_crowded),
            is_leaving: Arc::clone(&self.is_leaving),
            rested: Arc::clone(&self.rested),
        }
    }

    /// Returns none, of an edge that shares these.
    pub(crate) fn sharing(signals: Signals) -> Self {
        let Signals {
            is_crowded,
            is_leaving,
            rested,
        } = signals;
        Self {
            is_crowded,
            is_leaving,
            rested,
            ..Self::default()
        }
    }

    /// Whether the server is to stop, also while it serves on.
    pub(crate) fn is_leaving(&self) -> bool {
        self.is_leaving.load(Ordering::Relaxed)
    }

    /// The server is to stop: probes hear of it from now on.
    pub(crate) fn leave(&self) {
        self.is_leaving.store(true, Ordering::Relaxed);
    }

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

    /// Counts a socket on which no HTTP is spoken yet; until what this returns is dropped.
    pub fn begin_opening(self: &Rc<Self>) -> Opening {
        let number = self.next.get();
        self.next.set(number + 1);
        let cut = Rc::new(Notify::new());
        self.opening.borrow_mut().insert(number, Rc::clone(&cut));
        Opening {
            all: Rc::clone(self),
            number,
            cut,
        }
    }

    /// Ends all on which no HTTP is spoken yet.
    pub fn cut_openings(&self) {
        self.opening
            .borrow()
            .values()
            .for_each(|cut| cut.notify_one());
    }

    /// Number of connections that are open, with those on which no HTTP is spoken yet.
    pub fn len(&self) -> usize {
        self.open.borrow().len() + self.opening.borrow().len()
    }

    /// Whether none is open.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of connections that idle without buffers.
    pub fn resting(&self) -> usize {
        self.idle.borrow().len()
    }

    /// All connections that are open.
    pub fn all(&self) -> Vec<Rc<ConnectionState>> {
        self.open.borrow().values().cloned().collect()
    }

    /// Has each one end when what has come on it is answered, and those on which no HTTP is spoken yet after a moment: their
    /// clients have just connected.
    pub(crate) fn stop(self: &Rc<Self>) {
        self.all().iter().for_each(|one| one.stop());
        let all = Rc::downgrade(self);
        tokio::task::spawn_local(async move {
            tokio::time::sleep(FIRST_REQUEST_WAIT).await;
            if let Some(all) = all.upgrade() {
                all.cut_openings();
            }
        });
    }

    /// Ends all now.
    pub(crate) fn kill(&self) {
        self.all().iter().for_each(|one| one.kill(Outcome::Aborted));
    }

    /// How much of them applications of `chosen` workers have taken over.
    pub(crate) fn count_hijacked(&self, chosen: &dyn Fn(HijackedBy) -> bool) -> usize {
        let all = self.all();
        all.iter().map(|one| one.count_hijacked(chosen)).sum()
    }

    /// Whether something on one of them is or may become a worker's.
    pub(crate) fn may_need_worker(&self) -> bool {
        self.all().iter().any(|one| one.may_need_worker())
    }

    /// Has each become idle so that it can be given away, or end soon where it cannot.
    pub(crate) fn prepare_to_give(&self) {
        for connection in self.all() {
            match connection.peer.tls {
                None => connection.free_buffers_when_idle(),
                // The keys of its session are here.
                Some(_) => connection.stop_soon(),
            }
        }
    }

    /// Lets go of so many at most that can be given away, and returns them.
    pub(crate) fn release_idle(&self, most: usize) -> Vec<(OwnedFd, IdleConnection)> {
        let mut released = Vec::new();
        for connection in self.all().iter().filter(|one| one.is_giveable()).take(most) {
            let gives = RefCell::new(None);
            let given = connection.give(|socket, idle| {
                gives.replace(Some((socket.try_clone_to_owned()?, idle.clone())));
                Ok(())
            });
            // Without a descriptor it is served on until it is asked for again.
            if given.is_ok() {
                released.extend(gives.into_inner());
            }
        }
        released
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
        self.is_crowded.store(crowded, Ordering::Relaxed);
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

    /// When the connection that [`Connections::close_first_idle`] would look at first fell idle: less is earlier, also than
    /// at another edge.
    pub(crate) fn first_idle(&self, newcomer: Option<&Rc<ConnectionState>>) -> Option<(bool, u64)> {
        let newcomer = newcomer.map(|newcomer| Rc::as_ptr(newcomer).addr());
        let idle = self.idle.borrow();
        let mut keys = idle.keys().filter(|key| Some(key.2) != newcomer);
        keys.next().map(|key| (key.0, key.1))
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
            return self.cut_first_opening();
        };
        // Not found a second time before its task has run.
        idle.remove(&key);
        drop(idle);
        connection.kill(Outcome::Timeout);
        true
    }

    /// Ends the oldest one on which no HTTP is spoken yet, unless it is the newest one as well.
    fn cut_first_opening(&self) -> bool {
        let mut opening = self.opening.borrow_mut();
        if opening.len() < 2 {
            return false;
        }
        let first = opening.pop_first();
        first.inspect(|(_, cut)| cut.notify_one()).is_some()
    }

    /// Checks the clocks of the connections that are awake and of a share of the others, so that all are checked in so many
    /// ticks. A share and not all: ten thousand idle ones at once would hold the busy ones up for milliseconds.
    pub fn check_clocks(&self, now_ms: u64, settings: &Settings, ticks_in_period: usize) {
        let is_crowded = self.is_crowded.load(Ordering::Relaxed);
        let check = |connection: &Rc<ConnectionState>| {
            connection.check_clocks(now_ms, settings, is_crowded);
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

/// A socket on which no HTTP is spoken yet.
pub struct Opening {
    all: Rc<Connections>,
    number: u64,
    cut: Rc<Notify>,
}

impl Opening {
    /// Waits until it must end before its time.
    pub async fn cut(&self) {
        self.cut.notified().await;
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        self.all.opening.borrow_mut().remove(&self.number);
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
