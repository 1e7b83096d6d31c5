//! The rules of a generation and of the rollout that brings it up. Only data.

use std::time::Duration;

/// The rules of a generation, and of the rollout that brings it up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rules {
    /// Number of workers that the generation's exchange has room for.
    pub(crate) places: u16,
    /// Number of workers, at most `places`.
    pub(crate) workers: u16,
    /// How long each step of a start may take.
    pub(crate) boot_timeout: Duration,
    /// How long a worker that leaves may take to finish what it holds.
    pub(crate) drain_timeout: Duration,
    /// Whether workers are replaced one by one, so that there is never more than one too many.
    pub(crate) worker_by_worker: bool,
    /// Whether a new generation is to pass a check before it takes over.
    pub(crate) check: bool,
}

impl Rules {
    /// Workers that there may be of this generation and the one before it.
    pub(super) fn most_beside(&self, old: &Self) -> u16 {
        match self.worker_by_worker {
            true => self.workers.max(old.workers) + 1,
            false => self.workers + old.workers,
        }
    }
}
