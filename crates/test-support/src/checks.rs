//! Checks that several files of wire tests make.

use std::time::Duration;

use crate::application::Application;
use crate::client::response::Head;
use crate::server::Server;
use crate::server::builder::ServerBuilder;

/// How long an application that must wait for its client is watched.
const WATCH: Duration = Duration::from_millis(500);

/// Upgrades a connection to `echo` and checks that two lines come back as `echo LINE`, that the server answers `hello` for
/// `/` meanwhile, and that the connection ends when the client has ended its half. Returns the response's head.
///
/// # Panics
/// When one of these does not hold.
#[track_caller]
pub fn expect_echo(server: &Server, target: &str) -> Head {
    let mut client = server.connect();
    client.send(format!(
        "GET {target} HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n"
    ));
    let head = client.head();
    assert_eq!(head.status, 101);
    assert_eq!(head.field("upgrade"), Some("echo"));
    for line in ["one\n", "two\n"] {
        client.send(line);
        assert_eq!(client.bytes(9), format!("echo {line}").as_bytes());
        // The only thread is free meanwhile.
        assert_eq!(server.get("/").text(), "hello");
    }
    client.half_close();
    client.expect_end();
    head
}

/// Serves a response of 64 MiB with these settings, and checks that the application waits for a client that does not read,
/// and finishes when it reads.
///
/// # Panics
/// When one of these does not hold.
#[track_caller]
pub fn expect_to_wait_for_client(settings: impl FnOnce(ServerBuilder) -> ServerBuilder) {
    let application = Application::without_lint(
        r##"PIECE = ("x" * 65_536).freeze
        FIELDS = { "x-accel-buffering" => ENV["ACCEL_BUFFERING"] }.compact.freeze
        run lambda { |env| [200, FIELDS.dup, Test::Body.new { |to| 1024.times { to.call(PIECE) } }] }"##,
    );
    let mut events = application.events();
    let server = settings(Server::application_of(application)).start();
    let mut client = server.connect();
    client.ask("GET", "/");
    client.head();
    // 64 MiB fit neither into the limit nor into the kernel's buffers.
    assert_eq!(events.wait_within(WATCH), None);
    let mut length = 0;
    while let Some(chunk) = client.chunk() {
        length += chunk.len();
    }
    assert_eq!(length, 1024 * 65_536);
    assert_eq!(events.wait(), "body closed");
}
