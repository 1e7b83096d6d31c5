//! The end of a process: how long it may take, and how it ended, in words. Ends no process.

use std::fmt;
use std::time::Duration;

use rustix::process::WaitIdStatus;
use serde::{Deserialize, Serialize};

/// How long the kernel may take to end what was killed.
pub(crate) const KILL_TIMEOUT: Duration = Duration::from_secs(2);

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExitStatus {
    /// It exited, with this code.
    Exit(i32),
    /// This signal ended it.
    Signal(i32),
    /// Another process reaped it.
    Unknown,
}

/// Signals that end processes in practice (signal(7)).
const SIGNALS: [(i32, &str); 12] = [
    (1, "HUP"),
    (2, "INT"),
    (3, "QUIT"),
    (4, "ILL"),
    (6, "ABRT"),
    (7, "BUS"),
    (8, "FPE"),
    (9, "KILL"),
    (11, "SEGV"),
    (13, "PIPE"),
    (14, "ALRM"),
    (15, "TERM"),
];

impl From<WaitIdStatus> for ExitStatus {
    fn from(status: WaitIdStatus) -> Self {
        match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => Self::Exit(code),
            (None, Some(signal)) => Self::Signal(signal),
            (None, None) => Self::Unknown,
        }
    }
}

impl fmt::Display for ExitStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exit(code) => write!(f, "exit {code}"),
            Self::Signal(number) => {
                write!(f, "signal {number}")?;
                match SIGNALS.iter().find(|(known, _)| known == number) {
                    Some((_, name)) => write!(f, " ({name})"),
                    None => Ok(()),
                }
            }
            Self::Unknown => f.write_str("an unknown status"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_are_worded_as_the_template_words_them() {
        let check = |ending: ExitStatus, expect| assert_eq!(ending.to_string(), expect);
        check(ExitStatus::Exit(0), "exit 0");
        check(ExitStatus::Signal(9), "signal 9 (KILL)");
        check(ExitStatus::Signal(34), "signal 34");
        check(ExitStatus::Unknown, "an unknown status");
    }
}
