//! `report.html`: one file that opens offline. Nothing in it is fetched from elsewhere and no script is needed; what
//! comes from outside (names, logs, commands) is escaped by the template.

use anyhow::{Context, Result};
use minijinja::Environment;
use minijinja::value::Serde;
use serde::Serialize;

use super::chart::Chart;
use super::curves;
use super::explain;
use super::number::{count, counted, figure, round, seconds};
use super::table::{self, Table};
use super::then_and_now::ThenAndNow;
use super::warnings::{load_title, warnings};
use super::words::{Sentence, answer, capitalised, colour, name};
use compare::results::{Load, Missing, Results, Stack};
use compare::verdict::{Judgement, Measure, judge};
use loadgen::plan::Arrivals;
use study::{OfStudy, Study, of_study, orders};

pub(super) mod study;

/// What a report is made from.
#[derive(Debug, Clone, Copy)]
pub struct Page<'a> {
    /// What the comparison found.
    pub results: &'a Results,
    /// Published figures next to today's, where the comparison repeats a study.
    pub study: Option<&'a ThenAndNow>,
}

const TEMPLATE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");

/// What is shown of one load.
#[derive(Debug, Serialize)]
struct OfLoad {
    id: String,
    title: String,
    about: String,
    figures: Table,
    /// Tables of what else the load did: idle connections, a restart.
    special: Vec<Table>,
    verdicts: Option<Table>,
    charts: Vec<Chart>,
}

/// A stack as it was deployed.
#[derive(Debug, Serialize)]
struct Deployed<'a> {
    name: &'a str,
    id: &'a str,
    colour: usize,
    shape: String,
    versions: String,
    note: &'a str,
    environment: String,
    commands: &'a [String],
    files: &'a [(String, String)],
}

/// Writes the whole page.
///
/// # Errors
/// When the template and what is put into it do not fit: a mistake in this module.
pub(super) fn render(page: &Page<'_>) -> Result<String> {
    let results = page.results;
    let judgement = judge(results);
    let mut environment = Environment::new();
    environment
        .add_template("page.html", TEMPLATE)
        .context("the report's template")?;
    let loads: Vec<OfLoad> = results
        .loads
        .iter()
        .filter(|load| results.trials.iter().any(|trial| trial.load == load.id))
        .map(|load| of_load(results, &judgement, load))
        .collect();
    let first = results.loads.first();
    let memory = first.and_then(|load| table::memory(results, load));
    let memory_chart = first.and_then(|load| curves::memory(results, load));
    let efficiency = first.map(|load| curves::efficiency(results, &judgement, load));
    let peak_chart = judgement.finding(Measure::Peak, None);
    let peak_charts: Vec<Chart> = peak_chart
        .map(|finding| curves::dots(results, finding))
        .into_iter()
        .chain(curves::latency_over_rate(results))
        .chain(curves::replies(results))
        .collect();
    let study = page.study.map(|study| {
        let findings = study.findings.iter();
        findings
            .enumerate()
            .map(|(index, finding)| of_study(results, finding, index))
            .collect::<Vec<_>>()
    });
    let view = View {
        style: STYLE,
        results: Overview::of(results),
        answer: answer(results, &judgement)
            .into_iter()
            .chain(page.study.map(orders).unwrap_or_default())
            .collect(),
        banner: judgement.contamination.map(|one| one.to_string()),
        warnings: warnings(results, &judgement),
        study: page.study.map(Study::of),
        findings: study.unwrap_or_default(),
        loads,
        first_load: first
            .map(|load| capitalised(&load.title))
            .unwrap_or_default(),
        peaks: table::peaks(results, &judgement),
        criterion: criterion(results),
        peak_charts,
        memory,
        memory_chart,
        efficiency: efficiency.unwrap_or_default(),
        failures: failures(results),
        missing: &results.missing,
        deployed: results
            .stacks
            .iter()
            .map(|stack| deployed(results, stack))
            .collect(),
        facts: facts(results),
    };
    environment
        .get_template("page.html")
        .and_then(|template| template.render(Serde(&view)))
        .context("the report's template")
}

