//! The tables of a report, as data: the page and the terminal print the same ones.

use serde::Serialize;

use super::number::{counted, differences, figure, interval, seconds, within};
use super::words::{capitalised, colour, error_share, name, short};
use compare::results::{Limit, Load, Results, Trial};
use compare::statistics::median;
use compare::statistics::starts::merged;
use compare::verdict::measure::MEGABYTE;
use compare::verdict::{Judgement, Measure, Verdict, Versus, admission};
use loadgen::outcome::Latency;
pub(super) use peaks::peaks;
pub(super) use special::{under_restart, with_idle_connections};

mod peaks;
mod special;

/// A table.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct Table {
    /// What it shows.
    pub(super) caption: String,
    /// Column heads; the first column names the row.
    pub(super) heads: Vec<Head>,
    pub(super) rows: Vec<Row>,
}

/// A column's head.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct Head {
    pub(super) title: String,
    /// The unit, below the title; may be empty.
    pub(super) unit: String,
    /// Both in a word or two, for terminals; empty where the title is that short.
    pub(super) brief: String,
    /// `long` above texts that wrap, or empty.
    pub(super) kind: &'static str,
}

impl Head {
    fn brief(mut self, brief: &str) -> Self {
        self.brief = brief.into();
        self
    }
}

/// One stack's row.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct Row {
    pub(super) name: String,
    /// The stack's id.
    pub(super) id: String,
    /// The stack's place among the colours; `None` for what has none.
    pub(super) colour: Option<usize>,
    pub(super) cells: Vec<Cell>,
}

/// A cell.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct Cell {
    pub(super) text: String,
    /// Below it, smaller; may be empty.
    pub(super) detail: String,
    /// What a verdict makes of it: `better`, `worse`, `close`, or empty.
    pub(super) kind: &'static str,
    /// All of it, for terminals; empty where the text is enough.
    pub(super) brief: String,
}

impl Cell {
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            ..Self::default()
        }
    }

    pub(super) fn with(text: impl Into<String>, detail: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            detail: detail.into(),
            ..Self::default()
        }
    }
}

fn dash() -> Cell {
    Cell::new("–")
}

pub(super) fn head(title: &str, unit: &str) -> Head {
    Head {
        title: title.into(),
        unit: unit.into(),
        ..Head::default()
    }
}

fn row(results: &Results, id: &str, cells: Vec<Cell>) -> Row {
    Row {
        name: name(results, id).to_owned(),
        id: id.to_owned(),
        colour: Some(colour(results, id)),
        cells,
    }
}

/// The stacks in the order of the headline's ranking, then those that do not rank.
fn order<'a>(
    results: &'a Results,
    judgement: &Judgement<'a>,
    measure: Measure,
    load: Option<&str>,
) -> Vec<&'a str> {
    let finding = judgement.finding(measure, load);
    let ranking = finding.map(|finding| finding.ranking()).unwrap_or_default();
    let mut order: Vec<&str> = ranking.iter().map(|figure| figure.stack).collect();
    for stack in &results.stacks {
        if !order.contains(&stack.id.as_str()) {
            order.push(&stack.id);
        }
    }
    order
}

