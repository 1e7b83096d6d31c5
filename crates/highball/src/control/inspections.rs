//! What operators want to know of where time goes: slow requests, profiles, backtraces, garbage collectors. It asks fronts
//! and workers, and changes nothing.

use std::collections::BTreeMap;
use std::rc::Rc;

use exchange::WorkerId;
use exchange::control::{Inspect, ProfileMode};
use front::SlowRequest;
use front::panics::spawn_contained;
use profiles::{Profile, ReportError, StackTree, ThreadStack};
use serde::{Deserialize, Serialize};
use supervisor::{InspectError, MAX_PROFILE, Role};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{spawn_blocking, spawn_local};

use crate::hosted::Hosted;

/// Questions that wait to be passed on; further commands wait for these.
pub(crate) const INSPECTIONS: usize = 16;

/// A question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Inspection {
    /// What is wanted.
    pub(crate) what: Wanted,
    /// The application's name; by default all.
    pub(crate) application: Option<String>,
    /// The worker's number.
    pub(crate) worker: Option<u16>,
}

/// What is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// The slowest requests; with the stacks of this one, counted from 1.
    Slow {
        /// Its number.
        number: Option<u32>,
    },
    /// A profile of one worker.
    Profile {
        /// How long.
        milliseconds: u32,
        /// Which time counts.
        mode: ProfileMode,
    },
    /// Where all threads are.
    Backtraces,
    /// Figures of garbage collectors.
    Gc,
}

/// The answer.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Inspected {
    /// The slowest first.
    Slow(Vec<NamedSlowRequest>),
    /// Of one worker.
    Profile(Box<WorkerProfile>),
    /// Of each worker, or why there are none.
    Backtraces(Vec<OfWorker<Vec<ThreadStack>>>),
    /// Of each worker, or why there are none.
    Gc(Vec<OfWorker<Figures>>),
}

/// Figures by their names.
pub(crate) type Figures = BTreeMap<String, u64>;

/// A slow request of an application.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct NamedSlowRequest {
    /// The application's name, where there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) application: Option<String>,
    /// The request.
    #[serde(flatten)]
    pub(crate) request: SlowRequest,
    /// Number of samples of its thread.
    pub(crate) samples: u32,
}

/// A profile of one worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct WorkerProfile {
    /// The worker.
    #[serde(flatten)]
    pub(crate) worker: WorkerName,
    /// How long it was sampled, in seconds.
    pub(crate) seconds: f64,
    /// Which time was counted.
    pub(crate) mode: ProfileMode,
    /// CPU time of its request threads meanwhile, in seconds; none where time as it passes was counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cpu_seconds: Option<f64>,
    /// How many stacks were read. One stands for several samples where none could be read for a while.
    pub(crate) stacks_read: u32,
    /// Samples of threads that waited for a request, in mode `wall`.
    pub(crate) idle: u32,
    /// Samples without room in the worker.
    pub(crate) dropped: u32,
    /// The share of one core that sampling took.
    pub(crate) overhead: f64,
    /// Where its threads were while they ran requests, or computed.
    pub(crate) stacks: StackTree,
}

/// A worker of a running server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct WorkerName {
    /// The application's name, where there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) application: Option<String>,
    /// Its generation.
    pub(crate) generation: u32,
    /// Its number.
    pub(crate) worker: u16,
    /// Its process.
    pub(crate) pid: i32,
}

/// What a worker has said, or why it has not.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct OfWorker<T> {
    /// The worker.
    #[serde(flatten)]
    pub(crate) worker: WorkerName,
    /// What it has said.
    #[serde(default = "Option::default", skip_serializing_if = "Option::is_none")]
    pub(crate) answer: Option<T>,
    /// Why it has said nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
}

/// A question, and where its answer goes.
#[derive(Debug)]
pub(crate) struct InspectionRequest {
    what: Inspection,
    done: oneshot::Sender<Result<Inspected, String>>,
}

