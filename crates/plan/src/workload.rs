//! The requests of an application as draws: a route by its share, then CPU time and wait from what was recorded of it. It
//! knows no queue.

use rand::RngExt as _;
use rand_xoshiro::SplitMix64;

use crate::recording::{RecordedRoute, Recording};
use crate::times::Draw;

/// A request waits at most so many times: more change little, and each costs the simulation.
const MAX_WAITS: f64 = 8.0;
/// Waits that are together a smaller part of a request's CPU time are no waits for others: clocks that are read at different
/// moments, or a core that something else used.
const LEAST_WAIT_PART: f64 = 0.05;

/// There is nothing to draw from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NothingRecorded;

/// The requests of an application.
#[derive(Clone, Debug)]
pub struct Workload {
    routes: Vec<Route>,
}

#[derive(Clone, Debug)]
struct Route {
    /// The share of this route and of those before it.
    up_to: f64,
    share: f64,
    cpu: Draw,
    wait: Draw,
    means: Means,
    /// In how many parts it waits.
    waits: u32,
}

/// Mean times of a route's requests, in seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Means {
    pub(crate) cpu_s: f64,
    /// As it was recorded.
    pub(crate) recorded_wait_s: f64,
    /// As it is drawn.
    pub(crate) wait_s: f64,
}

/// What a request takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Cost {
    /// The number of its route.
    pub(crate) route: usize,
    /// CPU time, in seconds.
    pub(crate) cpu_s: f64,
    /// Time without Ruby's lock and without a core, in seconds.
    pub(crate) wait_s: f64,
    /// In how many parts it waits; CPU time is before, between and after them.
    pub(crate) waits: u32,
}

impl Workload {
    /// The requests that were recorded.
    ///
    /// # Errors
    /// No request was.
    pub fn of(recording: &Recording) -> Result<Self, NothingRecorded> {
        let all = recording.requests();
        let mut up_to = 0.0;
        let known = recording.routes.iter();
        let known = known.filter(|route| route.cpu.count() > 0);
        let routes: Vec<_> = known
            .map(|route| {
                let share = route.cpu.count() as f64 / all as f64;
                up_to += share;
                Route::of(route, share, up_to)
            })
            .collect();
        if routes.is_empty() {
            return Err(NothingRecorded);
        }
        Ok(Self { routes })
    }

    /// The mean CPU time of a request, in seconds.
    pub fn mean_cpu_s(&self) -> f64 {
        let parts = self.routes.iter().map(|one| one.share * one.means.cpu_s);
        parts.sum()
    }

    /// The mean time of a request that waits for nobody else's, in seconds.
    pub fn mean_s(&self) -> f64 {
        let waits = self.routes.iter().map(|one| one.share * one.means.wait_s);
        self.mean_cpu_s() + waits.sum::<f64>()
    }

    /// The numbers of all routes.
    pub(crate) fn routes(&self) -> std::ops::Range<usize> {
        0..self.routes.len()
    }

    /// The mean times of a route's requests.
    pub(crate) fn means(&self, route: usize) -> Means {
        self.routes[route].means
    }

    /// Makes the waits of a route's requests that long in the mean, in seconds.
    pub(crate) fn set_wait_s(&mut self, route: usize, wait_s: f64) {
        self.routes[route].means.wait_s = wait_s;
    }

    /// Draws a request.
    pub(crate) fn next(&self, random: &mut SplitMix64) -> Cost {
        let which = random.random::<f64>();
        let at = self.routes.partition_point(|route| route.up_to < which);
        let at = at.min(self.routes.len() - 1);
        let route = &self.routes[at];
        let means = route.means;
        let cpu_s = route.cpu.next_s(random);
        let wait_s = match means.recorded_wait_s > 0.0 {
            true => route.wait.next_s(random) * means.wait_s / means.recorded_wait_s,
            false => 0.0,
        };
        if means.wait_s < LEAST_WAIT_PART * means.cpu_s {
            return Cost {
                route: at,
                cpu_s: cpu_s + wait_s,
                wait_s: 0.0,
                waits: 0,
            };
        }
        Cost {
            route: at,
            cpu_s,
            wait_s,
            waits: route.waits,
        }
    }
}

impl Route {
    fn of(recorded: &RecordedRoute, share: f64, up_to: f64) -> Self {
        Self {
            up_to,
            share,
            cpu: Draw::of(&recorded.cpu),
            wait: Draw::of(&recorded.wait),
            means: Means {
                cpu_s: recorded.cpu.mean_s(),
                recorded_wait_s: recorded.wait.mean_s(),
                wait_s: recorded.wait.mean_s(),
            },
            waits: recorded.queries.round().clamp(1.0, MAX_WAITS) as u32,
        }
    }
}
