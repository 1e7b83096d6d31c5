//! Measures a server while it is loaded: CPU of all its processes, memory once a second, and what anything else on the
//! machine took. It ends the load early where the server ends or the comparison is stopped.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use proc::machine::MachineCpu;
use proc::{Memory, own_cpu};

use super::results::{Footprint, Limit, Placement};
use loadgen::Progress;
use loadgen::outcome::Outcome;
use loadgen::plan::Plan;
use stacks::application::Prepared;

use stacks::Running;
use stacks::process_tree::ProcessTree;

/// Time between two readings of memory: each walks all page tables, which costs the server some milliseconds.
const MEMORY_INTERVAL: Duration = Duration::from_secs(1);
/// Time between two checks whether the load is to end.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// A load and what the server took for it.
#[derive(Debug, Clone, Default)]
pub(super) struct Measured {
    /// The load's result.
    pub(super) outcome: Outcome,
    /// Seconds from the first to the last reading of CPU.
    pub(super) wall_s: f64,
    /// CPU time of the server, in seconds.
    pub(super) cpu_s: f64,
    /// The same by program, for those that used any.
    pub(super) cpu_by_program: BTreeMap<String, f64>,
    /// Cores that the application's database used, on average.
    pub(super) database_cores: f64,
    /// Cores that anything else than server, generator and database used, on average, the hypervisor's share included.
    pub(super) other_cores: f64,
    /// Once a second: seconds since the load began, and the memory of all processes.
    pub(super) memory: Vec<(f64, Footprint)>,
    /// The server's processes at the end.
    pub(super) processes: usize,
}

/// Carries out `plan` against `running`, which serves `application`, and measures.
///
/// # Errors
/// The load can't be carried out at all, or a process of the server ended under it; with the end of its log.
pub(super) fn load(
    running: &mut Running,
    plan: &Plan,
    application: &Prepared,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(&Progress) -> bool,
) -> Result<Measured> {
    let halt = AtomicBool::new(false);
    let (ended, end) = channel::<()>();
    let begin = Instant::now();
    let (server_before, own, machine) = (
        running.tree().cpu_by_program(),
        own_cpu(),
        MachineCpu::now(),
    );
    let database = application.database_cpu();
    let (outcome, watched) = thread::scope(|scope| {
        let (server, halt) = (&mut *running, &halt);
        let watcher = scope.spawn(move || watch(server, &end, stop, halt, begin));
        let outcome = loadgen::run(
            plan,
            &mut |so_far| {
                if progress(so_far) {
                    halt.store(true, Ordering::Relaxed);
                }
            },
            halt,
        );
        drop(ended);
        (outcome, watcher.join().expect("the watcher does not panic"))
    });
    let wall_s = begin.elapsed().as_secs_f64();
    let server_now = running.tree().cpu_by_program();
    let total = |programs: &BTreeMap<String, Duration>| programs.values().sum::<Duration>();
    let cpu = total(&server_now).saturating_sub(total(&server_before));
    let own = own_cpu().saturating_sub(own);
    let database = application.database_cpu().saturating_sub(database);
    let now = MachineCpu::now();
    let busy = now.busy.saturating_sub(machine.busy);
    let stolen = now.steal.saturating_sub(machine.steal);
    let others = busy.saturating_sub(cpu + own + database) + stolen;
    let memory = watched?;
    running.still_up()?;
    Ok(Measured {
        outcome: outcome?,
        wall_s,
        cpu_s: cpu.as_secs_f64(),
        cpu_by_program: used_since(&server_before, server_now),
        database_cores: database.as_secs_f64() / wall_s,
        other_cores: others.as_secs_f64() / wall_s,
        memory,
        processes: running.tree().members().len(),
    })
}

/// Seconds of CPU time that each program used between two readings, where it used any.
fn used_since(
    before: &BTreeMap<String, Duration>,
    now: BTreeMap<String, Duration>,
) -> BTreeMap<String, f64> {
    let used = now.into_iter().map(|(program, total)| {
        let earlier = before.get(&program).copied().unwrap_or_default();
        (program, total.saturating_sub(earlier).as_secs_f64())
    });
    used.filter(|(_, seconds)| *seconds > 0.0).collect()
}