/// Every stack's figures under a load, the best first.
pub(super) fn figures(results: &Results, judgement: &Judgement<'_>, load: &Load) -> Table {
    let tail = tail_measure(judgement, load);
    let headline = if load.open { tail } else { Measure::Rate };
    let tail_name = tail.title().trim_end_matches(" latency");
    let mut table = Table {
        caption: format!("Figures: {}", load.title),
        heads: vec![
            head("Place", "").brief("#"),
            head("Requests per second", "95 % interval").brief("requests/s"),
            head("p50", "ms").brief("p50 ms"),
            head(tail_name, "ms").brief(&format!("{tail_name} ms")),
            head("p99.9", "ms").brief("p99.9 ms"),
            head("CPU per request", "µs").brief("CPU µs"),
            head("Memory", "MB").brief("MB"),
            head("Failed", "of requests").brief("failed"),
            head("Limit", "").brief("limit"),
            head("Trials", "that count").brief("trials"),
        ],
        rows: Vec::new(),
    };
    for id in order(results, judgement, headline, Some(&load.id)) {
        let of_load = |trial: &&Trial| trial.stack == id && trial.load == load.id;
        let all: Vec<&Trial> = results.trials.iter().filter(of_load).collect();
        if all.is_empty() {
            continue;
        }
        let find = |measure| judgement.finding(measure, Some(&load.id))?.of(id);
        let plain =
            |measure| find(measure).map_or_else(dash, |of| Cell::new(figure(of.estimate.value)));
        let rank = find(headline).and_then(|figure| figure.rank);
        let place = match rank {
            Some(rank) => Cell::new(rank.to_string()),
            None => Cell {
                brief: "–".into(),
                kind: "word",
                ..Cell::new("not ranked")
            },
        };
        let rate = find(Measure::Rate).map_or_else(dash, |of| Cell {
            brief: within(of.estimate),
            ..Cell::with(
                figure(of.estimate.value),
                interval(of.estimate).unwrap_or_default(),
            )
        });
        let set_aside = judgement
            .set_aside
            .iter()
            .filter(|one| one.stack == id && one.load.as_deref() == Some(&load.id));
        let counting = all.len() - set_aside.count();
        let cells = vec![
            place,
            rate,
            plain(Measure::P50),
            plain(tail),
            p999(&all),
            plain(Measure::Cpu),
            plain(Measure::Memory),
            Cell::new(failed(&all)),
            Cell::new(limit(&all, load)),
            Cell::new(format!("{counting} of {}", all.len())),
        ];
        table.rows.push(row(results, id, cells));
    }
    table
}

/// The measure that stands for a load's slow requests: p99, or p95 or p90 where there are too few requests for it.
pub(super) fn tail_measure(judgement: &Judgement<'_>, load: &Load) -> Measure {
    let tail = judgement.tail(&load.id).first();
    tail.copied().unwrap_or(Measure::P99)
}

/// The p99.9 of all trials together, where they are enough for it.
fn p999(trials: &[&Trial]) -> Cell {
    let of = |trial: &&Trial| trial.failure.is_none();
    let latencies = trials
        .iter()
        .copied()
        .filter(of)
        .map(|trial| &trial.outcome.latency);
    let all: Latency = merged(latencies);
    all.percentile_ms(99.9)
        .map_or_else(dash, |value| Cell::new(figure(value)))
}

/// Failed and wrong responses over demanded ones, of all trials with figures.
fn failed(trials: &[&Trial]) -> String {
    let outcomes = || {
        trials
            .iter()
            .filter(|trial| trial.failure.is_none())
            .map(|trial| &trial.outcome)
    };
    let demanded: u64 = outcomes().map(|outcome| outcome.demanded).sum();
    if demanded == 0 {
        return "–".into();
    }
    let bad: u64 = outcomes()
        .map(|outcome| {
            let wrong = outcome
                .completed
                .saturating_sub(outcome.good)
                .max(outcome.errors.unexpected);
            let lost =
                outcome.errors.total() - outcome.errors.unexpected - outcome.errors.unanswered;
            wrong + lost
        })
        .sum();
    error_share(bad as f64 / demanded as f64)
}

/// What limited most trials.
fn limit(trials: &[&Trial], load: &Load) -> &'static str {
    let with_figures = || trials.iter().filter(|trial| trial.failure.is_none());
    let count = |limit| {
        let limited = |trial: &&&Trial| admission::limit(trial, Some(load)) == limit;
        with_figures().filter(limited).count()
    };
    let limits = [
        (count(Limit::Client), "generator"),
        (count(Limit::Neither), "neither"),
        (count(Limit::Server), "server"),
    ];
    limits
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .max_by_key(|(count, _)| *count)
        .map_or("–", |(_, name)| name)
}

