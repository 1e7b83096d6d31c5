//! The fleet: the generations that are there at once, and how one takes the place of another. A pure state
//! machine like the [`Pool`]s in it, one for each generation: events in, actions out, the time comes with each
//! event. It knows no process, no socket and no request.
//!
//! A rollout starts a new generation while another one serves. Until it is fit to serve nothing changes for
//! the other one; if it never is, it is given up and all is as before.

use std::time::{Duration, Instant};

use crate::rules::pool::{self, Pool};

mod event;
mod generations;
mod outage;
mod rollout;

pub(crate) use event::{Action, Event, GiveUpReason, Rules};
pub(crate) use generations::{Generation, GenerationList, Stage};
use outage::Outage;
use rollout::{CheckState, Rollout};

/// The generations of a server, and the rollout that replaces one by another.
#[derive(Debug, Default)]
pub(crate) struct Fleet {
    generations: GenerationList,
    rollout: Option<Rollout>,
    outage: Outage,
    stopping: bool,
}

impl Fleet {
    /// Takes an event; the actions are to be done in their order.
    pub(crate) fn handle(&mut self, event: Event, now: Instant) -> Vec<Action> {
        let mut actions = Vec::new();
        match event {
            Event::Launch { generation, rules } => {
                self.launch(generation, rules, now, &mut actions);
            }
            Event::Resize { workers, leaves } => {
                self.resize(workers, leaves, now, &mut actions);
            }
            Event::ApplySettings {
                boot_timeout,
                drain_timeout,
            } => {
                for generation in &mut self.generations.all {
                    generation.rules.boot_timeout = boot_timeout;
                    generation.rules.drain_timeout = drain_timeout;
                    generation.pool.set_boot_timeout(boot_timeout);
                }
            }
            Event::KillDraining => {
                let drains = |one: &Generation| one.stage == Stage::Draining;
                let kill = |one: &Generation| drains(one).then_some(pool::Event::Kill);
                self.generations.each(kill, now, &mut actions);
            }
            Event::StopServing => self.stop_serving(now, &mut actions),
            Event::Pool { generation, event } => self.pool(generation, event, now, &mut actions),
            Event::Corrupt { generation } => self.corrupt(generation, now, &mut actions),
            Event::Checked { generation, passed } => {
                self.checked(generation, passed, now, &mut actions);
            }
            Event::CancelLaunch => self.cancel_launch(now, &mut actions),
            Event::EndExperiment => self.end_experiment(now, &mut actions),
            Event::Stop => self.stop(pool::Event::Stop { until: None }, now, &mut actions),
            Event::Kill => self.stop(pool::Event::Kill, now, &mut actions),
            Event::Tick => {
                // First: a pool would start again what is given up here.
                self.give_up_late(now, &mut actions);
                self.generations
                    .each(|_| Some(pool::Event::Tick), now, &mut actions);
            }
        }
        self.generations.forget(&mut actions);
        self.advance(now, &mut actions);
        self.generations.forget(&mut actions);
        self.outage.judge(&self.generations, &mut actions);
        actions
    }

    /// When [`Event::Tick`] is due next.
    pub(crate) fn next(&self) -> Option<Instant> {
        let pools = self.generations.all.iter();
        let pools = pools.filter_map(|generation| generation.pool.next());
        let rollout = self.rollout.iter().filter_map(|rollout| rollout.until);
        pools.chain(rollout).min()
    }

    /// What a generation keeps to.
    pub(crate) fn rules(&self, generation: u32) -> Option<Rules> {
        Some(self.generations.get(generation)?.rules)
    }

    /// How long a worker of a generation may take to leave, whatever it runs; nothing for a generation that is gone.
    pub(crate) fn drain_timeout(&self, generation: u32) -> Duration {
        let rules = self.rules(generation);
        rules.map_or(Duration::ZERO, |rules| rules.drain_timeout)
    }

    /// The generations that are there.
    pub(crate) fn generations(&self) -> &GenerationList {
        &self.generations
    }

    /// Whether a new generation can be launched: nothing is on its way in or out.
    pub(crate) fn is_settled(&self) -> bool {
        let mut all = self.generations.all.iter();
        all.len() < 2 && all.all(|one| one.stage != Stage::Draining) && self.rollout.is_none()
    }

    /// Whether a generation is starting, or was given up.
    pub(crate) fn is_rolling_out(&self) -> bool {
        self.rollout.is_some()
    }

    /// Whether nothing is on its way, neither a generation nor a worker.
    pub(crate) fn is_calm(&self) -> bool {
        let mut all = self.generations.all.iter();
        self.is_settled() && all.all(|generation| generation.pool.is_whole())
    }

