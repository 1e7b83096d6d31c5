//! One load of the application: what is run, what came of it, and in words why it or its generation failed.

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use exchange::control::{PublicFolder, RuntimeOption, Start};

use crate::rules::budget::Bound;
use crate::rules::limits::Limits;
use crate::rules::scale::Scale;
use crate::runtime::exit_status::ExitStatus;

/// What to run, and how.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The Ruby interpreter: a path, or a name to look up in `PATH`.
    pub ruby: String,
    /// The folder of Highball's Ruby files; holds `highball/template.rb`.
    pub library: PathBuf,
    /// The number of workers, unless [`crate::scale`] says otherwise.
    pub workers: u16,
    /// The most workers that there may be by load; `workers` where the number does not follow it.
    pub most_by_load: u16,
    /// The most workers that there may be at once.
    pub most_workers: u16,
    /// How long loading the application may take, and each start of a worker, until [`crate::Supervisor::apply_settings`] says
    /// otherwise.
    pub boot_timeout: Duration,
    /// How long a worker that was told to exit may take to finish requests without a deadline to come, until the same says
    /// otherwise.
    pub drain_timeout: Duration,
    /// What a worker's life is limited to.
    pub limits: Limits,
    /// How much memory all processes may hold together.
    pub budget: Bound,
    /// Whether a restart replaces worker by worker, so that there is never more than one too many.
    pub worker_by_worker: bool,
    /// What the generation must pass before it takes over, as [`exchange::Dispatcher::check`] understands it.
    pub check: Option<String>,
    /// After how many requests of a worker a template is forked from it, each number once.
    pub refork: Vec<u64>,
    /// Variables of this process that are not for the application.
    pub own_variables: Vec<String>,
    /// Variables that the application has in addition, or in place of this process's.
    pub variables: Vec<(String, String)>,
    /// The soft limit of descriptors (RLIMIT_NOFILE) of template, workers and what they start; `None` for that of this
    /// process.
    pub descriptors: Option<u64>,
}

impl Plan {
    /// How many workers are wanted, whatever memory allows: as an operator says, or the load, or the settings.
    pub(crate) fn wanted(&self, scale: Scale) -> u16 {
        scale.wanted(self.workers, self.most_by_load, self.most_workers)
    }
}

/// One load of the application: a generation.
#[derive(Debug)]
pub struct Load {
    /// What the template is told.
    pub start: Start,
    /// The exchange's memory (memfd) and the front's doorbell (eventfd).
    pub exchange: [OwnedFd; 2],
    /// What is run.
    pub plan: Plan,
}

/// A loaded application.
#[derive(Clone, Debug, PartialEq)]
pub struct Booted {
    /// The template's process.
    pub pid: i32,
    /// The version of Ruby.
    pub ruby: String,
    /// The version of Rack.
    pub rack: String,
    /// How long loading took.
    pub seconds: f64,
    /// What a fork loses or shares of what the application holds, a sentence each.
    pub held: Vec<String>,
    /// Loaded gems that are known to mind a fork, a sentence each.
    pub gems: Vec<String>,
    /// Names of parameters whose values the application keeps out of logs.
    pub filter_parameters: Vec<String>,
    /// The folder that the application publishes.
    pub public_folder: Option<PublicFolder>,
    /// How Ruby itself runs in the template.
    pub runtime: Vec<RuntimeOption>,
}

/// Why the application was not loaded. Written for the person who started the server.
#[derive(Debug, thiserror::Error)]
pub enum BootError {
    /// The interpreter could not be started.
    #[error("cannot run {ruby:?} in {app}{user}: {reason} (setting `ruby`)")]
    Spawn {
        /// The interpreter.
        ruby: String,
        /// The application's folder.
        app: String,
        /// As whom, where that is not the server's user; begins with a space.
        user: String,
        /// What the system says. No `source`: the text above is the whole message.
        reason: io::Error,
    },
    /// The application raised.
    #[error("{}", raised(class, message, backtrace))]
    Raised {
        /// The exception's class.
        class: String,
        /// Its message.
        message: String,
        /// Its backtrace, innermost first.
        backtrace: Vec<String>,
    },
    /// The process ended without a word; Ruby's own message, if any, went to stderr.
    #[error(
        "the application did not boot: ruby ended with {0}; its message is in the server's output"
    )]
    Ended(ExitStatus),
    /// It took too long.
    #[error("the application did not boot within {0:?} (setting `boot_timeout`)")]
    Timeout(Duration),
    /// The control socket failed, or something else than the template answered.
    #[error("the application did not boot: {0}")]
    Control(#[from] exchange::control::Error),
    /// There is no memory or descriptor for an exchange in place of one that is corrupt.
    #[error("cannot make the exchange: {0}")]
    Exchange(io::Error),
    /// It took too long at a low priority ([`Start::low_priority`]), and still waits for a core.
    #[error("loading the application at low priority timed out")]
    Starved,
    /// The server stops.
    #[error("loading the application was cancelled")]
    CalledOff,
}

fn raised(class: &str, message: &str, backtrace: &[String]) -> String {
    let mut text = format!("the application did not boot: {message} ({class})");
    for line in backtrace {
        text.push_str("\n    from ");
        text.push_str(line);
    }
    text
}

/// Why a generation could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The application was not loaded.
    #[error(transparent)]
    Boot(#[from] BootError),
    /// Its template ended after it had loaded the application.
    #[error("the template ended with {0}")]
    Template(ExitStatus),
    /// Workers were forked but those of one number did not last.
    #[error(
        "worker {worker} ended {deaths} times in a row when it was started; the reason is in the server's output"
    )]
    Worker {
        /// The worker, from 0.
        worker: u16,
        /// How often.
        deaths: u32,
    },
    /// Workers took too long, for example in an after_fork hook.
    #[error("the workers were not ready within {0:?} (setting `boot_timeout`)")]
    Timeout(Duration),
    /// It did not pass the check.
    #[error("the check failed (setting `ready_check`): {0}")]
    Check(String),
    /// One of its workers damaged the exchange.
    #[error("one of its workers damaged the memory that it shares with the front")]
    Corrupt,
    /// Another generation is on its way in or out.
    #[error("another generation is starting or draining")]
    Busy,
    /// The server stops.
    #[error("the server is stopping")]
    CalledOff,
    /// It was there for an experiment, which was ended before.
    #[error("the experiment was ended")]
    ExperimentOver,
}
