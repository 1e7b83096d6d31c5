//! The figures of targets and tables, and how each is read from a trial.

use compare::results::{Results, Trial};
use compare::statistics::Estimate;
use compare::statistics::starts::{self, Sample};
use compare::verdict::measure::MEGABYTE;
use compare::verdict::{Judgement, Measure};
use loadgen::outcome::Latency;
use serde::Deserialize;

/// Bytes.
const KILOBYTE: f64 = 1000.0;

/// A figure of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    /// Good responses a second.
    Rate,
    /// Median latency.
    P50,
    /// 99th percentile of the latency.
    P99,
    /// CPU time of all processes per request.
    Cpu,
    /// Memory of all processes (PSS), its largest sample.
    Memory,
    /// Memory of all processes (PSS) after the load.
    MemoryAfter,
    /// RSS of the process that clients talk to, with idle connections open.
    FrontMemory,
    /// RSS of the same process for each of the idle connections.
    MemoryOfIdle,
    /// The longest wait of a new client with idle connections open.
    Newcomer,
    /// The rate with idle connections open over that without.
    RateBesideIdle,
    /// The same of the CPU time per request.
    CpuBesideIdle,
    /// 99th percentile before a restart.
    BeforeRestart,
    /// 99th percentile during a restart.
    DuringRestart,
    /// 99th percentile after a restart.
    AfterRestart,
}

impl Figure {
    /// In the order of tables.
    pub(crate) const ALL: [Self; 14] = [
        Self::Rate,
        Self::P50,
        Self::P99,
        Self::Cpu,
        Self::Memory,
        Self::MemoryAfter,
        Self::FrontMemory,
        Self::MemoryOfIdle,
        Self::Newcomer,
        Self::RateBesideIdle,
        Self::CpuBesideIdle,
        Self::BeforeRestart,
        Self::DuringRestart,
        Self::AfterRestart,
    ];
    /// The figures by which stacks are compared.
    pub(crate) const COMPARED: [Self; 4] = [Self::Rate, Self::P99, Self::Cpu, Self::Memory];

    /// The head of its column.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Rate => "requests/s",
            Self::P50 => "p50 ms",
            Self::P99 => "p99 ms",
            Self::Cpu => "CPU µs/request",
            Self::Memory => "largest PSS MB",
            Self::MemoryAfter => "PSS MB after the load",
            Self::FrontMemory => "front RSS MB",
            Self::MemoryOfIdle => "KB an idle connection",
            Self::Newcomer => "slowest newcomer ms",
            Self::RateBesideIdle => "rate of that without idle",
            Self::CpuBesideIdle => "CPU of that without idle",
            Self::BeforeRestart => "p99 before the restart, ms",
            Self::DuringRestart => "p99 during it, ms",
            Self::AfterRestart => "p99 after it, ms",
        }
    }

    /// Its value in a trial; `None` where the trial has none. `request` is one kind of several, as `GET /fast`.
    pub(crate) fn of(self, trial: &Trial, request: Option<&str>) -> Option<f64> {
        let idle = trial.beside_idle.as_ref();
        let restart = trial.restart.as_ref();
        let value = match self {
            Self::Rate => Measure::Rate.of(trial)?,
            Self::Cpu => Measure::Cpu.of(trial)?,
            Self::Memory => Measure::Memory.of(trial)?,
            Self::MemoryAfter => trial.memory.after.pss as f64 / MEGABYTE,
            Self::P50 | Self::P99 => latency(trial, request)?.at(self.percent()?),
            Self::FrontMemory => idle?.front.rss as f64 / MEGABYTE,
            Self::MemoryOfIdle => {
                let bytes = idle?.front.rss.saturating_sub(idle?.front_before.rss);
                bytes as f64 / KILOBYTE / idle?.connections as f64
            }
            Self::Newcomer => idle?.newcomer_ms,
            Self::RateBesideIdle => idle?.rate_ratio,
            Self::CpuBesideIdle => idle?.cpu_ratio,
            Self::BeforeRestart => restart?.before.latency.at(99.0),
            Self::DuringRestart => restart?.during.latency.at(99.0),
            Self::AfterRestart => restart?.after.latency.at(99.0),
        };
        (value.is_finite() && value > 0.0).then_some(value)
    }

    /// Its values in several trials, as comparisons make an interval of them.
    pub(crate) fn sample(self, trials: &[&Trial], request: Option<&str>) -> Option<Sample> {
        if let Some(percent) = self.percent() {
            let latencies: Vec<_> = trials
                .iter()
                .filter_map(|trial| Some((trial.round, latency(trial, request)?)))
                .collect();
            return starts::percentile_of(&latencies, percent);
        }
        let of = |trial: &&Trial| Some((trial.round, self.of(trial, request)?));
        Sample::of_values(&trials.iter().filter_map(of).collect::<Vec<_>>())
    }

    fn percent(self) -> Option<f64> {
        match self {
            Self::P50 => Some(50.0),
            Self::P99 => Some(99.0),
            _ => None,
        }
    }
}

