//! The pool: what is to be done when a process boots, dies or is to stop. A pure state machine, events in
//! and actions out; it knows no process, no socket and no clock (the time comes with each event).

use std::time::{Duration, Instant};

mod delayed;
mod leave;
mod loss;
mod retire;
mod step;

use retire::Succession;
pub(crate) use step::{Action, Event};

/// How long a template may take to exit by itself: one that was told to, that could not load the application, or that has
/// closed its control socket.
pub(crate) const TEMPLATE_EXIT_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Template {
    Booting,
    Up,
    /// Dead; to be started again then.
    Waiting(Instant),
    /// Killed, for it did not fork in time; not dead yet.
    Killed,
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
    /// Not there; the place is kept for a successor.
    Spare,
    /// Not there; forked then.
    Waiting(Instant),
    /// The template was told to fork it.
    Forking,
    /// Forked then, not yet ready.
    Starting(Instant),
    /// Serves requests since then.
    Ready { since: Instant },
    /// Told to leave, or killed on the way out. `until`: killed then.
    Stopping { until: Option<Instant> },
    /// Gone for good.
    Gone,
}

impl State {
    /// Whether there is a process, or soon will be.
    fn is_process(self) -> bool {
        match self {
            Self::Forking | Self::Starting(_) | Self::Ready { .. } | Self::Stopping { .. } => true,
            Self::Absent | Self::Spare | Self::Waiting(_) | Self::Gone => false,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Worker {
    state: State,
    life: u32,
    /// Since when the template owes its process, whatever became of it meanwhile: it was told to fork it then, and has not
    /// named it.
    owed: Option<Instant>,
    /// Deaths in a row without having been of use.
    deaths: u32,
    /// Whether it counts for as long as it is there, although it was told to leave: it was stuck, and its successor comes
    /// after it.
    stuck: bool,
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
    /// How often it died since one of its workers became ready.
    template_deaths: u32,
    /// How often the exchange was corrupt since the template lasted.
    corruptions: u32,
    /// Since when it can fork, where it can.
    up_since: Option<Instant>,
    /// When it was started last, or is to be, where that was delayed.
    tried: Option<Instant>,
    /// By their places, of which there is one more than workers.
    workers: Vec<Worker>,
    /// How many workers there shall be; the highest numbers are left out.
    limit: u16,
    /// Who is to take another's place.
    succession: Option<Succession>,
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
            owed: None,
            deaths: 0,
            stuck: false,
        };
        let spare = Worker {
            state: State::Spare,
            ..absent
        };
        let mut places = vec![absent; usize::from(workers)];
        places.push(spare);
        Self {
            template: Template::Booting,
            template_deaths: 0,
            corruptions: 0,
            up_since: None,
            tried: None,
            workers: places,
            limit: workers,
            succession: None,
            phase: Phase::Running,
            boot_timeout,
        }
    }

    /// Takes an event; the actions are to be done in their order.
    pub(crate) fn handle(&mut self, event: Event, now: Instant) -> Vec<Action> {
        let mut actions = Vec::new();
        match event {
            Event::Booted => self.booted(now, &mut actions),
            Event::TemplateDied => self.template_died(now, &mut actions),
            Event::Forked { worker } => self.forked(worker, now),
            Event::Ready { worker, life } => self.became_ready(worker, life, now, &mut actions),
            Event::Died {
                worker,
                life,
                served,
            } => self.died(worker, life, served, now, &mut actions),
            Event::Stuck {
                worker,
                stall,
                until,
            } => self.stuck(worker, stall, until, now, &mut actions),
            Event::Follow { worker } => self.follow(worker, now, &mut actions),
            Event::InTime { worker, until } => self.prolong(worker, until),
            Event::Retire { worker, why, grace } => self.retire(worker, why, grace, &mut actions),
            Event::Renew { worker, until } => self.renew(worker, until, &mut actions),
            Event::Resize {
                limit,
                leaves,
                until,
            } => self.resize(limit, leaves, until, &mut actions),
            Event::Corrupt => self.corrupt(now, &mut actions),
            Event::Stop { until } => self.stop(until, now, &mut actions),
            Event::Kill => self.kill(now, &mut actions),
            Event::Tick => self.tick(now, &mut actions),
        }
        if self.phase == Phase::Running && self.template == Template::Up {
            self.fork_absent(now, &mut actions);
        }
        actions
    }

    /// A fork and a worker's start may take so long from now on.
    pub(crate) fn keep_to(&mut self, boot_timeout: Duration) {
        self.boot_timeout = boot_timeout;
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
            State::Starting(since) => Some(since + self.boot_timeout),
            State::Stopping { until } => until,
            _ => None,
        };
        let workers = self.workers.iter().filter_map(worker);
        workers.chain(self.fork_until()).chain(template).min()
    }

    /// When the template is killed unless it has forked what it was told to.
    fn fork_until(&self) -> Option<Instant> {
        let oldest = self.workers.iter().filter_map(|worker| worker.owed).min()?;
        (self.template == Template::Up).then_some(oldest + self.boot_timeout)
    }

    /// How many workers there shall be.
    pub(crate) fn limit(&self) -> u16 {
        self.limit
    }

