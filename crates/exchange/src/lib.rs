//! The exchange: the memory that the front and the workers share, and the only data path between them.
//!
//! A request travels through one *slot*: the front writes it ([`request`]), a worker thread claims it
//! ([`coordination`]), answers in frames through the slot's response ring ([`response`]), and the front reads
//! them out; [`room`] is how they wait for each other. [`region`] is the memory itself, [`front`] and
//! [`worker`] are its two sides. [`control`] holds the messages that do not pass through the exchange: they carry processes' lives and
//! file descriptors, never requests. [`dispatcher`] is what the supervisor and the dispatcher tell each other within
//! the front's process.
//!
//! This crate never parses HTTP, never runs Ruby and never decides what happens to a request; it says
//! who holds one. Together with the extension it is the only crate with `unsafe` code.
//!
//! Trust: the front owns every decision and keeps its own copy of whatever it needs to stay right
//! (free list, sequences, cursors). What it reads from the region is checked before use.

pub mod coordination;
#[cfg(loom)]
pub mod loom_memory;
pub mod room;
mod sync;

#[cfg(not(loom))]
pub mod control;
#[cfg(not(loom))]
pub mod dispatcher;
#[cfg(not(loom))]
pub mod doorbell;
#[cfg(not(loom))]
pub mod front;
#[cfg(not(loom))]
pub mod measures;
pub mod pages;
#[cfg(not(loom))]
pub mod region;
#[cfg(not(loom))]
pub mod request;
#[cfg(not(loom))]
pub mod response;
#[cfg(not(loom))]
pub mod scheduling;
pub mod sockets;
#[cfg(not(loom))]
pub mod worker;

#[cfg(not(loom))]
pub use dispatcher::{Alarm, Dispatcher, Run, Stall, WorkerId};
#[cfg(not(loom))]
pub use doorbell::Doorbell;
#[cfg(not(loom))]
pub use front::Front;
#[cfg(not(loom))]
pub use region::{Geometry, Region};
#[cfg(not(loom))]
pub use worker::{Job, WorkerThread};
