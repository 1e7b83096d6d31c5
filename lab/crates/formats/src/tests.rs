//! Compares the formats of other tools with real output of these tools (`golden/`), and checks our own text.

use std::time::Duration;

use super::*;
use loadgen::Headroom;
use loadgen::outcome::{Bytes, Errors, Generator, Latency, OfRequest, Outcome, Sample, Second};
use loadgen::plan::{Arrivals, ConnectionUse, End, Expected, Mode, Plan, Request, Target};

fn request(path: &str) -> Request {
    Request {
        method: "GET".into(),
        path: path.into(),
        headers: Vec::new(),
        body: Vec::new(),
        weight: 1.0,
        expected: None,
    }
}

pub(super) fn plan(connections: ConnectionUse) -> Plan {
    Plan {
        target: Target::Tcp("127.0.0.1:8080".parse().unwrap()),
        host: "127.0.0.1:8080".into(),
        requests: vec![request("/")],
        login: None,
        mode: Mode::Closed {
            connections: 4,
            end: End::After(Duration::from_secs(12)),
        },
        connections,
        streams: None,
        timeout: Duration::from_secs(30),
        threads: 1,
        cores: Vec::new(),
        seed: 1,
    }
}

fn latency(count: u64, microseconds: impl Fn(u64) -> u64) -> Latency {
    let mut latency = Latency::default();
    for index in 0..count {
        latency.record(Duration::from_micros(microseconds(index)));
    }
    latency
}

/// Twelve seconds of 100 good responses, from 0.5 to 2.9 ms, over four connections.
pub(super) fn outcome() -> Outcome {
    let second = Second {
        demanded: 100,
        completed: 100,
        good: 100,
        errors: 0,
        p50_ms: 1.0,
        p99_ms: 2.9,
    };
    Outcome {
        elapsed_s: 12.0,
        demanded: 1200,
        sent: 1200,
        completed: 1200,
        good: 1200,
        statuses: [(200, 1200)].into(),
        latency: latency(1200, |index| 500 + index * 2),
        service: latency(1200, |index| 490 + index * 2),
        first_byte: latency(1200, |index| 400 + index * 2),
        connect: latency(4, |_| 80),
        connections: 4,
        peak_in_flight: 4,
        in_flight_s: 2.04,
        bytes: Bytes {
            sent: 74_400,
            heads: 67_200,
            bodies: 1_215_600,
            received: 1_282_800,
        },
        sample: Sample {
            server: "plain".into(),
            length: 1013,
        },
        seconds: vec![second; 12],
        requests: vec![OfRequest {
            name: "GET /".into(),
            completed: 1200,
            good: 1200,
            latency: latency(1200, |index| 500 + index * 2),
            ..OfRequest::default()
        }],
        generator: Generator {
            threads: 1,
            cores: 0.41,
            waited: 0.01,
            ..Generator::default()
        },
        ..Outcome::default()
    }
}

fn formatted(format: Format, plan: &Plan, outcome: &Outcome) -> String {
    render(
        format,
        &Measured {
            plan,
            outcome,
            ended_early: false,
            headroom: None,
        },
    )
}

/// The words and numbers of a line: numbers as `#` with their digits after the point, as that is what a reader of the
/// fields relies on. Units that vary with the number (wrk) are left out.
fn shape(line: &str) -> Vec<String> {
    let units = [
        "us", "ms", "s", "m", "k", "K", "M", "G", "B", "KB", "MB", "GB",
    ];
    line.split_whitespace()
        .map(|word| {
            let mut shape = String::new();
            let mut chars = word.chars().peekable();
            while let Some(c) = chars.next() {
                if !c.is_ascii_digit() {
                    shape.push(c);
                    continue;
                }
                let (mut point, mut digits) = (false, 0);
                while let Some(next) = chars.next_if(|next| next.is_ascii_digit() || *next == '.') {
                    digits += usize::from(point && next != '.');
                    point |= next == '.';
                }
                shape.push_str(&format!("#{digits}"));
                let rest: String = chars.clone().collect();
                if units.contains(&rest.trim_end_matches(',')) {
                    shape.push_str(if rest.ends_with(',') { "u," } else { "u" });
                    break;
                }
            }
            // The same column of wrk's has units at some sizes and none at others.
            shape.strip_suffix('u').map_or(shape.clone(), str::to_owned)
        })
        .collect()
}

