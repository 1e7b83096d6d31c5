//! The control socket: how commands reach a running server, what both say, and the queue of changes that are asked for.
//! It carries no request of a client and makes no change itself.

pub(crate) mod directory;
pub(crate) mod messages;
pub(crate) mod name;
pub(crate) mod places;
pub(crate) mod queue;
pub(crate) mod report;
pub(crate) mod search;
pub(crate) mod socket;
