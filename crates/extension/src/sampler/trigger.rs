//! How a thread without the GVL has a function called in the thread that holds it, at its next safe point: Ruby's postponed
//! jobs. No signal is sent, and no thread is woken.

use std::ffi::c_void;
use std::ptr;

/// A function that Ruby calls with the GVL.
pub(crate) type Job = unsafe extern "C" fn(*mut c_void);

/// Has the job called.
#[derive(Clone, Copy)]
pub(crate) struct Trigger {
    #[cfg(ruby_gte_3_3)]
    handle: rb_sys::rb_postponed_job_handle_t,
    #[cfg(not(ruby_gte_3_3))]
    job: Job,
}

#[cfg(ruby_gte_3_3)]
impl Trigger {
    /// Registers the job; `None` where Ruby has no room for it. Ruby keeps it for ever, so it is registered once.
    ///
    /// # Safety
    /// The rules of [`crate::ruby`]; the job ignores its argument and may be called at any time.
    pub(crate) unsafe fn new(job: Job) -> Option<Self> {
        // SAFETY: the caller keeps the rules. The same function gets the same handle.
        let handle = unsafe { rb_sys::rb_postponed_job_preregister(0, Some(job), ptr::null_mut()) };
        // POSTPONED_JOB_HANDLE_INVALID
        (handle != u32::MAX).then_some(Self { handle })
    }

    /// Has it called once, soon. May be called by any thread as long as there is a Ruby.
    pub(crate) fn fire(self) {
        // SAFETY: the handle is registered, and Ruby allows the call from any thread.
        unsafe { rb_sys::rb_postponed_job_trigger(self.handle) };
    }
}

/// Up to Ruby 3.2 the jobs lie on a stack whose top is moved before the function and its argument are written, without a lock
/// (ruby/ruby#8856). The holder of the GVL may meanwhile take a place whose content is older, in part or whole. Why that does
/// no harm is in docs/internals/decisions/0159-cpu-time-is-sampled-by-postponed-jobs.md.
#[cfg(not(ruby_gte_3_3))]
impl Trigger {
    /// Places of Ruby's list that have been used when sampling begins: what is read from one of them too early is a job.
    const USED_PLACES: usize = 8;

    /// As for Ruby 3.3.
    ///
    /// # Safety
    /// The rules of [`crate::ruby`]; the job ignores its argument and may be called at any time.
    pub(crate) unsafe fn new(job: Job) -> Option<Self> {
        // SAFETY: the caller keeps the rules, so that no job runs meanwhile.
        let registered = (0..Self::USED_PLACES).all(
            |_| unsafe { rb_sys::rb_postponed_job_register(0, Some(job), ptr::null_mut()) } != 0,
        );
        registered.then_some(Self { job })
    }

    /// As for Ruby 3.3. Does nothing where the list is full.
    pub(crate) fn fire(self) {
        // SAFETY: the job may be called at any time; a thread without a place in Ruby marks the thread that holds the GVL.
        unsafe { rb_sys::rb_postponed_job_register_one(0, Some(self.job), ptr::null_mut()) };
    }
}
