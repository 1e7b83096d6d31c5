//! Figures about memory, in bytes, as the rules take them. They are read in `runtime/memory.rs` and
//! `runtime/memory_usage.rs`.

use std::fmt;

pub(crate) use proc::cgroup::MemoryGroup as Group;

/// The memory of one process, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProcessMemory {
    /// Pages that no other process has, and its part of what is swapped out: what its end would give back.
    pub(crate) private: u64,
    /// The same, and of each shared page the part that falls to this process. Over all processes of the server each
    /// page counts once.
    pub(crate) share: u64,
}

/// The memory of all processes of the server at one moment, in bytes.
#[derive(Clone, Debug, Default)]
pub(crate) struct MemoryUsage {
    /// The shares of all processes of the server.
    pub(crate) held: u64,
    /// The share of the front.
    pub(crate) front: u64,
    /// What the template of the serving generation has loaded, be it its own or shared with workers.
    pub(crate) loaded: u64,
    /// What the processes that leave will give back.
    pub(crate) leaving: u64,
    /// The workers of the serving generation, by number.
    pub(crate) workers: Vec<(u16, ProcessMemory)>,
    /// The control groups that have a limit.
    pub(crate) groups: Vec<Group>,
}

impl MemoryUsage {
    /// Private memory of a worker; `None` where it was not measured.
    pub(crate) fn private(&self, worker: u16) -> Option<u64> {
        let mut workers = self.workers.iter();
        let own = workers.find(|(number, _)| *number == worker);
        own.map(|(_, memory)| memory.private)
    }
}

/// A number of bytes, displayed in MiB.
#[derive(Clone, Copy, Debug)]
pub struct Size(pub u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} MiB", self.0 as f64 / f64::from(1 << 20))
    }
}