    /// How many workers serve requests, in a known process.
    pub(crate) fn ready(&self) -> u16 {
        let ready =
            |worker: &&Worker| matches!(worker.state, State::Ready { .. }) && worker.owed.is_none();
        self.workers.iter().filter(ready).count() as u16
    }

    /// How many workers were told to leave and are still there, those aside that count among the wanted ones.
    pub(crate) fn leaving(&self) -> u16 {
        let leaves =
            |worker: &&Worker| matches!(worker.state, State::Stopping { .. }) && !worker.stuck;
        self.workers.iter().filter(leaves).count() as u16
    }

    /// Whether what leaves is being waited for, and what is late of it will be killed at [`Pool::next`] at the latest.
    pub(crate) fn awaits_leaving(&self) -> bool {
        let owed = self.fork_until().is_some();
        let mut all = self.workers.iter();
        all.any(|worker| match worker.state {
            State::Stopping { until } => until.is_some() || owed && worker.owed.is_some(),
            _ => false,
        })
    }

    /// How many workers there are or will be, those aside that leave for good.
    fn wanted(&self) -> u16 {
        let wanted = |worker: &&Worker| match worker.state {
            State::Waiting(_) | State::Forking | State::Starting(_) | State::Ready { .. } => true,
            State::Stopping { .. } => worker.stuck,
            State::Absent | State::Spare | State::Gone => false,
        };
        self.workers.iter().filter(wanted).count() as u16
    }

    fn count(&self, which: impl Fn(State) -> bool) -> u16 {
        let found = self.workers.iter().filter(|worker| which(worker.state));
        found.count() as u16
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

    /// Which life of a worker is the present one.
    pub(crate) fn life(&self, worker: u16) -> u32 {
        self.workers[usize::from(worker)].life
    }

    fn state_of(&self, worker: u16) -> Option<State> {
        let found = self.workers.get(usize::from(worker));
        found.map(|worker| worker.state)
    }

    /// Whether the template has loaded the application.
    pub(crate) fn template_up(&self) -> bool {
        self.template == Template::Up
    }

    fn booted(&mut self, now: Instant, actions: &mut Vec<Action>) {
        match self.phase {
            Phase::Running => {
                self.template = Template::Up;
                self.up_since = Some(now);
            }
            Phase::Stopping => actions.push(Action::KillTemplate),
        }
    }

    fn forked(&mut self, worker: u16, now: Instant) {
        let Some(found) = self.workers.get_mut(usize::from(worker)) else {
            return;
        };
        found.owed = None;
        if found.state == State::Forking {
            found.state = State::Starting(now);
        }
    }

    fn became_ready(&mut self, worker: u16, life: u32, now: Instant, actions: &mut Vec<Action>) {
        let Some(found) = self.current(worker, life) else {
            return;
        };
        if !matches!(found.state, State::Forking | State::Starting(_)) {
            return;
        }
        found.state = State::Ready { since: now };
        // Whatever loads without being able to fork is of no use.
        self.template_deaths = 0;
        actions.push(Action::Up { worker });
        self.succeed(worker, now, actions);
    }

    fn tick(&mut self, now: Instant, actions: &mut Vec<Action>) {
        match self.template {
            Template::Waiting(until) if until <= now => {
                self.template = Template::Booting;
                actions.push(Action::SpawnTemplate);
            }
            Template::Leaving(until) if until <= now => {
                // Its death is on its way; this only moves the clock on.
                self.template = Template::Leaving(now + TEMPLATE_EXIT_TIMEOUT);
                actions.push(Action::KillTemplate);
            }
            _ => {}
        }
        for (number, worker) in numbered(&mut self.workers) {
            match worker.state {
                State::Waiting(until) if until <= now => worker.state = State::Absent,
                State::Starting(since) if since + self.boot_timeout <= now => {
                    actions.push(Action::Kill { worker: number });
                    // Its death is on its way; this only stops the clock.
                    worker.state = State::Starting(now);
                }
                _ => leave::kill_late(number, &mut worker.state, now, actions),
            }
        }
        if self.fork_until().is_some_and(|until| until <= now) {
            self.template = Template::Killed;
            actions.push(Action::KillTemplate);
        }
    }

    fn fork_absent(&mut self, now: Instant, actions: &mut Vec<Action>) {
        let successor = self.succession.map(|own| own.successor);
        let target = self.limit + u16::from(successor.is_some());
        let missing = target.saturating_sub(self.wanted());
        let absent = |&number: &u16| self.state(number) == State::Absent;
        let mut absent: Vec<u16> = self.numbers().filter(absent).collect();
        absent.sort_by_key(|number| Some(*number) != successor);
        for number in absent.into_iter().take(missing.into()) {
            self.fork(number, now, actions);
        }
    }

    /// Has the next life of a worker forked that is not there.
    fn fork(&mut self, worker: u16, now: Instant, actions: &mut Vec<Action>) {
        let place = &mut self.workers[usize::from(worker)];
        place.life += 1;
        place.stuck = false;
        place.owed = Some(now);
        place.state = State::Forking;
        let life = place.life;
        actions.push(Action::Fork { worker, life });
    }

    fn numbers(&self) -> std::ops::Range<u16> {
        0..self.workers.len() as u16
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

#[cfg(test)]
mod tests;
