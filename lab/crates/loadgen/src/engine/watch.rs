//! The generator's look at itself: the core that a thread is bound to, the time it used and the time it waited for
//! a core. It judges nothing but the generator.

use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use proc::thread_run_delay;
use rustix::thread::{CpuSet, sched_setaffinity, set_current_timer_slack};
use rustix::time::{ClockId, clock_gettime};

use crate::outcome::Outcome;
use crate::plan::{Mode, Plan};

/// A thread that was busy, or waited for a core, for more than this share of the time was the limit. k6 advises to
/// stay below 0.8; a closed loop with one core for each side comes near it while the server is still the slower one.
const BUSY: f64 = 0.9;
/// Requests that leave up to so late are on time, in milliseconds.
const LATE_MS: f64 = 1.0;
/// A lag is part of every latency: more than this share of the slowest hundredth says more of the generator than
/// of the server.
const LAG_SHARE: f64 = 0.1;

/// The times of one thread.
#[derive(Debug, Clone, Copy)]
pub(super) struct Watch {
    began: Instant,
    used: Duration,
    waited: Duration,
}

/// What one thread took.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Usage {
    /// Cores, at most one.
    pub(super) cores: f64,
    /// Share of the time in which it was ready and had no core.
    pub(super) waited: f64,
}

/// Binds the calling thread to a core, where there is one for it, and has its timers end on time.
pub(super) fn settle(plan: &Plan, thread: usize) -> Result<()> {
    // The kernel may delay a thread's timers by 50 us to save wake-ups; a thread may always ask for less.
    set_current_timer_slack(NonZeroU64::new(1)).context("set the timer slack of a thread")?;
    if plan.cores.is_empty() {
        return Ok(());
    }
    let core = plan.cores[thread % plan.cores.len()];
    anyhow::ensure!(core < CpuSet::MAX_CPU, "there is no core {core}");
    let mut cores = CpuSet::new();
    cores.set(core);
    sched_setaffinity(None, &cores).with_context(|| format!("bind a thread to core {core}"))
}

impl Watch {
    /// Starts for the calling thread.
    pub(super) fn start() -> Self {
        Self {
            began: Instant::now(),
            used: used(),
            waited: thread_run_delay(),
        }
    }

    /// What the calling thread took since.
    pub(super) fn usage(&self) -> Usage {
        let wall = self.began.elapsed().as_secs_f64().max(1e-9);
        Usage {
            cores: used().saturating_sub(self.used).as_secs_f64() / wall,
            waited: thread_run_delay().saturating_sub(self.waited).as_secs_f64() / wall,
        }
    }
}

fn used() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or_default(),
        u32::try_from(time.tv_nsec).unwrap_or_default(),
    )
}

/// Why the generator and not the server was the limit, if so.
pub(super) fn limit(plan: &Plan, outcome: &Outcome, threads: &[Usage]) -> Option<String> {
    if outcome.errors.no_address > 0 {
        return Some(format!(
            "no local port was left for {} connections: use fewer connections a second, or keep them alive",
            outcome.errors.no_address
        ));
    }
    if outcome.errors.no_descriptor > 0 {
        return Some(format!(
            "no file descriptor was left for {} connections: raise the limit (ulimit -n)",
            outcome.errors.no_descriptor
        ));
    }
    match plan.mode {
        Mode::Closed { .. } => busy(threads, |usage| usage.cores + usage.waited),
        // What is due leaves before what came is read: a thread with no time left is late with answers and not with requests,
        // which no lag shows. Where it waited for a core, it was late with both.
        Mode::Open { .. } => busy(threads, |usage| usage.cores).or_else(|| late(outcome)),
    }
}

fn busy(threads: &[Usage], taken: fn(&Usage) -> f64) -> Option<String> {
    let busiest = threads
        .iter()
        .max_by(|one, other| taken(one).total_cmp(&taken(other)))?;
    (taken(busiest) > BUSY).then(|| {
        format!(
            "the generator's busiest thread ran for {:.0} % of the time and waited for a core for {:.0} %",
            busiest.cores * 100.0,
            busiest.waited * 100.0
        )
    })
}

fn late(outcome: &Outcome) -> Option<String> {
    let lag = outcome.generator.lag.at(99.0);
    let latency = outcome.latency.at(99.0);
    (lag > LATE_MS && lag > latency * LAG_SHARE).then(|| {
        format!(
            "requests left late: the latest hundredth by {lag:.1} ms and more, where the slowest hundredth took {latency:.1} ms"
        )
    })
}