/// Reads memory until the load has ended; ends it where a process has.
fn watch(
    running: &mut Running,
    end: &Receiver<()>,
    stop: &AtomicBool,
    halt: &AtomicBool,
    begin: Instant,
) -> Result<Vec<(f64, Footprint)>> {
    let mut memory = Vec::new();
    // In the middle of each second.
    let mut next = MEMORY_INTERVAL / 2;
    loop {
        let wait = next
            .saturating_sub(begin.elapsed())
            .min(STOP_CHECK_INTERVAL);
        if !matches!(end.recv_timeout(wait), Err(RecvTimeoutError::Timeout)) {
            return Ok(memory);
        }
        if stop.load(Ordering::Relaxed) {
            halt.store(true, Ordering::Relaxed);
        }
        if begin.elapsed() < next {
            continue;
        }
        if let Err(ended) = running.still_up() {
            halt.store(true, Ordering::Relaxed);
            return Err(ended.context("it ended under load"));
        }
        let at = begin.elapsed().as_secs_f64();
        memory.push((at, footprint(running.tree())));
        next += MEMORY_INTERVAL;
    }
}

/// Memory of a process tree, in bytes.
pub(super) fn footprint(tree: &mut ProcessTree) -> Footprint {
    as_footprint(tree.memory())
}

/// Memory as results keep it.
pub(super) fn as_footprint(memory: Memory) -> Footprint {
    Footprint {
        pss: memory.pss,
        private_dirty: memory.private_dirty,
        rss: memory.rss,
    }
}

/// What `free` shows as free, in bytes; zero where it can't be read.
pub(super) fn free_memory() -> i64 {
    proc::machine::memory().map_or(0, |memory| i64::try_from(memory.free).unwrap_or(i64::MAX))
}

/// A server that used this share of the cores it could get was the limit.
const BUSY: f64 = 0.9;

/// What limited the rate: the generator where it says so itself; the server where it used the cores it could get. Ruby
/// runs on one core a process, so a single process can get no more, whatever the machine has.
pub(super) fn limit(
    measured: &Measured,
    placement: &Placement,
    cores: usize,
    workers: usize,
) -> Limit {
    if measured.outcome.generator.limit.is_some() {
        return Limit::Client;
    }
    let allotted = if placement.is_shared() {
        let others = measured.database_cores + measured.other_cores;
        cores as f64 - measured.outcome.generator.cores - others
    } else {
        placement.server.len() as f64
    };
    let could_get = allotted.min(workers as f64).max(0.1);
    if measured.cpu_s / measured.wall_s.max(0.001) >= BUSY * could_get {
        Limit::Server
    } else {
        Limit::Neither
    }
}

/// Waits so long, or until the comparison is to stop.
pub(super) fn rest(time: Duration, stop: &AtomicBool) {
    let end = Instant::now() + time;
    while Instant::now() < end && !stop.load(Ordering::Relaxed) {
        thread::sleep(STOP_CHECK_INTERVAL.min(end - Instant::now()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use loadgen::outcome::Generator;

    #[test]
    fn the_side_that_used_its_cores_is_the_limit() {
        let shared = Placement::default();
        let split = Placement {
            server: vec![0, 1, 2],
            generator: vec![3],
        };
        let check = |server: f64, client: f64, placement: &Placement, cores, workers, expect| {
            let measured = Measured {
                wall_s: 10.0,
                cpu_s: server * 10.0,
                outcome: Outcome {
                    generator: Generator {
                        cores: client,
                        ..Generator::default()
                    },
                    ..Outcome::default()
                },
                ..Measured::default()
            };
            assert_eq!(
                limit(&measured, placement, cores, workers),
                expect,
                "{server} {client}"
            );
        };
        check(1.2, 0.75, &shared, 2, 2, Limit::Server);
        check(0.6, 0.75, &shared, 2, 2, Limit::Neither);
        // One process in Ruby uses one core.
        check(0.97, 0.2, &split, 4, 1, Limit::Server);
        check(0.97, 0.2, &split, 4, 3, Limit::Neither);
        check(2.9, 0.5, &split, 4, 3, Limit::Server);
    }

    #[test]
    fn what_the_database_uses_the_server_can_not_get() {
        let measured = Measured {
            wall_s: 10.0,
            cpu_s: 9.5,
            database_cores: 1.0,
            ..Measured::default()
        };
        let shared = Placement::default();
        assert_eq!(limit(&measured, &shared, 2, 2), Limit::Server);
    }

    #[test]
    fn a_generator_that_says_it_was_the_limit_was_it() {
        let mut measured = Measured {
            wall_s: 1.0,
            cpu_s: 2.0,
            ..Measured::default()
        };
        measured.outcome.generator.limit = Some("no port left".to_owned());
        assert_eq!(limit(&measured, &Placement::default(), 2, 2), Limit::Client);
    }

    #[test]
    fn the_machine_has_free_memory() {
        assert!(free_memory() > 0);
    }

    #[test]
    fn memory_is_in_bytes() {
        let own = std::process::id() as i32;
        let footprint = footprint(&mut ProcessTree::rooted(own));
        assert!(footprint.pss > 100_000 && footprint.rss >= footprint.pss);
    }
}
