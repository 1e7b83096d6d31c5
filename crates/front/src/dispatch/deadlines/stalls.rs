//! Workers that make no progress although they hold no request: nothing of theirs is late, yet what waits waits for them.
//! They are found with each check of deadlines; no request pays for it.
//!
//! It moves no request and ends no process: any other worker may take what the worker was woken for.

use std::time::Duration;

use exchange::{Alarm, Stall, WorkerId};

use super::Check;
use crate::dispatch::slots::Slots;
use crate::dispatch::workers::Workers;

/// A worker is unresponsive when a thread of it was woken and has not come after so long.
const UNRESPONSIVE_AFTER: Duration = Duration::from_secs(5);
/// The most that counts between two checks: a front that was stopped itself has seen nothing meanwhile.
const LONGEST_INTERVAL: Duration = Duration::from_millis(200);

/// What the checks saw of a worker so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct WorkerProgress {
    finished: u64,
    called: Duration,
    between: Duration,
}

/// What one check saw of a worker.
#[derive(Clone, Copy, Debug, Default)]
struct Observation {
    /// Whether it holds a request.
    holds: bool,
    /// Requests that it has finished so far.
    finished: u64,
    /// Whether a thread of it was woken and has not come.
    called: bool,
    /// Whether it neither waits for a request nor looks for one: with a thread that runs requests, or with the turn for work
    /// between them.
    works: bool,
    /// Whether requests wait that no thread has claimed in time.
    wanted: bool,
}

impl WorkerProgress {
    /// Adds an observation, made `passed` after the last one. Returns what is wrong once it has been so for too long;
    /// `between` is how long code between requests may take.
    fn observe(&mut self, seen: Observation, passed: Duration, between: Duration) -> Option<Stall> {
        let passed = passed.min(LONGEST_INTERVAL);
        if seen.holds || seen.finished != self.finished {
            let finished = seen.finished;
            *self = Self {
                finished,
                ..Self::default()
            };
            return None;
        }
        self.called = match seen.called {
            true => self.called + passed,
            false => Duration::ZERO,
        };
        self.between = match (seen.works, seen.wanted) {
            (true, true) => self.between + passed,
            (true, false) => self.between,
            (false, _) => Duration::ZERO,
        };
        let stall = if self.called >= UNRESPONSIVE_AFTER {
            Stall::Unresponsive
        } else if self.between > between {
            Stall::BusyBetweenRequests
        } else {
            return None;
        };
        // A stall that the supervisor does nothing about is reported again, but not with each check.
        *self = Self {
            finished: self.finished,
            ..Self::default()
        };
        Some(stall)
    }
}

/// What was seen of the workers of one generation.
pub(super) struct Stalls(Vec<WorkerProgress>);

impl Stalls {
    /// Returns the progress of so many workers, of which nothing was seen yet.
    pub(super) fn new(places: u16) -> Self {
        Self(vec![WorkerProgress::default(); usize::from(places)])
    }

    /// A process is being started for this worker.
    pub(super) fn forget(&mut self, worker: u16) {
        self.0[usize::from(worker)] = WorkerProgress::default();
    }

