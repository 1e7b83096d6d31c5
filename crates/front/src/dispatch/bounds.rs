//! The bounds that the dispatcher keeps.

use std::time::Duration;

use config::Settings;

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

impl Bounds {
    /// The bounds of these settings.
    pub fn new(settings: &Settings) -> Self {
        Self {
            queue_limit: settings.queue_limit,
            max_retries: settings.max_retries,
            grace: settings.request_grace,
            between: settings.request_timeout + settings.request_grace,
            check_timeout: check_timeout(settings),
            batch: settings.batch_scheduling,
        }
    }
}

/// How long the answer to `ready_check` may take: as long as any request for its path.
fn check_timeout(settings: &Settings) -> Duration {
    let path = settings.ready_check.as_deref().unwrap_or("/");
    let path = path.split('?').next().unwrap_or(path);
    let own = settings.request_timeouts.find(path.as_bytes());
    own.copied().unwrap_or(settings.request_timeout)
}
