//! The pool: what is to be done when a process of a generation boots, dies or is to stop. A pure state machine, events in
//! and actions out; it knows no process, no socket and no clock (the time comes with each event).

use std::time::{Duration, Instant};

mod backoff;
mod event;
mod succession;
mod template_state;
mod worker;
mod workers;

pub(crate) use event::{Action, Event};
use succession::Succession;
pub(crate) use template_state::TEMPLATE_EXIT_TIMEOUT;
use template_state::TemplateState;
pub(crate) use worker::State;
use worker::Worker;
pub(crate) use workers::Workers;

use exchange::Stall;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Running,
    Stopping,
}

/// The template and the workers of one generation.
#[derive(Debug)]
pub(crate) struct Pool {
    template: TemplateState,
    workers: Workers,
    /// Who is to take another's place.
    succession: Succession,
    phase: Phase,
    /// How long a fork and a worker's start may take.
    boot_timeout: Duration,
}

impl Pool {
    /// A pool whose template is booting.
    pub(crate) fn new(workers: u16, boot_timeout: Duration) -> Self {
        Self {
            template: TemplateState::booting(),
            workers: Workers::new(workers),
            succession: Succession::default(),
            phase: Phase::Running,
            boot_timeout,
        }
    }

    /// Takes an event; the actions are to be done in their order.
    pub(crate) fn handle(&mut self, event: Event, now: Instant) -> Vec<Action> {
        let mut actions = Vec::new();
        match event {
            Event::Booted => match self.phase {
                Phase::Running => self.template.booted(now),
                Phase::Stopping => actions.push(Action::KillTemplate),
            },
            Event::TemplateDied => self.template_died(false, now, &mut actions),
            Event::FellBack => self.template_died(true, now, &mut actions),
            Event::Forked { worker } => {
                if let Some(found) = self.workers.get_mut(worker) {
                    found.forked(now);
                }
            }
            Event::Ready { worker, life } => self.became_ready(worker, life, now, &mut actions),
            Event::Died {
                worker,
                life,
                served,
            } => self.died(worker, life, served, now, &mut actions),
            Event::Stalled {
                worker,
                stall,
                until,
            } => self.stalled(worker, stall, until, now, &mut actions),
            Event::StartSuccessor { worker } => self.start_successor(worker, now, &mut actions),
            Event::Prolong { worker, until } => {
                if let Some(found) = self.workers.get_mut(worker) {
                    found.prolong(until);
                }
            }
            Event::Retire { worker, why, grace } => {
                if self.can_replace(worker) {
                    let workers = &mut self.workers;
                    self.succession
                        .begin(workers, worker, why, grace, &mut actions);
                }
            }
            Event::ReplaceAfterExit { worker, until } => {
                if self.can_replace(worker) {
                    self.workers[worker].replaced_after_exit = true;
                    self.workers[worker].dismiss(worker, Some(until), &mut actions);
                }
            }
            Event::Resize {
                limit,
                leaves,
                until,
            } => {
                if self.phase == Phase::Running {
                    self.succession.cancel(&mut self.workers, &mut actions);
                    self.workers.resize(limit, leaves, until, &mut actions);
                }
            }
            Event::Corrupt => self.corrupt(now, &mut actions),
            Event::Stop { until } => self.stop(until, now, &mut actions),
            Event::Kill => self.kill(now, &mut actions),
            Event::Tick => self.tick(now, &mut actions),
        }
        if self.phase == Phase::Running && self.template.is_up() {
            let successor = self.succession.successor();
            self.workers.fork_missing(successor, now, &mut actions);
        }
        actions
    }

    /// Sets how long a fork and a worker's start may take from now on.
    pub(crate) fn set_boot_timeout(&mut self, boot_timeout: Duration) {
        self.boot_timeout = boot_timeout;
    }

    /// The workers.
    pub(crate) fn workers(&self) -> &Workers {
        &self.workers
    }

    /// Whether the template has loaded the application and can fork.
    pub(crate) fn template_up(&self) -> bool {
        self.template.is_up()
    }

    /// When [`Event::Tick`] is due next.
    pub(crate) fn next(&self) -> Option<Instant> {
        // Without a template a delayed fork cannot happen: its boot is the event.
        let up = self.template.is_up();
        let start = up.then(|| self.workers.next_start()).flatten();
        let deadline = self.workers.next_deadline(self.boot_timeout);
        let all = [
            start,
            deadline,
            self.fork_deadline(),
            self.template.deadline(),
        ];
        all.into_iter().flatten().min()
    }