/// What the template is given.
#[derive(Debug, Serialize)]
struct View<'a> {
    style: &'static str,
    results: Overview<'a>,
    answer: Vec<Sentence>,
    /// What makes the comparison as a whole worthless.
    banner: Option<String>,
    warnings: Vec<String>,
    study: Option<Study<'a>>,
    findings: Vec<OfStudy>,
    loads: Vec<OfLoad>,
    first_load: String,
    peaks: Option<Table>,
    criterion: String,
    peak_charts: Vec<Chart>,
    memory: Option<Table>,
    memory_chart: Option<Chart>,
    efficiency: Vec<Chart>,
    failures: Vec<(String, &'a str)>,
    missing: &'a [Missing],
    deployed: Vec<Deployed<'a>>,
    facts: Vec<(String, String)>,
}

/// The head of the page.
#[derive(Debug, Serialize)]
struct Overview<'a> {
    title: &'a str,
    application: &'a str,
    about: &'a str,
    began: String,
    extent: String,
    quick: bool,
    stopped: bool,
    command: &'a str,
}

impl<'a> Overview<'a> {
    fn of(results: &'a Results) -> Self {
        Self {
            title: &results.title,
            application: &results.application.name,
            about: &results.application.about,
            began: moment(&results.started),
            extent: table::took_part(results),
            quick: results.quick,
            stopped: results.finished.is_none(),
            command: &results.command,
        }
    }
}

/// `2026-11-21T09:44:56Z` as `2026-11-21, 09:44 UTC`; anything else as it is.
fn moment(text: &str) -> String {
    match (text.get(..10), text.get(11..16), text.ends_with('Z')) {
        (Some(day), Some(time), true) => format!("{day}, {time}\u{a0}UTC"),
        _ => text.to_owned(),
    }
}

fn of_load(results: &Results, judgement: &Judgement<'_>, load: &Load) -> OfLoad {
    let find = |measure| judgement.finding(measure, Some(&load.id));
    let dotted = match load.open {
        true => table::tail_measure(judgement, load),
        false => Measure::Rate,
    };
    let charts = find(dotted).map(|finding| curves::dots(results, finding));
    let latencies = curves::latencies(results, load)
        .map(|chart| chart.with_notes(explain::latencies(results, load)));
    let charts = charts
        .into_iter()
        .chain(latencies)
        .chain(curves::latency_over_time(results, load))
        .chain(curves::rate_over_time(results, load))
        .chain(curves::cpu_parts(results, load));
    let special = [
        table::with_idle_connections(results, load),
        table::under_restart(results, load),
    ];
    OfLoad {
        id: load.id.clone(),
        title: capitalised(&load.title),
        about: about(load),
        figures: table::figures(results, judgement, load),
        special: special.into_iter().flatten().collect(),
        verdicts: table::verdicts(results, judgement, load),
        charts: charts.collect(),
    }
}

/// What was sent, in a sentence or two.
fn about(load: &Load) -> String {
    let size = round(load.size);
    let how = match (load.open, load.arrivals) {
        (true, Arrivals::Poisson) => format!(
            "{size} requests a second leave at random times, whether or not earlier ones were answered, as from \
             independent visitors. What counts is latency."
        ),
        (true, Arrivals::Constant) => format!(
            "{size} requests a second leave at equal distances, whether or not earlier ones were answered. What \
             counts is latency."
        ),
        (false, _) if load.size == 1.0 => {
            "One connection, which sends its next request when the last one is answered. \
                                           What counts is how many get through."
                .to_owned()
        }
        (false, _) => format!(
            "{size} connections, each of which sends its next request when the last one is answered. What \
             counts is how many get through."
        ),
    };
    let calls = match load.calls {
        None => String::new(),
        Some(1) => " Each request has a connection of its own.".to_owned(),
        Some(calls) => format!(" A connection carries {calls} requests."),
    };
    let length = match load.count {
        Some(requests) => count(requests) + " requests",
        None => capitalised(&seconds(load.duration_s)),
    };
    let total: f64 = load.requests.iter().map(|(_, weight)| weight).sum();
    let requests = load.requests.iter().map(|(name, weight)| {
        if load.requests.len() == 1 || total <= 0.0 {
            name.clone()
        } else {
            format!("{name} ({:.0}\u{a0}%)", weight / total * 100.0)
        }
    });
    let requests: Vec<String> = requests.collect();
    let sent = if requests.is_empty() {
        String::new()
    } else {
        format!(" Sent: {}.", requests.join(", "))
    };
    let ceiling = load.ceiling.map_or(String::new(), |rate| {
        let rate = figure(rate);
        format!(" The load generator itself can take {rate} responses a second of this here.")
    });
    format!("{how}{calls} {length} for each trial.{sent}{ceiling}")
}

