//! The metrics as Prometheus itself sees them: no counter falls, whatever happens to the processes of a server, and each
//! request is one line of the log and one count.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use highball_tests::operators::address;
use highball_tests::prometheus::Prometheus;
use rustix::process::Signal;
use serde_json::Value;
use test_support::{Application, Client, Process, Server, TEST_TIMEOUT, until};

/// Raises at `/fail`, waits at `/long`, and may be cached at `/cached`.
const SOURCE: &str = r##"
run lambda { |env|
  case env["PATH_INFO"]
  when "/fail" then raise "boom"
  when "/long" then Test.pass("long")
  when "/cached" then next Test.text("stored", headers: { "cache-control" => "public, max-age=1" })
  end
  Test.text("ok")
}"##;

/// Sends requests until `over`; what becomes of them is the log's and the metrics' business.
fn send_requests(address: std::net::SocketAddr, over: &AtomicBool) {
    const TARGETS: [(&str, &str); 5] = [
        ("GET", "/books/1"),
        ("POST", "/books"),
        ("GET", "/cached"),
        ("GET", "/fail"),
        ("GET", "/books/2"),
    ];
    for (method, target) in TARGETS.iter().cycle() {
        if over.load(Ordering::Relaxed) {
            return;
        }
        let request = format!(
            "{method} {target} HTTP/1.1\r\nHost: test\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        );
        if let Ok(mut client) = Client::try_connect(address)
            && client.try_send(request).is_ok()
        {
            // It may be cut.
            let _ = client.try_response(method);
        }
    }
}

/// The number of requests of each outcome, as the log has them.
fn logged(server: &Server) -> BTreeMap<String, u64> {
    let mut outcomes = BTreeMap::new();
    for line in server.log().lines() {
        let line: Value = serde_json::from_str(&line).unwrap_or_default();
        if let Some(outcome) = line["outcome"].as_str() {
            *outcomes.entry(outcome.to_owned()).or_default() += 1;
        }
    }
    outcomes
}

/// The same, as Prometheus has them.
fn counted(prometheus: &Prometheus) -> BTreeMap<String, u64> {
    let series = prometheus.ask("sum by (outcome) (highball_requests_total)");
    let counts = series.into_iter().filter(|(_, count)| *count > 0.0);
    let outcome = |labels: &Value| labels["outcome"].as_str().unwrap_or_default().to_owned();
    counts
        .map(|(labels, count)| (outcome(&labels), count as u64))
        .collect()
}

#[track_caller]
fn restart(server: &Server, times: usize) {
    for _ in 0..times {
        let ran = server.command(&["restart"]);
        assert!(ran.status.success(), "{}", ran.output());
    }
}

/// Kills a process, and waits until there is another one, a template and two ready workers.
#[track_caller]
fn kill(server: &Server, role: &str) {
    // Of the latest generation: one before it may be on its way out.
    let there = server.status().processes(role);
    let killed: Process = *there.last().expect("a process");
    killed.signal(Signal::KILL);
    until("another process is there", || {
        let status = server.status();
        let all = [
            status.processes("template").len(),
            status.ready_workers().len(),
        ];
        all == [1, 2] && !status.processes(role).contains(&killed)
    });
}

/// What happens to the server while requests come: 20 restarts, killed processes, and an upgrade beside a request that ends
/// after it.
#[track_caller]
fn disturb(server: &mut Server, application: &mut Running) {
    restart(server, 10);
    kill(server, "worker");
    kill(server, "template");
    let mut long = server.ask("GET", "/long");
    assert_eq!(application.events.wait(), "at long");
    let ran = server.command(&["upgrade"]);
    assert!(ran.status.success(), "{}", ran.output());
    let old = server.replaced_by(ran.process());
    application.gate.admit(1);
    long.response().expect(200);
    assert!(old.wait_gone(TEST_TIMEOUT));
    kill(server, "worker");
    restart(server, 10);
    kill(server, "worker");
}

/// What the test has of an application while it runs.
struct Running {
    events: test_support::Events,
    gate: test_support::Gate,
}

#[test]
fn no_counter_that_prometheus_reads_ever_falls() {
    let application = Application::new(SOURCE);
    let mut running = Running {
        events: application.events(),
        gate: application.gate("long"),
    };
    let mut server = Server::application_of(application)
        .workers(2)
        .threads(2)
        .setting("metrics_listen", "127.0.0.1:0")
        .setting("cache_bytes", "1MiB")
        .setting("log_format", "json")
        .start();
    let prometheus = Prometheus::start(&address(&server, "metrics_listen"));
    // It finds its targets some seconds after its start.
    until("Prometheus has scraped the server", || {
        !prometheus.ask("highball_requests_total").is_empty()
    });
    let (over, clients) = (AtomicBool::new(false), server.address());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| send_requests(clients, &over));
        }
        disturb(&mut server, &mut running);
        over.store(true, Ordering::Relaxed);
    });
    until("Prometheus has a count for each line of the log", || {
        let logged = logged(&server);
        logged["ok"] > 0 && counted(&prometheus) == logged
    });
    expect_no_resets(&prometheus);
    expect_events(&prometheus);
    server.stop();
}

#[track_caller]
fn expect_no_resets(prometheus: &Prometheus) {
    let names = prometheus.names();
    let counters = names.iter().filter(|name| {
        let ends = ["_total", "_count", "_sum", "_bucket"];
        name.starts_with("highball_") && ends.iter().any(|end| name.ends_with(end))
    });
    let mut number = 0;
    for name in counters {
        let fallen = prometheus.ask(&format!("resets({name}[1h]) > 0"));
        let samples = prometheus.samples(name);
        assert!(fallen.is_empty(), "{name} fell: {fallen:?}\n{samples}");
        number += 1;
    }
    assert!(number >= 20, "{names:?}");
    // It was there all the time.
    let scrapes = prometheus.ask("count_over_time(highball_requests_total{outcome=\"ok\"}[1h])");
    assert!(scrapes[0].1 > 10.0, "{scrapes:?}");
}

/// What happened beside requests was counted, by both servers together.
#[track_caller]
fn expect_events(prometheus: &Prometheus) {
    for question in [
        "highball_restarts_total{result=\"ok\"} == 20",
        "highball_workers_replaced_total{cause=\"died\"} >= 3",
        "highball_cache_responses_total{result=\"hit\"} >= 2",
        "highball_app_duration_seconds_count{route=\"GET /long\"} == 1",
        "sum(highball_exceptions_total) > 0 and sum(highball_exceptions_total) == sum(highball_route_errors_total{route=\"GET /fail\"})",
    ] {
        until(question, || prometheus.ask(question).len() == 1);
    }
}
