//! What StatsD is told of the server and its applications. It reads figures, and writes lines.

use std::collections::BTreeMap;

use metrics::{ApplicationTotals, Definition, Distribution, Lines, Value};
use supervisor::{Process, Role};

use crate::control::report::{ApplicationReport, Report};

/// The percentiles of times.
const PERCENTILES: [(&str, f64); 3] = [("p50", 0.5), ("p95", 0.95), ("p99", 0.99)];

/// The label of an application; an only one needs none.
fn labels(application: &str) -> Vec<(&str, &str)> {
    match application {
        "" => Vec::new(),
        name => vec![("application", name)],
    }
}

/// What an application has counted.
pub(super) fn counts(lines: &mut Lines, application: &str, since: &ApplicationTotals) {
    let labels = labels(application);
    for (outcome, count) in &since.outcomes {
        let mut labels = labels.clone();
        labels.push(("outcome", outcome));
        lines.counter("highball.requests", &labels, *count as f64);
    }
    let (mut whole, mut app) = (Distribution::default(), Distribution::default());
    let mut failed = 0;
    for route in since.routes.values() {
        route.whole.values().for_each(|times| whole.add(times));
        app.add(&route.app);
        failed += route.failed;
    }
    lines.counter("highball.route_errors", &labels, failed as f64);
    times(lines, "highball.request_duration_ms", &labels, &whole);
    times(lines, "highball.app_duration_ms", &labels, &app);
    times(lines, "highball.queue_duration_ms", &labels, &since.queue);
    for (name, metric) in &since.custom.metrics {
        for (own, value) in &metric.series {
            let mut labels = labels.clone();
            labels.extend(own.iter().map(|(name, value)| (&**name, &**value)));
            match (&metric.definition, value) {
                (_, Value::Counter(by)) => lines.counter(name, &labels, *by),
                (Definition::Histogram(bounds), values) => {
                    histogram(lines, name, &labels, bounds, values);
                }
                _ => {}
            }
        }
    }
}

/// Mean and percentiles of times, in milliseconds.
fn times(lines: &mut Lines, name: &str, labels: &[(&str, &str)], times: &Distribution) {
    if times.count() == 0 {
        return;
    }
    let mean = times.sum_s() * 1e3 / times.count() as f64;
    lines.gauge(&format!("{name}.mean"), labels, rounded(mean));
    for (part, share) in PERCENTILES {
        if let Some(time) = times.percentile(share) {
            let time = rounded(time.as_secs_f64() * 1e3);
            lines.gauge(&format!("{name}.{part}"), labels, time);
        }
    }
}

/// A histogram of the application: how many values, their mean and percentiles.
fn histogram(
    lines: &mut Lines,
    name: &str,
    labels: &[(&str, &str)],
    bounds: &[f64],
    values: &Value,
) {
    let (Value::Histogram { sum, .. }, Some(count)) = (values, values.count()) else {
        return;
    };
    lines.counter(&format!("{name}.count"), labels, count as f64);
    lines.gauge(&format!("{name}.mean"), labels, sum / count as f64);
    for (part, share) in PERCENTILES {
        if let Some(value) = values.quantile(bounds, share) {
            lines.gauge(&format!("{name}.{part}"), labels, value);
        }
    }
}

/// To a thousandth: more is not measured.
fn rounded(milliseconds: f64) -> f64 {
    (milliseconds * 1e3).round() / 1e3
}

/// How the server and its applications are now.
pub(super) fn gauges(
    lines: &mut Lines,
    report: &Report,
    totals: &BTreeMap<String, ApplicationTotals>,
) {
    lines.gauge("highball.connections", &[], report.connections as f64);
    if report.applications.is_empty() {
        application(lines, "", &report.all);
    }
    for one in &report.applications {
        application(lines, &one.name, &one.own);
    }
    for (application, totals) in totals {
        for (name, metric) in &totals.custom.metrics {
            let Definition::Gauge(aggregate) = metric.definition else {
                continue;
            };
            for (own, value) in &metric.series {
                let mut labels = labels(application);
                labels.extend(own.iter().map(|(name, value)| (&**name, &**value)));
                if let Some(value) = value.gauge(aggregate) {
                    lines.gauge(name, &labels, value);
                }
            }
        }
    }
}

fn application(lines: &mut Lines, name: &str, report: &ApplicationReport) {
    let labels = labels(name);
    let ready = |process: &&Process| process.role == Role::Worker && process.state == "ready";
    let workers = report.processes.iter().filter(ready).count();
    let busy = report.threads.iter().filter(|one| one.state != "idle");
    for (name, value) in [
        ("highball.queue_length", report.queue.length),
        ("highball.threads", report.threads.len()),
        ("highball.busy_threads", busy.count()),
        ("highball.ready_workers", workers),
    ] {
        lines.gauge(name, &labels, value as f64);
    }
}
