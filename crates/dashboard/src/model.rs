//! What the page shows, as data that the program fills in. Texts may come from anywhere: the page escapes them.
//!
//! Times of day are seconds of the UNIX epoch.

use std::collections::BTreeMap;

use crate::series::Measured;
use opened::Opened;

pub(crate) mod opened;

/// A server at one moment.
#[derive(Clone, Debug, Default)]
pub struct Model {
    /// The server itself.
    pub server: Server,
    /// Its applications; at least one while it serves.
    pub applications: Vec<Application>,
    /// The figures of all applications together over time.
    pub measured: Measured,
    /// Deploys, restarts and upgrades, the oldest first.
    pub marks: Vec<Mark>,
    /// The certificates of TLS.
    pub certificates: Vec<Certificate>,
    /// Requests that ended, by outcome, with those that no application got.
    pub outcomes: BTreeMap<String, u64>,
    /// Responses by the class of their status, such as `5xx`.
    pub responses: BTreeMap<String, u64>,
    /// What the page shows alone, where it does.
    pub opened: Option<Opened>,
    /// Whether the reader has signed in, and can sign out.
    pub has_session: bool,
}

/// The server.
#[derive(Clone, Debug, Default)]
pub struct Server {
    /// The version of Highball.
    pub version: String,
    /// The process of the front.
    pub pid: i32,
    /// `booting`, `serving` or `stopping`.
    pub state: String,
    /// The server's folder.
    pub dir: String,
    /// The time of this model.
    pub now: u64,
    /// When the server started.
    pub started: u64,
    /// Where it listens.
    pub listeners: Vec<String>,
    /// Open connections.
    pub connections: u64,
}

/// An application.
#[derive(Clone, Debug, Default)]
pub struct Application {
    /// Its name; that of its folder, where it is the only one.
    pub name: String,
    /// Its folder.
    pub dir: String,
    /// The environment that it runs in.
    pub environment: String,
    /// The hosts and the prefix whose requests it gets; empty for all.
    pub hosts: Vec<String>,
    /// The queue.
    pub queue: Queue,
    /// Its workers.
    pub workers: Vec<Worker>,
    /// While no worker can serve: the seconds until the next one starts.
    pub next_start_s: Option<u32>,
    /// Requests that ended, by outcome.
    pub outcomes: BTreeMap<String, u64>,
    /// Responses by the class of their status.
    pub responses: BTreeMap<String, u64>,
    /// Its routes, in any order.
    pub routes: Vec<Route>,
    /// Groups of exceptions, the newest first.
    pub exceptions: Vec<ExceptionGroup>,
    /// Slow requests, the slowest first.
    pub slow: Vec<SlowRequest>,
    /// The response cache, where it is on.
    pub cache: Option<Cache>,
    /// Its figures over time.
    pub measured: Measured,
}

/// Requests that wait for a thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct Queue {
    /// Now.
    pub length: u64,
    /// The greatest length since the start.
    pub longest: u64,
    /// The greatest length allowed.
    pub limit: u64,
    /// How long the oldest has been waiting, in milliseconds.
    pub oldest_ms: Option<u64>,
}

/// A worker.
#[derive(Clone, Debug, Default)]
pub struct Worker {
    /// Its number, from 0.
    pub number: u16,
    /// Its generation.
    pub generation: u32,
    /// Its process.
    pub pid: i32,
    /// `starting`, `ready` or `stopping`.
    pub state: String,
    /// When it started.
    pub started: u64,
    /// Requests that it has finished.
    pub requests: u64,
    /// Proportional set size, in bytes.
    pub pss_bytes: Option<u64>,
    /// Memory that it shares with no other process, in bytes.
    pub private_bytes: Option<u64>,
    /// What its threads do.
    pub threads: Vec<Thread>,
}

