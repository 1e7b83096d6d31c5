//! The status of a running server: the shape of `status --json`, and how it is gathered. Only reads.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{SystemTime, UNIX_EPOCH};

use front::{Front, Snapshot};
use serde::{Deserialize, Serialize};
use supervisor::{Generation, Process, Role, Supervisor};

use crate::system::program::own_pid;

/// A server at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Report {
    /// The version of Highball.
    pub(crate) version: String,
    /// The process of the front.
    pub(crate) pid: i32,
    /// The application's folder.
    pub(crate) dir: String,
    /// The environment that the application runs in.
    pub(crate) environment: String,
    /// `booting`, `serving` or `stopping`.
    pub(crate) state: String,
    /// The time of this report, in seconds of the UNIX epoch.
    pub(crate) now: u64,
    /// Where it listens.
    pub(crate) listeners: Vec<String>,
    /// The generations, the oldest first.
    pub(crate) generations: Vec<Generation>,
    /// The front, and each generation's template and workers.
    pub(crate) processes: Vec<Process>,
    /// What the threads of ready workers run.
    pub(crate) threads: Vec<Thread>,
    /// The queue.
    pub(crate) queue: Queue,
    /// The exchange's slots.
    pub(crate) slots: Slots,
    /// Open connections.
    pub(crate) connections: usize,
    /// Requests that ended, by outcome.
    pub(crate) counters: BTreeMap<String, u64>,
    /// Responses that were sent, by the class of their status, such as `5xx`.
    #[serde(default)]
    pub(crate) responses: BTreeMap<String, u64>,
    /// Requests that were run again because their worker died.
    pub(crate) retried: u64,
    /// Requests that failed because two workers died while running them.
    pub(crate) killed_two_workers: u64,
    /// While no worker can serve: the seconds until the next one starts.
    pub(crate) next_start_s: Option<u32>,
}

/// Gathers the status.
pub(crate) struct Reporter {
    /// The fields that never change.
    pub(crate) fixed: Report,
    pub(crate) front: Rc<Front>,
    pub(crate) supervisor: Rc<Supervisor>,
    /// `booting`, `serving` or `stopping`.
    pub(crate) state: Rc<Cell<&'static str>>,
}

impl Reporter {
    /// Returns the status now. Waits for the kernel's figures of memory, for a bounded time.
    pub(crate) async fn report(&self) -> Report {
        let processes = self.supervisor.measured_processes().await;
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let settings = self.front.settings();
        let report = Report {
            environment: settings.environment.clone(),
            state: self.state.get().to_owned(),
            now: now.map_or(0, |elapsed| elapsed.as_secs()),
            generations: self.supervisor.generations(),
            ..self.fixed.clone()
        };
        report.with(self.front.snapshot(), processes, settings.threads)
    }
}

/// A thread of a worker.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Thread {
    /// The worker's generation.
    pub(crate) generation: u32,
    /// The worker, from 0.
    pub(crate) worker: u16,
    /// The thread, from 0.
    pub(crate) thread: u16,
    /// `idle`, `running`, or `finishing`: busy with what follows a response.
    pub(crate) state: String,
    /// The method of its request.
    pub(crate) method: Option<String>,
    /// The path of its request.
    pub(crate) path: Option<String>,
    /// How long it has been running or finishing, in milliseconds.
    pub(crate) since_ms: Option<u64>,
}

/// Requests that wait for a thread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Queue {
    /// Now.
    pub(crate) length: usize,
    /// The greatest length since the start.
    pub(crate) longest: usize,
    /// The greatest length allowed.
    pub(crate) limit: usize,
}

/// Slots of the exchange.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Slots {
    /// All slots.
    pub(crate) total: usize,
    /// Slots without a request.
    pub(crate) free: usize,
}

impl Report {
    /// The fields that never change while a server runs.
    pub(crate) fn fixed(dir: String, listeners: Vec<String>) -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: own_pid(),
            dir,
            listeners,
            ..Self::default()
        }
    }

    /// Adds what the front and the supervisor know.
    pub(crate) fn with(self, front: Snapshot, processes: Vec<Process>, threads: u16) -> Self {
        Self {
            threads: rows(&processes, &front, threads),
            processes,
            queue: Queue {
                length: front.queue.length,
                longest: front.queue.longest,
                limit: front.queue.limit,
            },
            slots: Slots {
                total: front.slots.total,
                free: front.slots.free,
            },
            connections: front.connections,
            counters: owned(front.requests),
            responses: owned(front.responses),
            retried: front.retried,
            killed_two_workers: front.killed_two_workers,
            next_start_s: front.next_start_s,
            ..self
        }
    }
}

fn owned(counts: BTreeMap<&str, u64>) -> BTreeMap<String, u64> {
    let counts = counts.into_iter();
    counts
        .map(|(name, count)| (name.to_owned(), count))
        .collect()
}

/// Returns a row for each thread of each worker that is not starting, with its request as the front knows it.
fn rows(processes: &[Process], front: &Snapshot, threads: u16) -> Vec<Thread> {
    let alive = processes
        .iter()
        .filter(|process| process.role == Role::Worker && process.state != "starting");
    let every_thread = alive
        .filter_map(|process| process.generation.zip(process.worker))
        .flat_map(|worker| (0..threads).map(move |thread| (worker, thread)));
    let row = |((generation, worker), thread)| {
        let running = front.running.iter().find(|running| {
            let of = (running.generation, running.worker, running.thread);
            of == (generation, worker, thread)
        });
        let finishing = front.finishing.iter().find(|finishing| {
            let of = (finishing.generation, finishing.worker, finishing.thread);
            of == (generation, worker, thread)
        });
        let state = match (running, finishing) {
            (Some(_), _) => "running",
            (None, Some(_)) => "finishing",
            (None, None) => "idle",
        };
        let since_ms = running.map(|running| running.since_ms);
        Thread {
            generation,
            worker,
            thread,
            state: state.to_owned(),
            method: running.map(|running| running.method.clone()),
            path: running.map(|running| running.path.clone()),
            since_ms: since_ms.or(finishing.map(|finishing| finishing.since_ms)),
        }
    };
    every_thread.map(row).collect()
}
