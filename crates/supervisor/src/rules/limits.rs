//! The limits of a worker's life: how much it may serve, how old it may become, how much memory it may hold. Pure:
//! figures in, a reason out. It reads nothing and ends no process.

use std::fmt;
use std::time::Duration;

use crate::rules::budget::Held;
use crate::rules::memory::Size;

/// The parts of a limit, in thousandths, that the spread leaves at least.
const LEAST: u64 = 900;

/// What a worker's life is limited to; nothing limits it where there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Requests that it finishes.
    pub requests: Option<u64>,
    /// Time since it was ready.
    pub age: Option<Duration>,
    /// Private memory, in bytes.
    pub memory: Option<u64>,
}

/// What is held against the limits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figures {
    pub(crate) requests: u64,
    pub(crate) age: Duration,
    /// Private memory, in bytes, where it was measured.
    pub(crate) memory: Option<u64>,
}

/// One life of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Life {
    pub(crate) generation: u32,
    pub(crate) worker: u16,
    pub(crate) life: u32,
}

impl Limits {
    /// Whether there is any.
    pub(crate) fn any(&self) -> bool {
        *self != Self::default()
    }

    /// Which limit a worker has reached, if it has. Those of requests and age are spread: workers that came up
    /// together and share the work would otherwise go together too.
    pub(crate) fn reached(&self, figures: &Figures, life: Life) -> Option<RetireReason> {
        let Figures {
            requests: finished,
            age,
            memory,
        } = *figures;
        let requests = self.requests.map(|limit| spread(limit, life).max(1));
        let ages = self.age.map(|limit| {
            let millis = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
            Duration::from_millis(spread(millis, life))
        });
        let memory = memory.zip(self.memory);
        let by_memory = memory.filter(|(private, limit)| private >= limit);
        let by_requests = requests.filter(|limit| finished >= *limit);
        let by_age = ages.filter(|limit| age >= *limit);
        by_memory
            .map(|(private, limit)| RetireReason::Memory { private, limit })
            .or(by_requests.map(|limit| RetireReason::Requests { finished, limit }))
            .or(by_age.map(|limit| RetireReason::Age { age, limit }))
    }
}

/// A number in the last tenth below `limit`, or the limit; the same for each question about the same life.
fn spread(limit: u64, life: Life) -> u64 {
    let Life {
        generation,
        worker,
        life,
    } = life;
    let seed = u64::from(generation) << 48 ^ u64::from(worker) << 32 ^ u64::from(life);
    let part = LEAST + mixed(seed) % (1001 - LEAST);
    let limit = u128::from(limit) * u128::from(part) / 1000;
    u64::try_from(limit).unwrap_or(u64::MAX)
}

/// Bits that look like chance (the finish of splitmix64).
fn mixed(seed: u64) -> u64 {
    let mut bits = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}

/// Why a worker is to go, with the figure and what it was held against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetireReason {
    /// It has finished so many requests.
    Requests {
        /// So many.
        finished: u64,
        /// Its own limit, after the spread.
        limit: u64,
    },
    /// It has been ready for so long.
    Age {
        /// So long.
        age: Duration,
        /// Its own limit, after the spread.
        limit: Duration,
    },
    /// It holds too much private memory.
    Memory {
        /// So much, in bytes.
        private: u64,
        /// The limit, in bytes.
        limit: u64,
    },
    /// It is to fork a template, after so many requests.
    Refork {
        /// So many.
        finished: u64,
    },
    /// It was forked from the template that another one takes the place of.
    Reforked,
    /// An experiment begins, in which all workers are of one age.
    Experiment,
    /// It is the last worker, and the server exceeds its budget because of it.
    Budget {
        /// Its private memory, in bytes.
        private: u64,
        /// What all processes hold and may.
        held: Held,
    },
}

