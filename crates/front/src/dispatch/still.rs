//! Workers that stand still although they hold no request: nothing of theirs is late, yet what waits waits for them. They
//! are found by looking, with each look at deadlines; no request pays for it.
//!
//! It moves no request and ends no process: what the worker was woken for is anybody's to take, as ever.

use std::time::Duration;

use exchange::{Alarm, Stall, WorkerId};

use super::generation::Generation;

/// A worker of which a thread was woken and has not come after so long stands still.
const STANDS_STILL: Duration = Duration::from_secs(5);
/// The most that counts between two looks: a front that was stopped itself has seen nothing meanwhile.
const LONGEST_LOOK: Duration = Duration::from_millis(200);

/// What was seen of a worker so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Watch {
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
    /// Whether requests wait that nobody has come for in time.
    wanted: bool,
}

impl Watch {
    /// Takes a look, so long after the last one. Says what is wrong where it has been so for too long; `between` is how
    /// long code between requests may take.
    fn look(&mut self, look: Look, passed: Duration, between: Duration) -> Option<Stall> {
        let passed = passed.min(LONGEST_LOOK);
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
        let still = if self.called >= STANDS_STILL {
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
        Some(still)
    }
}

impl Generation {
    /// Looks at the workers that serve. Adds those that stand still.
    pub(super) fn look_for_still(
        &mut self,
        wanted: bool,
        passed: Duration,
        between: Duration,
        alarms: &mut Vec<Alarm>,
    ) {
        for worker in 0..self.exchange.geometry().max_workers() {
            if !self.serves(worker) {
                continue;
            }
            let called = self.exchange.threads().has_woken_thread(worker);
            let works = self.exchange.threads().has_busy_thread(worker);
            let look = Look {
                // One that idles is not asked.
                holds: (called || works) && self.runs(worker),
                finished: self.finished(worker),
                called,
                works,
                wanted,
            };
            if let Some(still) = self.watch(worker).look(look, passed, between) {
                let generation = self.number;
                alarms.push(Alarm::Stalled(WorkerId { generation, worker }, still));
            }
        }
    }

    /// Whether the worker has a request that it has not finished.
    fn runs(&self, worker: u16) -> bool {
        let mut slots = self.slot_numbers();
        slots.any(|slot| self.runner(slot) == Some(worker))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: Duration = Duration::from_millis(100);
    const BETWEEN: Duration = Duration::from_secs(70);

    /// Looks as long as `time`; when it was said that the worker stands still, and how.
    fn look_for(watch: &mut Watch, look: Look, time: Duration) -> Option<(Duration, Stall)> {
        let looks = (time.as_millis() / TICK.as_millis()) as u32;
        (1..=looks).find_map(|number| {
            let still = watch.look(look, TICK, BETWEEN)?;
            Some((TICK * number, still))
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
    fn a_worker_that_was_woken_and_does_not_come_stands_still() {
        let mut watch = Watch::default();
        let still = look_for(&mut watch, CALLED, 2 * STANDS_STILL);
        assert_eq!(still, Some((STANDS_STILL, Stall::Unresponsive)));
        // Again only after as long.
        let still = look_for(&mut watch, CALLED, 2 * STANDS_STILL);
        assert_eq!(still, Some((STANDS_STILL, Stall::Unresponsive)));
    }

    #[test]
    fn a_worker_that_comes_holds_a_request_or_has_finished_one_does_not_stand_still() {
        let nearly = STANDS_STILL - TICK;
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
    fn a_worker_that_is_idle_or_at_work_that_nobody_waits_for_does_not_stand_still() {
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
        let still = look_for(&mut watch, AT_WORK, 2 * BETWEEN);
        assert_eq!(still, Some((BETWEEN + TICK, Stall::BusyBetweenRequests)));
        // What counts is the time in which somebody waits, until it comes to an end.
        let unwanted = Look {
            wanted: false,
            ..AT_WORK
        };
        let mut watch = Watch::default();
        assert_eq!(look_for(&mut watch, AT_WORK, BETWEEN / 2), None);
        assert_eq!(look_for(&mut watch, unwanted, BETWEEN), None);
        let mut other = watch;
        let still = look_for(&mut watch, AT_WORK, BETWEEN);
        assert_eq!(
            still,
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
    fn a_front_that_stood_still_itself_has_seen_nothing_meanwhile() {
        let mut watch = Watch::default();
        for _ in 0..10 {
            assert_eq!(watch.look(CALLED, 100 * STANDS_STILL, BETWEEN), None);
        }
    }
}
