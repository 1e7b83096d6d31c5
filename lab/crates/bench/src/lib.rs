//! The benchmark of the project itself: comparisons like any other, each with targets, as data in `lab/bench/*.toml`
//! ([`plan`]); a verdict on each target ([`verdict`]), and a page of all ([`page`]). It measures nothing and starts nothing:
//! comparisons are run by the `compare` crate.

#![forbid(unsafe_code)]

mod figure;
mod method;
pub mod page;
pub mod plan;
mod table;
pub mod verdict;
