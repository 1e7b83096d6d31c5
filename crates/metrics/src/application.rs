//! The measures of one application, of all threads together. It counts nothing itself.

use std::sync::{Arc, Mutex, PoisonError};

use crate::histogram::Distribution;
use crate::names::{MAX_ROUTES, Names, OTHER, UNROUTED};
use crate::recorder::{Record, Recorder};
use crate::totals::ApplicationTotals;

/// The measures of one application. Clones are the same one.
#[derive(Clone, Default)]
pub struct ApplicationMetrics {
    names: Arc<Names>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    records: Mutex<Vec<Arc<Record>>>,
    /// What servers before this one have recorded.
    before: Mutex<ApplicationTotals>,
}

impl ApplicationMetrics {
    /// Returns what one thread records with. Each thread needs its own.
    pub fn recorder(&self) -> Recorder {
        let record = Arc::<Record>::default();
        let mut records = lock(&self.shared.records);
        records.push(Arc::clone(&record));
        Recorder::new(record, Arc::clone(&self.names))
    }

    /// What was recorded so far, also by servers before this one; outcomes are counted elsewhere, but for those before.
    pub fn totals(&self) -> ApplicationTotals {
        let mut totals = lock(&self.shared.before).clone();
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

    /// Adds what a server before this one has recorded. Its routes take the first places.
    pub fn add_before(&self, totals: &ApplicationTotals) {
        let mut bounded = ApplicationTotals {
            routes: Default::default(),
            // Elsewhere: its owner adds them to those that it counts.
            custom: Default::default(),
            ..totals.clone()
        };
        let mut rest = ApplicationTotals::default();
        for (name, route) in &totals.routes {
            let known = name == OTHER || name == UNROUTED || {
                let path = name
                    .split_once(' ')
                    .is_some_and(|(_, path)| !path.contains(':'));
                self.names.number(name.as_bytes(), path) < MAX_ROUTES
            };
            let name = if known { name } else { OTHER };
            rest.routes.clear();
            rest.routes.insert(name.to_owned(), route.clone());
            bounded.add(&rest);
        }
        lock(&self.shared.before).add(&bounded);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
