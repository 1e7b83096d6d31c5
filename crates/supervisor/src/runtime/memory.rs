//! How much memory processes hold, and how much their control groups allow. Reading takes the kernel milliseconds for a
//! large process, so nothing here is to be called on the front's thread. It decides nothing.

pub(crate) use proc::cgroup::memory_limits as groups;

use crate::rules::memory::ProcessMemory;

/// The memory of a process; none where it is gone, or the kernel does not tell.
pub(crate) fn of(pid: i32) -> Option<ProcessMemory> {
    let memory = proc::memory_of(pid)?;
    Some(ProcessMemory {
        private: memory.private(),
        share: memory.share(),
    })
}
