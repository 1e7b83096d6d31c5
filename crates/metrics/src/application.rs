//! The measures of one application, of all threads together. It counts nothing itself.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::events::{EventCounter, Events, OF_APPLICATION};
use crate::histogram::Distribution;
use crate::names::{Names, OTHER, OTHER_NUMBER, UNROUTED};
use crate::path::MAX_NAME_BYTES;
use crate::recorder::{Record, Recorder};
use crate::totals::{ApplicationTotals, RouteTotals};

/// The measures of one application. Clones are the same one.
#[derive(Clone, Default)]
pub struct ApplicationMetrics {
    names: Arc<Names>,
    shared: Arc<Shared>,
}

struct Shared {
    records: Mutex<Vec<Arc<Record>>>,
    /// What servers before this one have recorded.
    before: Mutex<ApplicationTotals>,
    events: Events,
}

impl Default for Shared {
    fn default() -> Self {
        Self {
            records: Mutex::default(),
            before: Mutex::default(),
            events: Events::of(&OF_APPLICATION),
        }
    }
}

impl ApplicationMetrics {
    /// Returns what one thread records with. Each thread needs its own.
    pub fn recorder(&self) -> Recorder {
        let record = Arc::<Record>::default();
        let mut records = lock(&self.shared.records);
        records.push(Arc::clone(&record));
        Recorder::new(record, Arc::clone(&self.names))
    }

    /// Counts an event of one of [`OF_APPLICATION`].
    pub fn count(&self, counter: &EventCounter, series: &str) {
        self.shared.events.count(counter, series);
    }

    /// What was recorded so far, also by servers before this one. Outcomes and the cache are counted elsewhere.
    pub fn totals(&self) -> ApplicationTotals {
        let mut totals = lock(&self.shared.before).clone();
        totals.events = self.shared.events.read();
        for record in lock(&self.shared.records).iter() {
            let routes = record.routes(&self.names).collect();
            totals.add(&ApplicationTotals {
                queue: record.queue(),
                routes,
                ..ApplicationTotals::default()
            });
        }
        totals
    }

    /// The times from arrival to the end of the response of all requests so far, without those of servers before this one.
    pub fn latency(&self) -> Distribution {
        let mut all = Distribution::default();
        for record in lock(&self.shared.records).iter() {
            record.add_latency(&mut all);
        }
        all
    }

    /// Adds what a server before this one has recorded, but for outcomes and the cache. Its routes take the first places; names
    /// that no server makes, and those without a place, are [`OTHER`].
    pub fn add_before(&self, totals: &ApplicationTotals) {
        self.shared.events.add(&totals.events);
        let mut known = ApplicationTotals {
            queue: totals.queue.clone(),
            ..ApplicationTotals::default()
        };
        for (name, route) in &totals.routes {
            let (name, is_path) = self.known_name(name, route.is_path);
            let route = RouteTotals {
                is_path,
                ..route.clone()
            };
            let one = ApplicationTotals {
                routes: BTreeMap::from([(name, route)]),
                ..ApplicationTotals::default()
            };
            known.add(&one);
        }
        lock(&self.shared.before).add(&known);
    }

    fn known_name(&self, name: &str, is_path: bool) -> (String, bool) {
        let number = match name {
            UNROUTED => return (UNROUTED.to_owned(), false),
            OTHER => OTHER_NUMBER,
            // What is not printable takes more room in a name than on the wire.
            name if name.len() > 3 * MAX_NAME_BYTES => OTHER_NUMBER,
            name => self.names.number(name.as_bytes(), is_path),
        };
        self.names.name(number)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
