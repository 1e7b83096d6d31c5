//! The template of a pool: when it is started, killed and told to leave. What its end means for workers is decided in the
//! pool.

use std::time::{Duration, Instant};

use super::Action;
use super::backoff::{LONGEST_DELAY, delay_after};

/// How long a template may take to exit by itself: one that was told to, that could not load the application, or that has
/// closed its control socket.
pub(crate) const TEMPLATE_EXIT_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TemplatePhase {
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

/// The template's state, and what is remembered of earlier ones.
#[derive(Debug)]
pub(super) struct TemplateState {
    state: TemplatePhase,
    /// How often it died since one of its workers became ready.
    deaths: u32,
    /// How often the exchange was corrupt since the template lasted.
    corruptions: u32,
    /// Since when it can fork, where it can.
    up_since: Option<Instant>,
    /// When it was started last, or is to be, where that was delayed.
    tried: Option<Instant>,
}

impl TemplateState {
    /// A template that boots for the first time.
    pub(super) fn booting() -> Self {
        Self {
            state: TemplatePhase::Booting,
            deaths: 0,
            corruptions: 0,
            up_since: None,
            tried: None,
        }
    }

    /// Whether it has loaded the application and can fork.
    pub(super) fn is_up(&self) -> bool {
        self.state == TemplatePhase::Up
    }

    /// Whether it is dead for good.
    pub(super) fn is_gone(&self) -> bool {
        self.state == TemplatePhase::Gone
    }

    /// When its state changes by itself.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match self.state {
            TemplatePhase::Waiting(until) | TemplatePhase::Leaving(until) => Some(until),
            _ => None,
        }
    }

    /// When a start that was delayed happens, or has happened.
    pub(super) fn next_start(&self) -> Option<Instant> {
        match self.state {
            TemplatePhase::Waiting(until) => Some(until),
            TemplatePhase::Booting => self.tried,
            TemplatePhase::Up
            | TemplatePhase::Killed
            | TemplatePhase::Leaving(_)
            | TemplatePhase::Gone => None,
        }
    }

    pub(super) fn booted(&mut self, now: Instant) {
        self.state = TemplatePhase::Up;
        self.up_since = Some(now);
    }

    /// It died, and another one that can fork takes its place.
    pub(super) fn fell_back(&mut self) {
        match self.state {
            TemplatePhase::Up | TemplatePhase::Killed => self.state = TemplatePhase::Up,
            TemplatePhase::Booting
            | TemplatePhase::Waiting(_)
            | TemplatePhase::Leaving(_)
            | TemplatePhase::Gone => {}
        }
    }

    /// One of its workers is ready. A template that loads without being able to fork is of no use.
    pub(super) fn reset_deaths(&mut self) {
        self.deaths = 0;
    }

    /// It died while its pool serves: it is started again, later and later where it keeps dying. `owes`: whether it owed a
    /// fork.
    pub(super) fn died(&mut self, owes: bool, now: Instant, actions: &mut Vec<Action>) {
        // Its death has nothing to do with the last one then.
        if !owes && self.has_lasted(now) {
            self.deaths = 0;
        }
        self.up_since = None;
        let delay = delay_after(self.deaths.max(self.corruptions.saturating_sub(1)));
        self.deaths += 1;
        if delay.is_zero() {
            self.state = TemplatePhase::Booting;
            self.tried = None;
            actions.push(Action::SpawnTemplate);
        } else {
            let until = now + delay;
            self.state = TemplatePhase::Waiting(until);
            self.tried = Some(until);
        }
    }

    /// It died and none comes after it.
    pub(super) fn died_for_good(&mut self) {
        self.state = TemplatePhase::Gone;
    }

    fn has_lasted(&self, now: Instant) -> bool {
        self.up_since
            .is_some_and(|since| since + LONGEST_DELAY <= now)
    }

    /// Kills it, for its exchange is corrupt. Where that happens again and again its next start is delayed.
    pub(super) fn corrupt(&mut self, now: Instant, actions: &mut Vec<Action>) {
        if self.has_lasted(now) {
            self.corruptions = 0;
        }
        self.corruptions += 1;
        match self.state {
            TemplatePhase::Up => self.kill_stalled(actions),
            TemplatePhase::Booting => actions.push(Action::KillTemplate),
            TemplatePhase::Waiting(_)
            | TemplatePhase::Killed
            | TemplatePhase::Leaving(_)
            | TemplatePhase::Gone => {}
        }
    }

    /// Kills it and has it fork nothing more.
    pub(super) fn kill_stalled(&mut self, actions: &mut Vec<Action>) {
        self.state = TemplatePhase::Killed;
        actions.push(Action::KillTemplate);
    }

    /// The pool stops: it does not load the application any more, nor again.
    pub(super) fn stop(&mut self, actions: &mut Vec<Action>) {
        match self.state {
            TemplatePhase::Waiting(_) => self.state = TemplatePhase::Gone,
            TemplatePhase::Booting => actions.push(Action::KillTemplate),
            TemplatePhase::Up
            | TemplatePhase::Killed
            | TemplatePhase::Leaving(_)
            | TemplatePhase::Gone => {}
        }
    }

    /// Tells it to leave: every worker is gone.
    pub(super) fn dismiss(&mut self, now: Instant, actions: &mut Vec<Action>) {
        if self.is_up() {
            self.state = TemplatePhase::Leaving(now + TEMPLATE_EXIT_TIMEOUT);
            actions.push(Action::DismissTemplate);
        }
    }

    /// Kills it where it is up or leaves.
    pub(super) fn kill(&self, actions: &mut Vec<Action>) {
        if let TemplatePhase::Up | TemplatePhase::Leaving(_) = self.state {
            actions.push(Action::KillTemplate);
        }
    }

    /// Goes on where a time that it waits for has come.
    pub(super) fn tick(&mut self, now: Instant, actions: &mut Vec<Action>) {
        match self.state {
            TemplatePhase::Waiting(until) if until <= now => {
                self.state = TemplatePhase::Booting;
                actions.push(Action::SpawnTemplate);
            }
            TemplatePhase::Leaving(until) if until <= now => {
                // Its death is on its way; this only moves the clock on.
                self.state = TemplatePhase::Leaving(now + TEMPLATE_EXIT_TIMEOUT);
                actions.push(Action::KillTemplate);
            }
            _ => {}
        }
    }
}
