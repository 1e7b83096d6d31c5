//! How many threads a worker of an application should have, by the part of its requests' time in which they wait. A pure rule:
//! it measures nothing and changes nothing.
//!
//! A thread that waits for a database leaves Ruby's lock to the others. Requests that wait for a part p of their time keep
//! about 1 / (1 - p) threads of one process busy. A request that runs beside others may also wait for Ruby's lock, which
//! looks the same: so requests count that ran alone in their worker, as far as there are enough of them.

use metrics::CostTotals;
use serde::{Deserialize, Serialize};

/// Advice is given from so many requests on.
const MIN_REQUESTS: u64 = 1000;
/// The most threads that are advised.
const MOST_ADVISED: u16 = 16;
/// A thread more must let a worker do so much more, by Amdahl's law, as a part of what it does without it.
const MIN_GAIN: f64 = 0.05;

/// How many threads a worker should have, and why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ThreadAdvice {
    /// The threads that a worker has now.
    pub(crate) threads: u16,
    /// The threads that it should have.
    pub(crate) advised: u16,
    /// The part of their time in which requests wait, from 0 to 1.
    pub(crate) wait_share: f64,
    /// The requests that this was computed from.
    pub(crate) requests: u64,
    /// Whether these requests ran alone in their worker. If not, a part of the wait may be for Ruby's lock: the advice is an
    /// upper limit.
    pub(crate) alone: bool,
}

impl ThreadAdvice {
    /// Returns the advice for a worker of so many threads after these requests; none where there were too few of them.
    pub(crate) fn of(threads: u16, cost: &CostTotals) -> Option<Self> {
        Self::after(MIN_REQUESTS, threads, cost)
    }

    /// The same after at least so many requests.
    pub(crate) fn after(least: u64, threads: u16, cost: &CostTotals) -> Option<Self> {
        let alone = (cost.alone, cost.alone_app_ns, cost.alone_cpu_ns);
        let all = (cost.requests, cost.app_ns, cost.cpu_ns);
        let ((requests, app_ns, cpu_ns), is_alone) = match cost.alone >= least {
            true => (alone, true),
            false => (all, false),
        };
        if requests < least || app_ns == 0 {
            return None;
        }
        let computes = (cpu_ns as f64 / app_ns as f64).clamp(0.0, 1.0);
        let wait_share = 1.0 - computes;
        Some(Self {
            threads,
            advised: threads_for(wait_share),
            wait_share: (wait_share * 1e3).round() / 1e3,
            requests,
            alone: is_alone,
        })
    }

    /// The advice as a line for people.
    pub(crate) fn text(&self) -> String {
        let Self {
            threads, advised, ..
        } = *self;
        let verdict = match (advised, self.alone) {
            (advised, true) if advised < threads => format!("{advised} would do"),
            (advised, true) if advised > threads => format!("{advised} would serve more"),
            (advised, false) if advised < threads => format!("at most {advised} would do"),
            (advised, false) if advised > threads => {
                format!("up to {advised} may serve more")
            }
            _ => "that fits".to_owned(),
        };
        let lock = match self.alone {
            true => "that ran alone in their worker",
            false => "that ran side by side; part of it may be a wait for Ruby's lock",
        };
        format!(
            "threads: {threads}; requests wait {:.0} % of their time: {verdict} ({} requests {lock})",
            self.wait_share * 100.0,
            self.requests
        )
    }
}

/// The threads for requests that wait for this part of their time.
fn threads_for(wait_share: f64) -> u16 {
    // At most the bound, also of no computing at all.
    let wanted = (1.0 / (1.0 - wait_share)).round();
    let mut threads = wanted.min(f64::from(MOST_ADVISED)) as u16;
    while threads > 1 && gain(threads, wait_share) < MIN_GAIN {
        threads -= 1;
    }
    threads.max(1)
}

/// How much more the last one of so many threads lets a worker do.
fn gain(threads: u16, wait_share: f64) -> f64 {
    let rate = |threads: u16| 1.0 / (1.0 - wait_share + wait_share / f64::from(threads));
    rate(threads) / rate(threads - 1) - 1.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_follow_the_share_of_waiting() {
        let check =
            |wait_share, threads| assert_eq!(threads_for(wait_share), threads, "{wait_share}");
        check(0.0, 1);
        check(0.3, 1);
        check(0.5, 2);
        check(0.62, 3);
        check(0.8, 5);
        check(0.9, 10);
        // Here the gain decides: 1 / (1 - p) is 20.
        check(0.95, 12);
        check(0.999, 16);
        check(1.0, 16);
    }

    #[test]
    fn the_last_thread_that_is_advised_is_worth_its_gain() {
        for thousandths in 0..=1000 {
            let wait_share = f64::from(thousandths) / 1e3;
            let threads = threads_for(wait_share);
            assert!((1..=MOST_ADVISED).contains(&threads), "{wait_share}");
            assert!(threads == 1 || gain(threads, wait_share) >= MIN_GAIN);
        }
    }

    fn cost(alone: u64, requests: u64) -> CostTotals {
        CostTotals {
            requests,
            app_ns: requests * 100,
            cpu_ns: requests * 20,
            alone,
            alone_app_ns: alone * 100,
            alone_cpu_ns: alone * 38,
            ..CostTotals::default()
        }
    }

    #[test]
    fn advice_waits_for_a_thousand_requests() {
        assert_eq!(ThreadAdvice::of(3, &cost(999, 999)), None);
        assert!(ThreadAdvice::of(3, &cost(0, 1000)).is_some());
        assert_eq!(ThreadAdvice::of(3, &CostTotals::default()), None);
    }

    #[test]
    fn requests_that_ran_alone_count_where_there_are_enough() {
        let check = |threads, cost, expect: &str| {
            let text = ThreadAdvice::of(threads, &cost).expect("advice").text();
            assert!(text.starts_with(expect), "{text}");
        };
        let alone = cost(1000, 5000);
        check(
            5,
            alone,
            "threads: 5; requests wait 62 % of their time: 3 would do (1000 requests that ran alone",
        );
        check(
            3,
            alone,
            "threads: 3; requests wait 62 % of their time: that fits",
        );
        check(
            1,
            alone,
            "threads: 1; requests wait 62 % of their time: 3 would serve more",
        );
        let mixed = cost(999, 5000);
        check(
            8,
            mixed,
            "threads: 8; requests wait 80 % of their time: at most 5 would do (5000 requests that ran side by side;",
        );
        check(
            3,
            mixed,
            "threads: 3; requests wait 80 % of their time: up to 5 may serve more",
        );
    }

    #[test]
    fn more_cpu_time_than_time_is_no_waiting() {
        let cost = CostTotals {
            requests: 2000,
            app_ns: 10,
            cpu_ns: 20,
            ..CostTotals::default()
        };
        let advice = ThreadAdvice::of(3, &cost).expect("advice");
        assert_eq!((advice.advised, advice.wait_share), (1, 0.0));
    }
}
