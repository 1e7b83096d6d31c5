//! What carries the rules out: processes, control sockets, timers, and what the kernel says about memory. It decides
//! nothing; each decision is one of [`crate::rules`].

pub(crate) mod channel;
mod coexist;
mod drain;
pub(crate) mod exit_status;
mod exits;
pub(crate) mod launch;
mod limit_check;
mod members;
pub(crate) mod memory;
mod memory_usage;
pub mod orphans;
pub(crate) mod stall;
pub(crate) mod status;
pub(crate) mod supervisor;
pub(crate) mod template;
mod watch;
mod worker_process;
