//! Whether a warm-up has done its work: the good responses of the last seconds differ no more than chance has it. Pure.

use std::time::Duration;

/// The coefficient of variation below which a rate is steady (facebookresearch/DCPerf#541 uses the same).
const VARIATION: f64 = 0.05;

/// Counts that are compared.
const WINDOW: usize = 5;

/// A series of seconds, from a running count of responses.
#[derive(Debug, Clone)]
pub(super) struct Rates {
    /// Good responses of each whole second.
    pub(super) rates: Vec<f64>,
    /// Time and count at the last second's end.
    last: (Duration, u64),
    /// Whether arrivals are random, so that the counts of seconds differ for that alone.
    random: bool,
}

impl Rates {
    /// None so far; `random` for Poisson arrivals.
    pub(super) fn new(random: bool) -> Self {
        Self {
            rates: Vec::new(),
            last: (Duration::ZERO, 0),
            random,
        }
    }

    /// Takes the count of good responses `elapsed` after the start.
    pub(super) fn count(&mut self, elapsed: Duration, good: u64) {
        let passed = elapsed.saturating_sub(self.last.0).as_secs_f64();
        if passed >= 1.0 {
            self.rates
                .push((good - self.last.1.min(good)) as f64 / passed);
            self.last = (elapsed, good);
        }
    }

    /// Whether the last seconds were steady.
    pub(super) fn is_steady(&self) -> bool {
        let Some(window) = self
            .rates
            .len()
            .checked_sub(WINDOW)
            .map(|from| &self.rates[from..])
        else {
            return false;
        };
        let mean = window.iter().sum::<f64>() / WINDOW as f64;
        if mean <= 0.0 {
            return false;
        }
        let squares = window.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>();
        let variation = (squares / (WINDOW - 1) as f64).sqrt() / mean;
        variation < self.allowed(mean)
    }

    /// A Poisson count varies by the root of its mean; any count is whole, so half a response up or down is nothing.
    fn allowed(&self, mean: f64) -> f64 {
        if self.random {
            (VARIATION.powi(2) + 1.0 / mean).sqrt()
        } else {
            VARIATION + 0.5 / mean
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(random: bool, counts: &[u64]) -> Rates {
        let mut rates = Rates::new(random);
        let mut good = 0;
        for (second, count) in counts.iter().enumerate() {
            good += count;
            // Progress comes four times a second.
            rates.count(
                Duration::from_millis(second as u64 * 1000 + 500),
                good - count / 2,
            );
            rates.count(Duration::from_secs(second as u64 + 1), good);
        }
        rates
    }

    #[test]
    fn a_rate_that_rises_is_not_steady_until_it_stays() {
        let mut counts = vec![100, 300, 600, 900, 990];
        assert!(!rates(false, &counts).is_steady());
        counts.extend([1000, 1005, 995, 1000]);
        assert!(rates(false, &counts).is_steady());
        assert_eq!(rates(false, &counts).rates.len(), 9);
    }

    #[test]
    fn few_seconds_and_no_answers_are_never_steady() {
        assert!(!rates(false, &[100; 4]).is_steady());
        assert!(rates(false, &[100; 5]).is_steady());
        assert!(!rates(false, &[0; 9]).is_steady());
    }

    #[test]
    fn random_arrivals_may_vary_as_chance_has_it() {
        let counts = [23, 17, 25, 19, 21];
        assert!(rates(true, &counts).is_steady());
        assert!(!rates(false, &counts).is_steady());
        assert!(!rates(true, &[5, 40, 3, 38, 20]).is_steady());
    }
}
