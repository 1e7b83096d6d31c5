//! `highball load` from its command line to its results, against a small server.

#![allow(clippy::unwrap_used, reason = "it is a part of tests")]

use std::path::Path;
use std::process::ExitCode;

use clap::Parser as _;
use highball_lab::command::{Command, run};

use server::{serve, serve_unix};

#[path = "load_command/server.rs"]
mod server;

#[derive(clap::Parser)]
struct Line {
    #[command(subcommand)]
    command: Command,
}

fn load(words: &[&str]) -> anyhow::Result<ExitCode> {
    let words = ["highball", "load", "--quiet"].iter().chain(words);
    run(Line::try_parse_from(words)?.command)
}

/// Runs a load and returns what it wrote.
fn told(words: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("results");
    let output = ["--output", file.to_str().unwrap()];
    let words: Vec<&str> = words.iter().chain(&output).copied().collect();
    load(&words).unwrap();
    std::fs::read_to_string(file).unwrap()
}

/// The same of a load whose errors are no failure.
fn told_of_errors(words: &[&str]) -> String {
    told(&[words, &["--max-errors", "100%"]].concat())
}

/// The value of a figure in CSV.
fn figure(csv: &str, name: &str) -> f64 {
    let line = csv
        .lines()
        .find(|line| line.split(',').next() == Some(name));
    let line = line.unwrap_or_else(|| panic!("no {name} in {csv}"));
    line.rsplit(',').next().unwrap().parse().unwrap()
}

fn refused(words: &[&str]) -> String {
    format!("{:#}", load(words).unwrap_err())
}

#[test]
fn a_number_of_requests_is_sent_and_reported() {
    let (address, log) = serve();
    let url = format!("http://{address}/page?a=b");
    let csv = told(&[&url, "-n", "300", "-c", "3", "--format", "csv"]);
    for (name, value) in [
        ("completed", 300.0),
        ("good", 300.0),
        ("errors", 0.0),
        ("connections", 3.0),
    ] {
        assert_eq!(figure(&csv, name), value, "{name} in {csv}");
    }
    let log = log.lock().unwrap();
    assert_eq!(log.len(), 300);
    assert!(
        log[0].head.starts_with("GET /page?a=b HTTP/1.1\r\n"),
        "{:?}",
        log[0]
    );
}

#[test]
fn every_layout_tells_the_same_load() {
    let (address, _) = serve();
    let url = format!("http://{address}/");
    for (format, words) in [
        ("text", "good responses"),
        ("json", "\"verdict\""),
        ("csv", "name,unit,value"),
        ("ab", "Complete requests:      50\n"),
        ("wrk", "  50 requests in"),
        ("httperf", " requests 50 replies 50 "),
    ] {
        let text = told(&[
            &url,
            "-n",
            "50",
            "-c",
            "2",
            "--connections",
            "per-request",
            "--format",
            format,
        ]);
        assert!(text.contains(words), "{format}: {text}");
        assert!(
            text.contains(&url) || format == "csv" || !["text", "wrk"].contains(&format),
            "{text}"
        );
    }
}

