//! How many threads of each worker take requests, where `threads` is a range, and which number follows. It counts requests
//! nowhere, and sets nothing.

use std::cell::Cell;

use config::NumberRange;
use metrics::CostTotals;
use serde::{Deserialize, Serialize};

use crate::thread_advice::ThreadAdvice;

/// The number changes after so many requests, or later.
const REQUESTS_PER_STEP: u64 = 100;
/// The number that it begins with, as far as the range has it.
const FIRST: u16 = 3;

/// How many threads of each worker take requests.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ActiveThreads {
    /// So many.
    pub(crate) active: u16,
    /// At least.
    pub(crate) least: u16,
    /// At most: a worker has so many threads.
    pub(crate) most: u16,
    /// The part of their time in which requests waited when this was looked at last, from 0 to 1; none before that.
    pub(crate) wait_share: Option<f64>,
}

/// The number of an application, where it may change.
#[derive(Default)]
pub(crate) struct ThreadLimit(Cell<Option<ActiveThreads>>);

impl ThreadLimit {
    /// Sets it; none where `threads` is no range. Returns what it was.
    pub(crate) fn set(&self, next: Option<ActiveThreads>) -> Option<ActiveThreads> {
        self.0.replace(next)
    }

    /// The number now; none where `threads` is no range.
    pub(crate) fn get(&self) -> Option<ActiveThreads> {
        self.0.get()
    }
}

impl ActiveThreads {
    /// The number that a range begins with.
    pub(crate) fn first(range: NumberRange) -> Self {
        Self {
            active: FIRST.clamp(range.least(), range.most()),
            least: range.least(),
            most: range.most(),
            wait_share: None,
        }
    }

    /// The number as a line for people.
    pub(crate) fn text(&self) -> String {
        let why = match self.wait_share {
            None => "until 100 requests ran".to_owned(),
            Some(share) => format!("requests wait {:.0} % of their time", share * 100.0),
        };
        format!(
            "threads that take requests: {} of {}..{} in each worker ({why})",
            self.active, self.least, self.most
        )
    }

    /// Whether this is a number of this range.
    pub(crate) fn is_of(self, range: NumberRange) -> bool {
        (self.least, self.most) == (range.least(), range.most())
    }

    /// The number that follows after these requests; none where there were too few.
    pub(crate) fn next(self, since: &CostTotals) -> Option<Self> {
        let advice = ThreadAdvice::after(REQUESTS_PER_STEP, self.active, since)?;
        let wanted = advice.advised.clamp(self.least, self.most);
        let active = if wanted < self.active {
            self.active - 1
        } else if wanted > self.active && advice.knows_lock_wait() {
            self.active + 1
        } else {
            // Requests that waited for each other's hold on Ruby's lock do not ask for more threads.
            self.active
        };
        Some(Self {
            active,
            wait_share: Some(advice.wait_share),
            ..self
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many requests that wait for this part of their time; all of them alone, or none.
    fn requests(count: u64, wait_share: f64, are_alone: bool) -> CostTotals {
        let (app_ns, cpu_ns) = (
            count * 1000,
            (count as f64 * 1000.0 * (1.0 - wait_share)) as u64,
        );
        let alone = if are_alone {
            (count, app_ns, cpu_ns)
        } else {
            (0, 0, 0)
        };
        CostTotals {
            requests: count,
            app_ns,
            cpu_ns,
            alone: alone.0,
            alone_app_ns: alone.1,
            alone_cpu_ns: alone.2,
            ..CostTotals::default()
        }
    }

    const RANGE: NumberRange = NumberRange::between(2, 6);

    #[test]
    fn the_number_follows_the_advice_by_one_within_the_range() {
        let check = |active, wait_share, are_alone, expect| {
            let now = ActiveThreads {
                active,
                ..ActiveThreads::first(RANGE)
            };
            let next = now.next(&requests(100, wait_share, are_alone));
            assert_eq!(
                next.map(|next| next.active),
                Some(expect),
                "{active} {wait_share}"
            );
        };
        check(3, 0.9, true, 4);
        check(6, 0.9, true, 6);
        check(4, 0.75, true, 4);
        check(4, 0.0, true, 3);
        check(2, 0.0, true, 2);
        // Part of the wait may be for Ruby's lock.
        check(3, 0.9, false, 3);
        check(4, 0.5, false, 3);
    }

    #[test]
    fn requests_side_by_side_raise_the_number_where_the_lock_wait_is_known() {
        let now = ActiveThreads {
            active: 5,
            ..ActiveThreads::first(RANGE)
        };
        let with = |lock_wait_ns| {
            let all = requests(100, 0.9, false);
            let cost = CostTotals {
                lock_known: 100,
                lock_known_app_ns: all.app_ns,
                lock_known_cpu_ns: all.cpu_ns,
                lock_wait_ns,
                ..all
            };
            now.next(&cost).map(|next| (next.active, next.wait_share))
        };
        assert_eq!(with(0), Some((6, Some(0.9))));
        // All of the wait was for the lock.
        assert_eq!(with(90_000), Some((4, Some(0.0))));
    }

    #[test]
    fn the_number_waits_for_a_hundred_requests() {
        let now = ActiveThreads::first(RANGE);
        assert_eq!(now.next(&requests(99, 0.9, true)), None);
        assert_eq!(now.next(&CostTotals::default()), None);
    }

    #[test]
    fn the_first_number_is_the_nearest_to_three() {
        let first = |least, most| ActiveThreads::first(NumberRange::between(least, most)).active;
        assert_eq!([first(1, 8), first(1, 2), first(4, 8)], [3, 2, 4]);
    }
}
