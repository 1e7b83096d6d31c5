//! The trace of a request, as data.

use traces::Context;

/// The trace of a request.
#[derive(Clone, Debug)]
pub struct RequestTrace {
    /// Its ids.
    pub context: Context,
    /// When its head had come, nanoseconds of the monotonic clock.
    pub began_ns: u64,
}