/// Where the numbers of a line end: they are right-aligned in a table.
fn columns(line: &str) -> Vec<usize> {
    let mut columns = Vec::new();
    let chars: Vec<char> = line.chars().collect();
    for (index, c) in chars.iter().enumerate() {
        let follows = chars.get(index + 1).copied().unwrap_or(' ');
        if c.is_ascii_digit() && !(follows.is_ascii_digit() || follows == '.') {
            columns.push(index);
        }
    }
    columns
}

/// Holds our fields against those of the real tool: the same lines in the same order, the same words, numbers with as
/// many digits after the point; in the lines that `table` picks also in the same columns.
fn hold(ours: &str, golden: &str, first: &str, table: impl Fn(&str) -> bool) {
    let fields = |text: &str| -> Vec<String> {
        text.lines()
            .skip_while(|line| !line.starts_with(first))
            .take_while(|line| !line.starts_with('#'))
            .map(|line| line.trim_end().to_owned())
            .collect()
    };
    let (mut ours, mut golden) = (fields(ours), fields(golden));
    for lines in [&mut ours, &mut golden] {
        while lines.last().is_some_and(String::is_empty) {
            lines.pop();
        }
    }
    let mut pairs = ours.iter().zip(&golden);
    for (ours, golden) in &mut pairs {
        let (our_shape, golden_shape) = (shape(ours), shape(golden));
        let same = our_shape.len() == golden_shape.len()
            && our_shape.iter().zip(&golden_shape).all(|(ours, golden)| {
                // A figure that can't be had stands as n/a in the place of its number.
                ours == golden || golden.contains('#') && ours.contains("n/a")
            });
        assert!(same, "ours:   {ours}\ngolden: {golden}");
        if table(golden) {
            assert_eq!(
                columns(ours),
                columns(golden),
                "ours:   {ours}\ngolden: {golden}"
            );
        }
    }
    assert_eq!(
        ours.len(),
        golden.len(),
        "ours: {ours:#?}\ngolden: {golden:#?}"
    );
}

fn golden(name: &str) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/golden");
    std::fs::read_to_string(format!("{folder}/{name}.txt")).unwrap()
}

/// The values behind the name that a line begins with.
fn values<'a>(text: &'a str, name: &str) -> Vec<&'a str> {
    let line = text
        .lines()
        .find(|line| line.trim_start().starts_with(name));
    line.unwrap_or_else(|| panic!("no {name} in {text}"))
        .trim_start()[name.len()..]
        .split_whitespace()
        .collect()
}

fn ab(plan: &Plan, outcome: &Outcome, name: &str) {
    let table = |line: &str| {
        line.contains('%')
            || ["Connect:", "Processing:", "Waiting:", "Total:"]
                .iter()
                .any(|row| line.starts_with(row))
    };
    hold(
        &formatted(Format::Ab, plan, outcome),
        &golden(name),
        "Server Software:",
        table,
    );
}

#[test]
fn ab_fields_are_those_of_the_real_one() {
    ab(&plan(ConnectionUse::PerRequest), &outcome(), "ab");
    let mut missing = outcome();
    missing.statuses = [(404, 1200)].into();
    missing.good = 0;
    let mut path = plan(ConnectionUse::KeepAlive);
    path.requests = vec![request("/missing")];
    ab(&path, &missing, "ab-keep");
    let mut length = outcome();
    length.errors.unexpected = 7;
    path.requests = vec![request("/len")];
    path.connections = ConnectionUse::PerRequest;
    ab(&path, &length, "ab-length");
    path.requests = vec![Request {
        body: b"0123456789\n".to_vec(),
        ..request("/")
    }];
    ab(&path, &outcome(), "ab-post");
    let mut one = outcome();
    one.completed = 1;
    ab(&plan(ConnectionUse::PerRequest), &one, "ab-one");
}

