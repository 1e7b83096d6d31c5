//! Carries out a load: threads of their own, each with its connections and its share, and one figure of the whole.
//! It starts no server and judges none.

use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Barrier, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};

use super::outcome::Outcome;
use super::plan::{Plan, Target};
use super::tls::Connector;
use client::{Client, Shared};
use gathering::Gathering;
use rendering::{Cookies, Rendered};
use tally::Slice;
use watch::{Usage, Watch};

mod arrivals;
mod client;
mod exchange;
mod gathering;
mod rendering;
mod slot;
mod stream;
mod tally;
mod watch;

/// Time between two progress reports.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(250);

/// How far a load is.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Progress {
    /// Since the start.
    pub elapsed: Duration,
    /// Whole responses so far.
    pub completed: u64,
    /// Good ones so far.
    pub good: u64,
    /// Failed requests so far.
    pub errors: u64,
    /// Whole responses a second, of the last second.
    pub rate: f64,
    /// The slowest hundredth so far, in milliseconds; zero where nothing has ended yet.
    pub p99_ms: f64,
    /// Whole seconds of the load of which all is known.
    pub seconds: usize,
    /// Middle latency of what ended in the last of them, in milliseconds; zero where nothing did.
    pub p50_ms: f64,
}

/// One request, kept by [`run_each`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Single {
    /// When it was due, from the load's start.
    pub due: Duration,
    /// From then to the last byte of its response, or until it was given up.
    pub latency: Duration,
    /// Whether its response is a good one.
    pub good: bool,
    /// From when it was due to the first byte of its response; zero without a whole response.
    pub first_byte: Duration,
    /// Its index among the plan's requests.
    pub request: usize,
    /// The status of its response; `None` without a whole one.
    pub status: Option<u16>,
    /// Bytes of its response: head and content.
    pub received: u64,
}

/// Carries out `plan` and reports progress four times a second. Where `stop` becomes true the load ends at
/// once with what there is; what was in flight then is neither an answer nor an error.
///
/// A timed load sends nothing after its end, except requests of an open loop that waited for a connection, and waits
/// for what is in flight as long as [`Plan::grace`] says; that counts as late.
///
/// # Errors
/// Where the plan can't be carried out at all ([`Plan::check`]), or the machine refuses threads or poll sets. That
/// the server refuses or fails is an outcome and no error.
pub fn run(plan: &Plan, progress: &mut dyn FnMut(&Progress), stop: &AtomicBool) -> Result<Outcome> {
    carry_out_all(plan, progress, stop, false).map(|(outcome, _)| outcome)
}

/// The same, with every request in the order in which each thread ended them. Each takes some 80 bytes of memory.
///
/// # Errors
/// As of [`run`].
pub fn run_each(
    plan: &Plan,
    progress: &mut dyn FnMut(&Progress),
    stop: &AtomicBool,
) -> Result<(Outcome, Vec<Single>)> {
    carry_out_all(plan, progress, stop, true)
}

fn carry_out_all(
    plan: &Plan,
    progress: &mut dyn FnMut(&Progress),
    stop: &AtomicBool,
    each: bool,
) -> Result<(Outcome, Vec<Single>)> {
    plan.check()?;
    let threads = plan.threads.min(plan.connections_at_most());
    let shared = Shared {
        plan,
        stop,
        requests: rendered(plan),
        login: rendering::login(plan),
        multiplexed: plan
            .streams
            .map(|_| rendering::multiplexed(plan))
            .transpose()?,
        tls: connector(plan)?,
        threads,
        tickets: AtomicU64::new(0),
        in_flight: AtomicU64::new(0),
        each,
    };
    let gate = Barrier::new(threads);
    let began = OnceLock::new();
    let (out, slices) = channel();
    let mut gathering = Gathering::new(plan, threads);
    let mut ended = thread::scope(|scope| {
        let mut handles = Vec::with_capacity(threads);
        for index in 0..threads {
            let (out, gate, began, shared) = (out.clone(), &gate, &began, &shared);
            let thread = thread::Builder::new().name(format!("load {index}"));
            handles.push(
                thread
                    .spawn_scoped(scope, move || {
                        let client = Client::new(shared, index, out);
                        let settled = watch::settle(shared.plan, index);
                        // Every thread must reach the barrier, or the others would wait for ever.
                        gate.wait();
                        let began = *began.get_or_init(Instant::now);
                        settled?;
                        carry_out(client?, began)
                    })
                    .context("start a thread of the load generator")?,
            );
        }
        drop(out);
        follow(&mut gathering, &slices, progress);
        let joined = handles.into_iter().map(|handle| {
            handle
                .join()
                .unwrap_or_else(|_| Err(anyhow!("a thread of the load generator broke down")))
        });
        joined.collect::<Result<Vec<_>>>()
    })?;
    let singles = ended
        .iter_mut()
        .filter_map(|ended| ended.tally.singles.take());
    let singles = singles.flatten().collect();
    Ok((gathering.outcome(ended), singles))
}

/// The TLS of a plan, where it has one.
fn connector(plan: &Plan) -> Result<Option<Connector>> {
    match &plan.target {
        Target::Tls(_, tls) => Connector::new(tls, plan.streams.is_some()).map(Some),
        Target::Tcp(_) | Target::Unix(_) => Ok(None),
    }
}

/// A plan's requests as they leave.
pub(super) fn rendered(plan: &Plan) -> Vec<Rendered> {
    rendering::requests(plan, &Cookies::default())
}

/// What a thread leaves behind.
#[derive(Debug)]
struct Ended {
    tally: tally::Tally,
    usage: Usage,
    /// Nanoseconds from the start to the end of its loop.
    at: u64,
    /// Whether it was stopped before the load was over.
    stopped: bool,
}

fn carry_out(mut client: Client<'_>, began: Instant) -> Result<Ended> {
    let watch = Watch::start();
    let (at, over) = client.run(began)?;
    Ok(Ended {
        tally: client.tally,
        usage: watch.usage(),
        at,
        stopped: !over,
    })
}

/// Takes slices until every thread is done.
fn follow(
    gathering: &mut Gathering<'_>,
    slices: &Receiver<Slice>,
    progress: &mut dyn FnMut(&Progress),
) {
    let began = Instant::now();
    let mut report_at = PROGRESS_INTERVAL;
    loop {
        let wait = report_at.saturating_sub(began.elapsed());
        match slices.recv_timeout(wait) {
            Ok(slice) => gathering.add(&slice),
            Err(RecvTimeoutError::Timeout) => {
                progress(&gathering.progress(began.elapsed()));
                report_at += PROGRESS_INTERVAL;
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

#[cfg(test)]
mod tests;
