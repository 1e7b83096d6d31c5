//! The log in a real terminal: short aligned lines in colours, as wide as the terminal, one for each request and each event,
//! in their order.

use highball_tests::terminal_picture::keep_terminal_pictures;
use test_support::{Directory, PseudoTerminal, Server, ServerBuilder};

const APPLICATION: &str = r##"
def failing = raise(ArgumentError, "no \e[2J such book")
run lambda { |env|
  case env["PATH_INFO"]
  when "/fail" then failing
  when "/missing" then Test.text("missing", status: 404)
  when "/away" then [302, { "location" => "/" }, []]
  else Test.text("hello")
  end
}"##;

/// A server in a terminal of so many columns, with the usual variables of one.
fn server_in(terminal: &PseudoTerminal) -> ServerBuilder {
    let server = Server::app(APPLICATION).terminal(terminal);
    server.env("TERM", "xterm-256color").env("NO_COLOR", "")
}

/// A line as it is shown: without colours.
fn shown(line: &str) -> String {
    let mut text = String::new();
    let mut rest = line.trim_end_matches('\r');
    while let Some((before, after)) = rest.split_once("\x1b[") {
        text += before;
        rest = after.split_once('m').map_or("", |(_, rest)| rest);
    }
    text + rest
}

/// The lines of requests, as they are shown.
fn requests(lines: &[String]) -> Vec<String> {
    let lines = lines.iter().map(|line| shown(line));
    lines
        .filter(|line| line.get(10..).is_some_and(|rest| rest.starts_with("GET ")))
        .filter(|line| line.contains("ms  w"))
        .collect()
}

/// Where the status is.
fn status_column(line: &str) -> usize {
    let at = line.rfind("ms  w").expect("a line of a request");
    let status = line[..at]
        .trim_end_matches(|c: char| c.is_ascii_digit() || c == '.')
        .trim_end();
    status.chars().count()
}

#[test]
fn pictures_of_a_start_and_its_log_are_kept() {
    let folder = Directory::new();
    let terminal = PseudoTerminal::new(100).expect("a terminal");
    let server = server_in(&terminal).start();
    for (path, status) in [
        ("/", 200),
        ("/missing", 404),
        ("/away", 302),
        ("/fail", 500),
    ] {
        server.get(path).expect(status);
    }
    server.get("/books?isbn=1&token=secret").expect(200);
    server.log().wait(|line| line.contains("/books"));
    let shown = server.stop().log.join("\n");
    let shown = shown.replace('\n', "\r\n");
    keep_terminal_pictures(shown.as_bytes(), 100, "terminal_log", folder.path());
}

#[test]
fn requests_are_short_coloured_lines_in_columns() {
    let terminal = PseudoTerminal::new(80).expect("a terminal");
    let server = server_in(&terminal).start();
    let long = format!("/reports/{}/2026?format=csv", "x".repeat(200));
    server.get("/").expect(200);
    server.get("/missing").expect(404);
    server.get("/away").expect(302);
    server.get("/fail").expect(500);
    server.get(&long).expect(200);
    server.log().wait(|line| line.contains("format=csv"));
    let log = server.stop().log;
    let lines = requests(&log);
    assert_eq!(lines.len(), 5, "{log:#?}");
    for line in &lines {
        assert!(line.chars().count() <= 80, "{line}");
        assert_eq!(status_column(line), status_column(&lines[0]), "{lines:#?}");
        let clock = line[..8]
            .chars()
            .map(|c| if c.is_ascii_digit() { '0' } else { c });
        assert_eq!(clock.collect::<String>(), "00:00:00", "{line}");
    }
    for (line, (path, status)) in lines.iter().zip([
        ("/", "200"),
        ("/missing", "404"),
        ("/away", "302"),
        ("/fail", "500"),
        ("/reports/xxx", "200"),
    ]) {
        assert!(line[10..].starts_with(&format!("GET     {path}")), "{line}");
        assert!(line.contains(&format!(" {status} ")), "{line}");
        assert!(line.ends_with("  w0"), "{line}");
    }
    assert!(
        lines[4].contains('…') && lines[4].contains("/2026?format=csv "),
        "{}",
        lines[4]
    );
    let text = log.join("\n");
    for colour in ["\x1b[32m200", "\x1b[33m404", "\x1b[36m302", "\x1b[31m500"] {
        assert!(text.contains(colour), "{colour:?} is not in {log:#?}");
    }
}

