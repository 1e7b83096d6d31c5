//! The figures at the top of the page.

use serde::Serialize;

use super::Scope;
use crate::model::Application;
use crate::series::Point;
use crate::text::{NOTHING, age, counted, figure, maybe_duration, milliseconds, percent, size};

/// A figure.
#[derive(Debug, Serialize)]
pub(super) struct Tile {
    /// By which scripts and tests find it.
    pub(super) key: &'static str,
    pub(super) title: &'static str,
    pub(super) value: String,
    pub(super) detail: String,
    /// Whether it needs somebody.
    pub(super) bad: bool,
}

/// Points of the last minute.
const LAST_MINUTE: usize = 12;
/// A larger share of errors is marked.
const MANY_ERRORS: f64 = 0.01;

pub(super) fn tiles(scope: &Scope<'_>) -> Vec<Tile> {
    let recent = &scope.measured.recent;
    let minute = Point::joined(&recent[recent.len().saturating_sub(LAST_MINUTE)..]);
    let all = Point::joined(recent);
    vec![
        requests(recent.last(), all.as_ref()),
        errors(minute.as_ref(), all.as_ref()),
        percentile(minute.as_ref(), ("p50", "p50 latency", 0.5)),
        percentile(minute.as_ref(), ("p95", "p95 latency", 0.95)),
        percentile(minute.as_ref(), ("p99", "p99 latency", 0.99)),
        queue(&scope.applications),
        busy(&scope.applications),
        workers(&scope.applications),
        memory(&scope.applications),
        connections(scope),
    ]
}

fn requests(last: Option<&Point>, all: Option<&Point>) -> Tile {
    Tile {
        key: "rate",
        title: "Requests a second",
        value: last.map_or_else(|| NOTHING.to_owned(), |point| figure(point.rate())),
        detail: within(all, |all| counted(all.requests, "request")),
        bad: false,
    }
}

/// A text about the points that are there, with how much time that is.
fn within(all: Option<&Point>, text: impl Fn(&Point) -> String) -> String {
    match all {
        None => "no figures yet".to_owned(),
        Some(all) => format!("{} in {}", text(all), age(all.seconds.round() as u64)),
    }
}

fn errors(minute: Option<&Point>, all: Option<&Point>) -> Tile {
    let share = minute.and_then(Point::error_share);
    Tile {
        key: "errors",
        title: "Errors",
        value: share.map_or_else(|| NOTHING.to_owned(), percent),
        detail: within(all, |all| counted(all.errors, "error")),
        bad: share.is_some_and(|share| share > MANY_ERRORS),
    }
}

fn percentile(
    minute: Option<&Point>,
    (key, title, share): (&'static str, &'static str, f64),
) -> Tile {
    Tile {
        key,
        title,
        value: maybe_duration(minute.and_then(|point| point.percentile(share))),
        detail: "in the last minute".to_owned(),
        bad: false,
    }
}

fn queue(applications: &[&Application]) -> Tile {
    let queues = || applications.iter().map(|one| one.queue);
    let length: u64 = queues().map(|queue| queue.length).sum();
    let limit: u64 = queues().map(|queue| queue.limit).sum();
    let oldest = queues().filter_map(|queue| queue.oldest_ms).max();
    let longest = queues().map(|queue| queue.longest).max();
    Tile {
        key: "queue",
        title: "Queue",
        value: format!("{length} of {limit}"),
        detail: match oldest.filter(|_| length > 0) {
            Some(oldest) => format!("the oldest waits {}", milliseconds(oldest)),
            None => format!("longest {}", longest.unwrap_or_default()),
        },
        bad: queues().any(|queue| queue.limit > 0 && queue.length * 2 > queue.limit),
    }
}

/// Busy threads, and all threads.
pub(super) fn threads(applications: &[&Application]) -> (usize, usize) {
    let workers = || applications.iter().flat_map(|one| &one.workers);
    let threads = || workers().flat_map(|worker| &worker.threads);
    let busy = threads().filter(|thread| thread.is_busy()).count();
    (busy, threads().count())
}

fn busy(applications: &[&Application]) -> Tile {
    let (busy, all) = threads(applications);
    let share = busy as f64 / all as f64;
    Tile {
        key: "busy",
        title: "Busy threads",
        value: format!("{busy} of {all}"),
        detail: if all == 0 {
            "no worker serves".to_owned()
        } else {
            percent(share)
        },
        bad: all == 0,
    }
}

fn workers(applications: &[&Application]) -> Tile {
    let workers = || applications.iter().flat_map(|one| &one.workers);
    let ready = workers().filter(|worker| worker.state == "ready").count();
    let mut generations: Vec<u32> = workers().map(|worker| worker.generation).collect();
    generations.sort_unstable();
    generations.dedup();
    Tile {
        key: "workers",
        title: "Workers",
        value: format!("{ready} of {} ready", workers().count()),
        detail: match &generations[..] {
            [] => "none".to_owned(),
            [one] => format!("generation {one}"),
            [.., last] => format!("{} generations, newest {last}", generations.len()),
        },
        bad: ready == 0,
    }
}

fn memory(applications: &[&Application]) -> Tile {
    let workers = || applications.iter().flat_map(|one| &one.workers);
    let sum = |all: Vec<u64>| (!all.is_empty()).then(|| all.into_iter().sum::<u64>());
    let pss = sum(workers().filter_map(|worker| worker.pss_bytes).collect());
    let private = sum(workers()
        .filter_map(|worker| worker.private_bytes)
        .collect());
    let text = |bytes: Option<u64>| bytes.map_or_else(|| NOTHING.to_owned(), size);
    let (value, detail) = match pss {
        Some(_) => (
            text(pss),
            format!("PSS of workers; {} private", text(private)),
        ),
        None => (text(private), "private, of workers".to_owned()),
    };
    Tile {
        key: "memory",
        title: "Memory",
        value,
        detail,
        bad: false,
    }
}

fn connections(scope: &Scope<'_>) -> Tile {
    Tile {
        key: "connections",
        title: "Connections",
        value: scope.model.server.connections.to_string(),
        detail: "of the server".to_owned(),
        bad: false,
    }
}
