//! Histograms of times with exponential buckets, eight to a doubling: the bounds are those of Prometheus' native
//! histograms of schema 3 and of OpenTelemetry's of scale 3. One thread records, others read.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Buckets to a doubling.
const PER_OCTAVE: i32 = 8;
/// The upper bound of the first bucket is 2^(FIRST/8) seconds: 5 microseconds.
const FIRST: i32 = -141;
/// The upper bound of the last bucket but one is 2^(LAST/8) seconds: ten minutes.
const LAST: i32 = 74;
/// Buckets, with the last one for longer times.
const BUCKETS: usize = (LAST - FIRST + 2) as usize;

/// Upper bounds of buckets as OpenTelemetry advises them for the durations of HTTP, in seconds.
pub const CLASSIC_BOUNDS_S: [f64; 14] = [
    0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
];

/// Upper bounds of all buckets but the last, in nanoseconds; they belong to their buckets.
static BOUNDS_NS: LazyLock<[u64; BUCKETS - 1]> = LazyLock::new(|| {
    std::array::from_fn(|at| {
        let exponent = f64::from(FIRST + at as i32) / f64::from(PER_OCTAVE);
        (exponent.exp2() * 1e9) as u64
    })
});

/// Times by their length.
pub struct Histogram {
    counts: [AtomicU64; BUCKETS],
    sum_ns: AtomicU64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            counts: [const { AtomicU64::new(0) }; BUCKETS],
            sum_ns: AtomicU64::new(0),
        }
    }
}

impl Histogram {
    /// Counts a time. Only one thread may call this.
    pub fn record(&self, time: Duration) {
        let time_ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let bucket = BOUNDS_NS.partition_point(|&bound| bound < time_ns);
        add(&self.counts[bucket], 1);
        add(&self.sum_ns, time_ns);
    }

    /// Adds what was counted so far to other times.
    pub(crate) fn add_to(&self, all: &mut Distribution) {
        for (count, more) in all.counts.iter_mut().zip(&self.counts) {
            *count = count.saturating_add(read(more));
        }
        all.sum_ns = all.sum_ns.saturating_add(read(&self.sum_ns));
    }

    /// What was counted so far.
    pub fn read(&self) -> Distribution {
        let counts: Vec<u64> = self.counts.iter().map(read).collect();
        Distribution {
            counts: counts.try_into().expect("as many as there are buckets"),
            sum_ns: read(&self.sum_ns),
        }
    }
}

/// Adds to a number that one thread alone writes, which needs no atomic addition.
pub(crate) fn add(number: &AtomicU64, more: u64) {
    number.store(read(number).wrapping_add(more), Ordering::Relaxed);
}

/// Reads a number that one thread writes.
pub(crate) fn read(number: &AtomicU64) -> u64 {
    number.load(Ordering::Relaxed)
}

/// Times by their length, at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Sparse", into = "Sparse")]
pub struct Distribution {
    counts: Box<[u64; BUCKETS]>,
    sum_ns: u64,
}

impl Default for Distribution {
    fn default() -> Self {
        Self {
            counts: Box::new([0; BUCKETS]),
            sum_ns: 0,
        }
    }
}

/// The same without empty buckets.
#[derive(Serialize, Deserialize)]
struct Sparse {
    counts: Vec<(u16, u64)>,
    sum_ns: u64,
}

impl From<Distribution> for Sparse {
    fn from(all: Distribution) -> Self {
        let counts = all.counts.iter().enumerate();
        let counts = counts.filter(|(_, count)| **count > 0);
        Self {
            counts: counts.map(|(at, count)| (at as u16, *count)).collect(),
            sum_ns: all.sum_ns,
        }
    }
}

impl From<Sparse> for Distribution {
    /// Buckets that do not exist are left out.
    fn from(sparse: Sparse) -> Self {
        let mut all = Self {
            sum_ns: sparse.sum_ns,
            ..Self::default()
        };
        for (at, count) in sparse.counts {
            if let Some(bucket) = all.counts.get_mut(usize::from(at)) {
                *bucket = count;
            }
        }
        all
    }
}

impl Distribution {
    /// The number of times.
    pub fn count(&self) -> u64 {
        self.counts.iter().copied().fold(0, u64::saturating_add)
    }

    /// The sum of all times, in seconds.
    pub fn sum_s(&self) -> f64 {
        self.sum_ns as f64 / 1e9
    }

    /// The sum of all times, in nanoseconds.
    pub fn sum_ns(&self) -> u64 {
        self.sum_ns
    }

    /// Adds other times.
    pub fn add(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(other.counts.iter()) {
            *count = count.saturating_add(*more);
        }
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
    }

    /// Takes away what was counted `earlier`.
    pub fn since(&mut self, earlier: &Self) {
        for (count, less) in self.counts.iter_mut().zip(earlier.counts.iter()) {
            *count = count.saturating_sub(*less);
        }
        self.sum_ns = self.sum_ns.saturating_sub(earlier.sum_ns);
    }

