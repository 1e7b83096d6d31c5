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
/// And one of HTTP/2, of which the crate h2 keeps what it decodes and sends.
const HTTP_2_BYTES: u64 = 32_000;

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

/// Waits until the front holds little more than `before` for each of the connections.
fn expect_buffers_given_back(server: &Server, before: u64, bytes: u64) {
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
    expect_buffers_given_back(&one.server, before, HTTP_1_BYTES);
    drop(idle);
}

#[test]
fn an_idle_connection_of_http_2_holds_at_most_32_kb() {
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
    // The buffers of some have grown.
    let upload = |client: &Http2| {
        let request = client.request("POST", "/");
        run(client.ask(request, vec![b'a'; 200_000])).expect("an answer")
    };
    for client in &idle[..10] {
        assert_eq!(upload(client).text(), "200000");
    }
    expect_buffers_given_back(&one.server, before, HTTP_2_BYTES);
    for client in &idle {
        assert_eq!(upload(client).text(), "200000");
    }
}
