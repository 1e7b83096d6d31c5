//! The input of all formats: a load and its outcome. It formats nothing.

use loadgen::Headroom;
use loadgen::outcome::Outcome;
use loadgen::plan::Plan;

/// A load and its outcome.
#[derive(Debug, Clone, Copy)]
pub struct Measured<'a> {
    /// The load.
    pub plan: &'a Plan,
    /// Its outcome.
    pub outcome: &'a Outcome,
    /// Whether Ctrl-C ended the load early.
    pub ended_early: bool,
    /// The generator's largest rate on this machine, where that was measured.
    pub headroom: Option<&'a Headroom>,
}
