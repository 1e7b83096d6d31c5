//! Lines about a generation as a whole.

use std::fmt;
use std::time::Duration;

use crate::rules::budget::Held;

/// What there is to say about a generation.
#[derive(Debug)]
#[non_exhaustive]
pub enum GenerationNote {
    /// It is starting while another one serves.
    Starting,
    /// Its workers replace those of the other one by and by: there is no memory for both at once.
    WorkerByWorker(Held),
    /// It has taken over.
    Serves,
    /// It has its part of the workers of an experiment.
    Shares,
    /// The experiment that it was there for is over.
    ExperimentOver,
    /// It does not take over; the other one continues to serve.
    GivenUp {
        /// Why.
        reason: String,
    },
    /// One of its workers wrote into its exchange what no sound worker writes.
    Corrupt {
        /// What was found.
        what: String,
        /// Whether it starts again.
        again: bool,
    },
    /// The next change waits until it has finished.
    Awaited {
        /// How long at most.
        rest: Duration,
    },
    /// It was to end, but somebody debugs in one of the workers.
    Debugged,
    /// The same, and the next change waits for it.
    DebuggerAwaited,
    /// The next change has waited long enough: what is left of it is killed.
    KilledForChange {
        /// Requests before their deadline that are lost with it.
        requests: usize,
    },
    /// Nothing is left of it.
    Ended,
}

impl GenerationNote {
    pub(super) fn is_warning(&self) -> bool {
        match self {
            Self::Starting
            | Self::WorkerByWorker(_)
            | Self::Serves
            | Self::Shares
            | Self::ExperimentOver
            | Self::Awaited { .. }
            | Self::Debugged
            | Self::DebuggerAwaited
            | Self::KilledForChange { requests: 0 }
            | Self::Ended => false,
            Self::GivenUp { .. } | Self::Corrupt { .. } | Self::KilledForChange { .. } => true,
        }
    }
}

impl fmt::Display for GenerationNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Starting => f.write_str("starting a new generation"),
            Self::WorkerByWorker(held) => write!(
                f,
                "replacing worker by worker, because there is no memory for two generations at once: {held}"
            ),
            Self::Serves => f.write_str("the new generation serves"),
            Self::Shares => f.write_str("the experiment's workers serve beside the others"),
            Self::ExperimentOver => f.write_str(
                "the experiment is over: its workers finish their requests, and the others come back",
            ),
            Self::GivenUp { reason } => write!(
                f,
                "the new generation failed, the old one continues to serve: {reason}"
            ),
            Self::Corrupt { what, again } => {
                write!(
                    f,
                    "the memory that the front shares with these workers is damaged: {what}; killing all of them, with their \
                     template"
                )?;
                match again {
                    true => f.write_str(
                        ", and starting others with fresh memory; their requests are run again where that is safe",
                    ),
                    false => f.write_str("; the generation ends"),
                }
            }
            Self::Awaited { rest } => write!(
                f,
                "the next change waits until this generation has finished, at most {} s",
                rest.as_secs_f64().ceil()
            ),
            Self::Debugged => {
                f.write_str("a debugger is open: old workers stay until it is closed")
            }
            Self::DebuggerAwaited => {
                f.write_str("a debugger is open: the next change waits until it is closed")
            }
            Self::KilledForChange { requests } => {
                f.write_str("old generation killed because another change is waiting")?;
                match requests {
                    0 => Ok(()),
                    _ => write!(f, "; unexpired requests lost: {requests}"),
                }
            }
            Self::Ended => f.write_str("the generation has ended"),
        }
    }
}
