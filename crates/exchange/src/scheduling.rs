//! The scheduling policy and priority of a thread, inherited by every process it starts, and the clock of the exchange.
//!
//! It never changes affinity, and never raises a priority.

use std::io;

/// A policy of the kernel's for threads of equal rank (sched(7)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// `SCHED_OTHER`: a thread that wakes may preempt a running one.
    #[default]
    Default,
    /// `SCHED_BATCH`: a thread that wakes waits for the end of a time slice. Fewer task switches, later starts.
    Batch,
}

impl Policy {
    /// Puts the calling thread under it.
    ///
    /// # Errors
    /// Those of `sched_setscheduler(2)`; a sandbox may forbid it.
    pub fn apply(self) -> io::Result<()> {
        let policy = match self {
            Self::Default => libc::SCHED_OTHER,
            Self::Batch => libc::SCHED_BATCH,
        };
        let parameters = libc::sched_param { sched_priority: 0 };
        // SAFETY: pid 0 is the caller, and `parameters` lives through the call.
        match unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Niceness of a thread of low priority (setpriority(2)). A thread at normal priority gets nine times its share of a core
/// that both want.
const LOW_PRIORITY_NICENESS: i32 = 10;

/// Lowers the priority of the calling thread, and so of every thread and process that it starts. Without privileges it
/// cannot be raised again.
///
/// # Errors
/// Those of nice(2).
pub fn lower_priority() -> io::Result<()> {
    rustix::process::nice(LOW_PRIORITY_NICENESS)?;
    Ok(())
}

/// CPU time of the calling thread, in nanoseconds.
pub fn thread_cpu_ns() -> u64 {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    used.tv_sec as u64 * 1_000_000_000 + used.tv_nsec as u64
}

/// Nanoseconds of `CLOCK_MONOTONIC`: the clock of every time in the exchange.
pub fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
