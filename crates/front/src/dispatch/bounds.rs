//! The bounds that the dispatcher keeps.

use std::time::Duration;

use config::{PathRules, Settings};

/// The bounds that the dispatcher keeps.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// Requests that wait for a thread, in the queue or in slots.
    pub queue_limit: usize,
    /// How often a safe request is run again after its worker died.
    pub max_retries: u32,
    /// How long a thread may run on after the deadline of its request.
    pub grace: Duration,
    /// How long a worker may run code between requests while others wait.
    pub between: Duration,
    /// How long a request may take whose path has no time of its own.
    pub request_timeout: Duration,
    /// Paths whose requests have a time of their own.
    pub request_timeouts: PathRules<Duration>,
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
            request_timeout: settings.request_timeout,
            request_timeouts: settings.request_timeouts.clone(),
            batch: settings.batch_scheduling,
        }
    }

    /// How long a request for this path may take.
    pub(super) fn timeout_of(&self, path: &[u8]) -> Duration {
        let own = self.request_timeouts.find(path);
        own.copied().unwrap_or(self.request_timeout)
    }
}
