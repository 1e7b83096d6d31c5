//! Writes `performance.md` from the raw data alone: the targets with their verdicts, a table a workload, the
//! method, the machine. What a person found out about the figures is kept in `performance/notes.md` and
//! taken over as it stands; the report never explains a figure by itself.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::results::{Results, Trial};
use crate::stack::Stack;
use crate::workload::{Kind, TARGETS, WORKLOADS, Workload, measure};
use compare::statistics::median;
use conditions::conditions;
use table::{Table, figure, spread};
use verdict::{Verdict, judge, ratio_to};

mod conditions;
mod table;
mod verdict;

/// More CPU of the machine than this, in cores, used by anything else makes a trial a disturbed one.
const DISTURBED_CORES: f64 = 0.2;

/// Writes the report on the raw data in `folder/performance` to `folder/performance.md`.
///
/// # Errors
/// When the raw data cannot be read or the report not written.
pub fn write(folder: &Path) -> Result<()> {
    let raw = folder.join("performance");
    let results = Results::load(&raw)?;
    let notes = fs::read_to_string(raw.join("notes.md")).unwrap_or_default();
    let path = folder.join("performance.md");
    fs::write(&path, render(&results, &notes))
        .with_context(|| format!("writing {}", path.display()))
}

/// One line a target, for the terminal.
pub fn verdicts(results: &Results) -> String {
    let mut text = String::new();
    for target in &TARGETS {
        let judged = judge(results, target);
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{:12} {:45} {:28} {}",
            target.workload, target.text, judged.measured, judged.verdict
        );
    }
    text
}

fn render(results: &Results, notes: &str) -> String {
    let mut text = String::from(INTRODUCTION);
    if results.runs.iter().any(|run| run.quick) {
        text.push_str("**This run was a quick one: its figures are indicative only.**\n\n");
    }
    text.push_str(&targets(results));
    if !notes.trim().is_empty() {
        let _ = write!(text, "## Notes\n\n{}\n\n", notes.trim());
    }
    text.push_str(
        "## Figures\n\nMedians over the rounds, with the smallest and largest in parentheses.\n\n",
    );
    for workload in &WORKLOADS {
        text.push_str(&section(results, workload));
    }
    text.push_str(METHOD);
    for run in &results.runs {
        text.push_str(&conditions(results, run));
    }
    text.push_str(&failures(results));
    text.push_str(RAW_DATA);
    text
}

fn targets(results: &Results) -> String {
    let mut table = Table::new(&[
        "workload",
        "must reach",
        "measured",
        "95 % interval",
        "verdict",
    ]);
    let mut reached = 0;
    for target in &TARGETS {
        let judged = judge(results, target);
        reached += usize::from(matches!(
            judged.verdict,
            Verdict::Reached | Verdict::ReachedWithinNoise
        ));
        let title = crate::workload::find(target.workload)
            .map_or(target.workload, |workload| workload.title);
        table.row(vec![
            title.to_owned(),
            target.text.to_owned(),
            judged.measured,
            judged.interval,
            judged.verdict.to_string(),
        ]);
    }
    format!(
        "## Targets\n\n{reached} of {} reached.\n\n{table}\n",
        TARGETS.len()
    )
}

fn section(results: &Results, workload: &Workload) -> String {
    let trials: Vec<&Trial> = results
        .trials
        .iter()
        .filter(|trial| trial.workload == workload.id)
        .collect();
    let mut text = format!("### {}\n\n", workload.title);
    if trials.is_empty() {
        text.push_str("Not measured.\n\n");
        return text;
    }
    let columns = columns(workload);
    let mut heads = vec!["stack"];
    heads.extend(columns.iter().map(|column| column.0));
    let mut table = Table::new(&heads);
    for &stack in workload.stacks {
        let mut row = vec![stack.to_string()];
        row.extend(
            columns
                .iter()
                .map(|column| spread(&results.values(workload.id, stack, column.1))),
        );
        table.row(row);
    }
    let _ = write!(
        text,
        "{table}\n{}{}",
        comparison(results, workload),
        remarks(results, workload)
    );
    text
}