impl InspectionRequest {
    /// Sends a question and waits for its answer.
    pub(crate) async fn send(
        what: Inspection,
        sink: &mpsc::Sender<Self>,
    ) -> Result<Inspected, String> {
        let (done, answer) = oneshot::channel();
        let _ = sink.send(Self { what, done }).await;
        let stopping = |_| Err("the server is stopping".to_owned());
        answer.await.unwrap_or_else(stopping)
    }
}

/// Answers questions, at the same time.
pub(crate) async fn carry_out(
    hosted: Vec<Rc<Hosted>>,
    mut requests: mpsc::Receiver<InspectionRequest>,
) {
    while let Some(InspectionRequest { what, done }) = requests.recv().await {
        let hosted = hosted.clone();
        spawn_contained(async move {
            // Who asked may have left.
            let _ = done.send(inspect(&hosted, what).await);
        });
    }
}

/// Answers a question, or says in words why there is no answer.
async fn inspect(hosted: &[Rc<Hosted>], question: Inspection) -> Result<Inspected, String> {
    let hosted = named(hosted, question.application.as_deref())?;
    match question.what {
        Wanted::Slow { number } => slow(&hosted, number).map(Inspected::Slow),
        Wanted::Profile { milliseconds, mode } => {
            let (own, worker) = busiest(&workers(&hosted, question.worker)?);
            let profile = profile(&own, worker, milliseconds, mode).await?;
            Ok(Inspected::Profile(Box::new(profile)))
        }
        Wanted::Backtraces => {
            let all = workers(&hosted, question.worker)?;
            Ok(Inspected::Backtraces(
                ask_each(all, Inspect::Backtraces, profiles::threads).await,
            ))
        }
        Wanted::Gc => {
            let all = workers(&hosted, question.worker)?;
            Ok(Inspected::Gc(
                ask_each(all, Inspect::Gc, |text| {
                    profiles::figures(text).map(Figures::from_iter)
                })
                .await,
            ))
        }
    }
}

/// The applications that a question is about.
fn named(hosted: &[Rc<Hosted>], name: Option<&str>) -> Result<Vec<Rc<Hosted>>, String> {
    let Some(name) = name else {
        return Ok(hosted.to_vec());
    };
    let found = hosted
        .iter()
        .find(|one| one.name().as_deref() == Some(name));
    match found {
        Some(one) => Ok(vec![Rc::clone(one)]),
        None => Err(format!("this server has no application {name:?}")),
    }
}

/// The slowest requests of all these applications. Only the wanted one has its stacks.
fn slow(hosted: &[Rc<Hosted>], number: Option<u32>) -> Result<Vec<NamedSlowRequest>, String> {
    let of = |one: &Rc<Hosted>| {
        let application = one.name();
        let all = one.front.slow_requests().into_iter();
        all.map(move |request| NamedSlowRequest {
            application: application.clone(),
            samples: request.stacks.samples(),
            request,
        })
    };
    let mut all: Vec<_> = hosted.iter().flat_map(of).collect();
    all.sort_by(|one, other| other.request.app_ms.total_cmp(&one.request.app_ms));
    let Some(number) = number else {
        for one in &mut all {
            one.request.stacks = StackTree::default();
        }
        return Ok(all);
    };
    let count = all.len();
    let wanted = (number as usize).checked_sub(1).filter(|at| *at < count);
    let at = wanted.ok_or_else(|| {
        format!("there is no slow request {number}: `highball slow` lists {count} of the last hour")
    })?;
    let mut one = all.swap_remove(at);
    let folder = hosted.iter().find(|own| own.name() == one.application);
    if let Some(own) = folder {
        make_relative(&mut one.request.stacks, own);
    }
    Ok(vec![one])
}

/// The workers that a question is about, each with its application and the requests that it has finished.
fn workers(
    hosted: &[Rc<Hosted>],
    number: Option<u16>,
) -> Result<Vec<(Rc<Hosted>, WorkerName, u64)>, String> {
    let of = |own: &Rc<Hosted>| {
        let processes = own.supervisor.processes();
        let own = Rc::clone(own);
        processes.into_iter().filter_map(move |process| {
            let worker = process.worker.filter(|_| process.role == Role::Worker)?;
            let name = WorkerName {
                application: own.name(),
                generation: process.generation?,
                worker,
                pid: process.pid,
            };
            Some((Rc::clone(&own), name, process.requests.unwrap_or(0)))
        })
    };
    let all = hosted.iter().flat_map(of);
    let wanted = all.filter(|(_, name, _)| number.is_none_or(|number| number == name.worker));
    let found: Vec<_> = wanted.collect();
    match (found.is_empty(), number) {
        (false, _) => Ok(found),
        (true, Some(number)) => Err(format!(
            "there is no worker {number}: `highball status` lists them"
        )),
        (true, None) => Err("no worker is running".to_owned()),
    }
}

