//! The bounds that the dispatcher keeps.

use std::time::Duration;

/// The bounds that the dispatcher keeps.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Requests that wait for a thread, in the queue or in slots.
    pub queue_limit: usize,
    /// How often a safe request is run again after its worker died.
    pub max_retries: u32,
    /// How long a thread may run on after the deadline of its request.
    pub grace: Duration,
    /// How long a worker may run code between requests while others wait.
    pub between: Duration,
    /// How long the answer to a check of a new generation may take.
    pub check_timeout: Duration,
    /// Whether the front's thread gives way to workers while all requests are short.
    pub batch: bool,
}
