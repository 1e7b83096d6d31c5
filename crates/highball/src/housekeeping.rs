//! Looks at files while requests are served: the application's folder, the file of settings, the restart file. Their file
//! system may hang, so this happens in threads of its own, and the front never waits.

use std::fmt::Display;
use std::time::Duration;

use anyhow::{Result, bail};
use front::FileThreads;

/// One for changes, one for the restart file.
const HOUSEKEEPING_THREADS: usize = 2;

/// Threads that may block on files.
#[derive(Debug)]
pub(crate) struct Housekeeping(FileThreads);

impl Housekeeping {
    /// Threads start when they are needed.
    ///
    /// # Errors
    /// As [`FileThreads::new`].
    pub(crate) fn new() -> std::io::Result<Self> {
        FileThreads::new("housekeeping", HOUSEKEEPING_THREADS).map(Self)
    }

    /// Runs `work`, which may block.
    ///
    /// # Errors
    /// The work panicked.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> std::io::Result<T> {
        self.0.run(work).await
    }

    /// Runs `work` on the files of `what`, for at most `limit` (`boot_timeout`).
    ///
    /// # Errors
    /// Those of the work, or it took too long.
    pub(crate) async fn look<T: Send + 'static>(
        &self,
        what: impl Display,
        limit: Duration,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        match tokio::time::timeout(limit, self.0.run(work)).await {
            Ok(found) => found?,
            Err(_) => bail!(
                "{what} did not answer within {limit:?} (boot_timeout): does its file system hang?"
            ),
        }
    }
}
