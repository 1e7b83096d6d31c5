//! One worker of a pool: where it stands in its life, how it is told to leave, and how often its lives failed.

use std::time::{Duration, Instant};

use super::Action;
use super::backoff::{DEATHS_BEFORE_DELAY, HEALTHY_UPTIME, delay_after};

/// Where a worker stands in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// No process; forked as soon as the template is up.
    Absent,
    /// No process; the number is kept free for a successor.
    Spare,
    /// No process; forked then.
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
    pub(crate) fn is_process(self) -> bool {
        match self {
            Self::Forking | Self::Starting(_) | Self::Ready { .. } | Self::Stopping { .. } => true,
            Self::Absent | Self::Spare | Self::Waiting(_) | Self::Gone => false,
        }
    }
}

/// A worker of a pool, by its number; its processes are its lives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Worker {
    pub(super) state: State,
    /// Number of the present or latest life, from 1.
    pub(super) life: u32,
    /// When the template was told to fork its process, until the template has named that process.
    pub(super) fork_asked: Option<Instant>,
    /// Deaths in a row without having been of use.
    pub(super) deaths: u32,
    /// Whether it counts as wanted while it is `Stopping`, because its successor is forked only after its exit.
    pub(super) replaced_after_exit: bool,
}

impl Worker {
    pub(super) fn new(state: State) -> Self {
        Self {
            state,
            life: 0,
            fork_asked: None,
            deaths: 0,
            replaced_after_exit: false,
        }
    }

    pub(super) fn is_ready(&self) -> bool {
        matches!(self.state, State::Ready { .. })
    }

    pub(super) fn is_stopping(&self) -> bool {
        matches!(self.state, State::Stopping { .. })
    }

    /// Whether it is one of the workers that there shall be: not where it leaves for good.
    pub(super) fn is_wanted(&self) -> bool {
        match self.state {
            State::Waiting(_) | State::Forking | State::Starting(_) | State::Ready { .. } => true,
            State::Stopping { .. } => self.replaced_after_exit,
            State::Absent | State::Spare | State::Gone => false,
        }
    }

    /// Begins its next life. Returns the number of that.
    pub(super) fn fork(&mut self, now: Instant) -> u32 {
        self.life += 1;
        self.replaced_after_exit = false;
        self.fork_asked = Some(now);
        self.state = State::Forking;
        self.life
    }

    /// The template has named its process.
    pub(super) fn forked(&mut self, now: Instant) {
        self.fork_asked = None;
        if self.state == State::Forking {
            self.state = State::Starting(now);
        }
    }

    /// Has its process leave, if there is one: by itself where it serves, killed where it holds no request yet.
    pub(super) fn dismiss(
        &mut self,
        number: u16,
        until: Option<Instant>,
        actions: &mut Vec<Action>,
    ) {
        match self.state {
            State::Ready { .. } => {
                actions.push(Action::StopWorker { worker: number });
                self.state = State::Stopping { until };
            }
            State::Forking | State::Starting(_) => {
                actions.push(Action::Kill { worker: number });
                self.state = State::Stopping { until: None };
            }
            _ => {}
        }
    }

    /// Lets it leave by `until` at the latest, if it leaves.
    pub(super) fn hasten(&mut self, until: Instant) {
        if let State::Stopping { until: known } = &mut self.state {
            *known = Some(known.map_or(until, |known| known.min(until)));
        }
    }

    /// Gives it until `until`, if it leaves and has to by some moment.
    pub(super) fn prolong(&mut self, until: Instant) {
        if let State::Stopping { until: Some(known) } = &mut self.state {
            *known = until.max(*known);
        }
    }

    /// Kills it where its time to leave is up.
    pub(super) fn kill_late(&mut self, number: u16, now: Instant, actions: &mut Vec<Action>) {
        if let State::Stopping { until } = &mut self.state
            && until.is_some_and(|until| until <= now)
        {
            actions.push(Action::Kill { worker: number });
            // Its death is on its way; this only stops the clock.
            *until = None;
        }
    }

    /// Goes on where a time that it waits for has come.
    pub(super) fn tick(
        &mut self,
        number: u16,
        boot_timeout: Duration,
        now: Instant,
        actions: &mut Vec<Action>,
    ) {
        match self.state {
            State::Waiting(until) if until <= now => self.state = State::Absent,
            State::Starting(since) if since + boot_timeout <= now => {
                actions.push(Action::Kill { worker: number });
                // Its death is on its way; this only stops the clock.
                self.state = State::Starting(now);
            }
            _ => self.kill_late(number, now, actions),
        }
    }

    /// Counts a death that was not requested: its next life comes at once, or after a delay where too many were of no use.
    /// `served`: whether this life came to the end of a request.
    pub(super) fn died(
        &mut self,
        number: u16,
        served: bool,
        now: Instant,
        actions: &mut Vec<Action>,
    ) {
        let of_use = match self.state {
            State::Ready { since } => served || since + HEALTHY_UPTIME <= now,
            _ => false,
        };
        self.deaths = if of_use { 0 } else { self.deaths + 1 };
        let delay = delay_after(self.deaths.saturating_sub(DEATHS_BEFORE_DELAY - 1));
        if delay.is_zero() {
            self.state = State::Absent;
        } else {
            self.state = State::Waiting(now + delay);
            actions.push(Action::Delayed {
                worker: number,
                deaths: self.deaths,
                delay,
            });
        }
    }
}
