//! What a check of deadlines goes by.

use std::time::Duration;

/// What a check goes by.
#[derive(Clone, Copy, Debug)]
pub(in crate::dispatch) struct Check {
    /// Nanoseconds of the monotonic clock.
    pub(in crate::dispatch) now: u64,
    /// Since the last check.
    pub(in crate::dispatch) passed: Duration,
    /// How long a thread may run on after its deadline.
    pub(in crate::dispatch) grace: Duration,
    /// How long a worker may run code between requests while others wait.
    pub(in crate::dispatch) between: Duration,
}
