//! Counters of requests that ended. They are only read by the status and the metrics.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use http::StatusCode;
use metrics::Counts;

use crate::failure::Outcome;

/// Requests of one application at one edge that ended. Only that edge counts; other threads read.
#[derive(Default)]
pub struct Counters {
    /// By outcome, in the order of [`Outcome::ALL`].
    outcomes: [AtomicU64; Outcome::ALL.len()],
    /// Responses by the first digit of their status, from 1xx on.
    status_classes: [AtomicU64; STATUS_CLASSES.len()],
}

/// The names of the classes of a status.
const STATUS_CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

impl Counters {
    /// Counts a request; `status` is that of its response, if one was sent.
    pub fn count(&self, outcome: Outcome, status: Option<StatusCode>) {
        // One thread writes, so that needs no atomic addition.
        let add = |counter: &AtomicU64| counter.store(read(counter) + 1, Ordering::Relaxed);
        add(&self.outcomes[outcome as usize]);
        let class = status.map(|status| usize::from(status.as_u16() / 100));
        let class = class.and_then(|class| self.status_classes.get(class.checked_sub(1)?));
        class.map(add);
    }

    /// Adds what another server has counted, by the names of outcomes and of classes of status; others are left out.
    pub fn add(&self, outcomes: &Counts, classes: &Counts) {
        let outcomes = Outcome::ALL.map(|outcome| outcomes.get(outcome.name()));
        let classes = STATUS_CLASSES.map(|class| classes.get(class));
        let all = self.outcomes.iter().chain(&self.status_classes);
        for (counter, more) in all.zip(outcomes.into_iter().chain(classes)) {
            let sum = read(counter).saturating_add(more.copied().unwrap_or(0));
            counter.store(sum, Ordering::Relaxed);
        }
    }

    /// The number of requests of each outcome, by its name.
    pub fn outcomes(&self) -> BTreeMap<&'static str, u64> {
        let names = Outcome::ALL.iter().map(|outcome| outcome.name());
        names.zip(self.outcomes.iter().map(read)).collect()
    }

    /// The number of responses of each class of status, such as `2xx`.
    pub fn status_classes(&self) -> BTreeMap<&'static str, u64> {
        let counts = self.status_classes.iter().map(read);
        STATUS_CLASSES.into_iter().zip(counts).collect()
    }
}

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}
