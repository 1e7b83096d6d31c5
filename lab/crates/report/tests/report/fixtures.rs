//! A comparison as it might have been measured: four stacks, five rounds, a closed and an open loop, searches for the
//! largest rate with overload; one stack is missing, one trial failed, and under the open loop one stack met the
//! generator's limit. Seeded; nothing runs.

use std::time::Duration;

use compare::machine::Machine;
use compare::results::{
    Application, FORMAT, Footprint, Limit, Load, MemoryUse, Missing, Overload, Peak, Placement,
    Results, Stack, Step, Trial, WarmUp,
};
use compare::statistics::Estimate;
use loadgen::outcome::{Latency, OfRequest, Outcome, Second};
use rand::{RngExt as _, SeedableRng as _};
use rand_xoshiro::SplitMix64;
use report::then_and_now::{Finding, Row, ThenAndNow};

/// The figures that a stack's made-up trials scatter around.
struct Model {
    id: &'static str,
    name: &'static str,
    /// Requests a second in a closed loop.
    rate: f64,
    /// Seconds of CPU for each request.
    cpu_s: f64,
    /// Megabytes when idle.
    idle: f64,
    /// Share of slow requests, and how many times slower they are.
    slow: (f64, f64),
}

const MODELS: [Model; 4] = [
    Model {
        id: "highball",
        name: "Highball",
        rate: 6_900.0,
        cpu_s: 265e-6,
        idle: 61.0,
        slow: (0.004, 2.0),
    },
    Model {
        id: "puma-cluster",
        name: "Puma cluster",
        rate: 5_000.0,
        cpu_s: 350e-6,
        idle: 96.0,
        slow: (0.03, 4.0),
    },
    Model {
        id: "nginx+unicorn",
        name: "nginx before Unicorn",
        rate: 4_950.0,
        cpu_s: 372e-6,
        idle: 88.0,
        slow: (0.01, 2.5),
    },
    Model {
        id: "apache+thin-byrequests",
        name: "Apache (byrequests) before 2 Thins",
        rate: 3_100.0,
        cpu_s: 540e-6,
        idle: 121.0,
        slow: (0.05, 9.0),
    },
];

const ROUNDS: usize = 5;
const SECONDS: usize = 10;
const OPEN_RATE: f64 = 2_000.0;

/// The whole comparison.
pub(crate) fn comparison() -> Results {
    let mut random = SplitMix64::seed_from_u64(2009);
    let mut results = frame();
    let mut position = 0;
    for round in 1..=ROUNDS {
        let drift = (0.03 * normal(&mut random)).exp();
        for load in ["closed-12", "open-2000"] {
            for model in &MODELS {
                position += 1;
                let start = drift * (0.015 * normal(&mut random)).exp();
                let mut trial = trial(model, load, start, &mut random);
                trial.round = round;
                trial.position = position;
                trial.started = format!("2026-11-20T21:{position:02}:00Z");
                results.trials.push(trial);
            }
        }
    }
    add_faults(&mut results);
    for round in 1..=3 {
        for model in &MODELS {
            results.peaks.push(peak(model, round, &mut random));
        }
    }
    results
}

/// Twenty stacks: the four, and copies of them with other rates and long names.
pub(crate) fn twenty_stacks() -> Results {
    let mut results = comparison();
    let (stacks, trials, peaks) = (
        results.stacks.clone(),
        results.trials.clone(),
        results.peaks.clone(),
    );
    for copy in 1..=4_u32 {
        let id = |id: &str| format!("{id}-{copy}");
        let factor = f64::from(copy) * 0.17;
        results
            .stacks
            .extend(stacks.iter().cloned().map(|mut stack| {
                stack.id = id(&stack.id);
                stack.name = format!("{} once more ({copy})", stack.name);
                stack
            }));
        results
            .trials
            .extend(trials.iter().cloned().map(|mut trial| {
                trial.stack = id(&trial.stack);
                trial.outcome.good = (trial.outcome.good as f64 * factor) as u64;
                trial.outcome.completed = trial.outcome.good;
                trial.outcome.in_flight_s *= factor;
                trial
            }));
        results.peaks.extend(peaks.iter().cloned().map(|mut peak| {
            peak.stack = id(&peak.stack);
            peak.last_good *= factor;
            peak.first_bad = peak.first_bad.map(|rate| rate * factor);
            for step in &mut peak.steps {
                step.rate *= factor;
                step.achieved *= factor;
            }
            peak
        }));
    }
    results
}

