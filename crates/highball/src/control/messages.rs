//! What commands send to a running server, and what it answers: one line of JSON each. Data only.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::control::report::Report;

/// A command to a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "lowercase")]
pub(crate) enum ControlCommand {
    /// Return the status.
    Status,
    /// Load the application's code again. Answered when that has been done.
    Restart,
    /// Read the settings again. Answered when that has been done.
    Reload,
    /// Let another program take over. Answered when that has been done.
    Upgrade {
        /// An absolute path; by default the file that the server was started from.
        #[serde(default)]
        binary: Option<PathBuf>,
    },
    /// Stop.
    Stop {
        /// Abort running requests.
        #[serde(default)]
        now: bool,
    },
}

/// What a server answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Answer {
    /// The status.
    Status(Box<Report>),
    /// The change has been made; what was done, in lines for people.
    Done(String),
    /// The change has failed, and nothing is different; why, with a backtrace where there is one.
    Failed(String),
    /// A sign of life; the answer is still to come.
    Working,
    /// The change cannot begin yet; the answer is still to come.
    Waits {
        /// What must end first, and how long it takes at most.
        reason: String,
    },
    /// Another server took over before the change began: the command must be sent to that one.
    Moved {
        /// Its process.
        pid: i32,
    },
    /// The server stops; the connection ends with its process, with signs of life until then.
    Stopping {
        /// Its process.
        pid: i32,
    },
    /// The command was not understood, or was refused.
    Error(String),
}
