//! One trial: a fresh server, a warm-up, a load, the figures, a stop. Figures that a trial did not measure are
//! absent, never zero.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use proc::{Memory, memory_of};

use crate::idle::{self, IdleConnections};
use crate::requests::{self, TIMEOUT, address, send};
use crate::workload::{Kind, Workload, measure};
use crate::wrk;
use loadgen::plan::{Arrivals, Plan};
use meter::Meter;
use stacks::{Definition, Deployment, Running};

mod meter;

/// How long and how a trial loads.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// Load of an unstretched workload.
    pub duration: Duration,
    /// Warm-up before it.
    pub warm_up: Duration,
    /// The open loop's arrivals.
    pub arrivals: Arrivals,
    /// Depends on the round alone: every stack gets the same arrivals.
    pub seed: u64,
}

/// What a trial gave.
#[derive(Debug, Clone, Default)]
pub struct Figures {
    /// By the names in [`measure`].
    pub measures: BTreeMap<String, f64>,
    /// What wrk printed.
    pub generator_output: String,
    /// The body of the first answer, to be compared with the other stacks'.
    pub body: Vec<u8>,
}

impl Figures {
    fn set(&mut self, name: &str, value: f64) {
        if value.is_finite() {
            self.measures.insert(name.to_owned(), value);
        }
    }
}

/// Runs one trial of `stack`, whose deployment names the workload's page.
///
/// # Errors
/// When the server does not start or the generator fails. A server that answers badly is no error: its
/// errors are counted.
pub fn run(
    workload: &Workload,
    stack: &Definition,
    deployment: &Deployment,
    pace: Pace,
) -> Result<Figures> {
    let pace = Pace {
        duration: pace.duration * workload.stretch,
        warm_up: pace.warm_up * workload.stretch,
        ..pace
    };
    let mut running = stack.start(deployment)?;
    let mut figures = Figures {
        body: running.first.1.clone(),
        ..Figures::default()
    };
    figures.set(measure::BOOT, running.boot.as_secs_f64());
    match workload.kind {
        Kind::Closed { connections } => {
            closed(&mut running, &mut figures, workload, connections, pace)?
        }
        Kind::OpenLoop => open(&mut running, &mut figures, workload, pace)?,
        Kind::Memory { requests } => memory(&mut running, &mut figures, workload, requests)?,
        Kind::Idle { connections } => {
            idle(&mut running, &mut figures, workload, connections, pace)?
        }
    }
    let total = running.tree().memory();
    figures.set(measure::PSS, megabytes(total.pss));
    figures.set(measure::RSS, megabytes(total.rss));
    figures.set(measure::PRIVATE_DIRTY, megabytes(total.private_dirty));
    figures.set(measure::PROCESSES, running.tree().members().len() as f64);
    running.still_up().context("it ended under load")?;
    figures.set(measure::LEFT_BEHIND, running.stop().left_behind as f64);
    Ok(figures)
}

/// What the trials of a workload send, in words or as a command.
pub fn describe_load(workload: &Workload, pace: Pace) -> String {
    let duration = pace.duration * workload.stretch;
    let url = format!("http://127.0.0.1:PORT{}", workload.path);
    let wrk = |connections| {
        format!(
            "wrk {}",
            wrk_load(connections, duration).arguments(&url).join(" ")
        )
    };
    match workload.kind {
        Kind::Closed { connections } => wrk(connections),
        Kind::OpenLoop => format!(
            "{RATE} requests/s for {} s, {:?} arrivals, nine of {} to one of {SLOW_PATH}",
            duration.as_secs(),
            pace.arrivals,
            workload.path
        ),
        Kind::Memory { requests } => {
            format!(
                "{requests} GETs of {url} over {} connections",
                2 * workload.workers
            )
        }
        Kind::Idle { connections } => {
            format!(
                "{connections} idle connections, 10 newcomers a second, and {}",
                wrk(BUSY)
            )
        }
    }
}

/// The open loop's requests a second.
const RATE: f64 = 200.0;

/// The page that takes 50 ms of CPU.
const SLOW_PATH: &str = "/slow";