    /// Looks at the workers that serve, and adds those that stall. `wanted` says whether requests wait that no thread has
    /// claimed in time.
    pub(super) fn check(
        &mut self,
        slots: &Slots,
        workers: &Workers,
        check: Check,
        wanted: bool,
        alarms: &mut Vec<Alarm>,
    ) {
        let Some(between) = check.between else {
            return;
        };
        for (worker, progress) in (0..).zip(&mut self.0) {
            if !workers.serves(worker) {
                continue;
            }
            let exchange = slots.exchange.coordination();
            let called = exchange.availability.threads.has_woken_thread(worker);
            let works = exchange.works_between_requests(worker);
            let runs = || slots.running(|by| by == worker, |_| true) > 0;
            let seen = Observation {
                // One that idles is not asked.
                holds: (called || works) && runs(),
                finished: workers.finished(worker),
                called,
                works,
                wanted,
            };
            if let Some(stall) = progress.observe(seen, check.passed, between) {
                let generation = slots.generation();
                alarms.push(Alarm::Stalled(WorkerId { generation, worker }, stall));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: Duration = Duration::from_millis(100);
    const BETWEEN: Duration = Duration::from_secs(70);

    /// Checks for `time`; returns when the worker was found to stall, and how.
    fn observe_for(
        progress: &mut WorkerProgress,
        seen: Observation,
        time: Duration,
    ) -> Option<(Duration, Stall)> {
        let checks = (time.as_millis() / TICK.as_millis()) as u32;
        (1..=checks).find_map(|number| {
            let stall = progress.observe(seen, TICK, BETWEEN)?;
            Some((TICK * number, stall))
        })
    }

    const CALLED: Observation = Observation {
        called: true,
        holds: false,
        finished: 0,
        works: false,
        wanted: false,
    };
    const AT_WORK: Observation = Observation {
        called: false,
        works: true,
        wanted: true,
        ..CALLED
    };

    #[test]
    fn a_worker_that_was_woken_and_does_not_come_stalls() {
        let mut progress = WorkerProgress::default();
        let stall = observe_for(&mut progress, CALLED, 2 * UNRESPONSIVE_AFTER);
        assert_eq!(stall, Some((UNRESPONSIVE_AFTER, Stall::Unresponsive)));
        // Again only after as long.
        let stall = observe_for(&mut progress, CALLED, 2 * UNRESPONSIVE_AFTER);
        assert_eq!(stall, Some((UNRESPONSIVE_AFTER, Stall::Unresponsive)));
    }

    #[test]
    fn a_worker_that_comes_holds_a_request_or_has_finished_one_does_not_stall() {
        let nearly = UNRESPONSIVE_AFTER - TICK;
        for moves in [
            Observation {
                called: false,
                ..CALLED
            },
            Observation {
                holds: true,
                ..CALLED
            },
            Observation {
                finished: 1,
                ..CALLED
            },
        ] {
            let mut progress = WorkerProgress::default();
            assert_eq!(observe_for(&mut progress, CALLED, nearly), None);
            assert_eq!(progress.observe(moves, TICK, BETWEEN), None);
            let called = Observation {
                finished: moves.finished,
                ..CALLED
            };
            assert_eq!(
                observe_for(&mut progress, called, nearly),
                None,
                "{moves:?}"
            );
        }
    }

    #[test]
    fn a_worker_that_is_idle_or_at_work_that_nobody_waits_for_does_not_stall() {
        let idle = Observation {
            called: false,
            ..CALLED
        };
        let wanted = Observation {
            wanted: true,
            ..idle
        };
        let unwanted = Observation {
            wanted: false,
            ..AT_WORK
        };
        for seen in [idle, wanted, unwanted] {
            let mut progress = WorkerProgress::default();
            assert_eq!(
                observe_for(&mut progress, seen, 2 * BETWEEN),
                None,
                "{seen:?}"
            );
        }
    }

    #[test]
    fn work_between_requests_may_take_as_long_as_a_request_while_some_wait() {
        let mut progress = WorkerProgress::default();
        let stall = observe_for(&mut progress, AT_WORK, 2 * BETWEEN);
        assert_eq!(stall, Some((BETWEEN + TICK, Stall::BusyBetweenRequests)));
        // What counts is the time in which somebody waits, until it comes to an end.
        let unwanted = Observation {
            wanted: false,
            ..AT_WORK
        };
        let mut progress = WorkerProgress::default();
        assert_eq!(observe_for(&mut progress, AT_WORK, BETWEEN / 2), None);
        assert_eq!(observe_for(&mut progress, unwanted, BETWEEN), None);
        let mut other = progress;
        let stall = observe_for(&mut progress, AT_WORK, BETWEEN);
        assert_eq!(
            stall,
            Some((BETWEEN / 2 + TICK, Stall::BusyBetweenRequests))
        );
        let idle = Observation {
            works: false,
            ..AT_WORK
        };
        assert_eq!(other.observe(idle, TICK, BETWEEN), None);
        assert_eq!(observe_for(&mut other, AT_WORK, BETWEEN), None);
    }

    #[test]
    fn a_front_that_was_stopped_itself_has_seen_nothing_meanwhile() {
        let mut progress = WorkerProgress::default();
        for _ in 0..10 {
            assert_eq!(
                progress.observe(CALLED, 100 * UNRESPONSIVE_AFTER, BETWEEN),
                None
            );
        }
    }
}
