//! Medians, percentiles, and ratios with a confidence interval. The unit of replication is the trial (one
//! start of a server), never the request: percentiles of requests are never averaged here. What a comparison's
//! verdicts rest on is in [`starts`]; the medians and bootstraps are the benchmark's.

use loadgen::random::Random;

pub mod drift;
pub mod starts;

/// How often a bootstrap resamples. Ten thousand keep the ends of a 95 % interval stable to about 1 %.
const RESAMPLES: usize = 10_000;

/// A value with the interval that holds it with 95 % confidence.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The value of the sample itself.
    pub value: f64,
    /// The interval's lower end.
    pub low: f64,
    /// The interval's upper end.
    pub high: f64,
}

impl Estimate {
    /// The ends of the interval; `None` where nothing is known of it.
    pub fn interval(&self) -> Option<(f64, f64)> {
        (self.low > 0.0 && self.high.is_finite()).then_some((self.low, self.high))
    }
}

/// The middle of the values; `None` without any. The mean of the two middle ones for an even count.
pub fn median(values: &[f64]) -> Option<f64> {
    let sorted = sorted(values);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        count if count % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

/// The smallest value that at least `percent` of the values do not exceed (nearest rank); `None` without any.
pub fn percentile(values: &[f64], percent: f64) -> Option<f64> {
    let sorted = sorted(values);
    if sorted.is_empty() {
        return None;
    }
    let rank = (percent / 100.0 * sorted.len() as f64).ceil() as usize;
    Some(sorted[rank.clamp(1, sorted.len()) - 1])
}

/// The median with the percentile bootstrap's 95 % interval; `None` without any value.
pub fn median_estimate(values: &[f64], seed: u64) -> Option<Estimate> {
    let value = median(values)?;
    let mut random = Random::new(seed);
    let draws = (0..RESAMPLES).filter_map(|_| {
        let draw: Vec<f64> = values
            .iter()
            .map(|_| values[random.below(values.len())])
            .collect();
        median(&draw)
    });
    interval(value, draws.collect())
}

/// The ratio of two medians, `numerator / denominator`, with a 95 % interval.
///
/// The pairs are trials of one round, which ran next to each other: whole pairs are resampled, so that
/// noise the two share cancels out. `None` without any pair, or where a denominator is zero.
pub fn ratio_estimate(pairs: &[(f64, f64)], seed: u64) -> Option<Estimate> {
    let value = ratio_of_medians(pairs)?;
    let mut random = Random::new(seed);
    let draws = (0..RESAMPLES).filter_map(|_| {
        let draw: Vec<(f64, f64)> = pairs
            .iter()
            .map(|_| pairs[random.below(pairs.len())])
            .collect();
        ratio_of_medians(&draw)
    });
    interval(value, draws.collect())
}

fn ratio_of_medians(pairs: &[(f64, f64)]) -> Option<f64> {
    let numerator = median(&pairs.iter().map(|pair| pair.0).collect::<Vec<_>>())?;
    let denominator = median(&pairs.iter().map(|pair| pair.1).collect::<Vec<_>>())?;
    (denominator != 0.0).then(|| numerator / denominator)
}

fn interval(value: f64, draws: Vec<f64>) -> Option<Estimate> {
    Some(Estimate {
        value,
        low: percentile(&draws, 2.5)?,
        high: percentile(&draws, 97.5)?,
    })
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_odd_even_and_no_values() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn percentiles_are_nearest_ranks() {
        let values: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(percentile(&values, 50.0), Some(50.0));
        assert_eq!(percentile(&values, 99.0), Some(99.0));
        assert_eq!(percentile(&values, 100.0), Some(100.0));
        assert_eq!(percentile(&values, 0.0), Some(1.0));
        assert_eq!(percentile(&[7.0], 99.0), Some(7.0));
        assert_eq!(percentile(&[], 99.0), None);
    }

    #[test]
    fn an_interval_holds_its_value_and_repeats() {
        let values = [10.0, 12.0, 11.0, 9.0, 10.5];
        let estimate = median_estimate(&values, 1).unwrap();
        assert_eq!(estimate.value, 10.5);
        assert!(estimate.low <= 10.5 && 10.5 <= estimate.high);
        assert!(estimate.low >= 9.0 && estimate.high <= 12.0);
        assert_eq!(Some(estimate), median_estimate(&values, 1));
    }

    #[test]
    fn noise_that_both_sides_share_leaves_a_narrow_ratio() {
        // Rounds differ by a factor of three, yet the first is always twice the second.
        let pairs: Vec<(f64, f64)> = [1.0, 3.0, 2.0, 1.5, 2.5]
            .iter()
            .map(|&noise| (2.0 * noise, noise))
            .collect();
        let estimate = ratio_estimate(&pairs, 1).unwrap();
        assert!((estimate.value - 2.0).abs() < 1e-9);
        assert!((estimate.high - estimate.low).abs() < 1e-9);
    }

    #[test]
    fn no_ratio_without_a_denominator() {
        assert_eq!(ratio_estimate(&[(1.0, 0.0)], 1), None);
        assert_eq!(ratio_estimate(&[], 1), None);
    }

    #[test]
    fn the_same_stack_twice_is_no_difference() {
        let mut random = Random::new(5);
        let pairs: Vec<(f64, f64)> = (0..12)
            .map(|_| {
                (
                    100.0 + random.fraction() * 10.0,
                    100.0 + random.fraction() * 10.0,
                )
            })
            .collect();
        let estimate = ratio_estimate(&pairs, 1).unwrap();
        assert!(estimate.low < 1.0 && estimate.high > 1.0, "{estimate:?}");
    }
}
