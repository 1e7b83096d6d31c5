//! The state of the front at one moment, for `highball status`. It only reads.

use std::collections::BTreeMap;
use std::iter;

use exchange::scheduling::monotonic_ns;
use metrics::{ApplicationTotals, Events};
use serde::Serialize;

use crate::application_front::ApplicationFront;
use crate::dispatch::DispatcherStatus;
use crate::edge::Edge;
use crate::front::Front;
use crate::net::certificate_status::CertificateStatus;
use crate::saturation::Saturation;
use crate::serve::application::Application;
use crate::serve::cached::CacheStatus;

/// The front at one moment: all applications together.
#[derive(Clone, Debug, Serialize)]
pub struct Snapshot {
    /// What all applications have.
    #[serde(flatten)]
    pub all: ApplicationSnapshot,
    /// Connections that are open.
    pub connections: usize,
    /// The same for each thread of the front, that of the dispatcher first.
    pub connections_by_thread: Vec<usize>,
    /// Those of them that idle without buffers.
    pub resting: usize,
    /// The certificates of TLS.
    pub certificates: Vec<CertificateStatus>,
}

/// One application at one moment.
#[derive(Clone, Debug, Serialize)]
pub struct ApplicationSnapshot {
    /// The queue.
    pub queue: Queue,
    /// How much of the threads is in use.
    pub saturation: Saturation,
    /// The exchange's slots.
    pub slots: Slots,
    /// Requests ended, by outcome.
    pub requests: BTreeMap<&'static str, u64>,
    /// Responses sent, by the class of their status.
    pub responses: BTreeMap<&'static str, u64>,
    /// The response cache, if there is one.
    pub cache: Option<CacheStatus>,
    /// Requests run again after their worker died.
    pub retried: u64,
    /// Requests given up after two workers had died with them.
    pub killed_two_workers: u64,
    /// Where no worker can serve: the seconds until the next one is started, rounded up.
    pub next_start_s: Option<u32>,
    /// Requests that a worker has now.
    pub running: Vec<Running>,
    /// Threads that are busy with what follows a response.
    pub finishing: Vec<Finishing>,
}

/// Requests that no worker has yet.
#[derive(Clone, Debug, Serialize)]
pub struct Queue {
    /// How many wait now.
    pub length: usize,
    /// The most that waited at once.
    pub longest: usize,
    /// How many may wait.
    pub limit: usize,
    /// Seconds that the oldest of them has waited; 0 where none waits.
    pub age_s: f64,
}

/// Slots of the exchange.
#[derive(Clone, Debug, Serialize)]
pub struct Slots {
    /// In all.
    pub total: usize,
    /// Without a request.
    pub free: usize,
}

/// A request that a worker has.
#[derive(Clone, Debug, Serialize)]
pub struct Running {
    /// The worker's generation.
    pub generation: u32,
    /// The worker.
    pub worker: u16,
    /// Its thread.
    pub thread: u16,
    /// The method.
    pub method: String,
    /// The path.
    pub path: String,
    /// Milliseconds since the worker took it.
    pub since_ms: u64,
}

/// A thread that runs what the application wants done after a response.
#[derive(Clone, Debug, Serialize)]
pub struct Finishing {
    /// The worker's generation.
    pub generation: u32,
    /// The worker.
    pub worker: u16,
    /// Its thread.
    pub thread: u16,
    /// Milliseconds since the response.
    pub since_ms: u64,
}

impl std::ops::Deref for Snapshot {
    type Target = ApplicationSnapshot;

    fn deref(&self) -> &ApplicationSnapshot {
        &self.all
    }
}

/// Counts of a front that are no application's.
pub struct ServerCounts<'a>(&'a Edge);

impl<'a> ServerCounts<'a> {
    /// Those of this front.
    pub fn of(front: &'a Front) -> Self {
        Self(&front.edge)
    }

    /// What became of requests that are no application's, where there are several.
    pub fn totals(&self) -> Option<ApplicationTotals> {
        let routes = self.0.routes.as_ref();
        routes.map(|_| self.0.application.totals())
    }

    /// Adds what a server before this one has recorded of such requests.
    pub fn add_before(&self, totals: &ApplicationTotals) {
        if self.0.routes.is_some() {
            self.0.application.add_before(totals);
        }
    }

    /// Counts of [`metrics::OF_SERVER`].
    pub fn events(&self) -> &Events {
        &self.0.tls.events
    }
}

