//! Hijacked connections, such as WebSockets, have a short limit of their own wherever their worker leaves: they hold up
//! neither a stop nor new code. `drain_timeout` is an hour in each case: a test that waits for it fails.

use rustix::process::Signal;
use test_support::{Application, Client, Process, Server, ServerBuilder, until};

/// Takes `/socket` over and keeps it in a thread for as long as the client is there; else answers with the process.
const SOURCE: &str = r##"
run lambda { |env|
  if env["PATH_INFO"] == "/socket"
    io = env["rack.hijack"].call
    io.write("HTTP/1.1 101 Switching Protocols\r\nUpgrade: test\r\nConnection: Upgrade\r\n\r\n")
    Thread.new { io.read; io.close }
  end
  Test.text(Process.pid.to_s)
}"##;

fn server(limit: &str) -> ServerBuilder {
    let server = Server::application_of(Application::without_lint(SOURCE));
    let server = server.setting("drain_timeout", "1h");
    server.setting("websocket_drain_timeout", limit)
}

fn socket(server: &Server) -> Client {
    let mut client = server.ask("GET", "/socket");
    assert_eq!(client.head().status, 101);
    client
}

fn worker(server: &Server) -> Process {
    Process(server.get("/").text().parse().expect("a process"))
}

#[test]
fn a_stop_closes_hijacked_connections_after_their_own_limit() {
    for signal in [Signal::INT, Signal::TERM] {
        let server = server("100ms").start();
        let mut client = socket(&server);
        let stopped = server.stop_with(signal);
        client.expect_end();
        let text = stopped.log.join("\n");
        assert!(text.contains("closing hijacked connections"), "{text}");
    }
}

#[test]
fn a_restart_closes_hijacked_connections_of_the_old_code() {
    let server = server("100ms").start();
    let mut client = socket(&server);
    let old = worker(&server);
    assert!(server.command(&["restart"]).status.success());
    client.expect_end();
    until("the old worker is gone", || !old.exists());
    // A connection to the new code stays.
    let mut other = socket(&server);
    other.send("x");
    assert_ne!(worker(&server), old);
    assert!(other.is_idle(), "it was closed");
    server.stop();
}

#[test]
fn an_upgrade_closes_hijacked_connections_of_the_old_server() {
    let mut server = server("100ms").start();
    let mut client = socket(&server);
    let ran = server.command(&["upgrade"]);
    assert!(ran.status.success(), "{}", ran.output());
    client.expect_end();
    let pid = ran.stdout.split_once("(pid ").expect("a process").1;
    let pid = pid.split(')').next().and_then(|pid| pid.parse().ok());
    let old = server.replaced_by(Process(pid.expect("its number")));
    until("the old server is gone", || !old.exists());
    server.stop();
}

#[test]
fn a_worker_that_is_replaced_closes_its_hijacked_connections() {
    let server = server("100ms")
        .workers(2)
        .setting("worker_max_requests", "1")
        .start();
    let mut client = socket(&server);
    client.expect_end();
    server.stop();
}
