//! What idle connections with TLS hold of the front's memory, once their buffers are given back.

use highball_tests::http2::{Http2, run};
use highball_tests::tls::with_http_2;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use test_support::{Server, until};

use crate::{Fixture, SOURCE};

/// Connections of each test.
const IDLE: u64 = 1000;
/// What one of HTTP/1.1 may hold, in bytes: the session of rustls is most of it. With 10,000 it must be below 25 KB.
const HTTP_1_BYTES: u64 = 25_000;
/// And one of HTTP/2, of which the crate h2 keeps the buffers.
const HTTP_2_BYTES: u64 = 45_000;

fn start() -> Fixture {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let current = maximum;
    setrlimit(Resource::Nofile, Rlimit { current, maximum }).expect("up to the maximum");
    let one = Fixture::start(SOURCE, |builder| {
        builder.setting("keep_alive_timeout", "1h")
    });
    // What is allocated once is no connection's.
    one.connect().get("a", "/").expect("an answer");
    one
}

fn memory(server: &Server) -> u64 {
    server.process().written_memory().expect("it runs")
}

/// Waits until what the front holds more than `before` is at most this for each of the connections.
fn expect_at_most(server: &Server, before: u64, bytes: u64) {
    let held = || memory(server).saturating_sub(before) / IDLE;
    until("buffers are given back", || held() <= bytes);
}

#[test]
fn an_idle_connection_with_tls_holds_at_most_25_kb() {
    let one = start();
    let before = memory(&one.server);
    let idle: Vec<_> = (0..IDLE)
        .map(|_| {
            let mut client = one.connect();
            client.get("a", "/").expect("an answer");
            client
        })
        .collect();
    expect_at_most(&one.server, before, HTTP_1_BYTES);
    drop(idle);
}

#[test]
fn an_idle_connection_of_http_2_holds_at_most_45_kb() {
    let one = start();
    let trusting = with_http_2(&one.trusting);
    let before = memory(&one.server);
    let idle: Vec<_> = (0..IDLE)
        .map(|_| {
            let client = Http2::try_tls(one.server.tls_address(), "localhost", &trusting);
            let client = client.expect("HTTP/2");
            run(client.get("/")).expect("an answer");
            client
        })
        .collect();
    expect_at_most(&one.server, before, HTTP_2_BYTES);
    drop(idle);
}
