//! Whether a pool can only wait: every process that could serve is dead, and its next start is delayed.

use std::time::Instant;

use super::{Phase, Pool, State, Template};

impl Pool {
    /// Whether a worker serves requests.
    pub(crate) fn serves(&self) -> bool {
        self.count(|state| matches!(state, State::Ready { .. })) > 0
    }

    /// When the next process is started, where none is there that could come to serve.
    pub(crate) fn delayed(&self) -> Option<Instant> {
        let comes = |state| {
            matches!(
                state,
                State::Forking(_) | State::Starting(_) | State::Ready { .. }
            )
        };
        if self.phase == Phase::Stopping || self.count(comes) > 0 {
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
            Template::Booting | Template::Leaving(_) | Template::Gone => None,
        }
    }
}
