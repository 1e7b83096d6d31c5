//! What the supervisor has to say: values with their wording, for the log of whoever runs it. Writes nothing
//! itself.

use std::fmt;
use std::time::Duration;

use crate::rules::budget::Held;
use crate::rules::limits::Why;
use crate::rules::memory::Size;
use crate::rules::pool::Action;
use crate::runtime::load::Booted;
use exchange::Stall;

/// Something worth a line in the log.
#[derive(Debug)]
#[non_exhaustive]
pub enum Note {
    /// The application is loaded.
    Booted(Booted),
    /// A fork loses or shares something that the application holds.
    Held(String),
    /// A worker ended that was not asked to.
    WorkerEnded {
        /// The worker, from 0.
        worker: u16,
        /// Its process.
        pid: i32,
        /// How it ended.
        status: String,
    },
    /// A worker ended that was asked to.
    WorkerLeft {
        /// The worker, from 0.
        worker: u16,
        /// Its process.
        pid: i32,
        /// How it ended.
        status: String,
    },
    /// A worker is to leave; it serves until its successor is ready.
    Retiring {
        /// The worker, from 0.
        worker: u16,
        /// The number of the one that takes its place.
        successor: u16,
        /// Why.
        why: Why,
    },
    /// A worker is to leave; its successor comes when it is gone, for there is no memory for both.
    Renewed {
        /// The worker, from 0.
        worker: u16,
        /// Why.
        why: Why,
    },
    /// A worker is to leave, and nobody comes in its place for now: memory is short.
    Shrinks {
        /// The worker, from 0.
        worker: u16,
        /// What it holds of its own, in bytes.
        private: u64,
        /// What all processes hold and may.
        held: Held,
        /// Why it is this one, where it is not for being the largest.
        why: Option<Why>,
    },
    /// A worker comes back: there is memory for it.
    Grows(Held),
    /// One worker alone is too much, however fresh.
    OverBudget(Held),
    /// The new generation comes worker by worker: there is no memory for both at once.
    Scarce(Held),
    /// The kernel does not tell how much memory processes hold.
    NotWeighed,
    /// A worker hangs, and leaves.
    Stuck {
        /// The worker, from 0.
        worker: u16,
        /// In what.
        stall: Stall,
        /// How long its other threads have at most.
        grace: Duration,
    },
    /// The successor of a stuck worker is started while that one is still there.
    Followed {
        /// The worker, from 0.
        worker: u16,
        /// The number of the one that takes its place.
        successor: u16,
    },
    /// A worker keeps ending before it was of use.
    Delayed {
        /// The worker, from 0.
        worker: u16,
        /// How often in a row.
        deaths: u32,
        /// How long its next start waits.
        delay: Duration,
    },
    /// No worker can serve, and requests are refused.
    Outage {
        /// How long the next start waits.
        delay: Duration,
    },
    /// A worker serves again.
    OutageOver,
    /// A worker wrote into the generation's exchange what no sound worker writes.
    Corrupt {
        /// What was found.
        what: String,
        /// Whether the generation starts again.
        again: bool,
    },
    /// A worker has something to say.
    Worker {
        /// The worker, from 0.
        worker: u16,
        /// What it said; may hold newlines and anything else.
        message: String,
    },
    /// A worker does what no worker does, and is killed for it.
    Misbehaved {
        /// The worker, from 0.
        worker: u16,
        /// What it did.
        reason: String,
    },
    /// The template of a generation that serves ended; workers go on, and another one is started.
    TemplateEnded {
        /// Its process.
        pid: i32,
        /// How it ended.
        status: String,
    },
    /// The template does what no template does, and is killed for it.
    TemplateMisbehaved {
        /// What it did.
        reason: String,
    },
    /// A generation is being brought up beside another one.
    Launched,
    /// The generation has taken over.
    Serves,
    /// The generation will not take over; the other one serves on.
    GivenUp {
        /// Why.
        reason: String,
    },
    /// Nothing is left of the generation.
    Closed,
    /// The code is loaded once more, and no longer behind what serves.
    Starved,
    /// The template could not be started again; it is tried once more later.
    BootFailed {
        /// Why.
        reason: String,
    },
    /// A worker could not be asked for.
    ForkFailed {
        /// The worker, from 0.
        worker: u16,
        /// Why.
        reason: String,
    },
    /// Another generation waits for what this one finishes.
    Awaited {
        /// How long at most.
        rest: Duration,
    },
    /// A worker that leaves has had its time, and goes on with what it runs in time.
    InTime {
        /// The worker, from 0.
        worker: u16,
        /// How long at most.
        rest: Duration,
    },
    /// Somebody has waited long enough for a generation that finishes what it holds.
    Hurried {
        /// Requests in time that are lost with it.
        requests: usize,
    },
    /// Workers were killed because they took too long to leave.
    Killed {
        /// How long they had.
        grace: Duration,
    },
}

