//! What follows where a process ends by itself: who comes again, how soon, and who did so too often.

use std::time::{Duration, Instant};

use super::{Action, Phase, Pool, State, Template, numbered};

/// Deaths in a row without having been of use after which the next fork is delayed.
const PATIENCE: u32 = 5;

/// A worker that was ready for so long was of use, even if it finished no request. Whatever ends each one after that time
/// costs a fork in so long.
pub(super) const STEADY: Duration = Duration::from_secs(10);

/// The first delay; it doubles with each further death.
pub(super) const FIRST_DELAY: Duration = Duration::from_millis(500);

/// The longest delay.
pub(super) const LONGEST_DELAY: Duration = Duration::from_secs(30);

impl Pool {
    /// A worker that is not ready for having died too often, and how often, if there is one.
    pub(crate) fn hopeless(&self) -> Option<(u16, u32)> {
        let all = (0..).zip(&self.workers);
        let mut failing = all.filter(|(_, worker)| !matches!(worker.state, State::Ready { .. }));
        let found = failing.find(|(_, worker)| worker.deaths >= PATIENCE);
        found.map(|(number, worker)| (number, worker.deaths))
    }

    pub(super) fn template_died(&mut self, now: Instant, actions: &mut Vec<Action>) {
        if self.template_lasted(now) {
            self.template_deaths = 0;
        }
        self.up_since = None;
        for number in self.numbers() {
            let place = &mut self.workers[usize::from(number)];
            // The process of these was never named, so its death would not be seen.
            if place.owed.take().is_none() {
                continue;
            }
            let state = place.state;
            match state {
                State::Ready { .. } => actions.push(Action::Down { worker: number }),
                // It may have been ready before, and hold requests.
                State::Stopping { .. } if self.phase == Phase::Running => {
                    actions.push(Action::Down { worker: number });
                }
                _ => {}
            }
            actions.push(Action::Abandon { worker: number });
            let place = &mut self.workers[usize::from(number)];
            place.state = match self.phase {
                Phase::Running => State::Absent,
                Phase::Stopping => State::Gone,
            };
            let left = matches!(state, State::Stopping { .. });
            if self.phase == Phase::Running && !self.inherit(number) && left {
                self.vacate(number);
            }
        }
        if self.phase == Phase::Stopping {
            self.template = Template::Gone;
            return;
        }
        let delay = delay(self.template_deaths.max(self.corruptions.saturating_sub(1)));
        self.template_deaths += 1;
        if delay.is_zero() {
            self.template = Template::Booting;
            self.tried = None;
            actions.push(Action::SpawnTemplate);
        } else {
            let until = now + delay;
            self.template = Template::Waiting(until);
            self.tried = Some(until);
        }
    }

    /// Kills every process that has the exchange: a worker wrote there what no sound worker writes. They come again as
    /// after any death, but for the template of an exchange that is corrupt again and again, which is delayed.
    pub(super) fn corrupt(&mut self, now: Instant, actions: &mut Vec<Action>) {
        if self.phase == Phase::Stopping {
            return self.kill(now, actions);
        }
        if self
            .up_since
            .is_some_and(|since| since + LONGEST_DELAY <= now)
        {
            self.corruptions = 0;
        }
        self.corruptions += 1;
        for (number, worker) in numbered(&mut self.workers) {
            if worker.state.is_process() {
                actions.push(Action::Kill { worker: number });
            }
        }
        match self.template {
            Template::Up => {
                self.template = Template::Killed;
                actions.push(Action::KillTemplate);
            }
            Template::Booting => actions.push(Action::KillTemplate),
            Template::Waiting(_) | Template::Killed | Template::Leaving(_) | Template::Gone => {}
        }
    }

    /// Whether the template was there for so long that its death has nothing to do with the last one, and owes nobody a
    /// fork.
    fn template_lasted(&self, now: Instant) -> bool {
        let owes = self.workers.iter().any(|worker| worker.owed.is_some());
        let lasted = |since: Instant| since + LONGEST_DELAY <= now;
        !owes && self.up_since.is_some_and(lasted)
    }

    pub(super) fn died(
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
        found.owed = None;
        actions.push(Action::Down { worker });
        if phase == Phase::Stopping {
            found.state = State::Gone;
            self.dismiss(now, actions);
            return;
        }
        let left = matches!(found.state, State::Stopping { .. });
        if self.inherit(worker) {
            return;
        }
        if left {
            self.vacate(worker);
            return;
        }
        let Some(found) = self.current(worker, life) else {
            return;
        };
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
