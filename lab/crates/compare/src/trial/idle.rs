//! A load beside thousands of idle connections: measured without, beside and again without them, so that what drifts
//! over a trial cancels out, while new clients come.

use std::net::SocketAddr;
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
const ALONE: usize = 10;
/// Between two new clients beside the load.
const PAUSE: Duration = Duration::from_millis(100);

/// Measures `plan` beside `count` idle connections; what they did to it stands in the server's trial.
///
/// # Errors
/// The server ends, drops one of them, or does not answer a new client; it listens on no port, or has no process of its own.
pub(super) fn measure(
    context: &TrialContext<'_>,
    server: &mut Server,
    plan: &Plan,
    count: usize,
) -> Result<Measured> {
    let Target::Tcp(address) = plan.target else {
        bail!("idle connections need a server on a port");
    };
    let entry = server.running.entry();
    let entry = entry.context("the server has no process of its own")?;
    let path = plan
        .requests
        .first()
        .map_or("/", |request| request.path.as_str());
    let front_before = memory(entry)?;
    let before = server.measure(context, plan)?;
    let idle = IdleConnections::open(address, path, count)?;
    let mut slowest = Duration::ZERO;
    for _ in 0..ALONE {
        slowest = slowest.max(newcomer(address, path)?);
    }
    let stop = AtomicBool::new(false);
    let (beside, among) = thread::scope(|scope| {
        let watch = scope.spawn(|| newcomers_until(&stop, address, path));
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

fn newcomers_until(stop: &AtomicBool, address: SocketAddr, path: &str) -> Result<Duration> {
    let mut slowest = Duration::ZERO;
    while !stop.load(Ordering::Relaxed) {
        slowest = slowest.max(newcomer(address, path)?);
        thread::sleep(PAUSE);
    }
    Ok(slowest)
}

fn memory(pid: i32) -> Result<Footprint> {
    let memory = proc::memory_of(pid);
    let memory = memory.with_context(|| format!("can't read the memory of process {pid}"))?;
    Ok(meter::as_footprint(memory))
}
