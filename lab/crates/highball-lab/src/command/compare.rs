//! `highball compare`: from LAB.toml and flags to a comparison, its reports, and the exit code. It measures nothing.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ::stacks::server_program;
use anyhow::{Result, bail, ensure};

use super::assertions;
use super::comparing::{CONDITION_FAILED, QUICK, command_line, failures, places, stopped};
use super::export;
use compare::RunOptions;
use compare::lab::{FindPeak, Lab, Load, Request, Setting};
use compare::results::Results;
use formats::export::Export;
use loadgen::duration;
use loadgen::outcome::condition::Condition;

/// What `highball compare` takes. Flags win over the file.
#[derive(Debug, Default, PartialEq, clap::Args)]
pub struct Arguments {
    /// What is compared, as a file; docs/lab.md shows every key
    #[arg(value_name = "LAB.toml", conflicts_with = "resume")]
    file: Option<PathBuf>,
    /// The application: its folder, or the name of one of the lab's own (hello) [default: this folder]
    #[arg(long, value_name = "DIR")]
    app: Option<String>,
    /// The stacks; the others are compared with the first [default: highball and what is installed of the usual ones]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    stacks: Vec<String>,
    /// A file that describes a further stack
    #[arg(long, value_name = "FILE")]
    stack_file: Vec<PathBuf>,
    /// A server that the lab does not start, as a stack of that name
    #[arg(long, value_name = "NAME=URL", value_parser = named_url)]
    url: Vec<(String, String)>,
    /// Starts of each stack under each load; fewer than 5 are indicative [default: 5]
    #[arg(long, value_name = "N")]
    trials: Option<usize>,
    /// Length of each load [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    duration: Option<Duration>,
    /// The longest that a warm-up may take until the rate is steady, at least 10s [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    warm_up: Option<Duration>,
    /// A request without its answer after so long has failed [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    timeout: Option<Duration>,
    /// Closed loops of so many connections [default: 12]
    #[arg(long, value_name = "N,N", value_delimiter = ',')]
    connections: Vec<usize>,
    /// Open loops of so many requests a second
    #[arg(long, value_name = "R,R", value_delimiter = ',')]
    rate: Vec<f64>,
    /// Search the largest rate that each stack holds, and see what happens beyond it
    #[arg(long)]
    find_peak: bool,
    /// The latency that 99 of 100 requests must keep at that rate; for --find-peak
    #[arg(long, value_name = "TIME", value_parser = duration::parse, requires = "find_peak")]
    p99: Option<Duration>,
    /// Three short trials of each, for indicative results
    #[arg(long)]
    quick: bool,
    /// Worker processes of each stack [default: one for each core]
    #[arg(long, value_name = "N")]
    workers: Option<usize>,
    /// Threads of each worker [default: 1]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// What order and arrivals depend on [default: 1]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// The page that is asked for; several are asked for equally often [default: the application's]
    #[arg(long, value_name = "PATH")]
    page: Vec<String>,
    /// Where results go [default: highball-lab/TIME]
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Exit with 2 unless this holds, such as 'p99 < 200ms' for the first stack, or 'puma: rate >= 500'; may be repeated
    #[arg(long, value_name = "CONDITION")]
    assert: Vec<Condition>,
    /// Resume a comparison that was stopped
    #[arg(long, value_name = "DIR", conflicts_with = "output")]
    resume: Option<PathBuf>,
    /// Write the reports of a comparison again from what it found, and measure nothing
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    /// Also write latencies and counts for another tool: hdr=FILE (HdrHistogram's log) or k6=FILE (summary of k6); may be
    /// repeated, also with --report
    #[arg(long, value_name = "KIND=FILE")]
    export: Vec<Export>,
}

/// Compares, prints the answer, and writes the reports.
///
/// # Errors
/// Nothing can be compared, what was found can't be written, or a trial failed; in one message.
pub(super) fn run(arguments: &Arguments) -> Result<ExitCode> {
    arguments.check()?;
    if let Some(folder) = &arguments.report {
        let results = compare::read(folder)?;
        tell(&results, folder)?;
        export::of_comparison(&arguments.export, &results)?;
        return Ok(ExitCode::SUCCESS);
    }
    let stop = super::stop_on_signals()?;
    let lab = arguments.lab()?;
    let (folder, work) = places(arguments.resume.as_ref().or(lab.output.as_ref()));
    let options = RunOptions {
        highball: server_program(),
        command: command_line("highball"),
        folder: folder.clone(),
        work,
        resume: arguments.resume.is_some(),
        replace: false,
        stop: &stop,
    };
    let results = compare::run(&lab, &options)?;
    if stop.load(Ordering::Relaxed) && results.finished.is_none() {
        return Ok(stopped("highball compare", &folder));
    }
    tell(&results, &folder)?;
    export::of_comparison(&arguments.export, &results)?;
    if let Some(text) = failures(&results) {
        bail!("{text}");
    }
    let broken = assertions::broken(&arguments.assert, &results);
    for line in &broken {
        eprintln!("highball: {line}");
    }
    Ok(match broken.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(CONDITION_FAILED),
    })
}

/// Writes the reports and prints the answer.
fn tell(results: &Results, folder: &Path) -> Result<()> {
    let page = report::Page {
        results,
        study: None,
    };
    report::write(&page, folder)?;
    super::print(&format!(
        "{}\n\nreport: {}\n",
        report::terminal(&page).trim_end(),
        folder.join("report.html").display()
    ))
}

impl Arguments {
    /// Refuses flags that exclude each other, and exports that can't be made.
    fn check(&self) -> Result<()> {
        let reports_only = Self {
            report: self.report.clone(),
            export: self.export.clone(),
            ..Self::default()
        };
        if self.report.is_some() && *self != reports_only {
            bail!("--report cannot be used with other flags than --export: it measures nothing");
        }
        export::check_comparison(&self.export)
    }

