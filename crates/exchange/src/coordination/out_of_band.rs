//! Whose turn it is to work between requests, such as a garbage collection: that of one worker at a time.
//!
//! The turn is one word with its holder's number, taken and given back by compare-and-swap; the front takes it from a
//! worker that died. Who takes the turn when is decided in [`super::Coordination::begin_out_of_band`].

use crate::sync::{AtomicU32, Line, Ordering};

/// The words by which workers take turns.
#[derive(Clone, Copy)]
pub struct OutOfBand<'a> {
    /// Whose turn it is: the worker's number plus one, or 0 for no worker's.
    pub turn: &'a Line<AtomicU32>,
    /// 1 while requests wait that have no slot yet; written by the front when it changes.
    pub queue_waits: &'a Line<AtomicU32>,
    /// 1 while a single worker is to serve; written by the front when it changes.
    pub single_worker: &'a Line<AtomicU32>,
}

impl OutOfBand<'_> {
    /// Says whether requests wait that have no slot yet. The front's side.
    pub(crate) fn set_queue_waits(self, waits: bool) {
        self.queue_waits.store(u32::from(waits), Ordering::SeqCst);
    }

    /// Says whether a single worker is to serve. The front's side.
    pub fn set_single_worker(self, single: bool) {
        self.single_worker
            .store(u32::from(single), Ordering::SeqCst);
    }

    pub(super) fn is_single_worker(self) -> bool {
        self.single_worker.load(Ordering::SeqCst) != 0
    }

    pub(super) fn queue_waits(self) -> bool {
        self.queue_waits.load(Ordering::SeqCst) != 0
    }

    /// Takes the turn for a worker, where no worker has it.
    pub(super) fn take_turn(self, worker: u16) -> bool {
        let turn = u32::from(worker) + 1;
        (self.turn)
            .compare_exchange(0, turn, Ordering::SeqCst, Ordering::SeqCst)
            .is_ok()
    }

    /// Gives the turn back, where it was this worker's.
    pub(super) fn give_turn_back(self, worker: u16) {
        let turn = u32::from(worker) + 1;
        let _ = (self.turn).compare_exchange(turn, 0, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// The worker whose turn it is.
    pub(super) fn holder(self) -> Option<u16> {
        let turn = self.turn.load(Ordering::SeqCst).checked_sub(1);
        turn.map(|worker| worker as u16)
    }
}