/// The worker that has finished most requests.
fn busiest(workers: &[(Rc<Hosted>, WorkerName, u64)]) -> (Rc<Hosted>, WorkerName) {
    let most = |(_, name, requests): &&(Rc<Hosted>, WorkerName, u64)| {
        (*requests, std::cmp::Reverse(name.worker))
    };
    let (own, name, _) = workers.iter().max_by_key(most).expect("there is one");
    (Rc::clone(own), name.clone())
}

async fn profile(
    own: &Hosted,
    worker: WorkerName,
    milliseconds: u32,
    mode: ProfileMode,
) -> Result<WorkerProfile, String> {
    let most = MAX_PROFILE.as_millis() as u32;
    let what = Inspect::Profile {
        milliseconds: milliseconds.min(most),
        mode,
    };
    let mut profile = ask(own, &worker, what, Profile::read)
        .await
        .map_err(|reason| format!("worker {} (pid {}) {reason}", worker.worker, worker.pid))?;
    make_relative(&mut profile.tree, own);
    Ok(WorkerProfile {
        worker,
        seconds: profile.wall_us as f64 / 1e6,
        mode,
        cpu_seconds: (mode == ProfileMode::Cpu).then_some(profile.used_us as f64 / 1e6),
        stacks_read: profile.taken,
        idle: profile.idle,
        dropped: profile.dropped,
        overhead: profile.overhead(),
        stacks: profile.tree,
    })
}

/// Asks all of these workers at the same time.
async fn ask_each<T: Send + 'static>(
    workers: Vec<(Rc<Hosted>, WorkerName, u64)>,
    what: Inspect,
    read: fn(&str) -> Result<T, ReportError>,
) -> Vec<OfWorker<T>> {
    let tasks = workers.into_iter().map(|(own, worker, _)| {
        spawn_local(async move {
            let (answer, error) = match ask(&own, &worker, what, read).await {
                Ok(answer) => (Some(answer), None),
                Err(error) => (None, Some(error)),
            };
            OfWorker {
                worker,
                answer,
                error,
            }
        })
    });
    let mut all = Vec::new();
    for task in tasks.collect::<Vec<_>>() {
        // A task that was aborted ends with the server.
        all.extend(task.await);
    }
    all
}

/// Asks a worker, and reads its answer on another thread: it may be long. The error continues a sentence about the worker.
async fn ask<T: Send + 'static>(
    own: &Hosted,
    worker: &WorkerName,
    what: Inspect,
    read: fn(&str) -> Result<T, ReportError>,
) -> Result<T, String> {
    let id = WorkerId::new(worker.generation, worker.worker);
    let text = supervisor::inspect(&own.supervisor, id, what).await;
    let text = text.map_err(|error: InspectError| error.to_string())?;
    if let Some(error) = text.strip_prefix("error ") {
        let error = profiles::printable(error, MAX_REASON_BYTES);
        return Err(format!("could not answer: {error}"));
    }
    let read = spawn_blocking(move || read(&text)).await;
    match read {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(format!("sent what is no answer: {error}")),
        Err(_) => Err("sent what could not be read".to_owned()),
    }
}

/// Most bytes of a worker's own words that are shown.
const MAX_REASON_BYTES: usize = 512;

/// Takes the application's folder off the paths of files, also where a link leads to it.
fn make_relative(stacks: &mut StackTree, own: &Hosted) {
    let dir = own.application.borrow().dir.clone();
    let real = dir.canonicalize().ok();
    for folder in [Some(dir), real].into_iter().flatten() {
        stacks.make_relative(&folder.to_string_lossy());
    }
}
