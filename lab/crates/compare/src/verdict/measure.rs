//! The measures by which stacks are compared, and how each is read from a trial. It judges nothing.

use crate::results::{Limit, MemoryUse, Peak, Trial};

/// Bytes in a MB; a GB is a thousand of them.
pub const MEGABYTE: f64 = 1e6;

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Measure {
    /// Good responses a second.
    Rate,
    /// Latency that half of the requests do not exceed.
    P50,
    /// Latency that 90 of 100 requests do not exceed.
    P90,
    /// Latency that 95 of 100 requests do not exceed.
    P95,
    /// Latency that 99 of 100 requests do not exceed.
    P99,
    /// Mean latency.
    Mean,
    /// CPU time of all of the stack's processes per request.
    Cpu,
    /// Memory of all of the stack's processes (PSS), its largest sample under load.
    Memory,
    /// The largest rate that was held.
    Peak,
    /// The most good responses a second at any rate of a search, held or not.
    Replies,
    /// Good responses a second for each GB of [`Measure::Memory`].
    PerGigabyte,
    /// Good responses for each second of CPU time.
    PerCore,
}

impl Measure {
    /// Those of every load, in the order of a report. The others replace p99 where there are too few requests for it.
    pub const OF_LOAD: [Self; 7] = [
        Self::Rate,
        Self::P50,
        Self::P99,
        Self::Cpu,
        Self::Memory,
        Self::PerGigabyte,
        Self::PerCore,
    ];

    /// The measures that stand for the slow requests: p99 where every stack has enough requests for it, otherwise the mean,
    /// and p95 or p90 where every one has enough requests for that. Without those, p99 of the stacks that have one.
    pub(super) fn tail(
        all_have: impl Fn(Self) -> bool,
        any_has: impl Fn(Self) -> bool,
    ) -> Vec<Self> {
        let mut percentiles = [Self::P99, Self::P95, Self::P90].into_iter();
        match percentiles.find(|measure| all_have(*measure)) {
            Some(Self::P99) => vec![Self::P99],
            Some(percentile) => vec![percentile, Self::Mean],
            None if any_has(Self::P99) => vec![Self::P99, Self::Mean],
            None => vec![Self::Mean],
        }
    }

    /// Its name in files.
    pub fn id(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::P50 => "latency_p50",
            Self::P90 => "latency_p90",
            Self::P95 => "latency_p95",
            Self::P99 => "latency_p99",
            Self::Mean => "latency_mean",
            Self::Cpu => "cpu_per_request",
            Self::Memory => "memory",
            Self::Peak => "peak_rate",
            Self::Replies => "largest_reply_rate",
            Self::PerGigabyte => "rate_per_gb",
            Self::PerCore => "rate_per_core",
        }
    }

    /// For people, as part of a sentence.
    pub fn title(self) -> &'static str {
        match self {
            Self::Rate => "requests per second",
            Self::P50 => "median latency",
            Self::P90 => "p90 latency",
            Self::P95 => "p95 latency",
            Self::P99 => "p99 latency",
            Self::Mean => "mean latency",
            Self::Cpu => "CPU time per request",
            Self::Memory => "memory",
            Self::Peak => "largest rate held",
            Self::Replies => "largest reply rate",
            Self::PerGigabyte => "requests per second per GB",
            Self::PerCore => "requests per second per core",
        }
    }

    /// Of its values.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Rate | Self::Peak | Self::Replies => "requests/s",
            Self::P50 | Self::P90 | Self::P95 | Self::P99 | Self::Mean => "ms",
            Self::Cpu => "µs",
            Self::Memory => "MB",
            Self::PerGigabyte => "requests/s per GB",
            Self::PerCore => "requests/s per core",
        }
    }

    /// Whether more of it is better.
    pub fn more_is_better(self) -> bool {
        matches!(
            self,
            Self::Rate | Self::Peak | Self::Replies | Self::PerGigabyte | Self::PerCore
        )
    }

    /// Whether other programs on the machine change it.
    pub(super) fn depends_on_cpu(self) -> bool {
        self != Self::Memory
    }

    /// The percentile that it is, where it is one.
    pub fn percent(self) -> Option<f64> {
        match self {
            Self::P50 => Some(50.0),
            Self::P90 => Some(90.0),
            Self::P95 => Some(95.0),
            Self::P99 => Some(99.0),
            _ => None,
        }
    }

    /// Its value in a trial, in its unit; `None` where the trial has none, and for what searches give.
    pub fn of(self, trial: &Trial) -> Option<f64> {
        let outcome = &trial.outcome;
        let rate = outcome.good_per_second();
        let memory = highest(&trial.memory);
        let value = match self {
            Self::Rate => rate,
            Self::P50 | Self::P90 | Self::P95 | Self::P99 => {
                outcome.latency.percentile_ms(self.percent()?)?
            }
            Self::Mean => outcome.latency.mean_ms(),
            Self::Cpu => trial.cpu_s * 1e6 / outcome.completed as f64,
            Self::Memory => memory / MEGABYTE,
            Self::PerGigabyte => rate / (memory / MEGABYTE / 1000.0),
            Self::PerCore => outcome.good as f64 / trial.cpu_s,
            Self::Peak | Self::Replies => return None,
        };
        (value.is_finite() && value > 0.0).then_some(value)
    }
}

/// The largest sample under load; after the load where it was too short for one.
fn highest(memory: &MemoryUse) -> f64 {
    let largest = memory.under_load.iter().map(|(_, sample)| sample.pss).max();
    largest.unwrap_or(memory.after.pss) as f64
}

/// The most good responses a second at any rate of a search. More than were demanded on average are chance of the arrivals,
/// and no work of the server.
pub fn most_replies(peak: &Peak) -> f64 {
    let steps = peak.steps.iter();
    let steps = steps.filter(|step| step.limit != Limit::Client);
    let beyond = peak.overload.iter();
    let beyond = beyond.filter(|one| one.outcome.generator.limit.is_none());
    let steps = steps.map(|step| step.achieved.min(step.rate));
    let beyond = beyond.map(|one| one.outcome.good_per_second().min(one.rate));
    steps.chain(beyond).fold(0.0, f64::max)
}

/// How far apart the last good and the first bad rate of a search are, as a share of the last good: the search
/// cannot tell rates apart that are closer.
pub(super) fn grain(peak: &Peak) -> f64 {
    match peak.first_bad {
        Some(bad) if peak.last_good > 0.0 => (bad / peak.last_good - 1.0).max(0.0),
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Overload, Step};
    use loadgen::outcome::Outcome;

    #[test]
    fn the_largest_reply_rate_is_that_of_any_rate_and_never_more_than_was_demanded() {
        let step = |rate, achieved| Step {
            rate,
            achieved,
            ..Step::default()
        };
        let mut peak = Peak {
            last_good: 59.8,
            steps: vec![step(59.8, 67.0), step(75.0, 69.0)],
            ..Peak::default()
        };
        peak.steps[1].why = Some("too slow".into());
        assert_eq!(most_replies(&peak), 69.0);
        peak.overload = Some(Overload {
            rate: 90.0,
            outcome: Outcome {
                elapsed_s: 10.0,
                good: 824,
                ..Outcome::default()
            },
            ..Overload::default()
        });
        assert_eq!(most_replies(&peak), 82.4);
        peak.steps.push(Step {
            limit: Limit::Client,
            ..step(200.0, 150.0)
        });
        assert_eq!(most_replies(&peak), 82.4);
    }
}
