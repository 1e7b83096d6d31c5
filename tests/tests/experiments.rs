//! `highball experiment`: half of the workers with another setting, under requests, and what ends it. That equal halves do not
//! differ is shown by the statistics in `crates/experiment`, which need no clock.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::process::Signal;
use serde_json::Value;
use test_support::{Client, Process, Program, Ran, Server, ServerBuilder, binary, until};

/// `/` answers with a variable of the environment, and computes for as long as that says.
const SIDE: &str = r##"
raise "no such side" if ENV["SIDE"] == "broken"
COST = ENV["SIDE"] == "slow" ? 0.006 : 0.002
def cpu = Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID)

run lambda { |_env|
  finish = cpu + COST
  nil while cpu < finish
  Test.text(ENV.fetch("SIDE", "base"))
}
"##;

fn builder(workers: usize) -> ServerBuilder {
    Server::app(SIDE).workers(workers).threads(1)
}

/// Runs the command in this folder.
fn experiment_in(dir: &Path, arguments: &str) -> Ran {
    let all = ["experiment"]
        .into_iter()
        .chain(arguments.split_whitespace());
    Program::highball(all).current_dir(dir).run()
}

fn experiment(server: &Server, arguments: &str) -> Ran {
    experiment_in(server.dir(), arguments)
}

#[track_caller]
fn json(ran: &Ran) -> Value {
    assert!(ran.status.success(), "{}", ran.output());
    serde_json::from_str(&ran.stdout).expect("JSON")
}

#[track_caller]
fn expect_refusal(ran: &Ran, reason: &str) {
    assert!(!ran.status.success(), "{}", ran.output());
    assert!(ran.stderr.contains(reason), "{}", ran.output());
}

/// How far the experiment of this server is; empty without one.
fn state(server: &Server) -> String {
    let status = server.status().0;
    let state = status["experiment"]["state"].as_str();
    state.unwrap_or_default().to_owned()
}

/// Workers that serve, of each generation.
fn ready(server: &Server) -> Vec<(u64, usize)> {
    let status = server.status().0;
    let rows = status["processes"].as_array().expect("rows");
    let workers = rows
        .iter()
        .filter(|row| row["role"] == "worker" && row["state"] == "ready");
    let mut counts = Vec::new();
    for number in workers.filter_map(|row| row["generation"].as_u64()) {
        match counts.iter_mut().find(|(known, _)| *known == number) {
            Some((_, count)) => *count += 1,
            None => counts.push((number, 1)),
        }
    }
    counts
}

/// Sends requests from two clients, all of which must be answered, while `work` runs. Returns what it returns, and the answers.
fn under_requests<T>(server: &Server, work: impl FnOnce() -> T) -> (T, Vec<String>) {
    let over = AtomicBool::new(false);
    let address = server.address();
    let ask = || {
        let mut answers = Vec::new();
        let mut client = Client::connect(address);
        while !over.load(Ordering::Relaxed) {
            answers.push(client.get("/").expect(200).text());
        }
        answers
    };
    thread::scope(|scope| {
        let clients = [scope.spawn(ask), scope.spawn(ask)];
        let done = work();
        over.store(true, Ordering::Relaxed);
        let answers = clients
            .into_iter()
            .flat_map(|one| one.join().expect("answers"));
        (done, answers.collect())
    })
}

#[test]
fn half_of_the_workers_have_the_variable_and_all_come_back() {
    let server = builder(4).start();
    let dir = server.dir();
    let ((report, during), answers) = under_requests(&server, || {
        thread::scope(|scope| {
            let ran = scope.spawn(|| experiment_in(dir, "--env SIDE=other --for 5s --json"));
            until("both halves are measured", || state(&server) == "measuring");
            let during = ready(&server);
            let page = server.command(&["status"]).stdout;
            assert!(
                page.contains("experiment: generation 2 runs with SIDE=other"),
                "{page}"
            );
            (json(&ran.join().expect("it ran")), during)
        })
    });
    assert_eq!(during, [(1, 2), (2, 2)]);
    assert_eq!(
        (&report["state"], &report["setting"]),
        (&"over".into(), &"SIDE=other".into())
    );
    assert_eq!(report["workers"], serde_json::json!([2, 2]));
    for half in ["base", "variant"] {
        let figures = &report["findings"][half];
        assert!(figures["requests"].as_u64() > Some(20), "{report:#}");
        assert!(figures["pss_bytes"].as_u64() > Some(1 << 20), "{report:#}");
        assert_eq!(figures["errors"], 0);
    }
    assert!(answers.contains(&"base".to_owned()) && answers.contains(&"other".to_owned()));
    assert_eq!(ready(&server), [(1, 4)]);
    for _ in 0..20 {
        assert_eq!(server.get("/").expect(200).text(), "base");
    }
    let shown = experiment(&server, "--show");
    assert!(
        shown.stdout.contains("CPU time per request"),
        "{}",
        shown.output()
    );
    server
        .log()
        .wait(|line| line.contains("experiment over: SIDE=other"));
}

