//! The measures that stacks are held against each other by, and where each stands in a trial. It judges nothing.

use crate::comparison::results::{MemoryUse, Peak, Trial};

/// Bytes in a MB; a GB is a thousand of them.
pub const MEGABYTE: f64 = 1e6;

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Measure {
    /// Good responses a second.
    Rate,
    /// Latency that half of the requests do not exceed.
    P50,
    /// Latency that 99 of 100 requests do not exceed.
    P99,
    /// CPU time of all of the stack's processes per request.
    Cpu,
    /// Memory of all of the stack's processes (PSS), its largest sample under load.
    Memory,
    /// The largest rate that was held.
    Peak,
    /// Good responses a second for each GB of [`Measure::Memory`].
    PerGigabyte,
    /// Good responses for each second of CPU time.
    PerCore,
}

impl Measure {
    /// Those of a load, in the order of a report.
    pub const OF_LOAD: [Self; 7] = [
        Self::Rate,
        Self::P50,
        Self::P99,
        Self::Cpu,
        Self::Memory,
        Self::PerGigabyte,
        Self::PerCore,
    ];

    /// In files.
    pub fn id(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::P50 => "latency_p50",
            Self::P99 => "latency_p99",
            Self::Cpu => "cpu_per_request",
            Self::Memory => "memory",
            Self::Peak => "peak_rate",
            Self::PerGigabyte => "rate_per_gb",
            Self::PerCore => "rate_per_core",
        }
    }

    /// For people, as it stands in a sentence.
    pub fn title(self) -> &'static str {
        match self {
            Self::Rate => "requests per second",
            Self::P50 => "median latency",
            Self::P99 => "p99 latency",
            Self::Cpu => "CPU time per request",
            Self::Memory => "memory",
            Self::Peak => "largest rate held",
            Self::PerGigabyte => "requests per second per GB",
            Self::PerCore => "requests per second per core",
        }
    }

    /// Of its values.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Rate | Self::Peak => "requests/s",
            Self::P50 | Self::P99 => "ms",
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
            Self::Rate | Self::Peak | Self::PerGigabyte | Self::PerCore
        )
    }

    /// The percentile that it is, where it is one.
    pub fn percent(self) -> Option<f64> {
        match self {
            Self::P50 => Some(50.0),
            Self::P99 => Some(99.0),
            _ => None,
        }
    }

    /// Its value in a trial, in its unit; `None` where the trial has none, and for [`Measure::Peak`].
    pub fn of(self, trial: &Trial) -> Option<f64> {
        let outcome = &trial.outcome;
        let rate = outcome.good_per_second();
        let memory = highest(&trial.memory);
        let value = match self {
            Self::Rate => rate,
            Self::P50 | Self::P99 => outcome.latency.percentile_ms(self.percent()?)?,
            Self::Cpu => trial.cpu_s * 1e6 / outcome.completed as f64,
            Self::Memory => memory / MEGABYTE,
            Self::PerGigabyte => rate / (memory / MEGABYTE / 1000.0),
            Self::PerCore => outcome.good as f64 / trial.cpu_s,
            Self::Peak => return None,
        };
        (value.is_finite() && value > 0.0).then_some(value)
    }
}

/// The largest sample under load; after the load where it was too short for one.
fn highest(memory: &MemoryUse) -> f64 {
    let largest = memory.under_load.iter().map(|(_, sample)| sample.pss).max();
    largest.unwrap_or(memory.after.pss) as f64
}

/// How far apart the last good and the first bad rate of a search are, as a share of the last good: the search
/// cannot tell rates apart that are closer.
pub(super) fn grain(peak: &Peak) -> f64 {
    match peak.first_bad {
        Some(bad) if peak.last_good > 0.0 => (bad / peak.last_good - 1.0).max(0.0),
        _ => 0.0,
    }
}