    /// Whether the end has been asked for.
    pub(crate) fn stopping(&self) -> bool {
        self.stopping
    }

    /// Whether no process is left.
    pub(crate) fn finished(&self) -> bool {
        self.generations.all.is_empty()
    }

    fn resize(
        &mut self,
        workers: u16,
        leaves: Option<u16>,
        now: Instant,
        actions: &mut Vec<Action>,
    ) {
        if self.stopping || self.rollout.is_some() {
            return;
        }
        let drains = self.generations.all.len() > 1;
        let mut all = self.generations.all.iter_mut();
        // While one drains there is no room for more.
        let serving =
            all.find(|one| one.stage == Stage::Serving && (!drains || workers < one.rules.workers));
        if let Some(serving) = serving {
            serving.rules.workers = workers;
            serving.resize_without(leaves, workers, now, actions);
        }
    }

    fn launch(&mut self, number: u32, rules: Rules, now: Instant, actions: &mut Vec<Action>) {
        if self.stopping || !self.is_settled() {
            return;
        }
        self.generations.all.push(Generation {
            number,
            stage: Stage::Booting,
            rules,
            pool: Pool::new(rules.places, rules.boot_timeout),
        });
        let mut rollout = Rollout::to(number, rules.workers);
        let mut limit = rules.workers;
        if let [old, _] = &mut self.generations.all[..] {
            // A successor that is still to come is not worth more than new code.
            old.resize(old.pool.workers().limit(), now, actions);
            rollout.most = rules.most_with(&old.rules);
            limit = rollout.room(
                old.pool.workers().limit() + old.pool.workers().leaving(),
                &rules,
            );
        }
        if let Some(new) = self.generations.all.last_mut() {
            new.resize(limit, now, actions);
        }
        self.rollout = Some(rollout);
        actions.push(Action::Pool {
            generation: number,
            action: pool::Action::SpawnTemplate,
        });
    }

    fn pool(&mut self, number: u32, event: pool::Event, now: Instant, actions: &mut Vec<Action>) {
        let takes_room = matches!(
            event,
            pool::Event::Retire { .. } | pool::Event::StartSuccessor { .. }
        );
        if takes_room && !self.is_settled() {
            // The rollout replaces all of them, and has its own bound.
            return;
        }
        if event == pool::Event::TemplateDied && self.rolls_out(number) {
            // In service it would be started again. Here it says what the new code is worth.
            self.give_up(GiveUpReason::Template, now, actions);
        }
        let wanted = |generation: &Generation| (generation.number == number).then_some(event);
        self.generations.each(wanted, now, actions);
        let pool = self
            .generations
            .get(number)
            .map(|generation| &generation.pool);
        if let Some((worker, deaths)) = pool.and_then(|pool| pool.workers().hopeless())
            && self.rolls_out(number)
        {
            // There is no next start.
            actions.retain(|action| !action.is_delay());
            self.give_up(GiveUpReason::Worker { worker, deaths }, now, actions);
        }
    }

    /// A generation that serves starts again with a fresh exchange. One that is on its way in or out is killed.
    fn corrupt(&mut self, number: u32, now: Instant, actions: &mut Vec<Action>) {
        if self.rolls_out(number) {
            self.give_up(GiveUpReason::Corrupt, now, actions);
        }
        let event = |one: &Generation| match one.stage {
            Stage::Draining => pool::Event::Kill,
            Stage::Booting | Stage::Serving => pool::Event::Corrupt,
        };
        let own = |one: &Generation| (one.number == number).then(|| event(one));
        self.generations.each(own, now, actions);
    }

    fn checked(&mut self, number: u32, passed: bool, now: Instant, actions: &mut Vec<Action>) {
        if !self.rolls_out(number) {
            return;
        }
        if !passed {
            return self.give_up(GiveUpReason::Check, now, actions);
        }
        if let Some(rollout) = &mut self.rollout {
            rollout.check = CheckState::Passed;
        }
    }

    /// Whether this is the new generation of a rollout that goes on.
    pub(crate) fn rolls_out(&self, number: u32) -> bool {
        let rollout = self.rollout.as_ref();
        rollout.is_some_and(|rollout| rollout.number == number && !rollout.reverts)
    }

    /// The generation of an experiment that goes on.
    pub(crate) fn experiment(&self) -> Option<u32> {
        let rollout = self.rollout.as_ref().filter(|rollout| !rollout.returns)?;
        let own = self.generations.get(rollout.number)?;
        (own.rules.experiment && !rollout.reverts).then_some(own.number)
    }

