//! Values with a confidence interval, and when a difference counts: the statistics of the lab and of `highball experiment`.
//! The unit of replication is a round, never the request. It measures nothing, and knows no server and no clock.

#![forbid(unsafe_code)]

mod sample;
mod verdict;

pub use sample::{Confidence, STARTS, Sample, mean_of};
pub use verdict::{NOISE, Verdict, verdict};

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
}