#[test]
fn requests_of_a_file_follow_a_login_and_carry_its_cookie() {
    let (address, log) = serve();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("shop.toml");
    std::fs::write(
        &file,
        "[login]\npath = '/login'\nbody = 'user=a'\n\
         [[request]]\npath = '/'\nweight = 3\n\
         [[request]]\nmethod = 'PUT'\npath = '/order'\nbody = '{}'\nheaders = { 'Content-Type' = 'application/json' }\n",
    )
    .unwrap();
    let url = format!("http://{address}");
    let text = told(&[
        &url,
        "--requests",
        file.to_str().unwrap(),
        "-n",
        "400",
        "-c",
        "2",
        "-H",
        "X-Test: yes",
    ]);
    assert!(text.starts_with(&format!("2 pages of {url}\n")), "{text}");
    assert!(text.contains("\nPUT /order "), "{text}");
    let log = log.lock().unwrap();
    let of = |line: &str| {
        log.iter()
            .filter(|asked| asked.head.starts_with(line))
            .cloned()
            .collect::<Vec<_>>()
    };
    let (logins, fronts, orders) = (of("POST /login "), of("GET / "), of("PUT /order "));
    assert_eq!(logins.len(), 2, "one of each connection");
    assert_eq!(logins[0].body, "user=a");
    assert_eq!(fronts.len() + orders.len(), 400);
    assert!(
        fronts.len() > orders.len(),
        "{} to {}",
        fronts.len(),
        orders.len()
    );
    for asked in fronts.iter().chain(&orders) {
        assert!(asked.head.contains("Cookie: session=7\r\n"), "{asked:?}");
        assert!(asked.head.contains("X-Test: yes\r\n"), "{asked:?}");
    }
    assert_eq!(orders[0].body, "{}");
}

#[test]
fn urls_are_mixed_by_weight_and_a_body_is_posted() {
    let (address, log) = serve();
    let (a, b) = (
        format!("4:http://{address}/a"),
        format!("http://{address}/b"),
    );
    let csv = told(&[
        &a, &b, "-n", "200", "-c", "1", "--body", "x=1", "--format", "csv",
    ]);
    assert_eq!(figure(&csv, "good"), 200.0);
    let log = log.lock().unwrap();
    let of = |path: &str| {
        log.iter()
            .filter(|asked| asked.head.starts_with(&format!("POST {path} ")))
            .count()
    };
    assert_eq!(of("/a") + of("/b"), 200);
    assert!(of("/a") > of("/b"), "{} to {}", of("/a"), of("/b"));
    assert!(log.iter().all(|asked| asked.body == "x=1"));
}

#[test]
fn what_is_not_expected_is_no_good_response() {
    let (address, _) = serve();
    let page = format!("http://{address}/missing");
    let csv = told_of_errors(&[&page, "-n", "20", "--format", "csv"]);
    assert_eq!(
        (figure(&csv, "good"), figure(&csv, "status.404")),
        (0.0, 20.0)
    );
    let csv = told_of_errors(&[
        &page,
        "-n",
        "20",
        "--expect-status",
        "404",
        "--format",
        "csv",
    ]);
    assert_eq!(figure(&csv, "errors.unexpected"), 0.0);
    let page = format!("http://{address}/");
    let csv = told_of_errors(&[&page, "-n", "20", "--expect-length", "6", "--format", "csv"]);
    assert_eq!(
        (figure(&csv, "good"), figure(&csv, "errors.unexpected")),
        (0.0, 20.0)
    );
}

#[test]
fn an_open_loop_sends_its_schedule_whatever_the_server_does() {
    let (address, log) = serve();
    let url = format!("http://{address}/");
    let csv = told(&[
        &url,
        "--rate",
        "100",
        "--arrivals",
        "constant",
        "-d",
        "1s",
        "--format",
        "csv",
    ]);
    let demanded = figure(&csv, "demanded");
    assert!((99.0..=101.0).contains(&demanded), "{csv}");
    assert_eq!(log.lock().unwrap().len() as f64, demanded);
}

#[test]
fn the_warm_up_is_sent_and_not_counted() {
    let (address, log) = serve();
    let url = format!("http://{address}/");
    let csv = told(&[
        &url,
        "-n",
        "30",
        "-c",
        "1",
        "--warm-up",
        "100ms",
        "--format",
        "csv",
    ]);
    assert_eq!(figure(&csv, "completed"), 30.0);
    assert!(log.lock().unwrap().len() > 30);
}

#[test]
fn what_the_generator_can_take_is_measured_beforehand() {
    let (address, log) = serve();
    let text = told(&[&format!("http://{address}/"), "-n", "20", "--headroom"]);
    assert!(
        text.contains("Against a server that only answers, the generator reached "),
        "{text}"
    );
    assert_eq!(log.lock().unwrap().len(), 20);
}

