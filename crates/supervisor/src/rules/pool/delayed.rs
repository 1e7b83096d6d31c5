//! Whether a pool can only wait: every process that could serve is dead, and its next start is delayed.

use std::time::Instant;

use super::{Phase, Pool, State, Template, Worker};

impl Pool {
    /// Whether a worker serves requests.
    pub(crate) fn serves(&self) -> bool {
        self.count(|state| matches!(state, State::Ready { .. })) > 0
    }

    /// When the next process is started, where none is there that could come to serve. A template that is loaded after a
    /// delay is none: it may well end as the last one did.
    pub(crate) fn delayed(&self) -> Option<Instant> {
        let comes = |worker: &Worker| match worker.state {
            State::Forking | State::Starting(_) | State::Ready { .. } => true,
            // Its successor comes without a delay.
            State::Stopping { .. } => worker.stuck,
            State::Absent | State::Spare | State::Waiting(_) | State::Gone => false,
        };
        if self.phase == Phase::Stopping || self.workers.iter().any(comes) {
            return None;
        }
        match self.template {
            Template::Waiting(until) => Some(until),
            Template::Up => {
                let delays = self.workers.iter().filter_map(|worker| match worker.state {
                    State::Waiting(until) => Some(until),
                    _ => None,
                });
                delays.min()
            }
            Template::Booting => self.tried,
            Template::Killed | Template::Leaving(_) | Template::Gone => None,
        }
    }
}
