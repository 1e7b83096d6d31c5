//! What is known of a connection of HTTP/2 and its streams, and what may be asked of it from outside its task. It never drives
//! the crate h2.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use config::Settings;
use tokio::sync::Semaphore;

use super::frames::FrameBudget;
use super::stream::ClientStream;
use super::wire::{Buffers, Reading};
use crate::clock::Clock;
use crate::failure::Outcome;
use crate::http::client_side::ClientSide;
use crate::http::incoming::HijackedBy;
use crate::net::client_io::ClientIo;
use crate::shared_bytes::SharedBytes;

/// Streams of one connection that may be open at once.
pub const MAX_STREAMS: u32 = 100;
/// Requests of one connection that may wait for a worker or its response's head at once, if its peer is no trusted proxy: of a
/// queue for a thousand one client gets a small part, and a page with its fetches is well below.
const MAX_WAITING_REQUESTS: usize = 16;
/// After so long without a byte a client with open streams is asked whether it is there.
const PING_AFTER: Duration = Duration::from_secs(30);
/// And has so long to answer.
const PONG_TIMEOUT: Duration = Duration::from_secs(20);
/// After so long without a byte a connection without streams gives the memory of its buffers back. The next byte takes it again,
/// which costs some 10 µs: too much between the requests of a client that is active.
const RELEASE_BUFFERS_AFTER: Duration = Duration::from_secs(2);
/// How long new streams are still taken after the client was asked to open no more: it may not have heard of it.
const GOAWAY_GRACE: Duration = Duration::from_secs(1);

/// Whether the client is asked if it is there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ping {
    /// Nothing is under way.
    None,
    /// It is to be sent.
    Due,
    /// It was sent at this time.
    Sent(u64),
}

impl Ping {
    /// What is to be done at `now_ms` for a client with open streams that sent something last at `last_ms`.
    fn check(self, now_ms: u64, last_ms: u64) -> Verdict {
        let late = |since, limit| is_late(now_ms, since, limit);
        match self {
            Self::Sent(at) if late(at, PONG_TIMEOUT) => Verdict::Kill(Outcome::ClientGone),
            Self::None if late(last_ms, PING_AFTER) => Verdict::Wake,
            _ => Verdict::Sound,
        }
    }
}

fn is_late(now_ms: u64, since: u64, limit: Duration) -> bool {
    now_ms.saturating_sub(since) > limit.as_millis() as u64
}

/// What a check of the clocks found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing.
    Sound,
    /// The connection's task has something to do.
    Wake,
    /// It must end now.
    Kill(Outcome),
}

/// The streams of one connection. Times are milliseconds of the coarse clock.
pub struct Streams {
    io: ClientIo,
    pub(super) clock: Rc<Clock>,
    /// What reading has noted.
    pub(super) reading: Rc<Reading>,
    /// What counts responses that are held.
    memory: Arc<SharedBytes>,
    pub(super) turns: Option<Arc<Semaphore>>,
    open: RefCell<BTreeMap<u32, Rc<ClientStream>>>,
    /// Whether the client's settings have come.
    pub(super) begun: Cell<bool>,
    /// Whether a request was answered.
    answered: Cell<bool>,
    /// Since when no stream is open.
    idle_since: Cell<u64>,
    /// Since when the client is asked to open no more streams; 0 before.
    pub(super) stopping_since: Cell<u64>,
    /// Whether it is to be closed: it is idle, or a head takes too long.
    pub(super) close: Cell<bool>,
    pub(super) ping: Cell<Ping>,
}

impl Streams {
    /// Returns a connection without streams; `limited` says whether its requests that wait have a limit of their own.
    pub(crate) fn new(
        io: ClientIo,
        clock: &Rc<Clock>,
        memory: &Arc<SharedBytes>,
        limited: bool,
    ) -> Rc<Self> {
        let now_ms = clock.now_ms();
        Rc::new(Self {
            io,
            clock: Rc::clone(clock),
            reading: Rc::new(Reading {
                budget: FrameBudget::new(now_ms),
                last_ms: Cell::new(now_ms),
                head_since_ms: Cell::new(None),
                buffers: Cell::new(Buffers::Held),
            }),
            memory: Arc::clone(memory),
            turns: limited.then(|| Arc::new(Semaphore::new(MAX_WAITING_REQUESTS))),
            open: RefCell::default(),
            begun: Cell::new(false),
            answered: Cell::new(false),
            idle_since: Cell::new(now_ms),
            stopping_since: Cell::new(0),
            close: Cell::new(false),
            ping: Cell::new(Ping::None),
        })
    }

    /// Adds a stream; it is open until what this returns is dropped.
    pub(super) fn add(self: &Rc<Self>, number: u32, stream: &Rc<ClientStream>) -> OpenStream {
        self.open.borrow_mut().insert(number, Rc::clone(stream));
        OpenStream {
            all: Rc::clone(self),
            number,
        }
    }

    /// Whether none is open.
    pub(crate) fn is_empty(&self) -> bool {
        self.open.borrow().is_empty()
    }

    /// Whether a request was answered, and since when no stream is open.
    pub(crate) fn idle_since(&self) -> (bool, u64) {
        (self.answered.get(), self.idle_since.get())
    }

    /// Has its streams end with this outcome when they are dropped.
    pub(crate) fn cut(&self, outcome: Outcome) {
        for stream in self.open.borrow().values() {
            stream.kill(outcome);
        }
    }

