//! Rows of the status: the generations, and each process and what it is. Says nothing of what they serve.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::fleet::Stage;
use crate::members::Members;
use crate::pool::{Pool, State};
use crate::supervisor::Supervisor;

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

/// A generation that is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Generation {
    /// Its number.
    pub number: u32,
    /// `booting`, `serving` or `draining`.
    pub state: String,
}

impl Supervisor {
    /// The generations that are there, the oldest first.
    pub fn generations(&self) -> Vec<Generation> {
        let inner = self.shared.inner.borrow();
        let all = inner.fleet.generations().iter();
        all.map(|generation| Generation {
            number: generation.number,
            state: match generation.stage {
                Stage::Booting => "booting",
                Stage::Serving => "serving",
                Stage::Draining => "draining",
            }
            .to_owned(),
        })
        .collect()
    }

    /// Every process of the server: the front, then the template and the workers of each generation.
    pub fn processes(&self) -> Vec<Process> {
        let inner = self.shared.inner.borrow();
        let mut rows = vec![Process {
            pid: rustix::process::getpid().as_raw_nonzero().get(),
            role: Role::Front,
            worker: None,
            generation: None,
            state: "ready".to_owned(),
            started: epoch_seconds(self.since),
        }];
        for generation in inner.fleet.generations() {
            if let Some(members) = inner.members.get(&generation.number) {
                rows.extend(members.processes(generation.number, &generation.pool));
            }
        }
        rows
    }
}

impl Members {
    fn processes(&self, generation: u32, pool: &Pool) -> Vec<Process> {
        let row = |pid, role, worker, state: &str, started| Process {
            pid,
            role,
            worker,
            generation: Some(generation),
            state: state.to_owned(),
            started: epoch_seconds(started),
        };
        let mut rows = Vec::new();
        if let Some(template) = &self.template
            && let Some(pid) = template.pid
        {
            let state = match pool.template_up() {
                true => "ready",
                false if pool.stopping() => "stopping",
                false => "booting",
            };
            rows.push(row(pid, Role::Template, None, state, template.started));
        }
        for (number, child) in (0..).zip(&self.children) {
            if let Some(child) = child
                && let Some(pid) = child.pid
            {
                let state = match pool.state(number) {
                    State::Ready { .. } => "ready",
                    State::Stopping { .. } | State::Gone => "stopping",
                    _ => "starting",
                };
                rows.push(row(pid, Role::Worker, Some(number), state, child.started));
            }
        }
        rows
    }
}

/// A time in whole seconds of the UNIX epoch.
fn epoch_seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH)
        .map_or(0, |elapsed| elapsed.as_secs())
}
