//! What each worker thread does: one word for each, on which it sleeps. Which of them is woken for a request is decided
//! in [`super::availability`].

use std::ops::Range;

use crate::sync::{AtomicU32, Futex, Line, Ordering, fence};

/// The thread has a request or works on what follows its response, or does not exist.
pub(super) const BUSY: u32 = 0;
/// It sleeps, or is about to.
pub(super) const PARKED: u32 = 1;
/// Woken, but not yet holding the GVL.
pub(super) const WOKEN: u32 = 2;
/// Between two requests, or about to park.
pub(super) const LOOKING: u32 = 3;
/// It looks for no request any more.
pub(super) const LEFT: u32 = 4;

/// How long a request is left to an idle process before a busy one takes it after all: the idle one may
/// be stopped, or hold its GVL for something else.
pub(crate) const YIELD_TIMEOUT_NS: u64 = 20_000_000;

/// The words of all worker threads. A thread is named by its index among those of all workers: thread `number` of worker
/// `worker` is `worker * per_worker + number`.
#[derive(Clone, Copy)]
pub struct ThreadStates<'a> {
    /// Threads of each worker.
    pub per_worker: u16,
    /// What each thread does, and what it sleeps on.
    pub words: &'a [Line<Futex>],
    /// For each worker: 1 when it should finish what it has and exit.
    pub stops: &'a [Line<AtomicU32>],
    /// How many threads of each worker are to have no request: fewer than a worker has. Only the front writes it.
    pub resting: &'a Line<AtomicU32>,
    /// For each worker: how many of its requests have said that they wait. That many of its resting threads take requests.
    pub io_bound: &'a [Line<AtomicU32>],
}

impl ThreadStates<'_> {
    // ===== the front's side =====

    /// Whether thread `number` of a worker has not looked for work since its last request, or not yet.
    pub fn is_busy(self, worker: u16, number: u16) -> bool {
        self.is(usize::from(worker * self.per_worker + number), BUSY)
    }

    /// Whether a thread of the worker neither waits for a request nor looks for one.
    pub fn has_busy_thread(self, worker: u16) -> bool {
        self.of(worker).any(|thread| self.is(thread, BUSY))
    }

    /// Whether a thread of the worker was woken and has not come: it waits for the GVL, or its process is stopped.
    pub fn has_woken_thread(self, worker: u16) -> bool {
        self.of(worker).any(|thread| self.is(thread, WOKEN))
    }

    /// Lets a new process serve as this worker: it is not asked to exit, and has no request that waits.
    pub fn clear_stop(self, worker: u16) {
        self.stops[usize::from(worker)].store(0, Ordering::SeqCst);
        self.io_bound[usize::from(worker)].store(0, Ordering::SeqCst);
    }

    /// Asks a worker to finish what it has and exit.
    pub fn stop_worker(self, worker: u16) {
        self.stops[usize::from(worker)].store(1, Ordering::SeqCst);
        for thread in self.of(worker) {
            self.wake(thread as u16);
        }
    }

    // ===== a worker's side =====

    /// Whether a worker should finish what it has and exit.
    pub(super) fn is_stopped(self, worker: u16) -> bool {
        self.stops[usize::from(worker)].load(Ordering::SeqCst) != 0
    }

    /// How many threads of a worker are to have no request now.
    pub(super) fn resting_of(self, worker: u16) -> u16 {
        let resting = self.resting.load(Ordering::SeqCst);
        if resting == 0 {
            return 0;
        }
        // Workers write the second word: whatever is in it, one thread takes requests.
        let waiting = self.io_bound[usize::from(worker)].load(Ordering::SeqCst);
        let most = u32::from(self.per_worker).saturating_sub(1);
        resting.saturating_sub(waiting).min(most) as u16
    }

    /// Says that the thread looks for a request.
    pub(super) fn begin_to_look(self, thread: u16) {
        // A swap: it must see what was published before the wake-up it overwrites, or that is lost.
        self.words[usize::from(thread)].swap(LOOKING, Ordering::SeqCst);
    }

    /// Says what the thread does: one of the constants of this file.
    pub(super) fn set(self, thread: u16, word: u32) {
        self.words[usize::from(thread)].store(word, Ordering::SeqCst);
    }

    /// Sleeps until the thread is woken; where it `yielded`, for so many nanoseconds at most.
    pub(super) fn sleep(self, thread: u16, yielded: Option<u64>) {
        let word = &self.words[usize::from(thread)];
        while word.load(Ordering::Acquire) == PARKED {
            if let Some(nanoseconds) = yielded {
                word.wait_for(PARKED, nanoseconds);
                break;
            }
            word.wait(PARKED);
        }
    }

    /// Wakes one thread. False when it was not parked. Async-signal-safe.
    pub(crate) fn wake(self, thread: u16) -> bool {
        // Between what the caller raised (a stop, an interrupt) and the look at the thread's word; the thread
        // has the same fence between its word and its look at them.
        fence(Ordering::SeqCst);
        let word = &self.words[usize::from(thread)];
        let woken = word
            .compare_exchange(PARKED, WOKEN, Ordering::SeqCst, Ordering::SeqCst)
            .is_ok();
        if woken {
            word.wake();
        }
        woken
    }

    // ===== both sides =====

    /// Whether this is what the thread does.
    pub(super) fn is(self, thread: usize, word: u32) -> bool {
        self.words[thread].load(Ordering::SeqCst) == word
    }

    /// The threads of a worker.
    pub(super) fn of(self, worker: u16) -> Range<usize> {
        let first = usize::from(worker) * usize::from(self.per_worker);
        first..first + usize::from(self.per_worker)
    }

    /// The other threads of a thread's worker.
    pub(super) fn others_of(self, thread: u16) -> impl Iterator<Item = usize> {
        let all = self.of(thread / self.per_worker);
        all.filter(move |&other| other != usize::from(thread))
    }

    /// The worker that a thread belongs to.
    pub(super) fn worker_of(self, thread: usize) -> u16 {
        (thread / usize::from(self.per_worker)) as u16
    }
}

/// Whether this is a value that a thread's word can have.
pub(crate) fn is_thread_word(word: u32) -> bool {
    word <= LEFT
}