/// Busy connections beside the idle ones.
const BUSY: usize = 12;

fn wrk_load(connections: usize, duration: Duration) -> wrk::Load {
    wrk::Load {
        connections,
        threads: 2,
        duration,
        timeout: TIMEOUT,
    }
}

/// Loads as the trial will, then waits until requests that were left behind in the server's queue are done:
/// clients that are gone would otherwise fill it, and the trial begin with refusals.
fn warm_up(running: &Running, workload: &Workload, connections: usize, pace: Pace) -> Result<()> {
    let address = address(running)?;
    wrk_load(connections, pace.warm_up)
        .run(address, workload.path)
        .context("warm-up")?;
    let deadline = Instant::now() + Duration::from_secs(20);
    while Instant::now() < deadline {
        if idle::newcomer(address, workload.path).is_ok() {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(50));
    }
    bail!("no good answer in 20 s after the warm-up");
}

fn closed(
    running: &mut Running,
    figures: &mut Figures,
    workload: &Workload,
    connections: usize,
    pace: Pace,
) -> Result<()> {
    warm_up(running, workload, connections, pace)?;
    let meter = Meter::start(running);
    let (report, output) =
        wrk_load(connections, pace.duration).run(address(running)?, workload.path)?;
    let used = meter.stop(running, figures);
    figures.set(measure::RATE, report.good_per_second());
    figures.set(measure::P50, report.p50_ms);
    figures.set(measure::P99, report.p99_ms);
    figures.set(measure::MAX, report.max_ms);
    figures.set(measure::REQUESTS, report.requests as f64);
    figures.set(measure::ERRORS, report.errors() as f64);
    figures.set(
        measure::CPU,
        used.microseconds_per(report.requests as usize),
    );
    figures.generator_output = output;
    Ok(())
}

fn open(
    running: &mut Running,
    figures: &mut Figures,
    workload: &Workload,
    pace: Pace,
) -> Result<()> {
    let address = address(running)?;
    let pages = [(workload.path, 9.0), (SLOW_PATH, 1.0)];
    let plan = |duration, seed| {
        let mode = requests::open(RATE, pace.arrivals, duration);
        requests::plan(address, &pages, mode, seed)
    };
    let run = |plan: &Plan| loadgen::run(plan, &mut |_| {}, &AtomicBool::new(false));
    // The same load in short, with another schedule: every worker has then run both kinds of request.
    run(&plan(pace.warm_up, !pace.seed))?;
    let meter = Meter::start(running);
    let outcome = run(&plan(pace.duration, pace.seed))?;
    let used = meter.stop(running, figures);

    let [fast, slow] = outcome.requests.as_slice() else {
        bail!(
            "two kinds of requests were sent, and not {}",
            outcome.requests.len()
        );
    };
    figures.set(measure::P50, fast.latency.at(50.0));
    figures.set(measure::P99, fast.latency.at(99.0));
    figures.set(measure::MAX, fast.latency.max_ms());
    figures.set(measure::SLOW_P50, slow.latency.at(50.0));
    figures.set(measure::SLOW_P99, slow.latency.at(99.0));
    figures.set(measure::SERVICE_P99, fast.service.at(99.0));
    let errors = outcome.errors.total();
    figures.set(
        measure::RATE,
        outcome.demanded.saturating_sub(errors) as f64 / pace.duration.as_secs_f64(),
    );
    figures.set(measure::REQUESTS, outcome.demanded as f64);
    figures.set(measure::ERRORS, errors as f64);
    figures.set(measure::LAG, outcome.generator.lag.max_ms());
    figures.set(measure::CONNECTIONS, outcome.connections as f64);
    figures.set(
        measure::CPU,
        used.microseconds_per(outcome.demanded as usize),
    );
    Ok(())
}

fn memory(
    running: &mut Running,
    figures: &mut Figures,
    workload: &Workload,
    requests: usize,
) -> Result<()> {
    let meter = Meter::start(running);
    let outcome = send(
        address(running)?,
        workload.path,
        2 * workload.workers,
        requests,
    )?;
    let used = meter.stop(running, figures);
    figures.set(measure::REQUESTS, requests as f64);
    figures.set(measure::ERRORS, outcome.errors.total() as f64);
    figures.set(measure::CPU, used.microseconds_per(requests));
    Ok(())
}

