//! Slow requests: which are listed, where they spent their time, and what is never sampled or shown.

use highball_tests::stacks::share;
use serde_json::Value;
use test_support::{Application, Server, ServerBuilder, until};

/// `/hot` computes and `/wait` waits, both for a second and a half.
const SLOW: &str = r##"
def hot(order = 0)
  order += 1 until Process.clock_gettime(Process::CLOCK_MONOTONIC) > @until
end

def wait_for_others = sleep(1.5)

run lambda { |env|
  @until = Process.clock_gettime(Process::CLOCK_MONOTONIC) + 1.5
  case env["PATH_INFO"]
  when "/hot" then hot
  when "/wait" then wait_for_others
  when "/late" then Test.pass("work", "late")
  end
  Test.text("ok")
}
"##;

/// A server for which requests are slow after that time.
fn builder(slow_request: &str) -> ServerBuilder {
    Server::application_of(Application::new(SLOW))
        .workers(1)
        .setting("slow_request", slow_request)
}

/// What `highball slow` says with these arguments, as JSON.
#[track_caller]
fn slow(server: &Server, arguments: &[&str]) -> Vec<Value> {
    let all: Vec<&str> = ["slow", "--json"]
        .iter()
        .chain(arguments)
        .copied()
        .collect();
    let ran = server.command(&all);
    assert!(ran.status.success(), "{}", ran.output());
    serde_json::from_str(&ran.stdout).expect("JSON")
}

#[test]
fn a_slow_request_shows_where_it_spent_its_time() {
    let server = builder("200ms").start();
    for (path, method) in [("/hot", "hot"), ("/wait", "wait_for_others")] {
        server.get(path).expect(200);
        let all = slow(&server, &[]);
        let at = all.iter().position(|one| one["path"] == path).expect(path);
        let number = (at + 1).to_string();
        let one = slow(&server, &[&number]).remove(0);
        assert_eq!(
            (&one["method"], &one["status"]),
            (&"GET".into(), &200.into())
        );
        assert!(one["app_ms"].as_f64().unwrap_or(0.0) >= 1500.0, "{one}");
        assert!(one["samples"].as_u64().unwrap_or(0) >= 3, "{one}");
        assert!(share(&one["stacks"], method) >= 0.9, "{one}");
        let shown = server.command(&["slow", &number]);
        assert!(
            shown.stdout.contains(&format!("{method}  config.ru:")),
            "{}",
            shown.output()
        );
    }
}

#[test]
fn slow_requests_survive_a_restart_and_an_upgrade() {
    let mut server = builder("200ms").start();
    server.get("/hot").expect(200);
    assert!(server.command(&["restart"]).status.success());
    server.get("/wait").expect(200);
    let before = slow(&server, &[]);
    assert_eq!(before.len(), 2);
    let ran = server.command(&["upgrade"]);
    assert!(ran.status.success(), "{}", ran.output());
    server.replaced_by(ran.process());
    assert_eq!(slow(&server, &[]), before);
}

#[test]
fn what_is_below_the_limit_or_without_one_is_not_listed() {
    let server = builder("10s").start();
    server.get("/hot").expect(200);
    assert!(slow(&server, &[]).is_empty());
    let server = builder("none").start();
    server.get("/hot").expect(200);
    assert!(slow(&server, &[]).is_empty());
    let ran = server.command(&["slow", "1"]);
    assert!(!ran.status.success());
    assert!(
        ran.stderr.contains("there is no slow request 1"),
        "{}",
        ran.output()
    );
}

#[test]
fn secrets_of_a_slow_request_are_not_shown() {
    let server = builder("200ms")
        .setting("log_filter_parameters", "pin")
        .start();
    server.get("/wait?pin=1234&page=2&name=%3Cb%3E").expect(200);
    let svg = server.dir().join("flames.svg");
    let ran = server.command(&["slow", "1", "--svg", "flames.svg"]);
    assert!(ran.status.success(), "{}", ran.output());
    let picture = std::fs::read_to_string(svg).expect("a picture");
    for text in [&ran.stdout, &picture] {
        assert!(
            text.contains("page=2") && text.contains("pin=[FILTERED]"),
            "{text}"
        );
        assert!(!text.contains("1234"), "{text}");
    }
}

#[test]
fn a_request_past_its_deadline_is_logged_and_listed() {
    let application = Application::new(SLOW);
    let (mut events, gate) = (application.events(), application.gate("work"));
    let server = Server::application_of(application)
        .workers(1)
        .setting("slow_request", "200ms")
        .setting("request_timeouts", "/late=1s")
        .start();
    let mut client = server.ask("GET", "/late");
    assert_eq!(events.wait(), "late");
    client.response().expect(504);
    server
        .log()
        .wait(|line| line.contains("runs past its deadline"));
    until("it is listed", || slow(&server, &[]).len() == 1);
    let one = slow(&server, &["1"]).remove(0);
    assert_eq!(one["outcome"], "deadline_exceeded", "{one}");
    assert!(one["samples"].as_u64().unwrap_or(0) >= 1, "{one}");
    // A stop waits for it, though its client has its response.
    gate.admit(1);
}
