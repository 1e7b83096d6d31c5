//! What commands ask a running server, and what it answers: one line of JSON each.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::changes::reload::Changed;
use crate::control::report::Report;

/// What a server is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "lowercase")]
pub(crate) enum Question {
    /// What is it doing?
    Status,
    /// Would it load the application's code anew? Answered when that is done.
    Restart,
    /// Would it read its settings anew? Answered when that is done.
    Reload,
    /// Would it have another program take over? Answered when that is done.
    Upgrade {
        /// From the root; by default the file that it was started from.
        #[serde(default)]
        binary: Option<PathBuf>,
    },
    /// Would it stop?
    Stop {
        /// Without letting requests end.
        #[serde(default)]
        now: bool,
    },
}

/// What it answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Answer {
    /// What it is doing.
    Status(Box<Report>),
    /// The new generation serves.
    Restarted {
        /// Its number.
        generation: u32,
        /// The one that served before, and finishes what it holds.
        before: u32,
        /// How long the application took to load.
        load_seconds: f64,
        /// How long it took until it served.
        seconds: f64,
    },
    /// The new generation was given up.
    NotRestarted {
        /// Its number.
        generation: u32,
        /// The one that serves on.
        serving: u32,
        /// Why, with a backtrace where there is one.
        reason: String,
    },
    /// The settings were read anew.
    Reloaded {
        /// What is different.
        changes: Vec<Changed>,
        /// The generation that it took.
        generation: Option<u32>,
        /// How long it took.
        seconds: f64,
    },
    /// The settings stay as they are.
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
        /// The process that served before, and finishes what it holds.
        before: i32,
        /// The version that served before.
        highball_before: String,
        /// How long it took.
        seconds: f64,
    },
    /// The other server was given up.
    NotUpgraded {
        /// The process that serves on.
        pid: i32,
        /// Its version of Highball.
        highball: String,
        /// Why.
        reason: String,
    },
    /// A sign of life; the answer is still to come.
    Working,
    /// Something else must end before what was asked for can begin; the answer is still to come.
    Waits {
        /// What that is, and how long it takes at most.
        reason: String,
    },
    /// Another server has taken over before it came to that, and is to be asked.
    Moved {
        /// Its process.
        pid: i32,
    },
    /// It stops; the connection ends with its process, with signs of life until then.
    Stopping {
        /// Its process.
        pid: i32,
    },
    /// The question made no sense.
    Error(String),
}