/// The columns of a workload's table: heading and measure.
fn columns(workload: &Workload) -> Vec<(&'static str, &'static str)> {
    match workload.kind {
        Kind::Closed { .. } => vec![
            ("requests/s", measure::RATE),
            ("p50 ms", measure::P50),
            ("p99 ms", measure::P99),
            ("CPU us/request", measure::CPU),
            ("errors", measure::ERRORS),
            ("PSS MB", measure::PSS),
        ],
        Kind::OpenLoop => vec![
            ("fast p50 ms", measure::P50),
            ("fast p99 ms", measure::P99),
            ("fast max ms", measure::MAX),
            ("fast p99 from sending, ms", measure::SERVICE_P99),
            ("slow p50 ms", measure::SLOW_P50),
            ("slow p99 ms", measure::SLOW_P99),
            ("CPU us/request", measure::CPU),
            ("errors", measure::ERRORS),
            ("generator's lag ms", measure::LAG),
        ],
        Kind::Memory { .. } => vec![
            ("PSS MB", measure::PSS),
            ("private dirty MB", measure::PRIVATE_DIRTY),
            ("sum of RSS MB", measure::RSS),
            ("processes", measure::PROCESSES),
            ("errors", measure::ERRORS),
        ],
        Kind::Idle { .. } => vec![
            ("front RSS MB", measure::FRONT_RSS),
            ("front PSS MB", measure::FRONT_PSS),
            ("front RSS before MB", measure::FRONT_RSS_BEFORE),
            ("slowest newcomer ms", measure::NEWCOMER),
            ("busy requests/s beside idle", measure::RATE),
            ("of that without idle", measure::BUSY_RATIO),
            ("CPU of that without idle", measure::BUSY_CPU_RATIO),
            ("errors", measure::ERRORS),
        ],
    }
}

/// Highball's figures as multiples of each peer's.
fn comparison(results: &Results, workload: &Workload) -> String {
    let peers: Vec<Stack> = workload
        .stacks
        .iter()
        .copied()
        .filter(|stack| *stack != Stack::Highball)
        .collect();
    let compared = match workload.kind {
        Kind::Closed { .. } => vec![
            ("requests/s", measure::RATE),
            ("p99", measure::P99),
            ("CPU/request", measure::CPU),
            ("PSS", measure::PSS),
        ],
        Kind::OpenLoop => vec![
            ("fast p99", measure::P99),
            ("slow p99", measure::SLOW_P99),
            ("CPU/request", measure::CPU),
        ],
        Kind::Memory { .. } => vec![
            ("PSS", measure::PSS),
            ("private dirty", measure::PRIVATE_DIRTY),
        ],
        Kind::Idle { .. } => Vec::new(),
    };
    if compared.is_empty() || results.of(workload.id, Stack::Highball).is_empty() {
        return String::new();
    }
    let mut heads = vec!["Highball as a multiple of"];
    heads.extend(compared.iter().map(|column| column.0));
    let mut table = Table::new(&heads);
    for peer in peers {
        let mut row = vec![peer.to_string()];
        row.extend(
            compared
                .iter()
                .map(|column| ratio_to(results, workload.id, column.1, peer)),
        );
        table.row(row);
    }
    format!("{table}\n")
}

/// What a reader must know before believing the table.
fn remarks(results: &Results, workload: &Workload) -> String {
    let mut lines = Vec::new();
    for &stack in workload.stacks {
        let of = |name| results.values(workload.id, stack, name);
        if let (Some(server), Some(client)) = (
            median(&of(measure::SERVER_CORES)),
            median(&of(measure::CLIENT_CORES)),
        ) {
            lines.push(format!(
                "{stack}: servers used {} cores, the generator {}",
                figure(server),
                figure(client)
            ));
        }
    }
    let mut text = if lines.is_empty() {
        String::new()
    } else {
        format!("{}.\n", lines.join("; "))
    };
    let count = results
        .trials
        .iter()
        .filter(|trial| trial.workload == workload.id && is_disturbed(trial))
        .count();
    if count > 0 {
        let _ = writeln!(
            text,
            "In {count} trials something else on the machine used more than {DISTURBED_CORES} cores."
        );
    }
    text + "\n"
}

fn is_disturbed(trial: &Trial) -> bool {
    let used = |name| trial.measures.get(name).copied().unwrap_or(0.0);
    used(measure::OTHER_CORES) + used(measure::STEAL_CORES) > DISTURBED_CORES
}