/// The same, as the study of 2009 would frame it.
pub(crate) fn study() -> ThenAndNow {
    let row = |then_name: &str, then, id: &str, now: f64, stand_in: Option<&str>| {
        let model = MODELS.iter().find(|model| model.id == id);
        Row {
            then_name: then_name.into(),
            then: Some(then),
            stack: model.map(|of| of.id.into()),
            now_name: model.map_or(String::new(), |of| of.name.into()),
            now: model.map(|_| Estimate {
                value: now,
                low: now * 0.97,
                high: now * 1.03,
            }),
            set_aside: false,
            ratio: None,
            stand_in: stand_in.map(Into::into),
        }
    };
    let ahead = |better: &str, worse: &str| (better.to_owned(), worse.to_owned());
    ThenAndNow {
        title: "Comparison of Rails Deployment Stacks".into(),
        source: "Published on 25 November 2009.".into(),
        method: "httperf, commit 77dcb015f38d75d32df6fceb52ce4a2737845997.".into(),
        findings: vec![Finding {
            title: "Largest reply rate, a wiki's list".into(),
            unit: "requests/s".into(),
            more_is_better: true,
            rows: vec![
                row(
                    "WebROaR 0.2.3",
                    188.8,
                    "highball",
                    6_900.0,
                    Some("WebROaR is gone: Highball stands in"),
                ),
                row(
                    "Apache 2.2.9 + Thin 1.2.5 (6)",
                    178.4,
                    "apache+thin-byrequests",
                    3_100.0,
                    None,
                ),
                row(
                    "Apache 2.2.9 + Mongrel 1.1.5 (6)",
                    123.8,
                    "",
                    0.0,
                    Some("Mongrel does not build today"),
                ),
                row(
                    "Apache 2.2.9 + Passenger 2.2.7 (6)",
                    107.3,
                    "puma-cluster",
                    5_000.0,
                    Some("made up for the test"),
                ),
            ],
            ahead: vec![
                ahead("highball", "apache+thin-byrequests"),
                ahead("highball", "puma-cluster"),
                ahead("puma-cluster", "apache+thin-byrequests"),
            ],
            undecided: Vec::new(),
            note: String::new(),
        }],
        notes: vec!["Six workers then, two now.".into()],
    }
}

fn frame() -> Results {
    let load = |id: &str, title: &str, open, size| Load {
        id: id.into(),
        title: title.into(),
        open,
        size,
        duration_s: SECONDS as f64,
        requests: vec![("GET /projects".into(), 3.0), ("GET /issues".into(), 1.0)],
        ceiling: Some(if open { 31_000.0 } else { 9_000.0 }),
        ..Load::default()
    };
    let pairs = |pairs: &[(&str, &str)]| {
        pairs
            .iter()
            .map(|(a, b)| ((*a).into(), (*b).into()))
            .collect()
    };
    Results {
        format: FORMAT,
        title: "Redmine behind four stacks".into(),
        command: "highball compare --app redmine --stacks highball,puma-cluster,nginx+unicorn,apache+thin --find-peak".into(),
        started: "2026-11-20T21:00:00Z".into(),
        finished: Some("2026-11-20T22:10:00Z".into()),
        quick: false,
        seed: 2009,
        rounds: ROUNDS,
        machine: Machine {
            facts: pairs(&[
                ("CPU", "Example 9000"),
                ("Cores", "4"),
                ("Memory", "16 GB"),
                ("Kernel", "Linux 6.18"),
            ]),
            versions: pairs(&[("ruby", "3.1.2p20"), ("highball", "0.1.0")]),
        },
        placement: Placement {
            server: vec![0, 1],
            generator: vec![2, 3],
        },
        application: Application {
            name: "Redmine".into(),
            about: "project management; each request reads ten projects from SQLite.".into(),
            versions: [("redmine".to_owned(), "5.0.4".to_owned())].into(),
            commit: None,
        },
        stacks: MODELS.iter().map(stack).collect(),
        missing: vec![Missing {
            id: "mongrel-cluster".into(),
            reason: "the gem mongrel is not installed".into(),
            install: Some("gem install mongrel --version 1.2.0.pre2".into()),
            stand_in: None,
        }],
        loads: vec![
            load("closed-12", "12 connections, closed loop", false, 12.0),
            load("open-2000", "2,000 requests a second, open loop", true, OPEN_RATE),
        ],
        ..Results::default()
    }
}

