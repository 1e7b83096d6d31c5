//! What a restart of Redmine under load does to its latency: an open loop at a share of what the server can do, p99
//! before the restart, and from its begin until the old generation is gone. It measures Highball alone.

use std::fmt::Write as _;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::Serialize;

use crate::requests::{self, TIMEOUT, address, send};
use crate::session::BOOT_TIMEOUT;
use crate::stack::Stack;
use compare::machine::{Machine, timestamp};
use compare::statistics::percentile;
use loadgen::plan::Arrivals;
use loadgen::{Single, run_each};
use stacks::{Catalogue, Deployment};

/// The page asked for, as in the benchmark's workload.
const PATH: &str = "/projects";
/// Connections of the closed loop that finds the rate.
const CONNECTIONS: usize = 12;
/// Requests of the warm-up, and of the closed loop that finds the rate.
const CLOSED_REQUESTS: usize = 300;
/// The open loop's first seconds, which count for nothing.
const LEAD_IN: Duration = Duration::from_secs(3);
/// By how much p99 may rise.
const MOST: f64 = 2.0;

/// What to run.
#[derive(Debug, Clone)]
pub struct Options {
    /// The repository's root.
    pub root: PathBuf,
    /// The program under test.
    pub highball: PathBuf,
    /// A prepared Redmine.
    pub redmine: PathBuf,
    /// How often.
    pub rounds: usize,
    /// The load, as a share of the closed loop's rate.
    pub share: f64,
    /// Worker processes, of one thread each.
    pub workers: usize,
    /// Load before the restart.
    pub before: Duration,
    /// Load from the restart's begin on; the restart must be over by then.
    pub after: Duration,
    /// What the arrivals depend on.
    pub seed: u64,
    /// Whether the template asks for the page itself before it forks (setting `warm_up`).
    pub warmed: bool,
    /// Where the figures go.
    pub folder: PathBuf,
}

/// What was found.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// When it began, in UTC.
    pub started: String,
    /// Where.
    pub machine: Machine,
    /// The load, as a share of the closed loop's rate.
    pub share: f64,
    /// Worker processes.
    pub workers: usize,
    /// Each restart.
    pub rounds: Vec<Round>,
    /// All rounds' requests together.
    pub before: Figures,
    /// The same.
    pub during: Figures,
    /// The same.
    pub after: Figures,
}

/// One restart.
#[derive(Debug, Clone, Serialize)]
pub struct Round {
    /// Requests a second, as the closed loop found them.
    pub capacity: f64,
    /// Requests a second of the open loop.
    pub rate: f64,
    /// The server's start without load, in seconds.
    pub boot_seconds: f64,
    /// Until the new generation served.
    pub served_seconds: f64,
    /// Until the old one was gone.
    pub gone_seconds: f64,
    /// Before the restart.
    pub before: Figures,
    /// From its begin until the old generation was gone.
    pub during: Figures,
    /// From then on.
    pub after: Figures,
}

/// The requests of a stretch of time.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Figures {
    /// How many.
    pub requests: usize,
    /// How many of them were not answered with 200.
    pub errors: usize,
    /// Latency from the schedule, in milliseconds.
    pub p50_ms: f64,
    /// The same.
    pub p99_ms: f64,
    /// The same.
    pub max_ms: f64,
}

impl Figures {
    fn of(singles: &[Single]) -> Self {
        let (mut latencies, mut errors) = (Vec::new(), 0);
        for single in singles {
            errors += usize::from(!single.good);
            // A quick refusal is no quick answer.
            let counted = match single.good {
                true => single.latency,
                false => single.latency.max(TIMEOUT),
            };
            latencies.push(counted.as_secs_f64() * 1000.0);
        }
        let at = |percent| percentile(&latencies, percent).unwrap_or(f64::NAN);
        Self {
            requests: latencies.len(),
            errors,
            p50_ms: at(50.0),
            p99_ms: at(99.0),
            max_ms: at(100.0),
        }
    }
}

/// The three stretches of a round.
#[derive(Debug, Clone, Default)]
struct Stretches {
    before: Vec<Single>,
    during: Vec<Single>,
    after: Vec<Single>,
}

/// When a restart began, when its new generation served, and when its old one was gone.
#[derive(Debug, Clone, Copy)]
struct Restart {
    began: Instant,
    served: Instant,
    gone: Instant,
}

