//! The charts of a report and their data; [`super::chart`] draws them.

use std::collections::BTreeMap;

use super::chart::lines::{Axis, Lines, Series};
use super::chart::{COLOURS, Chart, dots, lines, pairs};
use super::number::figure;
use super::then_and_now::Finding as Published;
use super::words::{capitalised, colour};
use compare::results::{Load, Results, Trial};
use compare::statistics::starts::merged;
use compare::verdict::measure::MEGABYTE;
use compare::verdict::{Finding, Judgement, Measure};
use loadgen::outcome::Latency;
pub(super) use searches::{latency_over_rate, replies};
pub(super) use trials::{cpu_parts, latency_over_time};

mod searches;
mod trials;

/// One measure of every stack, with intervals.
pub(super) fn dots(results: &Results, finding: &Finding<'_>) -> Chart {
    let mut rows: Vec<dots::Row> = finding
        .figures
        .iter()
        .map(|figure| dots::Row {
            stack: figure.stack.to_owned(),
            colour: colour(results, figure.stack),
            estimate: figure.estimate,
            values: figure.values.iter().map(|(_, value)| *value).collect(),
            ranks: figure.rank.is_some(),
        })
        .collect();
    let sign = if finding.measure.more_is_better() {
        -1.0
    } else {
        1.0
    };
    rows.sort_by(|a, b| (sign * a.estimate.value).total_cmp(&(sign * b.estimate.value)));
    let load = finding.load.map_or("", |load| load.id.as_str());
    let id = format!("{}-{load}", finding.measure.id());
    let better = if finding.measure.more_is_better() {
        "right"
    } else {
        "left"
    };
    let caption = format!(
        "Large dot: the value over all trials, with its 95 % interval; an end without a cap is outside of the chart. Small \
         dots: single trials. Better is to the {better}."
    );
    dots::chart(
        &id,
        &capitalised(finding.measure.title()),
        &caption,
        finding.measure.unit(),
        &rows,
    )
}

fn measured<'a>(
    results: &'a Results,
    stack: &'a str,
    load: &'a str,
) -> impl Iterator<Item = &'a Trial> {
    results
        .trials
        .iter()
        .filter(move |trial| trial.stack == stack && trial.load == load && trial.failure.is_none())
}

/// Latency over percentiles, all trials of a stack together.
pub(super) fn latencies(results: &Results, load: &Load) -> Option<Chart> {
    let mut series = Vec::new();
    for stack in &results.stacks {
        let all =
            merged(measured(results, &stack.id, &load.id).map(|trial| &trial.outcome.latency));
        let points = percentiles(&all, 0.04);
        if points.is_empty() {
            continue;
        }
        let words = [50.0, 99.0, 99.9].iter().filter_map(|percent| {
            Some(format!(
                "p{percent} {} ms",
                figure(all.percentile_ms(*percent)?)
            ))
        });
        series.push(Series {
            stack: stack.id.clone(),
            colour: colour(results, &stack.id),
            lines: vec![points],
            thin: single_trials(results, &stack.id, load, |trial| {
                percentiles(&trial.outcome.latency, 0.08)
            }),
            marks: Vec::new(),
            words: words.collect::<Vec<_>>().join(", "),
        });
    }
    let furthest = series
        .iter()
        .flat_map(|series| series.lines.iter().flatten());
    let furthest = furthest.map(|point| point.0).fold(0.0, f64::max);
    let ticks = [
        (0.0, "0"),
        (50.0, "50 %"),
        (90.0, "90 %"),
        (99.0, "99 %"),
        (99.9, "99.9 %"),
        (99.99, "99.99 %"),
    ];
    let ticks = ticks
        .iter()
        .map(|(percent, text)| (nines(*percent), (*text).to_owned()));
    let id = format!("latency-{}", load.id);
    (!series.is_empty()).then(|| {
        lines::chart(&Lines {
            id: &id,
            title: "Latency distribution",
            caption: "How long the given share of requests took at most, from the moment at which they were due. Thin lines are \
                      single trials. Both axes are logarithmic; lower is better, and a line that rises steeply at the right \
                      means that few requests are very slow.",
            x: Axis {
                title: "share of requests answered by then".into(),
                logarithmic: false,
                ticks: Some(ticks.filter(|(at, _)| *at <= furthest + 1e-9).collect()),
            },
            y: Axis {
                title: "latency, ms".into(),
                logarithmic: true,
                ticks: None,
            },
            series: &series,
            diagonal: None,
        })
    })
}

/// Position of a percentile on the axis: each further nine is one step.
fn nines(percent: f64) -> f64 {
    -(1.0 - percent / 100.0).log10()
}

/// The points of each trial of a stack, for thin lines; none where so many stacks would hide each other.
fn single_trials(
    results: &Results,
    stack: &str,
    load: &Load,
    points: impl Fn(&Trial) -> Vec<(f64, f64)>,
) -> Vec<Vec<(f64, f64)>> {
    let trials = measured(results, stack, &load.id);
    match results.stacks.len() > COLOURS {
        true => Vec::new(),
        false => trials.map(points).filter(|line| line.len() > 1).collect(),
    }
}

/// The distribution in steps of the axis, up to the percentile that ten requests exceed.
fn percentiles(latency: &Latency, step: f64) -> Vec<(f64, f64)> {
    let steps = (1..=(4.0 / step) as u32).map(|index| f64::from(index) * step);
    steps
        .filter_map(|at| {
            let percent = 100.0 * (1.0 - 10_f64.powf(-at));
            Some((at, latency.percentile_ms(percent)?))
        })
        .collect()
}