    /// When the template is killed unless it has forked what it was told to.
    fn fork_deadline(&self) -> Option<Instant> {
        let oldest = self.workers.oldest_fork()?;
        self.template.is_up().then_some(oldest + self.boot_timeout)
    }

    /// Whether workers that leave are being waited for, and those that are late will be killed at [`Pool::next`] at the
    /// latest.
    pub(crate) fn awaits_leaving(&self) -> bool {
        let owes = self.fork_deadline().is_some();
        self.workers.any(|worker| match worker.state {
            State::Stopping { until } => until.is_some() || owes && worker.fork_asked.is_some(),
            _ => false,
        })
    }

    /// When the next process is started, where none is there that could come to serve. A template that is loaded after a
    /// delay is none: it may well end as the last one did.
    pub(crate) fn next_start(&self) -> Option<Instant> {
        let comes = |worker: &Worker| match worker.state {
            State::Forking | State::Starting(_) | State::Ready { .. } => true,
            // Its successor comes without a delay.
            State::Stopping { .. } => worker.replaced_after_exit,
            State::Absent | State::Spare | State::Waiting(_) | State::Gone => false,
        };
        if self.phase == Phase::Stopping || self.workers.any(comes) {
            return None;
        }
        match self.template.is_up() {
            true => self.workers.next_start(),
            false => self.template.next_start(),
        }
    }

    /// Whether every worker that there shall be serves, nothing comes or goes, and another can be forked.
    pub(crate) fn is_whole(&self) -> bool {
        self.phase == Phase::Running
            && self.template.is_up()
            && self.succession.successor().is_none()
            && self.workers.ready() == self.workers.limit()
            && self.workers.wanted() == self.workers.limit()
            && self.workers.leaving() == 0
    }

    /// Whether the replacement of a worker can begin: only in a pool that is whole, so that there is never more than one
    /// worker too many.
    fn can_replace(&mut self, worker: u16) -> bool {
        let whole = self.is_whole();
        let found = self.workers.get_mut(worker);
        whole && found.is_some_and(|found| found.is_ready())
    }

    /// Whether the end has been asked for.
    pub(crate) fn stopping(&self) -> bool {
        self.phase == Phase::Stopping
    }

    /// Whether no process is left, nor will come.
    pub(crate) fn finished(&self) -> bool {
        self.workers.are_gone() && self.template.is_gone()
    }

    fn became_ready(&mut self, worker: u16, life: u32, now: Instant, actions: &mut Vec<Action>) {
        let Some(found) = self.workers.current(worker, life) else {
            return;
        };
        if !matches!(found.state, State::Forking | State::Starting(_)) {
            return;
        }
        found.state = State::Ready { since: now };
        self.template.reset_deaths();
        actions.push(Action::Up { worker });
        self.succession
            .complete(&mut self.workers, worker, now, actions);
    }

    /// Has a worker leave that cannot finish; one that leaves already has no longer than `until`.
    fn stalled(
        &mut self,
        worker: u16,
        stall: Stall,
        until: Instant,
        now: Instant,
        actions: &mut Vec<Action>,
    ) {
        let Some(found) = self.workers.get_mut(worker) else {
            return;
        };
        if found.is_ready() {
            actions.push(Action::Stalled { worker, stall });
            // Where a successor is on its way already, that one counts in its place.
            found.replaced_after_exit = !self.succession.forget(worker);
            found.dismiss(worker, Some(until), actions);
        }
        found.hasten(until);
        found.kill_late(worker, now, actions);
    }

    /// Has a successor forked for a stalled worker that is still there. From then on it counts no more, and there is one
    /// worker too many at most, as in a retirement.
    fn start_successor(&mut self, worker: u16, now: Instant, actions: &mut Vec<Action>) {
        if self.phase == Phase::Stopping || !self.template.is_up() {
            return;
        }
        let Some(successor) = self.workers.spare() else {
            return;
        };
        let found = self.workers.get_mut(worker);
        let awaited = |found: &&mut Worker| found.replaced_after_exit && found.is_stopping();
        let Some(found) = found.filter(awaited) else {
            return;
        };
        found.replaced_after_exit = false;
        actions.push(Action::SuccessorStarted { worker, successor });
        let life = self.workers[successor].fork(now);
        actions.push(Action::Fork {
            worker: successor,
            life,
        });
    }

