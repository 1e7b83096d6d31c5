//! One rollout: from the moment that the new generation's template can fork to the moment that it has taken over.
//! All at once, or worker by worker. A pure part of the fleet.

use std::time::{Duration, Instant};

use super::{Action, Generation, Stage};
use crate::pool;

/// What a rollout keeps to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// Workers of a generation.
    pub(crate) workers: u16,
    /// How long each step of a start may take.
    pub(crate) boot_timeout: Duration,
    /// How long a worker that leaves may take to finish what it holds.
    pub(crate) drain_timeout: Duration,
    /// Whether workers are replaced one by one, so that there is never more than one too many.
    pub(crate) worker_by_worker: bool,
    /// Whether a new generation is to pass a check before it takes over.
    pub(crate) check: bool,
}

impl Rules {
    /// Workers that a generation may have while the others have so many.
    pub(super) fn room(&self, others: u16) -> u16 {
        (self.workers + 1).saturating_sub(others).min(self.workers)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Check {
    Due,
    Asked,
    Passed,
}

/// The way from one generation to the next.
#[derive(Debug)]
pub(super) struct Rollout {
    /// The new generation.
    pub(super) number: u32,
    pub(super) check: Check,
    /// The most of its workers that were ready at once.
    arrived: u16,
    /// When the step that is awaited is late.
    pub(super) until: Option<Instant>,
    /// Whether it was given up: the old generation gets its workers back as the new one's go.
    pub(super) reverts: bool,
}

impl Rollout {
    /// The way to this generation, at its beginning.
    pub(super) fn to(number: u32) -> Self {
        Self {
            number,
            check: Check::Due,
            arrived: 0,
            until: None,
            reverts: false,
        }
    }

    /// Takes the next step. True when the new generation has taken over.
    pub(super) fn step(
        &mut self,
        new: &mut Generation,
        old: Option<&mut Generation>,
        rules: &Rules,
        now: Instant,
        actions: &mut Vec<Action>,
    ) -> bool {
        if !new.pool.template_up() {
            return false;
        }
        let ready = new.pool.ready();
        if ready > self.arrived {
            self.arrived = ready;
            self.until = None;
        }
        let one_by_one = rules.worker_by_worker && old.is_some();
        let enough = if one_by_one { 1 } else { rules.workers };
        if self.check == Check::Due && ready >= enough {
            // The first generation has nothing to fall back to: what it answers is better than no answer.
            if rules.check && old.is_some() {
                self.check = Check::Asked;
                let generation = new.number;
                actions.push(Action::Check { generation });
            } else {
                self.check = Check::Passed;
            }
        }
        if self.check == Check::Passed && new.stage == Stage::Booting && ready >= enough {
            new.stage = Stage::Serving;
            if let Some(old) = &old
                && ready < rules.workers
            {
                let generations = vec![old.number, new.number];
                actions.push(Action::Feed { generations });
            }
        }
        let serves = new.stage == Stage::Serving;
        if serves && ready == rules.workers {
            let generation = new.number;
            let generations = vec![generation];
            actions.push(Action::Feed { generations });
            actions.push(Action::Serves { generation });
            if let Some(old) = old {
                old.stage = Stage::Draining;
                let until = Some(now + rules.drain_timeout);
                old.handle(pool::Event::Stop { until }, now, actions);
            }
            return true;
        }
        if let Some(old) = old
            && one_by_one
        {
            let spared = rules.workers - self.arrived;
            if serves && spared < old.pool.limit() {
                old.resize(spared, rules, now, actions);
            }
            let others = old.pool.limit() + old.pool.leaving() + new.pool.leaving();
            new.resize(rules.room(others), rules, now, actions);
        }
        let awaited = ready < new.pool.limit() || self.check == Check::Asked;
        self.until = match (awaited, self.until) {
            (false, _) => None,
            (true, None) => Some(now + rules.boot_timeout),
            (true, until) => until,
        };
        false
    }
}
