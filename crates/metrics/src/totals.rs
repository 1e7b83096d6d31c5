//! What was recorded of an application up to one moment, all threads together: what is shown, and what one server hands to
//! the next.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::custom::CustomTotals;
use crate::events::{self, Counts, EventTotals};
use crate::histogram::Distribution;

/// The names of the classes of a status; the first one: no response was sent.
pub const CLASSES: [&str; 6] = ["none", "1xx", "2xx", "3xx", "4xx", "5xx"];

/// What requests of a route cost together; times in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CostTotals {
    /// The requests that were measured.
    pub requests: u64,
    /// In the application.
    pub app_ns: u64,
    /// CPU time.
    pub cpu_ns: u64,
    /// Those of the requests beside which no other one ran in their worker.
    pub alone: u64,
    /// Their time in the application.
    pub alone_app_ns: u64,
    /// Their CPU time.
    pub alone_cpu_ns: u64,
    /// The requests whose wait for Ruby's lock is known.
    pub lock_known: u64,
    /// Their time in the application.
    pub lock_known_app_ns: u64,
    /// Their CPU time.
    pub lock_known_cpu_ns: u64,
    /// Their wait for Ruby's lock.
    pub lock_wait_ns: u64,
    /// Garbage collection.
    pub gc_ns: u64,
    /// Objects allocated.
    pub allocations: u64,
    /// In the database.
    pub db_ns: u64,
    /// In views.
    pub view_ns: u64,
    /// Queries.
    pub queries: u64,
}

impl CostTotals {
    /// What was added since it was `earlier`.
    #[must_use]
    pub fn since(mut self, earlier: &Self) -> Self {
        self.combine(earlier, u64::saturating_sub);
        self
    }

    fn combine(&mut self, other: &Self, with: fn(u64, u64) -> u64) {
        for (own, other) in [
            (&mut self.requests, other.requests),
            (&mut self.app_ns, other.app_ns),
            (&mut self.cpu_ns, other.cpu_ns),
            (&mut self.alone, other.alone),
            (&mut self.alone_app_ns, other.alone_app_ns),
            (&mut self.alone_cpu_ns, other.alone_cpu_ns),
            (&mut self.lock_known, other.lock_known),
            (&mut self.lock_known_app_ns, other.lock_known_app_ns),
            (&mut self.lock_known_cpu_ns, other.lock_known_cpu_ns),
            (&mut self.lock_wait_ns, other.lock_wait_ns),
            (&mut self.gc_ns, other.gc_ns),
            (&mut self.allocations, other.allocations),
            (&mut self.db_ns, other.db_ns),
            (&mut self.view_ns, other.view_ns),
            (&mut self.queries, other.queries),
        ] {
            *own = with(*own, other);
        }
    }
}

/// What was recorded of a route.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RouteTotals {
    /// Whether its name was made of a path.
    pub is_path: bool,
    /// Times from arrival to the end of the response, by the class of the status.
    pub whole: BTreeMap<String, Distribution>,
    /// Times in the application.
    pub app: Distribution,
    /// CPU times of those that were measured. They and `wait` are not handed to the next server: that one may have other
    /// workers, and records its own.
    #[serde(skip)]
    pub cpu: Distribution,
    /// The rest of their times in the application: waiting for others, for Ruby's lock, or for a core.
    #[serde(skip)]
    pub wait: Distribution,
    /// Requests that went wrong.
    pub failed: u64,
    /// What they cost.
    pub cost: CostTotals,
}

impl RouteTotals {
    /// All requests of the route that had arrived.
    pub fn count(&self) -> u64 {
        let counts = self.whole.values().map(Distribution::count);
        counts.fold(0, u64::saturating_add)
    }

    /// Their times: in the application, or as a whole where it ran none of them.
    pub fn times(&self) -> Distribution {
        if self.app.count() > 0 {
            return self.app.clone();
        }
        let mut times = Distribution::default();
        self.whole.values().for_each(|one| times.add(one));
        times
    }

    /// Adds what was recorded elsewhere; of classes that do not exist nothing.
    fn add(&mut self, other: &Self) {
        let whole = other.whole.iter();
        for (class, more) in whole.filter(|(class, _)| CLASSES.contains(&&***class)) {
            self.whole.entry(class.clone()).or_default().add(more);
        }
        self.app.add(&other.app);
        self.cpu.add(&other.cpu);
        self.wait.add(&other.wait);
        self.failed = self.failed.saturating_add(other.failed);
        self.cost.combine(&other.cost, u64::saturating_add);
    }

    fn since(&mut self, earlier: &Self) {
        for (class, less) in &earlier.whole {
            if let Some(one) = self.whole.get_mut(class) {
                one.since(less);
            }
        }
        self.whole.retain(|_, one| one.count() > 0);
        self.app.since(&earlier.app);
        self.cpu.since(&earlier.cpu);
        self.wait.since(&earlier.wait);
        self.failed = self.failed.saturating_sub(earlier.failed);
        self.cost.combine(&earlier.cost, u64::saturating_sub);
    }

    /// Whether nothing was recorded.
    fn is_empty(&self) -> bool {
        let nothing = (0, 0, 0);
        self.whole.is_empty() && (self.app.count(), self.failed, self.cost.requests) == nothing
    }
}

/// What was recorded of an application.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ApplicationTotals {
    /// Requests by their outcome.
    pub outcomes: Counts,
    /// Responses by the class of their status.
    pub responses: Counts,
    /// Requests that the response cache has looked at, by what became of them; empty where there is none.
    pub cache: Counts,
    /// What happened beside requests.
    pub events: EventTotals,
    /// Times in the queue.
    pub queue: Distribution,
    /// By route.
    pub routes: BTreeMap<String, RouteTotals>,
    /// Its own metrics.
    #[serde(default)]
    pub custom: CustomTotals,
}

impl ApplicationTotals {
    /// Adds the routes and the times in the queue that another server, or another thread, has recorded.
    pub(crate) fn add(&mut self, other: &Self) {
        self.queue.add(&other.queue);
        for (route, more) in &other.routes {
            let own = self.routes.entry(route.clone()).or_default();
            own.is_path = more.is_path;
            own.add(more);
        }
        self.custom.add(&other.custom);
    }

    /// Takes away what had been recorded `earlier` of the same.
    pub fn since(&mut self, earlier: &Self) {
        events::since(&mut self.outcomes, &earlier.outcomes);
        events::since(&mut self.responses, &earlier.responses);
        events::since(&mut self.cache, &earlier.cache);
        events::events_since(&mut self.events, &earlier.events);
        self.queue.since(&earlier.queue);
        for (route, less) in &earlier.routes {
            if let Some(one) = self.routes.get_mut(route) {
                one.since(less);
            }
        }
        self.custom.since(&earlier.custom);
        self.routes.retain(|_, route| !route.is_empty());
    }

    /// What the requests of all routes cost together.
    pub fn cost(&self) -> CostTotals {
        let mut all = CostTotals::default();
        for route in self.routes.values() {
            all.combine(&route.cost, u64::saturating_add);
        }
        all
    }

    /// The time in all applications' requests together.
    pub fn time(&self) -> Duration {
        let times = self.routes.values().map(|route| route.app.sum_ns());
        Duration::from_nanos(times.fold(0, u64::saturating_add))
    }
}
