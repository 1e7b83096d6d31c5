//! What is to be done, and why: state machines and arithmetic over values. Nothing in this folder does IO, reads a clock,
//! knows a process or a socket, or uses anything of [`crate::runtime`].

pub(crate) mod autoscale;
pub(crate) mod budget;
pub(crate) mod cpu;
pub(crate) mod fleet;
pub(crate) mod limits;
pub(crate) mod memory;
pub(crate) mod pool;
pub(crate) mod refork;
pub(crate) mod scale;
