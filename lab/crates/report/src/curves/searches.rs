//! Charts of the searches for the largest rate: what a stack answers, and how fast, at every rate that was tried.

use super::axis;
use crate::chart::Chart;
use crate::chart::lines::{self, Axis, Lines, Series};
use crate::number::figure;
use crate::words::colour;
use compare::results::{Limit, Peak, Results, Step};

/// A value of each step of the searches, over the demanded rate: one line a search, and a mark for each rate, full where it
/// was held. `words` of a stack's searches describe it.
fn by_rate(
    results: &Results,
    unit: &str,
    of: impl Fn(&Step) -> Option<f64>,
    words: impl Fn(&[&Peak]) -> String,
) -> Vec<Series> {
    let mut all = Vec::new();
    for stack in &results.stacks {
        let searches = results.peaks.iter().filter(|peak| peak.stack == stack.id);
        let searches: Vec<&Peak> = searches.collect();
        let mut series = Series {
            stack: stack.id.clone(),
            colour: colour(results, &stack.id),
            lines: Vec::new(),
            thin: Vec::new(),
            marks: Vec::new(),
            words: words(&searches),
        };
        for peak in &searches {
            let steps = peak.steps.iter().filter(|step| step.limit != Limit::Client);
            let mut points = Vec::new();
            for (step, value) in steps.filter_map(|step| Some((step, of(step)?))) {
                let rate = figure(step.rate);
                let why = step.why.as_deref().unwrap_or("held");
                let tooltip = format!(
                    "{}: {} {unit} at {rate} requests/s, {why}",
                    stack.id,
                    figure(value)
                );
                series
                    .marks
                    .push(((step.rate, value), step.why.is_none(), tooltip));
                points.push((step.rate, value));
            }
            points.sort_by(|a: &(f64, f64), b| a.0.total_cmp(&b.0));
            series.lines.push(points);
        }
        if !series.marks.is_empty() {
            all.push(series);
        }
    }
    all
}

/// Good responses over demanded ones.
pub(crate) fn replies(results: &Results) -> Option<Chart> {
    let held = |searches: &[&Peak]| {
        let rates = searches.iter().map(|peak| peak.last_good);
        format!(
            "held up to {} requests/s",
            figure(rates.fold(0.0, f64::max))
        )
    };
    let series = by_rate(results, "answered", |step| Some(step.achieved), held);
    (!series.is_empty()).then(|| {
        lines::chart(&Lines {
            id: "replies",
            title: "Replies over demand",
            caption: "Each dot is one rate on a fresh server: full where it was held, hollow where it was not. Up to its limit a \
                      stack follows the dashed line; above it a robust stack stays level, and others fall.",
            x: axis("demanded, requests/s"),
            y: axis("answered well, requests/s"),
            series: &series,
            diagonal: Some("all answered"),
        })
    })
}

/// Latency over the demanded rate: the p99, or the median where most steps had too few requests for a p99. `None` where
/// no step has either.
pub(crate) fn latency_over_rate(results: &Results) -> Option<Chart> {
    let steps = results.peaks.iter().flat_map(|peak| &peak.steps);
    let has = |latency: fn(&Step) -> Option<f64>| {
        let steps = steps.clone();
        steps.filter(|step| latency(step).is_some()).count()
    };
    let by_p99 = has(|step| step.p99_ms) * 2 > has(|step| step.p50_ms);
    let (name, latency): (_, fn(&Step) -> Option<f64>) = match by_p99 {
        true => ("p99", |step| step.p99_ms),
        false => ("median", |step| step.p50_ms),
    };
    let slowest = |searches: &[&Peak]| {
        let steps = searches.iter().flat_map(|peak| &peak.steps);
        let held = steps.filter(|step| step.why.is_none());
        let slowest = held.filter_map(latency).fold(0.0, f64::max);
        format!(
            "{name} up to {} ms at the rates that it held",
            figure(slowest)
        )
    };
    let series = by_rate(results, &format!("ms ({name})"), latency, slowest);
    let caption = format!(
        "The {name} at each rate that was tried, on a fresh server: full where the rate was held, hollow where it was not. A \
         flat line is a server that stays quick until its limit; the latency axis is logarithmic."
    );
    (!series.is_empty()).then(|| {
        lines::chart(&Lines {
            id: "latency-over-rate",
            title: "Latency over demand",
            caption: &caption,
            x: axis("demanded, requests/s"),
            y: Axis {
                logarithmic: true,
                ..axis(&format!("{name}, ms"))
            },
            series: &series,
            diagonal: None,
        })
    })
}
