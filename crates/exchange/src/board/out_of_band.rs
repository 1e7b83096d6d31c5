//! Work between requests, such as a collection of garbage: whose turn it is, and that nobody waits for it. It claims
//! no request.
//!
//! The turn is one word with its holder's number, taken and given back by compare-and-swap; the front takes it from a
//! worker that died. Who has it is no seat to be woken for a request: others are, as long as there are any.

use super::{Board, PARKED};
use crate::sync::{Ordering, fence};

impl Board<'_> {
    /// Says whether requests wait that have no slot yet. The front's side.
    pub fn tell_queue(&self, waits: bool) {
        self.queued.store(u32::from(waits), Ordering::SeqCst);
    }

    /// Takes the turn, where no request waits, no other thread of this worker has one or is about to, no other worker
    /// has the turn, and of several workers another one idles, to which goes what comes meanwhile. Call it only while
    /// holding the GVL, from a seat that has no request; [`Board::end_out_of_band`] gives the turn back.
    #[must_use]
    pub fn begin_out_of_band(&self, seat: u16) -> bool {
        let worker = seat / self.threads;
        let turn = u32::from(worker) + 1;
        if self.anyone_waits() || !self.rests_but_for(seat) {
            return false;
        }
        let claimed =
            (self.out_of_band).compare_exchange(0, turn, Ordering::SeqCst, Ordering::SeqCst);
        if claimed.is_err() {
            return false;
        }
        for other in self.seats_of(worker) {
            self.idle[other / 64].fetch_and(!(1 << (other % 64)), Ordering::SeqCst);
        }
        fence(Ordering::SeqCst);
        let several = self.stops.len() > 2;
        let idle = || {
            self.idle
                .iter()
                .any(|word| word.load(Ordering::SeqCst) != 0)
        };
        if self.anyone_waits() || !self.rests_but_for(seat) || several && !idle() {
            self.end_out_of_band(seat);
            return false;
        }
        true
    }

    /// Gives the turn back: the worker's other threads can be woken again, and are for what came meanwhile.
    pub fn end_out_of_band(&self, seat: u16) {
        let worker = seat / self.threads;
        for other in self.seats_of(worker) {
            if self.seats[other].load(Ordering::SeqCst) == PARKED {
                self.idle[other / 64].fetch_or(1 << (other % 64), Ordering::SeqCst);
            }
        }
        self.lose_turn(worker);
        fence(Ordering::SeqCst);
        self.wake_for_all();
    }

    /// The turn is nobody's, where it was this worker's.
    pub(super) fn lose_turn(&self, worker: u16) {
        let turn = u32::from(worker) + 1;
        let _ = (self.out_of_band).compare_exchange(turn, 0, Ordering::SeqCst, Ordering::SeqCst);
    }

    fn anyone_waits(&self) -> bool {
        self.waiting() > 0 || self.queued.load(Ordering::SeqCst) != 0
    }

    /// Whether the worker's other threads wait for requests.
    fn rests_but_for(&self, seat: u16) -> bool {
        let mut others = self.seats_of(seat / self.threads);
        others.all(|other| {
            other == usize::from(seat) || self.seats[other].load(Ordering::SeqCst) == PARKED
        })
    }
}
