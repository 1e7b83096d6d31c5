//! The number of workers that follows the load (`workers = "1..4"`): up where requests wait, within its range; what log, status
//! and metrics say; and who goes before it. When workers go again is tried in simulated days (`rules/autoscale/tests.rs`).

use std::collections::BTreeSet;

use highball_tests::operators::{address, get};
use serde_json::{Value, json};
use test_support::{Application, Client, Gated, Process, Server, until};

/// Tells of each call, and waits at the gate.
const WAITS: &str = r##"run lambda { |env| Test.pass("work", "call #{env["PATH_INFO"]} #{Process.pid}"); Test.text("done") }"##;

fn gated(range: &str, more: &str) -> Gated {
    let file = format!("workers = \"{range}\"\nthreads = 1\n{more}");
    Gated::start(Application::new(WAITS), |builder| {
        builder.settings_file(&file)
    })
}

fn gets(server: &Server, count: usize) -> Vec<Client> {
    (0..count).map(|_| server.ask("GET", "/get")).collect()
}

#[track_caller]
fn until_there_are(server: &Server, count: usize) {
    until("so many workers serve", || {
        server.status().ready_workers().len() == count
    });
}

fn of_workers(server: &Server) -> Value {
    server.status().0["workers"].clone()
}

/// How requests have ended, and how many so.
fn ended(server: &Server) -> Vec<(String, u64)> {
    let status = server.status();
    let all = status.0["counters"].as_object().expect("counters");
    let counts = all
        .iter()
        .map(|(name, count)| (name.clone(), count.as_u64().expect("a count")));
    counts.filter(|(_, count)| *count > 0).collect()
}

#[test]
fn workers_come_where_requests_wait_and_none_is_lost() {
    let mut gated = gated("1..4", "metrics_listen = \"127.0.0.1:0\"\n");
    let server = &gated.server;
    let before = of_workers(server);
    let range = json!({"min": 1, "max": 4, "scaled": false});
    assert_eq!((&before["wanted"], &before["by_load"]), (&json!(1), &range));
    assert_eq!(before["max"], 4);
    let mut clients = gets(server, 4);
    until_there_are(server, 4);
    let line = server
        .log()
        .wait(|line| line.contains("are wanted, 1 before"));
    let why = "waited longer than 50ms for a thread (setting workers: 1..4)";
    assert!(line.contains(why), "{line}");
    let page = server.command(&["status"]).stdout;
    assert!(page.contains("\nworkers: 4 (by load, 1..4)\n"), "{page}");
    let metrics = get(&address(server, "metrics_listen"), "/metrics").text();
    for (name, value) in [("wanted", 4), ("min", 1), ("max", 4)] {
        let line = format!("\nhighball_workers_{name}{{application=\"default\"}} {value}\n");
        assert!(metrics.contains(&line), "{line} {metrics}");
    }
    let calls: BTreeSet<Process> = (0..4).map(|_| gated.called().1).collect();
    assert_eq!(calls.len(), 4);
    gated.gate.open();
    for client in &mut clients {
        client.response().expect(200);
    }
    assert_eq!(ended(&gated.server), [("ok".to_owned(), 4)]);
}

#[test]
fn at_the_end_of_the_range_log_and_status_say_why_no_more_come() {
    let gated = gated("1..2", "");
    let server = &gated.server;
    let mut clients = gets(server, 5);
    let reason = "the setting workers allows no more";
    let line = server.log().wait(|line| line.contains(reason));
    assert!(line.contains("no more than 2 workers"), "{line}");
    until("the status says so", || {
        of_workers(server)["by_load"]["blocked"] == reason
    });
    let page = server.command(&["status"]).stdout;
    let text = format!("workers: 2 (by load, 1..2); wants more workers: {reason}\n");
    assert!(page.contains(&text), "{page}");
    gated.gate.open();
    for client in &mut clients {
        client.response().expect(200);
    }
    until("the reason passes", || {
        of_workers(server)["by_load"]["blocked"] == Value::Null
    });
}

#[test]
fn a_worker_killed_meanwhile_costs_no_more_than_what_it_had() {
    let mut gated = gated("1..4", "");
    let mut unsafe_one = gated.server.ask("POST", "/post");
    let (name, first) = gated.called();
    assert_eq!(name, "/post");
    let mut clients = gets(&gated.server, 5);
    until("more are wanted", || {
        of_workers(&gated.server)["wanted"] != 1
    });
    first.kill();
    unsafe_one.response().expect(502);
    until_there_are(&gated.server, 4);
    gated.gate.open();
    for client in &mut clients {
        client.response().expect(200);
    }
    let expected = [("ok".to_owned(), 5), ("worker_died".to_owned(), 1)];
    assert_eq!(ended(&gated.server), expected);
}

#[test]
fn an_operators_number_goes_first_and_both_outlast_restart_and_upgrade() {
    let mut gated = gated("1..3", "");
    let change = |server: &Server, arguments: &[&str]| {
        let ran = server.command(arguments);
        assert!(ran.status.success(), "{}", ran.output());
        ran.stdout
    };
    let upgrade = |gated: &mut Gated| {
        change(&gated.server, &["upgrade"]);
        let pid = gated.server.status().number("/pid");
        let pid = u32::try_from(pid).expect("a pid");
        gated.server.replaced_by(Process(pid));
    };
    // The lower end too is a number that an operator may want.
    change(&gated.server, &["scale", "1"]);
    assert_eq!(of_workers(&gated.server)["by_load"]["scaled"], true);
    change(&gated.server, &["scale", "2"]);
    change(&gated.server, &["restart"]);
    upgrade(&mut gated);
    until_there_are(&gated.server, 2);
    let page = change(&gated.server, &["status"]);
    assert!(page.contains("workers: 2 (scaled from 1..3)\n"), "{page}");
    // The load goes on from there.
    let text = change(&gated.server, &["scale", "default"]);
    assert!(text.contains("2 workers are wanted as before"), "{text}");
    change(&gated.server, &["restart"]);
    upgrade(&mut gated);
    until_there_are(&gated.server, 2);
    let page = change(&gated.server, &["status"]);
    assert!(page.contains("workers: 2 (by load, 1..3)\n"), "{page}");
    let mut clients = gets(&gated.server, 3);
    until_there_are(&gated.server, 3);
    gated.gate.open();
    for client in &mut clients {
        client.response().expect(200);
    }
}

#[test]
fn a_reload_with_another_range_keeps_the_number_within_it() {
    let gated = gated("1..3", "");
    let server = &gated.server;
    let clients = gets(server, 3);
    until_there_are(server, 3);
    gated.gate.open();
    for mut client in clients {
        client.response().expect(200);
    }
    let reload = |workers: &str| {
        let text = format!("workers = {workers}\nthreads = 1\n");
        server.application().dir().write("highball.toml", &text);
        let ran = server.command(&["reload"]);
        assert!(ran.status.success(), "{}", ran.output());
    };
    reload("\"2..8\"");
    until_there_are(server, 3);
    reload("\"1..2\"");
    until_there_are(server, 2);
    // A number ends it, and a range begins it again.
    reload("1");
    until_there_are(server, 1);
    assert_eq!(of_workers(server)["by_load"], Value::Null);
    reload("\"2..4\"");
    until_there_are(server, 2);
}
