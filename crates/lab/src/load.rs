//! The load generator: what is sent ([`plan`]), and what came of it ([`outcome`]). It drives a URL and knows no
//! server, no process and no comparison.

pub use engine::{Progress, Single, run, run_each};
pub use headroom::{Headroom, headroom};

mod engine;
pub mod format;
mod headroom;
pub mod outcome;
pub mod plan;
