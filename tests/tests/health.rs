//! Health: what probes hear while a server starts, serves, has no worker, is to stop and drains, and that no request is lost
//! between.

use std::sync::atomic::{AtomicBool, Ordering};

use highball_tests::haproxy::{agent, check};
use highball_tests::operators::{address, get};
use rustix::process::Signal;
use test_support::{Application, Client, Gated, Server, until};

const METRICS: &str = "metrics_listen";

/// The status of the answer to a probe, and why.
fn probe(address: &str, path: &str) -> (u16, serde_json::Value) {
    let answer = get(address, path);
    (answer.status(), answer.json())
}

#[test]
fn probes_are_answered_by_the_front_alone() {
    let application = Application::new("run ->(_) { Test.text('application') }");
    let server = Server::application_of(application)
        .setting(METRICS, "127.0.0.1:0")
        .start();
    let metrics = address(&server, METRICS);
    assert_eq!(
        probe(&metrics, "/live"),
        (200, serde_json::json!({"live": true}))
    );
    assert_eq!(
        probe(&metrics, "/ready"),
        (200, serde_json::json!({"ready": true}))
    );
    // Everything else is for operators with a token, or there is no such path.
    assert_eq!(probe(&metrics, "/v1/status").0, 404);
    assert_eq!(server.get("/live").text(), "application");
    // A restart is no outage.
    assert!(server.command(&["restart"]).status.success());
    assert_eq!(probe(&metrics, "/ready").0, 200);
}

#[test]
fn a_server_that_starts_or_has_no_worker_is_live_and_not_ready() {
    let application = Application::new(
        "raise 'broken' if File.exist?('broken')\nrun ->(_) { Test.text('hello') }",
    );
    let server = Server::application_of(application)
        .setting(METRICS, "127.0.0.1:0")
        .start();
    let metrics = address(&server, METRICS);
    server.application().dir().write("broken", "");
    // The template and its workers end, and nothing can be loaded in their place.
    for role in ["template", "worker"] {
        for process in server.status().processes(role) {
            process.kill();
        }
    }
    until("probes hear of it", || probe(&metrics, "/ready").0 == 503);
    let expect = serde_json::json!({"ready": false, "reason": "no worker can serve"});
    assert_eq!(probe(&metrics, "/ready"), (503, expect));
    assert_eq!(probe(&metrics, "/live").0, 200);
}

#[test]
fn a_stop_turns_readiness_off_first_and_loses_no_request() {
    let application = Application::new("run ->(_) { Test.text('hello') }");
    let server = Server::application_of(application)
        .setting(METRICS, "127.0.0.1:0")
        .setting("stop_delay", "3s")
        .start();
    let metrics = address(&server, METRICS);
    let process = server.process();
    process.signal(Signal::TERM);
    until("readiness is off", || probe(&metrics, "/ready").0 == 503);
    let (_, told) = probe(&metrics, "/ready");
    assert_eq!(told["reason"], "the server is stopping");
    assert_eq!(probe(&metrics, "/live").0, 200);
    // Until the balancer has heard of it, requests come over new connections and over those that are open.
    let mut kept = server.connect();
    for _ in 0..50 {
        assert_eq!(kept.get("/").expect(200).text(), "hello");
        assert_eq!(server.get("/").expect(200).text(), "hello");
    }
    let stopped = server.wait_end();
    assert!(stopped.status.success());
    let delay = stopped
        .log
        .iter()
        .position(|line| line.contains("stop_delay"));
    let drain = stopped
        .log
        .iter()
        .position(|line| line.contains("draining"));
    assert!(delay.is_some() && delay < drain, "{:#?}", stopped.log);
}

