//! Looks at files while requests are served: the application's folder, the file of settings, the file that asks for a
//! restart. Their file systems may not answer; so all of that happens in threads of its own.

use std::fmt::Display;
use std::time::Duration;

use anyhow::{Result, bail};
use front::FileThreads;

/// One for changes, one for the file that is watched.
const HOUSEKEEPING_THREADS: usize = 2;

/// The threads for that.
#[derive(Debug)]
pub(crate) struct Housekeeping(FileThreads);

impl Housekeeping {
    /// None of the threads has started.
    ///
    /// # Errors
    /// As [`FileThreads::new`].
    pub(crate) fn new() -> std::io::Result<Self> {
        FileThreads::new("housekeeping", HOUSEKEEPING_THREADS).map(Self)
    }

    /// Does `work`, which may block.
    ///
    /// # Errors
    /// It panicked.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> std::io::Result<T> {
        self.0.run(work).await
    }

    /// Does `work` with files of `what`, for no longer than `limit`, the setting `boot_timeout`.
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
