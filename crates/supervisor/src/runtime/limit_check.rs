//! The regular check of the workers that serve: one that has reached a limit is replaced, and so is the largest where memory
//! is short. What becomes of it is the pool's business; what counts as too much is decided in `rules/limits.rs` and
//! `rules/budget.rs`.

use std::rc::Rc;
use std::time::Duration;

use exchange::WorkerId;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::note::{GenerationNote, Note, WorkerNote};
use crate::rules::budget::{Held, Step};
use crate::rules::fleet;
use crate::rules::limits::{Figures, Life, RetireReason};
use crate::rules::memory::MemoryUsage;
use crate::rules::pool::Event;
use crate::runtime::first_memory::measure_new_workers;
use crate::runtime::load::{Load, Plan};
use crate::runtime::memory_usage::measure;
use crate::runtime::serving::ServingWorker;
use crate::runtime::shared::Shared;

/// How often requests and ages are checked.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// In each of so many checks memory is read as well, which costs the kernel milliseconds for a large process; and where a
/// worker is there that was not at the last check.
const CHECKS_PER_MEASUREMENT: u32 = 5;

/// The longest that the last worker may take to leave where its successor has to wait for that.
const LAST_WORKER_EXIT_TIMEOUT: Duration = Duration::from_secs(30);

/// Holds workers against their limits and the budget of memory.
#[derive(Clone)]
pub(crate) struct LimitCheck {
    shared: Rc<Shared>,
}

/// What the next check has to know of the last ones.
#[derive(Default)]
struct Progress {
    checks: u32,
    /// Workers that were there at the last check.
    known: Vec<Life>,
    /// Whether it was logged that the kernel does not tell memory.
    warned: bool,
}

impl LimitCheck {
    pub(crate) fn new(shared: &Rc<Shared>) -> Self {
        let shared = Rc::clone(shared);
        Self { shared }
    }

    /// Checks the workers, for ever.
    pub(crate) async fn run(self) {
        let mut progress = Progress::default();
        let mut ticks = interval(CHECK_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            measure_new_workers(&self.shared).await;
            progress.checks = (progress.checks + 1) % CHECKS_PER_MEASUREMENT;
            let load = self.shared.serving_load.borrow().clone();
            if let Some(load) = load {
                self.check(&load, &mut progress).await;
            }
        }
    }

    async fn check(&self, load: &Load, progress: &mut Progress) {
        let plan = &load.plan;
        let (limits, budget) = (plan.limits, self.shared.budget.borrow().is_set());
        if !limits.any() && !budget {
            return;
        }
        let Some((generation, serving)) = self.serving() else {
            return;
        };
        // What a worker holds at first is what the next one will.
        let is_known = |one: &ServingWorker| progress.known.contains(&one.life);
        let due = progress.checks == 0 || !serving.iter().all(is_known);
        let usage = match due && (limits.memory.is_some() || budget) {
            true => Some(measure(&self.shared, &serving).await),
            false => None,
        };
        progress.known = serving.iter().map(|one| one.life).collect();
        // Measuring takes its time: others may serve by now.
        if self.serving() != Some((generation, serving.clone())) {
            return;
        }
        let usage = usage.as_ref();
        if usage.is_some_and(|usage| usage.workers.is_empty()) && !progress.warned {
            progress.warned = true;
            self.shared.note(generation, Note::MemoryUnknown);
        }
        let calm = self.shared.inner.borrow().fleet.is_calm();
        let short = usage.is_some_and(|usage| self.keep_budget(generation, plan, usage, calm));
        // A successor takes room: under a budget no worker gets one before memory was measured.
        let measured = usage.is_some() || !budget;
        if calm && !short && measured {
            self.retire_one(&serving, plan, usage);
        }
    }

    /// The workers that serve, and their generation, where they are all of one and no other one is coming up.
    fn serving(&self) -> Option<(u32, Vec<ServingWorker>)> {
        let inner = self.shared.inner.borrow();
        let serving = inner.serving();
        Some((inner.only_generation(&serving)?, serving))
    }

    /// Number of workers of a generation that memory allows, at least one.
    pub(crate) fn affordable(&self, plan: &Plan) -> u16 {
        let budget = self.shared.budget.borrow();
        budget.affordable(plan.wanted(self.shared.scale.get()), plan.budget)
    }

