//! The figures of a load by name, for programs: one list, from which CSV and JSON are made.

use super::number::ratio;
use super::words::{completed_per_second, error_kinds};
use loadgen::outcome::{Latency, Outcome};
use loadgen::plan::Plan;

/// One figure.
#[derive(Debug, PartialEq)]
pub(super) struct Figure {
    /// Unique; parts are joined by dots.
    pub(super) name: String,
    /// Unit, or the noun that is counted.
    pub(super) unit: &'static str,
    /// `None` where there are too few samples for it.
    pub(super) value: Option<f64>,
}

/// Percentiles shown, with their names.
pub(super) const PERCENTILES: [(&str, f64); 5] = [
    ("p50", 50.0),
    ("p75", 75.0),
    ("p90", 90.0),
    ("p99", 99.0),
    ("p99.9", 99.9),
];

/// Returns all figures of an outcome, in a fixed order; statuses only where they occurred.
pub(super) fn figures(plan: &Plan, outcome: &Outcome) -> Vec<Figure> {
    let mut figures = Vec::new();
    let mut add = |name: &str, unit: &'static str, value: f64| {
        figures.push(Figure {
            name: name.to_owned(),
            unit,
            value: Some(value),
        });
    };
    add("elapsed", "s", outcome.elapsed_s);
    add("demanded", "requests", outcome.demanded as f64);
    add("sent", "requests", outcome.sent as f64);
    add("completed", "responses", outcome.completed as f64);
    add("late", "responses", outcome.late as f64);
    add("good", "responses", outcome.good as f64);
    add(
        "rate.demanded",
        "requests/s",
        ratio(outcome.demanded as f64, outcome.elapsed_s),
    );
    add(
        "rate.completed",
        "responses/s",
        completed_per_second(outcome),
    );
    add("rate.good", "responses/s", outcome.good_per_second());
    for (status, count) in &outcome.statuses {
        add(&format!("status.{status}"), "responses", *count as f64);
    }
    add("errors", "requests", outcome.errors.total() as f64);
    for (kind, _, count) in error_kinds(plan, &outcome.errors) {
        add(&format!("errors.{kind}"), "requests", count as f64);
    }
    add("connections", "connections", outcome.connections as f64);
    add("in_flight.peak", "requests", outcome.peak_in_flight as f64);
    add(
        "in_flight.mean",
        "requests",
        ratio(outcome.in_flight_s, outcome.elapsed_s),
    );
    add("bytes.sent", "B", outcome.bytes.sent as f64);
    add("bytes.received", "B", outcome.bytes.received as f64);
    add("bytes.heads", "B", outcome.bytes.heads as f64);
    add("bytes.bodies", "B", outcome.bytes.bodies as f64);
    add(
        "generator.threads",
        "threads",
        outcome.generator.threads as f64,
    );
    add("generator.cores", "cores", outcome.generator.cores);
    add("generator.waited", "share", outcome.generator.waited);
    add(
        "generator.limit",
        "yes or no",
        f64::from(u8::from(outcome.generator.limit.is_some())),
    );
    times(&mut figures, "latency", &outcome.latency);
    times(&mut figures, "service", &outcome.service);
    times(&mut figures, "first_byte", &outcome.first_byte);
    times(&mut figures, "connect", &outcome.connect);
    times(&mut figures, "generator.lag", &outcome.generator.lag);
    times(
        &mut figures,
        "generator.pool_wait",
        &outcome.generator.pool_wait,
    );
    figures
}

fn times(figures: &mut Vec<Figure>, name: &str, latency: &Latency) {
    let known = |value: f64| (latency.count() > 0).then_some(value);
    let mut add = |part: &str, value: Option<f64>| {
        figures.push(Figure {
            name: format!("{name}.{part}"),
            unit: "ms",
            value,
        });
    };
    for (part, percent) in PERCENTILES {
        add(part, latency.percentile_ms(percent));
    }
    add("min", known(latency.min_ms()));
    add("mean", known(latency.mean_ms()));
    add("deviation", known(latency.deviation_ms()));
    add("max", known(latency.max_ms()));
}
