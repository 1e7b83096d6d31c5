//! Samples of slow requests: which threads are asked where they are, and how often. It stores no sample and logs nothing.

use std::sync::{Arc, Weak};
use std::time::Duration;

use exchange::{Alarm, Run, WorkerId};

use super::pending::PendingRequest;
use super::slots::Slots;
use crate::http::request::Request;

/// Most samples of a request.
const MAX_SAMPLES: u32 = 20;
/// Most threads of a generation that are sampled at once. Each answer takes the front and the worker about 0.2 ms.
const MAX_SAMPLED_THREADS: usize = 16;

/// A slow request that a thread runs.
struct SlowRun {
    run: Run,
    /// Not held: it ends with its response, and the file of its body with it.
    request: Weak<Request>,
    /// How often its thread was asked.
    asked: u32,
    /// Whether its worker has not answered yet.
    waits: bool,
}

/// The slow requests of one generation that run now. Almost always none.
#[derive(Default)]
pub(super) struct SlowRuns {
    runs: Vec<SlowRun>,
}

impl SlowRuns {
    /// Adds which threads are to be asked now: those that have run a request for `limit` and have answered the last question.
    /// To be called ten times a second; `now` is nanoseconds of the monotonic clock.
    pub(super) fn check(
        &mut self,
        slots: &Slots,
        now: u64,
        limit: Option<Duration>,
        alarms: &mut Vec<Alarm>,
    ) {
        if !self.runs.is_empty() {
            self.runs.retain(|slow| goes_on(slots, slow));
        }
        let Some(limit) = limit else {
            return;
        };
        let began_before = now.saturating_sub(limit.as_nanos() as u64);
        for slot in slots.numbers() {
            let Some(request) = slots.request(slot) else {
                continue;
            };
            let arrived = request.request.arrived_ns();
            if arrived.is_some_and(|arrived| arrived <= began_before)
                && is_wanted(request)
                && let Some(run) = slots.run(slot)
                && slots.times(slot).claimed_ns <= began_before
            {
                self.ask(run, &request.request, alarms);
            }
        }
    }

    /// Asks the thread, unless it has not answered yet, or often enough, or too many others are asked.
    fn ask(&mut self, run: Run, request: &Arc<Request>, alarms: &mut Vec<Alarm>) {
        let at = self.runs.iter().position(|slow| slow.run == run);
        let sampled = self.runs.iter().filter(|slow| slow.asked < MAX_SAMPLES);
        let slow = match at {
            Some(at) => &mut self.runs[at],
            None if sampled.count() >= MAX_SAMPLED_THREADS => return,
            None => {
                self.runs.push(SlowRun {
                    run,
                    request: Arc::downgrade(request),
                    asked: 0,
                    waits: false,
                });
                self.runs.last_mut().expect("it was just pushed")
            }
        };
        if !slow.waits && slow.asked < MAX_SAMPLES {
            (slow.waits, slow.asked) = (true, slow.asked + 1);
            alarms.push(Alarm::Slow(run));
        }
    }

    /// A worker has said where a thread is; without a line where that runs the request no more.
    pub(super) fn traced(&mut self, by: WorkerId, slot: u16, sequence: u32, backtrace: &[String]) {
        let asked = |slow: &&mut SlowRun| {
            (slow.run.by, slow.run.slot, slow.run.sequence) == (by, slot, sequence) && slow.waits
        };
        if let Some(slow) = self.runs.iter_mut().find(asked) {
            slow.waits = false;
            if !backtrace.is_empty()
                && let Some(request) = slow.request.upgrade()
            {
                request.add_sample(backtrace);
            }
        }
    }
}

/// Whether a sample would still be shown: a request that was answered is in the log already.
fn is_wanted(request: &PendingRequest) -> bool {
    !request.overdue.get() && !request.is_abandoned() && !request.has_ended()
}

fn goes_on(slots: &Slots, slow: &SlowRun) -> bool {
    let request = slots.request(slow.run.slot);
    request.is_some_and(|request| is_wanted(request)) && slots.run(slow.run.slot) == Some(slow.run)
}
