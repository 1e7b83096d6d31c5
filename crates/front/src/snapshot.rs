//! The state of the front at one moment, for `highball status`. It only reads.

use std::collections::BTreeMap;

use exchange::scheduling::monotonic_ns;
use serde::Serialize;

use crate::dispatch::DispatcherStatus;
use crate::edge::Edge;

/// The front at one moment.
#[derive(Clone, Debug, Serialize)]
pub struct Snapshot {
    /// The queue.
    pub queue: Queue,
    /// The exchange's slots.
    pub slots: Slots,
    /// Connections that are open.
    pub connections: usize,
    /// Those of them that idle without buffers.
    pub resting: usize,
    /// Requests ended, by outcome.
    pub requests: BTreeMap<&'static str, u64>,
    /// Responses sent, by the class of their status.
    pub responses: BTreeMap<&'static str, u64>,
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

impl Snapshot {
    pub(crate) fn of(edge: &Edge, dispatcher: DispatcherStatus) -> Self {
        let now = monotonic_ns();
        let since_ms = |since_ns: u64| now.saturating_sub(since_ns) / 1_000_000;
        let running = dispatcher.running.iter().map(|one| Running {
            generation: one.by.generation,
            worker: one.by.worker,
            thread: one.thread,
            method: one.request.method.to_string(),
            path: printable(one.request.path()),
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
            },
            slots: Slots {
                total: dispatcher.slots,
                free: dispatcher.free_slots,
            },
            connections: edge.connections.len(),
            resting: edge.connections.resting(),
            requests: edge.counters.outcomes(),
            responses: edge.counters.status_classes(),
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
