//! The load generator beside ab, wrk and httperf: on one server that gives out answers at a fixed rate, all of them
//! must report that rate. The server and not the machine decides it: answers leave by an absolute clock that catches
//! up, and enough requests wait at any time that a slow moment on either side costs nothing.

#![allow(clippy::unwrap_used, reason = "it is a part of tests")]

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use loadgen::plan::{ConnectionUse, End, Mode, Plan, Request, Target};

/// Answers a second.
const RATE: f64 = 400.0;
/// Connections of every tool: 160 ms of answers wait at the server.
const CONNECTIONS: usize = 64;
/// Requests of each run, two seconds' worth, but for wrk, which goes by time.
const REQUESTS: usize = 768;
/// How far two tools may be apart.
const TOLERANCE: f64 = 0.05;

/// A server that answers one request every `1 / RATE` seconds, whichever connection it came on.
struct Server {
    address: SocketAddr,
    /// Connections that are open, and word of each that ends.
    open: Arc<(Mutex<usize>, Condvar)>,
}

impl Server {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let open: Arc<(Mutex<usize>, Condvar)> = Arc::default();
        let server = Self {
            address,
            open: Arc::clone(&open),
        };
        let (waiting, queue) = channel();
        thread::spawn(move || answer(&queue));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (waiting, open) = (waiting.clone(), Arc::clone(&open));
                *open.0.lock().unwrap() += 1;
                thread::spawn(move || {
                    listen(&stream, &waiting);
                    *open.0.lock().unwrap() -= 1;
                    open.1.notify_all();
                });
            }
        });
        server
    }

    /// Returns when the last client has left, so that nothing of it is waited for in the next one's time.
    fn wait_until_left(&self) {
        let open = self.open.0.lock().unwrap();
        drop(self.open.1.wait_while(open, |open| *open > 0).unwrap());
    }
}

/// A request that waits for its answer.
struct Waiting {
    stream: TcpStream,
    /// Its client has left: wrk leaves requests behind, whose answers must not take the next tool's time.
    gone: Arc<AtomicBool>,
}

fn listen(stream: &TcpStream, waiting: &Sender<Waiting>) {
    stream.set_nodelay(true).unwrap();
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    let gone = Arc::new(AtomicBool::new(false));
    loop {
        line.clear();
        match reader.read_line(&mut line) {
            Ok(0) | Err(_) => return gone.store(true, Ordering::Relaxed),
            Ok(_) if line == "\r\n" => {
                let (stream, gone) = (stream.try_clone().unwrap(), Arc::clone(&gone));
                waiting.send(Waiting { stream, gone }).unwrap();
            }
            Ok(_) => {}
        }
    }
}

fn answer(queue: &Receiver<Waiting>) {
    let gap = Duration::from_secs_f64(1.0 / RATE);
    let mut due = Instant::now();
    loop {
        let mut waiting = match queue.try_recv() {
            Ok(waiting) => waiting,
            // Between two runs: the clock starts again, or the next one would get a burst.
            Err(_) => match queue.recv() {
                Ok(waiting) => {
                    due = Instant::now();
                    waiting
                }
                Err(_) => return,
            },
        };
        if waiting.gone.load(Ordering::Relaxed) {
            continue;
        }
        due += gap;
        thread::sleep(due.saturating_duration_since(Instant::now()));
        // ab speaks HTTP/1.0 and keeps the connection only where it is asked to. A client that leaves meanwhile
        // needs no answer.
        let _ = waiting.stream.write_all(
            b"HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-Length: 5\r\n\r\nhello",
        );
    }
}

/// Loads the address and tells the rate.
type Tool = fn(SocketAddr) -> f64;

fn own(address: SocketAddr) -> f64 {
    let plan = Plan {
        target: Target::Tcp(address),
        host: address.to_string(),
        requests: vec![Request {
            method: "GET".to_owned(),
            path: "/".to_owned(),
            headers: Vec::new(),
            body: Vec::new(),
            weight: 1.0,
            expected: None,
        }],
        login: None,
        mode: Mode::Closed {
            connections: CONNECTIONS,
            end: End::Requests(REQUESTS as u64),
        },
        connections: ConnectionUse::KeepAlive,
        streams: None,
        timeout: Duration::from_secs(30),
        threads: 1,
        cores: Vec::new(),
        seed: 1,
    };
    let outcome = loadgen::run(&plan, &mut |_| {}, &AtomicBool::new(false)).unwrap();
    assert_eq!(outcome.good, REQUESTS as u64, "{:?}", outcome.errors);
    outcome.good_per_second()
}

/// What a tool prints.
fn output(program: &str, arguments: &str) -> String {
    let run = Command::new(program)
        .args(arguments.split_whitespace())
        .output();
    let run = run.unwrap_or_else(|error| {
        panic!("{program} can't be run ({error}); install it: scripts/install test")
    });
    let text = String::from_utf8_lossy(&run.stdout).into_owned();
    assert!(
        run.status.success(),
        "{program}: {text}{}",
        String::from_utf8_lossy(&run.stderr)
    );
    text
}

/// The number that follows `label`.
fn number(text: &str, label: &str) -> f64 {
    let rest = text
        .split(label)
        .nth(1)
        .unwrap_or_else(|| panic!("{label:?} in {text}"));
    rest.split_whitespace()
        .next()
        .unwrap()
        .parse()
        .unwrap_or_else(|_| panic!("a number after {label:?} in {text}"))
}

fn ab(address: SocketAddr) -> f64 {
    let text = output(
        "ab",
        &format!("-q -k -c {CONNECTIONS} -n {REQUESTS} http://{address}/"),
    );
    assert_eq!(number(&text, "Failed requests:"), 0.0);
    number(&text, "Requests per second:")
}

fn wrk(address: SocketAddr) -> f64 {
    let text = output(
        "wrk",
        &format!("-t 1 -c {CONNECTIONS} -d 2 http://{address}/"),
    );
    number(&text, "Requests/sec:")
}

/// Sessions of several calls are as near as httperf comes to a closed loop.
fn httperf(address: SocketAddr) -> f64 {
    let calls = REQUESTS / CONNECTIONS;
    let text = output(
        "httperf",
        &format!(
            "--hog --server {} --port {} --uri / --rate 5000 --wsess {CONNECTIONS},{calls},0",
            address.ip(),
            address.port()
        ),
    );
    assert_eq!(number(&text, "Errors: total"), 0.0);
    number(&text, " replies ") / number(&text, "test-duration ")
}

#[test]
fn all_tools_measure_the_rate_of_the_server() {
    let server = Server::start();
    let tools: [(&str, Tool); 4] = [
        ("highball", own),
        ("ab", ab),
        ("wrk", wrk),
        ("httperf", httperf),
    ];
    let mut rates = [const { Vec::new() }; 4];
    for round in 0..3 {
        // Each round begins with another tool.
        for index in 0..tools.len() {
            let index = (index + round) % tools.len();
            rates[index].push((tools[index].1)(server.address));
            server.wait_until_left();
        }
    }
    // The server gives no more than its rate, but the machine may give a tool no time: then a run is below it.
    let best = rates
        .each_ref()
        .map(|rates| rates.iter().copied().fold(0.0, f64::max));
    for ((name, _), rate) in tools.iter().zip(best) {
        let own = best[0];
        assert!(
            (rate / own - 1.0).abs() < TOLERANCE,
            "{name} tells {rate:.1}/s where highball tells {own:.1}/s: {rates:?}"
        );
    }
}