    /// The comparison that file and flags make.
    fn lab(&self) -> Result<Lab> {
        let mut lab = match (&self.resume, &self.file) {
            (Some(folder), _) => compare::plan_of(folder)?,
            (None, Some(file)) => Lab::read(file)?,
            (None, None) => Lab::default(),
        };
        if self.quick {
            lab.trials = QUICK.trials;
            lab.duration = QUICK.duration;
            lab.warm_up = QUICK.warm_up;
        }
        set(&mut lab.app, self.app.as_ref());
        set(&mut lab.trials, self.trials.as_ref());
        set(&mut lab.duration, self.duration.as_ref());
        set(&mut lab.warm_up, self.warm_up.as_ref());
        set(&mut lab.timeout, self.timeout.as_ref());
        set(&mut lab.workers, self.workers.as_ref());
        set(&mut lab.threads, self.threads.as_ref());
        set(&mut lab.seed, self.seed.as_ref());
        lab.stack_files.extend_from_slice(&self.stack_file);
        lab.output = self.output.clone().or(lab.output);
        let mut names = self.stacks.clone();
        names.extend(
            self.url
                .iter()
                .map(|(name, _)| name.clone())
                .filter(|name| !self.stacks.contains(name)),
        );
        if !names.is_empty() {
            lab.settings.retain(|id, _| names.contains(id));
            lab.name_stacks(names);
        }
        for (name, url) in &self.url {
            let setting = Setting {
                url: Some(url.clone()),
                ..Setting::default()
            };
            lab.settings.insert(name.clone(), setting);
        }
        if !self.connections.is_empty() || !self.rate.is_empty() {
            let closed = self.connections.iter().map(|count| Load::closed(*count));
            lab.loads = closed
                .chain(self.rate.iter().map(|rate| Load::open(*rate)))
                .collect();
        }
        if !self.page.is_empty() {
            lab.requests = self.page.iter().map(|path| Request::get(path)).collect();
        }
        if self.find_peak {
            let find = lab.find_peak.get_or_insert_with(FindPeak::default);
            find.p99 = self.p99.or(find.p99);
        }
        lab.check()?;
        let named = self
            .assert
            .iter()
            .filter_map(|condition| condition.stack.as_ref());
        for stack in named {
            ensure!(
                lab.stacks.is_empty() || lab.stacks.contains(stack),
                "--assert: no stack {stack} takes part; these do: {}",
                lab.stacks.join(", ")
            );
        }
        Ok(lab)
    }
}

fn set<T: Clone>(place: &mut T, value: Option<&T>) {
    if let Some(value) = value {
        place.clone_from(value);
    }
}

fn named_url(text: &str) -> Result<(String, String), String> {
    let pair = text
        .split_once('=')
        .filter(|(name, url)| !name.is_empty() && url.starts_with("http://"));
    let pair = pair.map(|(name, url)| (name.to_owned(), url.to_owned()));
    pair.ok_or_else(|| "write NAME=http://host:port".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Program {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn lab(line: &str) -> Result<Lab> {
        let words = line.split_whitespace();
        let arguments = Program::try_parse_from(std::iter::once("compare").chain(words))?.arguments;
        arguments.check()?;
        arguments.lab()
    }

    #[test]
    fn flags_make_a_comparison() {
        let lab = lab(
            "--app hello --stacks highball,puma,puma --trials 3 --duration 5s --connections 12,100 --rate 50 --workers 4 \
             --threads 2 --seed 9 --page /a --page /b --find-peak --p99 500ms --output there --url mine=http://127.0.0.1:1",
        )
        .unwrap();
        assert_eq!(
            (
                lab.app.as_str(),
                lab.trials,
                lab.workers,
                lab.threads,
                lab.seed
            ),
            ("hello", 3, 4, 2, 9)
        );
        assert_eq!(lab.stacks, ["highball", "puma", "puma-2", "mine"]);
        assert_eq!(
            lab.participant("mine").url.as_deref(),
            Some("http://127.0.0.1:1")
        );
        let loads: Vec<String> = lab.loads.iter().map(Load::id).collect();
        assert_eq!(loads, ["c12", "c100", "r50"]);
        assert_eq!(lab.requests.len(), 2);
        assert_eq!(lab.find_peak.unwrap().p99, Some(Duration::from_millis(500)));
        assert_eq!(lab.output, Some(PathBuf::from("there")));
    }

    #[test]
    fn quick_is_short_and_flags_win_over_it() {
        let lab = lab("--quick --duration 1s").unwrap();
        assert_eq!((lab.trials, lab.duration), (3, Duration::from_secs(1)));
        assert!(lab.is_quick());
    }

    #[test]
    fn wrong_flags_are_named() {
        let check = |line: &str, expect: &str| {
            let error = format!("{:#}", lab(line).unwrap_err());
            assert!(error.contains(expect), "{error}");
        };
        check(
            "--workers 0",
            "workers: 0 is out of range; it goes from 1 to 1024",
        );
        check("--connections 12,12", "there are two loads named c12");
        check("--duration soon", "no length of time");
        check("--url mine", "write NAME=http://host:port");
        check("--page index", "is no path");
        check("--p99 1s", "--find-peak");
        check("--assert p99<200", "is no bound of p99");
        check(
            "--stacks thin,puma --assert pumma:p99<1s",
            "no stack pumma takes part; these do: thin, puma",
        );
        check("LAB.toml --resume there", "cannot be used with");
        check("--report there --trials 3", "cannot be used with");
        check("--export jmeter=file", "no single requests");
        check("--resume /nonexistent", "/nonexistent holds no comparison");
    }
}
