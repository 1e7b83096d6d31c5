//! When requests leave and which kind each one is: made lazily from the seed, so that its size does not grow with
//! the load's length. It knows no thread and no server: every thread walks the same schedule and takes its share.

use std::time::Duration;

use crate::plan::{Arrivals, Mode, Plan, Request};
use rand::{Rng as _, RngExt as _, SeedableRng as _};
use rand_xoshiro::SplitMix64;

/// Keeps the draw of kinds apart from the draw of times: another set of requests must not move the arrivals.
const KINDS: u64 = 0x6b69_6e64;

/// One request of the schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Arrival {
    /// Nanoseconds from the start.
    pub(super) at: u64,
    /// Index into the plan's requests.
    pub(super) kind: usize,
}

/// Where a thread's requests come from.
#[derive(Debug)]
pub(super) enum Source {
    /// The kind of the next request of a closed loop, which leaves when one is answered.
    Closed(Draw),
    /// The thread's share of an open loop's schedule.
    Open { share: Share, next: Option<Arrival> },
}

impl Source {
    /// That of thread `index` of so many.
    pub(super) fn of(plan: &Plan, index: usize, threads: usize) -> Self {
        match plan.mode {
            Mode::Closed { .. } => Self::Closed(Draw::new(&plan.requests, plan.seed, index as u64)),
            Mode::Open {
                rate,
                arrivals,
                duration,
                ..
            } => {
                let schedule = Schedule::new(&plan.requests, rate, arrivals, duration, plan.seed);
                let (share, next) = Share::new(schedule, index, threads);
                Self::Open { share, next }
            }
        }
    }
}

/// Draws kinds of requests by their weights.
#[derive(Debug, Clone)]
pub(super) struct Draw {
    random: SplitMix64,
    /// Running sums of the weights.
    bounds: Vec<f64>,
}

impl Draw {
    /// A draw that depends on the seed and `stream`, which differs between the threads of a closed loop.
    pub(super) fn new(requests: &[Request], seed: u64, stream: u64) -> Self {
        let bounds = requests.iter().scan(0.0, |sum, request| {
            *sum += request.weight;
            Some(*sum)
        });
        Self {
            random: SplitMix64::seed_from_u64(
                SplitMix64::seed_from_u64(seed ^ KINDS)
                    .next_u64()
                    .wrapping_add(stream),
            ),
            bounds: bounds.collect(),
        }
    }

    /// The next kind.
    pub(super) fn next(&mut self) -> usize {
        let last = self.bounds.len() - 1;
        if last == 0 {
            return 0;
        }
        let point = self.random.random::<f64>() * self.bounds[last];
        self.bounds
            .iter()
            .position(|bound| point < *bound)
            .unwrap_or(last)
    }
}

/// The arrivals of an open loop in order.
#[derive(Debug, Clone)]
pub(super) struct Schedule {
    arrivals: Arrivals,
    gap: f64,
    end: u64,
    times: SplitMix64,
    draw: Draw,
    /// Nanoseconds; for equal distances the number of the arrival, which adds up no rounding.
    position: f64,
}

impl Schedule {
    /// `rate` requests a second for `duration`.
    pub(super) fn new(
        requests: &[Request],
        rate: f64,
        arrivals: Arrivals,
        duration: Duration,
        seed: u64,
    ) -> Self {
        Self {
            arrivals,
            gap: 1e9 / rate,
            end: nanoseconds(duration),
            times: SplitMix64::seed_from_u64(seed),
            draw: Draw::new(requests, seed, 0),
            position: 0.0,
        }
    }
}

/// A draw from the exponential distribution with the given mean, in the mean's unit.
fn exponential(random: &mut SplitMix64, mean: f64) -> f64 {
    -mean * (1.0 - random.random::<f64>()).ln()
}

impl Iterator for Schedule {
    type Item = Arrival;

    fn next(&mut self) -> Option<Arrival> {
        let at = match self.arrivals {
            Arrivals::Constant => {
                let at = self.position * self.gap;
                self.position += 1.0;
                at
            }
            Arrivals::Poisson => {
                self.position += exponential(&mut self.times, self.gap);
                self.position
            }
        } as u64;
        let kind = self.draw.next();
        (at < self.end).then_some(Arrival { at, kind })
    }
}

