//! What a process of Ruby needs from the kernel and Ruby does not offer: pidfds, merged pages, and ending with another process. It
//! knows nothing of requests.

pub(crate) mod methods;

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};

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

/// Lets the kernel merge equal pages of this process, and of those that it forks from now on (`PR_SET_MEMORY_MERGE`, Linux
/// 6.4).
///
/// # Errors
/// Those of prctl(2): EINVAL where the kernel cannot, EPERM where a kernel or a sandbox wants CAP_SYS_RESOURCE.
pub(crate) fn merge_pages() -> io::Result<()> {
    let (on, unused): (libc::c_ulong, libc::c_ulong) = (1, 0);
    // SAFETY: every argument is a number of the type that the kernel reads.
    match unsafe { libc::prctl(libc::PR_SET_MEMORY_MERGE, on, unused, unused, unused) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Whether the kernel may merge equal pages of this process.
pub(crate) fn merges_pages() -> bool {
    let unused: libc::c_ulong = 0;
    // SAFETY: as above.
    unsafe { libc::prctl(libc::PR_GET_MEMORY_MERGE, unused, unused, unused, unused) == 1 }
}

/// A descriptor for a child, readable once it has ended. Closed on exec.
///
/// # Errors
/// Those of pidfd_open(2).
pub(crate) fn pidfd(pid: i32) -> io::Result<OwnedFd> {
    let pid = Pid::from_raw(pid).ok_or(io::ErrorKind::InvalidInput)?;
    Ok(pidfd_open(pid, PidfdFlags::empty())?)
}

/// Kills a child, also a stopped one. Does nothing where it has ended.
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
