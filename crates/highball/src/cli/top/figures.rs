//! What `top` shows, from two readings of the status: rates, sums, and rows of workers and of requests. Pure: it reads no
//! clock and draws nothing.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use supervisor::{Process, Role};

use crate::cli::top::routes::{self, RouteRow};
use crate::control::report::{ApplicationReport, Report, Thread};

/// A reading of the status, and when it came.
pub(super) struct Reading {
    pub(super) report: Box<Report>,
    pub(super) at: Instant,
}

/// What is shown of one application, or of all.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Figures {
    /// Requests that ended, each second. Unknown with the first reading of a server.
    pub(super) rate: Option<f64>,
    /// Responses by class of status and outcomes other than `ok`, each second, without those of which there was none.
    pub(super) rates: Vec<(String, f64)>,
    pub(super) busy_threads: usize,
    pub(super) threads: usize,
    /// PSS of all processes, in bytes; unknown where the kernel did not tell any.
    pub(super) memory: Option<u64>,
    /// Such as `1 draining, 2 serving`.
    pub(super) generations: String,
    pub(super) workers: Vec<Worker>,
    pub(super) routes: Vec<RouteRow>,
    /// The requests that run, the longest first.
    pub(super) running: Vec<Thread>,
}

/// A worker.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Worker {
    pub(super) process: Process,
    /// Requests each second; unknown at its first reading.
    pub(super) rate: Option<f64>,
    pub(super) busy_threads: usize,
    pub(super) threads: usize,
}

impl Worker {
    /// By how much its private memory has changed since it became ready, in bytes.
    pub(super) fn grown(&self) -> Option<i64> {
        let process = &self.process;
        let (now, first) = process.memory_bytes.zip(process.first_memory_bytes)?;
        Some(now.cast_signed() - first.cast_signed())
    }
}

/// What workers are sorted by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Order {
    #[default]
    Number,
    Requests,
    Rate,
    Memory,
    Grown,
    Age,
}

impl Order {
    pub(super) const ALL: [Self; 6] = [
        Self::Number,
        Self::Requests,
        Self::Rate,
        Self::Memory,
        Self::Grown,
        Self::Age,
    ];

    /// Sorts workers, the largest first; by number the smallest.
    pub(super) fn sort(self, workers: &mut [Worker], reversed: bool) {
        workers.sort_by(|one, other| {
            let order = match self {
                Self::Number => number(one).cmp(&number(other)),
                Self::Requests => other.process.requests.cmp(&one.process.requests),
                Self::Rate => other
                    .rate
                    .unwrap_or(-1.0)
                    .total_cmp(&one.rate.unwrap_or(-1.0)),
                Self::Memory => other.process.memory_bytes.cmp(&one.process.memory_bytes),
                Self::Grown => other.grown().cmp(&one.grown()),
                Self::Age => one.process.started.cmp(&other.process.started),
            };
            let order = if reversed { order.reverse() } else { order };
            order.then(number(one).cmp(&number(other)))
        });
    }
}

fn number(worker: &Worker) -> (Option<u32>, Option<u16>) {
    (worker.process.generation, worker.process.worker)
}

/// An application of a report by its place; all together without one.
pub(super) fn application(report: &Report, place: Option<usize>) -> &ApplicationReport {
    let one = place.and_then(|place| report.applications.get(place));
    one.map_or(&report.all, |one| &one.own)
}

impl Figures {
    /// The figures of a reading. Rates are since the one before it, of the same server.
    pub(super) fn of(before: Option<&Reading>, now: &Reading, place: Option<usize>) -> Self {
        let report = application(&now.report, place);
        let before = before.filter(|before| before.report.pid == now.report.pid);
        let elapsed = before.map(|before| now.at.saturating_duration_since(before.at));
        let before = before.map(|before| application(&before.report, place));
        let before = before.zip(elapsed.filter(|elapsed| !elapsed.is_zero()));
        let workers = report.processes.iter();
        let workers = workers.filter(|process| process.role == Role::Worker);
        let memory = report.processes.iter();
        let memory: Vec<u64> = memory
            .filter_map(|process| Some(process.memory?.pss_bytes))
            .collect();
        let mut running = report.threads.clone();
        running.retain(|thread| thread.state != "idle");
        running.sort_by_key(|thread| std::cmp::Reverse(thread.since_ms));
        let generations = report.generations.iter();
        let generations = generations.map(|one| format!("{} {}", one.number, one.state));
        Self {
            rate: before.map(|(before, elapsed)| {
                let all = |report: &ApplicationReport| report.counters.values().sum();
                per_second(all(before), all(report), elapsed)
            }),
            rates: before.map_or_else(Vec::new, |(before, elapsed)| {
                let other = report.counters.iter().filter(|(name, _)| *name != "ok");
                let classes = rates(&before.responses, report.responses.iter(), elapsed);
                let others = rates(&before.counters, other, elapsed);
                classes.chain(others).collect()
            }),
            busy_threads: running.len(),
            threads: report.threads.len(),
            memory: (!memory.is_empty()).then(|| memory.iter().sum()),
            generations: generations.collect::<Vec<_>>().join(", "),
            workers: workers
                .map(|process| worker(process, report, before))
                .collect(),
            routes: routes::rows(report, before),
            running,
        }
    }
}

fn worker(
    process: &Process,
    report: &ApplicationReport,
    before: Option<(&ApplicationReport, Duration)>,
) -> Worker {
    let own = report.threads.iter();
    let own = own.filter(|one| {
        (Some(one.generation), Some(one.worker)) == (process.generation, process.worker)
    });
    let own: Vec<&Thread> = own.collect();
    let rate = before.and_then(|(before, elapsed)| {
        let mut earlier = before.processes.iter();
        let earlier = earlier.find(|one| one.pid == process.pid)?;
        Some(per_second(earlier.requests?, process.requests?, elapsed))
    });
    Worker {
        process: process.clone(),
        rate,
        busy_threads: own.iter().filter(|one| one.state != "idle").count(),
        threads: own.len(),
    }
}

/// Counts each second, without those that did not change.
fn rates<'a>(
    before: &'a BTreeMap<String, u64>,
    now: impl Iterator<Item = (&'a String, &'a u64)> + 'a,
    elapsed: Duration,
) -> impl Iterator<Item = (String, f64)> + 'a {
    let rates = now.map(move |(name, count)| {
        let earlier = before.get(name).copied().unwrap_or_default();
        (name.clone(), per_second(earlier, *count, elapsed))
    });
    rates.filter(|(_, rate)| *rate > 0.0)
}

fn per_second(before: u64, now: u64, elapsed: Duration) -> f64 {
    now.saturating_sub(before) as f64 / elapsed.as_secs_f64()
}

#[cfg(test)]
mod tests;
