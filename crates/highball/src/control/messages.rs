//! What commands send to a running server, and what it answers: one line of JSON each. Data only.

use std::fmt;
use std::path::PathBuf;

use config::Reload;
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
    /// The new generation serves.
    Restarted {
        /// Its number.
        generation: u32,
        /// The generation that served before, and finishes its requests.
        before: u32,
        /// How long the application took to load.
        load_seconds: f64,
        /// How long it took until the new generation served.
        seconds: f64,
    },
    /// The new generation failed.
    NotRestarted {
        /// Its number.
        generation: u32,
        /// The generation that keeps serving.
        serving: u32,
        /// Why, with a backtrace where there is one.
        reason: String,
    },
    /// The settings were read again.
    Reloaded {
        /// The settings that are different.
        changes: Vec<ChangedSetting>,
        /// The new generation, where the changes needed one.
        generation: Option<u32>,
        /// How long it took.
        seconds: f64,
    },
    /// The settings are unchanged.
    NotReloaded {
        /// Why.
        reason: String,
    },
    /// Another server has taken over.
    Upgraded {
        /// Its process.
        pid: i32,
        /// Its version of Highball.
        highball: String,
        /// The process that served before, and finishes its requests.
        before: i32,
        /// The version that served before.
        highball_before: String,
        /// How long it took.
        seconds: f64,
    },
    /// The new server failed.
    NotUpgraded {
        /// The process that keeps serving.
        pid: i32,
        /// Its version of Highball.
        highball: String,
        /// Why.
        reason: String,
    },
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

/// A setting whose value has changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ChangedSetting {
    pub(crate) setting: String,
    pub(crate) from: String,
    pub(crate) to: String,
    /// Whether the server uses the new value. Otherwise that takes an upgrade or a new start.
    pub(crate) applied: bool,
}

impl From<config::Change> for ChangedSetting {
    fn from(change: config::Change) -> Self {
        Self {
            setting: change.name.to_owned(),
            from: change.from,
            to: change.to,
            applied: change.reload != Reload::Start,
        }
    }
}

impl fmt::Display for ChangedSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} -> {}", self.setting, self.from, self.to)?;
        match self.applied {
            true => Ok(()),
            false => f.write_str(" (not applied: needs highball upgrade or a new start)"),
        }
    }
}
