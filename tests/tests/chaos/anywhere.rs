//! The counted zero while any process but the front is killed at any moment: workers, the templates that they fork, and the ones
//! before these, while new templates are forked by command and by count, and the number of workers changes by command and by load.
//! Afterwards the server has its workers, its free slots, and no process, descriptor or shared memory more than before.
//!
//! `CHAOS_KILLS` says how many are killed, `CHAOS_SEED` repeats the choices of another run, as far as the processes are the same.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use test_support::{Process, Program, Ran, Server, TEST_TIMEOUT};

use crate::connection::Target;
use crate::ledger::{Event, Ledger};
use crate::load::{Load, Rate, Sent};
use crate::soak::Holdings;
use crate::{THREADS, application, keep, restart, status, templates, until};

/// A new template is forked early and often; `boot_timeout` bounds what waits for a process that is gone.
const SETTINGS: &str =
    "workers = \"2..6\"\nthreads = 3\nrefork = [150, 200, 250, 300]\nboot_timeout = \"30s\"\n";
const LEAST_WORKERS: usize = 2;
/// A connection to a database must not be shared with the processes that are forked.
const HOOKS: &str = "before_fork { Seen.close }\n";
/// Always.
const BASE: Rate = Rate {
    keeping: 9,
    opening: 3,
    interval: Duration::from_millis(40),
    slow: false,
};
/// Now and then: more than the least workers have threads for.
const PEAK: Rate = Rate {
    keeping: 20,
    opening: 0,
    interval: Duration::from_millis(20),
    slow: true,
};
/// So many kills are one step of the load.
const KILLS_IN_STEP: u64 = 10;
/// What the operator wants as the number of workers.
const SIZES: [&str; 7] = ["2", "3", "4", "5", "6", "default", "default"];
/// Between two commands of the operator.
const PAUSE: Duration = Duration::from_millis(100);

/// Choices that another run with the same seed repeats.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        // Xorshift stays at zero.
        Self(seed.max(1))
    }

    /// From 0 to one less than that.
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end.max(1) as u64) as usize
    }
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    let number = text.parse();
    Some(number.unwrap_or_else(|_| panic!("{variable}={text}: not a number")))
}

/// Somebody who has templates forked all the time, and from some moment on changes the number of workers, which follows the
/// load before that.
struct Operator {
    over: Arc<AtomicBool>,
    scales: Arc<AtomicBool>,
    thread: JoinHandle<Orders>,
}

/// What the operator has got.
#[derive(Clone, Copy, Debug, Default)]
struct Orders {
    reforked: usize,
    not_reforked: usize,
    scaled: usize,
    not_scaled: usize,
}

impl Operator {
    fn begin(folder: &Path, mut random: Random) -> Self {
        let folder = folder.to_owned();
        let (over, scales) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        let (is_over, may_scale) = (Arc::clone(&over), Arc::clone(&scales));
        let thread = std::thread::spawn(move || {
            let mut orders = Orders::default();
            while !is_over.load(Ordering::Relaxed) {
                let is_turn = random.below(3) == 0 || orders.scaled == 0;
                if is_turn && may_scale.load(Ordering::Relaxed) {
                    let size = SIZES[random.below(SIZES.len())];
                    match run(&folder, &["scale", size]).status.success() {
                        true => orders.scaled += 1,
                        false => orders.not_scaled += 1,
                    }
                } else {
                    match run(&folder, &["refork"]).status.success() {
                        true => orders.reforked += 1,
                        false => orders.not_reforked += 1,
                    }
                }
                std::thread::park_timeout(PAUSE);
            }
            orders
        });
        Self {
            over,
            scales,
            thread,
        }
    }

    fn scale_from_now_on(&self) {
        self.scales.store(true, Ordering::Relaxed);
    }

    fn end(self) -> Orders {
        self.over.store(true, Ordering::Relaxed);
        self.thread.join().expect("it does not panic")
    }
}

fn run(folder: &Path, command: &[&str]) -> Ran {
    let program = Program::highball(command).current_dir(folder);
    program.patience(4 * TEST_TIMEOUT).run()
}

/// How many processes of which kind were killed.
#[derive(Clone, Copy, Debug, Default)]
struct Killed {
    workers: usize,
    templates: usize,
    /// Forked templates and workers that no status names yet, or no more.
    unnamed: usize,
}

/// The scene.
struct Scene {
    server: Server,
    random: Random,
    load: Load,
    peak: Option<Load>,
    /// Of the peaks that are over.
    sent: Vec<Sent>,
    killed: Killed,
}

