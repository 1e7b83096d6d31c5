//! The pool: what is to be done when a process boots, dies or is to stop. A pure state machine, events in
//! and actions out; it knows no process, no socket and no clock (the time comes with each event).

use std::time::{Duration, Instant};

mod step;

pub(crate) use step::{Action, Event};

/// Deaths in a row before Ready after which the next fork is delayed.
const PATIENCE: u32 = 5;

/// The first delay; it doubles with each further death.
const FIRST_DELAY: Duration = Duration::from_millis(500);

/// The longest delay.
const LONGEST_DELAY: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Template {
    Booting,
    Up,
    /// Dead; to be started again then.
    Waiting(Instant),
    /// Dead for good.
    Gone,
}

/// Where a worker stands in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Not there; forked as soon as the template is up.
    Absent,
    /// Not there; forked then.
    Waiting(Instant),
    /// The template was told to fork it then.
    Forking(Instant),
    /// Forked then, not yet ready.
    Starting(Instant),
    /// Serves requests. `forked`: the template has told its process.
    Ready { forked: bool },
    /// Told to leave, or killed on the way out. `forked`: as above.
    Stopping { forked: bool },
    /// Gone for good.
    Gone,
}

#[derive(Clone, Copy, Debug)]
struct Worker {
    state: State,
    life: u32,
    /// Deaths since it was last ready.
    deaths: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Running,
    Stopping,
}

/// The template and the workers of one generation.
#[derive(Debug)]
pub(crate) struct Pool {
    template: Template,
    template_deaths: u32,
    workers: Vec<Worker>,
    phase: Phase,
    /// How long a fork and a worker's start may take.
    boot_timeout: Duration,
}

impl Pool {
    /// A pool whose template is booting.
    pub(crate) fn new(workers: u16, boot_timeout: Duration) -> Self {
        let absent = Worker {
            state: State::Absent,
            life: 0,
            deaths: 0,
        };
        Self {
            template: Template::Booting,
            template_deaths: 0,
            workers: vec![absent; usize::from(workers)],
            phase: Phase::Running,
            boot_timeout,
        }
    }

    /// Takes an event; the actions are to be done in their order.
    pub(crate) fn handle(&mut self, event: Event, now: Instant) -> Vec<Action> {
        let mut actions = Vec::new();
        match event {
            Event::Booted => self.booted(&mut actions),
            Event::TemplateDied => self.template_died(now, &mut actions),
            Event::Forked { worker } => self.forked(worker, now),
            Event::Ready { worker, life } => self.ready(worker, life, &mut actions),
            Event::Died { worker, life } => self.died(worker, life, now, &mut actions),
            Event::Stop => self.stop(&mut actions),
            Event::Kill => self.kill(&mut actions),
            Event::Tick => self.tick(now, &mut actions),
        }
        if self.phase == Phase::Running && self.template == Template::Up {
            self.fork_absent(now, &mut actions);
        }
        actions
    }

    /// When [`Event::Tick`] is due next.
    pub(crate) fn next(&self) -> Option<Instant> {
        if self.phase == Phase::Stopping {
            return None;
        }
        let template = match self.template {
            Template::Waiting(until) => Some(until),
            _ => None,
        };
        let worker = |worker: &Worker| match worker.state {
            // Without a template a delayed fork cannot happen: its boot is the event.
            State::Waiting(until) if self.template == Template::Up => Some(until),
            State::Forking(since) | State::Starting(since) => Some(since + self.boot_timeout),
            _ => None,
        };
        self.workers.iter().filter_map(worker).chain(template).min()
    }

    /// Whether every worker serves requests, in a known process.
    pub(crate) fn all_ready(&self) -> bool {
        let ready = |worker: &Worker| worker.state == State::Ready { forked: true };
        self.workers.iter().all(ready)
    }

    /// A worker that died too often before it was ready, and how often, if there is one.
    pub(crate) fn hopeless(&self) -> Option<(u16, u32)> {
        let deaths = self.workers.iter().map(|worker| worker.deaths);
        (0..).zip(deaths).find(|(_, deaths)| *deaths >= PATIENCE)
    }

    /// Whether the end has been asked for.
    pub(crate) fn stopping(&self) -> bool {
        self.phase == Phase::Stopping
    }

    /// Whether no worker is left.
    pub(crate) fn no_workers(&self) -> bool {
        self.workers.iter().all(|w| w.state == State::Gone)
    }

    /// Whether no process is left, nor will come.
    pub(crate) fn finished(&self) -> bool {
        self.no_workers() && self.template == Template::Gone
    }

    /// Where a worker stands.
    pub(crate) fn state(&self, worker: u16) -> State {
        self.workers[usize::from(worker)].state
    }

    /// Whether the template has loaded the application.
    pub(crate) fn template_up(&self) -> bool {
        self.template == Template::Up
    }

    fn booted(&mut self, actions: &mut Vec<Action>) {
        match self.phase {
            Phase::Running => {
                self.template = Template::Up;
                self.template_deaths = 0;
            }
            Phase::Stopping => actions.push(Action::KillTemplate),
        }
    }

    fn template_died(&mut self, now: Instant, actions: &mut Vec<Action>) {
        for (number, worker) in numbered(&mut self.workers) {
            // The process of these was never named, so its death would not be seen.
            let next = match worker.state {
                State::Forking(_) => State::Absent,
                State::Ready { forked: false } => {
                    actions.push(Action::Down { worker: number });
                    State::Absent
                }
                State::Stopping { forked: false } => State::Gone,
                _ => continue,
            };
            actions.push(Action::Abandon { worker: number });
            worker.state = next;
        }
        if self.phase == Phase::Stopping {
            self.template = Template::Gone;
            return;
        }
        let delay = delay(self.template_deaths);
        self.template_deaths += 1;
        if delay.is_zero() {
            self.template = Template::Booting;
            actions.push(Action::SpawnTemplate);
        } else {
            self.template = Template::Waiting(now + delay);
        }
    }

