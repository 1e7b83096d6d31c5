//! All that has a deadline at a worker of one generation: requests that run past theirs, what applications do after a
//! response, and workers that make no progress without a request. The supervisor hears of each, and can find out where the
//! thread is and replace the worker.
//!
//! It ends no process, answers no request and logs nothing.

mod after_response;
mod late;
mod stalls;

use std::time::Duration;

use exchange::{Alarm, Run, WorkerId};

use super::slots::Slots;
use super::workers::Workers;
use after_response::PostResponseWork;
use late::LateRuns;
pub(super) use late::LateWork;
use stalls::Stalls;

/// A thread that was woken for a request and has not come after so long, in nanoseconds, may be stopped.
const NUDGE_AFTER_NS: u64 = 100_000_000;

/// The inputs of one check.
#[derive(Clone, Copy, Debug)]
pub(super) struct Check {
    /// Nanoseconds of the monotonic clock.
    pub(super) now: u64,
    /// The time since the last check.
    pub(super) passed: Duration,
    /// How long a thread may run on after its deadline.
    pub(super) grace: Duration,
    /// How long a worker may run code between requests while others wait; `None`: no worker is taken for stalled.
    pub(super) between: Option<Duration>,
}

/// The deadlines of one generation.
pub(super) struct Deadlines {
    late: LateRuns,
    after_response: PostResponseWork,
    stalls: Stalls,
}

impl Deadlines {
    /// Returns empty ones for so many workers of so many threads.
    pub(super) fn new(places: u16, threads: u16) -> Self {
        Self {
            late: LateRuns::default(),
            after_response: PostResponseWork::new(places, threads),
            stalls: Stalls::new(places),
        }
    }

    /// A process is being started for this worker.
    pub(super) fn worker_starts(&mut self, worker: u16) {
        self.stalls.forget(worker);
    }

    /// A thread has handed a request back, which had so many nanoseconds.
    pub(super) fn handed_back(&mut self, run: Run, since_ns: u64, timeout_ns: u64) {
        self.after_response.begin(run, since_ns, timeout_ns);
    }

    /// Moves deadlines on where responses made progress, and adds what the supervisor must hear. The requests themselves are
    /// the caller's.
    pub(super) fn check(
        &mut self,
        slots: &Slots,
        workers: &Workers,
        check: Check,
        alarms: &mut Vec<Alarm>,
    ) {
        let now = check.now;
        extend_deadlines(slots, now);
        let late = &mut self.late;
        self.after_response.check(slots, now, |run, work, until| {
            late.begin(run, work, until);
            alarms.push(Alarm::Late(run));
        });
        self.check_late(slots, check, alarms);
        let wanted = nudge(slots, now);
        self.stalls.check(slots, workers, check, wanted, alarms);
    }

    /// A thread still has a request, or what comes after it, whose deadline was `until`.
    pub(super) fn begin_late(&mut self, run: Run, work: LateWork, until: u64) {
        self.late.begin(run, work, until);
    }

    /// A worker has said where the thread is that runs a late request, or that it runs it no more. Returns what it is late
    /// with where that was asked of this worker; once.
    pub(super) fn traced(&mut self, by: WorkerId, slot: u16, sequence: u32) -> Option<LateWork> {
        self.late.traced(by, slot, sequence)
    }

    /// Forgets a worker that is dead; call it before its slots are taken back. Returns what it was late with and never said
    /// where.
    pub(super) fn forget_worker(&mut self, slots: &Slots, worker: u16) -> Vec<LateWork> {
        let after_response = &self.after_response;
        let goes_on = |run| goes_on(slots, after_response, run);
        self.late.forget_worker(worker, goes_on)
    }

    /// A worker is dead or about to be killed, and with it what it did after responses.
    pub(super) fn forget_post_response_work(&mut self, worker: u16) {
        self.after_response.forget_worker(worker);
    }

    /// The threads that are busy after a response: worker, thread, since when in nanoseconds of the monotonic clock.
    pub(super) fn after_response(
        &self,
        slots: &Slots,
    ) -> impl Iterator<Item = (WorkerId, u16, u64)> {
        self.after_response.running(slots)
    }

    fn check_late(&mut self, slots: &Slots, check: Check, alarms: &mut Vec<Alarm>) {
        let after_response = &self.after_response;
        let goes_on = |run| goes_on(slots, after_response, run);
        let of_use = |worker| is_of_use(slots, after_response, worker, check.now);
        self.late.check(check, goes_on, of_use, alarms);
    }
}

/// Whether the thread still has what it is late with.
fn goes_on(slots: &Slots, after_response: &PostResponseWork, run: Run) -> bool {
    let in_slot = slots.request(run.slot).is_some() && slots.run(run.slot) == Some(run);
    in_slot || after_response.is_late(run)
}

/// Whether the worker runs something that is within its deadline, or a connection that its application took over.
fn is_of_use(slots: &Slots, after_response: &PostResponseWork, worker: u16, now: u64) -> bool {
    let in_slots = slots.numbers().any(|slot| {
        let Some(request) = slots.request(slot) else {
            return false;
        };
        let hijacked = request.is_hijacked() && !request.is_abandoned();
        slots.runner(slot) == Some(worker) && (hijacked || !request.is_late(now))
    });
    in_slots || after_response.finishes_in_time(worker)
}

/// Moves the deadlines on of responses that have begun and make progress: something of them came since the last check, or
/// the application waits for their client.
fn extend_deadlines(slots: &Slots, now: u64) {
    for slot in slots.numbers() {
        let Some(request) = slots.request(slot) else {
            continue;
        };
        if request.overdue.get() || !request.has_begun() {
            continue;
        }
        // What is not taken has no room at the client's side.
        let waits = || request.is_late(now) && slots.exchange.publication(slot).has_frames();
        if request.take_progress() || !request.is_abandoned() && waits() {
            request.extend(now);
        }
    }
}

/// Has another thread come for requests that were left alone: the one that was woken may be of a process that somebody
/// stopped. Returns whether there are any.
fn nudge(slots: &Slots, now: u64) -> bool {
    use exchange::front::Holder;
    let left = slots.numbers().any(|slot| {
        let request = slots.request(slot);
        let arrived = request.and_then(|request| request.request.arrived_ns());
        arrived.is_some_and(|arrived| arrived + NUDGE_AFTER_NS <= now)
            && slots.exchange.publication(slot).holder() == Holder::Unclaimed
    });
    if left {
        slots.exchange.wake_another();
    }
    left
}
