//! Rows 38 and 40 of the list of faults for TLS: handshakes that nobody finishes, up to the limits, and early data. And the
//! PROXY protocol before a handshake.

use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;

use highball_tests::tls::{Client, configuration};
use rustls::HandshakeKind;
use rustls::version::TLS13;
use test_support::until;

use crate::{Fixture, SOURCE};

/// A client that has sent a part of its first message, or nothing.
fn half_open(one: &Fixture, at: usize) -> TcpStream {
    // A record that promises more than comes.
    const BEGUN: [u8; 8] = [22, 3, 1, 2, 0, 1, 0, 1];
    let mut socket = TcpStream::connect(one.server.tls_address()).expect("a connection");
    socket
        .write_all(&BEGUN[..at % (BEGUN.len() + 1)])
        .expect("a connection");
    socket
}

/// Has more clients than there are places begin handshakes, round by round, and a good one come in between. The server has
/// less than `most` descriptors meanwhile.
fn flood(one: &Fixture, places: usize, most: usize) {
    let mut running = one.connect();
    let upload = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n";
    running.send(upload.as_bytes()).expect("a connection");
    let mut held = Vec::new();
    for _ in 0..3 {
        held.extend((0..2 * places).map(|at| half_open(one, at)));
        let answer = one.connect().get("a", "/").expect("an answer");
        assert_eq!(answer.status, 200);
        let descriptors = one.server.process().descriptors().expect("it runs");
        assert!(descriptors < most, "{descriptors}");
    }
    // It has begun its request, so it is not given up for others.
    running.send(b"abc").expect("a connection");
    assert_eq!(running.response().expect("an answer").body, "3");
    drop(held);
    drop(running);
    until("no connection is left", || {
        one.server.status().number("/connections") == 0
    });
}

#[test]
fn row_38_unfinished_handshakes_at_the_limit_leave_good_clients_alone() {
    let one = Fixture::start(SOURCE, |builder| {
        let builder = builder.setting("max_connections", "20");
        builder.setting("header_timeout", "1h")
    });
    flood(&one, 20, 100);
}

#[test]
fn row_38_unfinished_handshakes_do_not_use_up_descriptors() {
    const ALL: usize = 160;
    let limit = format!("--nofile={ALL}");
    let one = Fixture::start(SOURCE, |builder| {
        let builder = builder.setting("header_timeout", "1h");
        builder.under(&["prlimit", &limit])
    });
    // The reserve stays for commands and workers.
    flood(&one, ALL, ALL * 3 / 4 + 5);
}

#[test]
fn row_40_no_early_data_is_taken() {
    let mut one = Fixture::start(SOURCE, |builder| builder);
    let trusting = configuration(&one.authority, &[&TLS13], None);
    let mut early = (*trusting).clone();
    early.enable_early_data = true;
    one.trusting = Arc::new(early);
    one.connect().get("a", "/").expect("an answer");
    // What could be repeated by others comes after the handshake, whatever the client would like.
    let mut again = one.connect();
    assert!(!again.session().is_early_data_accepted());
    again.get("a", "/").expect("an answer");
    let kind = again.session().handshake_kind();
    assert_eq!(kind, Some(HandshakeKind::Resumed));
}

#[test]
fn a_proxy_may_name_the_client_before_the_handshake() {
    let source = r##"run lambda { |env|
        Test.text(env.values_at("REMOTE_ADDR", "rack.url_scheme").join(" "))
    }"##;
    let one = Fixture::start(source, |builder| {
        builder
            .setting("proxy_protocol", "true")
            .setting("trusted_proxies", "127.0.0.1")
            .setting("log_fields", "client,protocol")
    });
    let signature = b"\r\n\r\n\0\r\nQUIT\n";
    let addresses = [[192, 0, 2, 2], [10, 0, 0, 1]].concat();
    let second = [
        &signature[..],
        &[0x21, 0x11, 0, 12],
        &addresses,
        &[18, 103, 1, 187],
    ]
    .concat();
    for (header, address) in [
        (
            &b"PROXY TCP4 192.0.2.1 10.0.0.1 4711 443\r\n"[..],
            "192.0.2.1",
        ),
        (&second, "192.0.2.2"),
    ] {
        let connected =
            Client::connect_after(header, one.server.tls_address(), "localhost", &one.trusting);
        let mut client = connected.expect("a handshake");
        let answer = client.get("localhost", "/").expect("an answer");
        assert_eq!(answer.body, format!("{address} https"));
        let client = format!("client=\"{address}\"");
        one.server.log().wait(|line| line.contains(&client));
    }
    // A handshake without a header, and one whose header never ends.
    assert!(one.handshake("localhost").is_err());
    let mut endless = TcpStream::connect(one.server.tls_address()).expect("a connection");
    let _ = endless.write_all(&[&b"PROXY TCP4 "[..], &[b'1'; 1000]].concat());
    let line = one
        .server
        .log()
        .wait(|line| line.contains("closing a connection before its first request"));
    assert!(line.contains("127.0.0.1"), "{line}");
}
