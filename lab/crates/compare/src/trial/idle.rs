//! A load with thousands of idle connections open: measured without, with and again without them, so that a drift over the
//! trial cancels out. New clients connect meanwhile.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::meter::{self, Measured};
use crate::results::{BesideIdle, Footprint};
use crate::trial_context::{Server, TrialContext};
use loadgen::idle::{IdleConnections, newcomer};
use loadgen::plan::{Plan, Target};

/// New clients before the load, one after the other.
const NEWCOMERS_BEFORE: usize = 10;
/// Time between two new clients during the load.
const NEWCOMER_INTERVAL: Duration = Duration::from_millis(100);

/// Measures `plan` with `count` idle connections open; their effect is written into the server's trial.
///
/// # Errors
/// The server ends, drops one of them, or does not answer a new client; it listens on no port, or has no process of its own.
pub(super) fn measure(
    context: &TrialContext<'_>,
    server: &mut Server,
    plan: &Plan,
    count: usize,
) -> Result<Measured> {
    let target = &plan.target;
    let entry = server.running.entry();
    let entry = entry.context("the server has no process of its own")?;
    let path = plan
        .requests
        .first()
        .map_or("/", |request| request.path.as_str());
    let front_before = memory(entry)?;
    let before = server.measure(context, plan)?;
    let idle = IdleConnections::open(target, path, count)?;
    let mut slowest = Duration::ZERO;
    for _ in 0..NEWCOMERS_BEFORE {
        slowest = slowest.max(newcomer(target, path)?);
    }
    let stop = AtomicBool::new(false);
    let (beside, among) = thread::scope(|scope| {
        let watch = scope.spawn(|| newcomers_until(&stop, target, path));
        let beside = server.measure(context, plan);
        stop.store(true, Ordering::Relaxed);
        (
            beside,
            watch.join().expect("the newcomers' thread does not panic"),
        )
    });
    let beside = beside?;
    let front = memory(entry)?;
    let still_open = idle.still_open();
    if still_open < count {
        bail!("only {still_open} of {count} idle connections were still open after the load");
    }
    drop(idle);
    let after = server.measure(context, plan)?;
    let ratio = |of: fn(&Measured) -> f64| of(&beside) / ((of(&before) + of(&after)) / 2.0);
    server.trial.cpu_s = beside.cpu_s;
    server
        .trial
        .cpu_by_program
        .clone_from(&beside.cpu_by_program);
    server.trial.beside_idle = Some(BesideIdle {
        connections: count,
        newcomer_ms: slowest.max(among?).as_secs_f64() * 1000.0,
        front,
        front_before,
        rate_ratio: ratio(|one| one.outcome.good_per_second()),
        cpu_ratio: ratio(|one| one.cpu_s / one.outcome.completed as f64),
    });
    Ok(beside)
}

fn newcomers_until(stop: &AtomicBool, target: &Target, path: &str) -> Result<Duration> {
    let mut slowest = Duration::ZERO;
    while !stop.load(Ordering::Relaxed) {
        slowest = slowest.max(newcomer(target, path)?);
        thread::sleep(NEWCOMER_INTERVAL);
    }
    Ok(slowest)
}

fn memory(pid: i32) -> Result<Footprint> {
    let memory = proc::memory_of(pid);
    let memory = memory.with_context(|| format!("can't read the memory of process {pid}"))?;
    Ok(meter::as_footprint(memory))
}
