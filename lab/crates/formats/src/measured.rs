//! What all layouts are made from.

use loadgen::Headroom;
use loadgen::outcome::Outcome;
use loadgen::plan::Plan;

/// A load and what came of it.
#[derive(Debug, Clone, Copy)]
pub struct Measured<'a> {
    /// What was to be sent.
    pub plan: &'a Plan,
    /// What came of it.
    pub outcome: &'a Outcome,
    /// Whether somebody ended it before its time.
    pub ended_early: bool,
    /// What the generator can take on this machine, where that was measured.
    pub headroom: Option<&'a Headroom>,
}
