//! One rollout: from the moment that the new generation's template can fork to the moment that it has taken over.
//! All at once, or worker by worker. An experiment is a rollout that stops halfway. A pure part of the fleet.

use std::time::Instant;

use super::event::{Action, Rules};
use super::generations::{Generation, Stage};
use crate::rules::pool;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CheckState {
    Due,
    Asked,
    Passed,
}

/// The way from one generation to the next.
#[derive(Debug)]
pub(super) struct Rollout {
    /// The new generation.
    pub(super) number: u32,
    /// Workers that there may be of both generations.
    pub(super) most: u16,
    pub(super) check: CheckState,
    /// The most of its workers that were ready at once.
    arrived: u16,
    /// When the step that is awaited is late.
    pub(super) until: Option<Instant>,
    /// Whether it was given up: the old generation gets its workers back as the new one's go.
    pub(super) reverts: bool,
    /// Whether both generations of an experiment have the workers that they shall have.
    shares: bool,
    /// Whether an experiment is over: the old generation gets its workers back, worker by worker.
    pub(super) returns: bool,
    /// The most workers of the old generation that were ready at once since then.
    returned: u16,
}

impl Rollout {
    /// The way to this generation, at its beginning.
    pub(super) fn to(number: u32, most: u16) -> Self {
        Self {
            number,
            most,
            check: CheckState::Due,
            arrived: 0,
            until: None,
            reverts: false,
            shares: false,
            returns: false,
            returned: 0,
        }
    }

    /// Workers that a generation of these rules may have while there are so many others.
    pub(super) fn room(&self, others: u16, rules: &Rules) -> u16 {
        self.most.saturating_sub(others).min(rules.workers)
    }

    /// Both generations of an experiment have their workers, once those that leave are gone.
    fn share(&mut self, new: &Generation, old: &Generation, actions: &mut Vec<Action>) {
        if old.pool.workers().leaving() == 0 && !std::mem::replace(&mut self.shares, true) {
            let generation = new.number;
            actions.push(Action::Shares { generation });
        }
    }

    /// Takes the next step back from an experiment: a worker of the old generation comes before one of the new one goes. True
    /// when the old generation has all its workers.
    pub(super) fn step_back(
        &mut self,
        new: &mut Generation,
        old: &mut Generation,
        now: Instant,
        actions: &mut Vec<Action>,
    ) -> bool {
        let ready = old.pool.workers().ready();
        if ready > self.returned || self.until.is_none() {
            self.returned = ready;
            self.until = Some(now + old.rules.boot_timeout + new.rules.drain_timeout);
        }
        let rest = old.rules.workers.saturating_sub(ready);
        if rest == 0 {
            return true;
        }
        if rest < new.pool.workers().limit() {
            new.resize(rest, now, actions);
        }
        let others = new.pool.workers().limit()
            + new.pool.workers().leaving()
            + old.pool.workers().leaving();
        let room = self.room(others, &old.rules);
        if room > old.pool.workers().limit() {
            old.resize(room, now, actions);
        }
        false
    }

    /// Takes the next step. True when the new generation has taken over.
    pub(super) fn step(
        &mut self,
        new: &mut Generation,
        old: Option<&mut Generation>,
        now: Instant,
        actions: &mut Vec<Action>,
    ) -> bool {
        let (rules, generation) = (new.rules, new.number);
        if !new.pool.template_up() {
            return false;
        }
        let ready = new.pool.workers().ready();
        if ready > self.arrived {
            self.arrived = ready;
            self.until = None;
        }
        let one_by_one = rules.worker_by_worker && old.is_some();
        let enough = if one_by_one { 1 } else { rules.workers };
        if self.check == CheckState::Due && ready >= enough {
            // The first generation has nothing to fall back to: what it answers is better than no answer.
            if rules.check && old.is_some() {
                self.check = CheckState::Asked;
                actions.push(Action::Check { generation });
            } else {
                self.check = CheckState::Passed;
            }
        }
        if self.check == CheckState::Passed && new.stage == Stage::Booting && ready >= enough {
            new.stage = Stage::Serving;
            if let Some(old) = &old
                && (ready < rules.workers || rules.experiment)
            {
                let generations = vec![old.number, new.number];
                actions.push(Action::RouteTo { generations });
            }
        }
        let serves = new.stage == Stage::Serving;
        if serves && ready == rules.workers && !rules.experiment {
            let generations = vec![generation];
            actions.push(Action::RouteTo { generations });
            actions.push(Action::Serves { generation });
            if let Some(old) = old {
                old.stage = Stage::Draining;
                let until = Some(now + old.rules.drain_timeout);
                old.handle(pool::Event::Stop { until }, now, actions);
            }
            return true;
        }
        let mut no_room = false;
        if let Some(old) = old {
            let spared = old.rules.workers.saturating_sub(self.arrived);
            if one_by_one && serves && spared < old.pool.workers().limit() {
                old.resize(spared, now, actions);
            }
            let others = old.pool.workers().limit()
                + old.pool.workers().leaving()
                + new.pool.workers().leaving();
            let room = self.room(others, &rules);
            if room > new.pool.workers().limit() {
                new.resize(room, now, actions);
                self.until = None;
            }
            if serves && ready == rules.workers && old.pool.workers().limit() <= spared {
                self.share(new, old, actions);
            }
            // What leaves has clocks of its own, which may well be longer.
            no_room = new.pool.workers().limit() < rules.workers
                && !old.pool.awaits_leaving()
                && !new.pool.awaits_leaving();
        }
        let awaited =
            ready < new.pool.workers().limit() || no_room || self.check == CheckState::Asked;
        self.until = match (awaited, self.until) {
            (false, _) => None,
            (true, None) => Some(now + rules.boot_timeout),
            (true, until) => until,
        };
        false
    }
}
