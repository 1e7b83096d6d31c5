//! Settings that are read again: what is broken changes nothing and says why, and what is good applies, at once or with
//! the generation that it takes.

use test_support::{Application, Client, Ran, Server, until};

const FILE: &str = "workers = 1\nthreads = 1\n";

/// A server whose settings are in its file.
fn start(source: &str) -> Server {
    Server::app(source).settings_file(FILE).start()
}

/// Writes the file again, these lines after the usual ones, and has it read.
fn reload(server: &Server, lines: &str) -> Ran {
    let dir = server.application().dir();
    dir.write("highball.toml", format!("{FILE}{lines}"));
    server.command(&["reload"])
}

#[track_caller]
fn expect_success(ran: &Ran, stdout: &str) {
    assert_eq!(ran.status.code(), Some(0), "{}", ran.output());
    assert_eq!(ran.stdout, stdout.trim_end(), "{}", ran.output());
}

/// Asserts exit status 1 and these parts of the reason.
#[track_caller]
fn expect_failure(ran: &Ran, parts: &[&str]) {
    assert_eq!(ran.status.code(), Some(1), "{}", ran.output());
    for part in ["the settings are unchanged"].iter().chain(parts) {
        assert!(ran.stderr.contains(part), "{part:?}: {}", ran.output());
    }
}

fn post(client: &mut Client, length: usize) -> u16 {
    client.post("/", "x".repeat(length)).status()
}

#[test]
fn a_broken_file_changes_nothing_and_says_why() {
    let server = start(r##"run lambda { |env| Test.text("hello") }"##);
    let before = server.family().members();
    let ran = reload(&server, "max_body_bytes = 5\nreqest_timeout = 3\n");
    expect_failure(
        &ran,
        &[
            "highball.toml:4: unknown setting reqest_timeout; the nearest known one is request_timeout",
        ],
    );
    let ran = reload(&server, "max_body_bytes = \"many\"\nthreads = = 3\n");
    expect_failure(&ran, &["highball.toml:4: not valid TOML"]);
    let ran = reload(&server, "max_body_bytes = 5\nrackup = \"other.ru\"\n");
    expect_failure(&ran, &["there is no other.ru"]);
    server
        .log()
        .wait(|line| line.contains("the settings are unchanged") && line.contains("other.ru"));
    assert_eq!(post(&mut server.connect(), 6), 200);
    assert_eq!(server.family().members(), before);
    // Not even for the next start of the code.
    assert!(server.command(&["restart"]).status.success());
    assert_eq!(post(&mut server.connect(), 6), 200);
}

#[test]
fn what_can_change_alive_applies_to_what_begins_afterwards() {
    let server = start(
        r##"run lambda { |env|
            env["rack.input"]&.read
            Test.text(env["HTTP_X_FORWARDED_FOR"].inspect)
        }"##,
    );
    let before = server.family().members();
    let mut kept = server.connect();
    assert_eq!(post(&mut kept, 6), 200);
    let ran = reload(
        &server,
        "max_body_bytes = 5\ntrusted_proxies = [\"none\"]\naccess_log = false\n",
    );
    expect_success(
        &ran,
        "trusted_proxies: 127.0.0.0/8,::1,unix -> none\nmax_body_bytes: 1GiB -> 5\n\
         access_log: true -> false\n",
    );
    assert_eq!(post(&mut server.connect(), 6), 413);
    // A connection keeps the limits that it began with.
    assert_eq!(post(&mut kept, 6), 200);
    let mut client = server.connect();
    client.send("GET /quiet HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 1.2.3.4\r\n\r\n");
    let response = client.response();
    assert_eq!(response.expect(200).text(), "nil");
    assert_eq!(server.family().members(), before);
    let ran = reload(&server, "log_format = \"json\"\nkeep_alive_timeout = 0\n");
    assert_eq!(ran.status.code(), Some(0), "{}", ran.output());
    kept.expect_end();
    let response = server.get("/loud");
    assert_eq!(response.expect(200).field("connection"), Some("close"));
    server
        .log()
        .wait(|line| line.starts_with('{') && line.contains("/loud"));
    let log = server.stop().log;
    assert!(!log.iter().any(|line| line.contains("/quiet")));
}

