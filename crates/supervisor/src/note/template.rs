//! Lines about a template, and about the application that it loads.

use std::fmt;

use crate::rules::refork::Saving;
use crate::runtime::load::Booted;

/// What it means that re-forking has stopped.
const NO_OTHER: &str = "no other template is forked from a worker by itself (setting refork)";

/// What there is to say about a template.
#[derive(Debug)]
#[non_exhaustive]
pub enum TemplateNote {
    /// The application is loaded.
    Booted(Box<Booted>),
    /// A fork loses or shares something that the application holds.
    Held(String),
    /// The code is loaded once more, and no longer at a low priority.
    Starved,
    /// It could not be started again; it is tried once more later.
    BootFailed {
        /// Why.
        reason: String,
    },
    /// It ended while its generation serves; workers continue, and another template is started.
    Ended {
        /// Its process.
        pid: i32,
        /// How it ended.
        status: String,
    },
    /// It ended before all workers were forked from it, and the template before it takes its place again.
    FellBack {
        /// Its process.
        pid: i32,
        /// How it ended.
        status: String,
    },
    /// A worker has forked it, and the workers are replaced one by one.
    Reforked {
        /// Its process.
        pid: i32,
        /// The worker that has forked it, from 0.
        worker: u16,
        /// Requests that the worker had finished.
        requests: u64,
    },
    /// All workers are forked from it, and the one before it leaves.
    Proven {
        /// Its process.
        pid: i32,
    },
    /// No worker has forked one that lasted.
    NotReforked {
        /// Why.
        reason: String,
        /// Whether no other one follows by itself.
        is_last: bool,
    },
    /// What template and workers hold since it was forked from a worker, and did before, after as many requests.
    Saved(Saving),
    /// It did what no template does.
    Misbehaved {
        /// What it did.
        reason: String,
    },
}

impl TemplateNote {
    pub(super) fn is_warning(&self) -> bool {
        match self {
            Self::Booted(_) | Self::Reforked { .. } | Self::Proven { .. } => false,
            Self::Saved(saving) => !saving.suffices(),
            _ => true,
        }
    }
}

impl fmt::Display for TemplateNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Booted(booted) => write!(
                f,
                "application loaded in {:.2} s by template {} (ruby {}, rack {})",
                booted.seconds, booted.pid, booted.ruby, booted.rack
            ),
            Self::Held(sentence) => f.write_str(sentence),
            Self::Starved => {
                f.write_str("loading at low priority timed out; retrying at normal priority")
            }
            Self::BootFailed { reason } => write!(f, "{reason}; retrying"),
            Self::Ended { pid, status } => write!(
                f,
                "template (pid {pid}) ended with {status}; workers continue; starting another template of the same \
                 generation, which loads the code as it is now"
            ),
            Self::FellBack { pid, status } => write!(
                f,
                "template (pid {pid}), forked from a worker, ended with {status}; the template before it forks the workers \
                 again"
            ),
            Self::Reforked {
                pid,
                worker,
                requests,
            } => write!(
                f,
                "template (pid {pid}) forked from worker {worker} after {requests} requests; replacing the workers one by one"
            ),
            Self::Proven { pid } => write!(
                f,
                "all workers are forked from template (pid {pid}); the one before it leaves"
            ),
            Self::NotReforked { reason, is_last } => {
                write!(f, "re-forking failed: {reason}")?;
                match is_last {
                    true => write!(f, "; {NO_OTHER}"),
                    false => Ok(()),
                }
            }
            Self::Saved(saving) => saving.fmt(f),
            Self::Misbehaved { reason } => write!(f, "template: {reason}"),
        }
    }
}
