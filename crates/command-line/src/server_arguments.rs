//! Arguments of commands that a running server carries out. Data only.

use std::path::PathBuf;
use std::time::Duration;

/// A running server, by one of these; by default the server of the current folder.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerArguments {
    /// The application's folder.
    pub dir: Option<PathBuf>,
    /// The file of settings that it was started with.
    pub config: Option<PathBuf>,
    /// Its process.
    pub pid: Option<i32>,
    /// A UNIX socket that it listens on.
    pub socket: Option<PathBuf>,
}

/// What of a running server is looked at, and how it is shown.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ViewArguments {
    /// Which server.
    pub server: ServerArguments,
    /// The application's name; by default all.
    pub application: Option<String>,
    /// The worker's number.
    pub worker: Option<u16>,
    /// Where a flame graph is written.
    pub svg: Option<PathBuf>,
    /// Where a file for speedscope is written.
    pub speedscope: Option<PathBuf>,
    /// As JSON, for programs.
    pub json: bool,
}

/// An experiment: which server's, and what differs in its second half.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExperimentArguments {
    /// Which server.
    pub server: ServerArguments,
    /// The application's name, where the server has several.
    pub application: Option<String>,
    /// What is to be done.
    pub action: ExperimentAction,
    /// As JSON, for programs.
    pub json: bool,
}

/// What is to be done about an experiment.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum ExperimentAction {
    /// Begin one, and wait for its end.
    Start {
        /// Settings of the second half: names and values.
        settings: Vec<(String, String)>,
        /// Variables of its environment: names and values.
        variables: Vec<(String, String)>,
        /// How long both halves are measured.
        time: Duration,
    },
    /// End the one that runs.
    Stop,
    /// Show the one that runs, or the last one.
    #[default]
    Show,
}

/// How many workers and threads an application needs, of which server, and for which load.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlanArguments {
    /// Which server.
    pub server: ServerArguments,
    /// The application's name, where the server has several.
    pub application: Option<String>,
    /// Requests a second; by default as many as come now.
    pub rate: Option<f64>,
    /// The target: 99 % of the requests have their response within this time.
    pub p99: Option<Duration>,
    /// So many workers alone.
    pub workers: Option<u16>,
    /// So many threads of each worker alone.
    pub threads: Option<u16>,
    /// Cores; by default those that the server may use.
    pub cores: Option<u16>,
    /// As JSON, for programs.
    pub json: bool,
}
