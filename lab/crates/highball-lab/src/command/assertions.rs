//! `compare --assert`: whether the figures of a comparison fulfil conditions. It measures and prints nothing.

use compare::results::{Load, Results, Trial};
use compare::statistics::starts::merged;
use compare::verdict::{Judgement, Measure, judge};
use loadgen::outcome::condition::{Condition, Figure};

/// The conditions that do not hold, or can't be checked, a line for each. One that names no stack is about the first, and
/// each must hold under every load.
pub(super) fn broken(conditions: &[Condition], results: &Results) -> Vec<String> {
    if conditions.is_empty() {
        return Vec::new();
    }
    let judgement = judge(results);
    let mut broken = Vec::new();
    for condition in conditions {
        let first = || results.stacks.first().map(|stack| stack.id.as_str());
        let Some(stack) = condition.stack.as_deref().or_else(first) else {
            continue;
        };
        if results.loads.is_empty() {
            broken.push(format!(
                "--assert \"{condition}\" can't be checked: no load was measured"
            ));
        }
        for load in &results.loads {
            let figures = Figures {
                results,
                judgement: &judgement,
                stack,
                load,
            };
            let place = format!("under {stack} ({})", load.title);
            match figures.value(condition.figure) {
                Ok(value) if condition.holds(value) => {}
                Ok(value) => broken.push(format!(
                    "--assert \"{condition}\" does not hold {place}: {}",
                    condition.figure.text(value)
                )),
                Err(reason) => broken.push(format!(
                    "--assert \"{condition}\" can't be checked {place}: {reason}"
                )),
            }
        }
    }
    broken
}

/// Where the figures of a stack under a load come from.
struct Figures<'a> {
    results: &'a Results,
    judgement: &'a Judgement<'a>,
    stack: &'a str,
    load: &'a Load,
}

impl Figures<'_> {
    /// A value in the figure's unit, over the trials that count.
    ///
    /// # Errors
    /// There is none: says why.
    fn value(&self, figure: Figure) -> Result<f64, String> {
        let rate = self.estimate(Measure::Rate)?;
        let latency = merged(self.trials().map(|trial| &trial.outcome.latency));
        match figure {
            Figure::Rate => Ok(rate),
            // From microseconds.
            Figure::Cpu => Ok(self.estimate(Measure::Cpu)? / 1000.0),
            Figure::Memory => self.estimate(Measure::Memory),
            Figure::Mean => Ok(latency.mean_ms()),
            Figure::Max => Ok(latency.max_ms()),
            Figure::Percentile(percent) => latency
                .percentile_ms(percent)
                .ok_or_else(|| format!("{} requests are too few for it", latency.count())),
            Figure::Errors => {
                let sum = |of: fn(&Trial) -> u64| self.trials().map(of).sum::<u64>();
                let demanded = sum(|trial| trial.outcome.demanded).max(1);
                Ok(sum(|trial| trial.outcome.failed()) as f64 * 100.0 / demanded as f64)
            }
        }
    }

    fn estimate(&self, measure: Measure) -> Result<f64, String> {
        let finding = self.judgement.finding(measure, Some(&self.load.id));
        let figure = finding.and_then(|finding| finding.of(self.stack));
        let figure = figure.ok_or("it was not measured")?;
        match figure.rank {
            Some(_) => Ok(figure.estimate.value),
            None => Err("too many of its trials do not count".to_owned()),
        }
    }

    fn trials(&self) -> impl Iterator<Item = &Trial> {
        let set_aside = |trial: &Trial| {
            self.judgement.set_aside.iter().any(|one| {
                one.stack == trial.stack
                    && one.load.as_ref() == Some(&trial.load)
                    && one.round == trial.round
            })
        };
        self.results.trials.iter().filter(move |trial| {
            trial.stack == self.stack && trial.load == self.load.id && !set_aside(trial)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use compare::results::Stack;

    /// Two stacks at 100 and 50 requests a second, of 10 and 20 ms.
    fn results() -> Results {
        let mut results = Results {
            loads: vec![Load {
                id: "c2".into(),
                title: "2 connections".into(),
                ..Load::default()
            }],
            ..Results::default()
        };
        for (id, rate) in [("highball", 100), ("puma", 50)] {
            results.stacks.push(Stack {
                id: id.into(),
                ..Stack::default()
            });
            let mut trial = Trial {
                stack: id.into(),
                load: "c2".into(),
                round: 1,
                cpu_s: 1.0,
                ..Trial::default()
            };
            trial.memory.after.pss = 50_000_000;
            let outcome = &mut trial.outcome;
            outcome.elapsed_s = 10.0;
            (outcome.demanded, outcome.completed, outcome.good) = (rate * 10, rate * 10, rate * 10);
            for _ in 0..rate * 10 {
                outcome.latency.record(Duration::from_millis(1000 / rate));
            }
            results.trials.push(trial);
        }
        results
    }

    #[test]
    fn conditions_hold_for_the_first_stack_or_the_named_one() {
        let check = |condition: &str, expect: &[&str]| {
            let broken = broken(&[condition.parse().unwrap()], &results());
            assert_eq!(broken, expect, "{condition}");
        };
        for holds in [
            "rate >= 100",
            "puma: rate < 51",
            "p50 < 11ms",
            "p99 < 11ms",
            "max < 11ms",
            "errors <= 0%",
            "cpu <= 1ms",
            "memory <= 50MB",
        ] {
            check(holds, &[]);
        }
        check(
            "puma: p50 < 11ms",
            &["--assert \"puma: p50 < 11ms\" does not hold under puma (2 connections): 20.015ms"],
        );
        check(
            "p99.9 < 1s",
            &[
                "--assert \"p99.9 < 1s\" can't be checked under highball (2 connections): 1000 requests are too few for it",
            ],
        );
        check(
            "thin: rate > 1",
            &[
                "--assert \"thin: rate > 1\" can't be checked under thin (2 connections): it was not measured",
            ],
        );
        assert_eq!(broken(&[], &results()), Vec::<String>::new());
    }
}
