//! Random words over the memory of workers that are at work: the front serves on, whatever they are. Each round either
//! has its requests answered as ever, or the front says that the memory is damaged and goes on with fresh memory.
//!
//! Workers are processes of their own, which are killed as a supervisor would do it. `HIGHBALL_SCRIBBLES` is the number
//! of rounds, `HIGHBALL_SEED` makes them the same once more. What workers can do to each other is left out: they trust
//! each other, and a word that a sound worker could have written is believed.

#![allow(clippy::unwrap_used, reason = "they are tests")]

#[path = "support/front.rs"]
mod support;

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use exchange::{Alarm, Dispatcher as _, WorkerId};
use exchange::{Geometry, Region};
use rustix::process::{Signal, set_parent_process_death_signal};
use support::{Player, Server};
use test_support::{Client, Fault};

const WORKERS: u16 = 2;
const THREADS: u16 = 2;
/// Fronts that are scribbled over at once.
const LANES: u64 = 4;
const ROUNDS: u64 = 500;
/// The most rounds of one front: a front of a test has so long and no longer.
const PIECE: u64 = 250;
/// Requests of a round, at once.
const CLIENTS: usize = 4;
/// The number of this worker, where this process is one.
const WORKER: &str = "HIGHBALL_TEST_WORKER";

/// Draws, the same ones for the same seed (xorshift).
struct Draws(u64);

impl Draws {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// A place in the region: mostly among the words, rarely among the bytes of requests and responses.
    fn place(&mut self, geometry: Geometry, size: u64) -> u64 {
        const PAGE: u64 = 4096;
        let (request, response) = (geometry.request_bytes, geometry.response_bytes);
        let slot = PAGE + u64::from(request) + u64::from(response);
        let board = size - slot * u64::from(geometry.slots);
        let start = board + slot * self.below(geometry.slots.into());
        match self.below(10) {
            // Most words begin a cache line; the ready ring's do not.
            0..5 => self.below(board) & !63,
            5 => self.below(board) & !7,
            6..8 => start + (self.below(PAGE / 8) & !63),
            8 => start + PAGE + (self.below(512) & !7),
            _ => start + PAGE + u64::from(request) + (self.below(4096) & !7),
        }
    }

    /// A word for one that is there.
    fn word(&mut self, there: u64) -> u64 {
        match self.below(7) {
            0 => self.below(8),
            4 => there ^ 1 << self.below(64),
            5 => there.wrapping_add(self.below(64)),
            1 => u64::MAX,
            2 => 1 << 63,
            3 => 1 << (32 + self.below(31)),
            _ => self.next(),
        }
    }
}

#[test]
fn random_words_in_shared_memory_stop_no_front_and_mix_no_responses() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let rounds = number("HIGHBALL_SCRIBBLES").unwrap_or(ROUNDS);
    let seed = number("HIGHBALL_SEED").unwrap_or_else(|| u64::from(std::process::id()) << 20);
    println!("HIGHBALL_SEED={seed} HIGHBALL_SCRIBBLES={rounds}");
    let counts = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for lane in 0..LANES {
            let mut draws = Draws((seed + lane + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
            let counts = &counts;
            scope.spawn(move || {
                let mut left = rounds.div_ceil(LANES);
                while left > 0 {
                    let piece = left.min(PIECE);
                    Lane::new(Draws(draws.next()), counts).run(piece);
                    left -= piece;
                    println!("lane {lane}: {left} rounds left");
                }
            });
        }
    });
    let counts = counts.into_inner().unwrap();
    println!("{counts:#?}");
    assert!(counts["200"] > 0, "nothing was answered");
    assert!(counts["damaged"] > 0, "nothing was found");
}

/// One front, its workers and clients.
struct Lane<'a> {
    server: Server,
    draws: Draws,
    counts: &'a Mutex<BTreeMap<String, u64>>,
    damaged: AtomicU64,
    over: AtomicBool,
}

impl<'a> Lane<'a> {
    fn new(draws: Draws, counts: &'a Mutex<BTreeMap<String, u64>>) -> Self {
        let server = Server::start(|settings| {
            (settings.workers, settings.threads) = (WORKERS.into(), THREADS.into());
            settings.request_timeout = Some(Duration::from_secs(5));
            settings.request_grace = Duration::ZERO;
        });
        Self {
            server,
            draws,
            counts,
            damaged: AtomicU64::new(0),
            over: AtomicBool::new(false),
        }
    }

    fn run(mut self, rounds: u64) {
        let alarms = self.server.alarms();
        let mut draws = Draws(self.draws.next());
        std::thread::scope(|scope| {
            let lane = &self;
            scope.spawn(move || lane.supervise(&alarms));
            let mut clients: Vec<Client> = (0..CLIENTS).map(|_| lane.server.connect()).collect();
            let mut tokens = Vec::new();
            for _ in 0..rounds {
                lane.round(&mut draws, &mut clients, &mut tokens);
            }
            lane.server.until_quiet();
            lane.over.store(true, Ordering::SeqCst);
        });
        let damaged = self.damaged.load(Ordering::SeqCst);
        self.count("damaged", damaged);
    }

    fn count(&self, what: &str, times: u64) {
        *self
            .counts
            .lock()
            .unwrap()
            .entry(what.to_owned())
            .or_default() += times;
    }

