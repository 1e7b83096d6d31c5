//! A native thread of its own for a thread of Ruby, where Ruby's M:N scheduler (`RUBY_MN_THREADS`) would move it about. It
//! starts no thread.

use crate::ruby::{Value, boolean};

/// `Native.keep_native_thread`: has the calling thread of Ruby stay on its native thread, and nothing else run there: its
/// waits hold up no other thread, and its CPU clock is its own. False where this Ruby cannot, that is before 3.4.
///
/// # Safety
/// Called by Ruby.
pub(crate) unsafe extern "C" fn keep(_: Value) -> Value {
    #[cfg(ruby_gte_3_4)]
    // SAFETY: Ruby calls with the GVL, in the thread that is meant.
    unsafe {
        rb_sys::rb_thread_lock_native_thread();
    }
    boolean(cfg!(ruby_gte_3_4))
}
