//! The lab: it starts servers, loads them, measures them and compares them. It measures from outside
//! only (the wire and `/proc`) and never links to any part of the server.
//!
//! A *stack* is a deployment under comparison, a *load* what the generator sends, a *trial* one start,
//! warm-up, load and stop. The unit of replication is the trial: a fresh server each time.

#![forbid(unsafe_code)]

pub mod command;
