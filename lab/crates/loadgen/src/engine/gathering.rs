//! Puts together what the threads saw: the course of the seconds while a load runs, the outcome when it is over.
//! Histograms are merged, percentiles never averaged.

use std::collections::{BTreeMap, VecDeque};
use std::iter::Peekable;
use std::time::Duration;

use super::arrivals::{Schedule, nanoseconds};
use super::tally::{SLICES_A_SECOND, Slice, Tally};
use super::{Ended, Progress, watch};
use crate::outcome::{Bytes, Errors, Latency, OfRequest, Outcome, Second};
use crate::plan::{Mode, Plan};

const NANOSECONDS: u64 = 1_000_000_000;

/// A second that is not over in all threads.
#[derive(Debug, Default)]
struct Open {
    second: Second,
    latency: Latency,
}

/// The course of a load.
#[derive(Debug)]
pub(super) struct Gathering<'a> {
    plan: &'a Plan,
    /// The last quarter that each thread reported.
    heard: Vec<u64>,
    seconds: Vec<Second>,
    /// The seconds behind `seconds`, in order.
    open: VecDeque<Open>,
    latency: Latency,
    progress: Progress,
    /// Responses in each of the last quarters, for the current rate.
    recent: VecDeque<(Duration, u64)>,
    /// A copy of an open loop's schedule, to know what each second demanded.
    schedule: Option<Peekable<Schedule>>,
}

impl<'a> Gathering<'a> {
    pub(super) fn new(plan: &'a Plan, threads: usize) -> Self {
        let schedule = match plan.mode {
            Mode::Closed { .. } => None,
            Mode::Open {
                rate,
                arrivals,
                duration,
                ..
            } => {
                Some(Schedule::new(&plan.requests, rate, arrivals, duration, plan.seed).peekable())
            }
        };
        Self {
            plan,
            heard: vec![0; threads],
            seconds: Vec::new(),
            open: VecDeque::new(),
            latency: Latency::default(),
            progress: Progress::default(),
            recent: VecDeque::new(),
            schedule,
        }
    }

    /// Takes a slice.
    pub(super) fn add(&mut self, slice: &Slice) {
        self.latency.merge(&slice.latency);
        self.progress.completed += slice.completed;
        self.progress.good += slice.good;
        self.progress.errors += slice.errors;
        self.heard[slice.thread] = slice.number.unwrap_or(u64::MAX);
        let Some(number) = slice.number else {
            return;
        };
        let index = (number / SLICES_A_SECOND) as usize - self.seconds.len();
        while self.open.len() <= index {
            self.open.push_back(Open::default());
        }
        let Open { second, latency } = &mut self.open[index];
        second.demanded += slice.taken;
        second.completed += slice.completed;
        second.good += slice.good;
        second.errors += slice.errors;
        latency.merge(&slice.latency);
        let over = self
            .heard
            .iter()
            .min()
            .map_or(0, |least| least / SLICES_A_SECOND);
        while (self.seconds.len() as u64) < over && !self.open.is_empty() {
            self.close_second();
        }
    }

    fn close_second(&mut self) {
        let Some(Open {
            mut second,
            latency,
        }) = self.open.pop_front()
        else {
            return;
        };
        second.p50_ms = latency.at(50.0);
        second.p99_ms = latency.at(99.0);
        if self.schedule.is_some() {
            second.demanded = self.due_before((self.seconds.len() as u64 + 1) * NANOSECONDS);
        }
        self.seconds.push(second);
    }

    /// How many requests of the schedule come before `time` that were not counted yet.
    fn due_before(&mut self, time: u64) -> u64 {
        let mut count = 0;
        if let Some(schedule) = &mut self.schedule {
            while schedule.next_if(|arrival| arrival.at < time).is_some() {
                count += 1;
            }
        }
        count
    }

    /// How far the load is.
    pub(super) fn progress(&mut self, elapsed: Duration) -> Progress {
        let completed = self.progress.completed;
        self.recent.push_back((elapsed, completed));
        while self.recent.len() > SLICES_A_SECOND as usize + 1 {
            self.recent.pop_front();
        }
        let (since, before) = self.recent[0];
        let time = (elapsed - since).as_secs_f64();
        Progress {
            elapsed,
            rate: if time > 0.0 {
                (completed - before) as f64 / time
            } else {
                completed as f64 / elapsed.as_secs_f64().max(1e-9)
            },
            p99_ms: self.latency.at(99.0),
            seconds: self.seconds.len(),
            p50_ms: self.seconds.last().map_or(0.0, |second| second.p50_ms),
            ..self.progress
        }
    }

