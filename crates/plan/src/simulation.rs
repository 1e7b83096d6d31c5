//! One number of workers and threads under load, event by event: Poisson arrivals, one queue, first in first out. It decides
//! nothing.
//!
//! - A request goes to an idle thread of the worker with the most idle threads. That thread takes it as soon as it has its
//!   worker's lock (Ruby's GVL); a thread that has just finished a request has the lock, and takes the next one at once.
//! - One thread of a worker computes at a time. Threads get the lock in turn, and give it back when they wait or, where others
//!   want it, after [`SLICE_S`].
//! - Workers that compute share the cores evenly, with at most one core for each.
//! - Waits overlap without bound.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};

use rand::{RngExt as _, SeedableRng as _};
use rand_xoshiro::SplitMix64;

use crate::forecast::{Forecast, Percentiles, Setup};
use crate::workload::{Cost, Workload};

/// How long a Ruby thread computes while others of its process want to: 100 ms in every version of Ruby so far.
pub(crate) const SLICE_S: f64 = 0.1;
/// The part of the requests that only fills the queue, and is not counted.
const WARM_UP_PART: f64 = 0.1;
/// Where more of all requests wait than this part, the queue grows without bound.
const OVERLOAD_PART: f64 = 0.02;
/// CPU time below this is done: what is left of it is the error of floating point numbers.
const NOTHING_S: f64 = 1e-12;

/// Simulates so many requests at this rate (requests a second).
pub fn simulate(
    workload: &Workload,
    setup: Setup,
    rate: f64,
    requests: usize,
    seed: u64,
) -> Forecast {
    simulate_with_slice(workload, setup, rate, requests, seed, SLICE_S)
}

/// The same with another slice: with a short one threads share their lock evenly.
pub(crate) fn simulate_with_slice(
    workload: &Workload,
    setup: Setup,
    rate: f64,
    requests: usize,
    seed: u64,
    slice_s: f64,
) -> Forecast {
    let mut simulation = Simulation::new(setup, slice_s, workload.routes().len());
    let mut random = SplitMix64::seed_from_u64(seed);
    let mut arrival = 0.0;
    let warm_up = (requests as f64 * WARM_UP_PART) as usize;
    let most_waiting = (requests as f64 * OVERLOAD_PART) as usize;
    for number in 0..requests {
        arrival += -(1.0 - random.random::<f64>()).ln() / rate;
        simulation.run_until(arrival);
        if number == warm_up {
            simulation.begin_to_count();
        }
        simulation.arrive(workload.next(&mut random));
        if simulation.queue.len() > most_waiting {
            return simulation.forecast(true);
        }
    }
    simulation.run_until(f64::INFINITY);
    simulation.forecast(false)
}

/// A moment, or a position of the CPU clock: numbers that are never NaN.
#[derive(Clone, Copy, Debug, PartialEq)]
struct At(f64);

impl Eq for At {}

impl PartialOrd for At {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for At {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// A request on its way.
struct Request {
    route: usize,
    arrived: f64,
    taken: f64,
    counts: bool,
    /// What is left of this part's CPU time, in seconds.
    left_s: f64,
    /// CPU time of each part.
    part_s: f64,
    wait_s: f64,
    waits: u32,
}

/// Who wants a worker's lock.
#[derive(Clone, Copy)]
enum Thread {
    /// A thread that was woken for a request.
    Woken,
    /// A thread that runs this request.
    Running(usize),
}

struct Worker {
    idle: u16,
    /// Those that want the lock; the first one has it.
    lock: VecDeque<Thread>,
    /// The CPU time that the first one gets in this turn.
    turn_s: f64,
}

/// What is summed up of a route.
#[derive(Clone, Copy, Default)]
struct Sum {
    requests: u64,
    app_s: f64,
}

struct Simulation {
    setup: Setup,
    slice_s: f64,
    now: f64,
    /// The CPU time that each worker that computes has had so far: all have the same speed.
    cpu: f64,
    requests: Vec<Request>,
    queue: VecDeque<usize>,
    workers: Vec<Worker>,
    /// Ends of waits, with worker and request.
    waits: BinaryHeap<Reverse<(At, usize, usize)>>,
    /// Ends of turns on the CPU clock, with the worker.
    turns: BinaryHeap<Reverse<(At, usize)>>,
    busy_threads: usize,
    counts: bool,
    counted_from: f64,
    core_s: f64,
    thread_s: f64,
    queue_s: Vec<f64>,
    whole_s: Vec<f64>,
    routes: Vec<Sum>,
}

impl Simulation {
    fn new(setup: Setup, slice_s: f64, routes: usize) -> Self {
        let worker = || Worker {
            idle: setup.threads,
            lock: VecDeque::new(),
            turn_s: 0.0,
        };
        Self {
            setup,
            slice_s,
            now: 0.0,
            cpu: 0.0,
            requests: Vec::new(),
            queue: VecDeque::new(),
            workers: (0..setup.workers).map(|_| worker()).collect(),
            waits: BinaryHeap::new(),
            turns: BinaryHeap::new(),
            busy_threads: 0,
            counts: false,
            counted_from: 0.0,
            core_s: 0.0,
            thread_s: 0.0,
            queue_s: Vec::new(),
            whole_s: Vec::new(),
            routes: vec![Sum::default(); routes],
        }
    }

    fn begin_to_count(&mut self) {
        (self.counts, self.counted_from) = (true, self.now);
        (self.core_s, self.thread_s) = (0.0, 0.0);
    }