impl Scene {
    /// Kills one process, when some requests have passed and enough workers serve, so that nobody is refused.
    fn kill_one(&mut self) {
        let after = self.load.ended() + self.random.below(20) as u64;
        until("requests are served", || self.load.ended() >= after);
        let is_ready = || {
            let ready = status(&self.server).ready_workers().into_iter();
            ready.filter(|one| one.is_alive()).count() >= LEAST_WORKERS
        };
        until("enough workers serve", is_ready);
        let (victim, count) = self.victim();
        victim.kill();
        *count += 1;
    }

    /// A process, and where it counts: any at all, or one of a kind that is rare.
    fn victim(&mut self) -> (Process, &mut usize) {
        let status = status(&self.server);
        let (workers, templates) = (status.processes("worker"), status.processes("template"));
        let ready = status.ready_workers();
        let known: Vec<Process> = workers.iter().chain(&templates).copied().collect();
        let front = self.server.process();
        let mut all = self.server.family().members();
        all.retain(|one| *one != front);
        let without = |some: &[Process], those: &[Process]| {
            let left = some.iter().filter(|one| !those.contains(one));
            left.copied().collect::<Vec<_>>()
        };
        // They start or leave, or they are templates.
        let (unnamed, rare) = (without(&all, &known), without(&known, &ready));
        let choice = match self.random.below(3) {
            0 if !unnamed.is_empty() => &unnamed,
            0 | 1 if !rare.is_empty() => &rare,
            _ => &all,
        };
        let victim = choice[self.random.below(choice.len())];
        let count = match () {
            () if templates.contains(&victim) => &mut self.killed.templates,
            () if workers.contains(&victim) => &mut self.killed.workers,
            () => &mut self.killed.unnamed,
        };
        (victim, count)
    }

    /// Begins a peak of the load, or ends the one that there is.
    fn step(&mut self, phase: usize) {
        match self.peak.take() {
            Some(peak) => self.sent.extend(peak.end()),
            None => {
                // Far from all other ids.
                let first = 10_000_000 + 2 * self.sent.len() as u64;
                let target = Target::Tcp(self.server.address());
                let peak = Load::start(target, PEAK, first);
                peak.enter(phase);
                self.peak = Some(peak);
            }
        }
    }
}

/// Waits until all is well again with the least number of workers, after one more template was forked.
fn recover(server: &Server) {
    until("the number of workers is set", || {
        let folder = server.dir();
        run(folder, &["scale", "2"]).status.success()
    });
    until("a template can be forked again", || {
        server.command(&["refork"]).status.success()
    });
    expect_whole(server);
}

/// Waits for one template and the least number of workers, and no other process.
fn expect_whole(server: &Server) {
    until("the server has its workers, and nothing else", || {
        let workers = status(server).ready_workers();
        let family = server.family().members().len();
        workers.len() == LEAST_WORKERS
            && templates(server).len() == 1
            && family == LEAST_WORKERS + 2
    });
}

/// A fresh generation that has served nothing, and so holds what it does at the least.
fn fresh(server: &Server, version: &str) -> Holdings {
    restart(server, version);
    expect_whole(server);
    Holdings::at_rest(server)
}

/// What the server holds, once the front has let go of the last template that left: it gives that a moment to end.
fn expect_no_more(server: &Server, before: &Holdings) -> Holdings {
    until("the front holds no more descriptors than before", || {
        server.process().descriptors() <= Some(before.front_descriptors)
    });
    let now = Holdings::at_rest(server);
    assert_eq!(now.processes, before.processes);
    assert_eq!(now.front_descriptors, before.front_descriptors);
    assert_eq!(now.shared_files, before.shared_files);
    assert_eq!(now.shared_bytes, before.shared_bytes);
    assert_eq!(now.shared_mappings, before.shared_mappings);
    now
}

