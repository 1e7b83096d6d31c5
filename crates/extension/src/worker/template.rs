//! A process that was forked from a worker, as a template: it lets go of the worker's place in the exchange. It forks nothing.

use std::os::fd::{FromRawFd, OwnedFd};
use std::ptr;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use super::{ATTACHED, Attached, THIS_WORKER, this_worker};
use crate::ruby::{Value, array, fixnum};
use crate::sampler;

/// `Native.become_template`: makes this process, just forked from a worker, a template: it has that worker's exchange for the
/// workers to come, and is no worker itself. Returns the descriptors of the memory and the doorbell. The worker's control
/// socket stays open, for the caller to close.
///
/// # Safety
/// Called by Ruby.
pub(crate) unsafe extern "C" fn become_template(_: Value) -> Value {
    // SAFETY: Ruby calls with the GVL.
    unsafe {
        let joined = this_worker();
        sampler::forget_ticker();
        let [memory, doorbell] = joined.worker.descriptors();
        // The mapping stayed with the worker, so what refers to it must never be dropped here; nor is it, as `ThisWorker` has
        // it for ever. With that the descriptors have no other owner.
        THIS_WORKER.store(ptr::null_mut(), Ordering::Release);
        let attached = Attached {
            memory: OwnedFd::from_raw_fd(memory),
            doorbell: OwnedFd::from_raw_fd(doorbell),
        };
        *ATTACHED.lock().unwrap_or_else(PoisonError::into_inner) = Some(attached);
        array(&[fixnum(memory), fixnum(doorbell)])
    }
}
