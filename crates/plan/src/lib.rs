//! How many workers and threads an application needs: simulates the one queue with the times that a server has recorded of
//! its routes. It is pure: it knows no server and no clock, and the same question has the same answer.
//!
//! `recording.rs` is what was recorded, `workload.rs` what is drawn of it, `simulation.rs` one number of workers and threads
//! under load, `calibration.rs` takes waiting for Ruby's lock out of recorded times, `search.rs` compares candidates.

mod calibration;
mod forecast;
mod recording;
mod search;
mod simulation;
mod times;
mod workload;

pub use forecast::{Forecast, Percentiles, Setup};
pub use recording::{RecordedRoute, Recording};
pub use search::{Answer, Candidate, Limit, MIN_REQUESTS, Question, answer};
pub use simulation::simulate;
pub use times::Times;
pub use workload::{NothingRecorded, Workload};
