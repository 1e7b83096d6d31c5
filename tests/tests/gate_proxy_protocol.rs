//! The PROXY protocol over the wire: sent by HAProxy and by hand, and by peers that should not, or do it wrong.

use std::net::{SocketAddr, TcpListener};

use highball_tests::haproxy::HaProxy;
use test_support::{Client, Directory, Program, Server, ServerBuilder, TEST_TIMEOUT};

/// Answers with the address and X-Forwarded-For, as the application sees them.
const APPLICATION: &str = r##"run lambda { |env|
  Test.text(env.values_at("REMOTE_ADDR", "HTTP_X_FORWARDED_FOR").inspect)
}"##;

/// A server whose peers on 127.0.0.1 must send a header.
fn server() -> ServerBuilder {
    server_that_trusts("127.0.0.1")
}

/// A server whose peers in this network must send a header.
fn server_that_trusts(network: &str) -> ServerBuilder {
    Server::app(APPLICATION)
        .setting("proxy_protocol", "true")
        .setting("trusted_proxies", network)
        .setting("log_fields", "client")
}

const GET: &str = "GET / HTTP/1.1\r\nhost: test\r\nx-forwarded-for: 203.0.113.5\r\n\r\n";
const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// HAProxy before a server, which sends it this with each connection.
struct Sending {
    _proxy: HaProxy,
    address: SocketAddr,
}

impl Sending {
    fn start(dir: &Directory, server: SocketAddr, option: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let text = format!(
            "defaults\n mode tcp\n timeout connect 30s\n timeout client 30s\n timeout server 30s\n\
             listen web\n bind fd@0\n option httpchk GET /up\n server one {server} {option}\n"
        );
        let _proxy = HaProxy::start(dir, text, listener);
        Self { _proxy, address }
    }

    /// A GET through it, from 127.0.0.77.
    fn get(&self) -> String {
        let ran = Program::new("curl")
            .args(["--silent", "--show-error", "--interface", "127.0.0.77"])
            .args(["--header", "X-Forwarded-For: 203.0.113.5"])
            .arg(format!("http://{}/", self.address))
            .run();
        assert!(ran.status.success(), "{}", ran.output());
        ran.stdout
    }
}

#[test]
fn haproxy_names_the_client_in_both_versions_and_checks_as_itself() {
    for option in [
        "send-proxy check inter 200ms",
        "send-proxy-v2 check inter 200ms",
        "send-proxy-v2 proxy-v2-options ssl,unique-id check inter 200ms",
    ] {
        let server = server().start();
        let dir = Directory::new();
        let proxy = Sending::start(&dir, server.address(), option);
        let answer = proxy.get();
        // Its X-Forwarded-For is the client's own, and not believed.
        assert!(
            answer.starts_with("[\"127.0.0.77\", "),
            "{option}: {answer}"
        );
        assert!(answer.ends_with(", nil]"), "{option}: {answer}");
        server
            .log()
            .wait(|line| line.contains("path=\"/\"") && line.contains("client=\"127.0.0.77\""));
        server
            .log()
            .wait(|line| line.contains("path=\"/up\"") && line.contains("client=\"127.0.0.1\""));
        drop(proxy);
        server.stop();
    }
}

#[test]
fn the_client_of_the_header_is_the_one_whose_rate_and_address_count() {
    let server = server()
        .setting("rate_limits", "/=2/h")
        .setting("deny", "/=198.51.100.0/24")
        .start();
    let status = |client: &str| {
        let header = format!("PROXY TCP4 {client} 10.0.0.1 4711 80\r\n{GET}");
        server.connect().send(header).response().status()
    };
    assert_eq!(
        [
            status("192.0.2.1"),
            status("192.0.2.1"),
            status("192.0.2.1")
        ],
        [200, 200, 429]
    );
    assert_eq!(status("192.0.2.2"), 200);
    assert_eq!(status("198.51.100.1"), 403);
    server.stop();
}

