//! The replacement of a worker while its pool serves on: its successor is forked under the spare number first, and only
//! when that one is ready is the worker told to leave. Its own number is the spare one from then on.

use std::time::{Duration, Instant};

use super::Action;
use super::worker::State;
use super::workers::Workers;
use crate::rules::limits::RetireReason;

/// A successor on its way, if there is one. At most one at a time.
#[derive(Debug, Default)]
pub(super) struct Succession(Option<Replacement>);

#[derive(Clone, Copy, Debug)]
struct Replacement {
    /// Who is to leave.
    predecessor: u16,
    /// Who takes its place: the number that was spare.
    successor: u16,
    /// How long the predecessor may take to leave.
    grace: Duration,
}

impl Succession {
    /// The successor on its way.
    pub(super) fn successor(&self) -> Option<u16> {
        self.0.map(|own| own.successor)
    }

    /// Has a successor for a worker forked, where a number is spare.
    pub(super) fn begin(
        &mut self,
        workers: &mut Workers,
        predecessor: u16,
        why: RetireReason,
        grace: Duration,
        actions: &mut Vec<Action>,
    ) {
        let Some(successor) = workers.spare() else {
            return;
        };
        workers[successor].state = State::Absent;
        self.0 = Some(Replacement {
            predecessor,
            successor,
            grace,
        });
        actions.push(Action::Retiring {
            worker: predecessor,
            successor,
            why,
        });
    }

    /// A worker is ready: where it is the successor, its predecessor leaves.
    pub(super) fn complete(
        &mut self,
        workers: &mut Workers,
        worker: u16,
        now: Instant,
        actions: &mut Vec<Action>,
    ) {
        if let Some(own) = self.0.take_if(|own| own.successor == worker) {
            let until = Some(now + own.grace);
            workers[own.predecessor].dismiss(own.predecessor, until, actions);
        }
    }

    /// Forgets the replacement of this worker, which leaves for another reason. Returns whether there was one: its
    /// successor stays on its way.
    pub(super) fn forget(&mut self, predecessor: u16) -> bool {
        let forgotten = self.0.take_if(|own| own.predecessor == predecessor);
        forgotten.is_some()
    }

    /// A worker died. Where a successor was on its way for it, that one takes its place, and true is returned.
    pub(super) fn inherit(&mut self, workers: &mut Workers, worker: u16) -> bool {
        let ended = self.forget(worker);
        if ended {
            self.vacate(workers, worker);
        }
        ended
    }

    /// Ends a replacement whose successor is not ready: the predecessor stays.
    pub(super) fn cancel(&mut self, workers: &mut Workers, actions: &mut Vec<Action>) {
        let Some(Replacement { successor, .. }) = self.0.take() else {
            return;
        };
        match workers.state(successor) {
            State::Absent | State::Waiting(_) => self.vacate(workers, successor),
            _ => workers[successor].dismiss(successor, None, actions),
        }
    }

    /// No process has this number any more, and none shall come back to it by itself: it is the spare one where there is
    /// none. A worker that was to be replaced after its exit comes back.
    pub(super) fn vacate(&self, workers: &mut Workers, worker: u16) {
        let taken = workers.spare().is_some() || self.0.is_some();
        let place = &mut workers[worker];
        let comes = std::mem::take(&mut place.replaced_after_exit);
        if taken || comes {
            place.state = State::Absent;
        } else {
            place.state = State::Spare;
            place.deaths = 0;
        }
    }
}
