//! The methods of `Native` about processes: their ends, their priority, their pages. They know nothing of requests.

use std::os::fd::{BorrowedFd, IntoRawFd};

use crate::arguments::{number, raise_io};
use crate::process;
use crate::ruby::{NIL, Value, boolean, fixnum};

/// `Native.end_with_parent`
///
/// # Safety
/// Called by Ruby.
pub(crate) unsafe extern "C" fn end_with_parent(_: Value) -> Value {
    if let Err(error) = process::end_with_parent() {
        // SAFETY: Ruby calls with the GVL; an error of the system is plain data.
        unsafe { raise_io("prctl", &error) }
    }
    NIL
}

/// `Native.lower_priority`: lowers the priority of the calling thread and of what it starts, for good.
///
/// # Safety
/// Called by Ruby.
pub(crate) unsafe extern "C" fn lower_priority(_: Value) -> Value {
    if let Err(error) = exchange::scheduling::lower_priority() {
        eprintln!(
            "highball: nice(2) failed: {error}; the application is loaded at normal priority and competes with workers"
        );
    }
    NIL
}

/// `Native.merge_pages`: 0, or the number of the error with which the kernel refuses.
///
/// # Safety
/// Called by Ruby.
pub(crate) unsafe extern "C" fn merge_pages(_: Value) -> Value {
    let error = process::merge_pages().err();
    fixnum(error.map_or(0, |error| error.raw_os_error().unwrap_or(libc::EINVAL)))
}

/// `Native.merges_pages?`: whether the kernel may merge equal pages of this process.
///
/// # Safety
/// Called by Ruby.
pub(crate) unsafe extern "C" fn merges_pages(_: Value) -> Value {
    boolean(process::merges_pages())
}

/// `Native.pidfd(pid)`: a descriptor that becomes readable when the child has ended.
///
/// # Safety
/// Called by Ruby.
pub(crate) unsafe extern "C" fn pidfd(_: Value, pid: Value) -> Value {
    // SAFETY: Ruby calls with the GVL.
    unsafe {
        match process::pidfd(number(pid)) {
            Ok(descriptor) => fixnum(descriptor.into_raw_fd()),
            Err(error) => raise_io("pidfd_open", &error),
        }
    }
}

/// `Native.kill(pidfd)`: kills a child.
///
/// # Safety
/// Called by Ruby.
pub(crate) unsafe extern "C" fn kill(_: Value, pidfd: Value) -> Value {
    // SAFETY: Ruby calls with the GVL; the caller holds the descriptor open.
    unsafe { process::kill(BorrowedFd::borrow_raw(number(pidfd))) };
    NIL
}

/// `Native.hung_up?(fd)`: whether the peer of a socket has closed both directions.
///
/// # Safety
/// Called by Ruby.
pub(crate) unsafe extern "C" fn hung_up(_: Value, socket: Value) -> Value {
    // SAFETY: Ruby calls with the GVL; the caller holds the socket open.
    unsafe { boolean(process::hung_up(BorrowedFd::borrow_raw(number(socket)))) }
}
