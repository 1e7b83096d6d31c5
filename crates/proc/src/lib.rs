//! What the kernel tells about processes, the machine and control groups, in `/proc` and `/sys/fs/cgroup`. Server, lab
//! and tests read it here. It never signals or changes a process, and it judges nothing.

#![forbid(unsafe_code)]

pub mod cgroup;
pub mod machine;
mod memory;
mod process;
pub mod sockets;

pub use memory::{Memory, memory_of};
pub use process::{
    Stat, all, children, command_line, cpu_demand, descriptors, environment_contains,
    has_only_threads_in, own_cpu, peak_rss, pids, program, shared_memory, started, stat,
    thread_run_delay,
};
