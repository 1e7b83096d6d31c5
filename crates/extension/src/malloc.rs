//! What gives this process memory for what is not in Ruby's heap: jemalloc, where it is loaded, or the C library. Has a worker
//! take new memory from pages that it does not share, and gives back what is free. It allocates nothing itself, and changes
//! nothing for allocators that it does not know.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::mem::{size_of, transmute};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::ruby::{NIL, Value, boolean};

/// jemalloc's interface to its figures and switches: name, old value and its length, new value and its length. Gives 0 or
/// the number of an error.
type Mallctl =
    unsafe extern "C" fn(*const c_char, *mut c_void, *mut usize, *mut c_void, usize) -> c_int;

/// The arena of this worker; [`NONE`] before it has one.
static OWN: AtomicU32 = AtomicU32::new(NONE);
/// No arena has this number.
const NONE: c_uint = c_uint::MAX;

/// `Native.own_arena`: has this process, which was just forked, take memory from an arena of its own. New objects would
/// otherwise lie in the gaps between old ones, and each such page would be copied. The calling thread uses it from now
/// on; others do by [`join_arena`]. False where the allocator is not jemalloc.
///
/// # Safety
/// Called by Ruby.
pub(crate) unsafe extern "C" fn own_arena(_: Value) -> Value {
    let Some(mallctl) = jemalloc() else {
        return boolean(false);
    };
    let mut arena = NONE;
    let mut length = size_of::<c_uint>();
    let number = (&raw mut arena).cast();
    // SAFETY: jemalloc writes a number of that size.
    let error = unsafe {
        mallctl(
            c"arenas.create".as_ptr(),
            number,
            &raw mut length,
            null_mut(),
            0,
        )
    };
    if error == 0 {
        OWN.store(arena, Ordering::Relaxed);
        use_own(mallctl);
    }
    boolean(error == 0)
}

/// `Native.join_arena`: has the calling thread take memory from the arena of its worker.
///
/// # Safety
/// Called by Ruby.
pub(crate) unsafe extern "C" fn join_arena(_: Value) -> Value {
    if let Some(mallctl) = jemalloc() {
        use_own(mallctl);
    }
    NIL
}

/// `Native.release_memory`: gives the system back what this process has freed and keeps for later.
///
/// # Safety
/// Called by Ruby.
pub(crate) unsafe extern "C" fn release_memory(_: Value) -> Value {
    match jemalloc() {
        Some(mallctl) => {
            act(mallctl, c"thread.tcache.flush");
            // jemalloc's number for all arenas together.
            act(mallctl, c"arena.4096.purge");
        }
        None => trim(),
    }
    NIL
}

/// Has the calling thread use the arena of this worker, if there is one. What it has in its cache for later belongs to
/// pages that are shared, so that is given back first.
fn use_own(mallctl: Mallctl) {
    let mut arena = OWN.load(Ordering::Relaxed);
    if arena == NONE {
        return;
    }
    act(mallctl, c"thread.tcache.flush");
    let number = (&raw mut arena).cast();
    // SAFETY: jemalloc reads a number of that size.
    unsafe {
        mallctl(
            c"thread.arena".as_ptr(),
            null_mut(),
            null_mut(),
            number,
            size_of::<c_uint>(),
        );
    }
}

/// What has neither an old nor a new value. A jemalloc that does not know the name does nothing.
fn act(mallctl: Mallctl, name: &CStr) {
    // SAFETY: there are no values; the name ends with a zero.
    unsafe {
        mallctl(name.as_ptr(), null_mut(), null_mut(), null_mut(), 0);
    }
}

/// Finds jemalloc in this process, whoever has loaded it.
fn jemalloc() -> Option<Mallctl> {
    // SAFETY: the name ends with a zero.
    let symbol = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"mallctl".as_ptr()) };
    // SAFETY: only jemalloc has a function of this name, and it has this type since its version 3.
    (!symbol.is_null()).then(|| unsafe { transmute::<*mut c_void, Mallctl>(symbol) })
}

#[cfg(target_env = "gnu")]
fn trim() {
    // SAFETY: it may be called at any time.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(not(target_env = "gnu"))]
fn trim() {}
