//! The load generator: what is sent ([`plan`]), and what came of it ([`outcome`]); and single requests, for a look at a
//! server ([`page`]). It drives a URL and knows no
//! server, no process and no comparison.

#![forbid(unsafe_code)]

pub use engine::{Progress, Single, run, run_each};
pub use headroom::{Headroom, headroom};

pub mod duration;
mod engine;
mod framing;
mod headroom;
pub mod idle;
pub mod outcome;
pub mod page;
pub mod plan;
mod tls;
