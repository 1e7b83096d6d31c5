//! The pool: what is to be done when a process boots, dies or is to stop. A pure state machine, events in
//! and actions out; it knows no process, no socket and no clock (the time comes with each event).

use std::time::{Duration, Instant};

mod delayed;
mod leave;
mod step;

pub(crate) use step::{Action, Event};

/// Deaths in a row without having been of use after which the next fork is delayed.
const PATIENCE: u32 = 5;

/// A worker that was ready for so long was of use, even if it had no request.
const STEADY: Duration = Duration::from_secs(1);

/// The first delay; it doubles with each further death.
const FIRST_DELAY: Duration = Duration::from_millis(500);

/// The longest delay.
const LONGEST_DELAY: Duration = Duration::from_secs(30);

/// How long a template that was told to leave may take to do so.
const LEAVE: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Template {
    Booting,
    Up,
    /// Dead; to be started again then.
    Waiting(Instant),
    /// Told to leave; killed then.
    Leaving(Instant),
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
    /// Serves requests since then. `forked`: the template has told its process.
    Ready { forked: bool, since: Instant },
    /// Told to leave, or killed on the way out. `forked`: as above. `until`: killed then.
    Stopping {
        forked: bool,
        until: Option<Instant>,
    },
    /// Gone for good.
    Gone,
}

#[derive(Clone, Copy, Debug)]
struct Worker {
    state: State,
    life: u32,
    /// Deaths in a row without having been of use.
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
    /// How many workers there shall be; the highest numbers are left out.
    limit: u16,
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
            limit: workers,
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
            Event::Ready { worker, life } => self.became_ready(worker, life, now, &mut actions),
            Event::Died {
                worker,
                life,
                served,
            } => self.died(worker, life, served, now, &mut actions),
            Event::Resize { limit, until } => self.resize(limit, until, &mut actions),
            Event::Stop { until } => self.stop(until, now, &mut actions),
            Event::Kill => self.kill(now, &mut actions),
            Event::Tick => self.tick(now, &mut actions),
        }
        if self.phase == Phase::Running && self.template == Template::Up {
            self.fork_absent(now, &mut actions);
        }
        actions
    }

    /// When [`Event::Tick`] is due next.
    pub(crate) fn next(&self) -> Option<Instant> {
        let template = match self.template {
            Template::Waiting(until) | Template::Leaving(until) => Some(until),
            _ => None,
        };
        let worker = |worker: &Worker| match worker.state {
            // Without a template a delayed fork cannot happen: its boot is the event.
            State::Waiting(until) if self.template == Template::Up => Some(until),
            State::Forking(since) | State::Starting(since) => Some(since + self.boot_timeout),
            State::Stopping { until, .. } => until,
            _ => None,
        };
        self.workers.iter().filter_map(worker).chain(template).min()
    }

    /// How many workers there shall be.
    pub(crate) fn limit(&self) -> u16 {
        self.limit
    }

    /// How many workers serve requests, in a known process.
    pub(crate) fn ready(&self) -> u16 {
        self.count(|state| matches!(state, State::Ready { forked: true, .. }))
    }

    /// How many workers were told to leave and are still there.
    pub(crate) fn leaving(&self) -> u16 {
        self.count(|state| matches!(state, State::Stopping { .. }))
    }

    /// How many workers there are or will be, those aside that leave.
    fn wanted(&self) -> u16 {
        self.count(|state| {
            matches!(
                state,
                State::Waiting(_) | State::Forking(_) | State::Starting(_) | State::Ready { .. }
            )
        })
    }

    fn count(&self, which: impl Fn(State) -> bool) -> u16 {
        let found = self.workers.iter().filter(|worker| which(worker.state));
        found.count() as u16
    }

    /// A worker that is not ready for having died too often, and how often, if there is one.
    pub(crate) fn hopeless(&self) -> Option<(u16, u32)> {
        let all = (0..).zip(&self.workers);
        let mut failing = all.filter(|(_, worker)| !matches!(worker.state, State::Ready { .. }));
        let found = failing.find(|(_, worker)| worker.deaths >= PATIENCE);
        found.map(|(number, worker)| (number, worker.deaths))
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
                State::Ready { forked: false, .. } => {
                    actions.push(Action::Down { worker: number });
                    State::Absent
                }
                State::Stopping { forked: false, .. } if self.phase == Phase::Running => {
                    State::Absent
                }
                State::Stopping { forked: false, .. } => State::Gone,
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
            State::Ready { since, .. } => {
                let forked = true;
                found.state = State::Ready { forked, since };
            }
            State::Stopping { until, .. } => {
                let forked = true;
                found.state = State::Stopping { forked, until };
            }
            _ => {}
        }
    }

    fn became_ready(&mut self, worker: u16, life: u32, now: Instant, actions: &mut Vec<Action>) {
        let Some(found) = self.current(worker, life) else {
            return;
        };
        let forked = match found.state {
            State::Forking(_) => false,
            State::Starting(_) => true,
            _ => return,
        };
        found.state = State::Ready { forked, since: now };
        actions.push(Action::Up { worker });
    }

    fn died(
        &mut self,
        worker: u16,
        life: u32,
        served: bool,
        now: Instant,
        actions: &mut Vec<Action>,
    ) {
        let phase = self.phase;
        let Some(found) = self.current(worker, life) else {
            return;
        };
        actions.push(Action::Down { worker });
        if phase == Phase::Stopping {
            found.state = State::Gone;
            self.dismiss(now, actions);
            return;
        }
        if matches!(found.state, State::Stopping { .. }) {
            found.state = State::Absent;
            return;
        }
        let steady = match found.state {
            State::Ready { since, .. } => served || since + STEADY <= now,
            _ => false,
        };
        found.deaths = if steady { 0 } else { found.deaths + 1 };
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

    fn tick(&mut self, now: Instant, actions: &mut Vec<Action>) {
        match self.template {
            Template::Waiting(until) if until <= now => {
                self.template = Template::Booting;
                actions.push(Action::SpawnTemplate);
            }
            Template::Leaving(until) if until <= now => {
                // Its death is on its way; this only moves the clock on.
                self.template = Template::Leaving(now + LEAVE);
                actions.push(Action::KillTemplate);
            }
            _ => {}
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
                State::Stopping {
                    forked,
                    until: Some(until),
                } if until <= now => {
                    actions.push(Action::Kill { worker: number });
                    let until = None;
                    worker.state = State::Stopping { forked, until };
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
        let missing = self.limit.saturating_sub(self.wanted());
        let absent =
            numbered(&mut self.workers).filter(|(_, worker)| worker.state == State::Absent);
        for (number, worker) in absent.take(missing.into()) {
            worker.life += 1;
            worker.state = State::Forking(now);
            actions.push(Action::Fork {
                worker: number,
                life: worker.life,
            });
        }
    }

    /// The worker, where this is its present life.
    fn current(&mut self, worker: u16, life: u32) -> Option<&mut Worker> {
        self.workers
            .get_mut(usize::from(worker))
            .filter(|found| found.life == life)
    }
}

fn numbered(workers: &mut [Worker]) -> impl DoubleEndedIterator<Item = (u16, &mut Worker)> {
    let numbers = 0..workers.len() as u16;
    numbers.zip(workers)
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
