//! The regular look at the workers that serve: who has reached a limit is to go, and so is the largest where memory
//! is short. What becomes of it is the pool's business; what counts as too much is decided in `limits.rs` and
//! `budget.rs`.

use std::rc::Rc;
use std::time::Duration;

use exchange::WorkerId;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::Note;
use crate::rules::budget::{Held, Step};
use crate::rules::fleet::{self, Stage};
use crate::rules::limits::{Figures, Life, Why};
use crate::rules::memory::MemoryUsage;
use crate::rules::pool::{Event, State};
use crate::runtime::supervisor::Shared;
use crate::runtime::template::Plan;

/// How often requests and ages are looked at.
const LOOK: Duration = Duration::from_secs(1);
/// In each of so many looks memory is read as well, which costs the kernel milliseconds for a large process; and where a
/// worker is there that was not at the last look.
const WEIGH: u32 = 5;

/// The longest that the last worker may take to leave where its successor has to wait for that.
const LAST_LEAVE: Duration = Duration::from_secs(30);

/// A worker that serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) life: Life,
    pub(crate) pid: i32,
    since: std::time::Instant,
}

impl Shared {
    /// Looks at the workers, for ever.
    pub(crate) async fn keep_limits(self: Rc<Self>) {
        let mut told = false;
        let mut look = interval(LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut looks = 0;
        let mut known: Vec<Life> = Vec::new();
        loop {
            look.tick().await;
            looks = (looks + 1) % WEIGH;
            let Some(load) = self.in_force.borrow().clone() else {
                continue;
            };
            let (limits, budget) = (load.plan.limits, self.budget.borrow().is_set());
            if !limits.any() && !budget {
                continue;
            }
            let weighs = limits.memory.is_some() || budget;
            let seen = self.serving();
            let Some(generation) = self.alone(&seen) else {
                continue;
            };
            // What a worker holds at first is what the next one will.
            let fresh = seen.iter().any(|one| !known.contains(&one.life));
            let weights = match weighs && (fresh || looks == 0) {
                true => Some(self.weigh(&seen).await),
                false => None,
            };
            known = seen.iter().map(|one| one.life).collect();
            // Weighing takes its time: others may serve by now.
            if self.serving() != seen || self.alone(&seen).is_none() {
                continue;
            }
            let calm = self.is_calm();
            if weights
                .as_ref()
                .is_some_and(|weights| weights.workers.is_empty())
                && !told
            {
                told = true;
                self.note(generation, &Note::NotWeighed);
            }
            let weights = weights.as_ref();
            let plan = &load.plan;
            let short =
                weights.is_some_and(|weights| self.keep_budget(generation, plan, weights, calm));
            // A successor takes room: under a budget nobody gets one unweighed.
            let weighed = weights.is_some() || !self.budget.borrow().is_set();
            if calm && !short && weighed {
                self.retire_one(&seen, plan, weights);
            }
        }
    }

    /// Of a generation's workers those that memory allows, at least one.
    pub(crate) fn affordable(&self, plan: &Plan) -> u16 {
        let budget = self.budget.borrow();
        budget.affordable(plan.workers, plan.budget)
    }

    /// Takes a step towards the budget. True where there was one to take.
    fn keep_budget(
        self: &Rc<Self>,
        generation: u32,
        plan: &Plan,
        weights: &MemoryUsage,
        calm: bool,
    ) -> bool {
        let now = Instant::now().into_std();
        let mut budget = self.budget.borrow_mut();
        let step = budget.step(weights, calm, now);
        let held = budget.held(weights);
        drop(budget);
        let (Some(step), Some(held)) = (step, held) else {
            return false;
        };
        match step {
            Step::Shrink(worker) => self.shrink(generation, plan, worker, weights, held, None),
            Step::Replace(worker) => self.replace_last(generation, worker, weights, held),
            Step::Grow => {
                self.note(generation, &Note::Grows(held));
                self.resize(generation, plan, None);
            }
            Step::Warn => self.note(generation, &Note::OverBudget(held)),
        }
        true
    }

    /// Has the last worker make room for a fresh one.
    fn replace_last(
        self: &Rc<Self>,
        generation: u32,
        worker: u16,
        weights: &MemoryUsage,
        held: Held,
    ) {
        let private = weights.private(worker).unwrap_or_default();
        let why = Why::Budget { private, held };
        let beside = self.budget.borrow().has_reserve(weights);
        let grace = self.drain_timeout(generation);
        let event = if beside {
            Event::Retire { worker, why, grace }
        } else {
            self.note(generation, &Note::Renewed { worker, why });
            // Requests wait meanwhile.
            let until = Instant::now().into_std() + grace.min(LAST_LEAVE);
            Event::ReplaceAfterExit { worker, until }
        };
        self.handle(generation, event);
    }

    /// Has a worker leave without a successor.
    fn shrink(
        self: &Rc<Self>,
        generation: u32,
        plan: &Plan,
        worker: u16,
        weights: &MemoryUsage,
        held: Held,
        why: Option<Why>,
    ) {
        let note = Note::Shrinks {
            worker,
            private: weights.private(worker).unwrap_or_default(),
            held,
            why,
        };
        self.note(generation, &note);
        self.resize(generation, plan, Some(worker));
    }

    /// Has as many workers serve as memory allows.
    fn resize(self: &Rc<Self>, generation: u32, plan: &Plan, leaves: Option<u16>) {
        let workers = self.affordable(plan);
        self.dispatcher.resize(generation, workers);
        self.decide(fleet::Event::Resize { workers, leaves });
    }

    /// Has the first one leave that has reached a limit.
    fn retire_one(self: &Rc<Self>, seen: &[Seen], plan: &Plan, weights: Option<&MemoryUsage>) {
        let now = Instant::now().into_std();
        let due = seen.iter().find_map(|Seen { life, since, .. }| {
            let figures = Figures {
                requests: self
                    .dispatcher
                    .finished(WorkerId::new(life.generation, life.worker)),
                age: now.saturating_duration_since(*since),
                memory: weights.and_then(|weights| weights.private(life.worker)),
            };
            let why = plan.limits.reached(&figures, *life)?;
            Some((*life, why))
        });
        let Some((life, why)) = due else { return };
        let (generation, worker) = (life.generation, life.worker);
        let mut budget = self.budget.borrow_mut();
        // The last worker is followed by another one whatever memory there is.
        let short = weights.filter(|weights| seen.len() > 1 && !budget.has_room(weights));
        if let Some((weights, held)) = short.zip(short.and_then(|weights| budget.held(weights))) {
            budget.shrinks(now);
            drop(budget);
            return self.shrink(generation, plan, worker, weights, held, Some(why));
        }
        drop(budget);
        let grace = self.drain_timeout(generation);
        self.handle(generation, Event::Retire { worker, why, grace });
    }

    /// Whether one more worker fits, also while others come and go.
    pub(crate) async fn has_room(&self) -> bool {
        if !self.budget.borrow().is_set() {
            return true;
        }
        let weights = self.weigh(&self.serving()).await;
        self.budget.borrow().has_room(&weights)
    }

    /// Whether there is too little memory to bring a whole generation up beside the one that serves.
    pub(crate) async fn is_scarce(&self, generation: u32) -> bool {
        if !self.budget.borrow().is_set() {
            return false;
        }
        let seen = self.serving();
        if seen.is_empty() {
            return false;
        }
        let weights = self.weigh(&seen).await;
        let budget = self.budget.borrow();
        let scarce = !budget.has_room_for_all(&weights);
        let held = budget.held(&weights).filter(|_| scarce);
        drop(budget);
        if let Some(held) = held {
            self.note(generation, &Note::Scarce(held));
        }
        scarce
    }

    /// The generation of these workers, where they are all of one, and no other one is coming up: a rollout has bounds of
    /// its own.
    fn alone(&self, seen: &[Seen]) -> Option<u32> {
        let generation = seen.first()?.life.generation;
        let alone = seen.iter().all(|one| one.life.generation == generation);
        let rolls_out = self.inner.borrow().fleet.is_rolling_out();
        (alone && !rolls_out).then_some(generation)
    }

    /// Whether nothing is on its way.
    fn is_calm(&self) -> bool {
        let inner = self.inner.borrow();
        let mut all = inner.fleet.generations().iter();
        inner.fleet.is_settled() && all.all(|generation| generation.pool.is_whole())
    }

    /// The workers of the generation that serves.
    pub(crate) fn serving(&self) -> Vec<Seen> {
        let inner = self.inner.borrow();
        let mut seen = Vec::new();
        for generation in inner.fleet.generations() {
            let (number, pool) = (generation.number, &generation.pool);
            let members = inner.members.get(&number);
            let Some(members) = members.filter(|_| generation.stage == Stage::Serving) else {
                continue;
            };
            for (worker, child) in (0..).zip(&members.children) {
                let pid = child.as_ref().and_then(|child| child.pid);
                let (Some(pid), State::Ready { since, .. }) = (pid, pool.workers().state(worker))
                else {
                    continue;
                };
                let life = Life {
                    generation: number,
                    worker,
                    life: pool.workers().life(worker),
                };
                seen.push(Seen { life, pid, since });
            }
        }
        seen
    }
}