/// Runs everything, telling its progress on stderr, and writes `restart.json` (figures) and `restart.csv` (each request),
/// or `restart-warmed` where the setting is in force.
///
/// # Errors
/// When the server does not start or restart, or the figures cannot be written.
pub fn run(options: &Options) -> Result<Report> {
    let started = timestamp();
    let mut rounds = Vec::new();
    let mut all = Stretches::default();
    let mut csv = String::from("round,stretch,due_ms,latency_ms,ok\n");
    for number in 1..=options.rounds {
        eprint!("round {number}: ");
        let (round, stretches) = one_round(options, number)?;
        eprintln!(
            "p99 {:.1} ms before, {:.1} ms during {:.1} s of a restart, {:.1} ms after",
            round.before.p99_ms, round.during.p99_ms, round.gone_seconds, round.after.p99_ms
        );
        stretches.write(number, &mut csv)?;
        all.before.extend(stretches.before);
        all.during.extend(stretches.during);
        all.after.extend(stretches.after);
        rounds.push(round);
    }
    let report = Report {
        started,
        machine: Machine::capture(&options.highball),
        share: options.share,
        workers: options.workers,
        rounds,
        before: Figures::of(&all.before),
        during: Figures::of(&all.during),
        after: Figures::of(&all.after),
    };
    let write = |name: &str, text: &str| {
        let path = options.folder.join(name);
        fs::write(&path, text).with_context(|| format!("writing {}", path.display()))
    };
    fs::create_dir_all(&options.folder)
        .with_context(|| format!("creating {}", options.folder.display()))?;
    let name = match options.warmed {
        true => "restart-warmed",
        false => "restart",
    };
    let figures = serde_json::to_string_pretty(&report)? + "\n";
    write(&format!("{name}.json"), &figures)?;
    write(&format!("{name}.csv"), &csv)?;
    Ok(report)
}

fn one_round(options: &Options, number: usize) -> Result<(Round, Stretches)> {
    let scratch = tempfile::tempdir().context("a folder for the server's log")?;
    let settings =
        [("HIGHBALL_WARM_UP", PATH)].map(|(key, value)| (key.to_owned(), value.to_owned()));
    let deployment = Deployment {
        app: options.redmine.clone(),
        highball: options.highball.clone(),
        scratch: scratch.path().to_owned(),
        workers: options.workers,
        threads: 1,
        environment: settings.into_iter().filter(|_| options.warmed).collect(),
        path: PATH.to_owned(),
        boot_timeout: BOOT_TIMEOUT,
        cores: Vec::new(),
    };
    let catalogue = Catalogue::load_from(&options.root.join("lab"), &[])?;
    let running = catalogue.get(Stack::Highball.id())?.start(&deployment)?;
    let address = address(&running)?;
    let capacity = capacity(address)?;
    eprint!("{capacity:.1} requests a second at most, ");
    let rate = capacity * options.share;
    let length = LEAD_IN + options.before + options.after;
    let mode = requests::open(rate, Arrivals::Poisson, length);
    let seed = options.seed + number as u64;
    let plan = requests::plan(address, &[(PATH, 1.0)], mode, seed);
    let pid = running
        .entry()
        .context("the server has no process of its own")?;
    // The load begins once its thread has started, some tenths of a millisecond later.
    let begin = Instant::now();
    let (restart, load) = thread::scope(|scope| {
        let restart = scope.spawn(|| {
            thread::sleep(LEAD_IN + options.before);
            restart(&options.highball, pid, begin + length)
        });
        let load = run_each(&plan, &AtomicBool::new(false));
        (restart.join().expect("it does not panic"), load)
    });
    let (restart, (_, singles)) = (restart?, load?);
    let mut stretches = Stretches::default();
    for single in singles {
        if single.due < LEAD_IN {
            continue;
        }
        let stretch = match begin + single.due {
            due if due < restart.began => &mut stretches.before,
            due if due < restart.gone => &mut stretches.during,
            _ => &mut stretches.after,
        };
        stretch.push(single);
    }
    let round = Round {
        capacity,
        rate,
        boot_seconds: running.boot.as_secs_f64(),
        served_seconds: (restart.served - restart.began).as_secs_f64(),
        gone_seconds: (restart.gone - restart.began).as_secs_f64(),
        before: Figures::of(&stretches.before),
        during: Figures::of(&stretches.during),
        after: Figures::of(&stretches.after),
    };
    running.stop();
    Ok((round, stretches))
}

