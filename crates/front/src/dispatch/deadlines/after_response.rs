//! Threads that have handed a request back and now run what the application wants done after its response, such as `close`
//! of the body, `rack.response_finished` and `rack.after_reply`. For that they have the request's time once more; then they
//! are late, as with a request.
//!
//! It ends nothing. It reads the thread's word in the exchange: between two requests a thread looks for work.

use exchange::{Run, WorkerId};

use super::late::LateWork;
use crate::dispatch::slots::Slots;

/// A thread that handed a request back, and was not seen to look for work since.
#[derive(Clone, Copy)]
struct Work {
    /// The request's last publication.
    run: Run,
    /// When the thread handed it back, nanoseconds of the monotonic clock.
    since_ns: u64,
    /// The time that the request had, in nanoseconds.
    timeout_ns: u64,
    /// When the thread is late, nanoseconds of the monotonic clock; none before the first check.
    until: Option<u64>,
    /// Whether it was reported to be late.
    late: bool,
}

/// What the threads of one generation do after responses.
pub(super) struct PostResponseWork {
    /// By worker and thread.
    all: Vec<Option<Work>>,
    threads: u16,
}

impl PostResponseWork {
    /// Returns no work, of so many workers of so many threads.
    pub(super) fn new(places: u16, threads: u16) -> Self {
        Self {
            all: vec![None; usize::from(places) * usize::from(threads)],
            threads,
        }
    }

    fn index(&self, worker: u16, thread: u16) -> usize {
        usize::from(worker) * usize::from(self.threads) + usize::from(thread)
    }

    /// The thread has handed back the request of this run.
    pub(super) fn begin(&mut self, run: Run, since_ns: u64, timeout_ns: u64) {
        let index = self.index(run.by.worker, run.thread);
        self.all[index] = Some(Work {
            run,
            since_ns,
            timeout_ns,
            until: None,
            late: false,
        });
    }

    /// Forgets threads that look for work again, and reports those that are late: the run, the work, and its deadline.
    pub(super) fn check(
        &mut self,
        slots: &Slots,
        now: u64,
        mut report: impl FnMut(Run, LateWork, u64),
    ) {
        for one in &mut self.all {
            one.take_if(|one| {
                !slots
                    .exchange
                    .coordination()
                    .availability
                    .threads
                    .is_busy(one.run.by.worker, one.run.thread)
            });
        }
        // After that: a thread that takes a request in between is seen to have it.
        for run in slots.numbers().filter_map(|slot| slots.run(slot)) {
            let index = self.index(run.by.worker, run.thread);
            self.all[index] = None;
        }
        for one in self.all.iter_mut().flatten() {
            let until = *one.until.get_or_insert(now.saturating_add(one.timeout_ns));
            if until <= now && !one.late {
                one.late = true;
                let (by, since_ns) = (one.run.by, one.since_ns);
                report(one.run, LateWork::AfterResponse { by, since_ns }, until);
            }
        }
    }

    /// Whether the thread of this run is late and has not come back.
    pub(super) fn is_late(&self, run: Run) -> bool {
        let mut late = self.all.iter().flatten().filter(|one| one.late);
        late.any(|one| one.run == run)
    }

    /// Whether a thread of the worker is at such work and within its time.
    pub(super) fn finishes_in_time(&self, worker: u16) -> bool {
        let mut in_time = self.all.iter().flatten().filter(|one| !one.late);
        in_time.any(|one| one.run.by.worker == worker)
    }

    /// The threads that are at such work now: worker, thread, since when in nanoseconds of the monotonic clock.
    pub(super) fn running(&self, slots: &Slots) -> impl Iterator<Item = (WorkerId, u16, u64)> {
        let away = move |one: &&Work| {
            let (by, thread) = (one.run.by, one.run.thread);
            let has_one = |run: Run| (run.by, run.thread) == (by, thread);
            let mut runs = slots.numbers().filter_map(|slot| slots.run(slot));
            slots
                .exchange
                .coordination()
                .availability
                .threads
                .is_busy(by.worker, thread)
                && !runs.any(has_one)
        };
        let all = self.all.iter().flatten().filter(away);
        all.map(|one| (one.run.by, one.run.thread, one.since_ns))
    }

    /// A worker is dead, and its threads with it.
    pub(super) fn forget_worker(&mut self, worker: u16) {
        for one in &mut self.all {
            one.take_if(|one| one.run.by.worker == worker);
        }
    }
}
