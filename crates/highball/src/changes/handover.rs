//! The messages of an upgrade, between a running server and the new one that it starts.
//!
//! The new server has one end of a socket pair as its stdin. The running server sends who it is ([`Greeting`]) and its sockets
//! ([`HandedOver`]); the new one answers when it is ready, waits for [`ToSuccessor::Serve`], and answers when it accepts
//! connections. Until then nothing has changed for clients. Afterwards it receives idle connections and requests for changes.
//! The end of the socket is the end of the old server.

use std::collections::BTreeMap;
use std::path::PathBuf;

use exchange::control::Message;
use front::IdleConnection;
use serde::{Deserialize, Serialize};

use crate::control::log_level::LevelReport;
use crate::control::operators::OperatorAddress;
use crate::control::queue::Change;
use crate::sockets::Origin;

/// The variable that is set for a server that is to take over from a running one.
pub(crate) const VARIABLE: &str = "HIGHBALL_HANDOVER";

/// The version of these messages. Every version reads the first one: a JSON object with this number.
pub(crate) const VERSION: u32 = 1;

/// The first message: the server that hands over. Where it has frequent paths, a file with them comes with the message.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Greeting {
    /// The version of all messages that follow.
    pub(crate) version: u32,
    /// Its version of Highball.
    pub(crate) highball: String,
    /// Its process.
    pub(crate) pid: i32,
    /// Its latest generation, of all applications.
    pub(crate) generation: u32,
    /// Its applications by their names, where it has several.
    pub(crate) applications: BTreeMap<String, GreetedApplication>,
    /// Number of messages [`HandedOver`] that follow.
    pub(crate) sockets: usize,
    /// How many workers fit into memory in addition to the server's own; `None` for all.
    pub(crate) workers: Option<u16>,
    /// The number of workers that an operator wants, in place of that of the settings.
    pub(crate) scaled: Option<Scaled>,
    /// Which of its own lines it writes.
    pub(crate) log_level: LevelReport,
    /// The number of workers by load, where it follows that.
    pub(crate) workers_by_load: Option<u16>,
    /// The soft limit of descriptors that the first server was started with, before it raised its own.
    pub(crate) descriptors: Option<u64>,
}

/// One of several applications of the server that hands over.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct GreetedApplication {
    /// Its latest generation.
    pub(crate) generation: u32,
    /// Whether one serves: then the new server must not take over without it.
    pub(crate) serves: bool,
    /// Whether it is stopped for want of requests: then it stays so.
    pub(crate) stopped: bool,
    /// How many of its workers fit into memory in addition to the server's own; `None` for all.
    pub(crate) workers: Option<u16>,
    /// The number of workers that an operator wants, in place of that of the settings.
    pub(crate) scaled: Option<Scaled>,
    /// The number of workers by load, where it follows that.
    pub(crate) workers_by_load: Option<u16>,
}

/// The number of workers that an operator wants.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Scaled {
    /// The setting that it stands for; where that is another one by now, it holds no more.
    pub(crate) setting: String,
    /// The number.
    pub(crate) workers: u16,
}

/// A socket that is handed over; its descriptor comes with the message.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum HandedOver {
    /// A listener for clients.
    Listener(Origin),
    /// A control socket, of this name in the directory of control sockets.
    Control(String),
    /// The directory of control sockets.
    ControlDirectory(PathBuf),
    /// A listener for operators.
    Operators(OperatorAddress),
    /// A socket to a launcher.
    Launcher,
}

/// What the new server sends.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum FromSuccessor {
    /// It is ready to serve.
    Ready {
        /// Its version of Highball.
        highball: String,
    },
    /// It has failed, and exits.
    Failed {
        /// Why.
        reason: String,
    },
    /// It accepts connections.
    Serving,
}

/// What the new server receives once it is ready, in this order.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum ToSuccessor {
    /// A part of what the old server has gathered; a file with it comes with the message. Before [`ToSuccessor::Serve`], and what
    /// was gathered since at the end. Counts come each second between the two.
    State(PartKind),
    /// Accept connections.
    Serve,
    /// The service manager listens to the new server from now on.
    Named,
    /// An idle connection of a client; its descriptor comes with the message. Any number, as of the next kind.
    Connection(IdleConnection),
    /// A change that was requested of the old server, without waiting for an answer.
    Requested(Change),
}

/// A part of what a server has gathered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum PartKind {
    /// Groups of exceptions.
    Exceptions,
    /// The slowest requests.
    SlowRequests,
    /// The public pages that clients ask for most; in the file that comes with the [`Greeting`].
    FrequentPaths,
    /// Counts since those that were given before.
    Totals,
    /// A later version's.
    #[serde(other)]
    Unknown,
}

impl Message for Greeting {}

impl Message for HandedOver {}

impl Message for ToSuccessor {}

impl Message for FromSuccessor {
    fn shorten(&mut self, budget: usize) {
        if let Self::Failed { reason } = self {
            reason.truncate(reason.floor_char_boundary(budget));
        }
    }
}

#[cfg(test)]
mod tests {
    use exchange::control;

    use super::*;

    #[test]
    fn the_first_message_may_have_any_other_fields() {
        let greeting: Greeting = control::decode(br#"{"version":7,"colour":"red"}"#).unwrap();
        assert_eq!((greeting.version, greeting.pid), (7, 0));
    }
}