#[test]
fn ab_fields_hold_the_outcomes_figures() {
    let text = formatted(Format::Ab, &plan(ConnectionUse::PerRequest), &outcome());
    assert_eq!(values(&text, "Complete requests:"), ["1200"]);
    assert_eq!(values(&text, "Concurrency Level:"), ["4"]);
    assert_eq!(values(&text, "Requests per second:")[0], "100.00");
    assert_eq!(values(&text, "Time per request:")[0], "40.000");
    assert_eq!(values(&text, "HTML transferred:")[0], "1215600");
    assert_eq!(values(&text, "Total:"), ["1", "2", "0.7", "2", "3"]);
    assert_eq!(values(&text, "99%"), ["3"]);
}

#[test]
fn ab_counts_no_connecting_for_requests_over_an_open_connection() {
    let mut outcome = outcome();
    outcome.connect = latency(600, |_| 8_000);
    let text = formatted(Format::Ab, &plan(ConnectionUse::Calls(2)), &outcome);
    assert_eq!(values(&text, "Connect:"), ["0", "4", "4.0", "0", "8"]);
}

fn wrk(plan: &Plan, outcome: &Outcome, name: &str) {
    // wrk puts numbers into columns; the units behind them vary with the size.
    let table = |line: &str| line.trim_start().starts_with(['5', '7', '9']) && line.contains('%');
    hold(
        &formatted(Format::Wrk, plan, outcome),
        &golden(name),
        "Running",
        table,
    );
}

#[test]
fn wrk_fields_are_those_of_the_real_one() {
    let mut plan = plan(ConnectionUse::KeepAlive);
    wrk(&plan, &outcome(), "wrk");
    let mut missing = outcome();
    missing.statuses = [(404, 1200)].into();
    plan.requests = vec![request("/missing")];
    wrk(&plan, &missing, "wrk-missing");
}

#[test]
fn wrk_tells_of_socket_errors_as_the_real_one() {
    let outcome = Outcome {
        elapsed_s: 1.0,
        errors: Errors {
            closed: 4_287,
            ..Errors::default()
        },
        ..Outcome::default()
    };
    let mut plan = plan(ConnectionUse::KeepAlive);
    plan.requests = vec![request("/drop")];
    let text = formatted(Format::Wrk, &plan, &outcome);
    // The real one divides nothing by nothing.
    let golden = golden("wrk-drop").replace("  -nan%", "  0.00%");
    hold(&text, &golden, "Running", |_| false);
    assert!(
        text.contains("Socket errors: connect 0, read 4287, write 0, timeout 0"),
        "{text}"
    );
}

#[test]
fn wrk_fields_hold_the_outcomes_figures() {
    let text = formatted(Format::Wrk, &plan(ConnectionUse::KeepAlive), &outcome());
    assert_eq!(
        values(&text, "Running"),
        ["12s", "test", "@", "http://127.0.0.1:8080/"]
    );
    assert_eq!(values(&text, "Requests/sec:"), ["100.00"]);
    assert_eq!(
        values(&text, "Req/Sec"),
        ["100.00", "0.00", "100.00", "100.00%"]
    );
    assert_eq!(values(&text, "99%"), ["2.87ms"]);
    assert_eq!(
        values(&text, "1200 requests in"),
        ["12.00s,", "1.22MB", "read"]
    );
}

fn httperf(plan: &Plan, outcome: &Outcome, name: &str) {
    hold(
        &formatted(Format::Httperf, plan, outcome),
        &golden(name),
        "Maximum connect",
        |_| false,
    );
}

#[test]
fn httperf_fields_are_those_of_the_real_one() {
    httperf(&plan(ConnectionUse::PerRequest), &outcome(), "httperf");
    httperf(&plan(ConnectionUse::Calls(2)), &outcome(), "httperf");
    httperf(
        &plan(ConnectionUse::PerRequest),
        &Outcome::default(),
        "httperf-refused",
    );
    httperf(
        &plan(ConnectionUse::PerRequest),
        &Outcome::default(),
        "httperf-timeout",
    );
}

