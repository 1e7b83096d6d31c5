//! `highball diff`: compares the results of two comparisons of the same stacks, such as before and after a change. It reads
//! both folders and measures nothing.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, ensure};

use compare::results::Results;
use compare::verdict::change::{Change, changes, conditions};
use compare::verdict::{Verdict, judge};
use formats::milliseconds as figure;

/// What `highball diff` takes.
#[derive(Debug, PartialEq, clap::Args)]
pub struct Arguments {
    /// The results folder of the first comparison
    #[arg(value_name = "A")]
    before: PathBuf,
    /// The results folder of the second one
    #[arg(value_name = "B")]
    after: PathBuf,
}

/// Prints what differs.
///
/// # Errors
/// A folder holds no results, or the two have no stack under the same load in common.
pub(super) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let before = compare::read(&arguments.before)?;
    let after = compare::read(&arguments.after)?;
    let changes = changes(&before, &after);
    ensure!(
        !changes.is_empty(),
        "{} and {} have no stack under the same load in common",
        arguments.before.display(),
        arguments.after.display()
    );
    let mut text = String::new();
    for (name, folder, results) in [
        ("A", &arguments.before, &before),
        ("B", &arguments.after, &after),
    ] {
        let _ = writeln!(text, "{name}  {} ({})", folder.display(), results.started);
    }
    text.push_str(&remarks(&before, &after));
    text.push_str(&table(&changes));
    super::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// What a reader must know before believing the changes.
fn remarks(before: &Results, after: &Results) -> String {
    let mut text = String::new();
    for condition in conditions(before, after) {
        let _ = writeln!(text, "! {condition}");
    }
    for (name, results) in [("A", before), ("B", after)] {
        if let Some(contamination) = judge(results).contamination {
            let _ = writeln!(text, "! {name}: {contamination}");
        }
    }
    text
}

/// A block for each load and stack; at most 80 columns.
fn table(changes: &[Change]) -> String {
    let mut text = String::new();
    let mut place = None;
    for change in changes {
        let here = (change.load.as_deref(), change.stack.as_str());
        if place != Some(here) {
            let load = here.0.unwrap_or("search for the largest rate");
            let _ = writeln!(text, "\n{} ({load})", change.stack);
            let _ = writeln!(text, "  {:<29}{:>10}{:>10}", "", "A", "B");
            place = Some(here);
        }
        let name = match change.measure.unit() {
            "ms" | "µs" | "MB" => format!("{}, {}", change.measure.title(), change.measure.unit()),
            _ => change.measure.title().to_owned(),
        };
        let _ = writeln!(
            text,
            "  {name:<29}{:>10}{:>10}  {}",
            figure(change.before.value),
            figure(change.after.value),
            words(change)
        );
    }
    text
}

/// `+30 %, better`.
fn words(change: &Change) -> String {
    let percent = (change.ratio.value - 1.0) * 100.0;
    let verdict = match change.verdict {
        Verdict::Better => "better",
        Verdict::Worse => "worse",
        Verdict::TooClose => "too close to call",
        Verdict::Unknown => "no verdict",
    };
    format!("{percent:+.1} %, {verdict}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use compare::results::{Load, Stack, Trial};

    fn results(rate: f64) -> Results {
        let mut results = Results {
            loads: vec![Load {
                id: "c12".into(),
                title: "12 connections, closed loop".into(),
                ..Load::default()
            }],
            stacks: vec![Stack {
                id: "highball".into(),
                ..Stack::default()
            }],
            ..Results::default()
        };
        for round in 1..=3 {
            let mut trial = Trial {
                stack: "highball".into(),
                load: "c12".into(),
                round,
                cpu_s: 10.0,
                ..Trial::default()
            };
            trial.memory.after.pss = 100_000_000;
            let count = (rate * 10.0) as u64 + round as u64;
            let outcome = &mut trial.outcome;
            outcome.elapsed_s = 10.0;
            (outcome.demanded, outcome.completed, outcome.good) = (count, count, count);
            results.trials.push(trial);
        }
        results
    }

    #[test]
    fn changes_have_both_values_the_difference_and_a_verdict() {
        let text = table(&changes(&results(1000.0), &results(1300.0)));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], "highball (12 connections, closed loop)");
        let line = |name: &str| {
            let line = lines
                .iter()
                .find(|line| line.trim_start().starts_with(name));
            line.unwrap_or_else(|| panic!("no {name} in {text}"))
        };
        assert!(
            line("requests per second ").ends_with("+30.0 %, better"),
            "{text}"
        );
        assert!(
            line("CPU time per request, µs").ends_with("-23.1 %, better"),
            "{text}"
        );
        assert!(
            line("memory, MB").ends_with("+0.0 %, too close to call"),
            "{text}"
        );
        assert!(
            lines.iter().all(|line| line.chars().count() <= 80),
            "{text}"
        );
    }

    #[test]
    fn disturbed_and_differing_comparisons_are_named_first() {
        let mut after = results(1000.0);
        after.machine.versions.push(("puma".into(), "6.0".into()));
        for trial in &mut after.trials {
            trial.other_cores = 1.0;
        }
        let text = remarks(&results(1000.0), &after);
        assert!(text.starts_with("! a version differs"), "{text}");
        assert!(
            text.contains("\n! B: Something else on the machine"),
            "{text}"
        );
    }
}
