//! One row of the status: a process and what it is. Says nothing of what it serves.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// What a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The front, which is the supervisor as well.
    Front,
    /// A generation's template.
    Template,
    /// A worker.
    Worker,
}

/// A process of the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Its id.
    pub pid: i32,
    /// What it is.
    pub role: Role,
    /// The worker's number, from 0; absent for the others.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub worker: Option<u16>,
    /// Its generation; absent for the front.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub generation: Option<u32>,
    /// `booting`, `starting`, `ready` or `stopping`.
    pub state: String,
    /// When it started, in seconds of the UNIX epoch.
    pub started: u64,
}

/// A time in whole seconds of the UNIX epoch.
pub(crate) fn epoch_seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH)
        .map_or(0, |elapsed| elapsed.as_secs())
}
