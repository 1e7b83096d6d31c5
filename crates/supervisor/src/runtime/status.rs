//! Rows of the status: the generations, and each process, what it is, what it holds and how much it has served. Changes
//! nothing.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use exchange::WorkerId;
use serde::{Deserialize, Serialize};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::rules::fleet::Stage;
use crate::rules::memory::ProcessMemory;
use crate::rules::pool::{Pool, State};
use crate::runtime::memory_usage::memory_of;
use crate::runtime::shared::Processes;
use crate::runtime::supervisor::Supervisor;

/// How long a status may wait for the kernel to tell the memory of all processes.
const MEASURE_TIMEOUT: Duration = Duration::from_secs(1);

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
    /// Requests that a worker has finished; absent for the others.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub requests: Option<u64>,
    /// Private memory, in bytes: what it shares with no other process. Absent where the kernel does not tell, or not in time.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub memory_bytes: Option<u64>,
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

    /// The same as [`Supervisor::processes`], with the memory of each. It is read now, on another thread: the kernel takes
    /// milliseconds for a large process. Where it takes longer than a status may wait, the figures are missing.
    pub async fn measured_processes(&self) -> Vec<Process> {
        let mut rows = self.processes();
        let pids: Vec<i32> = rows.iter().map(|row| row.pid).collect();
        let measured = timeout(MEASURE_TIMEOUT, self.measure(pids)).await;
        for (row, memory) in rows.iter_mut().zip(measured.unwrap_or_default()) {
            row.memory_bytes = memory.map(|memory| memory.private);
        }
        rows
    }

    async fn measure(&self, pids: Vec<i32>) -> Vec<Option<ProcessMemory>> {
        // One at a time: where the kernel does not answer, another call leaves no further thread behind.
        let turn = Arc::clone(&self.measuring).acquire_owned().await;
        let measured = spawn_blocking(move || {
            let all: Vec<Option<ProcessMemory>> = pids.into_iter().map(memory_of).collect();
            drop(turn);
            all
        });
        measured.await.unwrap_or_default()
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
            requests: None,
            memory_bytes: None,
        }];
        for generation in inner.fleet.generations().iter() {
            if let Some(processes) = inner.processes.get(&generation.number) {
                rows.extend(processes.processes(generation.number, &generation.pool));
            }
        }
        drop(inner);
        for row in &mut rows {
            let worker = row.generation.zip(row.worker);
            let finished = |(generation, worker)| {
                let dispatcher = &self.shared.dispatcher;
                dispatcher.finished(WorkerId::new(generation, worker))
            };
            row.requests = worker.map(finished);
        }
        rows
    }
}

impl Processes {
    fn processes(&self, generation: u32, pool: &Pool) -> Vec<Process> {
        let row = |pid, role, worker, state: &str, started| Process {
            pid,
            role,
            worker,
            generation: Some(generation),
            state: state.to_owned(),
            started: epoch_seconds(started),
            requests: None,
            memory_bytes: None,
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
        for (number, process) in (0..).zip(&self.workers) {
            if let Some(process) = process
                && let Some(pid) = process.pid
            {
                let state = match pool.workers().state(number) {
                    State::Ready { .. } => "ready",
                    State::Stopping { .. } | State::Gone => "stopping",
                    _ => "starting",
                };
                rows.push(row(pid, Role::Worker, Some(number), state, process.started));
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