impl Note {
    /// What an action of a pool is worth in the log; a worker that is stuck has `grace` to leave.
    pub(crate) fn of(action: Action, grace: Duration) -> Option<Self> {
        Some(match action {
            Action::Stalled { worker, stall } => Self::Stuck {
                worker,
                stall,
                grace,
            },
            Action::SuccessorStarted { worker, successor } => Self::Followed { worker, successor },
            Action::Retiring {
                worker,
                successor,
                why,
            } => Self::Retiring {
                worker,
                successor,
                why,
            },
            Action::Delayed {
                worker,
                deaths,
                delay,
            } => Self::Delayed {
                worker,
                deaths,
                delay,
            },
            _ => return None,
        })
    }

    /// Whether somebody should look into it.
    pub fn is_warning(&self) -> bool {
        match self {
            Self::Booted(_)
            | Self::Retiring { .. }
            | Self::Followed { .. }
            | Self::Grows(_)
            | Self::Scarce(_)
            | Self::OutageOver
            | Self::Launched
            | Self::Serves
            | Self::Awaited { .. }
            | Self::InTime { .. }
            | Self::Hurried { requests: 0 }
            | Self::Closed => false,
            Self::WorkerLeft { status, .. } => status != "exit 0",
            _ => true,
        }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Booted(booted) => write!(
                f,
                "application loaded in {:.2} s by template {} (ruby {}, rack {})",
                booted.seconds, booted.pid, booted.ruby, booted.rack
            ),
            Self::Held(sentence) => f.write_str(sentence),
            Self::WorkerEnded {
                worker,
                pid,
                status,
            } => write!(
                f,
                "worker {} (pid {pid}) ended with {status}; it is replaced",
                worker
            ),
            Self::WorkerLeft {
                worker,
                pid,
                status,
            } => write!(
                f,
                "worker {worker} (pid {pid}), which was told to leave, ended with {status}"
            ),
            Self::Retiring {
                worker,
                successor,
                why,
            } => write!(
                f,
                "worker {worker} leaves once worker {successor} is ready in its stead: {why}"
            ),
            Self::Renewed { worker, why } => write!(
                f,
                "worker {worker} leaves, and another one comes when it is gone, for there is no memory for both: {why}"
            ),
            Self::Shrinks {
                worker,
                private,
                held,
                why,
            } => {
                write!(f, "worker {worker} leaves and nobody comes in its place for now: ")?;
                match why {
                    Some(why) => write!(f, "{why}, and there is no memory for a successor: ")?,
                    None => write!(f, "it is the largest, with {} of its own: ", Size(*private))?,
                }
                write!(f, "{held}")
            }
            Self::Grows(held) => write!(f, "a worker comes back: {held}"),
            Self::OverBudget(held) => {
                write!(f, "the last worker stays, although memory is short: {held}")
            }
            Self::Scarce(held) => write!(
                f,
                "the new generation comes worker by worker, for there is no memory for both at once: {held}"
            ),
            Self::NotWeighed => f.write_str(
                "the kernel does not tell how much memory processes hold, so limits of memory are not kept",
            ),
            Self::Stuck {
                worker,
                stall,
                grace,
            } => {
                let (is, killed) = match stall {
                    Stall::LateRequest => (
                        "is stuck with a request past its deadline (setting `request_grace`)",
                        "when its other threads are done",
                    ),
                    Stall::Unresponsive => (
                        "stands still: it was woken for a request and does not come, as where somebody stopped the \
                         process or native code holds Ruby's lock",
                        "unless it leaves",
                    ),
                    Stall::BusyBetweenRequests => (
                        "has run code between requests for longer than a request may take (settings \
                         `request_timeout` and `request_grace`) while requests wait",
                        "unless it leaves",
                    ),
                };
                let seconds = grace.as_secs_f64();
                write!(
                    f,
                    "worker {worker} {is}: it takes no more, and is killed {killed}, or in {seconds} s but for what \
                     is in time then"
                )
            }
            Self::Followed { worker, successor } => write!(
                f,
                "worker {successor} is started in the stead of worker {worker}, which is still there"
            ),
            Self::Delayed {
                worker,
                deaths,
                delay,
            } => write!(
                f,
                "worker {} ended {deaths} times in a row before it had served a request; next start in {} s",
                worker,
                delay.as_secs_f64()
            ),
            Self::Outage { delay } => {
                f.write_str("no worker can serve: requests are answered 503 until one does; ")?;
                match delay.is_zero() {
                    true => f.write_str("the next start is under way"),
                    false => write!(f, "next start in {:.1} s", delay.as_secs_f64()),
                }
            }
            Self::OutageOver => f.write_str("a worker serves again"),
            Self::Corrupt { what, again } => {
                write!(
                    f,
                    "the memory that the front shares with these workers is damaged: {what}. All of them are killed, \
                     with their template"
                )?;
                match again {
                    true => f.write_str(
                        "; others are started with fresh memory, and requests that were there are run again where that \
                         is safe",
                    ),
                    false => f.write_str("; the generation ends"),
                }
            }
            Self::Worker { worker, message } => write!(f, "worker {}: {message}", worker),
            Self::Misbehaved { worker, reason } => {
                write!(f, "worker {} is killed: {reason}", worker)
            }
            Self::TemplateEnded { pid, status } => write!(
                f,
                "template (pid {pid}) ended with {status}; workers go on, another one of the same generation is \
                 started and loads the code as it is now"
            ),
            Self::TemplateMisbehaved { reason } => write!(f, "template: {reason}"),
            Self::Launched => f.write_str("a new generation is brought up"),
            Self::Serves => f.write_str("the new generation serves"),
            Self::GivenUp { reason } => write!(
                f,
                "the new generation is given up, the old one serves on: {reason}"
            ),
            Self::Closed => f.write_str("the generation has ended"),
            Self::Starved => f.write_str(
                "the code was not loaded in time behind what serves, for the machine has little time left over: it is loaded \
                 once more, at the same rank",
            ),
            Self::BootFailed { reason } => write!(f, "{reason}; another try follows"),
            Self::ForkFailed { worker, reason } => {
                write!(f, "worker {} cannot be forked: {reason}", worker)
            }
            Self::Awaited { rest } => write!(
                f,
                "what comes next waits for this generation to finish what it holds, for {} s at most",
                rest.as_secs_f64().ceil()
            ),
            Self::InTime { worker, rest } => write!(
                f,
                "worker {worker}, which leaves, may go on for {} s: what it runs is in time until then",
                rest.as_secs()
            ),
            Self::Hurried { requests: 0 } => {
                f.write_str("what is left of it is killed, for another change waits")
            }
            Self::Hurried { requests } => write!(
                f,
                "what is left of it is killed, for another change waits; requests in time that are lost with it: {requests}"
            ),
            Self::Killed { grace } => write!(
                f,
                "workers did not leave within {} s and were killed",
                grace.as_secs_f64()
            ),
        }
    }
}