    fn forked(&mut self, worker: u16, now: Instant) {
        let Some(found) = self.workers.get_mut(usize::from(worker)) else {
            return;
        };
        match found.state {
            State::Forking(_) => found.state = State::Starting(now),
            State::Ready { .. } => found.state = State::Ready { forked: true },
            State::Stopping { .. } => found.state = State::Stopping { forked: true },
            _ => {}
        }
    }

    fn ready(&mut self, worker: u16, life: u32, actions: &mut Vec<Action>) {
        let Some(found) = self.current(worker, life) else {
            return;
        };
        let forked = match found.state {
            State::Forking(_) => false,
            State::Starting(_) => true,
            _ => return,
        };
        found.state = State::Ready { forked };
        found.deaths = 0;
        actions.push(Action::Up { worker });
    }

    fn died(&mut self, worker: u16, life: u32, now: Instant, actions: &mut Vec<Action>) {
        let phase = self.phase;
        let Some(found) = self.current(worker, life) else {
            return;
        };
        actions.push(Action::Down { worker });
        if phase == Phase::Stopping {
            found.state = State::Gone;
            self.dismiss(actions);
            return;
        }
        if !matches!(found.state, State::Ready { .. }) {
            found.deaths += 1;
        }
        let deaths = found.deaths;
        let delay = delay(deaths.saturating_sub(PATIENCE - 1));
        if delay.is_zero() {
            found.state = State::Absent;
        } else {
            found.state = State::Waiting(now + delay);
            actions.push(Action::Delayed {
                worker,
                deaths,
                delay,
            });
        }
    }

    fn stop(&mut self, actions: &mut Vec<Action>) {
        if self.phase == Phase::Stopping {
            return;
        }
        self.phase = Phase::Stopping;
        for (number, worker) in numbered(&mut self.workers) {
            worker.state = match worker.state {
                State::Absent | State::Waiting(_) | State::Gone => State::Gone,
                State::Ready { forked } => {
                    actions.push(Action::StopWorker { worker: number });
                    State::Stopping { forked }
                }
                // These hold no request.
                State::Forking(_) | State::Starting(_) | State::Stopping { .. } => {
                    actions.push(Action::Kill { worker: number });
                    State::Stopping {
                        forked: !matches!(worker.state, State::Forking(_)),
                    }
                }
            };
        }
        match self.template {
            Template::Waiting(_) => self.template = Template::Gone,
            Template::Booting => actions.push(Action::KillTemplate),
            Template::Up | Template::Gone => {}
        }
        self.dismiss(actions);
    }

    fn kill(&mut self, actions: &mut Vec<Action>) {
        let mut stopping = Vec::new();
        self.stop(&mut stopping);
        // Killing stands in for asking.
        stopping
            .retain(|action| !matches!(action, Action::StopWorker { .. } | Action::Kill { .. }));
        for (number, worker) in numbered(&mut self.workers) {
            if worker.state != State::Gone {
                actions.push(Action::Kill { worker: number });
            }
        }
        actions.append(&mut stopping);
        if self.template == Template::Up {
            actions.push(Action::KillTemplate);
        }
    }

    fn tick(&mut self, now: Instant, actions: &mut Vec<Action>) {
        if self.phase == Phase::Stopping {
            return;
        }
        if let Template::Waiting(until) = self.template
            && until <= now
        {
            self.template = Template::Booting;
            actions.push(Action::SpawnTemplate);
        }
        let mut stuck = false;
        for (number, worker) in numbered(&mut self.workers) {
            match worker.state {
                State::Waiting(until) if until <= now => worker.state = State::Absent,
                State::Forking(since) if since + self.boot_timeout <= now => stuck = true,
                State::Starting(since) if since + self.boot_timeout <= now => {
                    actions.push(Action::Kill { worker: number });
                    // Its death is on its way; this only stops the clock.
                    worker.state = State::Starting(now);
                }
                _ => {}
            }
        }
        if stuck && self.template == Template::Up {
            actions.push(Action::KillTemplate);
            // Its death is on its way and makes these absent.
            for worker in &mut self.workers {
                if let State::Forking(since) = &mut worker.state {
                    *since = now;
                }
            }
        }
    }

    fn fork_absent(&mut self, now: Instant, actions: &mut Vec<Action>) {
        for (number, worker) in numbered(&mut self.workers) {
            if worker.state == State::Absent {
                worker.life += 1;
                worker.state = State::Forking(now);
                actions.push(Action::Fork {
                    worker: number,
                    life: worker.life,
                });
            }
        }
    }

    fn dismiss(&mut self, actions: &mut Vec<Action>) {
        if self.no_workers() && self.template == Template::Up {
            actions.push(Action::DismissTemplate);
        }
    }

    /// The worker, where this is its present life.
    fn current(&mut self, worker: u16, life: u32) -> Option<&mut Worker> {
        self.workers
            .get_mut(usize::from(worker))
            .filter(|found| found.life == life)
    }
}

fn numbered(workers: &mut [Worker]) -> impl Iterator<Item = (u16, &mut Worker)> {
    (0..).zip(workers)
}

/// The delay after so many earlier deaths: none, then doubling.
fn delay(earlier: u32) -> Duration {
    match earlier.checked_sub(1) {
        None => Duration::ZERO,
        Some(doublings) => FIRST_DELAY
            .saturating_mul(1 << doublings.min(10))
            .min(LONGEST_DELAY),
    }
}

#[cfg(test)]
mod tests;