fn axis(title: &str) -> Axis {
    Axis {
        title: title.into(),
        logarithmic: false,
        ticks: None,
    }
}

/// Lines with more points than this have no dots.
const DOTS: usize = 20;

/// A value of each second of a load: for each stack the mean over its trials, and the trials as thin lines. `of` a trial
/// gives seconds since the load's begin and values in `unit`; `words` of a stack begin its description.
fn by_second(
    results: &Results,
    load: &Load,
    unit: &str,
    of: impl Fn(&Trial) -> Vec<(f64, f64)>,
    words: impl Fn(&str) -> String,
) -> Vec<Series> {
    let mut series = Vec::new();
    for stack in &results.stacks {
        let mut seconds: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
        for (at, value) in measured(results, &stack.id, &load.id).flat_map(&of) {
            let values = seconds.entry(at.max(0.0).round() as u64).or_default();
            values.push(value);
        }
        // A second that few trials reached would make a step of its own.
        let most = seconds.values().map(Vec::len).max().unwrap_or_default();
        seconds.retain(|_, values| values.len() * 2 > most);
        let points: Vec<(f64, f64)> = seconds
            .iter()
            .map(|(at, values)| (*at as f64, mean(values)))
            .collect();
        let (Some(first), Some(last)) = (points.first(), points.last()) else {
            continue;
        };
        let words = format!(
            "{}{} {unit} at the load's beginning, {} {unit} at its end",
            words(&stack.id),
            figure(first.1),
            figure(last.1)
        );
        series.push(Series {
            stack: stack.id.clone(),
            colour: colour(results, &stack.id),
            marks: points
                .iter()
                .filter(|_| points.len() <= DOTS)
                .map(|(at, value)| {
                    let words = format!("{}: {} {unit} after {at} s", stack.id, figure(*value));
                    ((*at, *value), true, words)
                })
                .collect(),
            lines: vec![points],
            thin: single_trials(results, &stack.id, load, &of),
            words,
        });
    }
    series
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// The rate of a closed loop, second by second; `None` where it has less than two.
pub(super) fn rate_over_time(results: &Results, load: &Load) -> Option<Chart> {
    let rates = |trial: &Trial| -> Vec<(f64, f64)> {
        let rates = trial.outcome.rates();
        let numbered = rates.iter().zip(1..);
        numbered
            .map(|(rate, second)| (f64::from(second), *rate))
            .collect()
    };
    let series = by_second(results, load, "requests/s", rates, |_| String::new());
    let lasts = series.iter().any(|one| one.lines[0].len() > 1);
    let id = format!("rate-over-time-{}", load.id);
    (!load.open && lasts).then(|| {
        lines::chart(&Lines {
            id: &id,
            title: "Rate over the load",
            caption: "Good responses of each second, mean over a stack's trials; thin lines are single trials. A line that \
                      falls is a stack that slows down, one that rises a stack that was not warm.",
            x: axis("seconds of load"),
            y: axis("requests per second"),
            series: &series,
            diagonal: None,
        })
    })
}

/// Memory under load, second by second: means over the trials.
pub(super) fn memory(results: &Results, load: &Load) -> Option<Chart> {
    let pss = |trial: &Trial| -> Vec<(f64, f64)> {
        let samples = trial.memory.under_load.iter();
        samples
            .map(|(at, sample)| (*at, sample.pss as f64 / MEGABYTE))
            .collect()
    };
    let idle = |stack: &str| {
        let idle = measured(results, stack, &load.id);
        let idle: Vec<f64> = idle
            .map(|trial| trial.memory.idle.pss as f64 / MEGABYTE)
            .collect();
        format!("{} MB idle, ", figure(mean(&idle)))
    };
    let series = by_second(results, load, "MB", pss, idle);
    let id = format!("memory-{}", load.id);
    (!series.is_empty()).then(|| {
        lines::chart(&Lines {
            id: &id,
            title: "Memory under load",
            caption: "All processes of a stack together, mean over its trials; thin lines are single trials. Shared pages are \
                      divided among the processes that share them (PSS). A line that keeps rising is memory that is not given back.",
            x: axis("seconds of load"),
            y: axis("memory, MB"),
            series: &series,
            diagonal: None,
        })
    })
}

/// A study's ratios then and now; `None` where fewer than two participants have one.
pub(super) fn then_and_now(results: &Results, finding: &Published, index: usize) -> Option<Chart> {
    let reference = finding.reference()?;
    let rows: Vec<pairs::Row> = finding
        .rows
        .iter()
        .map(|row| {
            let (then, now) = finding.ratios(row);
            let stack = row.stack.clone().unwrap_or_default();
            pairs::Row {
                name: row.then_name.clone(),
                colour: colour(results, &stack),
                stack,
                then,
                now,
            }
        })
        .filter(|row| row.then.is_some() || row.now.is_some())
        .collect();
    let title = format!("{}: ratios then and now", finding.title);
    let caption = format!(
        "As multiples of {} then, and of what runs in its place today. Hollow: then. Full: now.",
        reference.then_name
    );
    let id = format!("then-{index}");
    (rows.len() > 1).then(|| pairs::chart(&id, &title, &caption, "ratio", &rows))
}

/// Requests per second for each GB and each core.
pub(super) fn efficiency(results: &Results, judgement: &Judgement<'_>, load: &Load) -> Vec<Chart> {
    [Measure::PerGigabyte, Measure::PerCore]
        .iter()
        .filter_map(|measure| judgement.finding(*measure, Some(&load.id)))
        .map(|finding| dots(results, finding))
        .collect()
}
