//! Processes that the application forks from the template or a worker. They are no workers: they close what belongs
//! to their parent, and every function that would use it refuses them.

use std::io;
use std::os::fd::RawFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};

use rb_sys::rb_eRuntimeError;

use crate::arguments::{descriptor, raise_io};
use crate::ruby::{self, Message, NIL, Value, boolean, list, truthy};

/// Whether this process was forked from one that called [`close_in_children`].
static CHILD: AtomicBool = AtomicBool::new(false);

/// What such a child closes; -1 is none.
static DESCRIPTORS: [AtomicI32; 4] = [const { AtomicI32::new(-1) }; 4];

/// The thread whose next fork makes a worker; 0 is none. A forked process has its thread's number.
static FORKS_WORKER: AtomicUsize = AtomicUsize::new(0);

/// Whether the application forked this process from a worker or the template, which it may do at any time.
pub(crate) fn is_child() -> bool {
    CHILD.load(Ordering::Relaxed)
}

/// Has every process that is forked from this one, except workers, close these descriptors at once and know that it
/// [`is_child`]. With copies of them, a child would hide its parent's end, and could send messages in its parent's name.
/// Replaces the descriptors of an earlier call. Does nothing in such a child.
///
/// # Errors
/// No memory.
pub(crate) fn close_in_children(descriptors: [RawFd; 4]) -> io::Result<()> {
    static REGISTERED: OnceLock<i32> = OnceLock::new();
    if is_child() {
        return Ok(());
    }
    for (place, descriptor) in DESCRIPTORS.iter().zip(descriptors) {
        place.store(descriptor, Ordering::Relaxed);
    }
    let error = REGISTERED.get_or_init(|| {
        // SAFETY: `become_child` is async-signal-safe, and this library is never unloaded.
        unsafe { libc::pthread_atfork(None, None, Some(become_child)) }
    });
    match *error {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// Whether the next process that this thread forks is a worker, which keeps all it needs.
fn fork_is_worker(is_worker: bool) {
    let thread = if is_worker { this_thread() } else { 0 };
    FORKS_WORKER.store(thread, Ordering::Relaxed);
}

fn this_thread() -> usize {
    // SAFETY: it has no conditions, and is async-signal-safe.
    unsafe { libc::pthread_self() as usize }
}

unsafe extern "C" fn become_child() {
    if FORKS_WORKER.swap(0, Ordering::Relaxed) == this_thread() {
        return;
    }
    CHILD.store(true, Ordering::Relaxed);
    for descriptor in &DESCRIPTORS {
        // Once: what this process opens gets the same numbers, and belongs to its own children as well.
        let descriptor = descriptor.swap(-1, Ordering::Relaxed);
        // SAFETY: the numbers are those of the parent's descriptors, which nothing in this process uses any more: every
        // function that would asks `is_child` first. -1 is none.
        unsafe { libc::close(descriptor) };
    }
}

/// Class of the error that a process which was forked from a worker gets when it acts as one.
static NOT_THE_WORKER: OnceLock<Value> = OnceLock::new();

/// Names that class, which must live for ever.
pub(crate) fn set_error_class(not_the_worker: Value) {
    let _ = NOT_THE_WORKER.set(not_the_worker);
}

/// Raises NotTheWorker in a process that the application forked from a worker or the template: the requests, the exchange
/// and the control socket are its parent's.
///
/// # Safety
/// The rules of [`crate::ruby`].
pub(crate) unsafe fn refuse_children() {
    if is_child() {
        // SAFETY: the caller keeps the rules.
        unsafe { refuse() }
    }
}

/// Raises NotTheWorker.
///
/// # Safety
/// The rules of [`crate::ruby`].
pub(crate) unsafe fn refuse() -> ! {
    // SAFETY: the caller keeps the rules; the class is set when the extension is loaded.
    unsafe {
        ruby::raise(
            NOT_THE_WORKER.get().copied().unwrap_or(rb_eRuntimeError),
            &Message::new(format_args!(
                "this process was forked from a worker by the application: it can't answer the worker's request. \
                 End it in the code that forks (fork {{ ... }}, or exit)"
            )),
        )
    }
}

/// `Native.child?`: whether the application forked this process from a worker or the template.
pub(crate) unsafe extern "C" fn child(_: Value) -> Value {
    boolean(is_child())
}

/// `Native.close_in_children(descriptors)`: has every process that the application forks from the template close these,
/// at most four.
///
/// # Safety
/// Called by Ruby.
pub(crate) unsafe extern "C" fn native_close_in_children(_: Value, descriptors: Value) -> Value {
    // SAFETY: Ruby calls with the GVL; an error of the system is plain data.
    unsafe {
        let mut all = [-1; 4];
        for (element, &value) in all.iter_mut().zip(list(descriptors)) {
            *element = descriptor(value);
        }
        if let Err(error) = close_in_children(all) {
            raise_io("pthread_atfork", &error)
        }
    }
    NIL
}

/// `Native.fork_is_worker(whether)`: whether the next process that this thread forks is a worker.
///
/// # Safety
/// Called by Ruby.
pub(crate) unsafe extern "C" fn native_fork_is_worker(_: Value, is_worker: Value) -> Value {
    fork_is_worker(truthy(is_worker));
    NIL
}
