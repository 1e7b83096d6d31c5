//! The metrics of the applications themselves (`Highball.metrics`) as Prometheus reads them, after the server's own. It only
//! reads.

use std::collections::BTreeMap;
use std::mem::discriminant;

use metrics::{ApplicationTotals, CustomMetric, Definition, Exposition, Kind, Value};

/// Writes them. A name belongs to what the first of the applications has defined under it; what another one means by it is
/// left out, for a name has one type.
pub(super) fn expose(out: &mut Exposition, applications: &[(&str, &ApplicationTotals)]) {
    let each = || applications.iter().map(|(name, one)| (*name, &one.custom));
    let mut names: BTreeMap<&str, Vec<(&str, &CustomMetric)>> = BTreeMap::new();
    for (application, custom) in each() {
        for (name, metric) in &custom.metrics {
            let metrics = names.entry(name).or_default();
            let first = metrics.first().map_or(metric, |(_, first)| first);
            if discriminant(&first.definition) == discriminant(&metric.definition) {
                metrics.push((application, metric));
            }
        }
    }
    for (name, metrics) in names {
        family(out, name, &metrics);
    }
    if each().all(|(_, custom)| custom.is_empty()) {
        return;
    }
    out.metric(
        "highball_application_series_dropped_total",
        Kind::Counter,
        "Updates of the application's own metrics that are in none: beyond the limits, not valid, or of another type.",
    );
    for (application, custom) in each() {
        let dropped = custom.dropped;
        for (reason, count) in [
            ("limit", dropped.limit),
            ("invalid", dropped.invalid),
            ("conflict", dropped.conflict),
        ] {
            out.count(&[("application", application), ("reason", reason)], count);
        }
    }
}

/// A metric, of all applications that have it.
fn family(out: &mut Exposition, name: &str, metrics: &[(&str, &CustomMetric)]) {
    let Some((_, first)) = metrics.first() else {
        return;
    };
    match first.definition {
        Definition::Counter => out.metric(&format!("{name}_total"), Kind::Counter, &first.help),
        Definition::Gauge(_) => out.metric(name, Kind::Gauge, &first.help),
        Definition::Histogram(_) => out.metric(name, Kind::Histogram, &first.help),
    }
    for (application, metric) in metrics {
        for (labels, value) in &metric.series {
            let mut all = vec![("application", *application)];
            all.extend(labels.iter().map(|(name, value)| (&**name, &**value)));
            sample(out, &metric.definition, &all, value);
        }
    }
}

fn sample(out: &mut Exposition, definition: &Definition, labels: &[(&str, &str)], value: &Value) {
    match (definition, value) {
        (_, Value::Counter(count)) => out.sample(labels, *count),
        (Definition::Gauge(aggregate), gauge) => {
            if let Some(value) = gauge.gauge(*aggregate) {
                out.sample(labels, value);
            }
        }
        (Definition::Histogram(bounds), Value::Histogram { sum, counts }) => {
            let mut below = 0_u64;
            let mut buckets = Vec::with_capacity(bounds.len());
            for (bound, count) in bounds.iter().zip(counts) {
                below = below.saturating_add(*count);
                buckets.push((*bound, below));
            }
            let all = counts
                .iter()
                .fold(0_u64, |all, one| all.saturating_add(*one));
            out.buckets(labels, &buckets, *sum, all);
        }
        _ => {}
    }
}
