//! The scheduling class of this process, inherited by every process it starts.
//!
//! It never changes priorities or affinity.

use std::io;

/// Puts the calling process under `SCHED_BATCH`: a worker that is woken then does not preempt whoever woke
/// it, which takes task switches out of the path between front and workers.
///
/// # Errors
/// Whatever `sched_setscheduler(2)` says; a sandbox may forbid it.
pub fn batch() -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: pid 0 is the caller, and `parameters` lives through the call.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_BATCH, &raw const parameters) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Nanoseconds of `CLOCK_MONOTONIC`: the clock of every time in the exchange.
pub fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
