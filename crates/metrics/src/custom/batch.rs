//! What a process of the application says that it has counted: JSON, which is hostile. It is parsed here and checked whole,
//! and changes nothing here.

use serde::Deserialize;

use super::values::{Aggregate, Definition, Labels};

/// The longest name of a metric, in bytes.
const MAX_NAME_BYTES: usize = 100;
/// The longest text that explains a metric, in bytes.
const MAX_HELP_BYTES: usize = 400;
/// The most labels of a series.
const MAX_LABELS: usize = 8;
/// The longest name of a label, in bytes.
const MAX_LABEL_NAME_BYTES: usize = 64;
/// The longest value of a label, in bytes.
const MAX_LABEL_VALUE_BYTES: usize = 400;
/// The most buckets of a histogram, without the one for everything.
const MAX_BUCKETS: usize = 30;
/// Ends of names that stand for samples of other metrics.
const RESERVED_ENDS: [&str; 5] = ["_total", "_bucket", "_sum", "_count", "_created"];

/// What one message says.
#[derive(Deserialize)]
struct RawBatch {
    /// Updates of series that the process could not keep.
    #[serde(default)]
    dropped: u64,
    metrics: Vec<RawMetric>,
}

#[derive(Deserialize)]
struct RawMetric {
    name: String,
    kind: String,
    help: String,
    #[serde(default)]
    aggregate: Aggregate,
    #[serde(default)]
    buckets: Vec<f64>,
    series: Vec<RawSeries>,
}

#[derive(Deserialize)]
struct RawSeries {
    labels: Vec<(String, String)>,
    /// What a counter has grown by, or a gauge's value.
    #[serde(default)]
    value: f64,
    /// What a histogram's values add up to.
    #[serde(default)]
    sum: f64,
    /// Values of a histogram for each bucket, the one for everything last.
    #[serde(default)]
    counts: Vec<u64>,
}

/// A message as it is used.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Batch {
    /// Updates of series that the process could not keep.
    pub(super) dropped: u64,
    /// Series that are not what they should be.
    pub(super) invalid: u64,
    pub(super) metrics: Vec<MetricUpdate>,
}

/// What has happened to a metric.
#[derive(Debug, PartialEq)]
pub(super) struct MetricUpdate {
    pub(super) name: String,
    pub(super) help: String,
    pub(super) definition: Definition,
    pub(super) series: Vec<(Labels, Update)>,
}

/// What has happened to a series.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Update {
    Grown(f64),
    Set(f64),
    Observed { sum: f64, counts: Vec<u64> },
}

impl Batch {
    /// Reads a message. None where it is no message of this kind.
    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        let raw: RawBatch = serde_json::from_slice(text).ok()?;
        let mut batch = Self {
            dropped: raw.dropped,
            ..Self::default()
        };
        for metric in raw.metrics {
            let all = metric.series.len().max(1) as u64;
            match checked(metric) {
                Some(update) => {
                    batch.invalid += all - (update.series.len() as u64).min(all);
                    batch.metrics.push(update);
                }
                None => batch.invalid += all,
            }
        }
        Some(batch)
    }
}

/// The metric with those of its series that are sound.
fn checked(raw: RawMetric) -> Option<MetricUpdate> {
    let definition = match raw.kind.as_str() {
        "counter" => Definition::Counter,
        "gauge" => Definition::Gauge(raw.aggregate),
        "histogram" if are_bounds(&raw.buckets) => Definition::Histogram(raw.buckets),
        _ => return None,
    };
    if !is_metric_name(&raw.name) || raw.help.len() > MAX_HELP_BYTES {
        return None;
    }
    let series = raw.series.into_iter();
    let series =
        series.filter_map(|one| Some((labels(one.labels.clone())?, update(&definition, one)?)));
    Some(MetricUpdate {
        series: series.collect(),
        name: raw.name,
        help: raw.help,
        definition,
    })
}

/// Whether a name is one by Prometheus' rules, no name of Highball's own, and no name of another metric's samples.
fn is_metric_name(name: &str) -> bool {
    is_name(name, MAX_NAME_BYTES)
        && !name.starts_with("highball_")
        && !RESERVED_ENDS.iter().any(|end| name.ends_with(end))
}

fn is_name(name: &str, longest: usize) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    let letters = || name.bytes();
    name.len() <= longest
        && !name.starts_with("__")
        && letters().next().is_some_and(is_letter)
        && letters().all(|byte| is_letter(byte) || byte.is_ascii_digit())
}

/// Whether the upper bounds of buckets are finite and rise.
fn are_bounds(buckets: &[f64]) -> bool {
    (1..=MAX_BUCKETS).contains(&buckets.len())
        && buckets.iter().all(|bound| bound.is_finite())
        && buckets.windows(2).all(|pair| pair[0] < pair[1])
}

/// The labels in the order of their names. None where one is not what it should be, or the server's own.
fn labels(mut labels: Vec<(String, String)>) -> Option<Labels> {
    let is_sound = |(name, value): &(String, String)| {
        is_name(name, MAX_LABEL_NAME_BYTES)
            && !matches!(name.as_str(), "application" | "le" | "quantile")
            && value.len() <= MAX_LABEL_VALUE_BYTES
    };
    labels.sort();
    let are_distinct = labels.windows(2).all(|pair| pair[0].0 != pair[1].0);
    let sound = labels.len() <= MAX_LABELS && are_distinct && labels.iter().all(is_sound);
    sound.then_some(labels)
}

fn update(definition: &Definition, raw: RawSeries) -> Option<Update> {
    match definition {
        Definition::Counter if raw.value.is_finite() && raw.value >= 0.0 => {
            Some(Update::Grown(raw.value))
        }
        Definition::Gauge(_) if raw.value.is_finite() => Some(Update::Set(raw.value)),
        Definition::Histogram(bounds)
            if raw.counts.len() == bounds.len() + 1 && raw.sum.is_finite() =>
        {
            Some(Update::Observed {
                sum: raw.sum,
                counts: raw.counts,
            })
        }
        _ => None,
    }
}
