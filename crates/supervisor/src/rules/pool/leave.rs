//! How workers and their template are told to leave: one, some of them, all of them, or at once.

use std::time::Instant;

use super::{Action, Phase, Pool, State, TEMPLATE_EXIT_TIMEOUT, Template, numbered};
use exchange::Stall;

impl Pool {
    /// Has the workers that are beyond the limit leave: the one that `leaves`, unless it is the only one that is ready, then
    /// those that are not, then the highest numbers.
    pub(super) fn resize(
        &mut self,
        limit: u16,
        leaves: Option<u16>,
        until: Instant,
        actions: &mut Vec<Action>,
    ) {
        if self.phase == Phase::Stopping {
            return;
        }
        self.call_off_succession(actions);
        self.limit = limit;
        let mut excess = self.wanted().saturating_sub(limit);
        for worker in self.workers.iter_mut().filter(|worker| worker.stuck) {
            // These leave anyway.
            if excess > 0 && matches!(worker.state, State::Stopping { .. }) {
                worker.stuck = false;
                excess -= 1;
            }
        }
        if let Some(worker) = leaves
            && excess > 0
            && self.ready() > 1
            && let Some(State::Ready { .. }) = self.state_of(worker)
        {
            let place = &mut self.workers[usize::from(worker)];
            place.state = dismissed(worker, place.state, Some(until), actions);
            excess -= 1;
        }
        for ready in [false, true] {
            for (number, worker) in numbered(&mut self.workers).rev() {
                let state = worker.state;
                if excess == 0 || matches!(state, State::Ready { .. }) != ready {
                    continue;
                }
                match state {
                    State::Absent | State::Spare | State::Stopping { .. } | State::Gone => continue,
                    State::Waiting(_) => worker.state = State::Absent,
                    _ => worker.state = dismissed(number, state, Some(until), actions),
                }
                excess -= 1;
            }
        }
    }

    /// Has a worker leave that cannot finish; one that leaves already has no longer than `until`.
    pub(super) fn stuck(
        &mut self,
        worker: u16,
        stall: Stall,
        until: Instant,
        now: Instant,
        actions: &mut Vec<Action>,
    ) {
        let Some(found) = self.workers.get_mut(usize::from(worker)) else {
            return;
        };
        if let State::Ready { .. } = found.state {
            actions.push(Action::Stuck { worker, stall });
            // Where a successor is on its way already, that one counts in its place.
            let left = self.succession.take_if(|own| own.predecessor == worker);
            found.stuck = left.is_none();
            found.state = dismissed(worker, found.state, Some(until), actions);
        }
        if let State::Stopping { until: known } = &mut found.state {
            *known = Some(known.map_or(until, |known| known.min(until)));
            kill_late(worker, &mut found.state, now, actions);
        }
    }

    /// Gives a worker that leaves more time.
    pub(super) fn prolong(&mut self, worker: u16, until: Instant) {
        let found = self.workers.get_mut(usize::from(worker));
        if let Some(State::Stopping { until: Some(known) }) = found.map(|found| &mut found.state) {
            *known = until.max(*known);
        }
    }

    /// Workers that leave and have until a moment to do so, with that moment.
    pub(crate) fn bounded(&self) -> impl Iterator<Item = (u16, Instant)> {
        let all = (0..).zip(&self.workers);
        all.filter_map(|(number, worker)| match worker.state {
            State::Stopping { until } => Some((number, until?)),
            _ => None,
        })
    }

    pub(super) fn stop(&mut self, until: Option<Instant>, now: Instant, actions: &mut Vec<Action>) {
        if self.phase == Phase::Stopping {
            return;
        }
        self.phase = Phase::Stopping;
        self.succession = None;
        for (number, worker) in numbered(&mut self.workers) {
            worker.state = match worker.state {
                State::Absent | State::Spare | State::Waiting(_) | State::Gone => State::Gone,
                state => dismissed(number, state, until, actions),
            };
        }
        match self.template {
            Template::Waiting(_) => self.template = Template::Gone,
            Template::Booting => actions.push(Action::KillTemplate),
            Template::Up | Template::Killed | Template::Leaving(_) | Template::Gone => {}
        }
        self.dismiss(now, actions);
    }

    pub(super) fn kill(&mut self, now: Instant, actions: &mut Vec<Action>) {
        let mut stopping = Vec::new();
        self.stop(None, now, &mut stopping);
        // Killing stands in for asking.
        stopping
            .retain(|action| !matches!(action, Action::StopWorker { .. } | Action::Kill { .. }));
        for (number, worker) in numbered(&mut self.workers) {
            if worker.state != State::Gone {
                actions.push(Action::Kill { worker: number });
            }
            if let State::Stopping { until } = &mut worker.state {
                // Nothing that it runs gives it more time.
                *until = None;
            }
        }
        actions.append(&mut stopping);
        if let Template::Up | Template::Leaving(_) = self.template {
            actions.push(Action::KillTemplate);
        }
    }

    pub(super) fn dismiss(&mut self, now: Instant, actions: &mut Vec<Action>) {
        if self.no_workers() && self.template == Template::Up {
            self.template = Template::Leaving(now + TEMPLATE_EXIT_TIMEOUT);
            actions.push(Action::DismissTemplate);
        }
    }
}

/// Kills a worker that has had its time to leave.
pub(super) fn kill_late(worker: u16, state: &mut State, now: Instant, actions: &mut Vec<Action>) {
    if let State::Stopping { until } = state
        && until.is_some_and(|until| until <= now)
    {
        actions.push(Action::Kill { worker });
        // Its death is on its way; this only stops the clock.
        *until = None;
    }
}

/// Has a worker that is there leave; what state it is in then.
pub(super) fn dismissed(
    worker: u16,
    state: State,
    until: Option<Instant>,
    actions: &mut Vec<Action>,
) -> State {
    match state {
        State::Ready { .. } => {
            actions.push(Action::StopWorker { worker });
            State::Stopping { until }
        }
        State::Forking | State::Starting(_) => {
            // It holds no request.
            actions.push(Action::Kill { worker });
            State::Stopping { until: None }
        }
        other => other,
    }
}
