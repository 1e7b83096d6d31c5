//! What a server has recorded of an application: data, which the server sends and the command reads.

use serde::{Deserialize, Serialize};

use crate::times::Times;

/// What a server has recorded of an application since it started.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Recording {
    /// How long it has recorded, in seconds.
    pub seconds: f64,
    /// Workers that it has now.
    pub workers: u16,
    /// Threads of each worker.
    pub threads: u16,
    /// Cores that the server may use.
    pub cores: u16,
    /// The mean private memory of a worker, in bytes; none where the kernel does not tell it.
    pub worker_bytes: Option<u64>,
    /// The memory of all else, in bytes: front, template, and what workers share.
    pub shared_bytes: Option<u64>,
    /// The routes whose requests were measured.
    pub routes: Vec<RecordedRoute>,
}

/// What was recorded of a route.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RecordedRoute {
    /// Its name.
    pub route: String,
    /// Queries of the database for each request, where they are counted.
    pub queries: f64,
    /// CPU times of its requests.
    pub cpu: Times,
    /// The rest of their times in the application: waiting for others, for Ruby's lock, or for a core.
    pub wait: Times,
}

impl Recording {
    /// The number of requests.
    pub fn requests(&self) -> u64 {
        let counts = self.routes.iter().map(|route| route.cpu.count());
        counts.fold(0, u64::saturating_add)
    }

    /// Requests a second over the whole recording; 0 of none.
    pub fn rate(&self) -> f64 {
        if self.seconds > 0.0 {
            self.requests() as f64 / self.seconds
        } else {
            0.0
        }
    }

    /// Memory with so many workers, in bytes.
    pub fn memory_bytes(&self, workers: u16) -> Option<u64> {
        let (each, shared) = self.worker_bytes.zip(self.shared_bytes)?;
        Some(each.saturating_mul(workers.into()).saturating_add(shared))
    }
}
