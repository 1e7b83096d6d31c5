//! Whether requests can be served at all: a pure part of the fleet.
//!
//! It begins when no worker serves and all that are to come are delayed, and ends when one serves: an attempt
//! alone is no reason to let requests wait for it.

use std::time::Instant;

use super::event::Action;
use super::generations::{GenerationList, Stage};
use crate::rules::pool::Pool;

/// Where no worker serves and those to come are delayed: when the next one is started.
#[derive(Debug, Default)]
pub(super) struct Outage {
    until: Option<Instant>,
}

impl Outage {
    /// Says that nothing can serve any more, or that something can again.
    pub(super) fn judge(&mut self, generations: &GenerationList, actions: &mut Vec<Action>) {
        let serving = generations.iter().filter(|one| one.stage == Stage::Serving);
        let pools: Vec<&Pool> = serving.map(|one| &one.pool).collect();
        let until = if pools.iter().any(|pool| pool.workers().serve()) {
            None
        } else {
            let delays: Option<Vec<_>> = pools.iter().map(|pool| pool.next_start()).collect();
            match delays.and_then(|delays| delays.into_iter().min()) {
                Some(until) => Some(until),
                // An attempt is under way, or the end.
                None => return,
            }
        };
        if until != self.until {
            self.until = until;
            actions.push(Action::Outage { until });
        }
    }
}
