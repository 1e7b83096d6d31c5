//! What Ruby code passes to functions of this crate: numbers and file descriptors. It calls no Ruby code.

use std::os::fd::RawFd;

use rb_sys::{rb_eArgError, rb_eRuntimeError};

use crate::ruby::{self, Message, Value, integer};

/// A number that Ruby code passes.
///
/// # Safety
/// The rules of [`crate::ruby`]. Raises ArgumentError for what does not fit.
pub(crate) unsafe fn number<T: TryFrom<i64>>(value: Value) -> T {
    match integer(value) {
        Some(number) => number,
        // SAFETY: the caller keeps the rules.
        None => unsafe {
            ruby::raise(
                rb_eArgError,
                &Message::new(format_args!("not a number within bounds")),
            )
        },
    }
}

/// A file descriptor that Ruby code names.
///
/// # Safety
/// The rules of [`crate::ruby`]. Raises ArgumentError for anything else.
pub(crate) unsafe fn descriptor(value: Value) -> RawFd {
    match integer::<RawFd>(value).filter(|&fd| fd >= 0) {
        Some(fd) => fd,
        // SAFETY: the caller keeps the rules.
        None => unsafe {
            ruby::raise(
                rb_eArgError,
                &Message::new(format_args!("not a file descriptor")),
            )
        },
    }
}

/// Raises what a system call failed with.
///
/// # Safety
/// The rules of [`crate::ruby`]; the caller's frame is plain data.
pub(crate) unsafe fn raise_io(what: &str, error: &std::io::Error) -> ! {
    // SAFETY: the caller keeps the rules.
    unsafe {
        ruby::raise(
            rb_eRuntimeError,
            &Message::new(format_args!("{what}: {error}")),
        )
    }
}
