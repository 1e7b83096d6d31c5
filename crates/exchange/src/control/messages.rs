//! The types of the control messages alone. How they are sent is `control.rs`, how they are shortened
//! `shorten.rs`.

use serde::{Deserialize, Serialize};

/// Messages from the supervisor to the template.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToTemplate {
    /// Load the application. Its descriptors: the exchange's memory (memfd), then the front's doorbell
    /// (eventfd). Answered by [`FromTemplate::Booted`] or [`FromTemplate::BootFailed`].
    Start(Box<Start>),
    /// Fork a worker. Its descriptor: the worker's end of its own control socket. Answered by
    /// [`FromTemplate::Forked`] or [`FromTemplate::NotForked`].
    Fork {
        /// Number of the worker, from 0 to the number of workers: one number more than serve is for a successor. A worker
        /// that died is replaced under its own number.
        worker: u16,
    },
    /// Exit: nothing more will be forked.
    Exit,
}

/// What the template needs to know to load the application.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Start {
    /// The application's folder, absolute.
    pub app: String,
    /// The rackup file, absolute.
    pub config_ru: String,
    /// `RACK_ENV` and `RAILS_ENV`.
    pub environment: String,
    /// The file of hooks, absolute; `None` where the application has none.
    pub hooks: Option<String>,
    /// Threads of each worker.
    pub threads: u16,
    /// Whether to compact Ruby's heap before the first fork.
    pub compact: bool,
    /// Whether to give Ruby's heap room for new objects before the first fork.
    #[serde(default)]
    pub roomy_heap: bool,
    /// Whether the kernel may merge equal pages of the template and the workers.
    #[serde(default)]
    pub merge_pages: bool,
    /// Whether the template, and with it the workers, run under `SCHED_BATCH`.
    #[serde(default)]
    pub batch: bool,
    /// Whether to load the application at low priority, because another generation serves meanwhile; see
    /// [`lower_priority`](crate::scheduling::lower_priority). Workers run at normal priority.
    #[serde(default)]
    pub low_priority: bool,
    /// Paths of requests to the application before the first fork.
    #[serde(default)]
    pub warm_up: Vec<String>,
    /// Further ones, which clients have asked for most, and which are requested after those within a bounded time; `None`: they
    /// are not wanted.
    #[serde(default)]
    pub frequent_paths: Option<Vec<String>>,
    /// Whether envs have `rack.early_hints`.
    #[serde(default)]
    pub early_hints: bool,
    /// Whether what Rails logs is written to stdout as well.
    #[serde(default)]
    pub rails_log_to_stdout: bool,
    /// Requests after which a worker does its work between requests; `None` for never.
    #[serde(default)]
    pub out_of_band: Option<u32>,
    /// Whether workers make major collections of garbage between requests, where Ruby lets them.
    #[serde(default)]
    pub out_of_band_gc: bool,
    /// Seconds without a request after which a worker gives memory back; `None` for never.
    #[serde(default)]
    pub release_memory_after: Option<u32>,
    /// Generation of the code, from 1.
    pub generation: u32,
    /// Socket files to remove if the front dies without having done so.
    pub unix_sockets: Vec<String>,
    /// The terminal that is stdin of template and workers, for debuggers; `None`: stdin is `/dev/null`, and template and
    /// workers are a process group of their own.
    #[serde(default)]
    pub terminal: Option<String>,
    /// Whether an error of the application is answered with a page that shows source and backtrace.
    #[serde(default)]
    pub error_page: bool,
    /// Whether each request is measured.
    #[serde(default)]
    pub measure_requests: bool,
    /// How exceptions are reported; `None`: not at all.
    #[serde(default)]
    pub exceptions: Option<Box<ExceptionRules>>,
    /// Whether the processes have another user than the front: then a worker gets bodies in files by [`FromWorker::Body`], and
    /// reads the files of responses itself.
    #[serde(default)]
    pub own_user: bool,
}

/// How a worker reports exceptions of the application.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExceptionRules {
    /// The classes that are not reported, and neither those below them.
    pub ignore: Vec<String>,
    /// Parts of the names of parameters whose values are left out.
    pub filter: Vec<String>,
    /// The release of the application; `None`: what its file `REVISION` says.
    pub release: Option<String>,
}

/// A folder whose files are for everybody, and how the application serves them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublicFolder {
    /// The folder.
    pub path: String,
    /// The name of a folder's own page, without `.html`.
    pub index: String,
    /// Whether a request that is not over https is redirected.
    pub https_only: bool,
    /// Fields of every response, each with its value.
    pub headers: Vec<(String, String)>,
}

/// One of the things that are done for the speed and the memory of Ruby itself, as it is in the template.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuntimeOption {
    /// The setting that it belongs to: `jit`, `allocator`, `compact`, `heap`, `merge_pages`.
    pub name: String,
    /// What there is: `yjit`, `jemalloc`, `none`.
    pub value: String,
    /// Why, in words.
    pub reason: String,
}

