//! How much memory processes hold, and how much their control groups allow. Reading takes the kernel milliseconds for a
//! large process, so nothing here is to be called on the front's thread. It decides nothing.

use std::fmt;

pub(crate) use proc::cgroup::{MemoryGroup as Group, memory_limits as groups};

/// The memory of one process, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Memory {
    /// Pages that no other process has, and its part of what is swapped out: what its end would give back.
    pub(crate) private: u64,
    /// The same, and of each shared page the part that falls to this process. Over all processes of the server each
    /// page counts once.
    pub(crate) share: u64,
}

/// Bytes, as people read them: in MiB.
#[derive(Clone, Copy, Debug)]
pub struct Size(pub u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} MiB", self.0 as f64 / f64::from(1 << 20))
    }
}

/// The memory of a process; none where it is gone, or the kernel does not tell.
pub(crate) fn of(pid: i32) -> Option<Memory> {
    let memory = proc::memory_of(pid)?;
    Some(Memory {
        private: memory.private(),
        share: memory.share(),
    })
}
