//! `highball top` and `highball status --watch` in a real pseudo-terminal: what they show is what the status says, and the
//! terminal is left as it was.

use rustix::process::Signal;
use test_support::{Application, Program, Screen, Server, binary};

const HELLO: &str = r##"run lambda { |env| Test.text("hello") }"##;
const WAITS: &str = r##"run lambda { |env| Test.pass("work"); Test.text("hello") }"##;
const USUAL: (u16, u16) = (24, 80);

#[test]
fn top_shows_what_the_status_says_and_q_restores_the_terminal() {
    let application = Application::new(WAITS);
    let (mut events, gate) = (application.events(), application.gate("work"));
    let server = Server::application_of(application)
        .workers(2)
        .threads(2)
        .start();
    let mut client = server.connect();
    client.send("GET /what-it-runs HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(events.wait(), "at work");
    let mut screen = Screen::highball(server.dir(), &["top"], USUAL, &[]);
    let shown = screen.wait_text("GET /what-it-runs");
    let status = server.status();
    let number = |pointer: &str| status.number(pointer);
    for text in [
        format!("pid {}", number("/pid")),
        format!(
            "queue {} of {}, longest {}",
            number("/queue/length"),
            number("/queue/limit"),
            number("/queue/longest")
        ),
        format!(
            "slots {} of {} free",
            number("/slots/free"),
            number("/slots/total")
        ),
        "threads 1 of 4 busy".to_owned(),
        "saturation 25 %".to_owned(),
        "1 running, the longest first".to_owned(),
        "generations 1 serving".to_owned(),
    ] {
        assert!(shown.contains(&text), "{text}\n{shown}");
    }
    for worker in status.processes("worker") {
        assert!(shown.contains(&worker.0.to_string()), "{worker:?}\n{shown}");
    }
    gate.admit(1);
    client.response().expect(200);
    screen.wait_text("no request runs");
    screen.press("q");
    let (ended, left) = screen.wait_restored();
    assert!(ended.success(), "{ended}");
    assert!(!left.contains("highball"), "{left}");
}

#[test]
fn signals_and_ctrl_c_end_top_and_restore_the_terminal() {
    let server = Server::app(HELLO).start();
    for signal in [Signal::TERM, Signal::HUP, Signal::INT] {
        let screen = Screen::highball(server.dir(), &["top"], USUAL, &[]);
        screen.wait_text("generations 1 serving");
        screen.process().signal(signal);
        assert!(screen.wait_restored().0.success());
    }
    for arguments in [&["top"][..], &["status", "--watch"]] {
        let mut screen = Screen::highball(server.dir(), arguments, USUAL, &[]);
        screen.wait_text("highball 0");
        screen.press("\x03");
        assert!(screen.wait_restored().0.success());
    }
}

/// The titles of the table of workers.
fn titles(screen: &str) -> Vec<&str> {
    let mut lines = screen.lines();
    let line = lines.find(|line| line.contains("worker") && line.contains("busy "));
    line.unwrap_or_default().split_whitespace().collect()
}

#[test]
fn top_follows_the_size_of_the_terminal_and_its_keys() {
    let server = Server::app(HELLO).workers(2).start();
    let mut screen = Screen::highball(server.dir(), &["top"], (24, 120), &[]);
    screen.wait("all columns", |text| titles(text).ends_with(&["up"]));
    screen.resize(12, 40);
    screen.wait("fewer columns", |text| {
        let titles = titles(text);
        titles.contains(&"req/s") && !titles.contains(&"state")
    });
    screen.resize(24, 80);
    screen.wait_text("workerv");
    screen.press("sss");
    screen.wait_text("privatev");
    screen.press("r");
    screen.wait_text("private^");
    server.get("/").expect(200);
    screen.press("t");
    // The application names no route: its path is one.
    let routes = screen.wait_text("GET /");
    assert!(routes.contains("p95 ms"), "{routes}");
    screen.press("p");
    screen.wait_text("paused");
    screen.press("ph");
    screen.wait("goes on", |text| {
        text.contains("q quit") && !text.contains("paused")
    });
}

#[test]
fn top_has_colours_only_where_they_are_wanted() {
    let application = Application::new(WAITS);
    let (mut events, gate) = (application.events(), application.gate("work"));
    let server = Server::application_of(application).start();
    let mut client = server.connect();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(events.wait(), "at work");
    for (no_color, expect) in [("", true), ("1", false)] {
        // All threads are busy: that is in red.
        let variables = [("NO_COLOR", no_color)];
        let screen = Screen::highball(server.dir(), &["top"], USUAL, &variables);
        screen.wait_text("threads 1 of 1 busy");
        assert_eq!(screen.has_colours(), expect, "{no_color}");
    }
    gate.admit(1);
    client.response().expect(200);
}

#[test]
fn top_goes_on_through_restarts_upgrades_and_a_stop() {
    let mut server = Server::app(HELLO).start();
    let mut screen = Screen::highball(
        server.dir(),
        &["top", "--pid", &server.process().0.to_string()],
        (24, 200),
        &[],
    );
    screen.wait_text("generations 1 serving");
    let ran = server.command(&["restart"]);
    assert!(ran.status.success(), "{}", ran.output());
    screen.wait_text("restarted: generation 2 serves");
    let ran = server.command(&["upgrade"]);
    assert!(ran.status.success(), "{}", ran.output());
    let old = server.process().0;
    let new = server.status().processes("front")[0];
    server.replaced_by(new);
    screen.wait_text(&format!("pid {} in place of {old}", new.0));
    server.stop();
    screen.wait_text("no answer, trying again");
    screen.press("q");
    assert!(screen.wait_restored().0.success());
}

#[test]
fn without_a_terminal_top_says_what_to_use() {
    let server = Server::app(HELLO).start();
    let ran = server.command(&["top"]);
    assert_eq!(ran.status.code(), Some(1));
    assert!(ran.stderr.contains("status --json"), "{}", ran.stderr);
    let screen = Screen::highball(server.dir(), &["top"], USUAL, &[("TERM", "dumb")]);
    let (ended, shown) = screen.wait_restored();
    assert_eq!(ended.code(), Some(1), "{shown}");
    assert!(shown.contains("name in TERM"), "{shown}");
}

#[test]
fn a_watched_status_is_the_page_of_the_status() {
    let server = Server::app(HELLO).workers(2).start();
    let mut screen = Screen::highball(server.dir(), &["status", "--watch", "1"], (30, 120), &[]);
    screen.wait_text("requests none yet");
    server.get("/").expect(200);
    let shown = screen.wait_text("requests ok 1");
    let page = server.command(&["status"]).stdout;
    // All but ages.
    let lines = page
        .lines()
        .filter(|line| !line.contains(", up ") && !line.contains(" up "));
    for line in lines.filter(|line| !line.is_empty()) {
        assert!(shown.contains(line), "{line}\n{shown}");
    }
    screen.press("\x1b[B");
    screen.wait("the second line first", |text| {
        text.starts_with("  on http")
    });
    screen.press("q");
    assert!(screen.wait_restored().0.success());
}

#[test]
fn a_watched_status_in_a_pipe_is_one_page_after_the_other() {
    let server = Server::app(HELLO).start();
    let line = format!(
        "'{}' status --watch 1 | grep --max-count=3 '^highball '",
        binary().display()
    );
    // The pipe's end ends the command.
    let ran = Program::new("sh")
        .args(["-c", &line])
        .current_dir(server.dir())
        .run();
    assert!(ran.status.success(), "{}", ran.output());
    let pages = ran
        .stdout
        .lines()
        .filter(|line| line.contains(" is serving "));
    assert_eq!(pages.count(), 3, "{}", ran.output());
}