/// A thread of a worker.
#[derive(Clone, Debug, Default)]
pub struct Thread {
    /// Its number, from 0.
    pub number: u16,
    /// `idle`, `running` or `finishing`.
    pub state: String,
    /// Method and path of its request.
    pub request: Option<String>,
    /// How long it has been at that, in milliseconds.
    pub since_ms: Option<u64>,
}

impl Thread {
    /// Whether it does anything.
    pub fn is_busy(&self) -> bool {
        self.state != "idle"
    }
}

/// What became of the requests of a route since the server started. Times are those in the application, in seconds.
#[derive(Clone, Debug, Default)]
pub struct Route {
    /// Its name.
    pub name: String,
    /// Requests.
    pub count: u64,
    /// Requests a second, of late.
    pub rate: f64,
    /// Durations.
    pub p50_s: Option<f64>,
    /// Durations.
    pub p95_s: Option<f64>,
    /// Durations.
    pub p99_s: Option<f64>,
    /// The sum of all durations.
    pub total_s: f64,
    /// How much of that was the database's; absent where nothing tells.
    pub database_s: Option<f64>,
    /// How much of it was that of views; absent where nothing tells.
    pub view_s: Option<f64>,
    /// Queries of a request, on average; absent where nothing tells.
    pub queries: Option<f64>,
    /// CPU time of the threads that ran it.
    pub cpu_s: Option<f64>,
    /// How long they waited for Ruby's lock; absent where the Ruby does not tell.
    pub lock_s: Option<f64>,
    /// How much of it was garbage collection.
    pub gc_s: Option<f64>,
    /// Objects that a request allocates, on average.
    pub objects: Option<f64>,
    /// Requests that ended as an error.
    pub errors: u64,
}

/// Exceptions that have one cause.
#[derive(Clone, Debug, Default)]
pub struct ExceptionGroup {
    /// By which commands name it.
    pub id: String,
    /// The class.
    pub class: String,
    /// The newest message.
    pub message: String,
    /// The first frame of the application's own code.
    pub location: String,
    /// How many there were.
    pub count: u64,
    /// How many there were in each of the last hours, that of the current one first.
    pub hours: Vec<u64>,
    /// When the first came.
    pub first: u64,
    /// When the last came.
    pub last: u64,
    /// The release of the last one.
    pub release: Option<String>,
}

/// A slow request.
#[derive(Clone, Debug, Default)]
pub struct SlowRequest {
    /// By which its page is found: no other one has it.
    pub key: String,
    /// When it ended.
    pub at: u64,
    /// The id by which logs name it.
    pub id: Option<String>,
    /// Method and path.
    pub request: String,
    /// The route.
    pub route: Option<String>,
    /// How long it took, with the queue, in milliseconds.
    pub duration_ms: u64,
    /// How much of that it waited for a thread.
    pub queue_ms: u64,
    /// How much of it was the database's.
    pub database_ms: Option<u64>,
    /// Its status.
    pub status: Option<u16>,
    /// Its outcome.
    pub outcome: String,
    /// The worker.
    pub worker: Option<u16>,
    /// How often its thread was looked at.
    pub samples: u32,
}

/// Something that happened to the whole server or an application: a deploy, a restart, an upgrade.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Mark {
    /// When.
    pub at: u64,
    /// What, in a few words.
    pub text: String,
    /// The application; absent where it was the server.
    pub application: Option<String>,
}

/// The response cache of an application.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cache {
    /// Targets that have stored responses.
    pub targets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The most bytes.
    pub limit_bytes: u64,
    /// Requests that it answered, fresh or stale.
    pub hits: u64,
    /// Requests that the application answered.
    pub misses: u64,
}

/// A certificate.
#[derive(Clone, Debug, Default)]
pub struct Certificate {
    /// The hosts that it is used for.
    pub names: Vec<String>,
    /// The day on which it ends, such as `2026-11-22`.
    pub ends: String,
    /// What is wrong with it, or will be soon.
    pub warning: Option<String>,
}