    /// Takes a step towards the budget. True where there was one to take.
    fn keep_budget(&self, generation: u32, plan: &Plan, usage: &MemoryUsage, calm: bool) -> bool {
        let now = Instant::now().into_std();
        let mut budget = self.shared.budget.borrow_mut();
        let step = budget.step(usage, calm, now);
        let held = budget.held(usage);
        drop(budget);
        let (Some(step), Some(held)) = (step, held) else {
            return false;
        };
        match step {
            Step::Shrink(worker) => self.shrink(generation, plan, worker, usage, held, None),
            Step::Replace(worker) => self.replace_last(generation, worker, usage, held),
            Step::Grow => {
                self.shared.note(generation, Note::WorkerRestored(held));
                self.resize(generation, plan, None);
            }
            Step::Warn => self.shared.note(generation, Note::OverBudget(held)),
        }
        true
    }

    /// Has the last worker make room for a fresh one.
    fn replace_last(&self, generation: u32, worker: u16, usage: &MemoryUsage, held: Held) {
        let private = usage.private(worker).unwrap_or_default();
        let why = RetireReason::Budget { private, held };
        let fits = self.shared.budget.borrow().has_reserve(usage);
        let grace = self.shared.inner.borrow().fleet.drain_timeout(generation);
        let event = if fits {
            Event::Retire { worker, why, grace }
        } else {
            let id = WorkerId::new(generation, worker);
            self.shared
                .note_worker(id, WorkerNote::ReplacedAfterExit { why });
            // Requests wait meanwhile.
            let until = Instant::now().into_std() + grace.min(LAST_WORKER_EXIT_TIMEOUT);
            Event::ReplaceAfterExit { worker, until }
        };
        self.shared.handle(generation, event);
    }

    /// Has a worker leave without a successor.
    fn shrink(
        &self,
        generation: u32,
        plan: &Plan,
        worker: u16,
        usage: &MemoryUsage,
        held: Held,
        why: Option<RetireReason>,
    ) {
        let note = WorkerNote::Removed {
            private: usage.private(worker).unwrap_or_default(),
            held,
            why,
        };
        self.shared
            .note_worker(WorkerId::new(generation, worker), note);
        self.resize(generation, plan, Some(worker));
    }

    /// Has as many workers serve as memory allows.
    fn resize(&self, generation: u32, plan: &Plan, leaves: Option<u16>) {
        let workers = self.affordable(plan);
        self.shared.dispatcher.resize(generation, workers);
        self.shared.decide(fleet::Event::Resize { workers, leaves });
    }

    /// Has the first worker leave that has reached a limit.
    fn retire_one(&self, serving: &[ServingWorker], plan: &Plan, usage: Option<&MemoryUsage>) {
        let now = Instant::now().into_std();
        let due = serving
            .iter()
            .find_map(|ServingWorker { life, since, .. }| {
                let id = WorkerId::new(life.generation, life.worker);
                let figures = Figures {
                    requests: self.shared.dispatcher.finished(id),
                    age: now.saturating_duration_since(*since),
                    memory: usage.and_then(|usage| usage.private(life.worker)),
                };
                let why = plan.limits.reached(&figures, *life)?;
                Some((id, why))
            });
        let Some((WorkerId { generation, worker }, why)) = due else {
            return;
        };
        let mut budget = self.shared.budget.borrow_mut();
        // The last worker is followed by another one whatever memory there is.
        let short = usage.filter(|usage| serving.len() > 1 && !budget.has_room(usage));
        if let Some((usage, held)) = short.zip(short.and_then(|usage| budget.held(usage))) {
            budget.shrinks(now);
            drop(budget);
            return self.shrink(generation, plan, worker, usage, held, Some(why));
        }
        drop(budget);
        let grace = self.shared.inner.borrow().fleet.drain_timeout(generation);
        self.shared
            .handle(generation, Event::Retire { worker, why, grace });
    }

    /// Whether one more worker fits, also while others come and go.
    pub(crate) async fn has_room(&self) -> bool {
        if !self.shared.budget.borrow().is_set() {
            return true;
        }
        let serving = self.shared.inner.borrow().serving();
        let usage = measure(&self.shared, &serving).await;
        self.shared.budget.borrow().has_room(&usage)
    }

    /// Whether there is too little memory to start a whole generation while another one serves.
    pub(crate) async fn is_scarce(&self, generation: u32) -> bool {
        if !self.shared.budget.borrow().is_set() {
            return false;
        }
        let serving = self.shared.inner.borrow().serving();
        if serving.is_empty() {
            return false;
        }
        let usage = measure(&self.shared, &serving).await;
        let budget = self.shared.budget.borrow();
        let scarce = !budget.has_room_for_all(&usage);
        let held = budget.held(&usage).filter(|_| scarce);
        drop(budget);
        if let Some(held) = held {
            self.shared
                .note(generation, GenerationNote::WorkerByWorker(held));
        }
        scarce
    }
}
