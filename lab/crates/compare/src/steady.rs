//! Whether a warm-up is complete: the rate neither rises nor falls any more. For an open loop, whose rate is given, latency
//! decides. Scatter alone does not prolong a warm-up: on a machine with shared cores there is always some. Pure.

use std::time::Duration;

use super::results::WarmUp;
use crate::statistics::drift::Drift;
use loadgen::Progress;

/// Seconds that are compared with as many before them.
const WINDOW: usize = 5;

/// Smaller changes, as a share, do not count, however quiet the machine is: verdicts have the same threshold.
const SLIGHT: f64 = crate::verdict::NOISE;

/// Seconds that are needed to judge.
pub const SECONDS: usize = 2 * WINDOW;

/// The series that decides whether a warm-up is complete: a value a second.
pub fn judged(warm_up: &WarmUp) -> &[f64] {
    if warm_up.medians_ms.is_empty() {
        &warm_up.rates
    } else {
        &warm_up.medians_ms
    }
}

/// Whether a series was steady at the end of these seconds: the mean of the last five differs from that of the five before by
/// no more than a slight change, or by no more than its standard error. Where there is no trend, two of three looks find
/// none; where there is one of twice the error, one of six does. So a noisy rate is looked at some seconds longer, and a
/// trend is rarely missed that the load would show.
pub fn is_steady(rates: &[f64]) -> bool {
    let Some(from) = rates.len().checked_sub(SECONDS) else {
        return false;
    };
    let (earlier, later) = rates[from..].split_at(WINDOW);
    Drift::between(earlier, later)
        .is_some_and(|drift| drift.change.abs() <= drift.error.max(SLIGHT))
}

/// The seconds of a warm-up that is under way.
#[derive(Debug, Clone, Default)]
pub(super) struct WarmupSeries {
    /// Whether latency decides.
    open: bool,
    /// What they were.
    pub(super) warm_up: WarmUp,
    /// Time and count of good responses at the last second's end.
    last: (Duration, u64),
    /// Seconds whose latency is known.
    seconds: usize,
}

impl WarmupSeries {
    /// Of an open loop, or of a closed one.
    pub(super) fn of(open: bool) -> Self {
        Self {
            open,
            ..Self::default()
        }
    }

    /// Takes how far it is.
    pub(super) fn take(&mut self, progress: &Progress) {
        let passed = progress.elapsed.saturating_sub(self.last.0).as_secs_f64();
        if passed >= 1.0 {
            let good = progress.good.saturating_sub(self.last.1);
            self.warm_up.rates.push(good as f64 / passed);
            self.last = (progress.elapsed, progress.good);
        }
        // A second in which nothing ended has no latency.
        if self.open && progress.seconds > self.seconds && progress.p50_ms > 0.0 {
            self.warm_up.medians_ms.push(progress.p50_ms);
        }
        self.seconds = progress.seconds;
    }

