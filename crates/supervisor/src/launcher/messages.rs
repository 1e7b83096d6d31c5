//! The messages between a server and a launcher. Data only.
//!
//! The two may be of different versions of Highball, for a launcher outlives the server that started it when that is
//! upgraded. So the launcher names its [`VERSION`] first, and a server refuses another one.

use exchange::control::Message;
use serde::{Deserialize, Serialize};

use crate::launcher::program::Program;
use crate::runtime::exit_status::ExitStatus;

/// The version of these messages.
pub(crate) const VERSION: u32 = 1;

/// What a server asks of a launcher.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ToLauncher {
    /// Start a program; its stdin comes with the message. Answered by [`FromLauncher::Started`] or
    /// [`FromLauncher::NotStarted`].
    Start {
        /// Names the process from now on.
        id: u32,
        /// What is run.
        program: Program,
    },
    /// Signal a process that was started here, or its process group. Without an answer.
    Signal {
        /// The process.
        id: u32,
        /// What it gets.
        signal: GroupSignal,
    },
    /// Reap a process once it has ended. Until then its number stays its own. Answered by [`FromLauncher::Ended`].
    Reap {
        /// The process.
        id: u32,
    },
    /// Kill a process that one of those has started. Its pidfd comes with the message, where the server has one. Without an
    /// answer.
    Kill {
        /// Its number.
        pid: i32,
    },
    /// Read the memory of processes. Answered by [`FromLauncher::Measured`].
    Measure {
        /// Names the answer.
        id: u32,
        /// The processes.
        pids: Vec<i32>,
    },
    /// Serve another server too, which is to replace this one. The launcher's end of a socket pair comes with the message.
    Connect,
}

/// What a process or its group gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum GroupSignal {
    /// The process is killed.
    Kill,
    /// The process and its group are killed.
    KillGroup,
    /// Its group is asked to end.
    TerminateGroup,
}

/// What a launcher sends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum FromLauncher {
    /// The first message on each socket.
    Hello {
        /// The version of all messages.
        version: u32,
        /// Its process.
        pid: i32,
        /// Its user.
        uid: u32,
        /// Its group.
        gid: u32,
    },
    /// The only message of one that could not become its user.
    Failed {
        /// Why.
        reason: String,
    },
    /// A program runs. Its pidfd comes with the message.
    Started {
        /// As asked.
        id: u32,
        /// Its process.
        pid: i32,
    },
    /// A program could not be started.
    NotStarted {
        /// As asked.
        id: u32,
        /// Why.
        reason: String,
    },
    /// A process has ended and was reaped.
    Ended {
        /// As asked.
        id: u32,
        /// How.
        status: ExitStatus,
    },
    /// What processes hold, without those that are gone.
    Measured {
        /// As asked.
        id: u32,
        /// By process number, as in [`proc::Memory`]: rss, pss, private clean, dirty and huge pages, swap; in bytes.
        figures: Vec<(i32, [u64; 6])>,
    },
}

impl Message for ToLauncher {}

impl Message for FromLauncher {
    fn shorten(&mut self, budget: usize) {
        if let Self::Failed { reason } | Self::NotStarted { reason, .. } = self {
            reason.truncate(reason.floor_char_boundary(budget));
        }
    }
}