#[test]
fn a_unix_socket_is_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("app.sock");
    let log = serve_unix(&socket);
    let url = format!("unix:{}:/page", socket.display());
    let text = told(&[&url, "-n", "10", "-c", "2"]);
    assert!(text.starts_with(&format!("GET {url}\n")), "{text}");
    assert!(
        log.lock().unwrap()[0]
            .head
            .starts_with("GET /page HTTP/1.1\r\nHost: localhost\r\n")
    );
}

#[test]
fn what_stops_a_load_is_said_before_anything_is_sent() {
    let (address, log) = serve();
    let url = format!("http://{address}/");
    let check = |words: &[&str], expect: &str| {
        let error = refused(words);
        assert!(error.contains(expect), "{words:?}: {error}");
    };
    // Bound and not listening: nobody else can take the port, and connections to it are refused.
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket
        .bind(
            &"127.0.0.1:0"
                .parse::<std::net::SocketAddr>()
                .unwrap()
                .into(),
        )
        .unwrap();
    let dead = socket.local_addr().unwrap().as_socket().unwrap();
    check(
        &[&format!("http://{dead}/")],
        &format!("can't connect to {dead}: Connection refused"),
    );
    check(
        &["unix:/nonexistent.sock"],
        "can't connect to /nonexistent.sock",
    );
    check(
        &[&url, "--output", "/nonexistent/results"],
        "can't write to /nonexistent/results",
    );
    check(&[&url, "-c", "100000000"], "file descriptors");
    check(&[&url, "--cores", "1000000"], "core 1000000");
    assert!(log.lock().unwrap().is_empty());
}

#[test]
fn results_that_can_not_be_written_are_printed() {
    let full = Path::new("/dev/full");
    let (address, _) = serve();
    let error = refused(&[
        &format!("http://{address}/"),
        "-n",
        "5",
        "--output",
        full.to_str().unwrap(),
    ]);
    assert!(
        error.contains("can't write to /dev/full, so results are above"),
        "{error}"
    );
}

#[test]
fn a_server_that_never_answers_is_an_error_after_its_results() {
    let (address, _) = serve();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("results");
    let url = format!("http://{address}/drop");
    let error = refused(&[&url, "-n", "5", "-c", "1", "-o", file.to_str().unwrap()]);
    assert!(
        error.contains(
            "no response came: 5 requests failed, mostly because: the connection was closed"
        ),
        "{error}"
    );
    let text = std::fs::read_to_string(file).unwrap();
    assert!(text.contains("5  the connection was closed"), "{text}");
}

#[test]
fn results_of_a_failed_load_begin_with_the_reason() {
    let (address, _) = serve();
    let url = format!("http://{address}/missing");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("results");
    let words = [&url, "-n", "20", "-c", "2", "-o", file.to_str().unwrap()];
    let error = refused(&words);
    let reason = "20 of 20 requests failed (100.00 %, and --max-errors allows 1 %), mostly because: status 404";
    assert_eq!(error, reason);
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(
        text.starts_with(&format!("FAILED: {reason}\n\nGET {url}\n")),
        "{text}"
    );
}

#[test]
fn a_condition_of_fail_if_that_holds_exits_with_2() {
    let (address, _) = serve();
    let url = format!("http://{address}/");
    let code = |condition: &str| {
        let code = load(&[&url, "-n", "20", "-o", "/dev/null", "--fail-if", condition]);
        format!("{:?}", code.unwrap())
    };
    assert_eq!(code("p50 < 10s"), format!("{:?}", ExitCode::from(2)));
    assert_eq!(code("p50 > 10s"), format!("{:?}", ExitCode::SUCCESS));
    let error = refused(&[&url, "--fail-if", "p50 > 10"]);
    assert!(error.contains("\"10\" is no bound of p50"), "{error}");
}
