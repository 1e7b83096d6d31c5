//! `highball-bench`: measures Highball beside Puma, Unicorn and Passenger and writes the report. Its work is
//! done in the library; here are only the flags.

#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
use bench::restart;
use bench::results::Results;
use bench::session::{self, Options};
use bench::stack::Stack;
use bench::{report, workload};
use clap::Parser;
use loadgen::plan::Arrivals;

/// Measures Highball beside other servers and writes performance.md. To be run in the repository's root.
#[derive(Debug, Parser)]
#[command(name = "highball-bench", version)]
struct Arguments {
    /// How often each workload is measured with each stack [default: 5, with --quick 2]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: Option<u64>,
    /// Seconds of load in a trial; the open loop takes twice as many, Redmine three times [default: 5, with --quick 2]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    duration: Option<u64>,
    /// Seconds of warm-up before it [default: 2, with --quick 1]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    warm_up: Option<u64>,
    /// Only this workload (hello-12, hello-100, list-12, list-100, redmine-12, open-loop, memory, idle) or
    /// family (hello, list); may be repeated. What an earlier run found on the others stays in the report
    #[arg(long, value_name = "WORKLOAD")]
    only: Vec<String>,
    /// Only these stacks
    #[arg(long, value_delimiter = ',', value_name = "STACK")]
    stacks: Vec<Stack>,
    /// Few and short rounds, for figures that are indicative only; written to target/bench
    #[arg(long)]
    quick: bool,
    /// Where performance.md and performance/ go [default: docs, with --quick target/bench]
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// The server under test
    #[arg(long, value_name = "PATH", default_value = "target/release/highball")]
    highball: PathBuf,
    /// A Redmine made by scripts/redmine; without one its workload is skipped
    #[arg(long, value_name = "DIR", default_value = "target/bench/redmine")]
    redmine: PathBuf,
    /// How the open loop's requests arrive
    #[arg(long, value_enum, default_value_t = Arrivals::Poisson)]
    arrivals: Arrivals,
    /// What the order of trials and the open loop's arrivals depend on
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write the report again from the raw data, and measure nothing
    #[arg(long)]
    report_only: bool,
    /// Measure instead what restarts of Redmine at 60 % load do to its latency; writes reliability/restart.json and
    /// restart.csv. --duration is that of the load before the restart [default: 20], and twice that follows
    #[arg(long, conflicts_with_all = ["only", "stacks", "quick", "report_only", "warm_up", "arrivals"])]
    restart: bool,
    /// With --restart: have the template ask for the page before it forks (setting `warm_up`); writes restart-warmed.*
    #[arg(long, requires = "restart")]
    warmed: bool,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("highball-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Gives whether every trial gave figures. A missed target is a finding and no failure.
fn run(arguments: &Arguments) -> Result<bool> {
    if arguments.restart {
        return restarts(arguments);
    }
    let output = arguments.output.clone().unwrap_or_else(|| {
        PathBuf::from(if arguments.quick {
            "target/bench"
        } else {
            "docs"
        })
    });
    let folder = output.join("performance");
    let results = if arguments.report_only {
        Results::load(&folder)?
    } else {
        session::run(&options(arguments, folder)?)?
    };
    report::write(&output)?;
    println!("{}", report::verdicts(&results));
    println!("report: {}", output.join("performance.md").display());
    Ok(results.trials.iter().all(|trial| trial.failure.is_none()))
}

/// Gives whether no request failed.
fn restarts(arguments: &Arguments) -> Result<bool> {
    let root = std::env::current_dir()?;
    let output = arguments.output.clone().unwrap_or_else(|| "docs".into());
    let before = Duration::from_secs(arguments.duration.unwrap_or(20));
    let report = restart::run(&restart::Options {
        root: root.clone(),
        highball: root.join(&arguments.highball),
        redmine: root.join(&arguments.redmine),
        rounds: arguments.rounds.unwrap_or(5) as usize,
        share: 0.6,
        workers: 2,
        before,
        after: 2 * before,
        seed: arguments.seed,
        warmed: arguments.warmed,
        folder: output.join("reliability"),
    })?;
    println!("{}", report.table());
    let errors = report.before.errors + report.during.errors + report.after.errors;
    Ok(errors == 0)
}

fn options(arguments: &Arguments, folder: PathBuf) -> Result<Options> {
    let root = std::env::current_dir()?;
    if !root.join("lab/apps").is_dir() {
        bail!("no lab/apps here: run it in the repository's root");
    }
    let mut workloads = if arguments.only.is_empty() {
        workload::select(None)
    } else {
        Vec::new()
    };
    for name in &arguments.only {
        let chosen = workload::select(Some(name));
        if chosen.is_empty() {
            let known: Vec<&str> = workload::WORKLOADS
                .iter()
                .map(|workload| workload.id)
                .collect();
            bail!("no workload {name}: there are {}", known.join(", "));
        }
        workloads.extend(chosen);
    }
    let pick = |given: Option<u64>, full, quick| {
        given.unwrap_or(if arguments.quick { quick } else { full })
    };
    let redmine = root.join(&arguments.redmine);
    Ok(Options {
        highball: root.join(&arguments.highball),
        redmine: redmine.join("config.ru").is_file().then_some(redmine),
        workloads,
        stacks: if arguments.stacks.is_empty() {
            Stack::ALL.to_vec()
        } else {
            arguments.stacks.clone()
        },
        rounds: pick(arguments.rounds, 5, 2) as usize,
        duration: Duration::from_secs(pick(arguments.duration, 5, 2)),
        warm_up: Duration::from_secs(pick(arguments.warm_up, 2, 1)),
        arrivals: arguments.arrivals,
        seed: arguments.seed,
        quick: arguments.quick,
        command: command_line(&root),
        root,
        folder,
    })
}

/// The command line without this machine's folders: paths stand as seen from the root, others keep their
/// last part only.
fn command_line(root: &Path) -> String {
    let shown = |argument: String| {
        let path = Path::new(&argument);
        match (path.strip_prefix(root), path.file_name()) {
            (Ok(inside), _) => inside.display().to_string(),
            (Err(_), Some(last)) if path.is_absolute() => format!(".../{}", last.display()),
            _ => argument,
        }
    };
    let arguments = std::env::args().skip(1).map(shown);
    std::iter::once("highball-bench".to_owned())
        .chain(arguments)
        .collect::<Vec<_>>()
        .join(" ")
}