/// Busy connections without, beside and again without the idle ones: what drifts over a trial cancels out.
fn idle(
    running: &mut Running,
    figures: &mut Figures,
    workload: &Workload,
    connections: usize,
    pace: Pace,
) -> Result<()> {
    warm_up(running, workload, BUSY, pace)?;
    let front = running
        .entry()
        .context("the front has no process of its own")?;
    let address = address(running)?;
    figures.set(
        measure::FRONT_RSS_BEFORE,
        megabytes(front_memory(front)?.rss),
    );
    let (rate_before, cpu_before, _) = busy(running, figures, workload, BUSY, pace.duration)?;

    let idle = IdleConnections::open(address, workload.path, connections)?;
    let alone = newcomers(address, workload.path, 10)?;
    let stop = AtomicBool::new(false);
    let (beside, among) = thread::scope(|scope| {
        let watch = scope.spawn(|| newcomers_until(&stop, address, workload.path));
        let beside = busy(running, figures, workload, BUSY, pace.duration);
        stop.store(true, Ordering::Relaxed);
        (
            beside,
            watch.join().expect("the newcomers' thread does not panic"),
        )
    });
    let (rate_beside, cpu_beside, output) = beside?;
    let front = front_memory(front)?;
    figures.set(measure::FRONT_RSS, megabytes(front.rss));
    figures.set(measure::FRONT_PSS, megabytes(front.pss));
    let still_open = idle.still_open();
    if still_open < connections {
        bail!("only {still_open} of {connections} idle connections were still open after the load");
    }
    figures.set(measure::NEWCOMER, alone.max(among?).as_secs_f64() * 1000.0);
    drop(idle);

    let (rate_after, cpu_after, _) = busy(running, figures, workload, BUSY, pace.duration)?;
    figures.set(measure::RATE, rate_beside);
    figures.set(measure::CPU, cpu_beside);
    figures.set(
        measure::BUSY_RATIO,
        rate_beside / ((rate_before + rate_after) / 2.0),
    );
    figures.set(
        measure::BUSY_CPU_RATIO,
        cpu_beside / ((cpu_before + cpu_after) / 2.0),
    );
    figures.generator_output = output;
    Ok(())
}

/// One phase of busy connections: good responses a second, CPU per request, wrk's words. Errors add up.
fn busy(
    running: &mut Running,
    figures: &mut Figures,
    workload: &Workload,
    connections: usize,
    duration: Duration,
) -> Result<(f64, f64, String)> {
    let meter = Meter::start(running);
    let (report, output) = wrk_load(connections, duration).run(address(running)?, workload.path)?;
    let used = meter.stop(running, figures);
    let errors = figures
        .measures
        .get(measure::ERRORS)
        .copied()
        .unwrap_or(0.0);
    figures.set(measure::ERRORS, errors + report.errors() as f64);
    Ok((
        report.good_per_second(),
        used.microseconds_per(report.requests as usize),
        output,
    ))
}

fn newcomers(address: SocketAddr, path: &str, count: usize) -> Result<Duration> {
    let mut slowest = Duration::ZERO;
    for _ in 0..count {
        slowest = slowest.max(idle::newcomer(address, path)?);
    }
    Ok(slowest)
}

fn newcomers_until(stop: &AtomicBool, address: SocketAddr, path: &str) -> Result<Duration> {
    let mut slowest = Duration::ZERO;
    while !stop.load(Ordering::Relaxed) {
        slowest = slowest.max(idle::newcomer(address, path)?);
        thread::sleep(Duration::from_millis(100));
    }
    Ok(slowest)
}

/// A megabyte is a million bytes here; the kernel's kB are 1,024.
fn front_memory(pid: i32) -> Result<Memory> {
    memory_of(pid).with_context(|| format!("memory of process {pid}"))
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}
