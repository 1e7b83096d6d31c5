//! The workers that serve, as those who measure and limit them see them. Changes nothing.

use std::time::Instant;

use crate::rules::fleet::Stage;
use crate::rules::limits::Life;
use crate::rules::pool::State;
use crate::runtime::shared::Inner;

/// A worker that serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ServingWorker {
    pub(crate) life: Life,
    pub(crate) pid: i32,
    pub(crate) since: Instant,
}

impl Inner {
    /// The workers of generations that serve, whose processes are known.
    pub(crate) fn serving(&self) -> Vec<ServingWorker> {
        let mut serving = Vec::new();
        for generation in self.fleet.generations().iter() {
            let (number, workers) = (generation.number, generation.pool.workers());
            let processes = self.processes.get(&number);
            let Some(processes) = processes.filter(|_| generation.stage == Stage::Serving) else {
                continue;
            };
            for (worker, process) in (0..).zip(&processes.workers) {
                let pid = process.as_ref().and_then(|process| process.pid);
                let (Some(pid), State::Ready { since }) = (pid, workers.state(worker)) else {
                    continue;
                };
                let life = Life {
                    generation: number,
                    worker,
                    life: workers.life(worker),
                };
                serving.push(ServingWorker { life, pid, since });
            }
        }
        serving
    }

    /// The generation of these workers, where they are all of one, and no other one is coming up: a rollout has bounds of
    /// its own.
    pub(crate) fn only_generation(&self, serving: &[ServingWorker]) -> Option<u32> {
        let generation = serving.first()?.life.generation;
        let alone = serving.iter().all(|one| one.life.generation == generation);
        (alone && !self.fleet.is_rolling_out()).then_some(generation)
    }
}
