//! How many threads take requests: the advice in the status, a range of threads, and requests that say that they wait.

use highball_tests::operators::{address, get};
use serde_json::Value;
use test_support::{Application, Client, Gated, Server, until};

/// Waits at the gate; below `/io` it says first that it waits, by either name.
const WAITS: &str = r##"run lambda { |env|
  path = env["PATH_INFO"]
  env["highball.io_bound"].call if path.start_with?("/io/")
  2.times { env["puma.mark_as_io_bound"].call } if path.start_with?("/io/puma/")
  Test.pass("work", "call #{path} #{Process.pid}")
  Test.text("done")
}"##;

fn begin(settings: &str) -> Gated {
    Gated::start(Application::new(WAITS), |builder| builder.threads(settings))
}

fn ask(gated: &Gated, paths: &[&str]) -> Vec<Client> {
    let asks = paths.iter();
    asks.map(|path| gated.server.ask("GET", path)).collect()
}

/// Lets all of these go on, so many of which have not begun yet.
fn end(gated: &mut Gated, clients: Vec<Client>, waiting: usize) {
    gated.gate.admit(clients.len());
    for mut client in clients {
        client.response().expect(200);
    }
    (0..waiting).for_each(|_| drop(gated.called()));
}

/// How many threads run a request, as the status says.
fn running(status: &Value) -> usize {
    let threads = status["threads"].as_array().expect("threads");
    threads
        .iter()
        .filter(|one| one["state"] == "running")
        .count()
}

#[test]
fn of_a_range_of_threads_only_the_active_ones_take_requests() {
    let mut gated = begin("1..8");
    let clients = ask(&gated, &["/1", "/2", "/3", "/4", "/5"]);
    for _ in 0..3 {
        gated.called();
    }
    gated.wait_queued(2);
    let status = gated.server.status().0;
    let active = &status["active_threads"];
    assert_eq!(
        [&active["active"], &active["least"], &active["most"]],
        [3, 1, 8]
    );
    assert_eq!(
        (running(&status), status["threads"].as_array().map(Vec::len)),
        (3, Some(8))
    );
    assert_eq!(status["saturation"], 1.667);
    let page = gated.server.command(&["status"]).stdout;
    assert!(
        page.contains("threads that take requests: 3 of 1..8"),
        "{page}"
    );
    end(&mut gated, clients, 2);
}

#[test]
fn a_request_that_says_that_it_waits_lets_its_worker_take_one_more() {
    let mut gated = begin("1..8");
    let mut clients = ask(&gated, &["/io/puma/1", "/io/2"]);
    (0..2).for_each(|_| drop(gated.called()));
    clients.append(&mut ask(&gated, &["/3", "/4", "/5", "/6"]));
    // Three in all, and one for each of the two that wait.
    (0..3).for_each(|_| drop(gated.called()));
    gated.wait_queued(1);
    assert_eq!(running(&gated.server.status().0), 5);
    end(&mut gated, clients, 1);
    // What the two had said ended with them.
    let clients = ask(&gated, &["/1", "/2", "/3", "/4"]);
    for _ in 0..3 {
        gated.called();
    }
    gated.wait_queued(1);
    end(&mut gated, clients, 1);
}

#[test]
fn without_a_range_all_threads_take_requests() {
    let mut gated = begin("5");
    let clients = ask(&gated, &["/1", "/2", "/3", "/4", "/io/5"]);
    for _ in 0..5 {
        gated.called();
    }
    let status = gated.server.status().0;
    assert_eq!(
        (running(&status), &status["active_threads"]),
        (5, &Value::Null)
    );
    end(&mut gated, clients, 0);
}