    /// `replaced`: another template has taken its place.
    fn template_died(&mut self, replaced: bool, now: Instant, actions: &mut Vec<Action>) {
        let owes = self.workers.oldest_fork().is_some();
        for worker in self.workers.numbers() {
            let found = &mut self.workers[worker];
            // The process of these was never named, so its death would not be seen.
            if found.fork_asked.take().is_none() {
                continue;
            }
            let left = found.is_stopping();
            // One that leaves may have been ready before, and hold requests.
            if found.is_ready() || left && self.phase == Phase::Running {
                actions.push(Action::Reclaim { worker });
            }
            actions.push(Action::Abandon { worker });
            if self.phase == Phase::Stopping {
                found.state = State::Gone;
                continue;
            }
            found.state = State::Absent;
            if !self.succession.inherit(&mut self.workers, worker) && left {
                self.succession.vacate(&mut self.workers, worker);
            }
        }
        match self.phase {
            _ if replaced => {
                self.template.fell_back();
                self.dismiss_template(now, actions);
            }
            Phase::Running => self.template.died(owes, now, actions),
            Phase::Stopping => self.template.died_for_good(),
        }
    }

    fn died(
        &mut self,
        worker: u16,
        life: u32,
        served: bool,
        now: Instant,
        actions: &mut Vec<Action>,
    ) {
        let Some(found) = self.workers.current(worker, life) else {
            return;
        };
        found.fork_asked = None;
        actions.push(Action::Reclaim { worker });
        if self.phase == Phase::Stopping {
            found.state = State::Gone;
            self.dismiss_template(now, actions);
            return;
        }
        let left = found.is_stopping();
        if self.succession.inherit(&mut self.workers, worker) {
            return;
        }
        match left {
            true => self.succession.vacate(&mut self.workers, worker),
            false => self.workers[worker].died(worker, served, now, actions),
        }
    }

    /// Kills every process that has the exchange: a worker wrote there what no sound worker writes. They come again as
    /// after any death, but the template of an exchange that is corrupt again and again comes after a delay.
    fn corrupt(&mut self, now: Instant, actions: &mut Vec<Action>) {
        if self.phase == Phase::Stopping {
            return self.kill(now, actions);
        }
        for (number, worker) in self.workers.numbered() {
            if worker.state.is_process() {
                actions.push(Action::Kill { worker: number });
            }
        }
        self.template.corrupt(now, actions);
    }

    fn stop(&mut self, until: Option<Instant>, now: Instant, actions: &mut Vec<Action>) {
        if self.phase == Phase::Stopping {
            return;
        }
        self.phase = Phase::Stopping;
        self.succession = Succession::default();
        for (number, worker) in self.workers.numbered() {
            match worker.state.is_process() {
                true => worker.dismiss(number, until, actions),
                false => worker.state = State::Gone,
            }
        }
        self.template.stop(actions);
        self.dismiss_template(now, actions);
    }

    fn kill(&mut self, now: Instant, actions: &mut Vec<Action>) {
        let mut stopping = Vec::new();
        self.stop(None, now, &mut stopping);
        // Killing stands in for asking.
        stopping
            .retain(|action| !matches!(action, Action::StopWorker { .. } | Action::Kill { .. }));
        for (number, worker) in self.workers.numbered() {
            if worker.state != State::Gone {
                actions.push(Action::Kill { worker: number });
            }
            if let State::Stopping { until } = &mut worker.state {
                // Nothing that it runs gives it more time.
                *until = None;
            }
        }
        actions.append(&mut stopping);
        self.template.kill(actions);
    }

    fn dismiss_template(&mut self, now: Instant, actions: &mut Vec<Action>) {
        if self.workers.are_gone() {
            self.template.dismiss(now, actions);
        }
    }

    fn tick(&mut self, now: Instant, actions: &mut Vec<Action>) {
        self.template.tick(now, actions);
        for (number, worker) in self.workers.numbered() {
            worker.tick(number, self.boot_timeout, now, actions);
        }
        if self.fork_deadline().is_some_and(|until| until <= now) {
            self.template.kill_stalled(actions);
        }
    }
}

#[cfg(test)]
mod tests;
