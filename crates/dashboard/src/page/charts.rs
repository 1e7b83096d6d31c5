//! The charts of the page: which figures are drawn how.

use super::Scope;
use crate::chart::lines::{Line, Lines};
use crate::chart::time::{DAY_TICKS, RECENT_TICKS, TimeAxis};
use crate::chart::{Chart, heat, lines};
use crate::series::Point;
use crate::text::{duration, percent, round};
use crate::view::Period;

pub(super) fn charts(scope: &Scope<'_>) -> Vec<Chart> {
    let (points, length_s, step_s, ticks) = match scope.view.period {
        Period::Recent => (&scope.measured.recent, 600, 5.0, RECENT_TICKS),
        Period::Day => (&scope.measured.day, 86_400, 300.0, DAY_TICKS),
    };
    let marks = scope.marks.iter();
    let axis = TimeAxis {
        now: scope.model.server.now,
        length_s,
        step_s,
        ticks,
        marks: marks.map(|(number, mark)| (mark.at, *number)).collect(),
    };
    let line = |colour, name, value: &dyn Fn(&Point) -> Option<f64>| Line {
        name,
        colour,
        points: points
            .iter()
            .map(|point| (point.at, value(point)))
            .collect(),
    };
    let draw = |id, title, unit, name, lines| {
        let logarithmic = id == "chart-latency";
        let lines = Lines {
            id,
            title,
            unit,
            logarithmic,
            name,
            lines,
        };
        lines::chart(&lines, &axis)
    };
    let rate = line(0, "all", &|point| Some(point.rate()));
    let errors = line(1, "errors", &|point| point.error_share().or(Some(0.0)));
    let p50 = line(2, "p50", &|point| point.percentile(0.5));
    let p95 = line(0, "p95", &|point| point.percentile(0.95));
    let p99 = line(1, "p99", &|point| point.percentile(0.99));
    let threads = line(7, "threads", &|point| Some(point.threads as f64));
    let busy = line(0, "busy", &|point| Some(point.busy));
    let waiting = line(1, "waiting", &|point| Some(point.queue as f64));
    let memory = line(3, "all processes", &|point| {
        point
            .memory_bytes
            .map(|bytes| bytes as f64 / f64::from(1 << 20))
    });
    vec![
        draw("chart-rate", "Requests", "a second", round, vec![rate]),
        draw(
            "chart-errors",
            "Errors",
            "share of requests",
            percent,
            vec![errors],
        ),
        draw(
            "chart-latency",
            "Latency",
            "with the queue",
            duration,
            vec![p50, p95, p99],
        ),
        heat::chart("chart-heat", "Latency of all requests", points, &axis),
        draw(
            "chart-threads",
            "Threads and queue",
            "",
            round,
            vec![threads, busy, waiting],
        ),
        draw("chart-memory", "Memory", "PSS in MiB", round, vec![memory]),
    ]
}
