//! Comparisons of stacks on one application: interleaved trials, each on a fresh server, and what they found
//! ([`results`]). It sends no request itself and knows no server by name.

#![forbid(unsafe_code)]

pub use session::{RunOptions, plan_of, run};
pub use store::read;

mod criterion;
mod gate;

pub mod lab;
pub mod live;
mod lock;
pub mod machine;
mod meter;
mod number;
mod order;
mod peak;
mod placement;
mod progress;
pub mod results;
mod search;
mod session;
pub mod statistics;
pub mod steady;
mod store;
mod trial;
mod trial_context;
pub mod verdict;
