//! The crate `statistics` for the lab, whose rounds are starts of servers. What a verdict rests on is in [`starts`].

pub mod drift;
pub mod starts;

pub use ::statistics::{Estimate, median};