fn failures(results: &Results) -> String {
    let failed: Vec<&Trial> = results
        .trials
        .iter()
        .filter(|trial| trial.failure.is_some())
        .collect();
    if failed.is_empty() {
        return String::new();
    }
    let mut text = String::from("## Trials that gave no figures\n\n");
    for trial in failed {
        let reason = trial.failure.as_deref().unwrap_or_default();
        let _ = writeln!(
            text,
            "- {}, {}, round {}: {}",
            trial.workload,
            trial.stack,
            trial.round,
            reason.lines().next().unwrap_or_default()
        );
    }
    text.push('\n');
    text
}

const INTRODUCTION: &str = "\
<!-- Written by `make bench` from the raw data in performance/; notes belong into performance/notes.md. -->

# Performance

Highball beside Puma, Unicorn and Passenger on the same machine, in the same minutes, with the same number
of worker processes of one thread each. `make bench` repeats all of it.

";

const METHOD: &str = "\
## Method

- A *trial* is one start of a server, a warm-up, a load, and a stop. It is the unit of replication: figures are
  medians over trials, and intervals come from resampling whole rounds (percentile bootstrap, 95 %).
- In each round every workload comes once, in random order; its stacks run next to each other, in random
  order. Ratios compare trials of one round, so that what disturbs both cancels out.
- \"Within noise\" means that the interval of the measured value contains the bound.
- The load runs on the same cores as the servers: requests per second hold the generator's share, CPU per
  request does not. It is user and system time of all server processes (`/proc`), ended ones included, over
  the responses.
- Closed loops are wrk's, on 2 threads. Only answers with a status of 200 to 399 count in requests per second. wrk
  back-fills its percentiles where a connection stalled, and does not see a connection that got no answer.
- The open loop sends at scheduled times (Poisson arrivals unless the command says otherwise, the same for every stack
  of a round), opens a connection whenever none is idle, and counts latency from the scheduled time; a request
  that failed, was refused or never answered counts as one of at least 10 s.
- Memory is the PSS of all processes: shared pages are divided among those who share them. A MB is a million bytes.
- Before its load each stack must answer with 200, and, save for Redmine, with the very same body as the others.
- Highball writes its access log (to a file), as it does by default; the others write none, as they do by default.
- Every stack has its defaults save what the commands below say. Puma and Unicorn load the application before they
  fork; so do Highball and Passenger by themselves.

";

const RAW_DATA: &str = "\
## Raw data

[runs.json](performance/runs.json) holds how each run was made, [trials.jsonl](performance/trials.jsonl) every trial
with what wrk printed, [trials.csv](performance/trials.csv) the same figures one a line.
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::{run, trial};

    #[test]
    fn a_report_shows_targets_figures_failures_and_notes() {
        let mut failed = trial("a", "list-12", Stack::Passenger, 1, "x", 0.0);
        failed.failure = Some("it fell over\nand more".into());
        let mut trials = vec![failed];
        for round in 1..=5 {
            let noise = round as f64;
            trials.push(trial(
                "a",
                "hello-12",
                Stack::Highball,
                round,
                measure::RATE,
                90_000.0 + noise,
            ));
            trials.push(trial(
                "a",
                "hello-12",
                Stack::Puma,
                round,
                measure::RATE,
                25_000.0 + noise,
            ));
        }
        let text = render(
            &Results {
                runs: vec![run("a")],
                trials,
            },
            "Why it is so.",
        );
        for part in [
            "1 of 20 reached",
            "| Hello, 12 keep-alive connections | 3 times Puma's requests per second | 3.60 times |",
            "| Highball | 90,003 (90,001 to 90,005) |",
            "list-12, Passenger, round 1: it fell over\n",
            "## Notes\n\nWhy it is so.",
            "Not measured.",
        ] {
            assert!(text.contains(part), "no {part:?} in:\n{text}");
        }
    }

    #[test]
    fn a_report_on_nothing_can_be_written() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path()).unwrap();
        assert!(
            fs::read_to_string(folder.path().join("performance.md"))
                .unwrap()
                .contains("0 of 20 reached")
        );
    }
}
