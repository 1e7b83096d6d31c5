//! Why a generation did not come up, in words.

use std::time::Duration;

use crate::runtime::exit_status::ExitStatus;
use crate::runtime::load::BootError;

/// Why a generation did not come up.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The application was not loaded.
    #[error(transparent)]
    Boot(#[from] BootError),
    /// Its template ended after it had loaded the application.
    #[error("the template ended with {0}")]
    Template(ExitStatus),
    /// Workers were forked but those of one number did not last.
    #[error(
        "worker {worker} ended {deaths} times in a row when it was started; the reason is in the server's output"
    )]
    Worker {
        /// The worker, from 0.
        worker: u16,
        /// How often.
        deaths: u32,
    },
    /// Workers took too long, for example in an after_fork hook.
    #[error("the workers were not ready within {0:?} (setting `boot_timeout`)")]
    Timeout(Duration),
    /// It did not pass the check.
    #[error("the check failed (setting `ready_check`): {0}")]
    Check(String),
    /// One of its workers damaged the exchange.
    #[error("one of its workers damaged the memory that it shares with the front")]
    Corrupt,
    /// Another generation is on its way in or out.
    #[error("another generation is starting or draining")]
    Busy,
    /// The server stops.
    #[error("the server is stopping")]
    CalledOff,
}
