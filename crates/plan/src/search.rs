//! Which numbers of workers and threads meet a target, and what limits where none does. It simulates them; how that is said is
//! the command's.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::calibration::calibrate;
use crate::forecast::{Percentiles, Setup};
use crate::recording::Recording;
use crate::simulation::simulate;
use crate::workload::{NothingRecorded, Workload};

/// Fewer recorded requests say little about the slowest of a hundred.
pub const MIN_REQUESTS: u64 = 1_000;

/// Requests that are simulated for each candidate.
const REQUESTS: usize = 60_000;
/// The same question gets the same answer.
const SEED: u64 = 0x6869_6768;
/// Numbers of threads that are tried, beside that of the server.
const THREADS: [u16; 6] = [1, 2, 3, 5, 8, 16];
/// More workers than these are not tried.
const MAX_WORKERS: u16 = 256;
/// More workers that improve the target's figure by less than this part do not help.
const LEAST_GAIN: f64 = 0.02;
/// Memory that differs by less than this part is the same: fewer threads are better then.
const SAME_MEMORY: f64 = 0.05;
/// So many cores beyond those that the load computes are tried.
const MORE_CORES: u16 = 8;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Question {
    /// Requests a second.
    pub rate: f64,
    /// The target: 99 % of the requests have their response within so many seconds. None: no candidate is chosen.
    pub p99_s: Option<f64>,
    /// So many workers; by default as few as meet the target.
    pub workers: Option<u16>,
    /// So many threads of each worker; by default several numbers are tried.
    pub threads: Option<u16>,
    /// Cores for the workers.
    pub cores: u16,
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// Requests a second.
    pub rate: f64,
    /// Cores that the workers may use.
    pub cores: u16,
    /// Cores that the load keeps busy.
    pub needed_cores: f64,
    /// What was simulated, by threads and workers.
    pub candidates: Vec<Candidate>,
    /// The place in `candidates` of the one that meets the target with the least memory.
    pub chosen: Option<usize>,
    /// What keeps all candidates from the target.
    pub limit: Option<Limit>,
    /// The recorded requests that it is based on.
    pub requests: u64,
    /// 99 % of the requests take at most so long where none waits for another, in seconds.
    pub alone_p99_s: f64,
}

/// Workers and threads, and what is expected of them. Times are in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// Workers.
    pub workers: u16,
    /// Threads of each.
    pub threads: u16,
    /// Whether the server has these now.
    pub is_present: bool,
    /// Whether it meets the target.
    pub meets: bool,
    /// The part of the cores that computes, from 0 to 1.
    pub cpu_use: f64,
    /// The part of the threads that is busy, from 0 to 1.
    pub thread_use: f64,
    /// 95 % of the requests wait at most so long for a thread; none of all times where the queue grows without bound.
    pub queue_p95_s: Option<f64>,
    /// Half of the requests have their response within this time.
    pub p50_s: Option<f64>,
    /// 95 % of them.
    pub p95_s: Option<f64>,
    /// 99 % of them.
    pub p99_s: Option<f64>,
    /// Memory of the application with its front, in bytes; none where the kernel did not tell.
    pub memory_bytes: Option<u64>,
}

/// What keeps all candidates from the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "by")]
pub enum Limit {
    /// Requests take longer than the target even where none waits for another.
    Requests,
    /// The cores. With `enough` of them the target is met; none where no tried number suffices.
    Cores {
        /// How many suffice.
        enough: Option<u16>,
    },
    /// The workers and threads that the question names.
    Given,
}

/// Answers a question from what was recorded.
///
/// # Errors
/// Nothing was recorded.
pub fn answer(recording: &Recording, question: &Question) -> Result<Answer, NothingRecorded> {
    let mut workload = Workload::of(recording)?;
    calibrate(&mut workload, recording, SEED);
    let alone = simulate(
        &workload,
        ALONE,
        1.0 / workload.mean_s().max(1e-9) / 1e3,
        REQUESTS,
        SEED,
    );
    let search = Search {
        recording,
        question,
        workload: &workload,
    };
    let mut candidates = search.candidates(&search.threads(), question.cores);
    let chosen = chosen(&candidates);
    search.add_present(&mut candidates);
    let chosen = chosen.and_then(|one| candidates.iter().position(|other| same(&one, other)));
    let alone_p99_s = alone.percentiles.map_or(0.0, |times| times.p99_s);
    Ok(Answer {
        rate: question.rate,
        cores: question.cores,
        needed_cores: question.rate * workload.mean_cpu_s(),
        limit: search.limit(chosen.is_some(), alone_p99_s),
        candidates,
        chosen,
        requests: recording.requests(),
        alone_p99_s,
    })
}

