//! What tells proxies and load balancers how busy the server is: `endpoint-load-metrics` and HAProxy's agent-check.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use highball_tests::haproxy::{HaProxy, agent, check};
use rustix::process::Signal;
use test_support::{Application, Client, Directory, Gated, Response, Server, until};

const WAITS: &str = r##"run lambda { |env|
  Test.pass("work", "call #{env["PATH_INFO"]} #{Process.pid}") unless env["PATH_INFO"] == "/quick"
  Test.text("done")
}"##;

/// The answer to a request with these fields.
fn told(server: &Server, fields: &str) -> Option<String> {
    let mut client = server.connect();
    client.send(format!("GET /quick HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
    let response = client.response();
    response.expect(200);
    response.field("endpoint-load-metrics").map(str::to_owned)
}

const JSON: &str = "Endpoint-Load-Metrics-Format: JSON\r\n";

#[test]
fn a_trusted_proxy_that_asks_is_told_how_busy_the_application_is() {
    let mut gated = Gated::start(Application::new(WAITS), |builder| {
        builder.threads(4).setting("endpoint_load_metrics", "true")
    });
    let server = &gated.server;
    assert_eq!(told(server, ""), None);
    assert_eq!(told(server, "Endpoint-Load-Metrics-Format: BIN\r\n"), None);
    let idle = "TEXT application_utilization=0";
    until("it idles", || {
        told(server, "endpoint-load-metrics-format: text\r\n").as_deref() == Some(idle)
    });
    let mut busy: Vec<Client> = (0..3)
        .map(|n| server.ask("GET", &format!("/{n}")))
        .collect();
    for _ in 0..3 {
        gated.called();
    }
    let server = &gated.server;
    // The request that asks may be running itself when that is measured.
    let busy_json = "JSON {\"application_utilization\":0.75}";
    until("three of four are busy", || {
        told(server, JSON).as_deref() == Some(busy_json)
    });
    // One figure, wherever it is shown.
    assert_eq!(server.status().0["saturation"], 0.75);
    gated.gate.open();
    for client in &mut busy {
        client.response().expect(200);
    }
}

#[test]
fn nobody_else_learns_the_load() {
    let off = Server::app("run ->(_) { Test.text('hello') }").start();
    assert_eq!(told(&off, JSON), None);
    let strangers = Server::app("run ->(_) { Test.text('hello') }")
        .setting("endpoint_load_metrics", "true")
        .setting("trusted_proxies", "10.0.0.0/8")
        .start();
    assert_eq!(told(&strangers, JSON), None);
}

#[test]
fn an_agent_check_gets_one_line_whatever_it_sends() {
    let server = Server::app("run ->(_) { Test.text('hello') }")
        .setting("agent_check_listen", "127.0.0.1:0")
        .start();
    let address = agent(&server);
    assert_eq!(check(&address), "up 100%\n");
    let mut talkative = Client::connect(&*address);
    talkative.send("x".repeat(100_000));
    let silent: Vec<TcpStream> = (0..100)
        .map(|_| TcpStream::connect(&address).expect("the kernel accepts"))
        .collect();
    // They hold no place for long, and the application none of them.
    server.get("/").expect(200);
    until("it answers again", || {
        let mut text = String::new();
        let mut socket = TcpStream::connect(&address).expect("it listens");
        socket.read_to_string(&mut text).is_ok() && text == "up 100%\n"
    });
    drop(silent);
    for process in server.status().processes("template") {
        process.kill();
    }
}

/// HAProxy with one server whose agent is asked. Sessions stay with their server by a cookie.
struct Asking {
    _proxy: HaProxy,
    address: SocketAddr,
    stats: PathBuf,
}

impl Asking {
    fn start(dir: &Directory, server: &Server) -> Self {
        let agent = agent(server);
        Self::of(dir, server, agent.parse().expect("an address"))
    }

    fn of(dir: &Directory, server: &Server, agent: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
        let (address, port) = (listener.local_addr().expect("an address"), agent.port());
        let stats = dir.join("stats");
        let text = format!(
            "global\n stats socket {} level admin\n\
             defaults\n mode http\n timeout connect 30s\n timeout client 30s\n timeout server 30s\n\
             listen web\n bind fd@0\n cookie S insert indirect nocache\n\
             server one {} cookie one weight 100 check inter 100ms agent-check agent-addr 127.0.0.1 agent-port {port} agent-inter 100ms\n",
            stats.display(),
            server.address(),
        );
        let _proxy = HaProxy::start(dir, text, listener);
        Self {
            _proxy,
            address,
            stats,
        }
    }

    /// The answer to a request with these fields.
    fn get(&self, fields: &str) -> Response {
        let mut client = Client::connect(self.address);
        client.send(format!("GET /quick HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
        client.response()
    }

    /// Whether the server has this state and a weight in this range.
    fn is(&self, state: &str, weight: std::ops::RangeInclusive<u32>) -> bool {
        let (now, share) = self.server().unwrap_or_default();
        now.starts_with(state) && weight.contains(&share)
    }

    /// What HAProxy answers to a command of an operator.
    fn command(&self, command: &str) -> Option<String> {
        let mut socket = UnixStream::connect(&self.stats).ok()?;
        socket.write_all(format!("{command}\n").as_bytes()).ok()?;
        let mut text = String::new();
        socket.read_to_string(&mut text).ok()?;
        Some(text)
    }

    /// The state of the server and its weight, as its statistics show them.
    fn server(&self) -> Option<(String, u32)> {
        let text = self.command("show stat")?;
        let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
        let head = lines.next()?;
        let row = lines.find(|row| row.get(1) == Some(&"one"))?;
        let at = |name: &str| head.iter().position(|title| *title == name);
        let state = row[at("status")?].to_owned();
        Some((state, row[at("weight")?].parse().ok()?))
    }
}

#[test]
fn haproxy_follows_the_load_and_drains_a_server_that_is_to_stop() {
    let mut gated = Gated::start(Application::new(WAITS), |builder| {
        builder
            .threads(2)
            .setting("agent_check_listen", "127.0.0.1:0")
            .setting("stop_delay", "1h")
    });
    let dir = Directory::new();
    let proxy = Asking::start(&dir, &gated.server);
    let is = |state: &str, weight| proxy.is(state, weight);
    until("it idles", || is("UP", 100..=100));
    let mut busy: Vec<Client> = (0..2)
        .map(|n| gated.server.ask("GET", &format!("/{n}")))
        .collect();
    for _ in 0..2 {
        gated.called();
    }
    until("all threads are busy", || is("UP", 1..=12));
    gated.gate.open();
    for client in &mut busy {
        client.response().expect(200);
    }
    until("it idles again", || is("UP", 98..=100));
    gated.server.process().signal(Signal::TERM);
    until("no request is sent there", || is("UP", 0..=0));
    let stopped = gated.server.stop_with(Signal::TERM);
    assert!(stopped.status.success());
}

#[test]
fn a_server_that_is_to_stop_gets_requests_of_its_sessions_alone() {
    let server = Server::app("run ->(_) { Test.text('hello') }")
        .setting("agent_check_listen", "127.0.0.1:0")
        .setting("stop_delay", "1h")
        .start();
    let dir = Directory::new();
    let proxy = Asking::start(&dir, &server);
    until("it is there", || proxy.is("UP", 100..=100));
    let first = proxy.get("");
    let session = first.expect(200).field("set-cookie").expect("a session");
    let session = session.split(';').next().expect("a value");
    server.process().signal(Signal::TERM);
    until("it has no weight", || proxy.is("UP", 0..=0));
    // HAProxy has no other server for it.
    proxy.get("").expect(503);
    let answer = proxy.get(&format!("Cookie: {session}\r\n"));
    assert_eq!(answer.expect(200).text(), "hello");
    let stopped = server.stop_with(Signal::TERM);
    assert!(stopped.status.success());
}

/// An agent that says what the test wants, and counts how often.
fn agent_of_a_test() -> (SocketAddr, Arc<Mutex<&'static str>>, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
    let address = listener.local_addr().expect("an address");
    let (line, said) = (
        Arc::new(Mutex::new("up 100%")),
        Arc::new(AtomicUsize::new(0)),
    );
    let (says, count) = (Arc::clone(&line), Arc::clone(&said));
    thread::spawn(move || {
        for client in listener.incoming() {
            let mut client = client.expect("HAProxy connects");
            let line = *says.lock().expect("no panic");
            // HAProxy may have given up.
            if client.write_all(format!("{line}\n").as_bytes()).is_ok() {
                count.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    (address, line, said)
}

/// Why the server says `up 0%` in place of `drain`: whoever takes its address would have to say `ready`, and that ends each
/// maintenance that an operator has begun in HAProxy.
#[test]
fn haproxy_keeps_drain_until_it_hears_ready_and_follows_a_weight() {
    let server = Server::app("run ->(_) { Test.text('hello') }").start();
    let (address, line, said) = agent_of_a_test();
    let says = |text: &'static str| {
        *line.lock().expect("no panic") = text;
        let before = said.load(Ordering::Relaxed);
        // The second one from now on was answered with it for certain.
        until("it is heard", || said.load(Ordering::Relaxed) >= before + 3);
    };
    let dir = Directory::new();
    let proxy = Asking::of(&dir, &server, address);
    until("it is there", || proxy.is("UP", 100..=100));
    says("up 0%");
    until("it leaves", || proxy.is("UP", 0..=0));
    proxy.get("").expect(503);
    says("up 100%");
    until("it is back", || proxy.is("UP", 100..=100));
    says("drain");
    until("it leaves", || proxy.is("DRAIN", 0..=100));
    says("up 100%");
    assert!(proxy.is("DRAIN", 0..=100), "{:?}", proxy.server());
    proxy.get("").expect(503);
    proxy.command("set server web/one state maint");
    until("an operator has work to do", || proxy.is("MAINT", 0..=100));
    says("ready up 100%");
    until("and is not asked", || proxy.is("UP", 100..=100));
}
