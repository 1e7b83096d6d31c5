//! The status of a running server: the shape of `status --json`. Data only; `reporter.rs` gathers it.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;

use front::{ApplicationSnapshot, CacheStatus, CertificateStatus, FrequentPath};
use metrics::{ApplicationTotals, Distribution};
use serde::{Deserialize, Serialize};
use supervisor::{Generation, Process, Role};

use crate::control::log_level::LevelReport;
use crate::control::routes::RouteReport;
use crate::experiments::ExperimentReport;
use crate::system::program::own_pid;
use crate::thread_advice::ThreadAdvice;
use crate::thread_limit::ActiveThreads;

/// A server at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Report {
    /// The version of Highball.
    pub(crate) version: String,
    /// The process of the front.
    pub(crate) pid: i32,
    /// The server's folder, which is that of its only application.
    pub(crate) dir: String,
    /// `booting`, `serving`, `replaced` or `stopping`.
    pub(crate) state: String,
    /// The time of this report, in seconds of the UNIX epoch.
    pub(crate) now: u64,
    /// Where it listens.
    pub(crate) listeners: Vec<String>,
    /// The only application, or all together.
    #[serde(flatten)]
    pub(crate) all: ApplicationReport,
    /// Each application, where there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) applications: Vec<NamedReport>,
    /// Open connections.
    pub(crate) connections: usize,
    /// Which of the server's own lines are written.
    #[serde(default)]
    pub(crate) log_level: LevelReport,
    /// The certificates that the server orders by itself.
    #[serde(default)]
    pub(crate) acme: Vec<certificates::CertificateStatus>,
    /// The certificates of TLS.
    #[serde(default)]
    pub(crate) certificates: Vec<CertificateStatus>,
    /// What became of spans, by name, where traces are sent.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) spans: BTreeMap<String, u64>,
}

/// Makes the report of this moment.
pub(crate) type ReportSource = dyn Fn() -> Pin<Box<dyn Future<Output = Report>>>;

/// One application at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ApplicationReport {
    /// The environment that it runs in.
    pub(crate) environment: String,
    /// How many workers there shall be.
    #[serde(default)]
    pub(crate) workers: Workers,
    /// The generations, the oldest first.
    pub(crate) generations: Vec<Generation>,
    /// Each generation's template and workers; of a server, the front before them.
    pub(crate) processes: Vec<Process>,
    /// What the threads of ready workers run.
    pub(crate) threads: Vec<Thread>,
    /// The queue.
    pub(crate) queue: Queue,
    /// Busy threads and waiting requests as a part of all threads: 1 where all are busy, more where requests wait.
    #[serde(default)]
    pub(crate) saturation: f64,
    /// How many threads of each worker take requests, where `threads` is a range.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) active_threads: Option<ActiveThreads>,
    /// How many threads a worker should have, once enough requests were measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) thread_advice: Option<ThreadAdvice>,
    /// The experiment that runs, or the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) experiment: Option<ExperimentReport>,
    /// The exchange's slots.
    pub(crate) slots: Slots,
    /// Requests that ended, by outcome, also at servers before this one.
    pub(crate) counters: BTreeMap<String, u64>,
    /// Responses that were sent, by the class of their status, such as `5xx`, also by servers before this one.
    #[serde(default)]
    pub(crate) responses: BTreeMap<String, u64>,
    /// Requests that ended at this server.
    #[serde(skip)]
    pub(crate) own_requests: u64,
    /// Responses with 5xx that this server has sent.
    #[serde(skip)]
    pub(crate) own_errors: u64,
    /// The response cache, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cache: Option<CacheStatus>,
    /// The pages that its next generation requests before workers are forked, the most frequent first; none where `warm_up` does
    /// not have `frequent`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) frequent_paths: Vec<FrequentPath>,
    /// Its routes, the one first that took the most time.
    #[serde(default)]
    pub(crate) routes: Vec<RouteReport>,
    /// The measures that the routes are made of, which the dashboard reads.
    #[serde(skip)]
    pub(crate) totals: Arc<ApplicationTotals>,
    /// How long requests took at this server, from their arrival to the end of the response.
    #[serde(skip)]
    pub(crate) latency: Distribution,
    /// Requests that were run again because their worker died.
    pub(crate) retried: u64,
    /// Requests that failed because two workers died while running them.
    pub(crate) killed_two_workers: u64,
    /// Why it has no process, where that is meant: `idle`. Its next request starts it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) stopped: Option<String>,
    /// While no worker can serve: the seconds until the next one starts.
    pub(crate) next_start_s: Option<u32>,
}

/// One of several applications.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct NamedReport {
    /// Its name.
    pub(crate) name: String,
    /// Its folder.
    pub(crate) dir: String,
    /// The hosts whose requests it gets; none for all that no other application has.
    pub(crate) hosts: Vec<String>,
    /// What the paths of its requests begin with; empty for all.
    pub(crate) prefix: String,
    /// The rest.
    #[serde(flatten)]
    pub(crate) own: ApplicationReport,
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

/// How many workers there shall be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Workers {
    /// By the setting `workers`; where that is a range, the least.
    pub(crate) setting: u16,
    /// As an operator wants (`highball scale`), or the load, or by the setting.
    pub(crate) wanted: u16,
    /// As many of these as `memory_budget` allows.
    pub(crate) allowed: u16,
    /// At most (`max_workers`).
    pub(crate) max: u16,
    /// The range of the setting, where the number follows the load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) by_load: Option<WorkersByLoad>,
}

/// A number of workers that follows the load.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WorkersByLoad {
    /// The least.
    pub(crate) min: u16,
    /// The most.
    pub(crate) max: u16,
    /// Whether an operator has set the number, so that it does not follow the load for now.
    pub(crate) scaled: bool,
    /// Why there are no more, although the load asks for more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) blocked: Option<String>,
}

/// Requests that wait for a thread.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Queue {
    /// Now.
    pub(crate) length: usize,
    /// The greatest length since the start.
    pub(crate) longest: usize,
    /// The greatest length allowed.
    pub(crate) limit: usize,
    /// Seconds that the oldest request has waited; 0 where none waits.
    #[serde(default)]
    pub(crate) age_s: f64,
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
}

impl ApplicationReport {
    /// Adds what the front and the supervisor know.
    pub(crate) fn with(
        self,
        front: ApplicationSnapshot,
        processes: Vec<Process>,
        threads: u16,
    ) -> Self {
        Self {
            threads: rows(&processes, &front, threads),
            processes,
            queue: Queue {
                length: front.queue.length,
                longest: front.queue.longest,
                limit: front.queue.limit,
                age_s: front.queue.age_s,
            },
            saturation: front.saturation.ratio(),
            slots: Slots {
                total: front.slots.total,
                free: front.slots.free,
            },
            own_requests: front.requests.values().sum(),
            own_errors: front.responses.get("5xx").copied().unwrap_or_default(),
            cache: front.cache,
            retried: front.retried,
            killed_two_workers: front.killed_two_workers,
            next_start_s: front.next_start_s,
            ..self
        }
    }
}

/// Returns a row for each thread of each worker that is not starting, with its request as the front knows it.
fn rows(processes: &[Process], front: &ApplicationSnapshot, threads: u16) -> Vec<Thread> {
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
