//! Under which policy of the kernel the front's thread runs: at once when it is called (the default), or when
//! the process on the core has had its slice (`SCHED_BATCH`). It decides from what the application has done lately
//! and never from a single request.
//!
//! While every request is short and there are many, a front that runs at once tears each response apart from the
//! next: two task switches a request, with cold caches after each. Given a slice later it handles several together.
//! With long requests on all cores that same wait is far longer than the request that it holds up.

use std::cell::Cell;

use exchange::scheduling::Policy;

/// How often it is decided, in nanoseconds.
const WINDOW: u64 = 50_000_000;
/// Fewer finished requests in a window than this are few: 500 a second.
const MANY: u64 = 25;
/// Requests that keep their workers less than this on average, in nanoseconds, are short: less than a slice of the
/// kernel's. Of a single one that cannot be asked, for its worker may have lost the core for a slice or two.
const SHORT: u64 = 2_000_000;
/// Below this average the front is busier than the workers, and gives way to none.
const TRIVIAL: u64 = 100_000;
/// A single request beyond this, in nanoseconds, is a long one.
const LONG: u64 = 20_000_000;
/// So many windows in a row with many short requests and no long one before the front gives way: half a second.
const CALM_WINDOWS: u32 = 10;

/// The front's policy, and what it is decided from.
#[derive(Debug, Default)]
pub(crate) struct Scheduling {
    policy: Cell<Policy>,
    began: Cell<u64>,
    finished: Cell<u64>,
    total: Cell<u64>,
    longest: Cell<u64>,
    calm: Cell<u32>,
}

impl Scheduling {
    /// A worker has finished a request that it had for so many nanoseconds.
    pub(crate) fn finished(&self, nanoseconds: u64) {
        self.finished.set(self.finished.get() + 1);
        self.total.set(self.total.get().saturating_add(nanoseconds));
        self.longest.set(self.longest.get().max(nanoseconds));
    }

    /// The policy to change to, if it is to change; to be asked now and then, `now` in nanoseconds of a
    /// monotonic clock.
    pub(crate) fn decide(&self, now: u64) -> Option<Policy> {
        let length = now.saturating_sub(self.began.get());
        if length < WINDOW {
            return None;
        }
        let finished = self.finished.replace(0);
        let many = finished.saturating_mul(WINDOW) >= MANY.saturating_mul(length);
        let mean = self.total.replace(0) / finished.max(1);
        let longest = self.longest.replace(0);
        let short = (TRIVIAL..SHORT).contains(&mean) && longest < LONG;
        self.began.set(now);
        let calm = if many && short {
            self.calm.get() + 1
        } else {
            0
        };
        self.calm.set(calm.min(CALM_WINDOWS));
        let policy = if calm >= CALM_WINDOWS {
            Policy::Batch
        } else {
            Policy::Default
        };
        (self.policy.replace(policy) != policy).then_some(policy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Windows of `count` requests of `nanoseconds` each; what was decided at the end of each.
    fn windows(
        scheduling: &Scheduling,
        now: &mut u64,
        windows: u32,
        count: u64,
        nanoseconds: u64,
    ) -> Vec<Policy> {
        let mut decided = Vec::new();
        for _ in 0..windows {
            for _ in 0..count {
                scheduling.finished(nanoseconds);
            }
            *now += WINDOW;
            decided.extend(scheduling.decide(*now));
        }
        decided
    }

    #[test]
    fn many_short_requests_for_half_a_second_and_the_front_gives_way() {
        let (scheduling, mut now) = (Scheduling::default(), 0);
        assert_eq!(
            windows(&scheduling, &mut now, CALM_WINDOWS - 1, 100, 400_000),
            []
        );
        assert_eq!(
            windows(&scheduling, &mut now, 5, 100, 400_000),
            [Policy::Batch]
        );
    }

    #[test]
    fn one_long_request_and_it_runs_at_once_again() {
        let (scheduling, mut now) = (Scheduling::default(), 0);
        windows(&scheduling, &mut now, CALM_WINDOWS, 100, 400_000);
        scheduling.finished(50_000_000);
        assert_eq!(
            windows(&scheduling, &mut now, 1, 100, 400_000),
            [Policy::Default]
        );
        assert_eq!(windows(&scheduling, &mut now, 1, 100, 400_000), []);
    }

    #[test]
    fn requests_that_are_long_or_trivial_on_average_leave_it_at_once() {
        let (scheduling, mut now) = (Scheduling::default(), 0);
        assert_eq!(windows(&scheduling, &mut now, 50, 100, TRIVIAL - 1), []);
        assert_eq!(windows(&scheduling, &mut now, 50, 100, SHORT), []);
        assert_eq!(
            windows(&scheduling, &mut now, 50, 100, SHORT - 1),
            [Policy::Batch]
        );
    }

    #[test]
    fn few_requests_leave_it_at_once() {
        let (scheduling, mut now) = (Scheduling::default(), 0);
        assert_eq!(windows(&scheduling, &mut now, 50, MANY - 1, 400_000), []);
        windows(&scheduling, &mut now, CALM_WINDOWS, 100, 400_000);
        // Then nothing for ten seconds: a long sleep is one window.
        now += 10_000_000_000;
        assert_eq!(scheduling.decide(now), Some(Policy::Default));
    }

    #[test]
    fn the_policy_stays_within_a_window() {
        let (scheduling, mut now) = (Scheduling::default(), 0);
        windows(&scheduling, &mut now, CALM_WINDOWS - 1, 100, 400_000);
        for _ in 0..1000 {
            scheduling.finished(400_000);
            assert_eq!(scheduling.decide(now + WINDOW - 1), None);
        }
        assert_eq!(scheduling.decide(now + WINDOW), Some(Policy::Batch));
    }
}
