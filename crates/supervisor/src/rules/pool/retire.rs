//! A worker that is to go while its pool serves on: its successor is forked in the spare place first, and only when
//! that one is ready is the worker told to leave. Its own place is the spare one from then on.
//!
//! One that is stuck is told to leave at once; its successor still does not wait for its death, where the spare place is
//! free.

use std::time::{Duration, Instant};

use super::leave::dismissed;
use super::{Action, Phase, Pool, State, Template, Worker};
use crate::rules::limits::Why;

/// A successor on its way. At most one at a time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Succession {
    /// Who is to leave.
    pub(super) predecessor: u16,
    /// The place that was spare.
    pub(super) successor: u16,
    /// How long the predecessor may take to leave.
    grace: Duration,
}

impl Pool {
    /// Begins a retirement, unless something else is on its way: whoever wants it asks again. It begins only from a
    /// pool that is whole, so that there is never more than one worker too many.
    pub(super) fn retire(
        &mut self,
        worker: u16,
        why: Why,
        grace: Duration,
        actions: &mut Vec<Action>,
    ) {
        if !self.is_whole() || !matches!(self.state_of(worker), Some(State::Ready { .. })) {
            return;
        }
        let Some(successor) = self.spare() else {
            return;
        };
        self.workers[usize::from(successor)].state = State::Absent;
        self.succession = Some(Succession {
            predecessor: worker,
            successor,
            grace,
        });
        actions.push(Action::Retiring {
            worker,
            successor,
            why,
        });
    }

    /// Has a successor forked for a worker that is stuck and still there. From then on it counts no more, and there is one
    /// worker too many at most, as in a retirement.
    pub(super) fn follow(&mut self, worker: u16, now: Instant, actions: &mut Vec<Action>) {
        let lingers =
            |place: &&mut Worker| place.stuck && matches!(place.state, State::Stopping { .. });
        if self.phase == Phase::Stopping || self.template != Template::Up {
            return;
        }
        let Some(successor) = self.spare() else {
            return;
        };
        let place = self.workers.get_mut(usize::from(worker));
        let Some(place) = place.filter(lingers) else {
            return;
        };
        place.stuck = false;
        actions.push(Action::Followed { worker, successor });
        self.fork(successor, now, actions);
    }

    /// Has a worker leave whose successor finds no room beside it. It counts for as long as it is there.
    pub(super) fn renew(&mut self, worker: u16, until: Instant, actions: &mut Vec<Action>) {
        if !self.is_whole() || !matches!(self.state_of(worker), Some(State::Ready { .. })) {
            return;
        }
        let place = &mut self.workers[usize::from(worker)];
        place.stuck = true;
        place.state = dismissed(worker, place.state, Some(until), actions);
    }

    /// Whether every worker that there shall be serves, nothing comes or goes, and another can be forked.
    pub(crate) fn is_whole(&self) -> bool {
        self.phase == Phase::Running
            && self.template == Template::Up
            && self.succession.is_none()
            && self.ready() == self.limit
            && self.wanted() == self.limit
            && self.leaving() == 0
    }

    /// A worker is ready: where it is the successor, its predecessor leaves.
    pub(super) fn succeed(&mut self, worker: u16, now: Instant, actions: &mut Vec<Action>) {
        let Some(own) = self.succession.take_if(|own| own.successor == worker) else {
            return;
        };
        let predecessor = &mut self.workers[usize::from(own.predecessor)];
        let until = Some(now + own.grace);
        predecessor.state = dismissed(own.predecessor, predecessor.state, until, actions);
    }

    /// A worker died. Where a successor was on its way for it, that one takes its place, and true is returned.
    pub(super) fn inherit(&mut self, worker: u16) -> bool {
        let ended = self.succession.take_if(|own| own.predecessor == worker);
        if ended.is_some() {
            self.vacate(worker);
        }
        ended.is_some()
    }

    /// Ends a retirement whose successor is not ready: the predecessor stays.
    pub(super) fn call_off_succession(&mut self, actions: &mut Vec<Action>) {
        let Some(Succession { successor, .. }) = self.succession.take() else {
            return;
        };
        match self.workers[usize::from(successor)].state {
            State::Absent | State::Waiting(_) => self.vacate(successor),
            state => {
                let state = dismissed(successor, state, None, actions);
                self.workers[usize::from(successor)].state = state;
            }
        }
    }

    /// Nobody is in this place any more, and nobody shall come back to it just so: it is the spare one where there is
    /// none. A worker that was stuck and still counted comes back.
    pub(super) fn vacate(&mut self, worker: u16) {
        let taken = self.spare().is_some() || self.succession.is_some();
        let place = &mut self.workers[usize::from(worker)];
        let comes = std::mem::take(&mut place.stuck);
        place.state = match taken || comes {
            true => State::Absent,
            false => State::Spare,
        };
        if place.state == State::Spare {
            place.deaths = 0;
        }
    }

    /// The place that is kept for a successor, where nobody is in it.
    fn spare(&self) -> Option<u16> {
        let mut all = (0..).zip(&self.workers);
        let found = all.find(|(_, worker)| worker.state == State::Spare);
        found.map(|(number, _)| number)
    }
}