fn latency<'a>(trial: &'a Trial, request: Option<&str>) -> Option<&'a Latency> {
    let outcome = &trial.outcome;
    match request {
        None => Some(&outcome.latency),
        Some(name) => {
            let mut requests = outcome.requests.iter();
            requests
                .find(|one| one.name == name)
                .map(|one| &one.latency)
        }
    }
}

/// The trials of a stack under a load that count, in the order of rounds.
pub(crate) fn counted<'a>(
    results: &'a Results,
    judgement: &Judgement<'_>,
    stack: &str,
    load: &str,
) -> Vec<&'a Trial> {
    let set_aside = |trial: &Trial| {
        judgement.set_aside.iter().any(|one| {
            one.stack == trial.stack
                && one.load.as_deref() == Some(trial.load.as_str())
                && one.round == trial.round
        })
    };
    let of_stack = |trial: &&Trial| trial.stack == stack && trial.load == load;
    let trials = results.trials.iter().filter(of_stack);
    let mut trials: Vec<&Trial> = trials.filter(|trial| !set_aside(trial)).collect();
    trials.sort_by_key(|trial| trial.round);
    trials
}

/// How much more a figure of these trials is than that of others, over the rounds in which both have one.
pub(crate) fn difference(
    figure: Figure,
    own: &[&Trial],
    others: &[&Trial],
    request: Option<&str>,
) -> Option<Estimate> {
    let differences = own.iter().filter_map(|trial| {
        let other = others.iter().find(|other| other.round == trial.round)?;
        Some(figure.of(trial, request)? - figure.of(other, request)?)
    });
    starts::mean_of(&differences.collect::<Vec<_>>())
}

/// A figure of these trials as a multiple of that of others, over the rounds in which both have one: what disturbs both
/// cancels out.
pub(crate) fn ratio(
    figure: Figure,
    own: &[&Trial],
    others: &[&Trial],
    request: Option<&str>,
) -> Option<Estimate> {
    let (own, others) = (in_rounds_of(own, others), in_rounds_of(others, own));
    let others = figure.sample(&others, request)?;
    figure.sample(&own, request)?.ratio_to(&others)
}

fn in_rounds_of<'a>(trials: &[&'a Trial], others: &[&Trial]) -> Vec<&'a Trial> {
    let is_common = |trial: &&&Trial| others.iter().any(|one| one.round == trial.round);
    trials.iter().filter(is_common).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use compare::results::{Footprint, MemoryUse};

    #[test]
    fn memory_after_the_load_is_not_the_largest_under_it() {
        let megabytes = |pss: f64| Footprint {
            pss: (pss * MEGABYTE) as u64,
            ..Footprint::default()
        };
        let trial = Trial {
            memory: MemoryUse {
                under_load: vec![(1.0, megabytes(300.0)), (2.0, megabytes(200.0))],
                after: megabytes(150.0),
                ..MemoryUse::default()
            },
            ..Trial::default()
        };
        assert_eq!(Figure::Memory.of(&trial, None), Some(300.0));
        assert_eq!(Figure::MemoryAfter.of(&trial, None), Some(150.0));
        assert_eq!(Figure::MemoryAfter.of(&Trial::default(), None), None);
    }
}