    /// Whether the client has had the time to hear that it must open no more streams.
    pub(super) fn refuses(&self) -> bool {
        let since = self.stopping_since.get();
        let grace = GOAWAY_GRACE.as_millis() as u64;
        since != 0 && self.clock.now_ms().saturating_sub(since) > grace
    }

    /// Whether a worker is needed for one of its streams, or may be for one to come.
    pub(crate) fn may_need_worker(&self) -> bool {
        !self.refuses() || self.open.borrow().values().any(|one| one.needs_worker())
    }

    /// Number of streams that applications of `chosen` workers have taken over.
    pub(crate) fn count_hijacked(&self, chosen: &dyn Fn(HijackedBy) -> bool) -> usize {
        let open = self.open.borrow();
        let hijacked = open.values().filter(|one| one.spliced.get());
        hijacked.filter(|one| chosen(one.hijacked_by.get())).count()
    }

    /// Ends the streams that applications of `chosen` workers have taken over. Returns how many.
    pub(crate) fn close_hijacked(&self, chosen: &dyn Fn(HijackedBy) -> bool) -> u64 {
        let open = self.open.borrow();
        let hijacked = open
            .values()
            .filter(|one| one.spliced.get() && !one.is_gone());
        let chosen = hijacked.filter(|one| chosen(one.hijacked_by.get()));
        chosen.map(|one| one.kill(Outcome::Aborted)).count() as u64
    }

    /// A piece of a response of so many bytes was handed over; it is held until the socket has taken it.
    pub(super) fn note_sent(&self, bytes: usize) {
        self.reading.budget.note_sent();
        self.io.flow().holds(&self.memory, bytes);
    }

    /// Checks the clocks of the connection and its streams at `now_ms`.
    pub(crate) fn check_clocks(&self, now_ms: u64, settings: &Settings) -> Verdict {
        let late = |since, limit| is_late(now_ms, since, limit);
        let blocked = self.io.flow().write_blocked_since_ms();
        if self.io.takes_too_slowly(settings.min_send_rate)
            || blocked.is_some_and(|since| late(since, settings.send_timeout))
        {
            return Verdict::Kill(Outcome::Timeout);
        }
        // No frame of another stream may come within a head (RFC 9113 section 6.10): the client can't use them either. While
        // the client takes nothing, nothing is read.
        let head_since = self.reading.head_since_ms.get();
        if blocked.is_none() && head_since.is_some_and(|since| late(since, settings.header_timeout))
        {
            self.cut(Outcome::Timeout);
            return self.close();
        }
        let open = self.open.borrow();
        if open.is_empty() {
            return match self.check_idle(settings, late) {
                Verdict::Sound if self.begun.get() => self.check_buffers(late),
                verdict => verdict,
            };
        }
        let blocked = open
            .values()
            .filter(|one| one.download.is_blocked())
            .count() as u64;
        for stream in open.values() {
            stream.check_clocks(now_ms, settings, blocked);
        }
        let verdict = self.ping.get().check(now_ms, self.reading.last_ms.get());
        if verdict == Verdict::Wake {
            self.ping.set(Ping::Due);
        }
        verdict
    }

    /// Has the connection give its buffers back once nothing has come for a while.
    fn check_buffers(&self, late: impl Fn(u64, Duration) -> bool) -> Verdict {
        let Reading {
            buffers, last_ms, ..
        } = &*self.reading;
        let since = last_ms.get().max(self.idle_since.get());
        if buffers.get() != Buffers::Held || !late(since, RELEASE_BUFFERS_AFTER) {
            return Verdict::Sound;
        }
        buffers.set(Buffers::Unneeded);
        Verdict::Wake
    }

    fn check_idle(&self, settings: &Settings, late: impl Fn(u64, Duration) -> bool) -> Verdict {
        let idle_since = self.idle_since.get();
        let limit = match self.answered.get() {
            true => settings.keep_alive_timeout,
            false => settings.header_timeout,
        };
        let stopping = self.stopping_since.get();
        let over = late(idle_since, limit) || (stopping != 0 && late(stopping, GOAWAY_GRACE));
        match over {
            false => Verdict::Sound,
            true => self.close(),
        }
    }

    /// Has the connection end with GOAWAY, or at once where it does not take even that, or has not begun.
    fn close(&self) -> Verdict {
        if !self.begun.get() || self.close.replace(true) {
            return Verdict::Kill(Outcome::Timeout);
        }
        Verdict::Wake
    }
}

/// A stream that is open; it is not any more when this is dropped.
pub(super) struct OpenStream {
    all: Rc<Streams>,
    number: u32,
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        // Not dropped while the streams are borrowed.
        let ended = self.all.open.borrow_mut().remove(&self.number);
        drop(ended);
        self.all.answered.set(true);
        self.all.idle_since.set(self.all.clock.now_ms());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_client_is_asked_and_then_given_up() {
        assert_eq!(Ping::None.check(30_000, 0), Verdict::Sound);
        assert_eq!(Ping::None.check(30_001, 0), Verdict::Wake);
        assert_eq!(Ping::Due.check(90_000, 0), Verdict::Sound);
        assert_eq!(Ping::Sent(40_000).check(60_000, 0), Verdict::Sound);
        let gone = Verdict::Kill(Outcome::ClientGone);
        assert_eq!(Ping::Sent(40_000).check(60_001, 0), gone);
    }
}