#[test]
fn an_error_comes_with_its_backtrace_before_its_request() {
    let terminal = PseudoTerminal::new(100).expect("a terminal");
    let server = server_in(&terminal).start();
    server.get("/fail?a=%1B").expect(500);
    server
        .log()
        .wait(|line| line.contains(" 500") || line.contains("m500"));
    let log: Vec<_> = server.stop().log.iter().map(|line| shown(line)).collect();
    let at = |part: &str| {
        let found = log.iter().position(|line| line.contains(part));
        found.unwrap_or_else(|| panic!("{part} is not in {log:#?}"))
    };
    let error = at(r"error: ArgumentError: no \x1b[2J such book");
    assert_eq!(log[error + 1], "          GET /fail  w0");
    assert!(log[error + 2].starts_with("            "), "{log:#?}");
    assert!(log[error + 2].contains("config.ru:4:in "), "{log:#?}");
    assert!(
        at("listening on ") < at("ready: ") && at("ready: ") < error,
        "{log:#?}"
    );
    assert!(error < at(" 500 "), "{log:#?}");
}

#[test]
fn no_color_and_dumb_terminals_get_plain_lines() {
    for (name, value) in [("NO_COLOR", "1"), ("TERM", "dumb")] {
        let terminal = PseudoTerminal::new(80).expect("a terminal");
        let server = server_in(&terminal).env(name, value).start();
        server.get("/").expect(200);
        server.log().wait(|line| line.contains("GET "));
        let log = server.stop().log;
        assert!(
            !log.iter().any(|line| line.contains('\x1b')),
            "{name}: {log:#?}"
        );
        assert_eq!(requests(&log).len(), 1, "{log:#?}");
    }
}

#[test]
fn a_terminal_that_gets_wider_gets_longer_lines() {
    let terminal = PseudoTerminal::new(60).expect("a terminal");
    let server = server_in(&terminal).start();
    let path = format!("/{}", "x".repeat(300));
    server.get(&path).expect(200);
    server.log().wait(|line| line.contains("GET "));
    terminal.resize(78).expect("a terminal");
    let start = server.log().len();
    server.get(&path).expect(200);
    server.log().wait_after(start, |line| line.contains("GET "));
    let widths: Vec<_> = requests(&server.stop().log)
        .iter()
        .map(|line| line.chars().count())
        .collect();
    assert_eq!(widths, [60, 78]);
}

#[test]
fn events_are_wrapped_between_words() {
    let terminal = PseudoTerminal::new(60).expect("a terminal");
    let server = server_in(&terminal).env("NO_COLOR", "1").start();
    let worker = server.status().ready_workers()[0];
    worker.kill();
    server.log().wait(|line| line.contains("warning: worker 0"));
    until_served(&server);
    let log = server.stop().log;
    for line in log.iter().map(|line| shown(line)) {
        assert!(line.chars().count() <= 60, "{line}");
    }
}

/// Waits until a worker serves.
fn until_served(server: &Server) {
    test_support::until("a worker is ready", || {
        !server.status().ready_workers().is_empty()
    });
    server.get("/").expect(200);
}

#[test]
fn a_format_that_was_chosen_counts_in_a_terminal_too() {
    let terminal = PseudoTerminal::new(80).expect("a terminal");
    let server = server_in(&terminal).setting("log_format", "json").start();
    server.get("/").expect(200);
    let line = server.log().wait(|line| line.contains("\"path\":\"/\""));
    let value: serde_json::Value = serde_json::from_str(&line).expect("JSON");
    assert_eq!(value["status"], 200);
    server.stop();
}