/// The part of a schedule that falls to one of several threads.
#[derive(Debug, Clone)]
pub(super) struct Share {
    schedule: Schedule,
    others: usize,
}

impl Share {
    /// Every `of`th arrival from number `index` on, and the first of them.
    pub(super) fn new(mut schedule: Schedule, index: usize, of: usize) -> (Self, Option<Arrival>) {
        let first = schedule.nth(index);
        let share = Self {
            schedule,
            others: of - 1,
        };
        (share, first)
    }

    /// The next arrival of this share.
    pub(super) fn next(&mut self) -> Option<Arrival> {
        self.schedule.nth(self.others)
    }
}

/// Whole nanoseconds; more than 584 years count as that.
pub(super) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exponential_has_its_mean() {
        let mut random = SplitMix64::seed_from_u64(1);
        let sum: f64 = (0..20_000).map(|_| exponential(&mut random, 5.0)).sum();
        assert!((sum / 20_000.0 - 5.0).abs() < 0.2);
    }

    fn requests(weights: &[f64]) -> Vec<Request> {
        let request = |weight: &f64| Request {
            method: "GET".to_owned(),
            path: "/".to_owned(),
            headers: Vec::new(),
            body: Vec::new(),
            weight: *weight,
            expected: None,
        };
        weights.iter().map(request).collect()
    }

    fn schedule(weights: &[f64], arrivals: Arrivals, seed: u64) -> Schedule {
        let duration = Duration::from_secs(10);
        Schedule::new(&requests(weights), 2000.0, arrivals, duration, seed)
    }

    #[test]
    fn one_seed_gives_one_schedule_however_many_threads_share_it() {
        let whole: Vec<Arrival> = schedule(&[1.0, 2.0], Arrivals::Poisson, 7).collect();
        for threads in [1, 2, 3, 7] {
            let mut parts = Vec::new();
            for index in 0..threads {
                let all = schedule(&[1.0, 2.0], Arrivals::Poisson, 7);
                let (mut share, mut next) = Share::new(all, index, threads);
                while let Some(arrival) = next {
                    parts.push(arrival);
                    next = share.next();
                }
            }
            parts.sort_by_key(|arrival| arrival.at);
            assert_eq!(parts, whole, "{threads} threads");
        }
        let other: Vec<Arrival> = schedule(&[1.0, 2.0], Arrivals::Poisson, 8).collect();
        assert_ne!(other, whole);
    }

    #[test]
    fn other_weights_do_not_move_the_arrivals() {
        let times = |weights: &[f64]| -> Vec<u64> {
            schedule(weights, Arrivals::Poisson, 7)
                .map(|arrival| arrival.at)
                .collect()
        };
        assert_eq!(times(&[1.0]), times(&[1.0, 5.0, 2.0]));
    }

    #[test]
    fn poisson_arrivals_have_the_rate_and_the_spread_of_the_exponential() {
        let times: Vec<f64> = schedule(&[1.0], Arrivals::Poisson, 3)
            .map(|arrival| arrival.at as f64)
            .collect();
        let gaps: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((mean / 500_000.0 - 1.0).abs() < 0.03, "mean {mean} ns");
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.03);
    }

    #[test]
    fn constant_arrivals_keep_their_distance_to_the_end() {
        let times: Vec<u64> = schedule(&[1.0], Arrivals::Constant, 3)
            .map(|arrival| arrival.at)
            .collect();
        assert_eq!(times.len(), 20_000);
        assert_eq!(
            (times[0], times[1], times[19_999]),
            (0, 500_000, 9_999_500_000)
        );
    }

    #[test]
    fn kinds_come_by_their_weights() {
        let mut counts = [0.0; 3];
        for arrival in schedule(&[1.0, 7.0, 2.0], Arrivals::Constant, 5) {
            counts[arrival.kind] += 1.0;
        }
        for (count, share) in counts.iter().zip([0.1, 0.7, 0.2]) {
            assert!((count / 20_000.0_f64 - share).abs() < 0.02, "{counts:?}");
        }
    }
}