#[test]
fn only_the_proxy_itself_may_speak_for_others() {
    let server = server().start();
    let answer = |header: &[u8]| {
        let bytes = [header, GET.as_bytes(), GET.as_bytes()].concat();
        let mut client: Client = server.connect();
        let first = client.send(bytes).response().text();
        // The header counts for the whole connection.
        assert_eq!(client.response().text(), first);
        first
    };
    let local = [SIGNATURE, &[0x20, 0, 0, 0]].concat();
    assert_eq!(answer(&local), "[\"127.0.0.1\", \"203.0.113.5\"]");
    assert_eq!(answer(b"PROXY UNKNOWN\r\n"), "[\"127.0.0.1\", nil]");
    let inner = b"PROXY TCP4 127.0.0.1 127.0.0.1 7 80\r\n";
    assert_eq!(answer(inner), "[\"127.0.0.1\", \"203.0.113.5\"]");
    let v6 = b"PROXY TCP6 2001:db8::1 ::1 7 80\r\n";
    assert_eq!(answer(v6), "[\"2001:db8::1\", nil]");
    server.stop();
}

#[test]
fn a_header_may_come_byte_by_byte_and_with_the_request() {
    let server = server().start();
    let mut client = server.connect();
    for byte in b"PROXY TCP4 192.0.2.1 10.0.0.1 4711 80\r\n" {
        client.send([*byte]);
    }
    assert_eq!(client.send(GET).response().text(), "[\"192.0.2.1\", nil]");
    server.stop();
}

#[test]
fn trusted_peers_without_a_sound_header_are_disconnected() {
    let server = server().start();
    let long = format!("PROXY TCP4 {}", "1".repeat(10_000));
    let huge = [SIGNATURE, &[0x21, 0x11, 0xff, 0xff]].concat();
    for bytes in [
        GET.as_bytes(),
        b"PROXY TCP4 192.0.2.1\r\n",
        b"PROXY TCP4 nobody 10.0.0.1 1 2\r\n",
        long.as_bytes(),
        &huge,
    ] {
        let mut client = server.connect();
        // The server may have closed before all of it was sent.
        let _ = client.try_send(bytes);
        let (answer, _) = client.rest();
        assert!(answer.is_empty(), "{}", String::from_utf8_lossy(&answer));
    }
    let line = server
        .log()
        .wait(|line| line.contains("closing a connection before its first request"));
    assert!(line.contains("sends no PROXY header"), "{line}");
    // One that says nothing is closed as well, and holds up nobody meanwhile.
    let mut silent = server.connect();
    silent.send("PROXY ");
    let mut client = server.connect();
    client.send(format!("PROXY UNKNOWN\r\n{GET}"));
    assert_eq!(client.response().status(), 200);
    silent.expect_end();
    server.stop();
}

#[test]
fn peers_that_are_not_trusted_send_no_header() {
    let server = server_that_trusts("10.0.0.0/8").start();
    let mut client = server.connect();
    client.send(format!("PROXY TCP4 10.0.0.7 10.0.0.1 4711 80\r\n{GET}"));
    assert_eq!(client.response().status(), 400);
    let text = server.connect().send(GET).response().text();
    assert!(
        text.starts_with("[\"127.0.0.1\", ") && text.ends_with(", nil]"),
        "{text}"
    );
    server.stop();
}

#[test]
fn a_unix_socket_may_have_a_proxy_before_it_too() {
    let dir = Directory::new();
    let socket = dir.join("web.sock");
    let address = format!("unix:{}", socket.display());
    let server = server_that_trusts("unix")
        .listen([address.as_str()])
        .start();
    let mut client = Client::connect_unix(&socket);
    client.send(format!("PROXY TCP4 192.0.2.1 10.0.0.1 4711 80\r\n{GET}"));
    assert_eq!(client.response().text(), "[\"192.0.2.1\", nil]");
    server.stop();
}

#[test]
fn a_connection_keeps_its_client_through_an_upgrade() {
    let mut server = server().start();
    let mut client = server.connect();
    client.send(format!("PROXY TCP4 192.0.2.1 10.0.0.1 4711 80\r\n{GET}"));
    let before = client.response().text();
    assert_eq!(before, "[\"192.0.2.1\", nil]");
    let ran = server.command(&["upgrade"]);
    assert_eq!(ran.status.code(), Some(0), "{}", ran.output());
    let old = server.replaced_by(ran.process());
    assert!(old.wait_gone(TEST_TIMEOUT));
    // The same connection, which was idle, and no header comes a second time.
    assert_eq!(client.send(GET).response().text(), before);
    server.stop();
}
