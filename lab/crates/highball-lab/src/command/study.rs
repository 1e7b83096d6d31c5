//! `highball study`: lists the studies, or runs one on software of today and holds its figures against the published
//! ones. How that is measured is the comparison's.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ::stacks::server_program;
use anyhow::{Result, bail, ensure};
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use super::comparing::{QUICK, command_line, failures, places, stopped};
use compare::RunOptions;
use compare::lab::Lab;
use compare::results::Results;
use loadgen::duration;
use report::ThenAndNow;
use stacks::{Catalogue, Presence};
use studies::findings::then_and_now;
use studies::plan::{Part, StudyFilter, plan};
use studies::{Application, ELSEWHERE, Participant, Study};

/// What `highball study` takes.
#[derive(Debug, Default, PartialEq, clap::Args)]
pub struct Arguments {
    /// The study; without it all are listed
    name: Option<String>,
    /// The applications to run, of the study's [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', requires = "name")]
    app: Vec<String>,
    /// The participants to run, of the study's [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', requires = "name")]
    participants: Vec<String>,
    /// The loads to send, of the study's [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', requires = "name")]
    load: Vec<String>,
    /// Further stacks, as `highball stacks` names them
    #[arg(long, value_name = "STACKS", value_delimiter = ',', requires = "name")]
    also: Vec<String>,
    /// Starts of each stack under each load; fewer than 5 are indicative [default: 5]
    #[arg(long, value_name = "N", requires = "name")]
    trials: Option<usize>,
    /// Searches for the largest rate of each stack, where the study raised rates [default: 3]
    #[arg(long, value_name = "N", requires = "name")]
    searches: Option<usize>,
    /// Length of each load [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = duration::parse, requires = "name")]
    duration: Option<Duration>,
    /// The longest that a warm-up may take until the rate is steady, at least 10s [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = duration::parse, requires = "name")]
    warm_up: Option<Duration>,
    /// Three short trials of each, for indicative results
    #[arg(long, requires = "name")]
    quick: bool,
    /// Where results go [default: highball-lab/TIME]
    #[arg(long, value_name = "DIR", requires = "name")]
    output: Option<PathBuf>,
    /// Resume a study that was stopped
    #[arg(long, value_name = "DIR", requires = "name", conflicts_with = "output")]
    resume: Option<PathBuf>,
    /// Write the reports of a study again from what was found, and measure nothing
    #[arg(long, value_name = "DIR", requires = "name",
          conflicts_with_all = ["app", "participants", "load", "also", "trials", "searches", "duration", "warm_up", "quick",
                                "output", "resume"])]
    report: Option<PathBuf>,
}

/// Searches for the largest rate in a quick run.
const QUICK_SEARCHES: usize = 1;

/// Lists or runs.
///
/// # Errors
/// There is no such study, nothing of it can be run, what was found can't be written, or a trial failed.
pub(super) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let Some(name) = &arguments.name else {
        super::print(&listing(&Study::list()?, &Catalogue::load(&[])?))?;
        return Ok(ExitCode::SUCCESS);
    };
    let study = Study::load(name)?;
    if let Some(folder) = &arguments.report {
        return tell_again(&study, folder);
    }
    let parts = plan(&study, &arguments.filter())?;
    let stop = super::stop_on_signals()?;
    let given = arguments.resume.as_ref().or(arguments.output.as_ref());
    let (folder, work) = places(given);
    let mut failed = Vec::new();
    for part in &parts {
        let options = RunOptions {
            highball: server_program(),
            command: command_line("highball"),
            folder: place(&folder, &study, part.application),
            work: work.clone(),
            resume: false,
            replace: false,
            stop: &stop,
        };
        let (lab, resume) = plan_of(&folder, &study, &parts, part, arguments.resume.is_some());
        let options = RunOptions { resume, ..options };
        eprintln!(
            "{name}: {} on {}",
            part.application.name,
            lab.stacks.join(", ")
        );
        let results = compare::run(&lab, &options)?;
        if stop.load(Ordering::Relaxed) && results.finished.is_none() {
            return Ok(stopped(&format!("highball study {name}"), &folder));
        }
        tell(&study, part.application, &results, &options.folder)?;
        failed.extend(failures(&results));
    }
    match failed.first() {
        Some(text) => bail!("{text}"),
        None => Ok(ExitCode::SUCCESS),
    }
}

