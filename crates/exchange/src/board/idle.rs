//! Idle seats: which of them is woken for a request, and which leaves it to another. It claims nothing.

use std::ops::Range;

use super::{Board, PARKED, RUNNING, WOKEN};
use crate::sync::{AtomicU64, Line, Ordering, fence};

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
        let idle = |word: &Line<AtomicU64>| word.load(Ordering::SeqCst) != 0;
        if waiting > 0 && self.idle.iter().any(idle) && self.coming() < waiting {
            self.wake_one(None);
        }
    }

    /// The seat has no request. Only its own thread says so; between two claims without a wait nothing changes.
    pub(super) fn mark_free(&self, seat: u16) {
        let (free, bit) = (&self.free[usize::from(seat) / 64], 1 << (seat % 64));
        if free.load(Ordering::SeqCst) & bit == 0 {
            free.fetch_or(bit, Ordering::SeqCst);
        }
    }

    /// The seat has a request, or looks for none any more.
    pub(super) fn mark_taken(&self, seat: u16) {
        let (free, bit) = (&self.free[usize::from(seat) / 64], 1 << (seat % 64));
        if free.load(Ordering::SeqCst) & bit != 0 {
            free.fetch_and(!bit, Ordering::SeqCst);
        }
    }

    /// Seats that are on their way to a request: free, and not idle. One that is about to park counts too, for it looks
    /// once more when it has said that it is idle. Those of the worker that works between requests do not: they sleep,
    /// although they are not idle.
    fn coming(&self) -> u64 {
        let turn = self.out_of_band.load(Ordering::SeqCst);
        let resting = turn
            .checked_sub(1)
            .map(|worker| self.seats_of(worker as u16));
        let words = (0..).zip(self.free.iter().zip(self.idle));
        let coming = words.map(|(index, (free, idle))| {
            // The free ones first: one that claims in between passes on what it leaves itself.
            let free = free.load(Ordering::SeqCst);
            let coming = free & !idle.load(Ordering::SeqCst);
            let resting = resting.clone().map_or(0, |seats| bits_in(index, seats));
            u64::from((coming & !resting).count_ones())
        });
        coming.sum()
    }

    fn idlest(&self, except: Option<u16>) -> Option<usize> {
        let mut best = None;
        let (mut most, mut current, mut first, mut count) = (0, None, 0, 0);
        for (index, word) in self.idle.iter().enumerate() {
            for seat in bits(index, word.load(Ordering::SeqCst)) {
                let worker = (seat / usize::from(self.threads)) as u16;
                if Some(worker) == except || seat >= self.seats.len() {
                    continue;
                }
                if current != Some(worker) {
                    (current, first, count) = (Some(worker), seat, 0);
                }
                count += 1;
                if count > most {
                    (best, most) = (Some(first), count);
                }
                if most == self.threads {
                    return best;
                }
            }
        }
        best
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
        let own = seat / self.threads;
        let waiting = self.waiting();
        if waiting == 0 {
            return false;
        }
        let mut others = self
            .seats_of(own)
            .filter(|&other| other != usize::from(seat));
        others.any(|other| !self.is_free(other)) && self.has_free_processes(own, waiting)
    }

    /// Whether there are so many processes none of whose threads has a request, the own one aside.
    fn has_free_processes(&self, own: u16, wanted: u64) -> bool {
        let (mut found, mut current, mut count) = (0, None, 0);
        for (index, word) in self.free.iter().enumerate() {
            for seat in bits(index, word.load(Ordering::SeqCst)) {
                let worker = (seat / usize::from(self.threads)) as u16;
                if current != Some(worker) {
                    (current, count) = (Some(worker), 0);
                }
                count += 1;
                if count == self.threads && worker != own {
                    found += 1;
                    if found >= wanted {
                        return true;
                    }
                }
            }
        }
        false
    }

    fn is_free(&self, seat: usize) -> bool {
        self.free[seat / 64].load(Ordering::SeqCst) & (1 << (seat % 64)) != 0
    }
}

/// The seats whose bits are set in a word of 64.
fn bits(index: usize, mut word: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = (word != 0).then(|| word.trailing_zeros() as usize)?;
        word &= word - 1;
        Some(index * 64 + bit)
    })
}

/// The bits that these seats have in a word of 64.
fn bits_in(index: usize, seats: Range<usize>) -> u64 {
    let (start, end) = (index * 64, index * 64 + 64);
    let (from, to) = (seats.start.max(start), seats.end.min(end));
    if from >= to {
        return 0;
    }
    (u64::MAX >> (64 - (to - from))) << (from - start)
}
