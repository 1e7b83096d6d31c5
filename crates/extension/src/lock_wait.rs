//! How long a thread waits for Ruby's lock, by what Ruby tells of its threads: from when one wants the lock to when it has it.
//! It follows the threads that run requests, allocates nothing while Ruby tells, and calls no Ruby code then.
//!
//! Ruby tells since 3.2, and since 3.3 of which thread. That is needed: where a thread waits for a queue or a mutex, Ruby tells
//! that it wants the lock from the thread that wakes it. For an older Ruby nothing is registered and nothing is known.

use std::sync::atomic::{AtomicU64, Ordering};

/// What is known of one thread. It is never freed: Ruby may tell of a thread until that has ended.
#[derive(Default)]
pub(crate) struct LockWait {
    /// When the thread began to want the lock; 0 where it does not want it. Written by any thread.
    #[cfg(ruby_gte_3_3)]
    wanted_ns: AtomicU64,
    /// How long it has waited so far. Written by the thread that has got the lock.
    waited_ns: AtomicU64,
}

impl LockWait {
    /// How long the thread has waited so far, in nanoseconds.
    pub(crate) fn waited_ns(&self) -> u64 {
        self.waited_ns.load(Ordering::Relaxed)
    }
}

/// What Ruby tells of its threads, registered.
#[cfg(not(ruby_gte_3_3))]
pub(crate) enum Events {}

#[cfg(not(ruby_gte_3_3))]
impl Events {
    /// None: this Ruby does not tell of which thread it speaks.
    ///
    /// # Safety
    /// None is needed.
    pub(crate) unsafe fn register() -> Option<Self> {
        None
    }

    /// Never called.
    ///
    /// # Safety
    /// None is needed.
    pub(crate) unsafe fn follow(&self, _: &'static LockWait) {
        match *self {}
    }
}

#[cfg(ruby_gte_3_3)]
pub(crate) use told::Events;

#[cfg(ruby_gte_3_3)]
mod told {
    use std::ffi::{c_int, c_void};
    use std::ptr;
    use std::sync::atomic::Ordering;

    use exchange::scheduling::monotonic_ns;
    use rb_sys::{
        RUBY_INTERNAL_THREAD_EVENT_READY, RUBY_INTERNAL_THREAD_EVENT_RESUMED, rb_event_flag_t,
        rb_internal_thread_add_event_hook, rb_internal_thread_event_data_t,
        rb_internal_thread_specific_get, rb_internal_thread_specific_key_create,
        rb_internal_thread_specific_set, rb_protect, rb_set_errinfo, rb_thread_current,
    };

    use super::LockWait;
    use crate::ruby::{NIL, Value};

    /// What Ruby tells of its threads, registered.
    pub(crate) struct Events {
        /// The place in each of Ruby's threads that has its [`LockWait`].
        key: c_int,
    }

    /// As `rb_protect` calls it.
    unsafe extern "C" fn create_key(_: Value) -> Value {
        // SAFETY: called with the GVL. It raises where others have taken all keys.
        unsafe { rb_internal_thread_specific_key_create() as Value }
    }

    impl Events {
        /// Has Ruby tell of all threads of this process and of those that it forks. None where no key is left.
        ///
        /// # Safety
        /// The rules of [`crate::ruby`].
        pub(crate) unsafe fn register() -> Option<Self> {
            let mut failed = 0;
            // SAFETY: the caller keeps the rules. The hook gets the key, and is never removed.
            unsafe {
                let key = rb_protect(Some(create_key), NIL, &raw mut failed) as c_int;
                if failed != 0 {
                    rb_set_errinfo(NIL);
                    return None;
                }
                rb_internal_thread_add_event_hook(
                    Some(told),
                    RUBY_INTERNAL_THREAD_EVENT_READY | RUBY_INTERNAL_THREAD_EVENT_RESUMED,
                    ptr::without_provenance_mut(key as usize),
                );
                Some(Self { key })
            }
        }

        /// Has what Ruby tells of the calling thread kept in `own`.
        ///
        /// # Safety
        /// The rules of [`crate::ruby`].
        pub(crate) unsafe fn follow(&self, own: &'static LockWait) {
            let place = ptr::from_ref(own).cast_mut().cast();
            // SAFETY: the caller keeps the rules; the key was created.
            unsafe {
                let thread = rb_thread_current();
                if rb_internal_thread_specific_get(thread, self.key) != place {
                    rb_internal_thread_specific_set(thread, self.key, place);
                }
            }
        }
    }

    /// Ruby calls it in any thread, with or without the GVL, and with locks of its own.
    unsafe extern "C" fn told(
        event: rb_event_flag_t,
        data: *const rb_internal_thread_event_data_t,
        key: *mut c_void,
    ) {
        // SAFETY: the data begins with the thread that Ruby speaks of. Reading what is kept for it is safe in any thread;
        // `follow` has put nothing else there than what lives for ever.
        let own = unsafe {
            let thread = *data.cast::<Value>();
            rb_internal_thread_specific_get(thread, key.addr() as c_int)
                .cast::<LockWait>()
                .as_ref()
        };
        let Some(own) = own else { return };
        if event == RUBY_INTERNAL_THREAD_EVENT_READY {
            own.wanted_ns.store(monotonic_ns(), Ordering::Relaxed);
            return;
        }
        let wanted_ns = own.wanted_ns.swap(0, Ordering::Relaxed);
        if wanted_ns != 0 {
            let waited_ns = own.waited_ns() + monotonic_ns().saturating_sub(wanted_ns);
            own.waited_ns.store(waited_ns, Ordering::Relaxed);
        }
    }
}