/// Where an application of the study has its results: a folder of its own where the study has several.
fn place(folder: &Path, study: &Study, application: &Application) -> PathBuf {
    match study.applications.len() {
        1 => folder.to_owned(),
        _ => folder.join(&application.id),
    }
}

/// Writes and prints the report of each application that the folder has results of.
fn tell_again(study: &Study, folder: &Path) -> Result<ExitCode> {
    let places = study
        .applications
        .iter()
        .map(|application| (application, place(folder, study, application)));
    let there: Vec<_> = places.filter(|(_, place)| place.is_dir()).collect();
    ensure!(
        !there.is_empty(),
        "{} holds no results of {}",
        folder.display(),
        study.id
    );
    for (application, place) in there {
        tell(study, application, &compare::read(&place)?, &place)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What is run for a part, and whether it was begun: as it was begun then, and one that was not goes as the others went.
fn plan_of(
    folder: &Path,
    study: &Study,
    parts: &[Part<'_>],
    part: &Part<'_>,
    resume: bool,
) -> (Lab, bool) {
    let begun = |part: &Part<'_>| compare::plan_of(&place(folder, study, part.application)).ok();
    if !resume {
        return (part.lab.clone(), false);
    }
    if let Some(own) = begun(part) {
        return (own, true);
    }
    let mut lab = part.lab.clone();
    if let Some(other) = parts.iter().find_map(begun) {
        lab.trials = other.trials;
        lab.duration = other.duration;
        lab.warm_up = other.warm_up;
    }
    (lab, false)
}

/// Writes and prints the report of a part.
fn tell(study: &Study, application: &Application, results: &Results, folder: &Path) -> Result<()> {
    let study = then_and_now(study, application, results);
    let page = report::Page {
        results,
        study: Some(&study),
    };
    report::write(&page, folder)?;
    super::print(&format!(
        "{}\n\n{}\n\nreport: {}\n",
        report::terminal(&page).trim_end(),
        then_and_now_tables(&study).trim_end(),
        folder.join("report.html").display()
    ))
}

impl Arguments {
    fn filter(&self) -> StudyFilter {
        let quick = |value| self.quick.then_some(value);
        StudyFilter {
            applications: self.app.clone(),
            participants: self.participants.clone(),
            loads: self.load.clone(),
            also: self.also.clone(),
            trials: self.trials.or(self.quick.then_some(QUICK.trials)),
            searches: self.searches.or(self.quick.then_some(QUICK_SEARCHES)),
            duration: self.duration.or(quick(QUICK.duration)),
            warm_up: self.warm_up.or(quick(QUICK.warm_up)),
        }
    }
}

/// One paragraph for each study: what it is, on what, with whom, and who of them is here.
fn listing(studies: &[Study], catalogue: &Catalogue) -> String {
    let mut text = String::new();
    // Asking a program for its version takes time, and most stacks take part in several studies.
    let mut installed = BTreeMap::new();
    for study in studies {
        let applications = study
            .applications
            .iter()
            .map(|one| format!("{} ({})", one.id, one.name));
        text.push_str(&format!(
            "{}  {}\n  applications: {}\n",
            study.id,
            study.title,
            applications.collect::<Vec<_>>().join(", ")
        ));
        for one in &study.participants {
            let installed = *installed
                .entry(one.stack.as_str())
                .or_insert_with(|| is_installed(&one.stack, catalogue));
            let today = today(one, installed);
            text.push_str(&format!("  {}: {}, {today}\n", one.id, one.name));
        }
        text.push('\n');
    }
    text.push_str(
        "`highball study NAME` runs one; `highball stacks` says how to install what is missing.\n",
    );
    text
}

fn is_installed(stack: &str, catalogue: &Catalogue) -> bool {
    let presence = catalogue.get(stack).map(|stack| stack.presence());
    matches!(presence, Ok(Presence::Installed { .. }))
}

fn today(participant: &Participant, installed: bool) -> String {
    if participant.stack == ELSEWHERE {
        return "can't be started here".to_owned();
    }
    let kind = match participant.stand_in {
        Some(_) => "stands in",
        None => "is the same",
    };
    let missing = if installed { "" } else { ", not installed" };
    format!("today {} {kind}{missing}", participant.stack)
}

/// Then and now in columns, a table for each measure.
fn then_and_now_tables(study: &ThenAndNow) -> String {
    let mut text = String::new();
    for finding in &study.findings {
        let mut table = Table::new();
        table.load_style(presets::UTF8_HORIZONTAL_ONLY);
        table.set_content_arrangement(ContentArrangement::Dynamic);
        let unit = &finding.unit;
        table.set_header([
            "",
            &format!("then, {unit}"),
            "×",
            "today",
            &format!("now, {unit}"),
            "×",
        ]);
        for row in &finding.rows {
            let (then, now) = finding.ratios(row);
            let number =
                |value: Option<f64>| value.map_or("–".to_owned(), |value| format!("{value:.1}"));
            let ratio =
                |value: Option<f64>| value.map_or("–".to_owned(), |value| format!("{value:.2}"));
            let interval = row.ratio.and_then(|ratio| ratio.interval());
            let interval = interval.map_or_else(String::new, |(low, high)| {
                format!(" ({low:.2} to {high:.2})")
            });
            table.add_row([
                row.then_name.clone(),
                number(row.then),
                ratio(then),
                row.now_name.clone(),
                number(row.now.map(|now| now.value)),
                ratio(now) + &interval,
            ]);
        }
        for index in [1, 2, 4, 5] {
            if let Some(column) = table.column_mut(index) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        text.push_str(&format!("{}\n{table}\n{}\n\n", finding.title, finding.note));
    }
    text
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

    fn arguments(line: &str) -> Result<Arguments> {
        let words = line.split_whitespace();
        Ok(Program::try_parse_from(std::iter::once("study").chain(words))?.arguments)
    }

    #[test]
    fn quick_is_short_and_flags_win_over_it() {
        let filter = arguments("2009-webroar --quick --trials 4 --app redmine,instiki")
            .unwrap()
            .filter();
        assert_eq!(filter.trials, Some(4));
        assert_eq!(filter.duration, Some(QUICK.duration));
        assert_eq!(filter.applications, ["redmine", "instiki"]);
        assert_eq!(arguments("").unwrap().filter(), StudyFilter::default());
    }

    #[test]
    fn all_five_are_listed_with_who_takes_part_today() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../studies");
        let text = listing(&Study::list_in(&folder).unwrap(), &Catalogue::default());
        for line in [
            "2006-mongrel-lighttpd-nginx  High-Performance Ruby On Rails Setups Test",
            "2008-passenger-mongrel-thin  Benchmark: Passenger",
            "2008-performance-and-memory  Performance and memory",
            "2009-webroar  Comparison of Rails Deployment Stacks",
            "2014-passenger-unicorn  Passenger 5.0.0.beta1",
            "  applications: instiki (Instiki), redmine (Redmine), eldorado (El Dorado)",
            "  webroar: WebROaR 0.2.3 (6 maximum workers), today highball stands in, not installed",
            "  litespeed: LiteSpeed, can't be started here",
            "  unicorn: Unicorn 4.8.3, today unicorn is the same, not installed",
        ] {
            assert!(
                text.contains(&format!("\n{line}")) || text.starts_with(line),
                "{line}"
            );
        }
    }

    #[test]
    fn flags_without_a_study_are_refused() {
        for line in [
            "--quick",
            "--output there",
            "x --resume here --output there",
            "--report there",
            "x --report here --resume there",
        ] {
            assert!(arguments(line).is_err(), "{line}");
        }
    }
}