impl fmt::Display for RetireReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Requests { finished, limit } => write!(
                f,
                "{finished} requests reach its limit of {limit} (setting worker_max_requests)"
            ),
            Self::Age { age, limit } => write!(
                f,
                "age {} s reaches its limit of {} s (setting worker_max_age)",
                age.as_secs(),
                limit.as_secs()
            ),
            Self::Memory { private, limit } => {
                let (private, limit) = (Size(*private), Size(*limit));
                write!(
                    f,
                    "private memory {private} exceeds worker_max_memory {limit}"
                )
            }
            Self::Refork { finished } => write!(
                f,
                "after {finished} requests it forks a new template and leaves"
            ),
            Self::Reforked => f.write_str("it was forked from the old template"),
            Self::Experiment => {
                f.write_str("an experiment begins, with fresh workers in both halves")
            }
            Self::Budget { private, held } => {
                let private = Size(*private);
                write!(
                    f,
                    "last worker, private memory {private}, and memory is short: {held}"
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIFE: Life = Life {
        generation: 1,
        worker: 0,
        life: 1,
    };

    fn figures(requests: u64, seconds: u64, memory: Option<u64>) -> Figures {
        Figures {
            requests,
            age: Duration::from_secs(seconds),
            memory,
        }
    }

    #[test]
    fn a_limit_is_reached_when_its_figure_is_at_it_and_none_is_none() {
        let own = spread(1000, LIFE);
        let limits = Limits {
            requests: Some(1000),
            age: Some(Duration::from_secs(1000)),
            memory: Some(1 << 20),
        };
        let check = |limits: Limits, figures, expect| {
            assert_eq!(limits.reached(&figures, LIFE), expect, "{figures:?}");
        };
        check(limits, figures(own - 1, own - 1, Some((1 << 20) - 1)), None);
        check(limits, figures(own - 1, own - 1, None), None);
        let finished = own;
        let limit = own;
        check(
            limits,
            figures(own, 0, None),
            Some(RetireReason::Requests { finished, limit }),
        );
        let limit = Duration::from_secs(own);
        check(
            limits,
            figures(0, own, None),
            Some(RetireReason::Age { age: limit, limit }),
        );
        let (private, limit) = (2 << 20, 1 << 20);
        check(
            limits,
            figures(own, own, Some(private)),
            Some(RetireReason::Memory { private, limit }),
        );
        check(
            Limits::default(),
            figures(u64::MAX, 1 << 40, Some(1 << 40)),
            None,
        );
        assert!(limits.any() && !Limits::default().any());
    }

    #[test]
    fn a_limit_is_fixed_for_one_life_and_spread_over_the_last_tenth() {
        let mut all = Vec::new();
        for generation in 1..4 {
            for worker in 0..8 {
                for life in 1..9 {
                    let one = Life {
                        generation,
                        worker,
                        life,
                    };
                    assert_eq!(spread(1_000_000, one), spread(1_000_000, one));
                    all.push(spread(1_000_000, one));
                }
            }
        }
        all.sort_unstable();
        let (first, last) = (all[0], all[all.len() - 1]);
        assert!((900_000..=1_000_000).contains(&first) && last <= 1_000_000);
        assert!(first < 905_000 && last > 995_000, "{first} {last}");
        all.dedup();
        assert!(all.len() > 80, "{} of 101", all.len());
        assert!(spread(u64::MAX, LIFE) > u64::MAX / 2);
        let least = Limits {
            requests: Some(1),
            ..Limits::default()
        };
        assert_eq!(least.reached(&figures(0, 0, None), LIFE), None);
        assert!(least.reached(&figures(1, 0, None), LIFE).is_some());
    }

    #[test]
    fn the_log_says_which_limit_with_its_figure() {
        let check = |why: RetireReason, expect: &str| assert_eq!(why.to_string(), expect);
        let (finished, limit) = (1002, 958);
        check(
            RetireReason::Requests { finished, limit },
            "1002 requests reach its limit of 958 (setting worker_max_requests)",
        );
        let (age, limit) = (Duration::from_millis(3_601_900), Duration::from_secs(3600));
        check(
            RetireReason::Age { age, limit },
            "age 3601 s reaches its limit of 3600 s (setting worker_max_age)",
        );
        let (private, limit) = (333 << 20, 300 << 20);
        check(
            RetireReason::Memory { private, limit },
            "private memory 333.0 MiB exceeds worker_max_memory 300.0 MiB",
        );
        let (held, budget) = (400 << 20, 256 << 20);
        let held = Held { held, budget };
        check(
            RetireReason::Budget { private, held },
            "last worker, private memory 333.0 MiB, and memory is short: server memory 400.0 MiB, memory_budget 256.0 MiB",
        );
    }
}
