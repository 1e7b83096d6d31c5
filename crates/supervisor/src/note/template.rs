//! Lines about a template, and about the application that it loads.

use std::fmt;

use crate::runtime::load::Booted;

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
    /// It did what no template does.
    Misbehaved {
        /// What it did.
        reason: String,
    },
}

impl TemplateNote {
    pub(super) fn is_warning(&self) -> bool {
        !matches!(self, Self::Booted(_))
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
            Self::Misbehaved { reason } => write!(f, "template: {reason}"),
        }
    }
}