/// Compares every other stack with the first one; `None` where there is no other.
pub(super) fn verdicts(results: &Results, judgement: &Judgement<'_>, load: &Load) -> Option<Table> {
    let [first, others @ ..] = results.stacks.as_slice() else {
        return None;
    };
    let mut columns = vec![Measure::Rate, Measure::P50];
    columns.extend_from_slice(judgement.tail(&load.id));
    columns.extend([Measure::Cpu, Measure::Memory]);
    let mut table = Table {
        caption: format!(
            "Compared with {} ({})",
            name(results, &first.id),
            load.title
        ),
        heads: columns
            .iter()
            .map(|measure| head(&capitalised(measure.title()), "95 % interval"))
            .collect(),
        rows: Vec::new(),
    };
    for stack in others {
        let cells: Vec<Cell> = columns
            .iter()
            .map(|measure| {
                let finding = judgement.finding(*measure, Some(&load.id));
                let versus = finding.and_then(|finding| finding.versus(&stack.id, &first.id));
                versus.map_or_else(dash, |versus| verdict(*measure, versus))
            })
            .collect();
        if cells.iter().any(|cell| cell.text != "–") {
            table.rows.push(row(results, &stack.id, cells));
        }
    }
    (!table.rows.is_empty()).then_some(table)
}

fn verdict(measure: Measure, versus: Versus) -> Cell {
    let Some(ratio) = versus.ratio else {
        return dash();
    };
    Cell {
        text: short(measure, ratio, versus.verdict),
        detail: differences(ratio).unwrap_or_default(),
        kind: match versus.verdict {
            Verdict::Better => "better",
            Verdict::Worse => "worse",
            Verdict::TooClose => "close",
            Verdict::Unknown => "",
        },
        ..Cell::default()
    }
}

/// Memory of every stack under the first load: medians over the trials.
pub(super) fn memory(results: &Results, load: &Load) -> Option<Table> {
    let mut table = Table {
        caption: format!("Memory and processes: {}", load.title),
        heads: vec![
            head("Start", "until it answers"),
            head("Processes", ""),
            head("Idle", "MB (PSS)"),
            head("Under load", "MB (PSS), most"),
            head("After", "MB (PSS)"),
            head("Private dirty", "MB, after"),
            head("By free", "MB"),
        ],
        rows: Vec::new(),
    };
    for stack in &results.stacks {
        let of = |trial: &&Trial| {
            trial.stack == stack.id && trial.load == load.id && trial.failure.is_none()
        };
        let trials: Vec<&Trial> = results.trials.iter().filter(of).collect();
        if trials.is_empty() {
            continue;
        }
        let middle = |value: &dyn Fn(&Trial) -> f64| {
            median(&trials.iter().map(|trial| value(trial)).collect::<Vec<_>>()).unwrap_or_default()
        };
        let megabytes = |value: &dyn Fn(&Trial) -> f64| Cell::new(figure(middle(value) / MEGABYTE));
        let cells = vec![
            Cell::new(seconds(middle(&|trial| trial.boot_s))),
            Cell::new(figure_of_count(middle(&|trial| trial.processes as f64))),
            megabytes(&|trial| trial.memory.idle.pss as f64),
            megabytes(&|trial| Measure::Memory.of(trial).unwrap_or_default() * MEGABYTE),
            megabytes(&|trial| trial.memory.after.pss as f64),
            megabytes(&|trial| trial.memory.after.private_dirty as f64),
            megabytes(&|trial| trial.memory.free_difference as f64),
        ];
        table.rows.push(row(results, &stack.id, cells));
    }
    (!table.rows.is_empty()).then_some(table)
}

fn figure_of_count(value: f64) -> String {
    format!("{value:.0}")
}

/// What took part: name, versions, workers.
pub(super) fn took_part(results: &Results) -> String {
    let rounds = counted(results.rounds, "round");
    let stacks = counted(results.stacks.len(), "stack");
    let loads = counted(results.loads.len(), "load");
    format!("{stacks}, {loads}, {rounds}")
}
