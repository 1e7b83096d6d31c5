//! Which half of a pool of workers is better, where the workers of one half run with another setting: from what was recorded
//! of both halves in the same slices of time to a verdict. Pure: it knows no server, no process and no clock.

#![forbid(unsafe_code)]

mod findings;
mod slice;

pub use findings::{Comparison, Difference, Figures, Findings};
pub use slice::{Memory, Recorded, Slice};
