//! The commands, as values. Data only.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap_complete::Shell;

use crate::server_arguments::{ExperimentArguments, PlanArguments, ServerArguments, ViewArguments};

/// A command.
#[derive(Debug, PartialEq)]
pub enum Command {
    /// Serve an application.
    Serve(ApplicationArguments),
    /// Show the settings, and whether the application loads.
    Check(ApplicationArguments),
    /// Show a running server.
    Status {
        /// Which one.
        server: ServerArguments,
        /// As JSON, for programs.
        json: bool,
        /// How often it is shown; once if absent.
        watch: Option<Duration>,
    },
    /// Show the exceptions of a running server's applications.
    Exceptions {
        /// Which server.
        server: ServerArguments,
        /// The group that is shown with its samples; by default all are listed.
        group: Option<String>,
        /// As JSON, for programs.
        json: bool,
    },
    /// Show the memory of a running server.
    Memory {
        /// Which one.
        server: ServerArguments,
        /// All that the user may reach, in its place.
        all: bool,
        /// As JSON, for programs.
        json: bool,
    },
    /// Open the dashboard of a running server.
    Dashboard(ServerArguments),
    /// Watch a running server in the terminal.
    Top {
        /// Which one.
        server: ServerArguments,
        /// How long after a reading of the status the next one follows.
        interval: Duration,
    },
    /// Show the certificates of a running server, or those that are stored.
    Certificates {
        /// Which server.
        server: ServerArguments,
        /// As JSON, for programs.
        json: bool,
    },
    /// Have a running server load an application's code again.
    Restart {
        /// Which server.
        server: ServerArguments,
        /// The application's name; by default all are restarted.
        application: Option<String>,
    },
    /// Have a running server use another number of workers.
    Scale {
        /// Which server.
        server: ServerArguments,
        /// How many; none: as the settings say.
        workers: Option<u16>,
        /// The application's name, where there are several.
        application: Option<String>,
    },
    /// Have a running server write more or fewer lines of its own.
    LogLevel {
        /// Which server.
        server: ServerArguments,
        /// The least level that is written, or `default`.
        level: String,
    },
    /// Have a running server fork a new template from a worker that has served requests.
    Refork {
        /// Which server.
        server: ServerArguments,
        /// The application's name; by default all of them.
        application: Option<String>,
    },
    /// Have a running server read its settings again.
    Reload(ServerArguments),
    /// Replace a running server by another program.
    Upgrade {
        /// Which one.
        server: ServerArguments,
        /// The program; by default the file that the server was started from.
        binary: Option<PathBuf>,
    },
    /// Stop a running server.
    Stop {
        /// Which one.
        server: ServerArguments,
        /// Abort running requests.
        now: bool,
    },
    /// Forget stored responses.
    Purge {
        /// Which server's.
        server: ServerArguments,
        /// What is forgotten.
        what: Purge,
    },
    /// Show slow requests.
    Slow {
        /// Which server's, and how.
        view: ViewArguments,
        /// The number of one of them.
        number: Option<u32>,
    },
    /// Profile a worker.
    Profile {
        /// Which server's, and how.
        view: ViewArguments,
        /// How long, in seconds.
        seconds: u32,
        /// Which time counts.
        mode: ProfileMode,
    },
    /// Show where all threads are.
    Backtraces(ViewArguments),
    /// Show the figures of garbage collectors.
    Gc(ViewArguments),
    /// Say how many workers and threads an application needs.
    Plan(PlanArguments),
    /// Run half of the workers with another setting, and say which half is better.
    Experiment(ExperimentArguments),
    /// Write a file of settings.
    Init {
        /// The application's folder; by default the current one.
        dir: Option<PathBuf>,
        /// The configuration of another server, to be translated.
        from: Option<PathBuf>,
    },
    /// Turn maintenance on or off.
    Maintenance(MaintenanceArguments),
    /// Print the version.
    Version,
    /// Print the help for a topic that is no command.
    Help(String),
    /// Print the completions for a shell.
    Completion(Shell),
    /// A command of the lab, with everything that was given to it.
    Lab(Vec<OsString>),
}

/// Which time a profile counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProfileMode {
    /// CPU time.
    Cpu,
    /// Time as it passes.
    Wall,
}

/// What is forgotten of a response cache.
#[derive(Clone, Debug, PartialEq)]
pub enum Purge {
    /// Everything.
    All,
    /// One URL.
    Url(String),
    /// All URLs that begin so.
    Prefix(String),
    /// All responses with this tag.
    Tag(String),
}

/// An application and settings for it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ApplicationArguments {
    /// The application's folder; by default the current one.
    pub dir: Option<PathBuf>,
    /// The file of settings; by default the one in the folder.
    pub config: Option<PathBuf>,
    /// Settings that were given as flags: names without leading dashes, and values.
    pub flags: Vec<(String, String)>,
}

/// What is to become of an application's maintenance.
#[derive(Debug, PartialEq)]
pub struct MaintenanceArguments {
    /// On or off.
    pub state: MaintenanceState,
    /// The application's folder; by default the current one.
    pub dir: Option<PathBuf>,
    /// The file of settings; by default the one in the folder.
    pub config: Option<PathBuf>,
    /// What clients are shown.
    pub message: Option<String>,
}

/// Whether there is maintenance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaintenanceState {
    /// Turn it on.
    On,
    /// Turn it off.
    Off,
    /// Say whether it is on.
    Status,
}
