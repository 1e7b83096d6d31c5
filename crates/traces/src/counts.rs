//! What became of spans, counted from several threads.

use std::sync::atomic::{AtomicU64, Ordering};

/// Numbers of spans since the server started.
#[derive(Debug, Default)]
pub struct Counts {
    sent: AtomicU64,
    queue_full: AtomicU64,
    undelivered: AtomicU64,
    rejected: AtomicU64,
    rate_limited: AtomicU64,
}

impl Counts {
    /// Names and numbers: `sent`, which a receiver took; and those that are lost: `queue_full`, `undelivered` (the receiver
    /// could not be reached or refused them), `rejected` (it took the others of their export), and `rate_limited`: of requests
    /// that failed or were slow beyond `trace_limit`, one each.
    pub fn all(&self) -> [(&'static str, u64); 5] {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        [
            ("sent", of(&self.sent)),
            ("queue_full", of(&self.queue_full)),
            ("undelivered", of(&self.undelivered)),
            ("rejected", of(&self.rejected)),
            ("rate_limited", of(&self.rate_limited)),
        ]
    }

    /// A receiver took an export of so many spans, but for some of them.
    pub(crate) fn add_sent(&self, spans: u64, rejected: u64) {
        let rejected = rejected.min(spans);
        self.sent.fetch_add(spans - rejected, Ordering::Relaxed);
        self.rejected.fetch_add(rejected, Ordering::Relaxed);
    }

    /// No room was left for so many.
    pub(crate) fn add_queue_full(&self, spans: u64) {
        self.queue_full.fetch_add(spans, Ordering::Relaxed);
    }

    /// So many were given up.
    pub(crate) fn add_undelivered(&self, spans: u64) {
        self.undelivered.fetch_add(spans, Ordering::Relaxed);
    }

    /// A request that failed or was slow is not traced.
    pub fn add_rate_limited(&self) {
        self.rate_limited.fetch_add(1, Ordering::Relaxed);
    }
}
