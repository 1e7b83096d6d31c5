//! Whether this worker has had requests lately: one that has had none for a while does work that is for idle workers, once. It
//! never says what that work is, and costs a request one write.

use std::os::fd::RawFd;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use exchange::worker::Worker;
use rb_sys::{RB_WAITFD_IN, timeval};

/// Requests after which there is work. A collection copies pages that a worker shares with its template: after few requests
/// that is more than it gives back.
const REQUESTS: u32 = 10;

/// What a worker knows of its requests. All threads hold the GVL while they use it.
#[derive(Default)]
pub(crate) struct Idleness {
    /// Requests that have ended since the last work.
    ended: AtomicU32,
    /// How many those were at the last look.
    seen: AtomicU32,
}

impl Idleness {
    /// Counts a request that has ended.
    pub(crate) fn request_ended(&self) {
        // The GVL is held, so nobody counts between.
        let ended = self.ended.load(Ordering::Relaxed).wrapping_add(1);
        self.ended.store(ended, Ordering::Relaxed);
    }

    /// Looks, after each wait in which there was no message, whether there is work: enough requests have ended since the
    /// last work, but none since the last look. Takes the turn for it; where it is another worker's, or requests run or
    /// wait, the next look is the next try.
    pub(crate) fn begin_work(&self, worker: &Worker) -> bool {
        let begins = self.is_due() && worker.begin_out_of_band();
        if begins {
            self.ended.store(0, Ordering::Relaxed);
            self.seen.store(0, Ordering::Relaxed);
        }
        begins
    }

    fn is_due(&self) -> bool {
        let ended = self.ended.load(Ordering::Relaxed);
        self.seen.swap(ended, Ordering::Relaxed) == ended && ended >= REQUESTS
    }
}

/// Waits until there is something to read, without the GVL; for so many `seconds` at most, where it is a number. Returns
/// whether there may be something.
///
/// # Safety
/// The rules of [`crate::ruby`]. Raises what was thrown at this thread.
#[allow(deprecated, reason = "rb_io_wait wants an IO of Ruby's")]
pub(super) unsafe fn wait_for_input(descriptor: RawFd, seconds: Option<u32>) -> bool {
    let mut limit = seconds.map(|seconds| timeval {
        tv_sec: seconds.into(),
        tv_usec: 0,
    });
    let limit = limit.as_mut().map_or(ptr::null_mut(), ptr::from_mut);
    // SAFETY: the caller keeps the rules; `limit` is null or outlives the call.
    unsafe { rb_sys::rb_wait_for_single_fd(descriptor, RB_WAITFD_IN as i32, limit) != 0 }
}