/// Messages from the template to the supervisor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum FromTemplate {
    /// The application is loaded; workers can be forked.
    Booted {
        /// The template's process.
        pid: i32,
        /// `RUBY_VERSION`.
        ruby: String,
        /// `Rack.release`.
        rack: String,
        /// How long loading took.
        seconds: f64,
        /// What the application holds that a fork loses or shares, a sentence each.
        held: Vec<String>,
        /// Loaded gems that are known not to survive a fork by themselves, a sentence each.
        gems: Vec<String>,
        /// Names of parameters whose values the application keeps out of logs.
        filter_parameters: Vec<String>,
        /// The folder that the application publishes.
        #[serde(default)]
        public_folder: Option<PublicFolder>,
        /// How Ruby itself runs; of another user's template any text.
        #[serde(default)]
        runtime: Vec<RuntimeOption>,
    },
    /// The application raised while it was loaded; the template exits.
    BootFailed {
        /// The exception's class.
        class: String,
        /// The exception's message.
        message: String,
        /// The exception's backtrace, innermost first.
        backtrace: Vec<String>,
    },
    /// A worker was forked. Its descriptor: the worker's pidfd.
    Forked {
        /// Number of the worker.
        worker: u16,
        /// Its process.
        pid: i32,
    },
    /// The requested worker could not be forked; no process is left.
    NotForked {
        /// Number of the worker.
        worker: u16,
        /// Why: an exception, and where it was raised.
        reason: String,
    },
    /// A worker ended and was reaped.
    Exited {
        /// Number of the worker.
        worker: u16,
        /// Its process.
        pid: i32,
        /// How it ended: `exit 1`, `signal 9 (KILL)`.
        status: String,
    },
    /// The answer of a worker to [`ToWorker::Refork`], on the socket that came with that: once it has left, a template
    /// follows there. After the fork the worker sends [`FromTemplate::Forked`] there with that template's pidfd, and the
    /// template itself [`FromTemplate::Booted`]; [`FromTemplate::BootFailed`] says why there is none.
    Donor {
        /// What the template will lack of what the worker has, a sentence each.
        lost: Vec<String>,
    },
    /// What the application has counted in the template itself (`Highball.metrics`).
    Counts {
        /// JSON, as in [`Kind::Counts`](crate::response::Kind::Counts).
        batch: String,
    },
}

/// Messages from the supervisor to a worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToWorker {
    /// Report where a thread is, if it still runs this request. Answered by [`FromWorker::Backtrace`].
    Backtrace {
        /// The thread, from 0.
        thread: u16,
        /// Slot of the request in the exchange.
        slot: u16,
        /// The slot's sequence number at the claim.
        sequence: u32,
    },
    /// The answer to [`FromWorker::Purge`].
    Purged {
        /// As asked.
        id: u32,
        /// What became of it.
        result: Purged,
    },
    /// The answer to [`FromWorker::Body`]. Its descriptor: the body, to be read from its start; none where the request is
    /// another one by now, or there are no descriptors left.
    Body {
        /// As asked.
        thread: u16,
        /// As asked.
        sequence: u32,
    },
    /// Fork a new template when this worker has finished what it runs. Its descriptor: the template's end of its own control
    /// socket. Answered on that socket by [`FromTemplate::Donor`] or [`FromTemplate::BootFailed`].
    Refork,
    /// Say how this process is. Answered by [`FromWorker::Inspected`], more than once.
    Inspect {
        /// Names the answer.
        id: u32,
        /// What is wanted.
        what: Inspect,
    },
}

/// Which time of a worker's threads a profile counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProfileMode {
    /// CPU time: what computes.
    #[default]
    Cpu,
    /// Time as it passes: what computes and what waits.
    Wall,
}

/// What a worker is to say of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Inspect {
    /// Where its request threads are in the time that begins now.
    Profile {
        /// Length of that time.
        milliseconds: u32,
        /// Which time counts.
        mode: ProfileMode,
    },
    /// Where each of its threads is now.
    Backtraces,
    /// Figures of its garbage collector.
    Gc,
}

/// What became of a request that the response cache forget something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Purged {
    /// It forgot the responses of so many URLs.
    Urls(u64),
    /// There is no response cache.
    NoCache,
    /// Too many such requests of this worker wait.
    Refused,
}

/// What the response cache is to forget.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Purge {
    /// One URL.
    Url(String),
    /// All URLs that begin so.
    Prefix(String),
    /// All responses with this tag.
    Tag(String),
}

/// Messages from a worker to the supervisor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromWorker {
    /// Its threads serve requests.
    Ready {
        /// Number of the worker.
        worker: u16,
        /// Its process.
        pid: i32,
    },
    /// The application took the connection of a request over. Its descriptor: the socket to splice with.
    Hijack {
        /// Number of the worker.
        worker: u16,
        /// Thread within the worker, from 0.
        thread: u16,
        /// Slot of the request in the exchange.
        slot: u32,
        /// The slot's sequence number at the claim. It distinguishes a late message from a current one.
        sequence: u64,
    },
    /// The answer to [`ToWorker::Backtrace`].
    Backtrace {
        /// As asked.
        slot: u16,
        /// As asked.
        sequence: u32,
        /// Where the thread is, innermost first; empty where it does not run that request any more.
        backtrace: Vec<String>,
    },
    /// Open the body of a request, which lies in a file of the front. Answered by [`ToWorker::Body`].
    Body {
        /// The thread that runs the request, from 0.
        thread: u16,
        /// Slot of the request in the exchange.
        slot: u16,
        /// The slot's sequence number at the claim.
        sequence: u32,
    },
    /// Have the response cache forget something. Answered by [`ToWorker::Purged`].
    Purge {
        /// Names the answer.
        id: u32,
        /// What it is to forget.
        what: Purge,
    },
    /// A piece of the answer to [`ToWorker::Inspect`].
    Inspected {
        /// As asked.
        id: u32,
        /// The next piece of its text.
        text: String,
        /// Whether it is the last one.
        last: bool,
    },
    /// What the application has counted (`Highball.metrics`) and no response has told.
    Counts {
        /// JSON, as in [`Kind::Counts`](crate::response::Kind::Counts).
        batch: String,
    },
    /// Something to log, such as a failed hook.
    Error {
        /// The text; backtrace lines are separated by newlines.
        message: String,
    },
}
