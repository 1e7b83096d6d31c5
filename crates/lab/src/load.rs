//! The load generator: what is sent ([`plan`]), and what came of it ([`outcome`]). It drives a URL and knows no
//! server, no process and no comparison.

pub use engine::{Progress, run};

mod engine;
pub mod outcome;
pub mod plan;