    /// The time below which `share` of all times are (0.95 for the 95th percentile), within the width of a bucket: 9 %. None
    /// without any. Longer times than the last bound count as that.
    pub fn percentile(&self, share: f64) -> Option<Duration> {
        let count = self.count();
        if count == 0 {
            return None;
        }
        let rank = (share.clamp(0.0, 1.0) * count as f64).max(1.0);
        let mut before = 0_u64;
        let bucket = self.counts.iter().position(|&count| {
            before = before.saturating_add(count);
            before as f64 >= rank
        });
        let bucket = bucket.unwrap_or(BUCKETS - 1);
        let bound = |at: usize| BOUNDS_NS[at.min(BUCKETS - 2)] as f64;
        let lower = match bucket {
            0 => 0.0,
            at => bound(at - 1),
        };
        let inside = self.counts[bucket].max(1) as f64;
        let part = 1.0 - (before as f64 - rank) / inside;
        let time_ns = lower + (bound(bucket) - lower) * part;
        Some(Duration::from_nanos(time_ns as u64))
    }

    /// How many times are at most as long as each of [`CLASSIC_BOUNDS_S`], which stand for the nearest bound of a bucket: within
    /// 4.5 %.
    pub fn classic(&self) -> [u64; CLASSIC_BOUNDS_S.len()] {
        CLASSIC_BOUNDS_S.map(|bound| {
            let nearest = (bound.log2() * f64::from(PER_OCTAVE)).round() as i32 - FIRST;
            let counts = self.counts[..=nearest as usize].iter().copied();
            counts.fold(0, u64::saturating_add)
        })
    }

    /// Buckets that are not empty: lower and upper bound in seconds, and how many times. The last bucket, of all longer times,
    /// gets the width of the others.
    pub fn ranges(&self) -> impl Iterator<Item = (f64, f64, u64)> + '_ {
        let counts = self.counts.iter().enumerate();
        counts.filter(|(_, count)| **count > 0).map(|(at, &count)| {
            let bound = |at: usize| f64::exp2(f64::from(FIRST + at as i32) / f64::from(PER_OCTAVE));
            let lower = if at == 0 { 0.0 } else { bound(at - 1) };
            (lower, bound(at), count)
        })
    }

    /// Times by buckets that are not empty: upper bound in seconds (none for the last), and how many.
    pub fn buckets(&self) -> impl Iterator<Item = (Option<f64>, u64)> + '_ {
        let counts = self.counts.iter().enumerate();
        counts.filter(|(_, count)| **count > 0).map(|(at, &count)| {
            let bound = BOUNDS_NS.get(at).map(|&bound| bound as f64 / 1e9);
            (bound, count)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(times_us: impl IntoIterator<Item = u64>) -> Distribution {
        let histogram = Histogram::default();
        for time in times_us {
            histogram.record(Duration::from_micros(time));
        }
        histogram.read()
    }

    #[test]
    fn buckets_reach_from_5_microseconds_to_10_minutes() {
        assert!((4_500..=5_500).contains(&BOUNDS_NS[0]));
        assert!(BOUNDS_NS[BUCKETS - 2] > 600_000_000_000);
        assert!(BOUNDS_NS.is_sorted());
        let doubled = BOUNDS_NS[108] as f64 / BOUNDS_NS[100] as f64;
        assert!((doubled - 2.0).abs() < 0.001);
    }

    #[test]
    fn percentiles_are_right_within_a_bucket() {
        let all = of(1..=10_000);
        for (share, expected_us) in [(0.5, 5_000.0), (0.95, 9_500.0), (0.99, 9_900.0)] {
            let found = all.percentile(share).unwrap().as_nanos() as f64 / 1e3;
            assert!((found / expected_us - 1.0).abs() < 0.09, "{share}: {found}");
        }
        assert_eq!(all.count(), 10_000);
        assert!((all.sum_s() - 50.005).abs() < 1e-9);
        assert_eq!(of([]).percentile(0.5), None);
    }

    #[test]
    fn times_beyond_all_buckets_are_counted_at_the_ends() {
        let all = of([0, u64::MAX / 1_000]);
        assert_eq!(all.count(), 2);
        assert!(all.percentile(0.1).unwrap() < Duration::from_micros(6));
        assert!(all.percentile(1.0).unwrap() > Duration::from_secs(600));
    }

    #[test]
    fn classic_buckets_hold_what_is_as_long_as_they_say() {
        let all = of([1, 4_000, 6_000, 90_000, 20_000_000]);
        let counts = all.classic();
        assert_eq!((counts[0], counts[1], counts[5], counts[13]), (2, 3, 4, 4));
        // The nearest bound of each is no further away than half a bucket.
        for (bound, name) in CLASSIC_BOUNDS_S.iter().zip(1..) {
            let near = (bound.log2() * 8.0).round() / 8.0;
            assert!((near.exp2() / bound - 1.0).abs() < 0.045, "{name}");
        }
    }

    #[test]
    fn distributions_add_and_subtract_and_pass_as_text() {
        let (early, later) = (of([1, 10, 10]), of([10, 1_000_000]));
        let mut all = early.clone();
        all.add(&later);
        assert_eq!(all.count(), 5);
        let text = serde_json::to_string(&all).unwrap();
        let mut read: Distribution = serde_json::from_str(&text).unwrap();
        assert_eq!(read, all);
        read.since(&early);
        assert_eq!(read, later);
        let odd = r#"{"counts":[[60000,1]],"sum_ns":0}"#;
        assert_eq!(serde_json::from_str::<Distribution>(odd).unwrap(), of([]));
    }
}
