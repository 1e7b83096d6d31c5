//! The types of the control messages alone. How they are sent is `control.rs`, how they are shortened
//! `shorten.rs`.

use serde::{Deserialize, Serialize};

/// Messages from the supervisor to the template.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToTemplate {
    /// Load the application. Its descriptors: the exchange's memory (memfd), then the front's doorbell
    /// (eventfd). Answered by [`FromTemplate::Booted`] or [`FromTemplate::BootFailed`].
    Start(Start),
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
    /// Whether the template, and with it the workers, run under `SCHED_BATCH`.
    #[serde(default)]
    pub batch: bool,
    /// Whether to load the application at low priority, because another generation serves meanwhile; see
    /// [`lower_priority`](crate::scheduling::lower_priority). Workers run at normal priority.
    #[serde(default)]
    pub low_priority: bool,
    /// Path of a request to the application before the first fork.
    #[serde(default)]
    pub warm_up: Option<String>,
    /// Whether envs have `rack.early_hints`.
    #[serde(default)]
    pub early_hints: bool,
    /// Whether what Rails logs is written to stdout as well.
    #[serde(default)]
    pub rails_log_to_stdout: bool,
    /// Requests after which a worker does its work between requests; `None` for never.
    #[serde(default)]
    pub out_of_band: Option<u32>,
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
    /// Something to log, such as a failed hook.
    Error {
        /// The text; backtrace lines are separated by newlines.
        message: String,
    },
}
