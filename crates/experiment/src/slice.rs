//! What was recorded of the two halves in a slice of time. It holds only what a verdict needs: the times of each route would
//! be too much for all slices.

use std::collections::BTreeMap;

use metrics::{ApplicationTotals, Distribution};

/// A slice of time.
#[derive(Clone, Debug, Default)]
pub struct Slice {
    /// The half with the setting of the server.
    pub base: Recorded,
    /// The half with the other setting.
    pub variant: Recorded,
}

/// What was recorded of one half.
#[derive(Clone, Debug, Default)]
pub struct Recorded {
    /// What the requests of each route cost.
    pub(crate) routes: BTreeMap<String, RouteCost>,
    /// Their times in the application.
    pub(crate) app: Distribution,
    /// Requests that went wrong.
    pub(crate) errors: u64,
    /// Time in the application of the requests that were measured, in nanoseconds.
    pub(crate) app_ns: u64,
    /// Garbage collection within it, in nanoseconds.
    pub(crate) gc_ns: u64,
    /// The memory of its workers at the end of the slice; none where the kernel does not tell it.
    pub memory: Option<Memory>,
}

/// What requests cost.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RouteCost {
    /// The requests that were measured.
    pub(crate) requests: u64,
    /// Their CPU time, in nanoseconds.
    pub(crate) cpu_ns: u64,
}

/// Memory of a worker, in bytes: the mean of the workers of a half.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Memory {
    /// Proportional set size.
    pub pss_bytes: f64,
    /// Private memory.
    pub private_bytes: f64,
}

impl Recorded {
    /// What was recorded between these two moments, without memory.
    pub fn between(earlier: &ApplicationTotals, later: &ApplicationTotals) -> Self {
        let mut all = Self::default();
        for (name, route) in &later.routes {
            let (mut app, mut cost) = (route.app.clone(), route.cost);
            let mut errors = route.failed;
            if let Some(before) = earlier.routes.get(name) {
                app.since(&before.app);
                cost = cost.since(&before.cost);
                errors = errors.saturating_sub(before.failed);
            }
            all.app.add(&app);
            all.errors += errors;
            all.app_ns += cost.app_ns;
            all.gc_ns += cost.gc_ns;
            if cost.requests > 0 {
                let own = RouteCost {
                    requests: cost.requests,
                    cpu_ns: cost.cpu_ns,
                };
                all.routes.insert(name.clone(), own);
            }
        }
        all
    }

    /// Requests that were measured.
    pub(crate) fn requests(&self) -> u64 {
        self.routes.values().map(|route| route.requests).sum()
    }

    /// Their CPU time, in nanoseconds.
    pub(crate) fn cpu_ns(&self) -> u64 {
        self.routes.values().map(|route| route.cpu_ns).sum()
    }
}
