//! Room in a slot's response ring: how writers sleep until the front has taken something. It moves no bytes.
//!
//! Several threads of a worker may write one response (a streaming body hands its stream to helpers), so several may
//! sleep here at once: a wake-up wakes all of them, and each looks for itself.

use crate::sync::{AtomicU32, AtomicU64, Futex, Ordering, fence};

/// The words of one slot's ring by which its two ends wait for each other.
pub struct Room<'a> {
    /// Bytes that the front has taken since the publish. Written by the front.
    pub taken: &'a AtomicU64,
    /// 1 when no client waits for the rest of the response. Written by the front.
    pub abandoned: &'a AtomicU32,
    /// 1 while a writer sleeps or is about to.
    pub wanted: &'a AtomicU32,
    /// What writers sleep on; each wake-up counts it up.
    pub wake_ups: &'a Futex,
}

impl Room<'_> {
    /// Sleeps until the front calls [`Room::wake`], where `capacity` is short: fewer than half of its bytes are free
    /// after `put` bytes were written. Returns at once where the response is abandoned, `interrupted` is set, or the
    /// writer no longer holds the claim, as `holds_claim` says: who ends a response calls [`Room::wake_wanting`]
    /// afterwards, and `taken` may count another response's bytes by then.
    ///
    /// What was written must be visible to the front, and the front notified, before.
    pub fn wait(
        &self,
        put: u64,
        capacity: u64,
        interrupted: &AtomicU32,
        holds_claim: impl Fn() -> bool,
    ) {
        let seen = self.wake_ups.load(Ordering::SeqCst);
        self.wanted.store(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let filled = put.saturating_sub(self.taken.load(Ordering::SeqCst));
        if filled > capacity / 2
            && self.abandoned.load(Ordering::SeqCst) == 0
            && interrupted.load(Ordering::SeqCst) == 0
            && holds_claim()
        {
            self.wake_ups.wait(seen);
        }
    }

    /// Wakes every writer that sleeps, or is about to: something they wait for has changed.
    pub fn wake(&self) {
        self.wanted.store(0, Ordering::SeqCst);
        self.wake_ups.fetch_add(1, Ordering::SeqCst);
        self.wake_ups.wake_all();
    }

    /// The front has taken bytes, up to `taken` since the publish.
    pub fn took(&self, taken: u64) {
        self.taken.store(taken, Ordering::Release);
        self.wake_wanting();
    }

    /// Wakes writers where some sleep; costs a look where none does. What they wait for must be visible before.
    pub fn wake_wanting(&self) {
        fence(Ordering::SeqCst);
        if self.wanted.load(Ordering::Relaxed) != 0 {
            self.wake();
        }
    }
}

/// The words in ordinary memory, for the model tests.
#[cfg(loom)]
pub struct Memory {
    taken: AtomicU64,
    abandoned: AtomicU32,
    wanted: AtomicU32,
    wake_ups: Futex,
}

#[cfg(loom)]
impl Memory {
    /// A ring from which nothing was taken.
    #[allow(clippy::new_without_default, reason = "atomics of the model have none")]
    pub fn new() -> Self {
        Self {
            taken: AtomicU64::new(0),
            abandoned: AtomicU32::new(0),
            wanted: AtomicU32::new(0),
            wake_ups: Futex::new(0),
        }
    }

    /// The words as both ends see them.
    pub fn room(&self) -> Room<'_> {
        Room {
            taken: &self.taken,
            abandoned: &self.abandoned,
            wanted: &self.wanted,
            wake_ups: &self.wake_ups,
        }
    }
}
