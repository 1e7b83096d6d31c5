//! The lab: it starts servers, loads them, measures them and compares them. It measures from outside
//! only (the wire and `/proc`) and never links to any part of the server.
//!
//! A *stack* is a deployment under comparison, a *load* what the generator sends, a *trial* one start,
//! warm-up, load and stop. The unit of replication is the trial: a fresh server each time.

#![forbid(unsafe_code)]

pub mod application;
pub mod bench;
pub mod command;
pub mod comparison;
pub mod duration;
pub mod load;
pub mod machine;
pub mod probe;
pub mod process_tree;
pub mod random;
pub mod report;
pub mod shipped;
pub mod stacks;
pub mod statistics;
pub mod study;
pub mod toml_file;
pub mod verdict;
