//! Counts of what happens beside requests: restarts, replaced workers, handshakes. The series of each counter are fixed, so
//! nothing from outside can add one. It knows no clock and writes nothing.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// A counter and its series.
#[derive(Debug)]
pub struct EventCounter {
    /// Its name as a metric; it ends in `_total`.
    pub metric: &'static str,
    /// What it counts.
    pub help: &'static str,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// The values of these labels, of each series: joined by a slash.
    pub series: &'static [&'static str],
}

/// Restarts of an application.
pub static RESTARTS: EventCounter = EventCounter {
    metric: "highball_restarts_total",
    help: "Restarts of the application by result: 'failed' ones changed nothing.",
    labels: &["result"],
    series: &["ok", "failed"],
};

/// Workers that were replaced one by one.
pub static REPLACED_WORKERS: EventCounter = EventCounter {
    metric: "highball_workers_replaced_total",
    help: "Workers that were replaced, by cause: those that ended by themselves, reached a limit of their life, or hung. \
           A restart replaces workers too, and is not counted here.",
    labels: &["cause"],
    series: &[
        "died",
        "max_requests",
        "max_age",
        "max_memory",
        "memory_budget",
        "refork",
        "experiment",
        "late_request",
        "unresponsive",
        "busy_between_requests",
    ],
};

/// Exceptions that workers have reported.
pub static EXCEPTIONS: EventCounter = EventCounter {
    metric: "highball_exceptions_total",
    help: "Exceptions that workers have reported; 'handled' ones were rescued by the application.",
    labels: &["handled"],
    series: &["false", "true"],
};

/// Handshakes of TLS.
pub static TLS_HANDSHAKES: EventCounter = EventCounter {
    metric: "highball_tls_handshakes_total",
    help: "Handshakes of TLS by result and version; a 'failed' one has no version, and clients that leave are not counted.",
    labels: &["result", "version"],
    series: &[
        "full/1.2",
        "full/1.3",
        "resumed/1.2",
        "resumed/1.3",
        "failed/",
    ],
};

/// The counters of one application.
pub static OF_APPLICATION: [&EventCounter; 3] = [&RESTARTS, &REPLACED_WORKERS, &EXCEPTIONS];
/// The counters of a server.
pub static OF_SERVER: [&EventCounter; 1] = [&TLS_HANDSHAKES];

/// Counts by a name.
pub type Counts = BTreeMap<String, u64>;
/// What was counted: by the metric and the series.
pub type EventTotals = BTreeMap<String, Counts>;

/// Counts events. All threads share it; an event is rare enough for a lock.
#[derive(Debug)]
pub struct Events(Mutex<EventTotals>);

impl Events {
    /// Counts of these counters, all zero.
    pub fn of(counters: &[&EventCounter]) -> Self {
        let series = |counter: &EventCounter| {
            let series = counter.series.iter().map(|one| ((*one).to_owned(), 0));
            (counter.metric.to_owned(), series.collect())
        };
        Self(Mutex::new(counters.iter().copied().map(series).collect()))
    }

    /// Counts an event. A series that the counter does not have is not counted.
    pub fn count(&self, counter: &EventCounter, series: &str) {
        let mut totals = self.lock();
        let counts = totals.get_mut(counter.metric);
        if let Some(count) = counts.and_then(|counts| counts.get_mut(series)) {
            *count = count.saturating_add(1);
        }
    }

    /// What was counted so far.
    pub fn read(&self) -> EventTotals {
        self.lock().clone()
    }

    /// Adds what another server has counted, as far as these counters have its series.
    pub fn add(&self, more: &EventTotals) {
        for (metric, counts) in &mut *self.lock() {
            if let Some(more) = more.get(metric) {
                add_known(counts, more);
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, EventTotals> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Adds to counts that are there; others are left out.
pub(crate) fn add_known(counts: &mut Counts, more: &Counts) {
    for (name, count) in counts {
        let more = more.get(name).copied().unwrap_or(0);
        *count = count.saturating_add(more);
    }
}

/// Takes away what had been counted `earlier`.
pub(crate) fn since(counts: &mut Counts, earlier: &Counts) {
    for (name, count) in counts {
        let less = earlier.get(name).copied().unwrap_or(0);
        *count = count.saturating_sub(less);
    }
}

/// Takes away what had been counted `earlier`.
pub fn events_since(totals: &mut EventTotals, earlier: &EventTotals) {
    for (metric, counts) in totals {
        if let Some(earlier) = earlier.get(metric) {
            since(counts, earlier);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_series_has_a_value_for_each_label() {
        for counter in OF_APPLICATION.iter().chain(&OF_SERVER) {
            for series in counter.series {
                let values = series.split('/').count();
                assert_eq!(values, counter.labels.len(), "{series}");
            }
            assert!(counter.metric.ends_with("_total"), "{counter:?}");
        }
    }

    #[test]
    fn an_earlier_server_adds_to_known_series_alone() {
        let events = Events::of(&[&RESTARTS]);
        events.count(&RESTARTS, "ok");
        events.count(&RESTARTS, "invented");
        let first = events.read();
        let invented = Counts::from([("ok".to_owned(), 4), ("x".to_owned(), 9)]);
        let more = [RESTARTS.metric, "invented_total"];
        let more = more.map(|metric| (metric.to_owned(), invented.clone()));
        events.add(&EventTotals::from(more));
        let mut totals = events.read();
        assert_eq!((totals.len(), totals[RESTARTS.metric].len()), (1, 2));
        assert_eq!(totals[RESTARTS.metric]["ok"], 5);
        events_since(&mut totals, &first);
        assert_eq!(totals[RESTARTS.metric]["ok"], 4);
    }
}