    /// Requests at once, some words next to them, and all answers.
    fn round(&self, draws: &mut Draws, clients: &mut [Client], tokens: &mut Vec<String>) {
        let first = tokens.len();
        for client in &mut *clients {
            let token = format!("{:016x}{:016x}", draws.next(), draws.next());
            client.send(format!("GET /{token} HTTP/1.1\r\nHost: test\r\n\r\n"));
            tokens.push(token);
        }
        // None while it is known to be damaged and not replaced yet.
        let memory = self
            .server
            .with(|front| front.applications()[0].dispatcher().files(None).ok());
        if let Some([memory, _]) = memory {
            scribble(&File::from(memory), draws);
        }
        for (client, own) in clients.iter_mut().zip(first..) {
            let answer = client.try_response("GET");
            let body = match answer {
                Ok(response) => {
                    self.count(&response.status().to_string(), 1);
                    response.body
                }
                Err(Fault::TimedOut { .. }) => panic!("no answer: {:?}", tokens[own]),
                Err(fault) => {
                    self.count("cut", 1);
                    *client = self.server.connect();
                    match fault {
                        Fault::Truncated { response, .. } => response.body,
                        _ => Vec::new(),
                    }
                }
            };
            let body = String::from_utf8_lossy(&body);
            // What it shows of others is of these rounds, if of any.
            for (number, token) in tokens.iter().enumerate().rev().take(1000) {
                assert!(number == own || !body.contains(token.as_str()), "{body}");
            }
        }
    }

    /// Does what the supervisor would do.
    fn supervise(&self, alarms: &Receiver<Alarm>) {
        let mut workers: Vec<Worker> = (0..WORKERS).map(|index| self.fork(index)).collect();
        while !self.over.load(Ordering::SeqCst) {
            match alarms.recv_timeout(Duration::from_millis(5)) {
                Ok(Alarm::Corrupt(..)) => {
                    self.damaged.fetch_add(1, Ordering::SeqCst);
                    for index in 0..WORKERS {
                        self.replace(&mut workers, index);
                    }
                }
                Ok(Alarm::Stalled(by, _) | Alarm::OnlyLateWork(by)) => {
                    self.count("stuck", 1);
                    self.replace(&mut workers, by.worker);
                }
                Ok(Alarm::Late(_) | Alarm::Slow(_)) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            for index in 0..WORKERS {
                if workers[usize::from(index)].has_ended() {
                    self.count("ended", 1);
                    self.replace(&mut workers, index);
                }
            }
        }
    }

    fn replace(&self, workers: &mut [Worker], index: u16) {
        workers[usize::from(index)].kill();
        self.server.reclaim(index);
        workers[usize::from(index)] = self.fork(index);
    }

    /// A worker's process: this program once more, with the memory and the doorbell in place of stdin and stderr. None
    /// while the memory is known to be damaged, of which an alarm follows.
    fn fork(&self, index: u16) -> Worker {
        let files = self.server.with(move |front| {
            let files = front.applications()[0].dispatcher().files(None).ok()?;
            front.applications()[0]
                .dispatcher()
                .worker_starts(WorkerId::new(1, index));
            front.applications()[0]
                .dispatcher()
                .worker_up(WorkerId::new(1, index));
            Some(files)
        });
        let Some([memory, bell]) = files else {
            return Worker(None);
        };
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "this_process_is_a_worker_where_it_is_told_so"])
            .env(WORKER, index.to_string())
            .stdin(Stdio::from(memory))
            .stdout(Stdio::null())
            .stderr(Stdio::from(bell))
            .spawn()
            .unwrap();
        Worker(Some(child))
    }
}

fn scribble(memory: &File, draws: &mut Draws) {
    let size = memory.metadata().unwrap().len();
    for _ in 0..1 + draws.below(3) {
        let place = draws.place(geometry(), size);
        let mut word = [0; 8];
        memory.read_at(&mut word, place).unwrap();
        let word = draws.word(u64::from_le_bytes(word)).to_le_bytes();
        memory.write_at(&word, place).unwrap();
    }
}

/// A process, if there is one; killed when dropped.
struct Worker(Option<Child>);

impl Worker {
    fn has_ended(&mut self) -> bool {
        let child = self.0.as_mut();
        child.is_some_and(|child| child.try_wait().unwrap().is_some())
    }

    fn kill(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            child.wait().unwrap();
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The sizes of the fronts' regions.
fn geometry() -> Geometry {
    static GEOMETRY: std::sync::OnceLock<Geometry> = std::sync::OnceLock::new();
    *GEOMETRY.get_or_init(|| {
        let server = Server::start(|settings| {
            (settings.workers, settings.threads) = (WORKERS.into(), THREADS.into());
        });
        server.region().geometry()
    })
}

#[test]
fn this_process_is_a_worker_where_it_is_told_so() {
    let Some(index) = std::env::var(WORKER).ok() else {
        return;
    };
    set_parent_process_death_signal(Some(Signal::KILL)).unwrap();
    // Stderr is the doorbell.
    std::panic::set_hook(Box::new(|_| std::process::exit(1)));
    let own = |file: &dyn AsFd| file.as_fd().try_clone_to_owned().unwrap();
    let memory: OwnedFd = own(&std::io::stdin());
    let bell = own(&std::io::stderr());
    let region = Region::open(memory).unwrap();
    let player = Player::of(region, bell, index.parse().unwrap());
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let mut thread = player.thread(thread);
            scope.spawn(move || {
                while let Some(taken) = thread.take_or_stop() {
                    match taken.try_path() {
                        Some(path) => taken.answer(&path.repeat(40)),
                        None => taken.finish(),
                    }
                }
            });
        }
    });
    std::process::exit(0);
}
