//! A server whose front has two threads (`front_threads`): clients of either one notice nothing, and what counts for all of
//! them together stays one. Connections of a server that is new alternate between the two.

use std::collections::BTreeSet;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use h2::Reason;
use highball_tests::authority::Authority;
use highball_tests::http2::{Http2, read, run};
use highball_tests::tls::{self, configuration, with_http_2};
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

/// Sends one request after the other, each on the connection that `ask` keeps or makes; returns what went wrong. A request is
/// asked for again where `ask` returns none: the server has said that it did not begin it.
fn load(
    name: &str,
    progress: (&AtomicBool, &AtomicUsize),
    mut ask: impl FnMut(&str) -> Result<Option<String>, String>,
) -> Option<String> {
    let (over, answered) = progress;
    for count in 0.. {
        if over.load(Ordering::Relaxed) {
            break;
        }
        let path = format!("/{name}/{count}");
        let text = loop {
            match ask(&path) {
                Ok(Some(text)) => break text,
                Ok(None) => {}
                Err(error) => return Some(format!("{path}: {error}")),
            }
        };
        if text != path {
            return Some(format!("{path}: {text}"));
        }
        answered.fetch_add(1, Ordering::Relaxed);
    }
    None
}

/// Asks on a connection that is kept, whichever server has it.
fn on_a_kept_connection(address: SocketAddr) -> impl FnMut(&str) -> Result<Option<String>, String> {
    let mut client = Client::connect(address);
    move |path| match client.try_get(path) {
        Ok(response) => Ok(Some(response.text().to_owned())),
        Err(fault) => Err(fault.to_string()),
    }
}

/// Asks with TLS, on a connection that is kept until the server says that it closes it.
fn with_tls(
    address: SocketAddr,
    trusting: &Arc<rustls::ClientConfig>,
) -> impl FnMut(&str) -> Result<Option<String>, String> {
    let mut open = None;
    move |path| {
        let connected = open
            .take()
            .map_or_else(|| tls::Client::connect(address, "localhost", trusting), Ok);
        let mut client = connected.map_err(|error| error.to_string())?;
        let answer = client.get("a", path).map_err(|error| error.to_string())?;
        let closes = tls::field(&answer.head, "connection") == Some("close");
        open = (!closes).then_some(client);
        Ok(Some(answer.body))
    }
}

/// Asks with HTTP/2 over TLS, on a connection that is kept until the server refuses a stream.
fn with_http2(
    address: SocketAddr,
    trusting: &Arc<rustls::ClientConfig>,
) -> impl FnMut(&str) -> Result<Option<String>, String> {
    let trusting = with_http_2(trusting);
    let connect = move || Http2::try_tls(address, "localhost", &trusting);
    let mut client = connect().expect("a connection");
    move |path| {
        let answer = run(async {
            let request = client.request("GET", path).body(()).expect("a request");
            let (response, _) = client.send(request, true).await?;
            read(response).await
        });
        match answer {
            Ok(answer) => Ok(Some(answer.text())),
            Err(error) if was_refused(&error) => {
                client = connect().map_err(|error| error.to_string())?;
                Ok(None)
            }
            Err(error) => Err(error.to_string()),
        }
    }
}

/// Whether the server has said that it did not begin the request.
fn was_refused(error: &h2::Error) -> bool {
    let goaway = error.is_go_away() && error.reason() == Some(Reason::NO_ERROR);
    goaway || (error.is_reset() && error.reason() == Some(Reason::REFUSED_STREAM))
}

#[test]
fn upgrades_under_load_lose_no_request_of_either_thread() {
    let (application, authority) = (Application::without_lint(SOURCE), Authority::new());
    authority
        .sign(&["localhost"])
        .write(&application, "localhost");
    let mut server = Server::application_of(application)
        .workers(2)
        .threads(2)
        .listen(["127.0.0.1:0", "tls://127.0.0.1:0"])
        .setting("tls_certificate_files", "localhost.pem:localhost.key")
        .setting("tls_redirect", "false")
        .setting("front_threads", "2")
        .start();
    let (plain, tls) = (server.address(), server.tls_address());
    let trusting = configuration(&authority, &[&TLS13], None);
    let (over, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
    let failures: Vec<String> = std::thread::scope(|scope| {
        let (progress, trusting) = ((&over, &answered), &trusting);
        let mut loads = Vec::new();
        // Newcomers go to the thread with the fewest: some of each kind are at each.
        for number in 0..3 {
            let name = move |kind| format!("{kind}{number}");
            loads.push(
                scope.spawn(move || load(&name("kept"), progress, on_a_kept_connection(plain))),
            );
            loads.push(scope.spawn(move || load(&name("tls"), progress, with_tls(tls, trusting))));
            loads.push(
                scope.spawn(move || load(&name("http2"), progress, with_http2(tls, trusting))),
            );
        }
        let more_answers = || {
            let more = answered.load(Ordering::Relaxed) + 200;
            until("more answers", || {
                answered.load(Ordering::Relaxed) > more
                    || loads.iter().any(|load| load.is_finished())
            });
        };
        more_answers();
        for _ in 0..3 {
            let ran = server.command(&["upgrade"]);
            assert!(ran.status.success(), "{}", ran.output());
            let old = server.replaced_by(ran.process());
            more_answers();
            assert!(old.wait_gone(TEST_TIMEOUT), "it has given all away");
        }
        over.store(true, Ordering::Relaxed);
        let loads = loads.into_iter().map(|load| load.join());
        loads
            .filter_map(|one| one.expect("no load panics"))
            .collect()
    });
    assert_eq!(failures, [""; 0]);
    let seen = server.application().read("seen");
    let unique: BTreeSet<&str> = seen.lines().collect();
    assert_eq!(unique.len(), seen.lines().count(), "some ran twice");
    assert_eq!(unique.len(), answered.into_inner());
}

#[test]
fn a_killed_server_has_logged_whole_lines_of_both_threads_in_order() {
    let Case { server, .. } = start(|builder| builder);
    let mut clients = connect_to_both(&server, 2);
    for round in 0..10 {
        for (number, client) in clients.iter_mut().enumerate() {
            let path = format!("/{number}/{round}");
            assert_eq!(client.get(&path).expect(200).text(), path);
        }
    }
    // Nothing more comes that would push them out: each thread hands its lines over in time.
    for number in 0..clients.len() {
        server
            .log()
            .wait(|line| line.contains(&format!("path=\"/{number}/9\"")));
    }
    server.process().kill();
    let ended = server.wait_end();
    let lines: Vec<&String> = ended
        .log
        .iter()
        .filter(|line| line.contains("path="))
        .collect();
    assert_eq!(lines.len(), 40, "{lines:?}");
    for number in 0..clients.len() {
        let own = format!("path=\"/{number}/");
        let own = lines.iter().filter(|line| line.contains(&own));
        for (round, line) in own.enumerate() {
            assert!(line.contains(&format!("/{number}/{round}\"")), "{line}");
            assert!(line.ends_with("outcome=ok"), "{line}");
        }
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
