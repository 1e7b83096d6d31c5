//! How the client of a stream sends its body and takes its response, and when that is too slow. It ends nothing: the stream
//! does. Times are milliseconds of the coarse clock.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use config::Settings;

use crate::clock::Clock;
use crate::net::pace::Pace;
use crate::shared_bytes::{Share, SharedBytes};

fn is_late(now_ms: u64, since: u64, limit: Duration) -> bool {
    now_ms.saturating_sub(since) > limit.as_millis() as u64
}

/// What the client sends of a body.
pub(super) struct Upload {
    clock: Rc<Clock>,
    /// Whether it is being read.
    reading: Cell<bool>,
    /// Whether what was read is being stored: its client is not waited for then.
    storing: Cell<bool>,
    /// When it last made progress, and how much of it has come.
    progress_ms: Cell<u64>,
    received: Cell<u64>,
    pace: Cell<Option<Pace>>,
}

impl Upload {
    /// Returns a body of which nothing was read.
    pub(super) fn new(clock: &Rc<Clock>) -> Self {
        Self {
            clock: Rc::clone(clock),
            reading: Cell::new(false),
            storing: Cell::new(false),
            progress_ms: Cell::new(clock.now_ms()),
            received: Cell::new(0),
            pace: Cell::new(None),
        }
    }

    /// It is being read, or not any more.
    pub(super) fn set_reading(&self, reading: bool) {
        if reading && !self.reading.get() {
            self.progress_ms.set(self.clock.now_ms());
        }
        self.reading.set(reading);
    }

    /// What was read is being stored, or is stored.
    pub(super) fn set_storing(&self, storing: bool) {
        self.storing.set(storing);
        self.progress_ms.set(self.clock.now_ms());
    }

    /// So many bytes have come.
    pub(super) fn note_received(&self, bytes: usize) {
        self.progress_ms.set(self.clock.now_ms());
        self.received.set(self.received.get() + bytes as u64);
    }

    /// Why its client is too slow, if it is.
    pub(super) fn check(&self, now_ms: u64, settings: &Settings) -> Option<&'static str> {
        if !self.reading.get() || self.storing.get() {
            self.pace.set(None);
            return None;
        }
        if is_late(now_ms, self.progress_ms.get(), settings.body_timeout) {
            return Some("the body made no progress");
        }
        let rate = settings.min_body_rate?;
        let received = self.received.get();
        let pace = self.pace.get();
        let mut pace = pace.unwrap_or_else(|| Pace::at(now_ms, received));
        let slow = pace.is_slow(now_ms, true, received, rate);
        self.pace.set(Some(pace));
        slow.then_some("the body came too slowly")
    }
}

/// What the client takes of a response.
pub(super) struct Download {
    clock: Rc<Clock>,
    /// Since when the client's window has no room; 0 while it has.
    blocked_ms: Cell<u64>,
    sent: Cell<u64>,
    pace: Cell<Pace>,
    /// What the crate h2 has not got yet.
    unsent: RefCell<Share>,
}

impl Download {
    /// Returns a response of which nothing was sent.
    pub(super) fn new(clock: &Rc<Clock>) -> Self {
        Self {
            clock: Rc::clone(clock),
            blocked_ms: Cell::new(0),
            sent: Cell::new(0),
            pace: Cell::default(),
            unsent: RefCell::default(),
        }
    }

    /// The client's window has no room, or has room again.
    pub(super) fn note_blocked(&self, blocked: bool) {
        match (blocked, self.blocked_ms.get()) {
            (false, _) => self.blocked_ms.set(0),
            (true, 0) => self.blocked_ms.set(self.clock.now_ms().max(1)),
            (true, _) => {}
        }
    }

    /// Whether the client's window has no room.
    pub(super) fn is_blocked(&self) -> bool {
        self.blocked_ms.get() != 0
    }

    /// So many bytes more are held.
    pub(super) fn hold(&self, memory: &Arc<SharedBytes>, bytes: usize) {
        let mut unsent = self.unsent.borrow_mut();
        let held = unsent.bytes() + bytes;
        unsent.set(memory, held);
    }

    /// The crate h2 has so many of them.
    pub(super) fn note_sent(&self, bytes: usize) {
        self.sent.set(self.sent.get() + bytes as u64);
        self.unsent.borrow_mut().shrink(bytes);
    }

    /// Whether its client is too slow. `blocked` streams of the connection share the least rate.
    pub(super) fn is_too_slow(&self, now_ms: u64, settings: &Settings, blocked: u64) -> bool {
        let mut pace = self.pace.get();
        let rate = settings.min_send_rate.map(|rate| rate / blocked.max(1));
        let is_blocked = self.is_blocked();
        let slow = rate.is_some_and(|rate| pace.is_slow(now_ms, is_blocked, self.sent.get(), rate));
        self.pace.set(pace);
        slow || (is_blocked && is_late(now_ms, self.blocked_ms.get(), settings.send_timeout))
    }
}
