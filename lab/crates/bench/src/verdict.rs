//! Compares the figures with the targets. The verdict follows the measured value; the interval, which is that of
//! comparisons, only says how sure it is.

use std::fmt;

use compare::results::{Results, Trial};
use compare::statistics::Estimate;
use compare::verdict::judge as judge_comparison;

use crate::figure::{counted, difference, ratio};
use crate::plan::{Part, Target};
use crate::table::figure;

/// Whether a target was met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
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

impl Verdict {
    /// Whether the measured value is within the bound.
    pub fn is_reached(self) -> bool {
        matches!(self, Self::Reached | Self::ReachedWithinNoise)
    }
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
pub struct Judged {
    /// The measured value, in words.
    pub measured: String,
    /// Its interval.
    pub interval: String,
    /// What it means.
    pub verdict: Verdict,
}

/// Judges one target of a part by what its comparison found; `None` where it was not run.
pub fn judge(part: &Part, target: &Target, results: Option<&Results>) -> Judged {
    let found = results.and_then(|results| Some((results, estimate(part, target, results)?)));
    let Some((results, estimate)) = found else {
        return Judged {
            measured: "–".into(),
            interval: "–".into(),
            verdict: Verdict::NotMeasured,
        };
    };
    let is_ratio = target.times.is_some() || target.times_own.is_some();
    let unit = if is_ratio { " times" } else { "" };
    let (bound, from_below) = target.bound();
    Judged {
        measured: format!(
            "{}{unit}{}",
            figure(estimate.value),
            errors(results, part.subject())
        ),
        interval: estimate.interval().map_or("–".into(), |(low, high)| {
            format!("{} to {}", figure(low), figure(high))
        }),
        verdict: verdict(estimate, bound, from_below),
    }
}

fn estimate(part: &Part, target: &Target, results: &Results) -> Option<Estimate> {
    let load = &results.loads.first()?.id;
    let judgement = judge_comparison(results);
    let request = target.request.as_deref();
    let own = counted(results, &judgement, part.subject(), load);
    if let Some(other) = target.times_own {
        let other = other.sample(&own, request)?;
        return target.figure.sample(&own, request)?.ratio_to(&other);
    }
    if let Some(peer) = &target.above {
        let peers = counted(results, &judgement, peer, load);
        return difference(target.figure, &own, &peers, request);
    }
    let Some(peer) = &target.times else {
        return Some(target.figure.sample(&own, request)?.estimate());
    };
    let peers = counted(results, &judgement, peer, load);
    ratio(target.figure, &own, &peers, request)
}

/// A figure next to errors is worth less: both are shown together.
fn errors(results: &Results, stack: &str) -> String {
    let trials = results.trials.iter().filter(|trial| trial.stack == stack);
    let total: u64 = trials.map(Trial::errors).sum();
    match total {
        0 => String::new(),
        total => format!(" with {total} errors"),
    }
}

fn verdict(estimate: Estimate, bound: f64, from_below: bool) -> Verdict {
    let meets = |value: f64| match from_below {
        true => value >= bound,
        false => value <= bound,
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
pub(crate) mod tests {
    use std::time::Duration;

    use super::*;
    use crate::plan::Figure;
    use compare::lab::Lab;
    use compare::results::{Load, Stack, Stretch, UnderRestart};
    use loadgen::outcome::{Errors, Outcome};

    /// A comparison of these stacks with these rates and latencies in each of five rounds.
    pub(crate) fn results(stacks: &[(&str, f64, u64)]) -> Results {
        let mut results = Results {
            loads: vec![Load {
                id: "c12".into(),
                ..Load::default()
            }],
            ..Results::default()
        };
        for (id, rate, milliseconds) in stacks {
            results.stacks.push(Stack {
                id: (*id).to_owned(),
                ..Stack::default()
            });
            for round in 1..=5_usize {
                let mut outcome = Outcome {
                    elapsed_s: 10.0,
                    good: (rate * 10.0) as u64 + round as u64,
                    ..Outcome::default()
                };
                (outcome.demanded, outcome.completed) = (outcome.good, outcome.good);
                for index in 0..1000 {
                    let slow = if index < 900 { 1 } else { *milliseconds };
                    outcome.latency.record(Duration::from_millis(slow));
                }
                results.trials.push(Trial {
                    stack: (*id).to_owned(),
                    load: "c12".into(),
                    round,
                    cpu_s: 1.0,
                    outcome,
                    ..Trial::default()
                });
            }
        }
        results
    }

    pub(crate) fn part(targets: Vec<Target>) -> Part {
        Part {
            id: "hello-12".into(),
            title: "Hello, 12 connections".into(),
            compare: Lab {
                stacks: vec!["highball".into(), "puma-cluster".into()],
                ..Lab::default()
            },
            targets,
        }
    }

    pub(crate) fn target(figure: Figure) -> Target {
        Target {
            text: "a target".into(),
            figure,
            request: None,
            times: None,
            times_own: None,
            above: None,
            at_least: None,
            at_most: None,
        }
    }

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
    fn ratios_to_a_peer_and_to_an_own_figure_are_judged() {
        let results = results(&[("highball", 90_000.0, 2), ("puma-cluster", 25_000.0, 20)]);
        let part = part(Vec::new());
        let judged = |target: &Target| judge(&part, target, Some(&results));
        let peer = Some("puma-cluster".to_owned());
        let rate = judged(&Target {
            times: peer.clone(),
            at_least: Some(3.0),
            ..target(Figure::Rate)
        });
        assert_eq!(
            (rate.verdict, rate.measured.as_str()),
            (Verdict::Reached, "3.60 times")
        );
        let p99 = judged(&Target {
            times: peer,
            at_most: Some(0.05),
            ..target(Figure::P99)
        });
        assert_eq!(
            (p99.verdict, p99.measured.as_str()),
            (Verdict::Missed, "0.10 times")
        );
        let own = judged(&Target {
            times_own: Some(Figure::P50),
            at_most: Some(2.1),
            ..target(Figure::P99)
        });
        assert_eq!(own.verdict, Verdict::Reached, "{own:?}");
        let absolute = judged(&Target {
            at_most: Some(1.0),
            ..target(Figure::P99)
        });
        assert_eq!(absolute.verdict, Verdict::Missed);
        let unknown = judged(&Target {
            times: Some("unicorn".into()),
            at_least: Some(1.0),
            ..target(Figure::Rate)
        });
        assert_eq!(unknown.verdict, Verdict::NotMeasured);
        let idle = judged(&Target {
            at_most: Some(120.0),
            ..target(Figure::FrontMemory)
        });
        assert_eq!(idle.verdict, Verdict::NotMeasured);
    }

    #[test]
    fn errors_are_shown_next_to_the_figure() {
        let mut failing = results(&[("highball", 900.0, 2)]);
        failing.trials[0].outcome.errors = Errors {
            timeout: 7,
            ..Errors::default()
        };
        let target = Target {
            at_least: Some(1.0),
            ..target(Figure::Rate)
        };
        let judged = judge(&part(Vec::new()), &target, Some(&failing));
        assert!(judged.measured.ends_with(" with 7 errors"), "{judged:?}");

        let failing_stretch = |errors| Stretch {
            errors,
            ..Stretch::default()
        };
        failing.trials[1].restart = Some(UnderRestart {
            before: failing_stretch(1),
            during: failing_stretch(20),
            after: failing_stretch(300),
            ..UnderRestart::default()
        });
        let judged = judge(&part(Vec::new()), &target, Some(&failing));
        assert!(judged.measured.ends_with(" with 328 errors"), "{judged:?}");
    }
}
