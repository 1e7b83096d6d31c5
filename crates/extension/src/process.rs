//! What a process of Ruby needs from the kernel and Ruby does not offer: pidfds, ending with another process, and
//! letting go of what is the parent's after a fork. Knows nothing of requests.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal, set_parent_process_death_signal,
};

/// Asks the kernel for a TERM when the parent dies (`PR_SET_PDEATHSIG`). Not inherited by a fork.
///
/// # Errors
/// Those of prctl(2).
pub(crate) fn end_with_parent() -> io::Result<()> {
    Ok(set_parent_process_death_signal(Some(Signal::TERM))?)
}

/// A descriptor for a child, readable once it has ended. Closed on exec.
///
/// # Errors
/// Those of pidfd_open(2).
pub(crate) fn pidfd(pid: i32) -> io::Result<OwnedFd> {
    let pid = Pid::from_raw(pid).ok_or(io::ErrorKind::InvalidInput)?;
    Ok(pidfd_open(pid, PidfdFlags::empty())?)
}

/// Kills a child, also one that stands still. One that has ended is left as it is.
pub(crate) fn kill(pidfd: BorrowedFd<'_>) {
    let _ = pidfd_send_signal(pidfd, Signal::KILL);
}

/// Whether the peer of a socket has closed both directions.
pub(crate) fn hung_up(socket: BorrowedFd<'_>) -> bool {
    // No event is asked for: this one comes unasked.
    let mut fds = [PollFd::from_borrowed_fd(socket, PollFlags::empty())];
    let now = Timespec::default();
    poll(&mut fds, Some(&now)).is_ok() && fds[0].revents().contains(PollFlags::HUP)
}

/// Whether this process was forked from one that called [`close_in_children`].
static CHILD: AtomicBool = AtomicBool::new(false);

/// What such a child closes; -1 is none.
static DESCRIPTORS: [AtomicI32; 4] = [const { AtomicI32::new(-1) }; 4];

/// The thread whose next fork makes a worker; 0 is none. A forked process has its thread's number.
static FORKS_WORKER: AtomicUsize = AtomicUsize::new(0);

/// Whether this process was forked from the worker or the template: by the application, which may do so at any time.
pub(crate) fn is_child() -> bool {
    CHILD.load(Ordering::Relaxed)
}

/// Has every process that is forked from this one, workers aside, close these descriptors at once, and know that it
/// [`is_child`]. The copies of a child would keep its parent's end from being noticed, and let it speak in its parent's
/// name. What an earlier call named is forgotten. Does nothing in such a child.
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
pub(crate) fn fork_is_worker(is_worker: bool) {
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

/// Ends this process, at once and without anything from Ruby, when the peer of `socket` is gone.
///
/// It starts a thread, so it may only be called in a process that never forks workers.
///
/// # Errors
/// No thread could be started.
pub(crate) fn end_with_front(socket: RawFd) -> io::Result<()> {
    // The thread inherits this mask: signals are for Ruby's threads.
    let old = block_signals();
    let spawned = std::thread::Builder::new()
        .name("highball watch".into())
        .stack_size(64 * 1024)
        .spawn(move || watch(socket));
    restore_signals(&old);
    spawned.map(drop)
}

fn watch(socket: RawFd) {
    // SAFETY: the worker's control socket stays open for the life of the process.
    let socket = unsafe { BorrowedFd::borrow_raw(socket) };
    // No event is asked for: messages are for Ruby's thread to take, and the end comes unasked.
    let mut fds = [PollFd::from_borrowed_fd(socket, PollFlags::empty())];
    while fds[0].revents().is_empty() {
        // Interrupted is as good as nothing new.
        let _ = poll(&mut fds, None);
    }
    // SAFETY: ends the process without running anything else of it.
    unsafe { libc::_exit(0) }
}

fn block_signals() -> libc::sigset_t {
    // SAFETY: both sets are initialised by the calls before they are used.
    unsafe {
        let (mut all, mut old) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut old);
        old
    }
}

fn restore_signals(old: &libc::sigset_t) {
    // SAFETY: `old` came from `block_signals`.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, old, std::ptr::null_mut()) };
}
