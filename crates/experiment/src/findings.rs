//! The verdict. The halves are compared by ratios: over all slices, and without each slice in turn (the jackknife of the crate
//! `statistics`), so that what a slice does to both halves cancels out.
//!
//! CPU time is compared within routes: each half's CPU time is divided by what its requests would have cost at the mean of
//! their routes over both halves. By chance one half gets more expensive requests than the other, and that is no difference
//! of the settings.
//!
//! Three questions are asked of each experiment, and all three intervals together hold the truth with 99 % confidence: of
//! twenty experiments with equal halves, one at most finds a difference by chance.

use std::collections::BTreeMap;

use metrics::Distribution;
use serde::{Deserialize, Serialize};
use statistics::{Confidence, STARTS, Sample, Verdict, verdict};

use crate::slice::{Recorded, RouteCost, Slice};

/// A ratio closer to 1 than this is not called a difference. Two loads of one application differ by a few percent by chance
/// (addresses, cores), for as long as they live, so that no slice of time shows it.
const LEAST_DIFFERENCE: f64 = 0.05;

/// Requests that must lie beyond a percentile in each half.
const BEYOND_PERCENTILE: f64 = 10.0;

/// What an experiment has found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Findings {
    /// Slices of time in which both halves had requests.
    pub slices: usize,
    /// The half with the setting of the server.
    pub base: Figures,
    /// The half with the other setting.
    pub variant: Figures,
    /// CPU time of a request.
    pub cpu: Comparison,
    /// The median of the time in the application.
    pub app_p50: Comparison,
    /// Its 99th percentile.
    pub app_p99: Comparison,
}

/// The figures of one half.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Requests that were measured.
    pub requests: u64,
    /// Requests that went wrong.
    pub errors: u64,
    /// Mean CPU time of a request, in milliseconds.
    pub cpu_ms: f64,
    /// Median of the time in the application, in milliseconds.
    pub app_p50_ms: f64,
    /// 99th percentile of it, in milliseconds.
    pub app_p99_ms: f64,
    /// The part of the time in the application that went to garbage collection, from 0 to 1.
    pub gc_share: f64,
    /// Mean PSS of a worker, in bytes; none where the kernel does not tell it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pss_bytes: Option<u64>,
    /// Mean private memory of a worker, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub private_bytes: Option<u64>,
}

/// The other setting compared with that of the server, by one measure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The second as a multiple of the first; none where there are too few requests.
    pub ratio: Option<f64>,
    /// The interval that holds it; the three of an experiment together with 99 % confidence. None of too few slices.
    pub interval: Option<(f64, f64)>,
    /// What follows.
    pub difference: Difference,
}

/// What is known of a difference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Difference {
    /// The other setting is better.
    Better,
    /// It is worse.
    Worse,
    /// No difference is shown.
    None,
    /// There were too few requests or slices to say anything.
    #[default]
    Unknown,
}

impl Findings {
    /// Judges what was recorded in these slices.
    pub fn of(slices: &[Slice]) -> Self {
        let both = |slice: &&Slice| slice.base.requests() > 0 && slice.variant.requests() > 0;
        let used: Vec<&Slice> = slices.iter().filter(both).collect();
        let (base, variant): (Vec<_>, Vec<_>) =
            used.iter().map(|one| (&one.base, &one.variant)).unzip();
        let means = mean_costs(base.iter().chain(&variant).copied());
        let cpu = |half: &[&Recorded]| cost_sample(half, &means);
        let app = |half: &[&Recorded], share| percentile_sample(half, share);
        Self {
            slices: used.len(),
            cpu: Comparison::of(cpu(&variant), cpu(&base)),
            app_p50: Comparison::of(app(&variant, 0.5), app(&base, 0.5)),
            app_p99: Comparison::of(app(&variant, 0.99), app(&base, 0.99)),
            base: Figures::of(&base),
            variant: Figures::of(&variant),
        }
    }
}