fn stack(model: &Model) -> Stack {
    Stack {
        id: model.id.into(),
        name: model.name.into(),
        versions: [("ruby".to_owned(), "3.1.2".to_owned())].into(),
        commands: vec![format!("{} --config CONFIG --listen ADDRESS", model.id)],
        environment: [("MALLOC_ARENA_MAX".to_owned(), "2".to_owned())].into(),
        files: vec![(
            "CONFIG".into(),
            "workers = 2 # <script>alert(\"escaped?\")</script> & more\n".into(),
        )],
        workers: 2,
        threads: 1,
        note: String::new(),
    }
}

fn trial(model: &Model, load: &str, start: f64, random: &mut SplitMix64) -> Trial {
    let open = load != "closed-12";
    let rate = if open { OPEN_RATE } else { model.rate * start };
    let count = (rate * SECONDS as f64) as u64;
    let middle = if open {
        1.4 / model.rate * 1e3 * 2.0
    } else {
        12.0 / rate * 1e3
    };
    let growth = if model.id.starts_with("apache") {
        1.6
    } else {
        0.4
    };
    let megabytes = |value: f64| Footprint {
        pss: (value * 1e6) as u64,
        private_dirty: (value * 0.7e6) as u64,
        rss: (value * 1.9e6) as u64,
    };
    let busy = model.idle * 1.25 * (0.01 * normal(random)).exp();
    let under_load = (0..SECONDS)
        .map(|second| {
            let settled = 1.0 - (-(second as f64) / 2.0).exp();
            let value = model.idle + (busy - model.idle) * settled + growth * second as f64;
            (second as f64, megabytes(value))
        })
        .collect::<Vec<_>>();
    let after = under_load
        .last()
        .map(|(_, sample)| *sample)
        .unwrap_or_default();
    let latency = latencies(model, middle / start, random);
    Trial {
        stack: model.id.into(),
        load: load.into(),
        boot_s: 1.9 * (0.05 * normal(random)).exp(),
        warm_up: WarmUp {
            seconds: 12.0,
            settled: random.random::<f64>() > 0.1,
            rates: (0..12)
                .map(|second| rate * (1.0 - 0.5 * (-f64::from(second) / 4.0).exp()))
                .collect(),
            medians_ms: Vec::new(),
        },
        outcome: Outcome {
            elapsed_s: SECONDS as f64,
            demanded: count,
            sent: count,
            completed: count,
            good: count,
            statuses: [(200, count)].into(),
            requests: vec![OfRequest {
                name: "GET /projects".into(),
                completed: count,
                good: count,
                latency: latency.clone(),
                ..OfRequest::default()
            }],
            in_flight_s: latency.mean_ms() / 1000.0 * count as f64,
            latency,
            peak_in_flight: 12,
            seconds: (0..SECONDS)
                .map(|_| Second {
                    demanded: count / SECONDS as u64,
                    completed: count / SECONDS as u64,
                    good: count / SECONDS as u64,
                    p50_ms: middle,
                    p99_ms: middle * model.slow.1 * (0.4 * normal(random)).exp(),
                    ..Second::default()
                })
                .collect(),
            ..Outcome::default()
        },
        cpu_s: model.cpu_s * count as f64 * (0.01 * normal(random)).exp(),
        cpu_by_program: programs(model)
            .map(|(program, share)| (program.to_owned(), model.cpu_s * count as f64 * share))
            .into(),
        other_cores: random.random::<f64>() * 0.21,
        memory: MemoryUse {
            idle: megabytes(model.idle),
            under_load,
            after,
            free_difference: (after.pss as f64 * 1.1) as i64,
        },
        processes: 3,
        limit: if open { Limit::Neither } else { Limit::Server },
        ..Trial::default()
    }
}