#[test]
fn probes_hear_that_a_server_leaves_until_its_last_request_has_ended() {
    let application = Application::new(
        "run ->(_) { Test.pass('work', \"call / #{Process.pid}\"); Test.text('done') }",
    );
    let mut gated = Gated::start(application, |builder| {
        builder
            .setting(METRICS, "127.0.0.1:0")
            .setting("agent_check_listen", "127.0.0.1:0")
    });
    let metrics = address(&gated.server, METRICS);
    let agent = agent(&gated.server);
    let mut client = gated.server.ask("GET", "/");
    gated.called();
    gated.server.process().signal(Signal::TERM);
    gated.server.log().wait(|line| line.contains("draining"));
    let expect = serde_json::json!({"ready": false, "reason": "the server is stopping"});
    assert_eq!(probe(&metrics, "/ready"), (503, expect));
    assert_eq!(probe(&metrics, "/live").0, 200);
    assert_eq!(check(&agent), "up 0%\n");
    gated.gate.open();
    client.response().expect(200);
    assert!(gated.server.wait_end().status.success());
}

#[test]
fn a_second_signal_ends_the_delay_of_a_stop() {
    let application = Application::new("run ->(_) { Test.text('hello') }");
    let server = Server::application_of(application)
        .setting("stop_delay", "1h")
        .start();
    server.process().signal(Signal::TERM);
    server.log().wait(|line| line.contains("stop_delay"));
    let stopped = server.stop_with(Signal::TERM);
    assert!(stopped.status.success());
}

#[test]
fn probes_on_the_public_address_are_answered_where_settings_name_them() {
    for threads in ["1", "2"] {
        let application = Application::new("run ->(_) { Test.text('application') }");
        let server = Server::application_of(application)
            .setting("live_path", "/live")
            .setting("ready_path", "/ready")
            .setting("stop_delay", "3s")
            .setting("front_threads", threads)
            .start();
        let check = |path: &str, status: u16, text: &str| {
            assert_eq!(server.get(path).expect(status).text(), text, "{path}");
        };
        check("/live", 200, "OK\n");
        check("/ready", 200, "OK\n");
        check("/live/deep", 200, "application");
        check("/readyz", 200, "application");
        server.process().signal(Signal::TERM);
        until("readiness is off", || server.get("/ready").status() == 503);
        check("/live", 200, "OK\n");
        check("/", 200, "application");
        let stopped = server.wait_end();
        assert!(stopped.status.success());
    }
}

#[test]
fn probes_hear_of_no_outage_during_an_upgrade() {
    let application = Application::new("run ->(_) { Test.text('hello') }");
    let mut server = Server::application_of(application)
        .setting(METRICS, "127.0.0.1:0")
        .setting("ready_path", "/ready")
        .start();
    let metrics = address(&server, METRICS);
    let probe = format!("GET /ready HTTP/1.1\r\nHost: {metrics}\r\n\r\n");
    let mut kept = Client::connect(&*metrics);
    let mut public = server.connect();
    kept.send(&*probe).response().expect(200);
    public.get("/ready").expect(200);
    let ended = AtomicBool::new(false);
    let asked = std::thread::scope(|scope| {
        let probes = scope.spawn(|| {
            let (mut kept, mut asked, mut closed) = (kept, 0, 0);
            // Long enough after the upgrade that the old server says what it says then.
            while !ended.load(Ordering::Relaxed) || closed == 0 {
                let answer = kept.send(&*probe).response();
                answer.expect(200);
                asked += 1;
                if answer.field("connection") == Some("close") {
                    closed += 1;
                    kept = Client::connect(&*metrics);
                }
                get(&metrics, "/ready").expect(200);
            }
            // The old server answers no second request on a connection that it had.
            assert_eq!(closed, 1);
            asked
        });
        let told = scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                public.get("/ready").expect(200);
            }
        });
        let upgraded = server.command(&["upgrade"]);
        ended.store(true, Ordering::Relaxed);
        assert!(upgraded.status.success(), "{}", upgraded.output());
        told.join().expect("every answer is 200");
        probes.join().expect("every answer is 200")
    });
    assert!(asked > 1);
    let pid = server.status().0["pid"].as_u64().expect("a number");
    let pid = u32::try_from(pid).expect("a pid");
    server.replaced_by(test_support::Process(pid));
}
