//! A server whose front has two threads (`front_threads`): clients of either one notice nothing, and what counts for all of
//! them together stays one. Connections of a server that is new alternate between the two.

use std::net::TcpStream;
use std::sync::Arc;

use highball_tests::authority::Authority;
use highball_tests::tls::{self, configuration};
use rustls::HandshakeKind;
use rustls::version::TLS13;
use test_support::{Application, Client, Events, Gate, Server, ServerBuilder, TEST_TIMEOUT, until};

/// `/gate` waits; `/cached` is public; everything is written down, and answered with its path.
const SOURCE: &str = r##"
run lambda { |env|
  path = env["PATH_INFO"]
  File.open("seen", "a") { |file| file.syswrite("#{path}\n") }
  Test.pass("work", "called") if path == "/gate"
  headers = { "content-type" => "text/plain" }
  headers["cache-control"] = "public, max-age=3600" if path == "/cached"
  [200, headers, [path]]
}"##;

struct Case {
    server: Server,
    events: Events,
    work: Gate,
}

/// Starts a server with two threads, one worker of four threads, and what is changed of that.
fn start(change: impl FnOnce(ServerBuilder) -> ServerBuilder) -> Case {
    let application = Application::without_lint(SOURCE);
    let (events, work) = (application.events(), application.gate("work"));
    let builder = Server::application_of(application)
        .workers(1)
        .threads(4)
        .setting("front_threads", "2");
    Case {
        server: change(builder).start(),
        events,
        work,
    }
}

/// Connections to both threads: so many of each.
fn connect_to_both(server: &Server, of_each: usize) -> Vec<Client> {
    let clients = (0..2 * of_each).map(|_| server.connect()).collect();
    until("they are accepted", || {
        server.status().number("/connections") == 2 * of_each as u64
    });
    clients
}

impl Case {
    /// Requests that wait at the gate, two of each thread.
    fn gated(&mut self) -> Vec<Client> {
        let mut clients = connect_to_both(&self.server, 2);
        for client in &mut clients {
            client.send("GET /gate HTTP/1.1\r\nHost: a\r\n\r\n");
            assert_eq!(self.events.wait(), "called");
        }
        clients
    }
}

#[test]
fn counts_of_a_status_are_those_of_both_threads() {
    let Case { server, .. } = start(|builder| builder);
    let mut clients = connect_to_both(&server, 5);
    for client in &mut clients {
        for path in ["/a", "/b", "/c"] {
            assert_eq!(client.get(path).expect(200).text(), path);
        }
    }
    until("all are counted", || {
        server.status().number("/counters/ok") == 30
    });
    let status = server.status();
    assert_eq!(status.number("/responses/2xx"), 30);
    assert_eq!(status.number("/connections"), 10);
    let tasks = format!("/proc/{}/task", server.process().0);
    let names = std::fs::read_dir(tasks).expect("a process").map(|task| {
        let path = task.expect("a thread").path().join("comm");
        std::fs::read_to_string(path).unwrap_or_default()
    });
    let edges = names.filter(|name| name.starts_with("highball-edge-"));
    assert_eq!(edges.count(), 1, "one beside that of the dispatcher");
}

#[test]
fn a_stop_lets_requests_of_both_threads_end() {
    let mut one = start(|builder| builder);
    let mut idle = connect_to_both(&one.server, 1);
    let mut clients = Vec::new();
    for _ in 0..4 {
        clients.push(one.server.ask("POST", "/gate"));
        assert_eq!(one.events.wait(), "called");
    }
    let (server, work) = (one.server, one.work);
    let stopped = std::thread::scope(|scope| {
        let stopped = scope.spawn(|| server.stop());
        idle.iter_mut().for_each(Client::expect_end);
        work.admit(4);
        for client in &mut clients {
            assert_eq!(client.response().expect(200).text(), "/gate");
        }
        stopped.join().expect("it stops")
    });
    let answered = stopped
        .log
        .iter()
        .filter(|line| line.contains("path=\"/gate\""));
    assert_eq!(answered.count(), 4, "{:?}", stopped.log);
}

