//! What an application's own metrics are and what they have come to: data that is shown, and that one server hands to the
//! next. It has no bounds: `custom.rs` keeps them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Labels of a series, names and values, in the order of their names.
pub type Labels = Vec<(String, String)>;

/// A process of the application: the worker with this number, or the template, of this generation.
pub type Source = (u32, Option<u16>);

/// What a gauge of several processes is together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Aggregate {
    /// All of them added.
    #[default]
    Sum,
    /// The largest.
    Max,
    /// The smallest.
    Min,
    /// The one that came last.
    Latest,
}

/// What a metric is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Definition {
    /// It only grows.
    Counter,
    /// It goes up and down.
    Gauge(Aggregate),
    /// Values by their size: the upper bounds of its buckets, without the one for everything.
    Histogram(Vec<f64>),
}

/// What a series has come to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Value {
    /// A counter.
    Counter(f64),
    /// The value in each process that has set it, the latest last.
    Gauge(Vec<(Source, f64)>),
    /// A histogram.
    Histogram {
        /// What the values add up to.
        sum: f64,
        /// Values for each bucket, the one for everything last.
        counts: Vec<u64>,
    },
}

/// Updates that are not in any metric, by the reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dropped {
    /// There are too many metrics or series.
    pub limit: u64,
    /// What a process said was no metric.
    pub invalid: u64,
    /// Another metric has this name.
    pub conflict: u64,
}

/// A metric with its series, in the order of their labels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CustomMetric {
    /// What it says.
    pub help: String,
    /// What it is.
    pub definition: Definition,
    /// The generation that defined it so; 0 is an earlier server's.
    pub generation: u32,
    /// Its series.
    pub series: Vec<(Labels, Value)>,
}

/// An application's own metrics, by their names: a counter's is without `_total`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CustomTotals {
    /// The metrics.
    pub metrics: BTreeMap<String, CustomMetric>,
    /// What is not in them.
    pub dropped: Dropped,
}

impl Value {
    /// A gauge's value; none where no process has set it, and for what is no gauge.
    pub fn gauge(&self, aggregate: Aggregate) -> Option<f64> {
        let Self::Gauge(values) = self else {
            return None;
        };
        let mut all = values.iter().map(|&(_, value)| value);
        match aggregate {
            Aggregate::Sum => (!values.is_empty()).then(|| all.sum()),
            Aggregate::Max => all.reduce(f64::max),
            Aggregate::Min => all.reduce(f64::min),
            Aggregate::Latest => all.next_back(),
        }
    }

    /// The value below which `share` of a histogram's values are (0.95 for the 95th percentile), taken as evenly spread within
    /// a bucket of these bounds. None without any, and for what is no histogram.
    pub fn quantile(&self, bounds: &[f64], share: f64) -> Option<f64> {
        let Self::Histogram { counts, .. } = self else {
            return None;
        };
        let rank = share * self.count()? as f64;
        let mut below = 0.0;
        let lower = std::iter::once(bounds.first()?.min(0.0)).chain(bounds.iter().copied());
        for ((lower, upper), count) in lower.zip(bounds).zip(counts) {
            let count = *count as f64;
            if count > 0.0 && below + count >= rank {
                return Some(lower + (upper - lower) * (rank - below) / count);
            }
            below += count;
        }
        bounds.last().copied()
    }

    /// How many values a histogram has; none without any, and for what is no histogram.
    pub fn count(&self) -> Option<u64> {
        let Self::Histogram { counts, .. } = self else {
            return None;
        };
        let all = counts
            .iter()
            .fold(0_u64, |all, one| all.saturating_add(*one));
        (all > 0).then_some(all)
    }

    /// Adds what another server counted of the same; gauges are those of living processes alone.
    fn add(&mut self, other: &Self) {
        match (self, other) {
            (Self::Counter(own), Self::Counter(other)) => grow(own, *other),
            (
                Self::Histogram { sum, counts },
                Self::Histogram {
                    sum: more_sum,
                    counts: more,
                },
            ) if counts.len() == more.len() => {
                *sum = finite(*sum + more_sum);
                add_counts(counts, more);
            }
            _ => {}
        }
    }

    /// Takes away what had been counted earlier.
    fn since(&mut self, earlier: &Self) {
        match (self, earlier) {
            (Self::Counter(own), Self::Counter(less)) => *own = (*own - less).max(0.0),
            (
                Self::Histogram { sum, counts },
                Self::Histogram {
                    sum: less_sum,
                    counts: less,
                },
            ) if counts.len() == less.len() => {
                *sum -= less_sum;
                for (count, less) in counts.iter_mut().zip(less) {
                    *count = count.saturating_sub(*less);
                }
            }
            _ => {}
        }
    }
}

/// Adds to a counter, which never becomes infinite.
pub(super) fn grow(counter: &mut f64, by: f64) {
    *counter = finite(*counter + by);
}

/// The nearest number that is not infinite.
pub(super) fn finite(value: f64) -> f64 {
    value.clamp(f64::MIN, f64::MAX)
}

pub(super) fn add_counts(counts: &mut [u64], more: &[u64]) {
    for (count, more) in counts.iter_mut().zip(more) {
        *count = count.saturating_add(*more);
    }
}

impl CustomMetric {
    /// The series with these labels, or where it belongs.
    ///
    /// # Errors
    /// There is none: its place.
    pub(super) fn find(&self, labels: &Labels) -> Result<usize, usize> {
        self.series.binary_search_by(|(own, _)| own.cmp(labels))
    }

    fn each_of(&mut self, other: &Self, change: impl Fn(&mut Value, &Value)) {
        if self.definition != other.definition {
            return;
        }
        for (labels, value) in &other.series {
            if let Ok(at) = self.find(labels) {
                change(&mut self.series[at].1, value);
            }
        }
    }
}

impl CustomTotals {
    /// Whether nothing was counted, and nothing dropped.
    pub fn is_empty(&self) -> bool {
        self.metrics.is_empty() && self.dropped == Dropped::default()
    }

    /// How many series there are.
    pub(super) fn series(&self) -> usize {
        self.metrics.values().map(|one| one.series.len()).sum()
    }

    /// Adds what another server counted. What is there already keeps its definition, and gauges are left out.
    pub fn add(&mut self, other: &Self) {
        for (name, more) in &other.metrics {
            if matches!(more.definition, Definition::Gauge(_)) {
                continue;
            }
            let Some(own) = self.metrics.get_mut(name) else {
                self.metrics.insert(name.clone(), more.clone());
                continue;
            };
            if own.definition != more.definition {
                continue;
            }
            for (labels, value) in &more.series {
                match own.find(labels) {
                    Ok(at) => own.series[at].1.add(value),
                    Err(at) => own.series.insert(at, (labels.clone(), value.clone())),
                }
            }
        }
        let (own, more) = (&mut self.dropped, other.dropped);
        own.limit = own.limit.saturating_add(more.limit);
        own.invalid = own.invalid.saturating_add(more.invalid);
        own.conflict = own.conflict.saturating_add(more.conflict);
    }

    /// Takes away what had been counted `earlier`.
    pub fn since(&mut self, earlier: &Self) {
        for (name, less) in &earlier.metrics {
            if let Some(own) = self.metrics.get_mut(name) {
                own.each_of(less, Value::since);
            }
        }
        let (own, less) = (&mut self.dropped, earlier.dropped);
        own.limit = own.limit.saturating_sub(less.limit);
        own.invalid = own.invalid.saturating_sub(less.invalid);
        own.conflict = own.conflict.saturating_sub(less.conflict);
    }
}
