//! What the paths of the operators' API take and answer, apart from the status: JSON objects. Data only.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How often a waiting client gets a sign of life.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(2);

/// The body of `POST /v1/restart`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Restart {
    /// The application's name; by default all are restarted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) application: Option<String>,
}

/// The body of `POST /v1/refork`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Refork {
    /// The application's name; by default all, one after the other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) application: Option<String>,
}

/// The body of `POST /v1/experiment`: what an experiment changes for the second half, and for how long.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ExperimentRequest {
    /// The application's name, where there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) application: Option<String>,
    /// Settings, by their names.
    pub(crate) settings: BTreeMap<String, String>,
    /// Variables of the environment.
    pub(crate) variables: BTreeMap<String, String>,
    /// How long both halves are measured.
    pub(crate) seconds: u32,
}

impl ExperimentRequest {
    /// What is different, in words.
    pub(crate) fn text(&self) -> String {
        let pairs = self.settings.iter().chain(&self.variables);
        let pairs: Vec<_> = pairs
            .map(|(name, value)| format!("{name}={value}").escape_debug().to_string())
            .collect();
        match pairs.is_empty() {
            true => "the server's own setting".to_owned(),
            false => pairs.join(" "),
        }
    }
}

/// The body of `POST /v1/experiment/stop`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EndExperiment {
    /// The application's name, where there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) application: Option<String>,
}

/// The body of `POST /v1/scale`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Scale {
    /// How many workers there shall be.
    #[serde(default)]
    pub(crate) workers: WantedWorkers,
    /// The application's name, where there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) application: Option<String>,
}

/// A number of workers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum WantedWorkers {
    /// This one.
    Number(u16),
    /// By a word: `default` for that of the settings.
    Word(String),
    /// It was not said.
    #[default]
    Missing,
}

/// The body of `POST /v1/upgrade`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Upgrade {
    /// An absolute path; by default the file that the server was started from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) binary: Option<PathBuf>,
}

/// The body of `POST /v1/stop`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StopServer {
    /// Abort running requests.
    #[serde(default)]
    pub(crate) now: bool,
}

/// The body of `POST /v1/purge`: one of these.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Purge {
    /// Everything, if it is true.
    All(bool),
    /// One URL.
    Url(String),
    /// All URLs that begin so.
    Prefix(String),
    /// All responses with this tag.
    Tag(String),
}

/// What a change has come to: one line of the answer to its request. The last line says how it ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "lowercase")]
pub(crate) enum Progress {
    /// The change has been made.
    Done {
        /// What was done, in lines for people.
        message: String,
    },
    /// The change has failed, and nothing is different.
    Failed {
        /// Why, with a backtrace where there is one.
        message: String,
    },
    /// A sign of life; the end is still to come.
    Working,
    /// The change cannot begin yet; the end is still to come.
    Waiting {
        /// What must end first, and how long it takes at most.
        reason: String,
    },
    /// Another server took over before the change began: the request must be sent to that one.
    Moved {
        /// Its process.
        pid: i32,
    },
    /// The server stops; the connection ends with its process, with signs of life until then.
    Stopping {
        /// Its process.
        pid: i32,
    },
    /// The request was refused.
    Refused {
        /// Why.
        message: String,
    },
}

impl Progress {
    /// The change has been made; `message` says what was done.
    pub(crate) fn done(message: impl Into<String>) -> Self {
        let message = message.into();
        Self::Done { message }
    }

    /// The change has failed; `message` says why.
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        let message = message.into();
        Self::Failed { message }
    }

    /// The request was refused; `message` says why.
    pub(crate) fn refused(message: impl Into<String>) -> Self {
        let message = message.into();
        Self::Refused { message }
    }

    /// Whether no other line follows.
    pub(crate) fn is_last(&self) -> bool {
        !matches!(self, Self::Working | Self::Waiting { .. })
    }
}
