//! What the supervisor has to say, for the log: values with their wording. Each says what happened, where,
//! and what is done about it. Writes nothing itself.

use std::fmt;
use std::time::Duration;

use crate::rules::budget::Held;

mod generation;
mod template;
mod worker;

pub use generation::GenerationNote;
pub use template::TemplateNote;
pub use worker::WorkerNote;

/// Something worth a line in the log.
#[derive(Debug)]
#[non_exhaustive]
pub enum Note {
    /// About a worker.
    Worker {
        /// The worker, from 0.
        worker: u16,
        /// Its process, where it has one that is known.
        pid: Option<i32>,
        /// What there is to say.
        note: WorkerNote,
    },
    /// About a template.
    Template(TemplateNote),
    /// About a generation as a whole.
    Generation(GenerationNote),
    /// A worker comes back: there is memory for it.
    WorkerRestored(Held),
    /// One worker alone is too much, however fresh.
    OverBudget(Held),
    /// The kernel does not tell how much memory processes hold.
    MemoryUnknown,
    /// No worker can serve, and requests are refused.
    Outage {
        /// How long the next start waits.
        delay: Duration,
    },
    /// A worker serves again.
    OutageOver,
    /// Workers were killed because they took too long to exit.
    Killed {
        /// How long they had.
        grace: Duration,
    },
}

impl Note {
    /// Why a worker is replaced, in a word, where this says that one is.
    pub fn replacement(&self) -> Option<&'static str> {
        match self {
            Self::Worker { note, .. } => note.replacement(),
            _ => None,
        }
    }

    /// Whether it is a warning: it may need an operator.
    pub fn is_warning(&self) -> bool {
        match self {
            Self::Worker { note, .. } => note.is_warning(),
            Self::Template(note) => note.is_warning(),
            Self::Generation(note) => note.is_warning(),
            Self::WorkerRestored(_) | Self::OutageOver => false,
            Self::OverBudget(_)
            | Self::MemoryUnknown
            | Self::Outage { .. }
            | Self::Killed { .. } => true,
        }
    }
}

impl From<TemplateNote> for Note {
    fn from(note: TemplateNote) -> Self {
        Self::Template(note)
    }
}

impl From<GenerationNote> for Note {
    fn from(note: GenerationNote) -> Self {
        Self::Generation(note)
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Worker { worker, pid, note } => {
                write!(f, "worker {worker}")?;
                if let Some(pid) = pid {
                    write!(f, " (pid {pid})")?;
                }
                write!(f, "{note}")
            }
            Self::Template(note) => note.fmt(f),
            Self::Generation(note) => note.fmt(f),
            Self::WorkerRestored(held) => {
                write!(f, "starting a worker again, there is memory for it: {held}")
            }
            Self::OverBudget(held) => {
                write!(f, "keeping the last worker, although memory is short: {held}")
            }
            Self::MemoryUnknown => f.write_str(
                "cannot read from /proc how much memory processes hold; limits of memory are not enforced",
            ),
            Self::Outage { delay } => {
                f.write_str("no worker can serve: requests are answered 503 until one does; ")?;
                match delay.is_zero() {
                    true => f.write_str("the next start is under way"),
                    false => write!(f, "next start in {:.1} s", delay.as_secs_f64()),
                }
            }
            Self::OutageOver => f.write_str("a worker serves again"),
            Self::Killed { grace } => {
                let seconds = grace.as_secs_f64();
                write!(f, "workers did not exit within {seconds} s and were killed")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::limits::RetireReason;

    #[test]
    fn a_line_about_a_worker_says_which_what_happened_and_what_is_done() {
        let check = |pid, note, expect: &str| {
            let worker = 2;
            let note = Note::Worker { worker, pid, note };
            assert_eq!(note.to_string(), expect);
        };
        let (private, limit) = (333 << 20, 300 << 20);
        let why = RetireReason::Memory { private, limit };
        let successor = 3;
        check(
            Some(4711),
            WorkerNote::Retiring { successor, why },
            "worker 2 (pid 4711): private memory 333.0 MiB exceeds worker_max_memory 300.0 MiB; worker 3 will replace it",
        );
        let deaths = 5;
        let delay = Duration::from_secs(1);
        check(
            None,
            WorkerNote::Delayed { deaths, delay },
            "worker 2 ended 5 times in a row before it had served a request; next start in 1 s",
        );
    }
}