#[test]
fn a_variant_that_costs_more_is_found_worse() {
    let server = builder(2).start();
    let (report, _) = under_requests(&server, || {
        json(&experiment(&server, "--env SIDE=slow --for 6s --json"))
    });
    let cpu = &report["findings"]["cpu"];
    assert_eq!(cpu["difference"], "worse", "{report:#}");
    let ratio = cpu["ratio"].as_f64().expect("a ratio");
    assert!((2.2..3.8).contains(&ratio), "{report:#}");
    let page = experiment(&server, "--show").stdout;
    assert!(
        page.contains("the other setting is worse in CPU time per request"),
        "{page}"
    );
}

#[test]
fn what_cannot_run_leaves_the_server_as_it_was() {
    let server = builder(2).start();
    expect_refusal(&experiment(&server, "--show"), "there was no experiment");
    expect_refusal(&experiment(&server, "--stop"), "no experiment is running");
    let wrong = [
        ("--env SIDE=broken", "no such side"),
        (
            "--set workers=3",
            "workers is no setting that half of the workers can have",
        ),
        ("--set jit=maybe", "jit"),
        ("--env =1", "a name and a value"),
    ];
    for (arguments, reason) in wrong {
        expect_refusal(&experiment(&server, arguments), reason);
    }
    until("both workers serve", || ready(&server) == [(1, 2)]);
    assert_eq!(server.get("/").expect(200).text(), "base");
    assert_eq!(state(&server), "");
    let alone = builder(1).start();
    expect_refusal(
        &experiment(&alone, "--same"),
        "at least two workers, and there is 1",
    );
    let unmeasured = builder(2).setting("measure_requests", "false").start();
    expect_refusal(&experiment(&unmeasured, "--same"), "measure_requests");
}

#[test]
fn a_restart_ends_the_experiment() {
    let server = builder(2).start();
    let dir = server.dir();
    let report = thread::scope(|scope| {
        let ran = scope.spawn(|| experiment_in(dir, "--same --for 1h --json"));
        until("it has begun", || state(&server) == "warming_up");
        expect_refusal(&experiment(&server, "--same"), "one is running");
        let restarted = server.command(&["restart"]);
        assert!(restarted.status.success(), "{}", restarted.output());
        json(&ran.join().expect("it ran"))
    });
    assert_eq!(report["ended"], "restart requested", "{report:#}");
    assert_eq!(ready(&server), [(3, 2)]);
}

#[test]
fn other_changes_end_the_experiment_too() {
    let server = builder(2).start();
    let dir = server.dir();
    for (command, why) in [
        (&["scale", "3"][..], "scale to 3 requested"),
        (&["reload"], "reload requested"),
        (&["experiment", "--stop"], "highball experiment --stop"),
    ] {
        let report = thread::scope(|scope| {
            let ran = scope.spawn(|| experiment_in(dir, "--same --for 1h --json"));
            until("it has begun", || state(&server) == "warming_up");
            let changed = server.command(command);
            assert!(changed.status.success(), "{}", changed.output());
            json(&ran.join().expect("it ran"))
        });
        assert_eq!(report["ended"], why, "{report:#}");
    }
    assert_eq!(ready(&server), [(1, 3)]);
}

#[test]
fn ctrl_c_ends_the_experiment_and_prints_the_verdict() {
    let server = builder(2).start();
    let child = Command::new(binary())
        .args(["experiment", "--set", "jit=none", "--for", "1h"])
        .current_dir(server.dir())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    until("it has begun", || state(&server) == "warming_up");
    Process(child.id()).signal(Signal::INT);
    let output = child.wait_with_output().expect("it ends");
    let page = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{page}");
    assert!(
        page.contains("ended early: highball experiment --stop"),
        "{page}"
    );
    assert!(
        page.contains("nothing can be said of CPU time per request"),
        "{page}"
    );
    assert_eq!(ready(&server), [(1, 2)]);
}

#[test]
fn threads_may_be_the_setting_of_one_half() {
    let server = builder(2).start();
    let (report, answers) = under_requests(&server, || {
        json(&experiment(&server, "--set threads=3 --for 5s --json"))
    });
    assert_eq!(report["setting"], "threads=3");
    assert!(
        report["findings"]["variant"]["requests"].as_u64() > Some(20),
        "{report:#}"
    );
    assert!(answers.iter().all(|answer| answer == "base"));
}

#[test]
fn an_upgrade_ends_the_experiment() {
    let mut server = builder(2).start();
    let dir = server.dir().to_owned();
    let ran = thread::spawn(move || experiment_in(&dir, "--same --for 1h --json"));
    until("it has begun", || state(&server) == "warming_up");
    let upgraded = server.command(&["upgrade"]);
    assert!(upgraded.status.success(), "{}", upgraded.output());
    // The workers were back before the new server was started.
    let over = "experiment over (ended early: upgrade requested)";
    server.log().wait(|line| line.contains(over));
    // The command may see the end of the experiment before the next server has taken over, or after.
    let ran = ran.join().expect("it ran");
    match ran.status.success() {
        true => assert_eq!(json(&ran)["ended"], "upgrade requested"),
        false => assert!(ran.output().contains("another server has taken over")),
    }
    let number = u32::try_from(server.status().number("/pid")).expect("a pid");
    server.replaced_by(Process(number));
    until("the new server's workers serve", || {
        ready(&server).len() == 1
    });
    assert_eq!(server.get("/").expect(200).text(), "base");
}
