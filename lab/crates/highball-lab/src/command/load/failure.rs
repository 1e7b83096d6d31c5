//! Whether a load has failed, why, and with which exit code. It prints nothing.

use super::Arguments;
use crate::command::comparing::CONDITION_FAILED;
use loadgen::outcome::Outcome;
use loadgen::outcome::condition::Figure;
use loadgen::plan::Plan;

/// A load that failed.
#[derive(Debug, PartialEq)]
pub(super) struct Failure {
    /// The exit code.
    pub(super) code: u8,
    /// On one line.
    pub(super) reason: String,
}

/// Too many errors, or a condition of `--fail-if` that holds; `None` where the load went well. Without any response a load
/// has failed, unless it was ended early.
pub(super) fn of(
    arguments: &Arguments,
    plan: &Plan,
    outcome: &Outcome,
    ended_early: bool,
) -> Option<Failure> {
    let why = || match formats::main_error(plan, outcome) {
        Some(error) => error.to_owned(),
        None => match outcome.statuses.iter().max_by_key(|(_, count)| **count) {
            Some((status, _)) => format!("status {status}"),
            None => "nothing was sent".to_owned(),
        },
    };
    if outcome.completed == 0 && !ended_early {
        let requests = formats::counted(outcome.demanded, "request");
        let reason = format!(
            "no response came: {requests} failed, mostly because: {}",
            why()
        );
        return Some(Failure { code: 1, reason });
    }
    let failed = outcome.failed_percent();
    if failed > arguments.max_errors {
        let reason = format!(
            "{} of {} failed ({failed:.2} %, and --max-errors allows {} %), mostly because: {}",
            outcome.failed(),
            formats::counted(outcome.demanded, "request"),
            arguments.max_errors,
            why()
        );
        return Some(Failure { code: 1, reason });
    }
    let reasons =
        arguments
            .fail_if
            .iter()
            .filter_map(|condition| match value(condition.figure, outcome) {
                Ok(value) if condition.holds(value) => Some(format!(
                    "--fail-if \"{condition}\" holds: {}",
                    condition.figure.text(value)
                )),
                Ok(_) => None,
                Err(reason) => Some(format!(
                    "--fail-if \"{condition}\" can't be checked: {reason}"
                )),
            });
    let reasons: Vec<String> = reasons.collect();
    (!reasons.is_empty()).then(|| Failure {
        code: CONDITION_FAILED,
        reason: reasons.join("; "),
    })
}

/// The value of a figure, in its unit.
///
/// # Errors
/// The load has none: says why.
fn value(figure: Figure, outcome: &Outcome) -> Result<f64, String> {
    let latency = &outcome.latency;
    match figure {
        Figure::Rate => Ok(outcome.good_per_second()),
        Figure::Errors => Ok(outcome.failed_percent()),
        Figure::Cpu | Figure::Memory => {
            Err("a load does not measure it; use highball compare --assert".to_owned())
        }
        Figure::Percentile(_) | Figure::Mean | Figure::Max if latency.is_empty() => {
            Err("no request ended".to_owned())
        }
        Figure::Mean => Ok(latency.mean_ms()),
        Figure::Max => Ok(latency.max_ms()),
        Figure::Percentile(percent) => latency
            .percentile_ms(percent)
            .ok_or_else(|| format!("{} requests are too few for it", latency.count())),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::Parser as _;

    use super::super::planning;
    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    /// The failure of a load of a thousand requests of 5 ms, of which so many failed.
    fn failure(flags: &[&str], refused: u64, not_found: u64) -> Option<Failure> {
        let words = ["load", "http://127.0.0.1:1/"].iter().chain(flags);
        let arguments = Line::try_parse_from(words).unwrap().arguments;
        let plan = planning::plan(&arguments).unwrap();
        let mut outcome = Outcome {
            elapsed_s: 10.0,
            demanded: 1000,
            completed: 1000 - refused,
            good: 1000 - refused - not_found,
            ..Outcome::default()
        };
        outcome.errors.connect_refused = refused;
        outcome.statuses.insert(404, not_found);
        for _ in 0..1000 {
            outcome.latency.record(Duration::from_millis(5));
        }
        of(&arguments, &plan, &outcome, false)
    }

    fn check(flags: &[&str], refused: u64, not_found: u64, expect: Option<(u8, &str)>) {
        let failure = failure(flags, refused, not_found);
        match (&failure, expect) {
            (None, None) => {}
            (Some(failure), Some((code, reason))) => {
                assert_eq!(failure.code, code, "{failure:?}");
                assert!(failure.reason.contains(reason), "{failure:?}");
            }
            _ => panic!("{failure:?}, expected {expect:?}"),
        }
    }

    #[test]
    fn more_errors_than_allowed_fail_with_the_reason() {
        check(&[], 10, 0, None);
        check(&[], 11, 0, Some((1, "11 of 1,000 requests failed (1.10 %")));
        check(&[], 0, 20, Some((1, "mostly because: status 404")));
        check(&["--max-errors", "5%"], 0, 20, None);
        check(&["--max-errors", "0"], 1, 0, Some((1, "connection")));
        check(
            &[],
            1000,
            0,
            Some((1, "no response came: 1,000 requests failed")),
        );
    }

    #[test]
    fn a_condition_that_holds_fails_with_its_value() {
        check(&["--fail-if", "p99 > 200ms"], 0, 0, None);
        let holds = "--fail-if \"p99 > 1ms\" holds: 5.";
        check(&["--fail-if", "p99 > 1ms"], 0, 0, Some((2, holds)));
        let unknown = "can't be checked: 1000 requests are too few for it";
        check(&["--fail-if", "p99.9 > 1s"], 0, 0, Some((2, unknown)));
        check(
            &["--fail-if", "memory > 1GB"],
            0,
            0,
            Some((2, "compare --assert")),
        );
        let both = ["--fail-if", "rate < 500", "--fail-if", "errors > 0%"];
        check(
            &both,
            1,
            0,
            Some((2, "\"rate < 500\" holds: 99.9/s; --fail-if \"errors")),
        );
    }
}
