//! `highball-lab bench`: the project's own benchmark, part by part, and its page. How a part is measured is the
//! comparison's. A missed target is a finding and no failure.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use ::stacks::server_program;
use anyhow::{Context as _, Result, bail};
use bench::page::{self, Found};
use bench::plan::{Benchmark, Part};

use super::comparing::{INTERRUPTED, QUICK, command_line, failures};
use compare::RunOptions;
use compare::lab::Lab;
use compare::results::Results;

/// What `highball-lab bench` takes.
#[derive(Debug, Default, PartialEq, clap::Args)]
pub struct Arguments {
    /// The benchmark, a file of lab/bench
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Only this part or family of parts (hello, list); may be repeated. Earlier results of the others stay
    #[arg(long, value_name = "PART")]
    only: Vec<String>,
    /// Starts of each stack under each load [default: as in the file]
    #[arg(long, value_name = "N")]
    trials: Option<usize>,
    /// Three short trials of each, for indicative figures
    #[arg(long)]
    quick: bool,
    /// Where the page goes, and a folder of its name with the results of each part [default: as in the file; with --only or --quick target/bench]
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Where applications are prepared, and trials have their temporary files
    #[arg(long, value_name = "DIR", default_value = "target/bench/work")]
    work: PathBuf,
    /// Write the page again from what was found, and measure nothing
    #[arg(long, conflicts_with_all = ["trials", "quick", "only"])]
    report_only: bool,
}

/// Measures the parts that were asked for and writes the page of all.
///
/// # Errors
/// The file is wrong, what was found can't be written, a part can't be measured, or a trial failed; of several parts all
/// errors are named.
pub(super) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let benchmark = Benchmark::read(&arguments.file)?;
    let name = arguments
        .file
        .file_stem()
        .context("a benchmark is a file")?;
    let name = name.to_string_lossy().into_owned();
    let output = arguments.output(&benchmark);
    let parts = match arguments.report_only {
        true => Vec::new(),
        false => benchmark.select(&arguments.only)?,
    };
    refuse_to_lose_figures(&benchmark, &parts, &name, &output)?;
    let folder = output.join(&name);
    let mut failed = Vec::new();
    if !arguments.report_only {
        let stop = super::stop_on_signals()?;
        for part in parts {
            eprintln!("{name}: {}", part.title);
            match arguments.measure(part, &folder.join(&part.id), &stop) {
                Ok(results) if stop.load(Ordering::Relaxed) && results.finished.is_none() => {
                    return Ok(ExitCode::from(INTERRUPTED));
                }
                Ok(results) => {
                    let texts = [failures(&results), failed_in_restarts(&results)];
                    let texts = texts.into_iter().flatten();
                    failed.extend(texts.map(|text| format!("part {}: {text}", part.id)));
                }
                Err(error) if stop.load(Ordering::Relaxed) => return Err(error),
                // The other parts may go well, and have taken hours.
                Err(error) => failed.push(format!("part {}: {error:#}", part.id)),
            }
        }
    }
    write_page(&benchmark, &name, &output)?;
    if failed.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    bail!("{}", failed.join("\n"))
}

/// Refuses to replace a page that shows figures of parts that are neither among `parts`, which will be measured, nor
/// in the results of earlier runs.
///
/// # Errors
/// There is such a part, or the results of one can't be read.
fn refuse_to_lose_figures(
    benchmark: &Benchmark,
    parts: &[&Part],
    name: &str,
    output: &Path,
) -> Result<()> {
    let path = output.join(format!("{name}.md"));
    let Ok(text) = fs::read_to_string(&path) else {
        return Ok(());
    };
    let folder = output.join(name);
    let mut lost = Vec::new();
    for part in &benchmark.parts {
        let stays = parts.contains(&part) || !page::shows(&text, part);
        if !stays && measured(&folder.join(&part.id))?.is_none() {
            lost.push(part.id.as_str());
        }
    }
    if lost.is_empty() {
        return Ok(());
    }
    bail!(
        "{} shows figures of {}, which have no results in {}: a new page would lose them. Measure these parts too, or name \
         another folder with --output",
        path.display(),
        lost.join(", "),
        folder.display()
    )
}

/// The results of a part that was measured to its end; `None` where there are none.
fn measured(folder: &Path) -> Result<Option<Results>> {
    if !folder.join("results.json").is_file() {
        return Ok(None);
    }
    let results = compare::read(folder)?;
    Ok(results.finished.is_some().then_some(results))
}

/// Writes the page on everything that was found by now, and prints a line for each target.
fn write_page(benchmark: &Benchmark, name: &str, output: &Path) -> Result<()> {
    let folder = output.join(name);
    let mut found: Vec<Found<'_>> = Vec::new();
    for part in &benchmark.parts {
        let place = folder.join(&part.id);
        found.push((part, measured(&place)?));
    }
    let notes = fs::read_to_string(folder.join("notes.md")).unwrap_or_default();
    let path = output.join(format!("{name}.md"));
    // No part may have come so far as to make it.
    fs::create_dir_all(output).with_context(|| format!("can't make {}", output.display()))?;
    fs::write(&path, page::render(benchmark, &found, &notes, name, output))
        .with_context(|| format!("can't write {}", path.display()))?;
    super::print(&format!(
        "{}\nreport: {}\n",
        page::verdicts(&found),
        path.display()
    ))
}