fn deployed<'a>(results: &Results, stack: &'a Stack) -> Deployed<'a> {
    let versions = stack.versions.iter();
    let versions: Vec<String> = versions
        .map(|(name, version)| format!("{name} {version}"))
        .collect();
    let variables = stack.environment.iter();
    let variables: Vec<String> = variables
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    Deployed {
        name: if stack.name.is_empty() {
            &stack.id
        } else {
            &stack.name
        },
        id: &stack.id,
        colour: colour(results, &stack.id) % super::chart::COLOURS,
        shape: format!(
            "{}, {} each",
            counted(stack.workers, "worker"),
            counted(stack.threads, "thread")
        ),
        versions: versions.join(", "),
        note: &stack.note,
        environment: variables.join(" "),
        commands: &stack.commands,
        files: &stack.files,
    }
}

/// The latency limit of the searches, in a sentence; empty without searches. Searches of earlier versions gave each stack
/// a limit of its own.
fn criterion(results: &Results) -> String {
    let peaks = results.peaks.iter();
    let limited = peaks.filter(|peak| !peak.criterion.is_empty());
    let mut limits: Vec<(&str, &str)> = limited
        .map(|peak| (peak.stack.as_str(), peak.criterion.as_str()))
        .collect();
    limits.sort_by_key(|(stack, _)| colour(results, stack));
    limits.dedup();
    match limits.as_slice() {
        [] => String::new(),
        [(_, first), ..] if limits.iter().all(|(_, limit)| limit == first) => {
            format!("Quick enough means for every stack: {first}.")
        }
        _ => {
            let limits = limits.iter();
            let each: Vec<String> = limits
                .map(|(stack, limit)| format!("for {} {limit}", name(results, stack)))
                .collect();
            format!(
                "Quick enough means another latency for each stack, so the rates are not held under one limit: {}.",
                each.join("; ")
            )
        }
    }
}

/// The full failure texts of trials, where they have more lines than the warning shows.
fn failures(results: &Results) -> Vec<(String, &str)> {
    let trials = results.trials.iter().filter_map(|trial| {
        let text = trial.failure.as_deref()?;
        let load = load_title(results, &trial.load);
        Some((&trial.stack, load, trial.round, text))
    });
    let searches = results.peaks.iter().filter_map(|peak| {
        let text = peak.failure.as_deref()?;
        Some((&peak.stack, "search for the largest rate", peak.round, text))
    });
    trials
        .chain(searches)
        .filter(|(.., text)| text.trim_end().contains('\n'))
        .map(|(stack, what, round, text)| {
            let stack = name(results, stack);
            (format!("{stack}, {what}, round {round}"), text)
        })
        .collect()
}

/// Machine, software and application: name and what was found.
fn facts(results: &Results) -> Vec<(String, String)> {
    let mut facts = results.machine.facts.clone();
    let cores = |cores: &[usize]| match cores {
        [] => "left to the kernel".to_owned(),
        cores => cores
            .iter()
            .map(usize::to_string)
            .collect::<Vec<_>>()
            .join(", "),
    };
    facts.push(("Servers' cores".into(), cores(&results.placement.server)));
    facts.push((
        "Generator's cores".into(),
        cores(&results.placement.generator),
    ));
    facts.extend(results.machine.versions.iter().cloned());
    let application = results.application.versions.iter();
    facts.extend(application.map(|(name, version)| (name.clone(), version.clone())));
    facts.extend(
        results
            .application
            .commit
            .iter()
            .map(|id| ("Application's commit".into(), id.clone())),
    );
    facts.push(("Seed".into(), results.seed.to_string()));
    facts
}