#[test]
fn a_killed_worker_costs_no_safe_request_of_either_thread() {
    let mut one = start(|builder| builder);
    let mut clients = one.gated();
    one.server.status().processes("worker")[0].kill();
    // One after the other: each may be what killed it.
    assert_eq!(one.events.wait(), "called");
    one.work.open();
    for client in &mut clients {
        assert_eq!(client.response().expect(200).text(), "/gate");
    }
    assert_eq!(one.server.status().number("/retried"), 4);
}

#[test]
fn a_restart_is_noticed_by_clients_of_neither_thread() {
    let mut one = start(|builder| builder);
    let mut clients = one.gated();
    let ran = one.server.command(&["restart"]);
    assert!(ran.status.success(), "{ran:?}");
    let mut others = [one.server.connect(), one.server.connect()];
    for client in &mut others {
        assert_eq!(client.get("/new").expect(200).text(), "/new");
    }
    one.work.admit(4);
    for client in &mut clients {
        assert_eq!(client.response().expect(200).text(), "/gate");
        assert_eq!(client.get("/next").expect(200).text(), "/next");
    }
}

#[test]
fn clients_of_both_threads_keep_their_connections_in_an_upgrade() {
    let Case { mut server, .. } = start(|builder| builder);
    let mut clients = connect_to_both(&server, 20);
    for round in 1..=2 {
        let ran = server.command(&["upgrade"]);
        assert!(ran.status.success(), "{ran:?}");
        let old = server.replaced_by(ran.process());
        assert!(old.wait_gone(TEST_TIMEOUT), "it has given all away");
        for client in &mut clients {
            let path = format!("/{round}");
            assert_eq!(client.get(&path).expect(200).text(), path);
        }
        assert_eq!(server.status().number("/connections"), 40);
    }
}

#[test]
fn a_response_that_one_thread_stored_is_the_other_ones_too() {
    let Case { server, .. } = start(|builder| builder.setting("cache_bytes", "1MiB"));
    for client in &mut connect_to_both(&server, 2) {
        assert_eq!(client.get("/cached").expect(200).text(), "/cached");
    }
    assert_eq!(server.application().read("seen"), "/cached\n");
}

#[test]
fn a_client_has_one_rate_at_both_threads() {
    let Case { server, .. } = start(|builder| builder.setting("rate_limits", "/=3/h"));
    let mut statuses = Vec::new();
    for client in &mut connect_to_both(&server, 2) {
        statuses.push(client.get("/counted").status());
    }
    assert_eq!(statuses, [200, 200, 200, 429]);
}

#[test]
fn maintenance_begins_and_ends_at_both_threads() {
    let Case { server, .. } = start(|builder| builder);
    let mut clients = connect_to_both(&server, 1);
    let dir = server.application().dir();
    dir.write("tmp/maintenance.txt", "later");
    server
        .log()
        .wait(|line| line.contains("maintenance begins"));
    for client in &mut clients {
        assert_eq!(client.get("/").expect(503).text(), "later");
    }
    std::fs::remove_file(server.dir().join("tmp/maintenance.txt")).expect("a file");
    server.log().wait(|line| line.contains("maintenance ends"));
    for client in &mut clients {
        assert_eq!(client.get("/").expect(200).text(), "/");
    }
}

#[test]
fn sessions_of_tls_are_resumed_at_either_thread_whatever_others_do() {
    let authority = Authority::new();
    let application = Application::without_lint(SOURCE);
    authority
        .sign(&["localhost"])
        .write(&application, "localhost");
    let server = Server::application_of(application)
        .listen(["tls://127.0.0.1:0"])
        .setting("tls_certificate_files", "localhost.pem:localhost.key")
        .setting("front_threads", "2")
        .start();
    // Handshakes that never begin, at both threads.
    let silent: Vec<TcpStream> = (0..20)
        .map(|_| TcpStream::connect(server.tls_address()).expect("a connection"))
        .collect();
    let trusting = configuration(&authority, &[&TLS13], None);
    let mut clients = Vec::new();
    for number in 0..4 {
        let connected =
            tls::Client::connect(server.tls_address(), "localhost", &Arc::clone(&trusting));
        let mut client = connected.expect("a handshake");
        assert_eq!(client.get("a", "/tls").expect("an answer").body, "/tls");
        let expect = match number {
            0 => HandshakeKind::Full,
            _ => HandshakeKind::Resumed,
        };
        assert_eq!(client.session().handshake_kind(), Some(expect), "{number}");
        clients.push(client);
    }
    drop(silent);
}
