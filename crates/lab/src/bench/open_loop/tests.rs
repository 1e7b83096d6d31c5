//! The generator against small servers of its own.

use std::net::TcpListener;
use std::thread;

use super::schedule::{Arrivals, Class};
use super::*;

fn plan(paths: &[&str]) -> Plan {
    Plan {
        rate: 400.0,
        duration: Duration::from_millis(250),
        arrivals: Arrivals::Poisson,
        seed: 1,
        classes: paths
            .iter()
            .map(|path| Class {
                path: (*path).to_owned(),
                weight: 1.0,
            })
            .collect(),
    }
}

/// Serves every connection on a thread of its own with `answer`, which gives `None` to close.
fn serve(answer: fn(&str) -> Option<&'static str>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            thread::spawn(move || {
                let mut buffer = [0; 4096];
                while let Ok(count @ 1..) = stream.read(&mut buffer) {
                    let Some(response) = answer(&String::from_utf8_lossy(&buffer[..count])) else {
                        return;
                    };
                    if stream.write_all(response.as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

#[test]
fn every_scheduled_request_is_measured_on_reused_connections() {
    let address = serve(|_| Some("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"));
    let plan = plan(&["/a"]);
    let outcome = run(address, &plan).unwrap();
    assert_eq!(outcome.samples.len(), plan.schedule().len());
    assert_eq!(outcome.errors(), 0);
    assert!(
        outcome.connections < outcome.samples.len(),
        "{} connections",
        outcome.connections
    );
    assert!(
        outcome
            .samples
            .iter()
            .all(|sample| sample.latency >= sample.service)
    );
}

#[test]
fn a_slow_answer_does_not_hold_up_the_schedule() {
    let address = serve(|request| {
        if request.starts_with("GET /slow ") {
            thread::sleep(Duration::from_millis(100));
        }
        Some("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    });
    let outcome = run(address, &plan(&["/fast", "/slow"])).unwrap();
    assert_eq!(outcome.errors(), 0);
    assert!(
        outcome
            .latencies_ms(1)
            .iter()
            .all(|latency| *latency >= 100.0)
    );
    assert!(outcome.peak_in_flight > 5, "{}", outcome.peak_in_flight);
    assert!(outcome.connections >= outcome.peak_in_flight);
}

#[test]
fn refusals_closes_and_other_statuses_are_errors() {
    let unused = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let outcome = run(unused, &plan(&["/a"])).unwrap();
    assert!(
        outcome
            .samples
            .iter()
            .all(|sample| sample.end == End::Failed)
    );

    let closing = serve(|_| None);
    let outcome = run(closing, &plan(&["/a"])).unwrap();
    assert!(
        outcome
            .samples
            .iter()
            .all(|sample| sample.end == End::Failed)
    );

    let busy =
        serve(|_| Some("HTTP/1.1 503 Busy\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"));
    let outcome = run(busy, &plan(&["/a"])).unwrap();
    assert!(
        outcome
            .samples
            .iter()
            .all(|sample| sample.end == End::Answered(503))
    );
    assert_eq!(outcome.connections, outcome.samples.len());
    assert_eq!(outcome.errors(), outcome.samples.len());
    assert!(
        outcome
            .latencies_ms(0)
            .iter()
            .all(|latency| *latency >= GRACE.as_secs_f64() * 1000.0)
    );
}
