//! How many threads a worker of an application should have, by the part of its requests' time in which they wait. A pure rule:
//! it measures nothing and changes nothing.
//!
//! A thread that waits for a database leaves Ruby's lock to the others. Requests that wait for a part p of their time keep
//! about 1 / (1 - p) threads of one process busy. A request that runs beside others may also wait for Ruby's lock, and the
//! more threads there are, the longer: that is no reason for more of them. Where the Ruby tells how long, that time does not
//! count at all. Elsewhere requests count that ran alone in their worker, as far as there are enough of them.

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
    /// The part of their time in which requests wait, from 0 to 1. Where `lock_share` is known, waits for Ruby's lock are
    /// neither in the wait nor in the time.
    pub(crate) wait_share: f64,
    /// The requests that this was computed from.
    pub(crate) requests: u64,
    /// Whether these requests ran alone in their worker. If not, a part of the wait may be for Ruby's lock: the advice is an
    /// upper limit, unless `lock_share` is known.
    pub(crate) alone: bool,
    /// The part of their whole time in which they wait for Ruby's lock, from 0 to 1; none where the Ruby does not tell.
    #[serde(default)]
    pub(crate) lock_share: Option<f64>,
}

/// The requests that advice is computed from.
struct Sample {
    requests: u64,
    app_ns: u64,
    cpu_ns: u64,
    alone: bool,
    lock_wait_ns: Option<u64>,
}

impl Sample {
    /// Those that say most about waiting and are enough; else all.
    fn of(least: u64, cost: &CostTotals) -> Self {
        if cost.lock_known >= least {
            Self {
                requests: cost.lock_known,
                app_ns: cost.lock_known_app_ns,
                cpu_ns: cost.lock_known_cpu_ns,
                alone: false,
                lock_wait_ns: Some(cost.lock_wait_ns),
            }
        } else if cost.alone >= least {
            Self {
                requests: cost.alone,
                app_ns: cost.alone_app_ns,
                cpu_ns: cost.alone_cpu_ns,
                alone: true,
                lock_wait_ns: None,
            }
        } else {
            Self {
                requests: cost.requests,
                app_ns: cost.app_ns,
                cpu_ns: cost.cpu_ns,
                alone: false,
                lock_wait_ns: None,
            }
        }
    }

    /// The part of their time in which they wait, without their waits for Ruby's lock as far as those are known.
    fn wait_share(&self) -> f64 {
        let own_ns = self.app_ns.saturating_sub(self.lock_wait_ns.unwrap_or(0));
        1.0 - share(self.cpu_ns, own_ns)
    }
}

impl ThreadAdvice {
    /// Returns the advice for a worker of so many threads after these requests; none where there were too few of them.
    pub(crate) fn of(threads: u16, cost: &CostTotals) -> Option<Self> {
        Self::after(MIN_REQUESTS, threads, cost)
    }

    /// The same after at least so many requests.
    pub(crate) fn after(least: u64, threads: u16, cost: &CostTotals) -> Option<Self> {
        let sample = Sample::of(least, cost);
        if sample.requests < least || sample.app_ns == 0 {
            return None;
        }
        let wait_share = sample.wait_share();
        let lock_share = sample.lock_wait_ns.map(|ns| share(ns, sample.app_ns));
        Some(Self {
            threads,
            advised: threads_for(wait_share),
            wait_share: rounded(wait_share),
            requests: sample.requests,
            alone: sample.alone,
            lock_share: lock_share.map(rounded),
        })
    }

    /// Whether no wait for Ruby's lock is in the waits that it was computed from.
    pub(crate) fn knows_lock_wait(&self) -> bool {
        self.alone || self.lock_share.is_some()
    }

    /// The advice as a line for people.
    pub(crate) fn text(&self) -> String {
        let Self {
            threads, advised, ..
        } = *self;
        let verdict = match (advised, self.knows_lock_wait()) {
            (advised, true) if advised < threads => format!("{advised} would do"),
            (advised, true) if advised > threads => format!("{advised} would serve more"),
            (advised, false) if advised < threads => format!("at most {advised} would do"),
            (advised, false) if advised > threads => {
                format!("up to {advised} may serve more")
            }
            _ => "that fits".to_owned(),
        };
        let lock = match (self.lock_share, self.alone) {
            (Some(share), _) => format!(
                ", without the {:.0} % of their time in which they wait for Ruby's lock",
                share * 100.0
            ),
            (None, true) => " that ran alone in their worker".to_owned(),
            (None, false) => {
                " that ran side by side; part of it may be a wait for Ruby's lock".to_owned()
            }
        };
        format!(
            "threads: {threads}; requests wait {:.0} % of their time: {verdict} ({} requests{lock})",
            self.wait_share * 100.0,
            self.requests
        )
    }
}

/// A part of a whole, from 0 to 1; 1 of nothing.
fn share(part_ns: u64, whole_ns: u64) -> f64 {
    match whole_ns {
        0 => 1.0,
        whole_ns => (part_ns as f64 / whole_ns as f64).min(1.0),
    }
}

/// With three decimal places.
fn rounded(share: f64) -> f64 {
    (share * 1e3).round() / 1e3
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

    /// So many requests of this CPU time, time without the lock, and wait for the lock.
    fn lock_known(requests: u64, cpu_ns: u64, own_ns: u64, lock_ns: u64) -> CostTotals {
        CostTotals {
            lock_known: requests,
            lock_known_app_ns: requests * (own_ns + lock_ns),
            lock_known_cpu_ns: requests * cpu_ns,
            lock_wait_ns: requests * lock_ns,
            ..cost(2000, 5000)
        }
    }

    #[test]
    fn waiting_for_the_lock_advises_no_thread() {
        let advised = |cost| {
            let advice = ThreadAdvice::of(5, &cost).expect("advice");
            (advice.advised, advice.wait_share, advice.lock_share)
        };
        // Five threads that all compute: each request takes five times its CPU time.
        let computing = lock_known(1000, 100, 100, 400);
        assert_eq!(advised(computing), (1, 0.0, Some(0.8)));
        // The same waits for others, with and without a wait for the lock.
        let waiting = lock_known(1000, 20, 100, 0);
        assert_eq!(advised(waiting), (5, 0.8, Some(0.0)));
        let busy = lock_known(1000, 20, 100, 100);
        assert_eq!(advised(busy), (5, 0.8, Some(0.5)));
        // Clocks do not agree to the nanosecond.
        assert_eq!(advised(lock_known(1000, 10, 0, 100)), (1, 0.0, Some(1.0)));
        // Too few of them: those that ran alone count.
        assert_eq!(advised(lock_known(999, 20, 100, 100)), (3, 0.62, None));
    }

    #[test]
    fn advice_says_what_was_for_the_lock() {
        let advice = ThreadAdvice::of(5, &lock_known(1000, 100, 100, 400)).expect("advice");
        assert_eq!(
            advice.text(),
            "threads: 5; requests wait 0 % of their time: 1 would do (1000 requests, \
             without the 80 % of their time in which they wait for Ruby's lock)"
        );
        assert!(advice.knows_lock_wait() && !advice.alone);
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
