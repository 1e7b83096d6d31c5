//! Latencies as a histogram in microseconds with three significant digits. It merges exactly; percentiles are
//! never averaged.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The longest latency, in microseconds: an hour. Longer ones count as this.
const LONGEST: u64 = 3_600_000_000;

/// A distribution of times.
#[derive(Debug, Clone, PartialEq)]
pub struct Latency(Histogram<u64>);

impl Default for Latency {
    fn default() -> Self {
        Self(
            Histogram::new_with_bounds(1, LONGEST, 3)
                .expect("the bounds are constant and in order"),
        )
    }
}

impl Latency {
    /// Adds one time.
    pub fn record(&mut self, time: Duration) {
        let microseconds = u64::try_from(time.as_micros()).unwrap_or(LONGEST);
        self.0.saturating_record(microseconds);
    }

    /// Adds all times of another distribution.
    pub fn merge(&mut self, other: &Self) {
        self.0
            .add(&other.0)
            .expect("all histograms have the same bounds");
    }

    /// The histogram, in microseconds, for formats of other tools.
    pub fn histogram(&self) -> &Histogram<u64> {
        &self.0
    }

    /// How many times there are.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value that `percent` of the times do not exceed, in milliseconds; `None` where fewer than ten times lie
    /// beyond it, because then it is chance (p99 wants a thousand), except for medians and the maximum.
    pub fn percentile_ms(&self, percent: f64) -> Option<f64> {
        let beyond = self.0.len() as f64 * (1.0 - percent / 100.0);
        let enough = percent <= 50.0 || percent >= 100.0 || beyond >= 9.999;
        (enough && !self.0.is_empty()).then(|| self.at(percent))
    }

    /// The same without regard to how many times there are; zero where there is none.
    pub fn at(&self, percent: f64) -> f64 {
        if self.0.is_empty() {
            return 0.0;
        }
        self.0.value_at_percentile(percent) as f64 / 1000.0
    }

    /// The mean in milliseconds; zero where there is none.
    pub fn mean_ms(&self) -> f64 {
        self.0.mean() / 1000.0
    }

    /// The standard deviation in milliseconds.
    pub fn deviation_ms(&self) -> f64 {
        self.0.stdev() / 1000.0
    }

    /// The shortest in milliseconds; zero where there is none.
    pub fn min_ms(&self) -> f64 {
        self.0.min() as f64 / 1000.0
    }

    /// The longest in milliseconds; zero where there is none.
    pub fn max_ms(&self) -> f64 {
        self.0.max() as f64 / 1000.0
    }

    /// Every recorded value in microseconds, ascending, with how often it came.
    pub fn values(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.0
            .iter_recorded()
            .map(|step| (step.value_iterated_to(), step.count_at_value()))
    }
}

/// As pairs of microseconds and count.
impl Serialize for Latency {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.values())
    }
}

impl<'de> Deserialize<'de> for Latency {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut latency = Self::default();
        for (value, count) in Vec::<(u64, u64)>::deserialize(deserializer)? {
            latency
                .0
                .record_n(value, count)
                .map_err(|error| D::Error::custom(format!("latency {value} us: {error}")))?;
        }
        Ok(latency)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distribution_survives_being_written_and_read() {
        let mut latency = Latency::default();
        for microseconds in [90, 90, 1_234, 5_000_000] {
            latency.record(Duration::from_micros(microseconds));
        }
        let text = serde_json::to_string(&latency).unwrap();
        let read: Latency = serde_json::from_str(&text).unwrap();
        assert_eq!(read.count(), 4);
        assert_eq!(read.at(50.0), 0.09);
        assert_eq!(
            read.values().collect::<Vec<_>>(),
            latency.values().collect::<Vec<_>>()
        );
    }

    #[test]
    fn a_percentile_needs_ten_times_beyond_it() {
        let mut latency = Latency::default();
        for _ in 0..999 {
            latency.record(Duration::from_millis(1));
        }
        assert_eq!(latency.percentile_ms(99.0), None);
        latency.record(Duration::from_millis(1));
        assert_eq!(latency.percentile_ms(99.0), Some(1.0));
        assert_eq!(latency.percentile_ms(50.0), Some(1.0));
    }
}