/// The requests that failed while a stack was restarted; `None` where none did. A restart must not lose any.
fn failed_in_restarts(results: &Results) -> Option<String> {
    let restarts = results.trials.iter().filter_map(|trial| {
        let errors = trial.restart.as_ref()?.errors();
        (errors > 0).then_some((errors, &trial.stack, trial.round))
    });
    let all: Vec<_> = restarts.collect();
    let (_, stack, round) = all.first()?;
    let total: u64 = all.iter().map(|(errors, ..)| errors).sum();
    Some(format!(
        "{total} requests failed under restarts, the first under {stack} in round {round}"
    ))
}

/// Where the figures of a run go that is not a whole one.
const UNPUBLISHED: &str = "target/bench";

impl Arguments {
    fn output(&self, benchmark: &Benchmark) -> PathBuf {
        let is_whole = !self.quick && self.only.is_empty();
        let usual = || match is_whole {
            true => benchmark.output.clone(),
            false => UNPUBLISHED.into(),
        };
        self.output.clone().unwrap_or_else(usual)
    }

    /// Runs the comparison of a part in `folder` and writes its report.
    fn measure(&self, part: &Part, folder: &Path, stop: &AtomicBool) -> Result<Results> {
        let options = RunOptions {
            highball: server_program(),
            command: command_line("highball-lab"),
            folder: folder.to_owned(),
            work: self.work.clone(),
            resume: false,
            replace: true,
            stop,
        };
        let results = compare::run(&self.lab(part), &options)?;
        if results.finished.is_some() {
            let page = report::Page {
                results: &results,
                study: None,
            };
            report::write(&page, folder)?;
        }
        Ok(results)
    }

    fn lab(&self, part: &Part) -> Lab {
        let mut lab = match self.quick {
            true => part.shortened(QUICK.trials, QUICK.duration, QUICK.warm_up),
            false => part.compare.clone(),
        };
        lab.trials = self.trials.unwrap_or(lab.trials);
        lab
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use compare::results::{Stretch, Trial, UnderRestart};

    #[derive(Debug, clap::Parser)]
    struct Program {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn arguments(line: &str) -> Arguments {
        let words = ["bench", "performance.toml"].into_iter();
        let words = words.chain(line.split_whitespace());
        Program::try_parse_from(words).unwrap().arguments
    }

    fn benchmark() -> Benchmark {
        Benchmark::read(&test_support::workspace().join("lab/bench/performance.toml")).unwrap()
    }

    #[test]
    fn requests_that_fail_under_a_restart_are_counted() {
        let trial = |round, during| Trial {
            stack: "highball".to_owned(),
            round,
            restart: Some(UnderRestart {
                during: Stretch {
                    errors: during,
                    ..Stretch::default()
                },
                ..UnderRestart::default()
            }),
            ..Trial::default()
        };
        let mut results = Results {
            trials: vec![Trial::default(), trial(1, 0)],
            ..Results::default()
        };
        assert_eq!(failed_in_restarts(&results), None);
        results.trials.extend([trial(2, 3), trial(3, 4)]);
        assert_eq!(
            failed_in_restarts(&results).unwrap(),
            "7 requests failed under restarts, the first under highball in round 2"
        );
    }

    #[test]
    fn figures_of_a_partial_or_quick_run_are_not_published() {
        let benchmark = benchmark();
        let output = |line: &str| arguments(line).output(&benchmark);
        assert_eq!(output(""), Path::new("docs"));
        assert_eq!(output("--report-only"), Path::new("docs"));
        assert_eq!(output("--quick"), Path::new("target/bench"));
        assert_eq!(output("--only idle"), Path::new("target/bench"));
        assert_eq!(output("--only idle --output docs"), Path::new("docs"));
    }

    #[test]
    fn a_page_is_not_replaced_by_one_with_less() {
        let output = tempfile::tempdir().unwrap();
        let output = output.path();
        let benchmark = benchmark();
        let refused = |parts: &[&Part]| {
            let refused = refuse_to_lose_figures(&benchmark, parts, "performance", output);
            refused.map_err(|error| error.to_string())
        };
        let [first, second, rest @ ..] = benchmark.parts.as_slice() else {
            panic!("there are several parts")
        };
        assert_eq!(refused(&[first]), Ok(()), "there is no page");

        let page = format!(
            "### {}\n\nNot measured.\n\n### {}\n\nFigures.\n",
            first.title, second.title
        );
        fs::write(output.join("performance.md"), page).unwrap();
        assert_eq!(refused(&[second]), Ok(()));
        let error = refused(&[first]).unwrap_err();
        assert!(
            error.contains(&format!("figures of {},", second.id)),
            "{error}"
        );
        assert!(rest.iter().all(|part| !error.contains(&part.id)), "{error}");

        let folder = output.join("performance").join(&second.id);
        fs::create_dir_all(&folder).unwrap();
        let mut results = Results {
            format: compare::results::FORMAT,
            ..Results::default()
        };
        let save = |results: &Results| {
            let text = serde_json::to_string(results).unwrap();
            fs::write(folder.join("results.json"), text).unwrap();
        };
        save(&results);
        assert!(refused(&[first]).is_err(), "it was stopped midway");
        results.finished = Some("2026-01-01T00:00:00Z".to_owned());
        save(&results);
        assert_eq!(refused(&[first]), Ok(()));
        assert_eq!(refused(&[]), Ok(()));
    }
}
