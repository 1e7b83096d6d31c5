//! How often something happened in each of the last hours. Reads no clock.

use serde::{Deserialize, Serialize};

/// Seconds of an hour.
pub(crate) const HOUR: u64 = 3600;
/// How many hours are kept, the current one included.
const HOURS: usize = 24;

/// Counts of the last hours.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hours {
    /// The latest hour, since 1970.
    latest: u64,
    /// The counts, that of the latest hour first.
    counts: [u32; HOURS],
}

impl Hours {
    /// Counts one at this time, in seconds since 1970. A time before the latest hour counts for that.
    pub(crate) fn count(&mut self, at: u64) {
        self.forward(at);
        self.counts[0] = self.counts[0].saturating_add(1);
    }

    /// The counts at this time, that of its hour first.
    pub(crate) fn at(&self, at: u64) -> [u32; HOURS] {
        let mut moved = self.clone();
        moved.forward(at);
        moved.counts
    }

    /// The mean of the whole hours before this time's, since the hour of `first`; none before the first whole one.
    pub(crate) fn mean_before(&self, at: u64, first: u64) -> Option<f64> {
        let whole = (at / HOUR).saturating_sub(first / HOUR);
        let whole = usize::try_from(whole).unwrap_or(HOURS).min(HOURS - 1);
        let counts = self.at(at);
        let sum: u64 = counts[1..=whole]
            .iter()
            .map(|&count| u64::from(count))
            .sum();
        (whole > 0).then(|| sum as f64 / whole as f64)
    }

    /// Adds what was counted elsewhere.
    pub(crate) fn add(&mut self, other: &Self) {
        let at = self.latest.max(other.latest) * HOUR;
        self.forward(at);
        for (count, more) in self.counts.iter_mut().zip(other.at(at)) {
            *count = count.saturating_add(more);
        }
    }

    fn forward(&mut self, at: u64) {
        let hours = (at / HOUR).saturating_sub(self.latest);
        let hours = usize::try_from(hours).unwrap_or(HOURS).min(HOURS);
        self.counts.rotate_right(hours);
        self.counts[..hours].fill(0);
        self.latest = self.latest.max(at / HOUR);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: u64 = 500_000 * HOUR;

    #[test]
    fn counts_move_on_with_the_hours() {
        let mut hours = Hours::default();
        hours.count(START);
        hours.count(START + HOUR - 1);
        hours.count(START + HOUR);
        assert_eq!(hours.at(START + HOUR)[..3], [1, 2, 0]);
        assert_eq!(hours.at(START + 3 * HOUR)[..4], [0, 0, 1, 2]);
        assert_eq!(hours.at(START + 100 * HOUR), [0; HOURS]);
        // A clock that was set back.
        hours.count(START - 5 * HOUR);
        assert_eq!(hours.at(START)[..2], [2, 2]);
    }

    #[test]
    fn the_mean_is_that_of_whole_hours_since_the_first() {
        let mut hours = Hours::default();
        assert_eq!(hours.mean_before(START, START), None);
        (0..6).for_each(|_| hours.count(START));
        assert_eq!(hours.mean_before(START + HOUR, START), Some(6.0));
        assert_eq!(hours.mean_before(START + 3 * HOUR, START), Some(2.0));
    }

    #[test]
    fn counts_of_two_servers_are_added_by_their_hours() {
        let (mut older, mut newer) = (Hours::default(), Hours::default());
        older.count(START);
        newer.count(START + HOUR);
        older.add(&newer);
        assert_eq!(older.at(START + HOUR)[..2], [1, 1]);
    }
}