    fn end_experiment(&mut self, now: Instant, actions: &mut Vec<Action>) {
        let Some(number) = self.experiment() else {
            return;
        };
        let own = self.generations.get(number);
        let serves = own.is_some_and(|own| own.stage == Stage::Serving);
        match &mut self.rollout {
            Some(rollout) if serves => {
                rollout.returns = true;
                rollout.until = None;
            }
            _ => self.give_up(GiveUpReason::ExperimentOver, now, actions),
        }
    }

    fn give_up_late(&mut self, now: Instant, actions: &mut Vec<Action>) {
        if let Some(rollout) = &self.rollout
            && rollout.until.is_some_and(|until| until <= now)
        {
            let why = match rollout.check {
                _ if rollout.returns => GiveUpReason::ExperimentOver,
                CheckState::Asked => GiveUpReason::Check,
                CheckState::Due | CheckState::Passed => GiveUpReason::Timeout,
            };
            self.give_up(why, now, actions);
        }
    }

    /// Ends the new generation; the other one serves on, or again.
    fn give_up(&mut self, why: GiveUpReason, now: Instant, actions: &mut Vec<Action>) {
        let Some(rollout) = &mut self.rollout else {
            return;
        };
        let number = rollout.number;
        rollout.reverts = true;
        rollout.until = None;
        actions.push(Action::GiveUp {
            generation: number,
            why,
        });
        let old = self.generations.all.iter().find(|one| one.number != number);
        let old = old.map(|old| old.number);
        let new = self
            .generations
            .all
            .iter_mut()
            .find(|one| one.number == number);
        let Some(new) = new else { return };
        let event = match (new.stage, old) {
            (Stage::Serving, Some(old)) => {
                actions.push(Action::RouteTo {
                    generations: vec![old],
                });
                let until = Some(now + new.rules.drain_timeout);
                pool::Event::Stop { until }
            }
            _ => pool::Event::Kill,
        };
        new.stage = Stage::Draining;
        new.handle(event, now, actions);
    }

    /// Ends the generation that serves, without another one.
    fn stop_serving(&mut self, now: Instant, actions: &mut Vec<Action>) {
        if self.stopping || !self.is_settled() {
            return;
        }
        if let Some(serving) = self.generations.all.first_mut() {
            let generations = Vec::new();
            actions.push(Action::RouteTo { generations });
            serving.stage = Stage::Draining;
            let until = Some(now + serving.rules.drain_timeout);
            serving.handle(pool::Event::Stop { until }, now, actions);
        }
    }

    /// The server is going to stop: no generation is started any more.
    fn cancel_launch(&mut self, now: Instant, actions: &mut Vec<Action>) {
        let Some(rollout) = &self.rollout else {
            return;
        };
        let booting = self.generations.get(rollout.number);
        if booting.is_some_and(|generation| generation.stage == Stage::Booting) {
            self.give_up(GiveUpReason::CalledOff, now, actions);
        } else if !rollout.reverts {
            // Both serve, and both are going to stop.
            actions.push(Action::GiveUp {
                generation: rollout.number,
                why: GiveUpReason::CalledOff,
            });
        }
        self.rollout = None;
    }

    fn stop(&mut self, event: pool::Event, now: Instant, actions: &mut Vec<Action>) {
        self.cancel_launch(now, actions);
        self.stopping = true;
        self.generations.each(|_| Some(event), now, actions);
    }

    /// Takes the next step of a rollout, where the last one is done.
    fn advance(&mut self, now: Instant, actions: &mut Vec<Action>) {
        let Some(rollout) = &mut self.rollout else {
            return;
        };
        let (mut new, mut old) = (None, None);
        for generation in &mut self.generations.all {
            match generation.number == rollout.number {
                true => new = Some(generation),
                false => old = Some(generation),
            }
        }
        if let (true, false, Some(new), Some(old)) =
            (rollout.returns, rollout.reverts, &mut new, &mut old)
        {
            if rollout.step_back(new, old, now, actions) {
                self.give_up(GiveUpReason::ExperimentOver, now, actions);
            }
            return;
        }
        let over = match (new, old) {
            (Some(new), old) if !rollout.reverts => rollout.step(new, old, now, actions),
            (new, Some(old)) => {
                // Its workers come back as those of the new one go.
                let others = new.as_ref().map_or(0, |new| new.pool.workers().leaving());
                let limit = rollout.room(others + old.pool.workers().leaving(), &old.rules);
                if limit > old.pool.workers().limit() {
                    old.resize(limit, now, actions);
                }
                new.is_none()
            }
            (new, None) => new.is_none(),
        };
        if over {
            self.rollout = None;
        }
    }
}

#[cfg(test)]
mod tests;
