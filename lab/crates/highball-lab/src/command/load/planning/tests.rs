//! Command lines and the plans they make.

use std::time::Duration;

use clap::Parser;

use super::*;
use loadgen::plan::{Arrivals, ConnectionUse, Target};

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    arguments: Arguments,
}

fn read(line: &[&str]) -> Result<Plan> {
    let line = ["load"].iter().chain(line);
    plan(&Line::try_parse_from(line)?.arguments)
}

const URL: &str = "http://127.0.0.1:8080/";

#[test]
fn a_url_alone_is_a_closed_loop_of_ten_seconds() {
    let plan = read(&[URL]).unwrap();
    assert_eq!(plan.target, Target::Tcp("127.0.0.1:8080".parse().unwrap()));
    assert_eq!(plan.host, "127.0.0.1:8080");
    assert_eq!(
        plan.mode,
        Mode::Closed {
            connections: 10,
            end: End::After(Duration::from_secs(10))
        }
    );
    assert_eq!(plan.connections, ConnectionUse::KeepAlive);
    assert_eq!((plan.threads, plan.expects()), (1, false));
    let [request] = plan.requests.as_slice() else {
        panic!("{:?}", plan.requests)
    };
    assert_eq!(
        (request.method.as_str(), request.path.as_str()),
        ("GET", "/")
    );
}

#[test]
fn flags_say_how_tls_and_http_2_are_spoken() {
    let tls = |line: &[&str]| match read(line).unwrap().target {
        Target::Tls(address, tls) => (address.port(), tls.name, tls.trust, tls.resumption),
        other => panic!("{other:?}"),
    };
    let name = || "127.0.0.1".to_owned();
    assert_eq!(
        tls(&["https://127.0.0.1/"]),
        (443, name(), Trust::System, true)
    );
    assert_eq!(
        tls(&["https://127.0.0.1:8443/", "-k", "--no-resumption"]),
        (8443, name(), Trust::Any, false)
    );
    let file = Trust::File("authority.pem".into());
    assert_eq!(
        tls(&["https://127.0.0.1/", "--cacert", "authority.pem"]),
        (443, name(), file, true)
    );
    assert_eq!(read(&[URL]).unwrap().streams, None);
    assert_eq!(read(&[URL, "--http2"]).unwrap().streams, Some(1));
    let plan = read(&[URL, "--http2", "--streams", "20"]).unwrap();
    assert_eq!(plan.streams, Some(20));
    for wrong in [
        &[URL, "--streams", "20"][..],
        &[URL, "--http2", "--streams", "0"],
        &[URL, "--http2", "--streams", "2", "--connections", "calls=3"],
        &[URL, "--http2", "--headroom"],
        &["https://127.0.0.1/", "-k", "--cacert", "authority.pem"],
    ] {
        assert!(read(wrong).is_err(), "{wrong:?}");
    }
}

#[test]
fn flags_make_the_plan() {
    let plan = read(&[
        "3:http://127.0.0.1:8080/a",
        "http://127.0.0.1:8080/b",
        "-c",
        "4",
        "-n",
        "100",
        "--connections",
        "calls=5",
        "--body",
        "x=1",
        "-H",
        "A: b: c",
        "--cores",
        "1,2",
        "--expect-length",
        "7",
        "--timeout",
        "2s",
        "--seed",
        "9",
    ])
    .unwrap();
    assert_eq!(
        plan.mode,
        Mode::Closed {
            connections: 4,
            end: End::Requests(100)
        }
    );
    assert_eq!(plan.connections, ConnectionUse::Calls(5));
    assert_eq!((plan.threads, plan.cores), (2, vec![1, 2]));
    assert_eq!((plan.timeout, plan.seed), (Duration::from_secs(2), 9));
    let weights: Vec<f64> = plan.requests.iter().map(|request| request.weight).collect();
    assert_eq!(weights, [3.0, 1.0]);
    for request in &plan.requests {
        assert_eq!(request.method, "POST");
        assert_eq!(request.body, b"x=1");
        assert_eq!(request.headers, [("A".to_owned(), "b: c".to_owned())]);
        let expected = request.expected.unwrap();
        assert_eq!((expected.status, expected.length), (200, Some(7)));
    }
}

#[test]
fn a_rate_makes_an_open_loop() {
    let plan = read(&[URL, "--rate", "50", "-d", "2m", "--arrivals", "constant"]).unwrap();
    assert_eq!(
        plan.mode,
        Mode::Open {
            rate: 50.0,
            arrivals: Arrivals::Constant,
            duration: Duration::from_secs(120),
            max_connections: 1000,
        }
    );
    let Mode::Open { duration, rate, .. } = warm_up(&plan, Duration::from_secs(3)).mode else {
        panic!("the warm-up is another loop");
    };
    assert_eq!((duration, rate), (Duration::from_secs(3), 50.0));
}

#[test]
fn what_makes_no_sense_is_one_clear_message() {
    let check = |line: &[&str], expect: &str| {
        let error = format!("{:#}", read(line).unwrap_err());
        assert!(error.contains(expect), "{line:?}: {error}");
    };
    check(&[], "URL");
    check(&[URL, "-c", "0"], "--concurrency");
    check(&[URL, "-n", "0"], "--count");
    check(&[URL, "-n", "5", "-d", "5s"], "cannot be used with");
    check(&[URL, "-n", "5", "--rate", "5"], "cannot be used with");
    check(&[URL, "-c", "5", "--rate", "5"], "cannot be used with");
    check(&[URL, "--arrivals", "constant"], "--rate");
    check(&[URL, "--rate", "0"], "above 0");
    check(&[URL, "--rate", "NaN"], "above 0");
    check(&[URL, "-d", "10x"], "no length of time");
    check(&[URL, "--connections", "calls=0"], "keep-alive");
    check(&[URL, "--header", "no colon"], "'Name: value'");
    check(&[URL, "--header", "Host: a"], "the generator's own");
    check(&[URL, "--header", "a b: c"], "the field \"a b\"");
    check(&[URL, "--body", "@/nonexistent"], "can't read /nonexistent");
    check(&[URL, "--method", "G T"], "is no method");
    check(&[URL, "--expect-status", "99"], "--expect-status");
    check(
        &[URL, "--format", "xml"],
        "text, json, csv, ab, wrk, httperf",
    );
    check(&[URL, "http://127.0.0.1:8081/"], "two servers");
    check(
        &["http://127.0.0.1/x", "--requests", "r.toml"],
        "the server's URL alone",
    );
    check(
        &[URL, "--requests", "/nonexistent.toml"],
        "can't read /nonexistent.toml",
    );
    check(&["wss://127.0.0.1/"], "wss is not supported");
}