/// Every failure is one that a killed worker held, and the log says so.
fn expect_counted(ledger: &Ledger, status: &Value, kills: usize) {
    let failures = ledger.failures.join("\n");
    assert_eq!(ledger.failed(&[Event::Calm]), 0, "{failures}");
    assert!(ledger.failures.len() <= kills * THREADS, "{failures}");
    // It died before the response had begun, or within it.
    let held = ["worker_died", "aborted"].map(|name| ledger.outcomes.get(name).copied());
    let held: usize = held.into_iter().flatten().sum();
    assert_eq!(held, ledger.failures.len(), "{failures}");
    let all: usize = ledger.outcomes.values().sum();
    let ok = ledger.outcomes.get("ok").copied();
    assert_eq!(all, ok.unwrap_or(0) + held, "{:?}", ledger.outcomes);
    // A safe request is run again, unless its response had begun or it has met two deaths.
    let gets = ledger.failures.iter();
    let gets = gets.filter(|one| one.contains(": GET ") && !one.contains("within the body"));
    let met_two = status["killed_two_workers"].as_u64().unwrap_or(0);
    assert!(gets.count() as u64 <= met_two, "{met_two}: {failures}");
    assert_eq!(ledger.posts_twice, [0; 0], "run twice");
    assert_eq!(ledger.unseen, [0; 0], "answered, and never seen");
    assert_eq!(ledger.unlogged, [0; 0], "not in the log");
    assert_eq!(ledger.logged_twice, [0; 0], "twice in the log");
}

/// Whether the load wanted more workers, which came, unless the log says that the processor is busy already.
fn is_by_load(line: &str) -> bool {
    let waits = ["waited longer than 50ms", "wait longer than 50ms"];
    waits.iter().any(|text| line.contains(text))
}

#[test]
fn the_counted_zero_while_any_process_is_killed_amid_reforks_and_scaling() {
    let kills = number("CHAOS_KILLS").unwrap_or(40);
    let seed = number("CHAOS_SEED").unwrap_or_else(|| RandomState::new().hash_one(kills));
    println!("CHAOS_KILLS={kills} CHAOS_SEED={seed}");
    let began = Instant::now();
    let application = application();
    application.dir().write("config/highball.rb", HOOKS);
    let server = crate::builder(application).settings_file(SETTINGS).start();
    let target = Target::Tcp(server.address());
    // Warm first: what is allocated once is no leak. So few requests that no template is due.
    let load = Load::start(target.clone(), BASE, 1);
    load.settle(5);
    let mut sent = load.end();
    let before = fresh(&server, "2");

    let phases = [Event::Calm, Event::KillAnywhere, Event::Calm];
    let mut random = Random::new(seed);
    let orders = Random::new(random.below(usize::MAX) as u64);
    let load = Load::start(target, BASE, 1_000_000);
    load.settle(5);
    load.enter(1);
    load.settle(1);
    let mut scene = Scene {
        server,
        random,
        load,
        peak: None,
        sent: Vec::new(),
        killed: Killed::default(),
    };
    scene.step(1);
    until("the number of workers follows the load", || {
        let lines = scene.server.log().lines();
        lines.iter().any(|line| is_by_load(line))
    });
    let operator = Operator::begin(scene.server.dir(), orders);
    for number in 1..=kills {
        if number % KILLS_IN_STEP == 0 {
            scene.step(1);
        }
        if number == kills / 2 {
            operator.scale_from_now_on();
        }
        scene.kill_one();
    }
    let orders = operator.end();
    scene.load.settle(2);
    if scene.peak.is_some() {
        scene.step(1);
    }
    scene.load.enter(2);
    recover(&scene.server);
    scene.load.settle(5);
    let Scene {
        server,
        load,
        sent: of_peaks,
        killed,
        ..
    } = scene;
    sent.extend(load.end());
    sent.extend(of_peaks);
    let after = expect_no_more(&server, &before);
    fresh(&server, "3");
    let last = expect_no_more(&server, &before);
    let status = server.status().0;
    let stopped = server.stop();

    let folder = stopped.application.path().join("seen");
    let mut ledger = Ledger::draw_up(&phases, &sent, &folder, &stopped.log);
    ledger.seconds = began.elapsed().as_secs_f64();
    let by_load = stopped.log.iter().filter(|line| is_by_load(line)).count();
    println!("{}", ledger.table("kill -9 of anything"));
    println!("{killed:?}\n{orders:?}, by load {by_load}\nseed {seed}");
    let account = json!({
        "kills": kills, "seed": seed, "killed_workers": killed.workers, "killed_templates": killed.templates,
        "killed_unnamed": killed.unnamed, "reforked": orders.reforked, "not_reforked": orders.not_reforked,
        "scaled": orders.scaled, "not_scaled": orders.not_scaled, "log_lines_of_scaling_by_load": by_load,
        "before": before.json(), "after": after.json(), "last": last.json(), "requests": ledger.json(),
    });
    keep("kill-anywhere", &account);
    expect_counted(&ledger, &status, kills as usize);
    assert!(killed.workers > 0 && killed.templates > 0, "{killed:?}");
    assert!(orders.scaled > 0, "{orders:?}");
    assert_eq!(last.descriptors, before.descriptors);
}
