//! The application's own metrics (`Highball.metrics`), of all its processes together and within bounds. What a process
//! says is hostile. It knows no clock, and shows nothing itself.

mod batch;
mod values;

use std::collections::BTreeSet;

use batch::{Batch, MetricUpdate, Update};
pub use values::{
    Aggregate, CustomMetric, CustomTotals, Definition, Dropped, Labels as CustomLabels, Source,
    Value,
};
use values::{add_counts, finite, grow};

/// The most metrics of an application.
pub const MAX_METRICS: usize = 100;
/// The most series of an application, of all its metrics.
pub const MAX_SERIES: usize = 1_000;

/// The metrics of one application.
#[derive(Debug, Default)]
pub struct CustomMetrics {
    totals: CustomTotals,
    series: usize,
    /// Whose gauges count. A worker's last words may come after its end.
    living: BTreeSet<Source>,
}

impl CustomMetrics {
    /// A process may say what it has counted from now on.
    pub fn started(&mut self, source: Source) {
        self.living.insert(source);
    }

    /// A process is gone, and its gauges with it.
    pub fn ended(&mut self, source: Source) {
        if self.living.remove(&source) {
            self.forget_gauges(|one| one == source);
        }
    }

    /// All processes of a generation are gone.
    pub fn generation_ended(&mut self, generation: u32) {
        self.living.retain(|one| one.0 != generation);
        self.forget_gauges(|one| one.0 == generation);
    }

    /// Takes in what a process has counted, see `gem/lib/highball/metrics.rb`.
    pub fn take_in(&mut self, source: Source, batch: &[u8]) {
        let dropped = |count: &mut u64, by: u64| *count = count.saturating_add(by);
        let Some(batch) = Batch::parse(batch) else {
            return dropped(&mut self.totals.dropped.invalid, 1);
        };
        dropped(&mut self.totals.dropped.invalid, batch.invalid);
        dropped(&mut self.totals.dropped.limit, batch.dropped);
        for metric in batch.metrics {
            self.update(source, metric);
        }
    }

    fn update(&mut self, source: Source, update: MetricUpdate) {
        let MetricUpdate {
            name,
            help,
            definition,
            series,
        } = update;
        let is_full = self.totals.metrics.len() >= MAX_METRICS;
        match self.totals.metrics.get_mut(&name) {
            // New code may define it otherwise; old code that still runs does not get it back.
            Some(known) if known.definition != definition => {
                if source.0 <= known.generation {
                    self.totals.dropped.conflict += series.len() as u64;
                    return;
                }
                self.series -= known.series.len();
                known.series.clear();
                (known.definition, known.help, known.generation) = (definition, help, source.0);
            }
            Some(known) if source.0 > known.generation => {
                (known.help, known.generation) = (help, source.0);
            }
            Some(_) => {}
            None if is_full => {
                self.totals.dropped.limit += series.len() as u64;
                return;
            }
            None => {
                let metric = CustomMetric {
                    help,
                    definition,
                    generation: source.0,
                    series: Vec::new(),
                };
                self.totals.metrics.insert(name.clone(), metric);
            }
        }
        for (labels, update) in series {
            self.update_series(source, &name, labels, update);
        }
    }

    fn update_series(&mut self, source: Source, name: &str, labels: CustomLabels, update: Update) {
        let Some(metric) = self.totals.metrics.get_mut(name) else {
            return;
        };
        if matches!(update, Update::Set(_)) && !self.living.contains(&source) {
            return;
        }
        let at = match metric.find(&labels) {
            Ok(at) => at,
            Err(_) if self.series >= MAX_SERIES => {
                self.totals.dropped.limit += 1;
                return;
            }
            Err(at) => {
                self.series += 1;
                let value = empty(&update);
                metric.series.insert(at, (labels, value));
                at
            }
        };
        apply(&mut metric.series[at].1, source, update);
    }

    fn forget_gauges(&mut self, gone: impl Fn(Source) -> bool) {
        for metric in self.totals.metrics.values_mut() {
            metric.series.retain_mut(|(_, value)| {
                let Value::Gauge(values) = value else {
                    return true;
                };
                values.retain(|(source, _)| !gone(*source));
                !values.is_empty()
            });
        }
        self.series = self.totals.series();
    }

    /// What they have come to.
    pub fn totals(&self) -> CustomTotals {
        self.totals.clone()
    }

    /// Adds what a server before this one has counted, within the bounds. What this one knows already keeps its definition.
    pub fn add_before(&mut self, totals: &CustomTotals) {
        let mut before = totals.clone();
        let mut room = MAX_SERIES - self.series.min(MAX_SERIES);
        let mut places = MAX_METRICS - self.totals.metrics.len().min(MAX_METRICS);
        before.metrics.retain(|name, metric| {
            let known = self.totals.metrics.get(name);
            metric.generation = 0;
            metric.series.retain(|(labels, _)| {
                let is_known = known.is_some_and(|known| known.find(labels).is_ok());
                let fits = is_known || room > 0;
                room -= usize::from(fits && !is_known);
                fits
            });
            let fits = known.is_some() || places > 0;
            places -= usize::from(fits && known.is_none());
            fits
        });
        self.totals.add(&before);
        self.series = self.totals.series();
    }
}

/// What a series begins with.
fn empty(update: &Update) -> Value {
    match update {
        Update::Grown(_) => Value::Counter(0.0),
        Update::Set(_) => Value::Gauge(Vec::new()),
        Update::Observed { counts, .. } => Value::Histogram {
            sum: 0.0,
            counts: vec![0; counts.len()],
        },
    }
}

fn apply(value: &mut Value, source: Source, update: Update) {
    match (value, update) {
        (Value::Counter(counter), Update::Grown(by)) => grow(counter, by),
        (Value::Gauge(values), Update::Set(to)) => {
            values.retain(|(own, _)| *own != source);
            values.push((source, to));
        }
        (
            Value::Histogram { sum, counts },
            Update::Observed {
                sum: more,
                counts: observed,
            },
        ) => {
            *sum = finite(*sum + more);
            add_counts(counts, &observed);
        }
        // The definitions are the same, and so are the values.
        _ => {}
    }
}

#[cfg(test)]
mod tests;