#[test]
fn httperf_fields_hold_the_outcomes_figures() {
    let mut outcome = outcome();
    outcome.errors.connect_refused = 2;
    outcome.errors.timeout = 3;
    outcome.errors.closed = 5;
    let text = formatted(Format::Httperf, &plan(ConnectionUse::PerRequest), &outcome);
    assert!(
        text.contains("Total: connections 6 requests 1200 replies 1200 test-duration 12.000 s"),
        "{text}"
    );
    assert!(
        text.contains(
            "Reply rate [replies/s]: min 100.0 avg 100.0 max 100.0 stddev 0.0 (2 samples)"
        ),
        "{text}"
    );
    assert!(
        text.contains("Reply size [B]: header 56.0 content 1013.0 footer 0.0 (total 1069.0)"),
        "{text}"
    );
    assert!(
        text.contains("Reply status: 1xx=0 2xx=1200 3xx=0 4xx=0 5xx=0"),
        "{text}"
    );
    assert!(
        text.contains("Errors: total 10 client-timo 3 socket-timo 0 connrefused 2 connreset 5"),
        "{text}"
    );
}

#[test]
fn our_text_has_rates_times_and_whether_to_trust_them() {
    let text = formatted(Format::Text, &plan(ConnectionUse::KeepAlive), &outcome());
    for part in [
        "GET http://127.0.0.1:8080/\n",
        "closed loop, 4 connections, keep-alive, 12s\n",
        "good responses  100 a second: 1,200 in 12.00 s\n",
        "errors          none\n",
        "received        1.2 MiB, 104.4 KiB a second, 1.0 KiB a response\n",
        "latency             1.70    2.30    2.66    2.88       -    2.90    1.70   when it could leave to last byte\n",
        "p99.9 needs 10,000 samples, there are 1,200.\n",
        "rate over time  ████████████   a bar a second: 100 to 100 good responses a second\n",
        "The generator was not the limit: it used 0.41 of 1 core and waited for it 1.0 % of the time.\n",
    ] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
}

#[test]
fn figures_that_contradict_each_other_are_reported() {
    let plan = plan(ConnectionUse::KeepAlive);
    let mut outcome = outcome();
    assert!(!formatted(Format::Text, &plan, &outcome).contains("Little"));
    outcome.in_flight_s = 20.4;
    let text = formatted(Format::Text, &plan, &outcome);
    let expect = "Throughput times mean latency makes 0.17 requests in flight, and 1.70 were (Little's law): ";
    assert!(text.contains(expect), "{text}");
}

#[test]
fn our_text_names_what_failed() {
    let mut outcome = outcome();
    outcome.completed = 1150;
    outcome.good = 1100;
    outcome.statuses = [(200, 1110), (500, 40)].into();
    outcome.errors = Errors {
        timeout: 50,
        unexpected: 10,
        ..Errors::default()
    };
    let mut plan = plan(ConnectionUse::KeepAlive);
    plan.requests[0].expected = Some(Expected {
        status: 200,
        length: None,
    });
    let text = formatted(Format::Text, &plan, &outcome);
    for part in [
        "statuses        200: 1,110, 500: 40\n",
        "errors          100, 8.3 % of all\n",
        "              50  no whole response within the time-out\n",
        "              10  not the expected status or length\n",
        "              40  a status from 400 on\n",
    ] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
}

#[test]
fn a_login_that_is_refused_is_named() {
    let mut plan = plan(ConnectionUse::KeepAlive);
    plan.login = Some(request("/login"));
    let outcome = Outcome {
        elapsed_s: 1.0,
        demanded: 40,
        errors: Errors {
            unexpected: 40,
            ..Errors::default()
        },
        ..Outcome::default()
    };
    let text = formatted(Format::Text, &plan, &outcome);
    assert!(
        text.contains(
            "errors          40, 100 % of all\n              40  the login was refused\n"
        ),
        "{text}"
    );
    assert_eq!(main_error(&plan, &outcome), Some("the login was refused"));
}

