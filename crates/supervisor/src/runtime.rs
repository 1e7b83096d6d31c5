//! What carries the rules out: processes, control sockets, timers, and what the kernel says about memory. It decides
//! nothing; each decision is one of [`crate::rules`].

pub(crate) mod channel;
mod children;
mod coexist;
mod counts;
mod drain;
pub(crate) mod exit_status;
mod exits;
pub(crate) mod experiment;
mod first_memory;
pub(crate) mod idle;
pub(crate) mod inspect;
pub(crate) mod inspections;
pub(crate) mod launch;
mod limit_check;
pub(crate) mod load;
mod memory_usage;
pub mod orphans;
mod process_group;
mod process_memory;
pub(crate) mod purges;
pub(crate) mod refork;
pub(crate) mod runtime_options;
pub(crate) mod scale;
mod serving;
mod shared;
mod stall;
pub(crate) mod status;
pub(crate) mod supervisor;
pub(crate) mod template_process;
mod template_task;
mod worker_process;
mod worker_task;