/// Requests a second over a few busy connections, once warm.
fn capacity(address: SocketAddr) -> Result<f64> {
    let send = || send(address, PATH, CONNECTIONS, CLOSED_REQUESTS);
    send()?;
    let outcome = send()?;
    let errors = outcome.errors.total();
    if errors > 0 {
        bail!("{errors} of {CLOSED_REQUESTS} requests failed before any restart");
    }
    Ok(outcome.good_per_second())
}

/// Restarts a server and waits until its old generation is gone.
fn restart(highball: &Path, pid: i32, deadline: Instant) -> Result<Restart> {
    let tell = |arguments: &[&str]| -> Result<String> {
        let output = Command::new(highball)
            .args(arguments)
            .args(["--pid", &pid.to_string()])
            .output()
            .context("running highball")?;
        if !output.status.success() {
            bail!("{}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let began = Instant::now();
    tell(&["restart"])?;
    let served = Instant::now();
    loop {
        let status: serde_json::Value = serde_json::from_str(&tell(&["status", "--json"])?)?;
        let gone = Instant::now();
        if status["generations"].as_array().map_or(0, Vec::len) == 1 {
            return Ok(Restart {
                began,
                served,
                gone,
            });
        }
        if gone > deadline {
            bail!("the old generation was still there when the load ended");
        }
        thread::sleep(Duration::from_millis(50));
    }
}

impl Stretches {
    fn write(&self, round: usize, csv: &mut String) -> Result<()> {
        let first = self.before.iter().map(|single| single.due).min();
        let first = first.context("no request was sent before the restart")?;
        let stretches = [
            ("before", &self.before),
            ("during", &self.during),
            ("after", &self.after),
        ];
        for (name, singles) in stretches {
            for single in singles {
                writeln!(
                    csv,
                    "{round},{name},{},{:.1},{}",
                    single.due.saturating_sub(first).as_millis(),
                    single.latency.as_secs_f64() * 1000.0,
                    u8::from(single.good)
                )?;
            }
        }
        Ok(())
    }
}

impl Report {
    /// By how much the restart raised p99.
    pub fn ratio(&self) -> f64 {
        self.during.p99_ms / self.before.p99_ms
    }

    /// For people.
    pub fn table(&self) -> String {
        let mut text = format!(
            "{} restarts of Redmine at {:.0} % load\n{:<8}{:>10}{:>8}{:>10}{:>10}{:>10}\n",
            self.rounds.len(),
            self.share * 100.0,
            "",
            "requests",
            "errors",
            "p50 ms",
            "p99 ms",
            "max ms"
        );
        let rows = [
            ("before", &self.before),
            ("during", &self.during),
            ("after", &self.after),
        ];
        for (name, row) in rows {
            text += &format!(
                "{name:<8}{:>10}{:>8}{:>10.1}{:>10.1}{:>10.1}\n",
                row.requests, row.errors, row.p50_ms, row.p99_ms, row.max_ms
            );
        }
        let verdict = if self.ratio() <= MOST {
            "met"
        } else {
            "missed"
        };
        text + &format!(
            "p99 during a restart is {:.2} times that before (at most {MOST}: {verdict})\n",
            self.ratio()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn single(milliseconds: u64, good: bool) -> Single {
        Single {
            due: Duration::ZERO,
            latency: Duration::from_millis(milliseconds),
            good,
        }
    }

    #[test]
    fn a_request_that_failed_is_never_a_quick_one() {
        let mut singles = vec![single(10, true); 50];
        singles.push(single(1, false));
        let figures = Figures::of(&singles);
        assert_eq!((figures.requests, figures.errors), (51, 1));
        assert_eq!(figures.p50_ms, 10.0);
        assert!(figures.max_ms >= 10_000.0);
    }

    #[test]
    fn the_table_says_whether_the_target_is_met() {
        let figures = |p99_ms| Figures {
            requests: 100,
            p99_ms,
            ..Figures::default()
        };
        let mut report = Report {
            started: String::new(),
            machine: Machine::default(),
            share: 0.6,
            workers: 2,
            rounds: Vec::new(),
            before: figures(50.0),
            during: figures(90.0),
            after: figures(50.0),
        };
        assert!(
            report
                .table()
                .contains("1.80 times that before (at most 2: met)")
        );
        report.during = figures(101.0);
        assert!(report.table().contains("missed"), "{}", report.table());
    }
}
