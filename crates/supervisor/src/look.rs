//! The regular look at the workers that serve: who has reached a limit is to go, and so is the largest where memory
//! is short. What becomes of it is the pool's business; what counts as too much is decided in `limits.rs` and
//! `budget.rs`.

use std::rc::Rc;
use std::time::Duration;

use tokio::task::spawn_blocking;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::Note;
use crate::budget::{Held, Step, Weights};
use crate::fleet::{self, Stage};
use crate::limits::{Figures, Life, Why};
use crate::memory::{self, Memory};
use crate::pool::{Event, State};
use crate::supervisor::{Inner, Shared};
use crate::template::Plan;

/// How often requests and ages are looked at.
const LOOK: Duration = Duration::from_secs(1);
/// In each of so many looks memory is read as well, which costs the kernel milliseconds for a large process.
const WEIGH: u32 = 5;

/// A worker that serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    life: Life,
    pid: i32,
    since: std::time::Instant,
}

impl Shared {
    /// Looks at the workers, for ever.
    pub(crate) async fn keep_limits(self: Rc<Self>) {
        let mut told = false;
        let mut look = interval(LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut looks = 0;
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
            let Some(first) = seen.first().filter(|_| self.is_calm()) else {
                continue;
            };
            let generation = first.life.generation;
            let weights = match weighs && looks == 0 {
                true => Some(self.weigh(&seen).await),
                false => None,
            };
            // Weighing takes its time: others may serve by now.
            if self.serving() != seen || !self.is_calm() {
                continue;
            }
            if weights
                .as_ref()
                .is_some_and(|weights| weights.workers.is_empty())
                && !told
            {
                told = true;
                self.dispatcher.note(generation, &Note::NotWeighed);
            }
            let weights = weights.as_ref();
            let plan = &load.plan;
            let short = weights.is_some_and(|weights| self.keep_budget(generation, plan, weights));
            // A successor takes room: under a budget nobody gets one unweighed.
            let known = weights.is_some() || !self.budget.borrow().is_set();
            if !short && known {
                self.retire_one(&seen, plan, weights);
            }
        }
    }

    /// Of so many workers those that memory allows, at least one.
    pub(crate) fn affordable(&self, workers: u16) -> u16 {
        workers
            .saturating_sub(self.budget.borrow().missing())
            .max(1)
    }

    /// Takes a step towards the budget. True where there was one to take.
    fn keep_budget(self: &Rc<Self>, generation: u32, plan: &Plan, weights: &Weights) -> bool {
        let now = Instant::now().into_std();
        let mut budget = self.budget.borrow_mut();
        let step = budget.step(weights, now);
        let held = budget.held(weights);
        drop(budget);
        let (Some(step), Some(held)) = (step, held) else {
            return false;
        };
        match step {
            Step::Shrink(worker) => self.shrink(generation, plan, worker, weights, held, None),
            Step::Grow => {
                self.dispatcher.note(generation, &Note::Grows(held));
                self.resize(generation, plan, None);
            }
            Step::Warn => self.dispatcher.note(generation, &Note::OverBudget(held)),
        }
        true
    }

    /// Has a worker leave without a successor.
    fn shrink(
        self: &Rc<Self>,
        generation: u32,
        plan: &Plan,
        worker: u16,
        weights: &Weights,
        held: Held,
        why: Option<Why>,
    ) {
        let mut workers = weights.workers.iter();
        let own = workers.find(|(number, _)| *number == worker);
        let note = Note::Shrinks {
            worker,
            private: own.map_or(0, |(_, memory)| memory.private),
            held,
            why,
        };
        self.dispatcher.note(generation, &note);
        self.resize(generation, plan, Some(worker));
    }

    /// Has as many workers serve as memory allows.
    fn resize(self: &Rc<Self>, generation: u32, plan: &Plan, leaves: Option<u16>) {
        let workers = self.affordable(plan.workers);
        self.dispatcher.resize(generation, workers);
        self.decide(fleet::Event::Resize { workers, leaves });
    }

    /// Has the first one leave that has reached a limit.
    fn retire_one(self: &Rc<Self>, seen: &[Seen], plan: &Plan, weights: Option<&Weights>) {
        let now = Instant::now().into_std();
        let due = seen.iter().find_map(|Seen { life, since, .. }| {
            let mut weighed = weights.into_iter().flat_map(|weights| &weights.workers);
            let own = weighed.find(|(worker, _)| *worker == life.worker);
            let figures = Figures {
                requests: self.dispatcher.finished(life.generation, life.worker),
                age: now.saturating_duration_since(*since),
                memory: own.map(|(_, memory)| memory.private),
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
            self.dispatcher.note(generation, &Note::Scarce(held));
        }
        scarce
    }

    /// Whether nothing is on its way.
    fn is_calm(&self) -> bool {
        let inner = self.inner.borrow();
        let mut all = inner.fleet.generations().iter();
        inner.fleet.is_settled() && all.all(|generation| generation.pool.is_whole())
    }

    /// The workers of the generation that serves.
    fn serving(&self) -> Vec<Seen> {
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
                let (Some(pid), State::Ready { since, .. }) = (pid, pool.state(worker)) else {
                    continue;
                };
                let life = Life {
                    generation: number,
                    worker,
                    life: pool.life(worker),
                };
                seen.push(Seen { life, pid, since });
            }
        }
        seen
    }

    /// Weighs all processes, and these workers each; on another thread.
    async fn weigh(&self, seen: &[Seen]) -> Weights {
        let workers = seen.iter().map(|one| (one.life.worker, one.pid)).collect();
        let generation = seen.first().map(|one| one.life.generation);
        let (template, others) = self.inner.borrow().others(generation, seen);
        let weighed = spawn_blocking(move || weights(workers, template, others));
        // Whoever panicked over it has weighed nothing.
        weighed.await.unwrap_or_default()
    }
}

impl Inner {
    /// The template of this generation, and all processes but it and those that were seen.
    fn others(&self, generation: Option<u32>, seen: &[Seen]) -> (Option<i32>, Vec<i32>) {
        let front = rustix::process::getpid().as_raw_nonzero().get();
        let (mut own, mut others) = (None, vec![front]);
        for (number, members) in &self.members {
            let template = members.template.as_ref().and_then(|one| one.pid);
            match Some(*number) == generation {
                true => own = template,
                false => others.extend(template),
            }
            let children = members.children.iter().flatten();
            let pids = children.filter_map(|child| child.pid);
            others.extend(pids.filter(|pid| seen.iter().all(|one| one.pid != *pid)));
        }
        (own, others)
    }
}

/// Reads what these processes hold. May wait for the kernel.
fn weights(workers: Vec<(u16, i32)>, template: Option<i32>, others: Vec<i32>) -> Weights {
    let workers = workers.into_iter();
    let workers = workers.filter_map(|(number, pid)| Some((number, memory::of(pid)?)));
    let workers: Vec<(u16, Memory)> = workers.collect();
    let share = |pid: i32| memory::of(pid).map_or(0, |memory| memory.share);
    let template = template.map_or(0, share);
    let others: u64 = others.into_iter().map(share).sum();
    let own: u64 = workers.iter().map(|(_, memory)| memory.share).sum();
    Weights {
        held: own + template + others,
        template,
        workers,
        groups: memory::groups(),
    }
}