#[test]
fn shorter_time_outs_and_a_longer_queue_apply_to_requests_that_come() {
    let application =
        Application::new(r##"run lambda { |env| Test.pass("work", "calls"); Test.text("done") }"##);
    let (mut events, gate) = (application.events(), application.gate("work"));
    let server = Server::application_of(application)
        .settings_file(&format!("{FILE}queue_limit = 1\n"))
        .start();
    let ask = || {
        let mut client = server.connect();
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        client
    };
    let waiting = |count: u64| {
        until("they wait", || {
            server.status().number("/queue/length") == count
        });
    };
    let mut runs = ask();
    assert_eq!(events.wait(), "calls");
    let mut waits = ask();
    waiting(1);
    ask().response().expect(503);
    expect_success(
        &reload(&server, "queue_limit = 2\n"),
        "queue_limit: 1 -> 2\n",
    );
    let mut second = ask();
    waiting(2);
    ask().response().expect(503);
    gate.open();
    for client in [&mut runs, &mut waits, &mut second] {
        client.response().expect(200);
    }
    let stuck = Application::new(r##"run lambda { |env| Test.pass("work", "calls") }"##);
    let (mut events, gate) = (stuck.events(), stuck.gate("work"));
    let server = Server::application_of(stuck).settings_file(FILE).start();
    let text = "request_timeout: 1m -> 100ms\n";
    expect_success(&reload(&server, "request_timeout = \"100ms\"\n"), text);
    let mut client = server.connect();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(events.wait(), "calls");
    client.response().expect(504);
    gate.open();
}

#[test]
fn what_is_a_matter_of_processes_comes_with_a_new_generation() {
    let source = r##"VERSION = File.read("version")
        run lambda { |env| Test.text("#{VERSION} #{env["HTTP_LONG"].to_s.length}") }"##;
    let application = Application::new(source);
    application.dir().write("version", "1");
    let server = Server::application_of(application)
        .settings_file(FILE)
        .start();
    assert_eq!(server.get("/").text(), "1 0");
    let dir = server.application().dir();
    dir.write("version", "2");
    dir.write(
        "highball.toml",
        "workers = 3\nthreads = 2\nmax_body_bytes = 5\n",
    );
    let ran = server.command(&["reload"]);
    assert_eq!(ran.status.code(), Some(0), "{}", ran.output());
    let (changes, serves) = ran.stdout.split_at(ran.stdout.find("generation").unwrap());
    assert_eq!(
        changes,
        "workers: 1 -> 3\nmax_workers: 2 -> 6\nthreads: 1 -> 2\nqueue_limit: 256 -> 600\nmax_body_bytes: 1GiB -> 5\n"
    );
    assert!(
        serves.starts_with("generation 2 serves with them after "),
        "{serves}"
    );
    assert_eq!(server.get("/").text(), "2 0");
    assert_eq!(post(&mut server.connect(), 6), 413);
    until("the old workers are gone", || {
        server.status().processes("worker").len() == 3
    });
    assert_eq!(server.status().0["threads"].as_array().unwrap().len(), 6);
    // Larger requests take larger slots, and those are made with their generation.
    dir.write(
        "highball.toml",
        "workers = 1\nthreads = 2\nmax_header_bytes = \"512KiB\"\nmax_field_bytes = \"400KiB\"\n",
    );
    let ran = server.command(&["reload"]);
    assert!(
        ran.stdout.contains("generation 3 serves"),
        "{}",
        ran.output()
    );
    let mut client = server.connect();
    client.send(format!(
        "GET / HTTP/1.1\r\nHost: a\r\nLong: {}\r\n\r\n",
        "x".repeat(300_000)
    ));
    assert_eq!(client.response().expect(200).text(), "2 300000");
    until("the old workers are gone", || {
        server.status().processes("worker").len() == 1
    });
}

#[test]
fn a_generation_that_does_not_come_up_leaves_the_old_settings_in_force() {
    let source = r##"raise "boot-error-text" if File.exist?("broken")
        run lambda { |env| Test.text("hello") }"##;
    let server = start(source);
    let before = server.family().members();
    let dir = server.application().dir();
    dir.write("broken", "");
    dir.write(
        "highball.toml",
        "workers = 3\nthreads = 1\nmax_body_bytes = 5\n",
    );
    let ran = server.command(&["reload"]);
    let serves_on = "generation 2 failed, generation 1 keeps serving: ";
    expect_failure(&ran, &[serves_on, "boot-error-text (RuntimeError)"]);
    assert_eq!(post(&mut server.connect(), 6), 200);
    until("the new processes are gone", || {
        server.family().members() == before
    });
    // A restart keeps to what is in force, whatever the file says.
    std::fs::remove_file(dir.join("broken")).unwrap();
    assert!(server.command(&["restart"]).status.success());
    until("the old worker is gone", || {
        server.status().processes("worker").len() == 1
    });
    assert_eq!(post(&mut server.connect(), 6), 200);
    let ran = server.command(&["reload"]);
    assert!(
        ran.stdout.contains("generation 4 serves"),
        "{}",
        ran.output()
    );
    until("the old worker is gone", || {
        server.status().processes("worker").len() == 3
    });
    assert_eq!(post(&mut server.connect(), 6), 413);
}

#[test]
fn what_cannot_change_is_named_and_comes_with_an_upgrade() {
    let mut server = start(r##"run lambda { |env| Test.text("hello") }"##);
    let named = "backlog: 1024 -> 7 (not applied: needs highball upgrade or a new start)\n";
    for _ in 0..2 {
        expect_success(&reload(&server, "backlog = 7\n"), named);
    }
    let ran = server.command(&["upgrade"]);
    assert_eq!(ran.status.code(), Some(0), "{}", ran.output());
    let front = server.status().processes("front")[0];
    server.replaced_by(front);
    expect_success(&server.command(&["reload"]), "no setting has changed\n");
    server.get("/").expect(200);
}
