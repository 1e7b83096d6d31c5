//! The application's own metrics (`Highball.metrics`), as `/metrics` and StatsD show them.

use std::thread;

use highball_tests::operators::{address, get};
use highball_tests::prometheus::promtool;
use rustix::process::Signal;
use test_support::{Process, Server, ServerBuilder, until};

/// Runs the Ruby code that the query names, and says what it returns.
const COUNTS: &str = r#"
ORDERS = Highball.metrics.counter("orders", "Orders placed", labels: [:kind])
BOOTS = Highball.metrics.counter("boots", "Loads of the application")
BOOTS.add
CARTS = Highball.metrics.gauge("carts_open", "Carts that are open")
LATEST = Highball.metrics.gauge("latest", "Set by one of the workers", aggregate: :latest)
IMPORT = Highball.metrics.histogram("import_seconds", "Imports", labels: [:kind])
TASKS = {
  "/order" => -> { ORDERS.add(2, kind: "web") },
  "/cart" => -> { CARTS.set(3) },
  "/import" => -> { IMPORT.observe(0.3, kind: "say \"hi\"\\\n") },
  "/background" => -> { Thread.new { ORDERS.add(kind: "job") } },
  "/rest" => -> {},
}
run lambda { |env|
  TASKS.fetch(env["PATH_INFO"]).call
  Test.text(Process.pid.to_s)
}"#;

fn counting(server: ServerBuilder) -> ServerBuilder {
    server.setting("metrics_listen", "127.0.0.1:0")
}

fn exposition(server: &Server) -> String {
    let address = address(server, "metrics_listen");
    get(&address, "/metrics").expect(200).text()
}

/// The value of a sample.
fn sample(text: &str, name: &str) -> Option<f64> {
    let mut lines = text.lines();
    let line = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
    line.parse().ok()
}

/// The samples once one has this value.
fn wait_for(server: &Server, name: &str, value: Option<f64>) -> String {
    let mut text = String::new();
    until(name, || {
        text = exposition(server);
        sample(&text, name) == value
    });
    text
}

const WEB: &str = "orders_total{application=\"default\",kind=\"web\"}";
const JOB: &str = "orders_total{application=\"default\",kind=\"job\"}";
const BOOTS: &str = "boots_total{application=\"default\"}";
const CARTS: &str = "carts_open{application=\"default\"}";

#[test]
fn counts_of_four_workers_are_exact() {
    let server = counting(Server::app(COUNTS)).workers(4).threads(3).start();
    let sent = 8 * 100;
    thread::scope(|scope| {
        for mut client in (0..8).map(|_| server.connect()) {
            scope.spawn(move || {
                (0..100).for_each(|_| assert_eq!(client.get("/order").status(), 200));
            });
        }
    });
    server.get("/import").expect(200);
    // Who has the response finds what its request counted.
    let text = exposition(&server);
    assert_eq!(sample(&text, WEB), Some(f64::from(2 * sent)), "{text}");
    assert_eq!(sample(&text, BOOTS), Some(1.0), "{text}");
    let labels = "application=\"default\",kind=\"say \\\"hi\\\"\\\\\\n\"";
    for (name, value) in [
        (
            format!("import_seconds_bucket{{{labels},le=\"0.25\"}}"),
            0.0,
        ),
        (format!("import_seconds_bucket{{{labels},le=\"0.5\"}}"), 1.0),
        (
            format!("import_seconds_bucket{{{labels},le=\"+Inf\"}}"),
            1.0,
        ),
        (format!("import_seconds_sum{{{labels}}}"), 0.3),
        (format!("import_seconds_count{{{labels}}}"), 1.0),
    ] {
        assert_eq!(sample(&text, &name), Some(value), "{name}\n{text}");
    }
    promtool(&text);
    server.stop();
}

#[test]
fn counts_survive_killed_workers_and_restarts_and_gauges_do_not() {
    let server = counting(Server::app(COUNTS)).workers(1).start();
    server.get("/order").expect(200);
    let pid = server.get("/cart").expect(200).text();
    assert_eq!(sample(&exposition(&server), CARTS), Some(3.0));
    let pid = pid.parse().expect("a process");
    Process(pid).signal(Signal::KILL);
    wait_for(&server, CARTS, None);
    assert!(server.command(&["restart"]).status.success());
    server.get("/order").expect(200);
    let text = wait_for(&server, BOOTS, Some(2.0));
    assert_eq!(sample(&text, WEB), Some(4.0), "{text}");
    server.stop();
}

#[test]
fn work_beside_requests_is_counted_within_moments() {
    let server = counting(Server::app(COUNTS)).workers(1).start();
    server.get("/background").expect(200);
    wait_for(&server, JOB, Some(1.0));
    // And by a worker that leaves before that.
    server.get("/background").expect(200);
    assert!(server.command(&["restart"]).status.success());
    wait_for(&server, JOB, Some(2.0));
    server.stop();
}

#[test]
fn an_application_that_makes_up_series_is_held_to_a_thousand() {
    let source = r##"
        MANY = Highball.metrics.counter("many", "Too many", labels: [:id])
        run ->(env) { 400.times { |id| MANY.add(id: "#{env["QUERY_STRING"]}-#{id}") }; [200, {}, []] }"##;
    let server = counting(Server::app(source)).workers(2).start();
    for request in 0..4 {
        server.get(&format!("/?{request}")).expect(200);
    }
    let dropped =
        "highball_application_series_dropped_total{application=\"default\",reason=\"limit\"}";
    let text = wait_for(&server, dropped, Some(600.0));
    let series = text.lines().filter(|line| line.starts_with("many_total{"));
    assert_eq!(series.count(), 1000);
    promtool(&text);
    server.stop();
}

#[test]
fn what_a_hostile_worker_says_reaches_nobody() {
    // As an application could that takes the gem's own means.
    let source = r##"
        run lambda { |env|
          Highball::Native.count("no JSON \xff")
          Highball::Native.count('{"metrics":[{"name":"highball_requests","kind":"counter","help":"h",' \
                                 '"series":[{"labels":[],"value":1000000}]}]}')
          Highball::Native.count('{"metrics":[{"name":"a\n# TYPE b gauge","kind":"gauge","help":"h",' \
                                 '"series":[{"labels":[],"value":1}]}]}')
          Highball::Native.count('{"metrics":[{"name":"fine","kind":"counter","help":"x\n# EOF\\\\",' \
                                 '"series":[{"labels":[["a","\"} 7\n# EOF"]],"value":1}]}]}')
          [200, {}, []]
        }"##;
    let server = counting(Server::app(source)).workers(1).start();
    server.get("/").expect(200);
    let dropped =
        "highball_application_series_dropped_total{application=\"default\",reason=\"invalid\"}";
    let text = wait_for(&server, dropped, Some(3.0));
    let fine = "fine_total{application=\"default\",a=\"\\\"} 7\\n# EOF\"}";
    assert_eq!(sample(&text, fine), Some(1.0), "{text}");
    assert!(
        !text.contains("1000000") && !text.contains("TYPE b"),
        "{text}"
    );
    promtool(&text);
    server.stop();
}
