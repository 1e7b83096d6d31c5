//! Lines about one worker; each goes on after its number and process.

use std::fmt;
use std::time::Duration;

use exchange::Stall;

use crate::rules::budget::Held;
use crate::rules::limits::RetireReason;
use crate::rules::memory::Size;
use crate::rules::pool::Action;

/// What there is to say about a worker.
#[derive(Debug)]
#[non_exhaustive]
pub enum WorkerNote {
    /// It ended without having been asked to.
    Ended {
        /// How it ended.
        status: String,
    },
    /// It ended after it was asked to exit.
    Exited {
        /// How it ended.
        status: String,
    },
    /// It is to exit; it serves until its successor is ready.
    Retiring {
        /// The number of the one that takes its place.
        successor: u16,
        /// Why.
        why: RetireReason,
    },
    /// It is to exit; its successor comes after that, for there is no memory for both.
    ReplacedAfterExit {
        /// Why.
        why: RetireReason,
    },
    /// It is to exit, and is not replaced for now: memory is short.
    Removed {
        /// Its private memory, in bytes.
        private: u64,
        /// What all processes hold and may.
        held: Held,
        /// Why it is this one, where it is not for being the largest.
        why: Option<RetireReason>,
    },
    /// It stalls, and is to exit.
    Stalled {
        /// How it stalls.
        stall: Stall,
        /// How long its other threads have at most.
        grace: Duration,
    },
    /// It stalled, and its successor is started while it is still there.
    SuccessorStarted {
        /// The number of the one that takes its place.
        successor: u16,
    },
    /// It keeps ending before it was of use.
    Delayed {
        /// How often in a row.
        deaths: u32,
        /// How long its next start waits.
        delay: Duration,
    },
    /// It has something to say.
    Message(String),
    /// It did what no worker does, and is killed for it.
    Misbehaved {
        /// What it did.
        reason: String,
    },
    /// It could not be forked.
    NotForked {
        /// Why.
        reason: String,
    },
    /// It was asked to exit, has had its time, and goes on with requests before their deadline.
    Prolonged {
        /// How long at most.
        rest: Duration,
    },
}

impl WorkerNote {
    /// The worker that an action of a pool is about, and what that is worth in the log; a worker that stalls has `grace` to
    /// exit.
    pub(crate) fn of(action: Action, grace: Duration) -> Option<(u16, Self)> {
        Some(match action {
            Action::Stalled { worker, stall } => (worker, Self::Stalled { stall, grace }),
            Action::SuccessorStarted { worker, successor } => {
                (worker, Self::SuccessorStarted { successor })
            }
            Action::Retiring {
                worker,
                successor,
                why,
            } => (worker, Self::Retiring { successor, why }),
            Action::Delayed {
                worker,
                deaths,
                delay,
            } => (worker, Self::Delayed { deaths, delay }),
            _ => return None,
        })
    }

    /// Why the worker is replaced, in a word, where this says that it is.
    pub(super) fn replacement(&self) -> Option<&'static str> {
        match self {
            Self::Ended { .. } => Some("died"),
            Self::Retiring { why, .. } | Self::ReplacedAfterExit { why } => Some(match why {
                RetireReason::Requests { .. } => "max_requests",
                RetireReason::Age { .. } => "max_age",
                RetireReason::Memory { .. } => "max_memory",
                RetireReason::Refork { .. } | RetireReason::Reforked => "refork",
                RetireReason::Experiment => "experiment",
                RetireReason::Budget { .. } => "memory_budget",
            }),
            Self::Stalled { stall, .. } => Some(match stall {
                Stall::LateRequest => "late_request",
                Stall::Unresponsive => "unresponsive",
                Stall::BusyBetweenRequests => "busy_between_requests",
            }),
            _ => None,
        }
    }

    pub(super) fn is_warning(&self) -> bool {
        match self {
            Self::Retiring { .. } | Self::SuccessorStarted { .. } | Self::Prolonged { .. } => false,
            Self::Exited { status } => status != "exit 0",
            _ => true,
        }
    }
}

impl fmt::Display for WorkerNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended { status } => write!(f, " ended with {status}; replacing it"),
            Self::Exited { status } => {
                write!(f, " was asked to exit and ended with {status}")
            }
            Self::Retiring { successor, why } => {
                write!(f, ": {why}; worker {successor} will replace it")
            }
            Self::ReplacedAfterExit { why } => write!(
                f,
                ": {why}; replacing it after its exit, because there is no memory for both"
            ),
            Self::Removed { private, held, why } => {
                match why {
                    Some(why) => write!(f, ": {why}")?,
                    None => write!(f, ": largest worker, private memory {}", Size(*private))?,
                }
                write!(
                    f,
                    "; stopping it without a replacement until there is memory for one: {held}"
                )
            }
            Self::Stalled { stall, grace } => stalled(*stall, *grace, f),
            Self::SuccessorStarted { successor } => write!(
                f,
                " is still running; starting its replacement, worker {successor}"
            ),
            Self::Delayed { deaths, delay } => {
                let seconds = delay.as_secs_f64();
                write!(
                    f,
                    " ended {deaths} times in a row before it had served a request; next start in {seconds} s"
                )
            }
            Self::Message(message) => write!(f, ": {message}"),
            Self::Misbehaved { reason } => write!(f, ": {reason}; killing it"),
            Self::NotForked { reason } => write!(f, " cannot be forked: {reason}"),
            Self::Prolonged { rest } => write!(
                f,
                ": its time to exit is over, but its requests are before their deadline; waiting {} s more at most",
                rest.as_secs()
            ),
        }
    }
}

fn stalled(stall: Stall, grace: Duration, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let seconds = grace.as_secs_f64();
    let (what, killed) = match stall {
        Stall::LateRequest => (
            "is stuck with a request past its deadline (setting `request_grace`)",
            "when its other threads are done, or ",
        ),
        Stall::Unresponsive => (
            "was woken for a request and does not respond: the process was stopped, or native code holds Ruby's lock",
            "unless it exits, ",
        ),
        Stall::BusyBetweenRequests => (
            "has run code between requests for longer than a request may take (settings `request_timeout` and \
             `request_grace`) while requests wait",
            "unless it exits, ",
        ),
    };
    write!(
        f,
        " {what}; it takes no more requests; killing it {killed}in {seconds} s (later if requests are then before their \
         deadline)"
    )
}
