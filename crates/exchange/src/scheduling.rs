//! The scheduling policy of a thread, inherited by every process it starts, and the clock of the exchange.
//!
//! It never changes affinity, and never takes a rank above another's.

use std::io;

/// A policy of the kernel's for threads of equal rank (sched(7)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// `SCHED_OTHER`: who is woken may preempt who runs.
    #[default]
    Default,
    /// `SCHED_BATCH`: who is woken waits for the end of a slice. Fewer task switches, later starts.
    Batch,
}

impl Policy {
    /// Puts the calling thread under it.
    ///
    /// # Errors
    /// Whatever `sched_setscheduler(2)` says; a sandbox may forbid it.
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

/// How nice a thread is that steps back (setpriority(2)): one that serves has nine times its share of a core that both want.
const STEP_BACK: i32 = 10;

/// Puts the calling thread behind those that serve. Without privileges there is no way back, nor for what it starts.
///
/// # Errors
/// Those of nice(2).
pub fn step_back() -> io::Result<()> {
    rustix::process::nice(STEP_BACK)?;
    Ok(())
}

/// Nanoseconds of `CLOCK_MONOTONIC`: the clock of every time in the exchange.
pub fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