    /// Whether the last seconds were steady.
    pub(super) fn is_steady(&self) -> bool {
        if self.open {
            is_steady(&self.warm_up.medians_ms)
        } else {
            is_steady(&self.warm_up.rates)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt as _, SeedableRng as _};
    use rand_xoshiro::SplitMix64;

    /// The longest warm-up by default, in seconds.
    const CAP: usize = 30;

    /// A draw from the normal distribution (Box and Muller).
    fn normal(random: &mut SplitMix64) -> f64 {
        let radius = (-2.0 * (1.0 - random.random::<f64>()).ln()).sqrt();
        radius * (std::f64::consts::TAU * random.random::<f64>()).cos()
    }

    /// After how many seconds each of a thousand warm-ups ends whose rate is `rate_at` of the second with so much noise of
    /// each second; `None` where it does not in the time that it has.
    fn ends(noise: f64, rate_at: impl Fn(usize) -> f64) -> Vec<Option<usize>> {
        let one = |seed| {
            let mut random = SplitMix64::seed_from_u64(seed);
            let mut rates = Vec::new();
            (0..CAP).find_map(|second| {
                rates.push(1000.0 * rate_at(second) * (1.0 + noise * normal(&mut random)));
                is_steady(&rates).then_some(rates.len())
            })
        };
        (0..1000).map(one).collect()
    }

    /// How many of them end within so many seconds.
    fn within(ends: &[Option<usize>], seconds: usize) -> usize {
        let early = |end: &&Option<usize>| end.is_some_and(|end| end <= seconds);
        ends.iter().filter(early).count()
    }

    /// Twelve seconds of a hundred good responses each, with these medians.
    fn series_of(open: bool, median: impl Fn(usize) -> f64) -> WarmupSeries {
        let mut series = WarmupSeries::of(open);
        for quarter in 1..=48_u64 {
            let seconds = quarter as usize / 4;
            series.take(&Progress {
                elapsed: Duration::from_millis(250 * quarter),
                good: 25 * quarter,
                seconds,
                p50_ms: if seconds > 0 { median(seconds) } else { 0.0 },
                ..Progress::default()
            });
        }
        series
    }

    #[test]
    fn seconds_come_from_a_running_count() {
        let series = series_of(false, |_| 1.0);
        assert_eq!(series.warm_up.rates, [100.0; 12]);
        assert_eq!(judged(&series.warm_up), [100.0; 12]);
        assert!(series.is_steady());
    }

    #[test]
    fn an_open_loop_is_steady_when_its_latency_is_however_steady_its_rate() {
        let faster = |second: usize| 6.0 - 0.2 * second as f64;
        assert!(series_of(false, faster).is_steady());
        let open = series_of(true, faster);
        assert_eq!(open.warm_up.rates, [100.0; 12]);
        let medians: Vec<f64> = (1..=12).map(faster).collect();
        assert_eq!(judged(&open.warm_up), medians);
        assert!(!open.is_steady());
        assert!(series_of(true, |_| 6.0).is_steady());
        // Seconds without an answer are none.
        let rare = series_of(true, |second| if second % 2 == 0 { 6.0 } else { 0.0 });
        assert_eq!(rare.warm_up.medians_ms, [6.0; 6]);
        assert!(!rare.is_steady());
    }

    #[test]
    fn a_quiet_rate_is_steady_at_once_and_a_noisy_one_within_its_time() {
        assert_eq!(within(&ends(0.0, |_| 1.0), SECONDS), 1000);
        assert!(within(&ends(0.01, |_| 1.0), SECONDS) > 950);
        for noise in [0.05, 0.1, 0.3] {
            let ends = ends(noise, |_| 1.0);
            assert!(within(&ends, SECONDS) > 550, "{noise}");
            assert!(within(&ends, CAP) > 970, "{noise}: {}", within(&ends, CAP));
        }
    }

    #[test]
    fn a_rate_that_rises_is_not_steady_before_it_is_near_its_end() {
        // Half as fast at first; what is missing fades away by a factor of e in so many seconds.
        let check = |fading: f64, noise: f64, near: f64, most: usize| {
            let rate_at = |second: usize| 1.0 - 0.5 * (-(second as f64) / fading).exp();
            let ends = ends(noise, rate_at);
            let far = ends.iter().flatten().filter(|end| rate_at(**end) < near);
            let far = far.count();
            assert!(far <= most, "{fading} s, {noise}: {far}");
            assert!(within(&ends, CAP) > 900, "{fading} s, {noise}");
        };
        for fading in [3.0, 5.0, 8.0] {
            check(fading, 0.0, 0.975, 0);
            check(fading, 0.03, 0.93, 50);
        }
    }

    #[test]
    fn what_goes_on_rising_or_falling_is_not_steady() {
        for slope in [0.01, 0.03, -0.01, -0.03] {
            let ends = ends(0.01, |second| 1.0 + slope * second as f64);
            assert!(within(&ends, CAP) <= 10, "{slope}: {}", within(&ends, CAP));
        }
    }

    #[test]
    fn a_step_is_waited_for_until_it_lies_behind() {
        // Ten seconds in, the rate is another one from one second to the next.
        for (noise, most) in [(0.0, 0), (0.02, 30)] {
            let ends = ends(noise, |second| if second < 8 { 1.0 } else { 0.7 });
            let before = within(&ends, 15);
            assert!(before <= most, "{noise}: {before}");
            assert!(within(&ends, CAP) > 970, "{noise}");
        }
    }

    #[test]
    fn what_comes_and_goes_within_a_few_seconds_is_no_trend() {
        // A collection of garbage each third second.
        let ends = ends(0.0, |second| if second % 3 == 0 { 0.8 } else { 1.0 });
        assert_eq!(within(&ends, CAP), 1000);
    }

    #[test]
    fn random_arrivals_and_small_counts_are_steady_too() {
        assert!(is_steady(&[
            23.0, 17.0, 25.0, 19.0, 21.0, 20.0, 24.0, 18.0, 22.0, 19.0
        ]));
        assert!(is_steady(&[
            3.0, 3.0, 4.0, 3.0, 3.0, 3.0, 4.0, 3.0, 3.0, 3.0
        ]));
    }

    #[test]
    fn few_seconds_and_no_answers_are_never_steady() {
        assert!(!is_steady(&[100.0; SECONDS - 1]));
        assert!(is_steady(&[100.0; SECONDS]));
        assert!(!is_steady(&[0.0; 30]));
    }
}
