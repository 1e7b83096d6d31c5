//! Measures the memory of the server's processes, each as what it is: a worker that serves, one that leaves, a template.
//! It decides nothing; reading the kernel's figures takes milliseconds, and happens on another thread.

use tokio::task::spawn_blocking;

use crate::rules::fleet::Stage;
use crate::rules::memory::{MemoryUsage, ProcessMemory};
use crate::rules::pool::State;
use crate::runtime::process_memory::{self, Figures};
use crate::runtime::serving::ServingWorker;
use crate::runtime::shared::{Inner, Shared};

/// All processes but the workers that serve.
#[derive(Default)]
struct Others {
    front: i32,
    /// The template of the workers that serve.
    template: Option<i32>,
    /// Those of a generation that drains.
    draining: Vec<i32>,
    /// Workers of another one that leave.
    leaving: Vec<i32>,
    rest: Vec<i32>,
}

/// Measures the memory of all processes, and of each of these workers.
pub(crate) async fn measure(shared: &Shared, serving: &[ServingWorker]) -> MemoryUsage {
    let workers: Vec<_> = serving
        .iter()
        .map(|one| (one.life.worker, one.pid))
        .collect();
    let generation = serving.first().map(|one| one.life.generation);
    let others = shared.inner.borrow().others(generation, serving);
    let pids = workers.iter().map(|(_, pid)| *pid).chain(others.pids());
    let figures = process_memory::read(pids.collect(), shared.launcher.get()).await;
    let measured = spawn_blocking(move || usage(workers, others, &figures));
    // A thread that panicked over it has measured nothing.
    measured.await.unwrap_or_default()
}

impl Others {
    fn pids(&self) -> impl Iterator<Item = i32> {
        let lists = [&self.draining, &self.leaving, &self.rest];
        let listed = lists.into_iter().flatten();
        listed.chain(&self.template).copied().chain([self.front])
    }
}

impl Inner {
    /// All processes but those that were serving; `own` is their generation.
    fn others(&self, own: Option<u32>, serving: &[ServingWorker]) -> Others {
        let mut others = Others {
            front: rustix::process::getpid().as_raw_nonzero().get(),
            ..Others::default()
        };
        for (number, processes) in &self.processes {
            let generation = self.fleet.generations().get(*number);
            let drains = generation.is_some_and(|one| one.stage == Stage::Draining);
            let template = processes.template.as_ref().and_then(|one| one.pid);
            match drains {
                true => others.draining.extend(template),
                false if Some(*number) == own => others.template = template,
                false => others.rest.extend(template),
            }
            let older = processes.older.as_ref().and_then(|one| one.pid);
            others.rest.extend(older);
            for (worker, child) in (0..).zip(&processes.workers) {
                let Some(pid) = child.as_ref().and_then(|child| child.pid) else {
                    continue;
                };
                let state = generation.map(|one| one.pool.workers().state(worker));
                if drains {
                    others.draining.push(pid);
                } else if matches!(state, Some(State::Stopping { .. })) {
                    others.leaving.push(pid);
                } else if serving.iter().all(|one| one.pid != pid) {
                    others.rest.push(pid);
                }
            }
        }
        others
    }
}

/// Adds up what these processes hold. May wait for the kernel, which is asked for limits of control groups.
fn usage(workers: Vec<(u16, i32)>, others: Others, figures: &Figures) -> MemoryUsage {
    let measured = |pids: &[i32]| -> Vec<ProcessMemory> {
        let all = pids.iter().filter_map(|pid| figures.of(*pid));
        all.collect()
    };
    let shares = |all: &[ProcessMemory]| -> u64 { all.iter().map(|memory| memory.share).sum() };
    let workers = workers.into_iter();
    let workers = workers.filter_map(|(number, pid)| Some((number, figures.of(pid)?)));
    let workers: Vec<(u16, ProcessMemory)> = workers.collect();
    let own: u64 = workers.iter().map(|(_, memory)| memory.share).sum();
    let template = shares(&measured(others.template.as_slice()));
    let loaded = loaded(template, &workers);
    let front = shares(&measured(&[others.front]));
    let leaving = measured(&others.leaving);
    // Of a whole generation everything goes, of a worker what it has alone.
    let draining = shares(&measured(&others.draining));
    let alone: u64 = leaving.iter().map(|memory| memory.private).sum();
    let rest = shares(&measured(&others.rest));
    MemoryUsage {
        held: front + template + own + draining + shares(&leaving) + rest,
        front,
        loaded,
        leaving: draining + alone,
        workers,
        groups: proc::cgroup::memory_limits(),
    }
}

/// What is held by a template of this share or by more than one of these workers: what loading the application took.
fn loaded(template: u64, workers: &[(u16, ProcessMemory)]) -> u64 {
    let common = |memory: &ProcessMemory| memory.share.saturating_sub(memory.private);
    let common = workers.iter().map(|(_, memory)| common(memory));
    template + common.sum::<u64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_loaded_once_is_not_smaller_for_being_shared_by_many() {
        let (loaded_once, private) = (1200, 70);
        for count in 1..6_u16 {
            let share = loaded_once / u64::from(count + 1);
            let worker = ProcessMemory {
                share: share + private,
                private,
            };
            let workers: Vec<_> = (0..count).map(|number| (number, worker)).collect();
            assert_eq!(loaded(share, &workers), loaded_once, "{count}");
        }
    }
}