#[test]
fn several_pages_have_a_table() {
    let mut plan = plan(ConnectionUse::KeepAlive);
    plan.target = Target::Unix("/run/app.sock".into());
    plan.requests.push(request("/new"));
    let mut outcome = outcome();
    let mut second = outcome.requests[0].clone();
    second.name = "POST /new".into();
    outcome.requests.push(second);
    let text = formatted(Format::Text, &plan, &outcome);
    assert!(
        text.starts_with("2 pages of unix:/run/app.sock\n"),
        "{text}"
    );
    assert!(
        text.contains("POST /new              1,200         100     1.70     2.88     2.90\n"),
        "{text}"
    );
}

#[test]
fn every_text_reports_a_generator_at_its_limit() {
    let mut outcome = outcome();
    outcome.generator.limit = Some("its thread was busy all the time".into());
    let plan = plan(ConnectionUse::KeepAlive);
    for format in [
        Format::Text,
        Format::Json,
        Format::Ab,
        Format::Wrk,
        Format::Httperf,
    ] {
        let text = formatted(format, &plan, &outcome);
        assert!(
            text.contains("The generator was the limit: its thread was busy all the time. These figures describe it"),
            "{text}"
        );
    }
}

#[test]
fn a_load_close_to_the_generators_largest_rate_is_reported() {
    let check = |ceiling: f64, expect: &str| {
        let headroom = Headroom {
            rate: ceiling,
            cores: 1.0,
            ceiling,
        };
        let (plan, outcome) = (plan(ConnectionUse::KeepAlive), outcome());
        let measured = Measured {
            plan: &plan,
            outcome: &outcome,
            ended_early: false,
            headroom: Some(&headroom),
        };
        for format in [Format::Text, Format::Json, Format::Ab] {
            let text = render(format, &measured);
            assert!(text.contains(expect), "{expect:?} is not in\n{text}");
        }
    };
    check(
        10_000.0,
        "Against a server that only answers, the generator reached 10,000 responses a second; this load reached 1.0 % of that.",
    );
    check(
        150.0,
        "this load reached 67 % of that, and above half of it the generator is part of what is measured: use more threads or cores.",
    );
}

#[test]
fn an_empty_outcome_is_formatted_without_a_division_by_zero() {
    let mut open = plan(ConnectionUse::KeepAlive);
    open.mode = Mode::Open {
        rate: 10.0,
        arrivals: Arrivals::Poisson,
        duration: Duration::from_secs(1),
        max_connections: 5,
    };
    for format in [
        Format::Text,
        Format::Json,
        Format::Csv,
        Format::Ab,
        Format::Wrk,
        Format::Httperf,
    ] {
        let text = formatted(format, &open, &Outcome::default());
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    }
}

#[test]
fn json_holds_the_outcome_the_plan_and_the_figures() {
    let (plan, outcome) = (plan(ConnectionUse::KeepAlive), outcome());
    let value: serde_json::Value =
        serde_json::from_str(&formatted(Format::Json, &plan, &outcome)).unwrap();
    assert_eq!(
        value["plan"]["words"],
        "closed loop, 4 connections, keep-alive, 12s"
    );
    assert_eq!(value["figures"]["rate.good"]["value"], 100.0);
    assert!(value["figures"]["latency.p99.9"]["value"].is_null());
    let read: Outcome = serde_json::from_value(value["outcome"].clone()).unwrap();
    assert_eq!(read, outcome);
}

#[test]
fn csv_has_a_figure_a_line() {
    let text = formatted(Format::Csv, &plan(ConnectionUse::KeepAlive), &outcome());
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("name,unit,value"));
    assert!(lines.all(|line| line.split(',').count() == 3), "{text}");
    assert!(text.contains("\nrate.good,responses/s,100\n"), "{text}");
    assert!(text.contains("\nlatency.p99.9,ms,\n"), "{text}");
    assert!(text.contains("\nstatus.200,responses,1200\n"), "{text}");
}
