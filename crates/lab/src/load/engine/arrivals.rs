//! When requests leave and which kind each one is: made lazily from the seed, so that its size does not grow with
//! the load's length. It knows no thread and no server: every thread walks the same schedule and takes its share.

use std::time::Duration;

use crate::load::plan::{Arrivals, Request};
use crate::random::Random;

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

/// Draws kinds of requests by their weights.
#[derive(Debug, Clone)]
pub(super) struct Draw {
    random: Random,
    /// Running sums of the weights.
    bounds: Vec<f64>,
}

impl Draw {
    /// A draw that depends on the seed and `stream`, which tells apart the threads of a closed loop.
    pub(super) fn new(requests: &[Request], seed: u64, stream: u64) -> Self {
        let bounds = requests.iter().scan(0.0, |sum, request| {
            *sum += request.weight;
            Some(*sum)
        });
        Self {
            random: Random::new(Random::new(seed ^ KINDS).bits().wrapping_add(stream)),
            bounds: bounds.collect(),
        }
    }

    /// The next kind.
    pub(super) fn next(&mut self) -> usize {
        let last = self.bounds.len() - 1;
        if last == 0 {
            return 0;
        }
        let point = self.random.fraction() * self.bounds[last];
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
    times: Random,
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
            times: Random::new(seed),
            draw: Draw::new(requests, seed, 0),
            position: 0.0,
        }
    }
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
                self.position += self.times.exponential(self.gap);
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