#[test]
fn the_status_advises_threads_after_a_thousand_requests() {
    let server = Server::app("run ->(_) { sleep 0.005; Test.text('done') }").start();
    let mut client = server.connect();
    let mut get = || {
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        client.response().expect(200);
    };
    (0..999).for_each(|_| get());
    until("these are counted", || {
        server.status().0["routes"][0]["requests"] == 999
    });
    assert_eq!(server.status().0["thread_advice"], Value::Null);
    get();
    until("there is advice", || {
        !server.status().0["thread_advice"].is_null()
    });
    let advice = server.status().0["thread_advice"].clone();
    assert_eq!([&advice["threads"], &advice["requests"]], [1, 1000]);
    // On Ruby 3.3 and newer all requests count.
    assert!(
        advice["alone"] == true || advice["lock_share"].is_f64(),
        "{advice}"
    );
    assert!(advice["advised"].as_u64() > Some(1), "{advice}");
    assert!(advice["wait_share"].as_f64() > Some(0.5), "{advice}");
    let page = server.command(&["status"]).stdout;
    assert!(page.contains("threads: 1; requests wait "), "{page}");
}

/// Computes, and lets other threads compute between: as threads do that read from a database.
const COMPUTES: &str = r#"
TELLS = RUBY_VERSION.to_f >= 3.3
run lambda { |env|
  5.times do
    20_000.times { _1 }
    Thread.pass
  end
  Test.text(TELLS ? "tells" : "does not tell")
}"#;

#[test]
fn waiting_for_rubys_lock_advises_no_thread() {
    let server = Server::app(COMPUTES)
        .threads(8)
        .setting("log_format", "json")
        .setting("log_fields", "lock_ms")
        .setting("metrics_listen", "127.0.0.1:0")
        .start();
    let mut clients: Vec<_> = (0..8).map(|_| server.connect()).collect();
    for _ in 0..130 {
        for client in &mut clients {
            client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        }
        for client in &mut clients {
            client.response().expect(200);
        }
    }
    let tells = server.get("/last").expect(200).text() == "tells";
    until("there is advice", || {
        !server.status().0["thread_advice"].is_null()
    });
    let status = server.status().0;
    let (advice, route) = (&status["thread_advice"], &status["routes"][0]);
    let metrics = get(&address(&server, "metrics_listen"), "/metrics");
    let metrics = metrics.expect(200).text();
    let line = server.log().wait(|line| line.contains("\"/last\""));
    let line: Value = serde_json::from_str(&line).expect("JSON");
    if !tells {
        // Only requests that ran alone would say how many threads: the advice is an upper limit.
        assert_eq!(
            [&advice["lock_share"], &route["lock_share"]],
            [&Value::Null; 2]
        );
        assert_eq!(line["lock_ms"], Value::Null);
        assert!(!metrics.contains("lock_wait"), "{metrics}");
        return;
    }
    assert!(advice["lock_share"].as_f64() > Some(0.3), "{advice}");
    assert!(route["lock_share"].as_f64() > Some(0.3), "{route}");
    // On a busy machine they also wait for a core. With waits for the lock the advice would be 8 or more.
    assert!(advice["advised"].as_u64() < Some(6), "{advice}");
    assert!(line["lock_ms"].as_f64() >= Some(0.0), "{line}");
    assert!(
        metrics.contains("highball_lock_wait_seconds_total{"),
        "{metrics}"
    );
    let page = server.command(&["status"]).stdout;
    assert!(page.contains("wait for Ruby's lock)"), "{page}");
}

#[test]
fn active_threads_follow_the_advice_and_the_log_says_why() {
    let server = Server::app("run ->(_) { sleep 0.02; Test.text('done') }")
        .threads("1..8")
        .start();
    let mut client = server.connect();
    for _ in 0..150 {
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        client.response().expect(200);
    }
    let line = server
        .log()
        .wait(|line| line.contains("threads of each worker take requests"));
    assert!(
        line.contains("4 of 8 threads of each worker take requests, 3 before: requests wait"),
        "{line}"
    );
    assert_eq!(server.status().0["active_threads"]["active"], 4);
}
