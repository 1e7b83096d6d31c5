//! Idle seats: which of them is woken for a request, and which leaves it to another. It claims nothing.

use super::{Board, LEFT, LOOKING, PARKED, RUNNING, WOKEN};
use crate::sync::{Futex, Line, Ordering, fence};

impl Board<'_> {
    /// Wakes the idle seat that should take the next request: one of the process with the most idle
    /// seats, so that an idle process goes before the second thread of a busy one. Not one of `except`.
    pub(super) fn wake_one(&self, except: Option<u16>) {
        fence(Ordering::SeqCst);
        // Each failed round means that somebody else woke that seat; bounded all the same.
        for _ in 0..self.seats.len() {
            let Some(seat) = self.idlest(except) else {
                return;
            };
            let bit = 1 << (seat % 64);
            // The bit before the word: clearing it later could clear the mark of the seat's next wait.
            if self.idle[seat / 64].fetch_and(!bit, Ordering::SeqCst) & bit != 0
                && self.wake(seat as u16)
            {
                return;
            }
        }
    }

    /// Wakes an idle seat for each request that waits, as far as there are any.
    pub(super) fn wake_for_all(&self) {
        for _ in 0..self.waiting().min(self.seats.len() as u64) {
            self.wake_one(None);
        }
    }

    /// Marks every parked seat as idle and wakes every sleeper that does not count as parked: a process that died or
    /// wrote at random may have left a thread that nobody would ever wake.
    pub(super) fn repair_idle(&self) {
        for (seat, word) in self.seats.iter().enumerate() {
            match word.load(Ordering::SeqCst) {
                PARKED => drop(self.idle[seat / 64].fetch_or(1 << (seat % 64), Ordering::SeqCst)),
                _ => word.wake(),
            }
        }
    }

    /// After a claim: whoever was woken for what is left may have lost its request to this seat, or left
    /// it to others. Wakes one more where fewer seats are on their way than requests wait.
    pub(super) fn pass_on(&self) {
        let waiting = self.waiting();
        if waiting == 0
            || self
                .idle
                .iter()
                .all(|word| word.load(Ordering::SeqCst) == 0)
        {
            return;
        }
        let comes = |seat: &&Line<Futex>| matches!(seat.load(Ordering::SeqCst), WOKEN | LOOKING);
        if (self.seats.iter().filter(comes).count() as u64) < waiting {
            self.wake_one(None);
        }
    }

    fn idlest(&self, except: Option<u16>) -> Option<usize> {
        if self.threads == 1 {
            return self.idle.iter().enumerate().find_map(|(index, word)| {
                let bits = word.load(Ordering::SeqCst);
                (bits != 0).then(|| index * 64 + bits.trailing_zeros() as usize)
            });
        }
        let mut best = None;
        let mut most = 0;
        for worker in (0..self.stops.len() as u16).filter(|&worker| Some(worker) != except) {
            let mut idle = self.seats_of(worker).filter(|&seat| self.is_idle(seat));
            if let Some(first) = idle.next() {
                let count = 1 + idle.count();
                if count > most {
                    (best, most) = (Some(first), count);
                }
            }
        }
        best
    }

    fn is_idle(&self, seat: usize) -> bool {
        self.idle[seat / 64].load(Ordering::SeqCst) & (1 << (seat % 64)) != 0
    }

    /// Whether a thread of the worker was woken and has not come: it waits for the GVL, or its process stands still.
    pub fn is_called(&self, worker: u16) -> bool {
        self.any_seat(worker, WOKEN)
    }

    /// Whether a thread of the worker neither waits for a request nor looks for one.
    pub fn is_at_work(&self, worker: u16) -> bool {
        self.any_seat(worker, RUNNING)
    }

    fn any_seat(&self, worker: u16, is: u32) -> bool {
        let mut seats = self.seats_of(worker);
        seats.any(|seat| self.seats[seat].load(Ordering::SeqCst) == is)
    }

    /// Whether this seat should leave what waits to idle processes: another thread of its own process
    /// runs a request, and there are at least as many processes without one as requests that wait.
    pub(super) fn should_yield(&self, seat: u16) -> bool {
        let runs =
            |index: usize| matches!(self.seats[index].load(Ordering::SeqCst), RUNNING | LEFT);
        let own = seat / self.threads;
        if !self
            .seats_of(own)
            .any(|index| index != usize::from(seat) && runs(index))
        {
            return false;
        }
        let waiting = self.waiting();
        let free = (0..self.stops.len() as u16)
            .filter(|&worker| worker != own && !self.seats_of(worker).any(runs))
            .count() as u64;
        waiting > 0 && free >= waiting
    }
}