    /// The part of a core that each worker that computes has.
    fn speed(&self) -> f64 {
        let computing = self.turns.len() as f64;
        if computing > self.setup.cores {
            self.setup.cores / computing
        } else {
            1.0
        }
    }

    fn run_until(&mut self, end: f64) {
        loop {
            let wait = self.waits.peek().map_or(f64::INFINITY, |next| next.0.0.0);
            let turn = self.turns.peek().map_or(f64::INFINITY, |next| {
                self.now + (next.0.0.0 - self.cpu).max(0.0) / self.speed()
            });
            let next = wait.min(turn);
            if next > end || next == f64::INFINITY {
                break;
            }
            self.advance(next);
            if turn <= wait {
                // Exactly there, whatever rounding has made of it.
                self.cpu = self.turns.peek().map_or(self.cpu, |next| next.0.0.0);
                self.end_turn();
            } else if let Some(Reverse((_, worker, request))) = self.waits.pop() {
                self.want_lock(worker, Thread::Running(request));
            }
        }
        if end.is_finite() {
            self.advance(end);
        }
    }

    fn advance(&mut self, to: f64) {
        let passed = to - self.now;
        let speed = self.speed();
        self.cpu += passed * speed;
        self.core_s += passed * speed * self.turns.len() as f64;
        self.thread_s += passed * self.busy_threads as f64;
        self.now = to;
    }

    fn arrive(&mut self, cost: Cost) {
        let parts = f64::from(cost.waits + 1);
        self.queue.push_back(self.requests.len());
        self.requests.push(Request {
            route: cost.route,
            arrived: self.now,
            taken: 0.0,
            counts: self.counts,
            left_s: cost.cpu_s / parts,
            part_s: cost.cpu_s / parts,
            wait_s: cost.wait_s / f64::from(cost.waits.max(1)),
            waits: cost.waits,
        });
        let mut idlest = None;
        for (number, worker) in self.workers.iter().enumerate() {
            if worker.idle > idlest.map_or(0, |(_, most)| most) {
                idlest = Some((number, worker.idle));
            }
        }
        if let Some((worker, _)) = idlest {
            self.workers[worker].idle -= 1;
            self.want_lock(worker, Thread::Woken);
        }
    }

    fn want_lock(&mut self, worker: usize, thread: Thread) {
        self.workers[worker].lock.push_back(thread);
        if self.workers[worker].lock.len() == 1 {
            self.begin_turn(worker);
        }
    }

    /// Gives the lock to the first thread that has something to do with it.
    fn begin_turn(&mut self, number: usize) {
        while let Some(&first) = self.workers[number].lock.front() {
            let request = match first {
                Thread::Running(request) => Some(request),
                Thread::Woken => self.take(number),
            };
            let Some(request) = request else {
                self.workers[number].lock.pop_front();
                self.workers[number].idle += 1;
                continue;
            };
            let turn_s = self.requests[request].left_s.min(self.slice_s);
            self.workers[number].turn_s = turn_s;
            self.turns.push(Reverse((At(self.cpu + turn_s), number)));
            return;
        }
    }

    /// The first thread of the worker takes the request that has waited longest.
    fn take(&mut self, worker: usize) -> Option<usize> {
        let request = self.queue.pop_front()?;
        let own = &mut self.requests[request];
        own.taken = self.now;
        if own.counts {
            self.queue_s.push(self.now - own.arrived);
        }
        self.busy_threads += 1;
        if let Some(first) = self.workers[worker].lock.front_mut() {
            *first = Thread::Running(request);
        }
        Some(request)
    }

    fn end_turn(&mut self) {
        let Some(Reverse((_, worker))) = self.turns.pop() else {
            return;
        };
        let Some(&Thread::Running(number)) = self.workers[worker].lock.front() else {
            return;
        };
        let request = &mut self.requests[number];
        request.left_s -= self.workers[worker].turn_s;
        if request.left_s > NOTHING_S {
            self.workers[worker].lock.rotate_left(1);
        } else if request.waits > 0 {
            request.waits -= 1;
            request.left_s = request.part_s;
            let end = At(self.now + request.wait_s);
            self.waits.push(Reverse((end, worker, number)));
            self.workers[worker].lock.pop_front();
        } else {
            self.finish(number);
            // The thread has the lock, so it takes the next request before any other thread gets it.
            self.workers[worker].lock[0] = Thread::Woken;
        }
        self.begin_turn(worker);
    }

    fn finish(&mut self, number: usize) {
        self.busy_threads -= 1;
        let request = &self.requests[number];
        if request.counts {
            self.whole_s.push(self.now - request.arrived);
            let sum = &mut self.routes[request.route];
            sum.requests += 1;
            sum.app_s += self.now - request.taken;
        }
    }

    fn forecast(self, overloaded: bool) -> Forecast {
        let counted_s = (self.now - self.counted_from).max(f64::MIN_POSITIVE);
        let threads = f64::from(self.setup.workers) * f64::from(self.setup.threads);
        Forecast {
            busy_cores: self.core_s / counted_s,
            busy_threads: self.thread_s / counted_s / threads,
            percentiles: match overloaded {
                true => None,
                false => Percentiles::of(self.queue_s, self.whole_s),
            },
            mean_app_s: self
                .routes
                .iter()
                .map(|sum| sum.app_s / sum.requests.max(1) as f64)
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests;
