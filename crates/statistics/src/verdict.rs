//! Better, worse, or too close to call: one ratio with its interval. It corrects for nothing: who asks several questions
//! asks for surer intervals.

use crate::Estimate;

/// A ratio closer to 1 than this is no difference that matters, however sure it is.
pub const NOISE: f64 = 0.02;

/// The result of comparing one thing with another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Better, as sure as the interval is.
    Better,
    /// Worse, as sure as the interval is.
    Worse,
    /// The interval contains 1, or the difference is below the noise.
    TooClose,
    /// Nothing can be said: too few rounds that count, or too many disturbed ones.
    Unknown,
}

/// `noise` is a share: 0.02 leaves out ratios from 1/1.02 to 1.02.
pub fn verdict(ratio: Estimate, noise: f64, more_is_better: bool) -> Verdict {
    let sure = ratio.low > 1.0 || ratio.high < 1.0;
    let matters = ratio.value.ln().abs() > noise.ln_1p();
    match sure && matters {
        false => Verdict::TooClose,
        true if (ratio.value > 1.0) == more_is_better => Verdict::Better,
        true => Verdict::Worse,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_must_be_sure_and_large_enough() {
        let found =
            |low: f64, value: f64, high: f64| verdict(Estimate { value, low, high }, NOISE, false);
        assert_eq!(found(1.03, 1.05, 1.07), Verdict::Worse);
        assert_eq!(found(0.90, 0.95, 0.99), Verdict::Better);
        assert_eq!(found(0.99, 1.05, 1.11), Verdict::TooClose);
        assert_eq!(found(1.005, 1.01, 1.015), Verdict::TooClose);
        let more = Estimate {
            value: 1.05,
            low: 1.03,
            high: 1.07,
        };
        assert_eq!(verdict(more, NOISE, true), Verdict::Better);
    }
}