/// Which programs use the CPU time, and their shares of it.
fn programs(model: &Model) -> [(&'static str, f64); 2] {
    match model.id {
        "highball" => [("highball", 0.12), ("ruby3.1", 0.88)],
        "nginx+unicorn" => [("nginx", 0.2), ("ruby3.1", 0.8)],
        "apache+thin-byrequests" => [("apache2", 0.35), ("ruby3.1", 0.65)],
        _ => [("ruby3.1", 1.0), ("sh", 0.0)],
    }
}

/// 3,000 latencies around `middle` milliseconds stand for all of a trial's.
fn latencies(model: &Model, middle: f64, random: &mut SplitMix64) -> Latency {
    let mut latency = Latency::default();
    for _ in 0..3_000 {
        let (share, times) = model.slow;
        let slow = if random.random::<f64>() < share {
            times
        } else {
            1.0
        };
        let milliseconds = middle * slow * (0.25 * normal(random)).exp();
        latency.record(Duration::from_secs_f64(milliseconds / 1e3));
    }
    latency
}

/// One trial fails, one holds errors, and the generator limits a stack under the open loop.
fn add_faults(results: &mut Results) {
    for trial in &mut results.trials {
        match (trial.stack.as_str(), trial.load.as_str(), trial.round) {
            ("nginx+unicorn", "closed-12", 2) => {
                let log = "it did not answer within 30 s\n--- log\nbind: address already in use";
                trial.failure = Some(log.into());
                trial.outcome = Outcome::default();
            }
            ("apache+thin-byrequests", "closed-12", 4) => {
                trial.outcome.statuses.insert(503, 310);
                trial.outcome.good -= 310;
                trial.outcome.errors.unexpected = 310;
                trial.left_behind = 2;
                trial.crashed_start = Some("apache ended (signal: 6 (SIGABRT))".into());
            }
            ("puma-cluster", "open-2000", 3) => {
                trial.outcome.seconds[6] = Second::default();
            }
            ("highball", "open-2000", _) => {
                trial.limit = Limit::Client;
                trial.outcome.generator.limit = Some("its threads used 97 % of their cores".into());
            }
            _ => {}
        }
    }
}

fn peak(model: &Model, round: usize, random: &mut SplitMix64) -> Peak {
    let limit = model.rate * 0.94 * (0.02 * normal(random)).exp();
    let mut rates = vec![500.0];
    while rates[rates.len() - 1] < limit {
        rates.push(rates[rates.len() - 1] * 2.0);
    }
    let (mut good, mut bad) = (rates[rates.len() - 2], rates[rates.len() - 1]);
    while bad / good > 1.04 {
        let middle = f64::midpoint(good, bad);
        rates.push(middle);
        if middle < limit {
            good = middle;
        } else {
            bad = middle;
        }
    }
    let falls = model.id.starts_with("apache");
    let step = |rate: f64| {
        let held = rate < limit;
        let lost = if falls { (rate - limit) * 0.4 } else { 0.0 };
        Step {
            rate,
            achieved: if held { rate } else { limit - lost },
            errors: if held || !falls { 0.0 } else { 0.02 },
            p99_ms: Some(if held { 12.0 } else { 1_400.0 }),
            why: (!held).then(|| "fewer than 99 % were answered".into()),
            limit: if held { Limit::Neither } else { Limit::Server },
            ..Step::default()
        }
    };
    let demanded = (good * 1.5) as u64 * 10;
    let answered = (limit * 9.5) as u64;
    let mut outcome = Outcome {
        elapsed_s: 10.0,
        demanded,
        sent: demanded,
        completed: answered,
        good: answered,
        statuses: [(200, answered)].into(),
        latency: latencies(model, 900.0, random),
        ..Outcome::default()
    };
    if falls {
        outcome.errors.timeout = demanded - answered;
    } else {
        outcome.statuses.insert(503, demanded - answered);
        outcome.completed = demanded;
    }
    Peak {
        stack: model.id.into(),
        round,
        last_good: good,
        first_bad: Some(bad),
        steps: rates.into_iter().map(step).collect(),
        overload: Some(Overload {
            rate: good * 1.5,
            outcome,
            recovered_s: (!falls || round > 1).then_some(0.8),
            ..Overload::default()
        }),
        criterion: "p99 at most 1 s".into(),
        finished: true,
        ..Peak::default()
    }
}

/// A draw from the normal distribution (Box and Muller).
fn normal(random: &mut SplitMix64) -> f64 {
    let radius = (-2.0 * (1.0 - random.random::<f64>()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.random::<f64>()).cos()
}
