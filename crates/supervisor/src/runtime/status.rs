//! Rows of the status: the generations, and each process, what it is, what it holds and how much it has served. Changes
//! nothing.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use exchange::WorkerId;
use exchange::control::RuntimeOption;
use serde::{Deserialize, Serialize};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::rules::fleet::Stage;
use crate::rules::pool::{Pool, State};
use crate::rules::refork::Origin;
use crate::runtime::children::children;
use crate::runtime::process_memory::{self, Figures};
use crate::runtime::shared::{Inner, Processes};
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
    /// A process that the application has started in a template or worker, or a descendant of one.
    Child,
}

/// A process of the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Its id.
    pub pid: i32,
    /// What it is.
    pub role: Role,
    /// The worker's number, from 0, also of a child of it; absent for the others.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub worker: Option<u16>,
    /// Its generation; absent for the front.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub generation: Option<u32>,
    /// The name of a child, as the kernel keeps it: any characters, at most 15 bytes. Absent for the others.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub name: Option<String>,
    /// `booting`, `starting`, `ready` or `stopping`; `running` for a child.
    pub state: String,
    /// The worker that has forked it, of a template that was not loaded but forked from a worker; absent for the others.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub forked_from: Option<Origin>,
    /// When it started, in seconds of the UNIX epoch.
    pub started: u64,
    /// Requests that a worker has finished; absent for the others.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub requests: Option<u64>,
    /// Private memory, in bytes: what it shares with no other process. Absent where the kernel does not tell, or not in time.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub memory_bytes: Option<u64>,
    /// Private memory of a worker, in bytes, in the second after it became ready. Absent for the others, and before that.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub first_memory_bytes: Option<u64>,
    /// The other figures of its memory. Absent as `memory_bytes` is.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub memory: Option<MemoryDetails>,
}

/// What a process holds beside its private memory, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryDetails {
    /// Resident set size: pages that processes share count in full for each of them.
    pub rss_bytes: u64,
    /// Proportional set size: a page that processes share is divided among them.
    pub pss_bytes: u64,
    /// Resident pages that other processes have as well.
    pub shared_bytes: u64,
    /// What is swapped out; it is in the private memory too.
    pub swap_bytes: u64,
}

/// A generation that is there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Generation {
    /// Its number.
    pub number: u32,
    /// `booting`, `serving` or `draining`.
    pub state: String,
    /// How Ruby itself runs in its template; empty until that has loaded the application.
    #[serde(default)]
    pub runtime: Vec<RuntimeOption>,
    /// Why no other template is forked from its workers by itself, although the setting `refork` asks for one. Absent where
    /// one may follow.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub refork_stopped: Option<String>,
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
            runtime: inner.runtime(generation.number),
            refork_stopped: inner.refork_stopped(generation.number),
        })
        .collect()
    }

    /// The same as [`Supervisor::processes`], with the memory of each, and with the processes that the application has
    /// started. It is read now, on another thread: the kernel takes milliseconds for a large process. Where it takes longer
    /// than a status may wait, the figures and those processes are missing.
    pub async fn measured_processes(&self) -> Vec<Process> {
        let rows = self.processes();
        let measured = timeout(MEASURE_TIMEOUT, self.measure(rows.clone())).await;
        measured.ok().flatten().unwrap_or(rows)
    }

    async fn measure(&self, mut rows: Vec<Process>) -> Option<Vec<Process>> {
        // One at a time: where the kernel does not answer, another call leaves no further thread behind.
        let turn = Arc::clone(&self.measuring).acquire_owned().await;
        let launcher = self.shared.launcher.get();
        let is_here = launcher.is_none();
        let measured = spawn_blocking(move || {
            add_children(&mut rows);
            if is_here {
                let figures = process_memory::read_here(&pids(&rows));
                add_memory(&mut rows, &figures);
            }
            drop(turn);
            rows
        });
        let mut rows = measured.await.ok()?;
        if launcher.is_some() {
            let figures = process_memory::read(pids(&rows), launcher).await;
            add_memory(&mut rows, &figures);
        }
        Some(rows)
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
            forked_from: None,
            started: epoch_seconds(self.since),
            requests: None,
            name: None,
            memory_bytes: None,
            first_memory_bytes: None,
            memory: None,
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

/// Adds the processes that the application has started. What the front starts is the server's own: templates, and in an
/// upgrade the new server.
fn add_children(rows: &mut Vec<Process>) {
    let parents = rows.iter().filter(|row| row.role != Role::Front);
    let parents: Vec<Process> = parents.cloned().collect();
    let pids: Vec<i32> = parents.iter().map(|parent| parent.pid).collect();
    rows.extend(children(&pids).into_iter().map(|child| Process {
        pid: child.pid,
        role: Role::Child,
        name: Some(child.name),
        state: "running".to_owned(),
        started: epoch_seconds(child.started),
        requests: None,
        forked_from: None,
        first_memory_bytes: None,
        ..parents[child.parent].clone()
    }));
}

fn pids(rows: &[Process]) -> Vec<i32> {
    rows.iter().map(|row| row.pid).collect()
}

/// Adds what each of them holds.
fn add_memory(rows: &mut [Process], figures: &Figures) {
    for row in rows {
        let Some(memory) = figures.all(row.pid) else {
            continue;
        };
        row.memory_bytes = Some(memory.private());
        row.memory = Some(MemoryDetails {
            rss_bytes: memory.rss,
            pss_bytes: memory.pss,
            shared_bytes: memory.shared(),
            swap_bytes: memory.swap_pss,
        });
    }
}

impl Inner {
    /// What the template of a generation said of Ruby itself.
    fn runtime(&self, generation: u32) -> Vec<RuntimeOption> {
        let processes = self.processes.get(&generation);
        let booted = processes.and_then(|processes| processes.booted.as_ref());
        booted.map_or_else(Vec::new, |booted| booted.runtime.clone())
    }

    /// Why re-forking by itself has stopped in a generation, where that was asked for.
    fn refork_stopped(&self, generation: u32) -> Option<String> {
        let processes = self.processes.get(&generation)?;
        let stopped = processes.refork.stopped().map(str::to_owned);
        stopped.filter(|_| !processes.load.plan.refork.is_empty())
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
            forked_from: None,
            started: epoch_seconds(started),
            requests: None,
            name: None,
            memory_bytes: None,
            first_memory_bytes: None,
            memory: None,
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
            rows.push(Process {
                forked_from: template.origin,
                ..row(pid, Role::Template, None, state, template.started)
            });
        }
        if let Some(older) = &self.older
            && let Some(pid) = older.pid
        {
            rows.push(Process {
                forked_from: older.origin,
                ..row(pid, Role::Template, None, "ready", older.started)
            });
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
                rows.push(Process {
                    first_memory_bytes: process.first_memory,
                    ..row(pid, Role::Worker, Some(number), state, process.started)
                });
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
