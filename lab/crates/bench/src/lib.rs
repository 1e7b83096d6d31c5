//! The benchmark of Highball itself, `make bench`: fixed workloads, fixed peers, fixed targets, on the stacks of the lab.
//! Comparisons that users make of their own applications never pass through here.

#![forbid(unsafe_code)]

pub mod idle;
pub mod report;
mod requests;
pub mod restart;
pub mod results;
pub mod session;
pub mod stack;
pub mod trial;
pub mod workload;
pub mod wrk;
