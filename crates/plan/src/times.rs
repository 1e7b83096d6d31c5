//! Times by their length, as a server has recorded them, and draws of them. It knows no request.

use rand::RngExt as _;
use rand_xoshiro::SplitMix64;
use serde::{Deserialize, Serialize};

/// Times by their length.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// The sum of all times, in seconds.
    pub sum_s: f64,
    /// Ranges in which there are times: above so many seconds, up to so many seconds, and how many times.
    pub ranges: Vec<(f64, f64, u64)>,
}

impl Times {
    /// The number of times.
    pub fn count(&self) -> u64 {
        let counts = self.ranges.iter().map(|(_, _, count)| *count);
        counts.fold(0, u64::saturating_add)
    }

    /// The mean, in seconds; 0 of none.
    pub fn mean_s(&self) -> f64 {
        match self.count() {
            0 => 0.0,
            count => self.sum_s.max(0.0) / count as f64,
        }
    }
}

/// Draws times. Within a range all are equally likely, and the mean is the recorded one.
#[derive(Clone, Debug)]
pub(crate) struct Draw {
    /// Running sums of the shares, with the lower bound and the width of each range in seconds.
    ranges: Vec<(f64, f64, f64)>,
    /// What a draw is multiplied by.
    scale: f64,
}

impl Draw {
    /// Draws of these times. Ranges that make no sense count as empty.
    pub(crate) fn of(times: &Times) -> Self {
        let sound = |(lower, upper, count): &(f64, f64, u64)| {
            *count > 0 && *lower >= 0.0 && upper >= lower && upper.is_finite()
        };
        let sound: Vec<_> = times.ranges.iter().copied().filter(sound).collect();
        let count: f64 = sound.iter().map(|(_, _, count)| *count as f64).sum();
        let mut before = 0.0;
        let ranges: Vec<_> = sound
            .iter()
            .map(|(lower, upper, times)| {
                before += *times as f64 / count;
                (before, *lower, upper - lower)
            })
            .collect();
        let middles = sound
            .iter()
            .map(|(lower, upper, times)| (lower + upper) / 2.0 * *times as f64);
        let drawn_s = middles.sum::<f64>() / count;
        let scale = if drawn_s > 0.0 && times.sum_s.is_finite() {
            times.sum_s.max(0.0) / count / drawn_s
        } else {
            0.0
        };
        Self { ranges, scale }
    }

    /// Draws a time, in seconds. It takes two numbers whatever it draws, so that other draws stay where they are.
    pub(crate) fn next_s(&self, random: &mut SplitMix64) -> f64 {
        let (which, within) = (random.random::<f64>(), random.random::<f64>());
        let at = self.ranges.partition_point(|(up_to, _, _)| *up_to < which);
        let range = self.ranges.get(at).or(self.ranges.last());
        range.map_or(0.0, |(_, lower, width)| {
            self.scale * (lower + width * within)
        })
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;

    use super::*;

    #[test]
    fn draws_have_the_recorded_mean_and_shares() {
        let times = Times {
            sum_s: 0.009 * 900.0 + 0.11 * 100.0,
            ranges: vec![(0.008, 0.01, 900), (0.1, 0.12, 100)],
        };
        let mut random = SplitMix64::seed_from_u64(1);
        let draw = Draw::of(&times);
        let drawn: Vec<f64> = (0..100_000).map(|_| draw.next_s(&mut random)).collect();
        let mean = drawn.iter().sum::<f64>() / drawn.len() as f64;
        assert!((mean / times.mean_s() - 1.0).abs() < 0.02, "{mean}");
        let long = drawn.iter().filter(|time| **time > 0.05).count();
        assert!((9_500..10_500).contains(&long), "{long}");
    }

    #[test]
    fn times_that_make_no_sense_are_drawn_as_nothing() {
        let mut random = SplitMix64::seed_from_u64(1);
        for (sum_s, ranges) in [
            (0.0, vec![]),
            (1.0, vec![]),
            (f64::NAN, vec![(0.1, 0.2, 5)]),
            (
                1.0,
                vec![(0.2, 0.1, 5), (f64::NAN, 1.0, 5), (0.0, f64::INFINITY, 1)],
            ),
        ] {
            let draw = Draw::of(&Times { sum_s, ranges });
            assert_eq!(draw.next_s(&mut random), 0.0);
        }
    }
}
