//! Workers that make no progress although they hold no request: nothing of theirs is late, yet what waits waits for them.
//! They are found with each check of deadlines; no request pays for it.
//!
//! It moves no request and ends no process: any other worker may take what the worker was woken for.

use std::time::Duration;

use exchange::{Alarm, Stall, WorkerId};

use super::check::Check;
use crate::dispatch::slots::Slots;
use crate::dispatch::workers::Workers;

/// A worker is unresponsive when a thread of it was woken and has not come after so long.
const UNRESPONSIVE_AFTER: Duration = Duration::from_secs(5);
/// The most that counts between two looks: a front that was stopped itself has seen nothing meanwhile.
const LONGEST_CHECK: Duration = Duration::from_millis(200);

/// What was seen of a worker so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Watch {
    finished: u64,
    called: Duration,
    between: Duration,
}

/// What one look saw of it.
#[derive(Clone, Copy, Debug, Default)]
struct Look {
    /// Whether it holds a request.
    holds: bool,
    /// Requests that it has finished so far.
    finished: u64,
    /// Whether a thread of it was woken and has not come.
    called: bool,
    /// Whether a thread of it is neither waiting for a request nor looking for one.
    works: bool,
    /// Whether requests wait that no thread has claimed in time.
    wanted: bool,
}

impl Watch {
    /// Takes a look, so long after the last one. Says what is wrong where it has been so for too long; `between` is how
    /// long code between requests may take.
    fn look(&mut self, look: Look, passed: Duration, between: Duration) -> Option<Stall> {
        let passed = passed.min(LONGEST_CHECK);
        if look.holds || look.finished != self.finished {
            let finished = look.finished;
            *self = Self {
                finished,
                ..Self::default()
            };
            return None;
        }
        self.called = match look.called {
            true => self.called + passed,
            false => Duration::ZERO,
        };
        self.between = match (look.works, look.wanted) {
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
        // Whoever hears of it and does nothing hears of it again, but not with each look.
        *self = Self {
            finished: self.finished,
            ..Self::default()
        };
        Some(stall)
    }
}

/// What was seen of the workers of one generation.
pub(super) struct Stalls(Vec<Watch>);

impl Stalls {
    /// Nothing was seen of so many workers.
    pub(super) fn new(places: u16) -> Self {
        Self(vec![Watch::default(); usize::from(places)])
    }

    /// A process is being started for this worker.
    pub(super) fn forget(&mut self, worker: u16) {
        self.0[usize::from(worker)] = Watch::default();
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
        for (worker, watch) in (0..).zip(&mut self.0) {
            if !workers.serves(worker) {
                continue;
            }
            let called = slots.exchange.threads().has_woken_thread(worker);
            let works = slots.exchange.threads().has_busy_thread(worker);
            let runs = || slots.running(|by| by == worker, |_| true) > 0;
            let look = Look {
                // One that idles is not asked.
                holds: (called || works) && runs(),
                finished: workers.finished(worker),
                called,
                works,
                wanted,
            };
            if let Some(stall) = watch.look(look, check.passed, check.between) {
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

    /// Looks as long as `time`; when it was said that the worker stalls, and how.
    fn look_for(watch: &mut Watch, look: Look, time: Duration) -> Option<(Duration, Stall)> {
        let looks = (time.as_millis() / TICK.as_millis()) as u32;
        (1..=looks).find_map(|number| {
            let stall = watch.look(look, TICK, BETWEEN)?;
            Some((TICK * number, stall))
        })
    }

    const CALLED: Look = Look {
        called: true,
        holds: false,
        finished: 0,
        works: false,
        wanted: false,
    };
    const AT_WORK: Look = Look {
        called: false,
        works: true,
        wanted: true,
        ..CALLED
    };

    #[test]
    fn a_worker_that_was_woken_and_does_not_come_stalls() {
        let mut watch = Watch::default();
        let stall = look_for(&mut watch, CALLED, 2 * UNRESPONSIVE_AFTER);
        assert_eq!(stall, Some((UNRESPONSIVE_AFTER, Stall::Unresponsive)));
        // Again only after as long.
        let stall = look_for(&mut watch, CALLED, 2 * UNRESPONSIVE_AFTER);
        assert_eq!(stall, Some((UNRESPONSIVE_AFTER, Stall::Unresponsive)));
    }

    #[test]
    fn a_worker_that_comes_holds_a_request_or_has_finished_one_does_not_stall() {
        let nearly = UNRESPONSIVE_AFTER - TICK;
        for moves in [
            Look {
                called: false,
                ..CALLED
            },
            Look {
                holds: true,
                ..CALLED
            },
            Look {
                finished: 1,
                ..CALLED
            },
        ] {
            let mut watch = Watch::default();
            assert_eq!(look_for(&mut watch, CALLED, nearly), None);
            assert_eq!(watch.look(moves, TICK, BETWEEN), None);
            let called = Look {
                finished: moves.finished,
                ..CALLED
            };
            assert_eq!(look_for(&mut watch, called, nearly), None, "{moves:?}");
        }
    }

    #[test]
    fn a_worker_that_is_idle_or_at_work_that_nobody_waits_for_does_not_stall() {
        let idle = Look {
            called: false,
            ..CALLED
        };
        let wanted = Look {
            wanted: true,
            ..idle
        };
        let unwanted = Look {
            wanted: false,
            ..AT_WORK
        };
        for look in [idle, wanted, unwanted] {
            let mut watch = Watch::default();
            assert_eq!(look_for(&mut watch, look, 2 * BETWEEN), None, "{look:?}");
        }
    }

    #[test]
    fn work_between_requests_may_take_as_long_as_a_request_while_some_wait() {
        let mut watch = Watch::default();
        let stall = look_for(&mut watch, AT_WORK, 2 * BETWEEN);
        assert_eq!(stall, Some((BETWEEN + TICK, Stall::BusyBetweenRequests)));
        // What counts is the time in which somebody waits, until it comes to an end.
        let unwanted = Look {
            wanted: false,
            ..AT_WORK
        };
        let mut watch = Watch::default();
        assert_eq!(look_for(&mut watch, AT_WORK, BETWEEN / 2), None);
        assert_eq!(look_for(&mut watch, unwanted, BETWEEN), None);
        let mut other = watch;
        let stall = look_for(&mut watch, AT_WORK, BETWEEN);
        assert_eq!(
            stall,
            Some((BETWEEN / 2 + TICK, Stall::BusyBetweenRequests))
        );
        let idle = Look {
            works: false,
            ..AT_WORK
        };
        assert_eq!(other.look(idle, TICK, BETWEEN), None);
        assert_eq!(look_for(&mut other, AT_WORK, BETWEEN), None);
    }

    #[test]
    fn a_front_that_was_stopped_itself_has_seen_nothing_meanwhile() {
        let mut watch = Watch::default();
        for _ in 0..10 {
            assert_eq!(watch.look(CALLED, 100 * UNRESPONSIVE_AFTER, BETWEEN), None);
        }
    }
}
