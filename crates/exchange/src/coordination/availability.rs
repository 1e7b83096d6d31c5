//! Which worker threads can take a request, which of them is woken for one, and which leaves one to others. It claims
//! nothing.
//!
//! - The **idle** bits are those of threads that sleep and can be woken for a request. Who wakes a thread clears its bit
//!   first, so a wake-up is used once.
//! - The **free** bits are those of threads without a request. A thread sets its own before it parks and clears it with
//!   its claim. A free thread that is not idle is on its way. With both, no search over the words of all threads is needed.

use std::ops::Range;

use super::bitmap::Bitmap;
use super::thread_states::{BUSY, PARKED, ThreadStates};
use crate::sync::{Ordering, fence};

/// The bits of all worker threads, and their words.
#[derive(Clone, Copy)]
pub struct Availability<'a> {
    /// What each thread does.
    pub threads: ThreadStates<'a>,
    /// Threads that sleep and can be woken for a request.
    pub idle: Bitmap<'a>,
    /// Threads without a request: parked, or on their way.
    pub free: Bitmap<'a>,
}

impl Availability<'_> {
    /// Says that the thread has no request. Only the thread itself says so; between two claims without a wait nothing
    /// changes.
    pub(super) fn set_free(self, thread: u16) {
        let thread = usize::from(thread);
        if !self.free.contains(thread) {
            self.free.set(thread);
        }
    }

    /// Says that the thread has a request, or looks for none any more.
    pub(super) fn set_taken(self, thread: u16) {
        let thread = usize::from(thread);
        if self.free.contains(thread) {
            self.free.clear(thread);
        }
    }

    /// Says that the thread is about to sleep. It looks once more for what it waits for, and sleeps or not; then
    /// [`Availability::end_park`] follows.
    pub(super) fn begin_park(self, thread: u16) {
        self.threads.set(thread, PARKED);
        self.idle.set(usize::from(thread));
        fence(Ordering::SeqCst);
    }

    /// Says that the thread has slept, or does not.
    pub(super) fn end_park(self, thread: u16) {
        self.idle.clear(usize::from(thread));
    }

    /// Marks the threads of a dead worker as neither idle nor free.
    pub(super) fn forget(self, worker: u16) {
        for thread in self.threads.of(worker) {
            self.idle.clear(thread);
            // So that a dead process never counts as an idle one in `should_yield`.
            self.free.clear(thread);
            self.threads.set(thread as u16, BUSY);
        }
    }

    /// Marks every parked thread as idle and wakes every sleeper that does not count as parked: a process that died or
    /// wrote at random may have left a thread that would never be woken.
    pub(crate) fn repair(self) {
        for (thread, word) in self.threads.words.iter().enumerate() {
            match word.load(Ordering::SeqCst) {
                PARKED => self.idle.set(thread),
                _ => word.wake(),
            }
        }
    }

    /// Wakes the idle thread that should take the next request: one of the process with the most idle
    /// threads, so that an idle process goes before the second thread of a busy one.
    pub(crate) fn wake_one(self) {
        self.wake_of(1);
    }

    /// Wakes a thread of an idle process. None of a process that has a request, nor of one that has a thread on its way.
    pub(super) fn wake_idle_process(self) {
        self.wake_of(self.threads.per_worker);
    }

    /// Wakes a thread of the process with the most idle threads, where it has at least so many.
    fn wake_of(self, at_least: u16) {
        fence(Ordering::SeqCst);
        // Each failed round means that another waker woke that thread; bounded all the same.
        for _ in 0..self.threads.words.len() {
            let Some(thread) = self.idlest(at_least) else {
                return;
            };
            // The bit before the word: clearing it later could clear the mark of the thread's next wait.
            if self.idle.clear(thread) && self.threads.wake(thread as u16) {
                return;
            }
        }
    }

    fn idlest(self, at_least: u16) -> Option<usize> {
        let (mut best, mut most) = (None, 0);
        let (mut current, mut first, mut count, mut resting) = (None, 0, 0_u16, 0);
        for thread in self.idle.iter() {
            if thread >= self.threads.words.len() {
                continue;
            }
            let worker = self.threads.worker_of(thread);
            if current != Some(worker) {
                (current, first, count) = (Some(worker), thread, 0);
                resting = self.threads.resting_of(worker);
            }
            count += 1;
            // A worker whose other threads are to rest is woken for nothing.
            let can_take = count.saturating_sub(resting);
            if count >= at_least && can_take > most {
                (best, most) = (Some(first), can_take);
            }
            if count == self.threads.per_worker && can_take == most {
                return best;
            }
        }
        best
    }

    /// Number of threads that are on their way to a request: free, and not idle. One that is about to park counts too,
    /// for it looks once more when it has said that it is idle. Those of the worker that works `out_of_band` do not:
    /// they sleep, although they are not idle.
    pub(super) fn coming(self, out_of_band: Option<u16>) -> u64 {
        let resting = out_of_band.map(|worker| self.threads.of(worker));
        let words = (0..).zip(self.free.words.iter().zip(self.idle.words));
        let coming = words.map(|(number, (free, idle))| {
            // The free ones first: one that claims in between passes on what it leaves itself.
            let free = free.load(Ordering::SeqCst);
            let coming = free & !idle.load(Ordering::SeqCst);
            let resting = resting.clone().map_or(0, |range| bits_in(number, range));
            u64::from((coming & !resting).count_ones())
        });
        coming.sum()
    }

    /// Whether this thread may have a request: as many others of its worker have none as are to rest. Exact while the thread
    /// holds the GVL.
    pub(super) fn may_take(self, thread: u16) -> bool {
        let worker = self.threads.worker_of(usize::from(thread));
        let resting = self.threads.resting_of(worker);
        if resting == 0 {
            return true;
        }
        let others = self.threads.others_of(thread);
        let free = others.filter(|&other| self.free.contains(other)).count();
        free >= usize::from(resting)
    }

    /// Whether this thread should leave the requests that wait to idle processes: another thread of its own process
    /// runs one, and there are at least as many processes without one as requests that wait.
    ///
    /// `waiting` counts those requests, and is asked after the processes were counted: of a request that another
    /// process claims in between, neither the process must be missing nor the request be counted. None of them is left
    /// where it says 0: the thread's claim fails.
    pub(super) fn should_yield(self, thread: u16, waiting: impl Fn() -> u64) -> bool {
        let own = thread / self.threads.per_worker;
        let mut others = self.threads.others_of(thread);
        if others.all(|other| self.free.contains(other)) {
            return false;
        }
        let free = self.free_workers(own);
        (1..=free).contains(&waiting())
    }

    /// Number of workers none of whose threads has a request, the own one aside.
    fn free_workers(self, own: u16) -> u64 {
        let (mut found, mut current, mut count) = (0, None, 0);
        for thread in self.free.iter() {
            let worker = self.threads.worker_of(thread);
            if current != Some(worker) {
                (current, count) = (Some(worker), 0);
            }
            count += 1;
            if count == self.threads.per_worker && worker != own {
                found += 1;
            }
        }
        found
    }

    /// Whether the threads of a worker are parked, the `caller` aside.
    pub(super) fn others_are_parked(self, worker: u16, caller: Option<u16>) -> bool {
        let caller = caller.map(usize::from);
        let mut others = (self.threads.of(worker)).filter(|&thread| Some(thread) != caller);
        others.all(|other| self.threads.is(other, PARKED))
    }

    /// From now on the worker's threads are not woken for a request.
    pub(super) fn hide(self, worker: u16) {
        for thread in self.threads.of(worker) {
            self.idle.clear(thread);
        }
    }

    /// Lets the worker's parked threads be woken again.
    pub(super) fn show(self, worker: u16) {
        for thread in self.threads.of(worker) {
            if self.threads.is(thread, PARKED) {
                self.idle.set(thread);
            }
        }
    }
}

/// The bits that these threads have in word `number`.
fn bits_in(number: usize, threads: Range<usize>) -> u64 {
    let (start, end) = (number * 64, number * 64 + 64);
    let (from, to) = (threads.start.max(start), threads.end.min(end));
    if from >= to {
        return 0;
    }
    (u64::MAX >> (64 - (to - from))) << (from - start)
}
