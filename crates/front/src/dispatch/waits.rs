//! How long requests have waited for a thread: what is counted of them while somebody looks at the load. It looks at no slot and
//! no queue.

use std::cell::Cell;
use std::time::Duration;

use exchange::scheduling::monotonic_ns;

use super::pending::PendingRequest;

/// Requests, and how many of them have waited for long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitCount {
    /// All of them.
    pub all: u64,
    /// Those that have waited for long.
    pub late: u64,
}

/// What was counted since the last look.
#[derive(Debug, Default)]
pub(super) struct Waits {
    /// When that was, nanoseconds of the monotonic clock; 0 where nobody looks.
    pub(super) since_ns: Cell<u64>,
    /// The longest wait that is not long, in nanoseconds.
    long_ns: Cell<u64>,
    pub(super) claimed: Cell<WaitCount>,
}

impl WaitCount {
    pub(super) fn add(&mut self, is_late: bool) {
        self.all += 1;
        self.late += u64::from(is_late);
    }
}

impl Waits {
    pub(super) fn begin(&self, long: Duration) {
        let long_ns = u64::try_from(long.as_nanos()).unwrap_or(u64::MAX);
        self.long_ns.set(long_ns);
        self.since_ns.set(monotonic_ns());
        self.claimed.take();
    }

    /// Whether a request that waits until then, nanoseconds of the monotonic clock, has waited for long.
    pub(super) fn is_late(&self, request: &PendingRequest, until_ns: u64) -> bool {
        let arrived_ns = request.request.arrived_ns().unwrap_or(until_ns);
        until_ns.saturating_sub(arrived_ns) > self.long_ns.get()
    }

    /// Counts a request that a thread has claimed, nanoseconds of the monotonic clock, unless that was before the last look.
    pub(super) fn note(&self, request: &PendingRequest, claimed_ns: u64) {
        let since_ns = self.since_ns.get();
        // One that is run again has not waited since it arrived.
        if since_ns == 0 || claimed_ns < since_ns || request.retries.get() > 0 {
            return;
        }
        let mut claimed = self.claimed.get();
        claimed.add(self.is_late(request, claimed_ns));
        self.claimed.set(claimed);
    }
}
