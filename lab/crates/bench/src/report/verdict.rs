//! Holds the figures against the targets. The verdict follows the measured value; the interval only says
//! how sure it is.

use std::fmt;

use crate::results::Results;
use crate::stack::Stack;
use crate::workload::{Bound, Target, measure};
use compare::statistics::{Estimate, median_estimate, ratio_estimate};

use super::table::figure;

/// The intervals of a report do not change when it is written again.
const SEED: u64 = 20;

/// Whether a target was met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// By the whole interval.
    Reached,
    /// By the measured value, but the interval contains the bound.
    ReachedWithinNoise,
    /// Not by the measured value, but the interval contains the bound.
    MissedWithinNoise,
    /// Not by any of the interval.
    Missed,
    /// There are no figures.
    NotMeasured,
}

impl fmt::Display for Verdict {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Reached => "reached",
            Self::ReachedWithinNoise => "reached (within noise)",
            Self::MissedWithinNoise => "missed (within noise)",
            Self::Missed => "missed",
            Self::NotMeasured => "not measured",
        })
    }
}

/// A target with what was found.
#[derive(Debug)]
pub(super) struct Judged {
    /// The measured value, in words.
    pub(super) measured: String,
    /// Its interval.
    pub(super) interval: String,
    /// What it means.
    pub(super) verdict: Verdict,
}

/// Judges one target.
pub(super) fn judge(results: &Results, target: &Target) -> Judged {
    let Target {
        workload,
        measure: name,
        bound,
        ..
    } = *target;
    let values = results.values(workload, Stack::Highball, name);
    let to_peer =
        |peer| ratio_estimate(&results.pairs(workload, name, Stack::Highball, peer), SEED);
    let (estimate, limit, at_least, unit) = match bound {
        Bound::AtLeastTimes(peer, factor) => (to_peer(peer), factor, true, " times"),
        Bound::AtMostTimes(peer, factor) => (to_peer(peer), factor, false, " times"),
        Bound::AtMostTimesOwn(other, factor) => {
            let others = results.values(workload, Stack::Highball, other);
            let pairs: Vec<(f64, f64)> = values.iter().copied().zip(others).collect();
            (ratio_estimate(&pairs, SEED), factor, false, " times")
        }
        Bound::AtMost(limit) => (median_estimate(&values, SEED), limit, false, ""),
        Bound::AtLeast(limit) => (median_estimate(&values, SEED), limit, true, ""),
    };
    let Some(estimate) = estimate else {
        return Judged {
            measured: "–".into(),
            interval: "–".into(),
            verdict: Verdict::NotMeasured,
        };
    };
    Judged {
        measured: format!(
            "{}{unit}{}",
            figure(estimate.value),
            errors(results, workload)
        ),
        interval: format!("{} to {}", figure(estimate.low), figure(estimate.high)),
        verdict: verdict(estimate, limit, at_least),
    }
}

/// A figure next to errors is worth less: both are shown together.
fn errors(results: &Results, workload: &str) -> String {
    let total: f64 = results
        .values(workload, Stack::Highball, measure::ERRORS)
        .iter()
        .sum();
    if total > 0.0 {
        format!(" with {total:.0} errors")
    } else {
        String::new()
    }
}

/// Highball's measure as a multiple of a peer's, with its interval.
pub(super) fn ratio_to(results: &Results, workload: &str, measure: &str, peer: Stack) -> String {
    match ratio_estimate(
        &results.pairs(workload, measure, Stack::Highball, peer),
        SEED,
    ) {
        Some(Estimate { value, low, high }) => {
            format!("{} ({} to {})", figure(value), figure(low), figure(high))
        }
        None => "–".into(),
    }
}

fn verdict(estimate: Estimate, limit: f64, at_least: bool) -> Verdict {
    let meets = |value: f64| {
        if at_least {
            value >= limit
        } else {
            value <= limit
        }
    };
    let (value, low, high) = (
        meets(estimate.value),
        meets(estimate.low),
        meets(estimate.high),
    );
    match (value, low && high) {
        (true, true) => Verdict::Reached,
        (true, false) => Verdict::ReachedWithinNoise,
        (false, _) if low || high => Verdict::MissedWithinNoise,
        (false, _) => Verdict::Missed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::{run, trial};

    #[test]
    fn a_verdict_follows_the_value_and_says_how_sure_it_is() {
        let estimate = |low, value, high| Estimate { value, low, high };
        for (estimate, at_least, expected) in [
            (estimate(3.1, 3.5, 3.9), true, Verdict::Reached),
            (estimate(2.9, 3.5, 3.9), true, Verdict::ReachedWithinNoise),
            (estimate(2.0, 2.9, 3.1), true, Verdict::MissedWithinNoise),
            (estimate(2.0, 2.5, 2.9), true, Verdict::Missed),
            (estimate(2.0, 2.5, 2.9), false, Verdict::Reached),
            (estimate(2.9, 3.5, 3.9), false, Verdict::MissedWithinNoise),
            (estimate(3.1, 3.5, 3.9), false, Verdict::Missed),
        ] {
            assert_eq!(
                verdict(estimate, 3.0, at_least),
                expected,
                "{estimate:?} {at_least}"
            );
        }
    }

    #[test]
    fn ratios_to_a_peer_and_to_an_own_measure_are_judged() {
        let mut trials = Vec::new();
        for round in 1..=5 {
            let mut highball = trial(
                "a",
                "redmine-12",
                Stack::Highball,
                round,
                measure::P99,
                190.0,
            );
            highball.measures.insert(measure::P50.into(), 100.0);
            trials.push(highball);
            trials.push(trial(
                "a",
                "redmine-12",
                Stack::Puma,
                round,
                measure::P99,
                1900.0,
            ));
        }
        let results = Results {
            runs: vec![run("a")],
            trials,
        };
        let judge_bound = |bound| {
            judge(
                &results,
                &Target {
                    workload: "redmine-12",
                    measure: measure::P99,
                    bound,
                    text: "",
                },
            )
        };
        assert_eq!(
            judge_bound(Bound::AtMostTimes(Stack::Puma, 0.3)).verdict,
            Verdict::Reached
        );
        let own = judge_bound(Bound::AtMostTimesOwn(measure::P50, 2.0));
        assert_eq!(
            (own.verdict, own.measured.as_str()),
            (Verdict::Reached, "1.90 times")
        );
        assert_eq!(judge_bound(Bound::AtMost(100.0)).verdict, Verdict::Missed);
        let mut failing = results.clone();
        failing.trials[0]
            .measures
            .insert(measure::ERRORS.into(), 7.0);
        let target = Target {
            workload: "redmine-12",
            measure: measure::P99,
            bound: Bound::AtMost(100.0),
            text: "",
        };
        assert_eq!(judge(&failing, &target).measured, "190 with 7 errors");
        assert_eq!(
            judge_bound(Bound::AtMostTimes(Stack::Unicorn, 1.0)).verdict,
            Verdict::NotMeasured
        );
    }
}
