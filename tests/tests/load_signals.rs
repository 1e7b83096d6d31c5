//! What tells proxies and load balancers how busy the server is: `endpoint-load-metrics` and HAProxy's agent-check.

use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use highball_tests::haproxy::HaProxy;
use rustix::process::Signal;
use test_support::{Application, Client, Directory, Gated, Server, until};

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

/// The address of agent checks.
fn agent(server: &Server) -> String {
    let line = server.log().wait(|line| line.contains("agent checks"));
    let (_, rest) = line.split_once("answered on ").expect("an address");
    rest.split(' ').next().expect("a word").to_owned()
}

/// What an agent check hears.
fn check(address: &str) -> String {
    let mut text = String::new();
    let mut socket = TcpStream::connect(address).expect("it listens");
    socket.read_to_string(&mut text).expect("a line");
    text
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

/// HAProxy with one server whose agent is asked.
struct Asking {
    _proxy: HaProxy,
    stats: PathBuf,
}

impl Asking {
    fn start(dir: &Directory, server: &Server) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
        let agent = agent(server);
        let (_, port) = agent.rsplit_once(':').expect("a port");
        let stats = dir.join("stats");
        let text = format!(
            "global\n stats socket {} level admin\n\
             defaults\n mode http\n timeout connect 30s\n timeout client 30s\n timeout server 30s\n\
             listen web\n bind fd@0\n\
             server one {} weight 100 check inter 100ms agent-check agent-addr 127.0.0.1 agent-port {port} agent-inter 100ms\n",
            stats.display(),
            server.address(),
        );
        let _proxy = HaProxy::start(dir, text, listener);
        Self { _proxy, stats }
    }

    /// The state of the server and its weight, as its statistics show them.
    fn server(&self) -> Option<(String, u32)> {
        use std::io::Write;
        let mut socket = UnixStream::connect(&self.stats).ok()?;
        socket.write_all(b"show stat\n").ok()?;
        let mut text = String::new();
        socket.read_to_string(&mut text).ok()?;
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
    let is = |state: &str, weight: std::ops::RangeInclusive<u32>| {
        let (now, share) = proxy.server().unwrap_or_default();
        now.starts_with(state) && weight.contains(&share)
    };
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