/// So much of everything that requests do not meet.
const ALONE: Setup = Setup {
    workers: 64,
    threads: 1,
    cores: 64.0,
};

fn same(one: &Candidate, other: &Candidate) -> bool {
    (one.workers, one.threads) == (other.workers, other.threads)
}

/// The candidate that meets the target with the least memory, or with the fewest workers where that is not known. Of several
/// with the same memory it is the one with the fewest threads.
fn chosen(candidates: &[Candidate]) -> Option<Candidate> {
    let size = |one: &Candidate| {
        one.memory_bytes
            .map_or(f64::from(one.workers), |bytes| bytes as f64)
    };
    let meeting = || candidates.iter().filter(|one| one.meets);
    let least = meeting().map(size).min_by(f64::total_cmp)?;
    let small = meeting().filter(|one| size(one) <= least * (1.0 + SAME_MEMORY));
    small.min_by_key(|one| one.threads).copied()
}

struct Search<'a> {
    recording: &'a Recording,
    question: &'a Question,
    workload: &'a Workload,
}

impl Search<'_> {
    /// The numbers of threads that are tried.
    fn threads(&self) -> Vec<u16> {
        let mut threads: Vec<u16> = match self.question.threads {
            Some(threads) => vec![threads.max(1)],
            None => THREADS
                .into_iter()
                .chain([self.present_threads()])
                .collect(),
        };
        threads.sort_unstable();
        threads.dedup();
        threads
    }

    fn present_threads(&self) -> u16 {
        self.recording.threads.max(1)
    }

    /// A candidate for each number of threads, with as few workers as meet the target.
    fn candidates(&self, threads: &[u16], cores: u16) -> Vec<Candidate> {
        match (self.question.workers, self.question.p99_s) {
            (Some(workers), _) => {
                let each = threads.iter();
                each.map(|&threads| self.candidate(workers.max(1), threads, cores))
                    .collect()
            }
            (None, Some(_)) => self.with_fewest_workers(threads, cores),
            (None, None) => {
                let threads = self.question.threads.unwrap_or(self.present_threads());
                self.neighbours(threads.max(1), cores)
            }
        }
    }

    /// More threads than another candidate has are only worth a line where they save workers.
    fn with_fewest_workers(&self, threads: &[u16], cores: u16) -> Vec<Candidate> {
        let mut found: Vec<Candidate> = Vec::new();
        for &threads in threads {
            let one = self.fewest_workers(threads, cores);
            let is_beaten = found
                .iter()
                .any(|other| other.meets && other.workers <= one.workers);
            if !is_beaten {
                found.push(one);
            }
        }
        found
    }

    /// Numbers of workers around the present one.
    fn neighbours(&self, threads: u16, cores: u16) -> Vec<Candidate> {
        let present = self.recording.workers.max(1);
        let mut workers = vec![present.saturating_sub(1), present, present + 1, present * 2];
        workers.retain(|&workers| workers > 0);
        workers.dedup();
        let each = workers.into_iter();
        each.map(|workers| self.candidate(workers, threads, cores))
            .collect()
    }

    /// Adds what the server has now, for comparison.
    fn add_present(&self, candidates: &mut Vec<Candidate>) {
        let (workers, threads) = (self.recording.workers, self.recording.threads);
        let is_asked = self.question.workers.is_some() || self.question.threads.is_some();
        let is_there = candidates.iter().any(|one| one.is_present);
        if workers > 0 && threads > 0 && !is_asked && !is_there {
            candidates.push(self.candidate(workers, threads, self.question.cores));
        }
        candidates.sort_by_key(|one| (one.threads, one.workers));
    }

    /// As few workers as meet the target, or so many that more do not help.
    fn fewest_workers(&self, threads: u16, cores: u16) -> Candidate {
        let (mut failed, mut step) = (self.least(threads) - 1, 1);
        let mut best: Option<Candidate> = None;
        let mut workers = failed + 1;
        let mut found = loop {
            let one = self.candidate(workers, threads, cores);
            if one.meets {
                break one;
            }
            let helps = match (best.and_then(|best| best.p99_s), one.p99_s) {
                (Some(before), Some(now)) => now < before * (1.0 - LEAST_GAIN),
                (Some(_), None) => false,
                (None, _) => true,
            };
            if let Some(best) = best.filter(|_| !helps) {
                return best;
            }
            best = Some(one);
            if workers >= MAX_WORKERS || self.is_hopeless(cores) {
                return one;
            }
            failed = workers;
            workers = (workers + step).min(MAX_WORKERS);
            step *= 2;
        };
        while found.workers - failed > 1 {
            let middle = self.candidate(failed + (found.workers - failed) / 2, threads, cores);
            if middle.meets {
                found = middle;
            } else {
                failed = middle.workers;
            }
        }
        found
    }

    /// Fewer workers than these cannot keep up.
    fn least(&self, threads: u16) -> u16 {
        let rate = self.question.rate;
        let computing = rate * self.workload.mean_cpu_s();
        let busy = rate * self.workload.mean_s() / f64::from(threads);
        // A number that is too large becomes the greatest.
        (computing.max(busy).floor() as u16)
            .saturating_add(1)
            .min(MAX_WORKERS)
    }

    fn is_hopeless(&self, cores: u16) -> bool {
        self.question.rate * self.workload.mean_cpu_s() >= f64::from(cores)
    }

    fn candidate(&self, workers: u16, threads: u16, cores: u16) -> Candidate {
        let setup = Setup {
            workers,
            threads,
            cores: f64::from(cores.max(1)),
        };
        let rate = self.question.rate;
        let keeps_up = workers >= self.least(threads) && !self.is_hopeless(cores);
        let forecast = keeps_up.then(|| simulate(self.workload, setup, rate, REQUESTS, SEED));
        let times = forecast.as_ref().and_then(|forecast| forecast.percentiles);
        let of = |time: fn(&Percentiles) -> f64| times.as_ref().map(time);
        let p99_s = of(|times| times.p99_s);
        let part = |busy: Option<f64>| busy.map_or(1.0, |busy| busy.min(1.0));
        let busy_cores = forecast.as_ref().map(|forecast| forecast.busy_cores);
        Candidate {
            workers,
            threads,
            is_present: (workers, threads) == (self.recording.workers, self.recording.threads),
            meets: p99_s
                .zip(self.question.p99_s)
                .is_some_and(|(p99, target)| p99 <= target),
            cpu_use: part(busy_cores.map(|busy| busy / setup.cores)),
            thread_use: part(forecast.as_ref().map(|forecast| forecast.busy_threads)),
            queue_p95_s: of(|times| times.queue_p95_s),
            p50_s: of(|times| times.p50_s),
            p95_s: of(|times| times.p95_s),
            p99_s,
            memory_bytes: self.recording.memory_bytes(workers),
        }
    }

    /// Why no candidate meets the target.
    fn limit(&self, met: bool, alone_p99_s: f64) -> Option<Limit> {
        let target = self.question.p99_s.filter(|_| !met)?;
        if alone_p99_s > target {
            return Some(Limit::Requests);
        }
        if self.question.workers.is_some() && !self.is_hopeless(self.question.cores) {
            return Some(Limit::Given);
        }
        let needed = (self.question.rate * self.workload.mean_cpu_s()).floor();
        let first = (needed as u16).max(self.question.cores).saturating_add(1);
        let mut more = first..=first.saturating_add(MORE_CORES);
        let threads = self.question.threads.map_or_else(
            || BTreeSet::from([1, self.present_threads()]),
            |threads| BTreeSet::from([threads.max(1)]),
        );
        let threads: Vec<_> = threads.into_iter().collect();
        let enough = more.find(|&cores| {
            let found = self.candidates(&threads, cores);
            found.iter().any(|one| one.meets)
        });
        Some(Limit::Cores { enough })
    }
}

#[cfg(test)]
mod tests;
