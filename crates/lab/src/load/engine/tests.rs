//! Loads against small servers. No test waits for a time: the servers decide when something happens.

use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::*;
use crate::load::outcome::Outcome;
use crate::load::plan::{Arrivals, ConnectionUse, End, Mode, Request, Target};
use server::{page, serve};

mod server;

fn request(method: &str, path: &str) -> Request {
    Request {
        method: method.to_owned(),
        path: path.to_owned(),
        headers: Vec::new(),
        body: Vec::new(),
        weight: 1.0,
    }
}

fn plan(address: SocketAddr, mode: Mode) -> Plan {
    Plan {
        target: Target::Tcp(address),
        host: address.to_string(),
        requests: vec![request("GET", "/")],
        login: None,
        mode,
        connections: ConnectionUse::KeepAlive,
        timeout: Duration::from_secs(20),
        threads: 1,
        cores: Vec::new(),
        seed: 1,
        expected: None,
    }
}

fn closed(connections: usize, requests: u64) -> Mode {
    Mode::Closed {
        connections,
        end: End::Requests(requests),
    }
}

fn open(rate: f64, milliseconds: u64) -> Mode {
    Mode::Open {
        rate,
        arrivals: Arrivals::Poisson,
        duration: Duration::from_millis(milliseconds),
        max_connections: 1000,
    }
}

fn load(plan: &Plan) -> Outcome {
    run(plan, &mut |_| {}, &AtomicBool::new(false)).unwrap()
}

#[test]
fn a_closed_loop_sends_as_many_requests_as_were_asked_for() {
    let address = serve(|_| page("hello"));
    let outcome = load(&plan(address, closed(4, 500)));
    assert_eq!(outcome.completed, 500);
    assert_eq!(outcome.good, 500);
    assert_eq!((outcome.demanded, outcome.sent), (500, 500));
    assert_eq!(outcome.errors.total(), 0);
    assert_eq!(outcome.statuses[&200], 500);
    assert_eq!(outcome.connections, 4);
    assert_eq!(outcome.peak_in_flight, 4);
    assert_eq!(outcome.latency.count(), 500);
    assert_eq!(outcome.service.count(), 500);
    assert_eq!(outcome.sample.server, "small");
    assert_eq!(outcome.sample.length, 5);
    assert_eq!(outcome.bytes.bodies, 2500);
    assert_eq!(outcome.bytes.received, outcome.bytes.heads + 2500);
    assert_eq!(outcome.requests[0].name, "GET /");
    assert_eq!(outcome.requests[0].completed, 500);
}

#[test]
fn an_open_loop_sends_what_its_schedule_holds() {
    let address = serve(|_| page("hello"));
    let outcome = load(&plan(address, open(500.0, 600)));
    assert_eq!(outcome.completed + outcome.late, outcome.demanded);
    assert_eq!(outcome.sent, outcome.demanded);
    assert_eq!(outcome.elapsed_s, 0.6);
    assert_eq!(outcome.errors.total(), 0);
    assert_eq!(outcome.generator.lag.count(), outcome.demanded);
    assert_eq!(outcome.seconds.len(), 1);
    assert_eq!(outcome.seconds[0].demanded, outcome.demanded);
}
