//! The soak: load and a restart every so often, for a long time; then the server holds what it held at the start.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use test_support::{Process, Server};

use crate::connection::Target;
use crate::ledger::{Event, Ledger};
use crate::load::{Load, Rate, Sent};
use crate::{generations, keep, restart, start, until};

/// What the front's allocator may have kept in the end that it did not have at the start, in bytes.
const FRONT_KEEPS: u64 = 30 * 64 * 1024;

/// What a server holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Holdings {
    pub(crate) processes: usize,
    /// Of the front, and of all processes.
    pub(crate) front_descriptors: usize,
    pub(crate) descriptors: usize,
    /// Files of shared memory that the front has, and their bytes.
    pub(crate) shared_files: usize,
    pub(crate) shared_bytes: u64,
    /// How often the front has such a file in its memory.
    pub(crate) shared_mappings: usize,
    /// Memory that they have written: other servers that run the same program share the rest of it.
    front_bytes: u64,
    bytes: u64,
}

impl Holdings {
    fn of(server: &Server) -> Self {
        let (front, members) = (server.process(), server.family().members());
        let (shared_files, shared_bytes) = front.shared_memory().expect("it runs");
        Self {
            processes: members.len(),
            front_descriptors: front.descriptors().expect("it runs"),
            descriptors: members.iter().filter_map(|one| one.descriptors()).sum(),
            shared_files,
            shared_bytes,
            shared_mappings: shared_mappings(front),
            front_bytes: front.written_memory().expect("it runs"),
            bytes: members.iter().filter_map(|one| one.written_memory()).sum(),
        }
    }

    /// Once nothing is under way any more.
    pub(crate) fn at_rest(server: &Server) -> Self {
        until("the server is at rest", || {
            let status = server.status();
            status.number("/connections") == 0
                && status.number("/slots/free") == status.number("/slots/total")
                && generations(server) == 1
        });
        Self::of(server)
    }

    pub(crate) fn json(&self) -> Value {
        json!({
            "processes": self.processes,
            "front_descriptors": self.front_descriptors, "descriptors": self.descriptors,
            "shared_memory_files": self.shared_files, "shared_memory_bytes": self.shared_bytes,
            "shared_memory_mappings": self.shared_mappings,
            "front_written_bytes": self.front_bytes, "written_bytes": self.bytes,
        })
    }

    fn line(&self, name: &str) -> String {
        let megabytes = |bytes: u64| bytes as f64 / 1e6;
        format!(
            "{name:<12}{:>10}{:>12}{:>12}{:>8} of {:>5.1} MB{:>11.1} MB{:>11.1} MB",
            self.processes,
            self.front_descriptors,
            self.descriptors,
            self.shared_files,
            megabytes(self.shared_bytes),
            megabytes(self.front_bytes),
            megabytes(self.bytes)
        )
    }
}

/// How often a process has a file of shared memory in its memory.
fn shared_mappings(process: Process) -> usize {
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", process.0));
    let maps = maps.expect("it runs");
    maps.lines()
        .filter(|line| line.contains(" /memfd:"))
        .count()
}

fn seconds(name: &str, default: u64) -> Duration {
    let value = std::env::var(name).ok();
    let value = value.map(|value| {
        value
            .parse()
            .unwrap_or_else(|_| panic!("{name}={value}: not a number"))
    });
    Duration::from_secs(value.unwrap_or(default))
}

#[test]
fn after_a_soak_with_restarts_a_server_holds_what_it_held_before() {
    const RATE: Rate = Rate {
        keeping: 8,
        opening: 2,
        interval: Duration::from_millis(100),
        slow: false,
    };
    let length = seconds("SOAK_SECONDS", 12);
    let every = seconds("SOAK_RESTART_EVERY", 4);
    let server = start();
    let target = Target::Tcp(server.address());
    let began = Instant::now();
    let (mut sent, mut phases): (Vec<Sent>, Vec<Event>) = (Vec::new(), vec![Event::Calm]);
    // Warm first: what is allocated once is no leak.
    let load = Load::start(target.clone(), RATE, 1);
    load.settle(20);
    restart(&server, "2");
    load.settle(20);
    sent.extend(load.end());
    let start = Holdings::at_rest(&server);

    let mut samples = vec![start.json()];
    let load = Load::start(target, RATE, sent.len() as u64 + 1_000);
    let soak = Instant::now();
    for number in 1.. {
        let due = soak + every * number;
        if due > soak + length {
            break;
        }
        // The soak's own clock, and no wait for anything.
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        phases.push(Event::Restart);
        load.enter(phases.len() - 1);
        load.settle(1);
        restart(&server, &(number + 2).to_string());
        load.settle(2);
        phases.push(Event::Calm);
        load.enter(phases.len() - 1);
        samples.push(Holdings::of(&server).json());
    }
    load.settle(20);
    sent.extend(load.end());
    let end = Holdings::at_rest(&server);
    let stopped = server.stop();
    let folder = stopped.application.path().join("seen");
    let mut ledger = Ledger::draw_up(&phases, &sent, &folder, &stopped.log);
    ledger.seconds = began.elapsed().as_secs_f64();

    println!("{}", ledger.table("soak"));
    let heads = "            processes       front all descriptors   shared memory     front memory   all memory";
    println!(
        "{heads}\n{}\n{}",
        start.line("at the start"),
        end.line("at the end")
    );
    let account = json!({
        "start": start.json(), "end": end.json(), "samples_under_load": samples, "requests": ledger.json(),
    });
    keep("soak", &account);

    assert_eq!(ledger.failures, [""; 0]);
    assert_eq!(ledger.posts_twice, [0; 0]);
    assert_eq!(ledger.unlogged, [0; 0]);
    assert_eq!(ledger.logged_twice, [0; 0]);
    assert_eq!(end.processes, start.processes);
    assert_eq!(end.front_descriptors, start.front_descriptors);
    assert_eq!(end.descriptors, start.descriptors);
    assert_eq!(end.shared_files, start.shared_files);
    assert_eq!(end.shared_bytes, start.shared_bytes);
    assert_eq!(end.shared_mappings, start.shared_mappings);
    // The front's allocator keeps some of what it once had, less than this in all: 64 KiB that leaked with each of the
    // half hour's thirty restarts, a hundredth of what a generation takes there, would be more.
    assert!(
        end.front_bytes <= start.front_bytes + FRONT_KEEPS,
        "{start:?} {end:?}"
    );
    // The others are as young as the last restart, so nothing adds up in them; Ruby's heap differs from start to start.
    let heaps = (start.bytes - start.front_bytes) / 4;
    assert!(
        end.bytes <= start.bytes + FRONT_KEEPS + heaps,
        "{start:?} {end:?}"
    );
}