impl Front {
    /// The front at this moment.
    pub fn snapshot(&self) -> Snapshot {
        let mut all = self.applications()[0].snapshot();
        for one in &self.applications()[1..] {
            all.add(one.snapshot());
        }
        let edge = &self.edge;
        if edge.routes.is_some() {
            add(&mut all.requests, edge.application.outcomes());
            add(&mut all.responses, edge.application.status_classes());
        }
        let own = iter::once(edge.connections.len());
        let by_thread: Vec<usize> = own.chain(self.edges.connections_by_thread()).collect();
        Snapshot {
            all,
            connections: by_thread.iter().sum(),
            connections_by_thread: by_thread,
            resting: edge.connections.resting() + self.edges.resting(),
            certificates: CertificateStatus::of(&edge.tls.certificates),
        }
    }
}

impl ApplicationFront {
    /// The application at this moment.
    pub fn snapshot(&self) -> ApplicationSnapshot {
        ApplicationSnapshot::of(&self.application, self.dispatcher().status())
    }
}

/// Adds counts to others of the same names.
fn add(counts: &mut BTreeMap<&'static str, u64>, more: BTreeMap<&'static str, u64>) {
    for (name, count) in more {
        *counts.entry(name).or_default() += count;
    }
}

impl ApplicationSnapshot {
    /// Adds another application.
    fn add(&mut self, other: Self) {
        self.queue.length += other.queue.length;
        self.queue.longest = self.queue.longest.max(other.queue.longest);
        self.queue.limit += other.queue.limit;
        self.saturation = self.saturation.and(other.saturation);
        self.queue.age_s = self.queue.age_s.max(other.queue.age_s);
        self.slots.total += other.slots.total;
        self.slots.free += other.slots.free;
        add(&mut self.requests, other.requests);
        add(&mut self.responses, other.responses);
        // Each has its own cache.
        self.cache = None;
        self.retried += other.retried;
        self.killed_two_workers += other.killed_two_workers;
        // One that cannot serve does not keep the others from it.
        self.next_start_s = self.next_start_s.min(other.next_start_s);
        self.running.extend(other.running);
        self.finishing.extend(other.finishing);
    }

    fn of(application: &Application, dispatcher: DispatcherStatus) -> Self {
        let now = monotonic_ns();
        let waited_s = |since_ns: u64| now.saturating_sub(since_ns) as f64 / 1e9;
        let since_ms = |since_ns: u64| now.saturating_sub(since_ns) / 1_000_000;
        let running = dispatcher.running.iter().map(|one| Running {
            generation: one.by.generation,
            worker: one.by.worker,
            thread: one.thread,
            method: one.request.method.to_string(),
            path: printable(one.request.full_path()),
            since_ms: since_ms(one.since_ns),
        });
        let finishing = dispatcher.finishing.iter().map(|one| Finishing {
            generation: one.by.generation,
            worker: one.by.worker,
            thread: one.thread,
            since_ms: since_ms(one.since_ns),
        });
        Self {
            queue: Queue {
                length: dispatcher.waiting,
                longest: dispatcher.longest_queue,
                limit: dispatcher.queue_limit,
                age_s: dispatcher.oldest_ns.map_or(0.0, waited_s),
            },
            saturation: dispatcher.saturation,
            slots: Slots {
                total: dispatcher.slots,
                free: dispatcher.free_slots,
            },
            requests: application.outcomes(),
            responses: application.status_classes(),
            cache: application.cache.status(),
            retried: dispatcher.retries,
            killed_two_workers: dispatcher.poison,
            next_start_s: dispatcher.next_start_s,
            running: running.collect(),
            finishing: finishing.collect(),
        }
    }
}

/// A path as text of ASCII: what a terminal could act upon is escaped as a client should have.
fn printable(path: &[u8]) -> String {
    let mut text = String::with_capacity(path.len());
    for &byte in path {
        match byte {
            b' '..=b'~' => text.push(char::from(byte)),
            _ => text += &format!("%{byte:02X}"),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_path_in_the_status_is_printable_ascii() {
        let path = "/caf\u{e9}`\"\u{9b}\u{202e}".as_bytes();
        let shown = super::printable(path);
        assert_eq!(shown, "/caf%C3%A9`\"%C2%9B%E2%80%AE");
        assert_eq!(super::printable(b"/\xff%20"), "/%FF%20");
    }
}