impl Figures {
    fn of(half: &[&Recorded]) -> Self {
        let sum = |of: fn(&Recorded) -> u64| half.iter().map(|one| of(one)).sum::<u64>();
        let requests = sum(Recorded::requests);
        let app = merged(half, None);
        let ms = |share| {
            let time = app.percentile(share).unwrap_or_default();
            time.as_secs_f64() * 1e3
        };
        let memory: Vec<_> = half.iter().filter_map(|one| one.memory).collect();
        let mean = |of: fn(&crate::Memory) -> f64| {
            let sum: f64 = memory.iter().map(of).sum();
            (!memory.is_empty()).then(|| (sum / memory.len() as f64) as u64)
        };
        Self {
            requests,
            errors: sum(|one| one.errors),
            cpu_ms: ratio(sum(Recorded::cpu_ns) as f64 / 1e6, requests as f64),
            app_p50_ms: ms(0.5),
            app_p99_ms: ms(0.99),
            gc_share: ratio(sum(|one| one.gc_ns) as f64, sum(|one| one.app_ns) as f64),
            pss_bytes: mean(|one| one.pss_bytes),
            private_bytes: mean(|one| one.private_bytes),
        }
    }
}

impl Comparison {
    fn of(variant: Option<Sample>, base: Option<Sample>) -> Self {
        let ratio = variant.zip(base);
        let ratio =
            ratio.and_then(|(variant, base)| variant.ratio_at(&base, Confidence::Percent99OfThree));
        let Some(ratio) = ratio else {
            return Self::default();
        };
        let interval = ratio.interval();
        let difference = match verdict(ratio, LEAST_DIFFERENCE, false) {
            _ if interval.is_none() => Difference::Unknown,
            Verdict::Better => Difference::Better,
            Verdict::Worse => Difference::Worse,
            Verdict::TooClose => Difference::None,
            Verdict::Unknown => Difference::Unknown,
        };
        Self {
            ratio: Some(ratio.value),
            interval,
            difference,
        }
    }
}

/// The mean CPU time of a request of each route, in nanoseconds.
fn mean_costs<'a>(all: impl Iterator<Item = &'a Recorded>) -> BTreeMap<&'a str, f64> {
    let mut sums = BTreeMap::<&str, RouteCost>::new();
    for (name, cost) in all.flat_map(|one| &one.routes) {
        let sum = sums.entry(name).or_default();
        sum.requests += cost.requests;
        sum.cpu_ns += cost.cpu_ns;
    }
    let mean = |(name, cost): (_, RouteCost)| (name, cost.cpu_ns as f64 / cost.requests as f64);
    sums.into_iter().map(mean).collect()
}

/// The CPU time of a half as a multiple of what its requests cost on average.
fn cost_sample(half: &[&Recorded], means: &BTreeMap<&str, f64>) -> Option<Sample> {
    let costs: Vec<(f64, f64)> = half
        .iter()
        .map(|one| {
            let expected = one.routes.iter().map(|(name, cost)| {
                let mean = means.get(&**name).copied().unwrap_or_default();
                cost.requests as f64 * mean
            });
            (one.cpu_ns() as f64, expected.sum())
        })
        .collect();
    enough(half)?;
    Sample::new((0..half.len()).collect(), |left_out| {
        let kept = costs.iter().enumerate();
        let kept = kept.filter(|(at, _)| Some(*at) != left_out);
        let (cpu, expected) = kept.fold((0.0, 0.0), |sum, (_, one)| (sum.0 + one.0, sum.1 + one.1));
        (cpu > 0.0 && expected > 0.0).then(|| (cpu / expected).ln())
    })
}

/// A percentile of the times in the application.
fn percentile_sample(half: &[&Recorded], share: f64) -> Option<Sample> {
    enough(half)?;
    let whole = merged(half, None);
    if (whole.count() as f64) * (1.0 - share) < BEYOND_PERCENTILE {
        return None;
    }
    Sample::new((0..half.len()).collect(), |left_out| {
        let time = merged(half, left_out).percentile(share)?;
        (!time.is_zero()).then(|| time.as_secs_f64().ln())
    })
}

/// Nothing of fewer slices than an interval needs.
fn enough(half: &[&Recorded]) -> Option<()> {
    (half.len() >= STARTS).then_some(())
}

/// The times of all slices, or of all but one.
fn merged(half: &[&Recorded], left_out: Option<usize>) -> Distribution {
    let mut all = Distribution::default();
    for (at, one) in half.iter().enumerate() {
        if Some(at) != left_out {
            all.add(&one.app);
        }
    }
    all
}

/// A part of a whole; 0 of nothing.
fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

#[cfg(test)]
mod tests;