    /// The whole, after the last slice.
    pub(super) fn outcome(mut self, ended: Vec<Ended>) -> Outcome {
        while !self.open.is_empty() {
            self.close_second();
        }
        let tallies = || ended.iter().map(|ended| &ended.tally);
        let sum = |of: fn(&Tally) -> u64| tallies().map(of).sum::<u64>();
        let stopped = ended.iter().any(|ended| ended.stopped);
        let merged = |of: fn(&Tally) -> &Latency| {
            let mut all = Latency::default();
            tallies().for_each(|tally| all.merge(of(tally)));
            all
        };
        let over = ended.iter().map(|ended| ended.at).max().unwrap_or_default();
        let last = tallies().map(|tally| tally.last).max().unwrap_or_default();
        let elapsed = match self.plan.length().map(nanoseconds) {
            _ if stopped => over.min(self.plan.length().map_or(u64::MAX, nanoseconds)),
            Some(length) => length,
            None => last,
        };
        let demanded = match self.schedule {
            Some(_) => {
                self.seconds
                    .iter()
                    .map(|second| second.demanded)
                    .sum::<u64>()
                    + self.due_before(elapsed)
            }
            None => sum(|tally| tally.taken),
        };
        let connect = merged(|tally| &tally.connect);
        let mut outcome = Outcome {
            elapsed_s: elapsed as f64 / 1e9,
            demanded,
            sent: sum(|tally| tally.sent),
            completed: sum(|tally| tally.completed),
            late: sum(|tally| tally.late),
            good: sum(|tally| tally.good),
            statuses: BTreeMap::new(),
            errors: Errors::default(),
            service: merged(|tally| &tally.service),
            first_byte: merged(|tally| &tally.first_byte),
            connections: connect.count(),
            connect,
            peak_in_flight: tallies().map(|tally| tally.peak).max().unwrap_or_default(),
            in_flight_s: tallies().map(|tally| tally.in_flight as f64).sum::<f64>() / 1e9,
            bytes: Bytes::default(),
            sample: tallies()
                .find_map(|tally| tally.sample.clone())
                .unwrap_or_default(),
            seconds: self.seconds,
            requests: self
                .plan
                .requests
                .iter()
                .map(|request| OfRequest {
                    name: format!("{} {}", request.method, request.path),
                    ..OfRequest::default()
                })
                .collect(),
            latency: self.latency,
            generator: Default::default(),
        };
        add_tallies(&mut outcome, &ended);
        let usage: Vec<_> = ended.iter().map(|ended| ended.usage).collect();
        let generator = &mut outcome.generator;
        generator.threads = usage.len() as u64;
        generator.cores = usage.iter().map(|usage| usage.cores).sum();
        generator.waited = usage.iter().map(|usage| usage.waited).sum::<f64>() / usage.len() as f64;
        generator.lag = merged(|tally| &tally.lag);
        generator.pool_wait = merged(|tally| &tally.pool_wait);
        outcome.generator.limit = watch::limit(self.plan, &outcome, &usage);
        outcome
    }
}

/// Adds what each thread counted: statuses, errors, bytes, and the figures of each kind of request.
fn add_tallies(outcome: &mut Outcome, ended: &[Ended]) {
    for tally in ended.iter().map(|ended| &ended.tally) {
        for (status, count) in tally.statuses() {
            *outcome.statuses.entry(status).or_default() += count;
        }
        outcome.errors.add(&tally.errors);
        outcome.bytes.add(&tally.bytes);
        for (whole, part) in outcome.requests.iter_mut().zip(&tally.requests) {
            whole.completed += part.completed;
            whole.good += part.good;
            whole.latency.merge(&part.latency);
            whole.service.merge(&part.service);
        }
    }
    if let [only] = &mut outcome.requests[..] {
        only.completed = outcome.completed;
        only.good = outcome.good;
        only.latency = outcome.latency.clone();
    }
}
