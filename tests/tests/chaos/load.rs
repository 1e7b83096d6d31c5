//! A constant load of requests with unique ids, over connections that are kept and over new ones. It repeats nothing: a
//! refused connection, a cut response, another status or another request's answer is a failure, and stays one.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::connection::{Connection, Fault, Request, TEST_TIMEOUT, Target};

/// What is sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate {
    /// Clients that keep their connection for as long as the server does.
    pub(crate) keeping: usize,
    /// Clients that open one for each request.
    pub(crate) opening: usize,
    /// From one request of a client to the next one, unless the answer takes longer.
    pub(crate) interval: Duration,
    /// Whether all requests take their time; otherwise one in twenty does.
    pub(crate) slow: bool,
}

/// One request that has ended.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) method: &'static str,
    pub(crate) id: u64,
    /// What the server went through when it was sent.
    pub(crate) phase: usize,
    /// Why it counts as failed.
    pub(crate) failure: Option<String>,
}

#[derive(Debug)]
struct Shared {
    target: Target,
    interval: Duration,
    slow: bool,
    over: AtomicBool,
    phase: AtomicUsize,
    next_id: AtomicU64,
    /// How many requests each client has ended.
    ended: Vec<AtomicU64>,
    sent: Mutex<Vec<Sent>>,
}

/// A load that runs until it is stopped.
#[derive(Debug)]
pub(crate) struct Load {
    shared: Arc<Shared>,
    clients: Vec<JoinHandle<()>>,
}

impl Load {
    /// Begins, with ids from `first_id` on.
    pub(crate) fn start(target: Target, rate: Rate, first_id: u64) -> Self {
        let count = rate.keeping + rate.opening;
        let shared = Arc::new(Shared {
            target,
            interval: rate.interval,
            slow: rate.slow,
            over: AtomicBool::new(false),
            phase: AtomicUsize::new(0),
            next_id: AtomicU64::new(first_id),
            ended: (0..count).map(|_| AtomicU64::new(0)).collect(),
            sent: Mutex::default(),
        });
        let client = |number: usize| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.client(number, number < rate.keeping, count))
        };
        let clients = (0..count).map(client).collect();
        Self { shared, clients }
    }

    /// Requests that are sent from now on belong to this phase.
    pub(crate) fn enter(&self, phase: usize) {
        self.shared.phase.store(phase, Ordering::SeqCst);
    }

    /// Waits until every client has ended `count` requests that it had not begun before, so that whatever was under way
    /// is over.
    ///
    /// # Panics
    /// When a client is stuck.
    pub(crate) fn settle(&self, count: u64) {
        let reached: Vec<u64> = (self.shared.ended.iter())
            .map(|ended| ended.load(Ordering::SeqCst) + count + 1)
            .collect();
        let deadline = Instant::now() + 2 * TEST_TIMEOUT + self.shared.interval * count as u32;
        let done = || {
            let ended = self.shared.ended.iter().zip(&reached);
            ended.fold(true, |done, (ended, reached)| {
                done & (ended.load(Ordering::SeqCst) >= *reached)
            })
        };
        while !done() {
            assert!(Instant::now() < deadline, "a client of the load is stuck");
            thread::park_timeout(self.shared.interval);
        }
    }

    /// How many requests have ended.
    pub(crate) fn ended(&self) -> u64 {
        let ended = self.shared.ended.iter();
        ended.map(|count| count.load(Ordering::SeqCst)).sum()
    }

    /// Ends it, and gives every request that was sent.
    ///
    /// # Panics
    /// When a client panicked.
    pub(crate) fn end(self) -> Vec<Sent> {
        self.shared.over.store(true, Ordering::SeqCst);
        for client in self.clients {
            client.join().expect("no client panics");
        }
        let mut sent = self.shared.sent.lock().expect("no client panics");
        std::mem::take(&mut *sent)
    }
}

impl Shared {
    fn client(&self, number: usize, keeps: bool, count: usize) {
        let mut kept: Option<Connection> = None;
        // Not all at once.
        let mut due = Instant::now() + self.interval * number as u32 / count as u32;
        while !self.over.load(Ordering::SeqCst) {
            // This is the load's own clock, and no wait for anything.
            thread::sleep(due.saturating_duration_since(Instant::now()));
            due = Instant::now().max(due + self.interval);
            let phase = self.phase.load(Ordering::SeqCst);
            let id = self.next_id.fetch_add(1, Ordering::SeqCst);
            let method = ["GET", "POST"][id as usize % 2];
            // As any client with a pool: a connection that has ended is no longer used.
            let connection = kept.take_if(Connection::is_idle);
            kept = None;
            let outcome = self.request(number, connection, method, id);
            let failure = match outcome {
                Ok(connection) => {
                    kept = connection.filter(|_| keeps);
                    None
                }
                Err(reason) => Some(reason),
            };
            let sent = Sent {
                method,
                id,
                phase,
                failure,
            };
            self.sent.lock().expect("no client panics").push(sent);
            self.ended[number].fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Sends one request and checks its answer; gives the connection back where it may be used again. A request that the
    /// server refuses to begin goes to another connection, as the protocol wants it.
    fn request(
        &self,
        number: usize,
        mut connection: Option<Connection>,
        method: &'static str,
        id: u64,
    ) -> Result<Option<Connection>, String> {
        // Mostly quick ones; some take their time, come in pieces, or bring a body that needs a file.
        let kind = match id % 40 {
            _ if self.slow => "slow",
            7 | 8 => "slow",
            17 | 18 => "stream",
            _ => "quick",
        };
        let length = match (method, id % 100) {
            ("GET", _) => 0,
            (_, 31) => 100_000,
            _ => 10,
        };
        let (path, body) = (format!("/{kind}/{id}"), "b".repeat(length));
        let request = Request {
            method,
            path: &path,
            body: &body,
        };
        loop {
            let reused = if connection.is_some() {
                " (kept connection)"
            } else {
                ""
            };
            let mut client = match connection.take() {
                Some(client) => client,
                None => self.target.connect(number)?,
            };
            let answer = match client.ask(request) {
                Ok(answer) => answer,
                Err(Fault::Refused) => continue,
                Err(Fault::Failed(fault)) => return Err(format!("{fault}{reused}")),
            };
            if answer.status != 200 {
                return Err(format!("status {}", answer.status));
            }
            if answer.text != format!("{id} {length}") {
                return Err(format!("another answer: {:?}", answer.text));
            }
            return Ok(Some(client).filter(|_| answer.stays));
        }
    }
}
