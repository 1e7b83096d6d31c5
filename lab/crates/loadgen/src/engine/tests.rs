//! Loads against small servers. No test waits for a time: the servers decide when something happens.

use std::collections::BTreeSet;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::*;
use crate::outcome::{Errors, Outcome};
use crate::plan::{Arrivals, ConnectionUse, End, Expected, Mode, Request, Target};
use server::{Answer, page, serve, serve_on, serve_unix};

mod http2;
mod multiplexed;
mod secured;
mod server;

fn request(method: &str, path: &str) -> Request {
    Request {
        method: method.to_owned(),
        path: path.to_owned(),
        headers: Vec::new(),
        body: Vec::new(),
        weight: 1.0,
        expected: None,
    }
}

fn plan(address: SocketAddr, mode: Mode) -> Plan {
    Plan {
        target: Target::Tcp(address),
        host: address.to_string(),
        requests: vec![request("GET", "/")],
        login: None,
        mode,
        connections: ConnectionUse::KeepAlive,
        streams: None,
        timeout: Duration::from_secs(20),
        threads: 1,
        cores: Vec::new(),
        seed: 1,
    }
}

fn closed(connections: usize, requests: u64) -> Mode {
    Mode::Closed {
        connections,
        end: End::Requests(requests),
    }
}

fn open(rate: f64, milliseconds: u64) -> Mode {
    Mode::Open {
        rate,
        arrivals: Arrivals::Poisson,
        duration: Duration::from_millis(milliseconds),
        max_connections: 1000,
    }
}

fn load(plan: &Plan) -> Outcome {
    run(plan, &mut |_| {}, &AtomicBool::new(false)).unwrap()
}

#[test]
fn a_closed_loop_sends_as_many_requests_as_were_asked_for() {
    let address = serve(|_| page("hello"));
    let outcome = load(&plan(address, closed(4, 500)));
    assert_eq!(outcome.completed, 500);
    assert_eq!(outcome.good, 500);
    assert_eq!((outcome.demanded, outcome.sent), (500, 500));
    assert_eq!(outcome.errors.total(), 0);
    assert_eq!(outcome.statuses[&200], 500);
    assert_eq!(outcome.connections, 4);
    assert_eq!(outcome.peak_in_flight, 4);
    assert_eq!(outcome.latency.count(), 500);
    assert_eq!(outcome.service.count(), 500);
    assert_eq!(outcome.sample.server, "small");
    assert_eq!(outcome.sample.length, 5);
    assert_eq!(outcome.bytes.bodies, 2500);
    assert_eq!(outcome.bytes.received, outcome.bytes.heads + 2500);
    assert_eq!(outcome.requests[0].name, "GET /");
    assert_eq!(outcome.requests[0].completed, 500);
}

#[test]
fn an_open_loop_sends_what_its_schedule_holds() {
    let address = serve(|_| page("hello"));
    let outcome = load(&plan(address, open(500.0, 600)));
    assert_eq!(outcome.completed + outcome.late, outcome.demanded);
    assert_eq!(outcome.sent, outcome.demanded);
    assert_eq!(outcome.elapsed_s, 0.6);
    assert_eq!(outcome.errors.total(), 0);
    assert_eq!(outcome.generator.lag.count(), outcome.demanded);
    assert_eq!(outcome.seconds.len(), 1);
    assert_eq!(outcome.seconds[0].demanded, outcome.demanded);
}

#[test]
fn several_threads_share_one_load() {
    let address = serve(|_| page("hello"));
    let mut plan = plan(address, closed(6, 600));
    plan.threads = 4;
    let outcome = load(&plan);
    assert_eq!((outcome.completed, outcome.demanded), (600, 600));
    assert_eq!(outcome.connections, 6);
    assert_eq!(outcome.generator.threads, 4);

    plan.mode = open(500.0, 400);
    let many = load(&plan);
    plan.threads = 1;
    let one = load(&plan);
    assert_eq!(many.demanded, one.demanded);
    assert_eq!(many.sent, many.demanded);
}

#[test]
fn more_threads_than_connections_stand_idle_and_are_left_out() {
    let address = serve(|_| page("hello"));
    let mut plan = plan(address, closed(2, 10));
    plan.threads = 8;
    assert_eq!(load(&plan).generator.threads, 2);
}

/// Loads a server that always answers so, and gives the outcome.
fn load_of(answer: Answer) -> Outcome {
    let address = serve(move |_| answer.clone());
    load(&plan(address, closed(1, 3)))
}

fn bytes(text: &str) -> Vec<u8> {
    text.as_bytes().to_vec()
}

#[test]
fn each_kind_of_failure_is_counted_as_what_it_is() {
    let errors = |answer| load_of(answer).errors;
    let only = |change: fn(&mut Errors)| {
        let mut errors = Errors::default();
        change(&mut errors);
        errors
    };
    assert_eq!(errors(Answer::Reset), only(|errors| errors.reset = 3));
    assert_eq!(
        errors(Answer::Last(Vec::new())),
        only(|errors| errors.closed = 3)
    );
    let short = bytes("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhell");
    assert_eq!(
        errors(Answer::Last(short)),
        only(|errors| errors.short_body = 3)
    );
    assert_eq!(
        errors(Answer::Last(bytes("HTTP/1.1 20"))),
        only(|errors| errors.short_body = 3)
    );
    assert_eq!(
        errors(Answer::Bytes(bytes("220 smtp\r\n"))),
        only(|errors| errors.invalid = 3)
    );
    let long = bytes("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nhello");
    assert_eq!(
        errors(Answer::Bytes(long)),
        only(|errors| errors.invalid = 3)
    );
}

#[test]
fn a_server_that_answers_nothing_runs_into_the_time_out() {
    let address = serve(|_| Answer::Silence);
    let mut plan = plan(address, closed(2, 4));
    plan.timeout = Duration::from_millis(50);
    let outcome = load(&plan);
    assert_eq!(
        outcome.errors,
        Errors {
            timeout: 4,
            ..Errors::default()
        }
    );
    assert_eq!((outcome.sent, outcome.completed), (4, 0));
    assert!(outcome.latency.min_ms() >= 49.9);
    assert_eq!(outcome.service.count(), 0);
}

/// A port on which no server listens: bound, so that no other process can.
fn deaf_port() -> (socket2::Socket, SocketAddr) {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket
        .bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into())
        .unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    (socket, address)
}

#[test]
fn refused_connections_are_no_quick_answers() {
    let (_socket, address) = deaf_port();
    let outcome = load(&plan(address, closed(1, 3)));
    assert_eq!(
        outcome.errors,
        Errors {
            connect_refused: 3,
            ..Errors::default()
        }
    );
    assert_eq!(
        (outcome.sent, outcome.connections, outcome.demanded),
        (0, 0, 3)
    );
    assert!(
        outcome.latency.min_ms() >= 19_900.0,
        "they count with the time-out"
    );
}

#[test]
fn a_connection_that_is_not_made_runs_into_the_time_out() {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket
        .bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into())
        .unwrap();
    socket.listen(0).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    // A backlog of nought holds one connection; the next one's SYN is dropped.
    let _held = std::net::TcpStream::connect(address).unwrap();
    let mut plan = plan(address, closed(2, 2));
    plan.timeout = Duration::from_millis(100);
    let errors = load(&plan).errors;
    assert_eq!(
        errors,
        Errors {
            connect_timeout: 2,
            ..Errors::default()
        }
    );
}

#[test]
fn a_wrong_status_or_length_is_an_error_and_no_good_response() {
    let address = serve(|request| match request.number {
        0 => page("hello"),
        1 => page("longer"),
        _ => Answer::Bytes(bytes(
            "HTTP/1.1 201 Created\r\nContent-Length: 5\r\n\r\nhello",
        )),
    });
    let mut plan = plan(address, closed(1, 3));
    plan.requests[0].expected = Some(Expected {
        status: 200,
        length: Some(5),
    });
    let outcome = load(&plan);
    assert_eq!(
        (outcome.completed, outcome.good, outcome.errors.unexpected),
        (3, 1, 2)
    );
    assert!(
        outcome.latency.at(90.0) >= 19_900.0,
        "a wrong answer is no quick answer"
    );

    plan.requests[0].expected = Some(Expected {
        status: 200,
        length: None,
    });
    assert_eq!(load(&plan).errors.unexpected, 1);
}

#[test]
fn each_page_is_held_against_what_is_known_of_it() {
    let address = serve(|request| match request.line() {
        "GET /short HTTP/1.1" => page("hello"),
        "GET /long HTTP/1.1" => page("hello again"),
        "GET /lying HTTP/1.1" => page("hi"),
        _ => Answer::Bytes(bytes("HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n")),
    });
    let expecting = |path: &str, length: u64| Request {
        expected: Some(Expected {
            status: 200,
            length: Some(length),
        }),
        ..request("GET", path)
    };
    let mut plan = plan(address, closed(1, 200));
    plan.requests = vec![
        expecting("/short", 5),
        expecting("/long", 11),
        expecting("/lying", 5),
        request("POST", "/order"),
    ];
    let outcome = load(&plan);
    for page in &outcome.requests {
        let good = if page.name == "GET /lying" {
            0
        } else {
            page.completed
        };
        assert!(page.completed > 0 && page.good == good, "{page:?}");
    }
    assert_eq!(outcome.errors.unexpected, outcome.requests[2].completed);
}

#[test]
fn a_server_error_is_complete_but_not_good() {
    let outcome = load_of(Answer::Bytes(bytes(
        "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n",
    )));
    assert_eq!((outcome.completed, outcome.good), (3, 0));
    assert_eq!(outcome.errors.total(), 0);
    assert_eq!(outcome.statuses[&500], 3);
    assert!(
        outcome.latency.at(1.0) >= 19_900.0,
        "a refusal is no quick answer"
    );
    assert!(outcome.service.max_ms() < 19_900.0);
    assert_eq!(outcome.contradiction(), None);
}

#[test]
fn responses_that_end_with_the_connection_are_whole() {
    let outcome = load_of(Answer::Last(bytes("HTTP/1.0 200 OK\r\n\r\nhello")));
    assert_eq!((outcome.good, outcome.connections), (3, 3));
    assert_eq!(outcome.bytes.bodies, 15);
}

#[test]
fn responses_in_pieces_and_large_ones_are_whole() {
    let pieces = [
        "HTTP/1.1 200 OK\r\nTransfer-",
        "Encoding: chunked\r\n\r",
        "\n5\r\nhel",
        "lo\r\n0\r\n\r\n",
    ];
    let outcome = load_of(Answer::Pieces(pieces.map(bytes).to_vec()));
    assert_eq!((outcome.good, outcome.connections), (3, 1));
    let outcome = load_of(page(&"x".repeat(3_000_000)));
    assert_eq!((outcome.good, outcome.bytes.bodies), (3, 9_000_000));
}

#[test]
fn methods_fields_and_bodies_arrive_as_given() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&seen);
    let address = serve(move |request| {
        kept.lock().unwrap().push(request.clone());
        if request.line().starts_with("HEAD") {
            Answer::Bytes(bytes("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"))
        } else {
            page("hello")
        }
    });
    let mut plan = plan(address, closed(1, 1));
    plan.host = "shop.example".to_owned();
    let large = "y".repeat(2_000_000);
    for (method, body) in [
        ("GET", ""),
        ("HEAD", ""),
        ("POST", ""),
        ("PUT", large.as_str()),
    ] {
        plan.requests = vec![Request {
            headers: vec![("X-Test".to_owned(), "1".to_owned())],
            body: bytes(body),
            ..request(method, "/a?b=c")
        }];
        assert_eq!(load(&plan).good, 1, "{method}");
        let request = seen.lock().unwrap().pop().unwrap();
        assert_eq!(request.line(), format!("{method} /a?b=c HTTP/1.1"));
        assert_eq!(request.field("host"), Some("shop.example"));
        assert_eq!(request.field("x-test"), Some("1"));
        assert_eq!(request.field("connection"), None);
        assert_eq!(request.body.len(), body.len());
        assert_eq!(
            request.field("content-length").is_some(),
            method == "POST" || method == "PUT"
        );
    }
}

#[test]
fn a_response_that_comes_before_its_request_has_left_is_taken() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (ended, end) = std::sync::mpsc::channel::<()>();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let refusal = b"HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
        std::io::Write::write_all(&mut stream, refusal).unwrap();
        // Reads nothing and closes nothing until the load is over.
        let _ = end.recv();
    });
    let mut plan = plan(address, closed(1, 1));
    plan.requests[0].method = "POST".to_owned();
    plan.requests[0].body = vec![b'z'; 30_000_000];
    let outcome = load(&plan);
    drop(ended);
    assert_eq!((outcome.statuses[&413], outcome.errors.total()), (1, 0));
    assert!(outcome.bytes.sent < 30_000_000);
}

#[test]
fn kinds_of_requests_are_counted_apart() {
    let address = serve(|request| match request.line() {
        "GET /a HTTP/1.1" => page("a"),
        _ => Answer::Bytes(bytes("HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n")),
    });
    let mut plan = plan(address, closed(2, 1000));
    plan.requests = vec![
        request("GET", "/a"),
        Request {
            weight: 3.0,
            ..request("GET", "/b")
        },
    ];
    let outcome = load(&plan);
    let [a, b] = &outcome.requests[..] else {
        panic!("two kinds");
    };
    assert_eq!((a.name.as_str(), b.name.as_str()), ("GET /a", "GET /b"));
    assert_eq!((a.good, b.good), (outcome.statuses[&200], 0));
    assert_eq!(b.completed, outcome.statuses[&404]);
    assert_eq!(a.latency.count() + b.latency.count(), 1000);
    assert_eq!(
        (a.service.count(), b.service.count()),
        (a.completed, b.completed)
    );
    assert!(
        (180..320).contains(&a.completed),
        "{} of 1000 at a weight of a quarter",
        a.completed
    );
}

#[test]
fn single_requests_are_kept_on_demand() {
    let address = serve(|request| match request.number % 2 {
        0 => page("a"),
        _ => Answer::Bytes(bytes("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n")),
    });
    let mut plan = plan(address, open(500.0, 400));
    plan.threads = 2;
    plan.requests[0].expected = Some(Expected {
        status: 200,
        length: None,
    });
    let (outcome, singles) = run_each(&plan, &mut |_| {}, &AtomicBool::new(false)).unwrap();
    assert_eq!(singles.len() as u64, outcome.demanded);
    let bad = singles.iter().filter(|single| !single.good).count();
    assert_eq!(bad as u64, outcome.errors.unexpected);
    assert!(bad > 0 && bad < singles.len());
    let described = |single: &Single| {
        let status = if single.good { 200 } else { 503 };
        single.status == Some(status) && single.received > 0 && single.request == 0
    };
    assert!(singles.iter().all(described), "{singles:?}");
    let mut due: Vec<Duration> = singles.iter().map(|single| single.due).collect();
    due.sort_unstable();
    due.dedup();
    assert_eq!(due.len(), singles.len());
    assert!(due[due.len() - 1] < Duration::from_millis(400));
    let slowest = singles.iter().map(|single| single.latency).max().unwrap();
    assert!(slowest < plan.timeout && slowest > Duration::ZERO);
}

#[test]
fn each_session_logs_in_once_and_keeps_its_cookies_over_its_connections() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&seen);
    let address = serve(move |request| {
        kept.lock().unwrap().push((
            request.line().to_owned(),
            request.field("cookie").map(str::to_owned),
        ));
        if request.line().starts_with("POST /login") {
            let cookie = format!("s={}", request.connection);
            Answer::Bytes(bytes(&format!(
                "HTTP/1.1 302 Found\r\nSet-Cookie: s=old\r\nSet-Cookie: {cookie}; Path=/\r\nSet-Cookie: t=1\r\nContent-Length: 0\r\n\r\n"
            )))
        } else {
            page("hello")
        }
    });
    let mut plan = plan(address, closed(2, 20));
    plan.login = Some(Request {
        body: bytes("user=a"),
        ..request("POST", "/login")
    });
    for (connections, made) in [
        (ConnectionUse::KeepAlive, 2),
        (ConnectionUse::PerRequest, 20),
    ] {
        plan.connections = connections;
        seen.lock().unwrap().clear();
        let outcome = load(&plan);
        assert_eq!(
            (outcome.completed, outcome.sent, outcome.errors.total()),
            (20, 20, 0)
        );
        assert_eq!(
            outcome.connections, made,
            "a session's login shares its first connection"
        );
        let seen = seen.lock().unwrap();
        let logins = seen
            .iter()
            .filter(|(line, _)| line.starts_with("POST"))
            .count();
        assert_eq!((logins, seen.len()), (2, 22));
        let cookies: BTreeSet<_> = seen
            .iter()
            .filter_map(|(_, cookie)| cookie.clone())
            .collect();
        assert_eq!(cookies.len(), 2, "{cookies:?}");
        assert!(
            cookies
                .iter()
                .all(|cookie| cookie.ends_with("; t=1") && !cookie.contains("old"))
        );
    }
}

#[test]
fn a_login_that_fails_fails_its_request() {
    let address = serve(|_| Answer::Bytes(bytes("HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n")));
    let mut plan = plan(address, closed(1, 2));
    plan.login = Some(request("POST", "/login"));
    let outcome = load(&plan);
    assert_eq!(
        (outcome.errors.unexpected, outcome.sent, outcome.completed),
        (2, 0, 0)
    );
}

#[test]
fn a_connection_carries_as_many_requests_as_the_plan_says() {
    let fields = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&fields);
    let address = serve(move |request| {
        kept.lock().unwrap().push((
            request.number,
            request.field("connection").map(str::to_owned),
        ));
        page("hello")
    });
    let mut plan = plan(address, closed(1, 12));
    for (connections, made, most, field) in [
        (ConnectionUse::KeepAlive, 1, 11, None),
        (ConnectionUse::Calls(5), 3, 4, None),
        (ConnectionUse::PerRequest, 12, 0, Some("close".to_owned())),
    ] {
        fields.lock().unwrap().clear();
        plan.connections = connections;
        let outcome = load(&plan);
        assert_eq!(
            (outcome.good, outcome.connections),
            (12, made),
            "{connections:?}"
        );
        assert_eq!(outcome.connect.count(), made);
        let fields = fields.lock().unwrap();
        assert_eq!(fields.iter().map(|(number, _)| *number).max(), Some(most));
        assert!(fields.iter().all(|(_, connection)| *connection == field));
    }
}

#[test]
fn a_server_may_end_connections_as_it_likes() {
    let address = serve(|request| {
        let close = if request.number == 2 {
            "Connection: close\r\n"
        } else {
            ""
        };
        let text = format!("HTTP/1.1 200 OK\r\n{close}Content-Length: 0\r\n\r\n");
        if request.number == 2 {
            Answer::Last(bytes(&text))
        } else {
            Answer::Bytes(bytes(&text))
        }
    });
    let outcome = load(&plan(address, closed(1, 9)));
    assert_eq!(
        (outcome.good, outcome.connections, outcome.errors.total()),
        (9, 3, 0)
    );
    // In an open loop the connection may end while it is idle: that is no failed request.
    let address = serve(|_| Answer::Last(bytes("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")));
    let mut plan = plan(address, open(50.0, 300));
    plan.mode = Mode::Open {
        rate: 50.0,
        arrivals: Arrivals::Constant,
        duration: Duration::from_millis(300),
        max_connections: 100,
    };
    let outcome = load(&plan);
    assert_eq!(
        outcome.good + outcome.late + outcome.errors.closed + outcome.errors.reset,
        15
    );
}

#[test]
fn unix_sockets_and_ipv6_are_targets_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("server.sock");
    serve_unix(&path, |_| page("hello"));
    let mut plan = plan(SocketAddr::from(([127, 0, 0, 1], 1)), closed(3, 60));
    plan.target = Target::Unix(path);
    for connections in [ConnectionUse::KeepAlive, ConnectionUse::PerRequest] {
        plan.connections = connections;
        let outcome = load(&plan);
        assert_eq!((outcome.good, outcome.errors.total()), (60, 0));
    }
    plan.target = Target::Unix(folder.path().join("no-server.sock"));
    plan.mode = closed(1, 2);
    assert_eq!(load(&plan).errors.connect_refused, 2);

    // Machines without IPv6 have nothing to test here.
    if let Ok(listener) = TcpListener::bind("[::1]:0") {
        let address = listener.local_addr().unwrap();
        serve_on(listener, |_| page("hello"));
        plan.target = Target::Tcp(address);
        plan.mode = closed(2, 20);
        assert_eq!(load(&plan).good, 20);
    }
}

#[test]
fn a_full_backlog_of_a_unix_socket_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("server.sock");
    let socket = socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None).unwrap();
    socket
        .bind(&socket2::SockAddr::unix(&path).unwrap())
        .unwrap();
    socket.listen(1).unwrap();
    let mut plan = plan(SocketAddr::from(([127, 0, 0, 1], 1)), closed(8, 8));
    plan.target = Target::Unix(path);
    plan.timeout = Duration::from_millis(300);
    let errors = load(&plan).errors;
    // Two fit into the backlog, and get no answer either.
    assert_eq!((errors.timeout, errors.connect_timeout), (2, 6));
}

/// A server that holds one request back for so long.
fn stalling(stalled: Duration) -> SocketAddr {
    let calls = AtomicUsize::new(0);
    serve(move |_| {
        if calls.fetch_add(1, Ordering::Relaxed) == 20 {
            std::thread::sleep(stalled);
        }
        page("hello")
    })
}

#[test]
fn a_stall_shows_in_the_latency_of_all_whose_time_came_meanwhile() {
    let mut plan = plan(stalling(Duration::from_millis(1000)), closed(1, 1));
    plan.mode = Mode::Open {
        rate: 100.0,
        arrivals: Arrivals::Constant,
        duration: Duration::from_millis(3000),
        max_connections: 1,
    };
    let outcome = load(&plan);
    assert_eq!((outcome.demanded, outcome.sent), (300, 300));
    // One request met the stall; a third of all waited for it, on average for half of it.
    assert!(outcome.service.at(90.0) < outcome.latency.at(90.0) / 2.0);
    assert!(
        outcome.latency.at(99.0) > 900.0,
        "{}",
        outcome.latency.at(99.0)
    );
    assert!(outcome.latency.at(80.0) > 300.0);
    assert!(outcome.service.max_ms() > 999.0);
    let waited = &outcome.generator.pool_wait;
    assert!(
        waited.count() >= 90,
        "{} waited for the one connection",
        waited.count()
    );
    assert!(waited.max_ms() > 900.0);
    assert_eq!(outcome.peak_in_flight, 1);
    assert!(outcome.seconds.iter().all(|second| second.demanded == 100));
}

#[test]
fn connections_are_opened_as_requests_need_them() {
    let calls = AtomicUsize::new(0);
    let gate = Arc::new(Barrier::new(10));
    // Ten requests must be in flight at once for any of them to be answered.
    let address = serve(move |_| {
        if calls.fetch_add(1, Ordering::Relaxed) < 10 {
            gate.wait();
        }
        page("hello")
    });
    let outcome = load(&plan(address, open(200.0, 500)));
    assert_eq!(outcome.good + outcome.late, outcome.demanded);
    assert!(outcome.peak_in_flight >= 10);
    assert!(outcome.connections >= 10);
    assert_eq!(outcome.connect.count(), outcome.connections);
    assert_eq!(outcome.generator.pool_wait.count(), 0);
}

#[test]
fn what_is_not_answered_by_the_end_counts_at_its_age() {
    let address = serve(|request| {
        if request.number == 0 {
            page("hello")
        } else {
            Answer::Silence
        }
    });
    let mut plan = plan(address, closed(1, 1));
    plan.mode = Mode::Closed {
        connections: 2,
        end: End::After(Duration::from_millis(400)),
    };
    let outcome = load(&plan);
    assert_eq!((outcome.completed, outcome.errors.unanswered), (2, 2));
    assert_eq!(outcome.elapsed_s, 0.4);
    assert_eq!(outcome.latency.count(), 4);
    // Nothing is sent after the end, and what is in flight is waited for as long again.
    assert!(outcome.latency.max_ms() >= 400.0 && outcome.latency.max_ms() < 10_000.0);

    plan.mode = Mode::Open {
        rate: 100.0,
        arrivals: Arrivals::Constant,
        duration: Duration::from_millis(200),
        max_connections: 2,
    };
    let outcome = load(&plan);
    assert_eq!(
        (outcome.demanded, outcome.good + outcome.late, outcome.sent),
        (20, 2, 4)
    );
    assert_eq!(outcome.errors.unanswered, 18, "also those that never left");
    assert_eq!(outcome.latency.count(), 20);
}

#[test]
fn answers_after_the_end_are_late_and_in_no_rate() {
    let (asked, ask) = std::sync::mpsc::channel();
    let ask = Mutex::new(ask);
    let address = serve(move |request| {
        if request.number == 1 {
            ask.lock().unwrap().recv().unwrap();
        }
        page("hello")
    });
    let mut plan = plan(address, closed(1, 1));
    plan.mode = Mode::Closed {
        connections: 1,
        end: End::After(Duration::from_millis(1500)),
    };
    let mut done = false;
    let mut tell = |progress: &Progress| {
        if !done && progress.elapsed > Duration::from_millis(1600) {
            done = asked.send(()).is_ok();
        }
    };
    let outcome = run(&plan, &mut tell, &AtomicBool::new(false)).unwrap();
    assert_eq!((outcome.completed, outcome.late, outcome.sent), (1, 1, 2));
    assert_eq!(outcome.errors.total(), 0);
    assert_eq!(outcome.latency.count(), 2);
    assert!(outcome.latency.max_ms() > 100.0);
}

#[test]
fn the_median_of_each_second_is_reported_as_it_ends() {
    let address = serve(|_| page("hello"));
    let plan = plan(address, open(50.0, 2500));
    let mut reported = Vec::new();
    let mut report = |progress: &Progress| reported.push((progress.seconds, progress.p50_ms));
    let outcome = run(&plan, &mut report, &AtomicBool::new(false)).unwrap();
    // A late report may miss a second, but never has another second's value.
    for (seconds, p50_ms) in reported {
        let expect = seconds.checked_sub(1).map(|last| outcome.seconds[last]);
        assert_eq!(p50_ms, expect.map_or(0.0, |second| second.p50_ms));
    }
}

#[test]
fn a_load_that_is_stopped_gives_what_there_is() {
    let address = serve(|_| page("hello"));
    let mut plan = plan(address, closed(1, 1));
    for mode in [
        Mode::Closed {
            connections: 2,
            end: End::After(Duration::from_secs(3600)),
        },
        Mode::Closed {
            connections: 2,
            end: End::Requests(u64::MAX),
        },
        open(200.0, 3_600_000),
    ] {
        plan.mode = mode;
        let stop = AtomicBool::new(false);
        let mut seen = Vec::new();
        let outcome = run(
            &plan,
            &mut |progress| {
                seen.push(*progress);
                stop.store(progress.good >= 20, Ordering::Relaxed);
            },
            &stop,
        )
        .unwrap();
        assert!(outcome.good >= 20);
        assert!(outcome.elapsed_s < 3000.0);
        assert!(outcome.demanded < 10_000_000 && outcome.demanded >= outcome.good);
        assert_eq!(outcome.errors.total(), 0, "what was in flight is no error");
        let last = seen.last().unwrap();
        assert!(last.rate > 0.0 && last.p99_ms > 0.0 && last.completed <= outcome.completed);
        assert!(seen.is_sorted_by(|one, next| one.elapsed < next.elapsed && one.good <= next.good));
    }
}

#[test]
fn the_seconds_add_up_to_the_whole() {
    let address = serve(|_| page("hello"));
    let mut plan = plan(address, open(300.0, 2300));
    plan.threads = 2;
    let outcome = load(&plan);
    assert_eq!(outcome.seconds.len(), 3);
    let sum = |of: fn(&crate::outcome::Second) -> u64| outcome.seconds.iter().map(of).sum::<u64>();
    assert_eq!(sum(|second| second.demanded), outcome.demanded);
    assert_eq!(sum(|second| second.completed), outcome.completed);
    assert_eq!(sum(|second| second.good), outcome.good);
    assert!(
        outcome
            .seconds
            .iter()
            .all(|second| second.p99_ms >= second.p50_ms)
    );
}

#[test]
fn ports_and_descriptors_that_run_out_void_the_load() {
    let plan = plan(SocketAddr::from(([127, 0, 0, 1], 1)), closed(1, 1));
    let limit = |change: fn(&mut Errors)| {
        let mut outcome = Outcome::default();
        change(&mut outcome.errors);
        watch::limit(&plan, &outcome, &[Usage::default()])
    };
    assert!(
        limit(|errors| errors.no_address = 1)
            .unwrap()
            .contains("no local port")
    );
    assert!(
        limit(|errors| errors.no_descriptor = 1)
            .unwrap()
            .contains("ulimit -n")
    );
    assert_eq!(limit(|errors| errors.closed = 1), None);
}

#[test]
fn a_busy_or_late_generator_says_so() {
    let mut plan = plan(SocketAddr::from(([127, 0, 0, 1], 1)), closed(1, 1));
    let busy = [
        Usage {
            cores: 0.5,
            waited: 0.0,
        },
        Usage {
            cores: 0.7,
            waited: 0.25,
        },
    ];
    let limit = watch::limit(&plan, &Outcome::default(), &busy).unwrap();
    assert!(limit.contains("70 %") && limit.contains("25 %"), "{limit}");
    assert_eq!(watch::limit(&plan, &Outcome::default(), &busy[..1]), None);

    plan.mode = open(100.0, 1000);
    let mut outcome = Outcome::default();
    outcome.latency.record(Duration::from_millis(40));
    outcome.generator.lag.record(Duration::from_millis(3));
    assert_eq!(
        watch::limit(&plan, &outcome, &busy),
        None,
        "a lag that hardly counts"
    );
    outcome.generator.lag.record(Duration::from_millis(9));
    assert!(
        watch::limit(&plan, &outcome, &busy)
            .unwrap()
            .contains("left late")
    );
    let exhausted = Usage {
        cores: 0.93,
        waited: 0.0,
    };
    let limit = watch::limit(&plan, &Outcome::default(), &[exhausted]).unwrap();
    assert!(
        limit.contains("93 %"),
        "on time, but late with answers: {limit}"
    );
}

#[test]
fn throughput_times_latency_is_what_was_in_flight_in_either_loop() {
    let address = serve(|_| page("hello"));
    let timed = Mode::Closed {
        connections: 3,
        end: End::After(Duration::from_millis(300)),
    };
    for mode in [closed(4, 500), timed, open(400.0, 500)] {
        let outcome = load(&plan(address, mode));
        assert!(outcome.in_flight_s > 0.0 && outcome.latency.count() > 0);
        assert_eq!(outcome.contradiction(), None, "{mode:?}");
    }
}

#[test]
fn what_is_in_flight_ends_with_the_load() {
    let address = serve(|_| Answer::Silence);
    let timed = Mode::Closed {
        connections: 3,
        end: End::After(Duration::from_millis(200)),
    };
    let outcome = load(&plan(address, timed));
    assert_eq!(outcome.errors.unanswered, 3);
    assert!(outcome.in_flight_s <= 0.6, "{} s", outcome.in_flight_s);
    assert!(outcome.in_flight_s > 0.0);
}

#[test]
fn a_plan_that_cannot_be_carried_out_is_refused_before_anything_is_sent() {
    let good = plan(SocketAddr::from(([127, 0, 0, 1], 1)), closed(1, 1));
    let refused = |change: &dyn Fn(&mut Plan)| {
        let mut plan = good.clone();
        change(&mut plan);
        plan.check().unwrap_err().to_string()
    };
    good.check().unwrap();
    assert!(refused(&|plan| plan.requests.clear()).contains("at least one request"));
    assert!(refused(&|plan| plan.requests[0].path = "no slash".to_owned()).contains("no slash"));
    assert!(refused(&|plan| plan.requests[0].weight = 0.0).contains("weight"));
    assert!(refused(&|plan| plan.requests[0].method = "GE T".to_owned()).contains("method"));
    let split = ("X".to_owned(), "a\r\nEvil: b".to_owned());
    assert!(refused(&|plan| plan.requests[0].headers.push(split.clone())).contains("Evil"));
    assert!(refused(&|plan| plan.mode = open(0.0, 10)).contains("rate"));
    assert!(refused(&|plan| plan.mode = open(10.0, 0)).contains("longer than nothing"));
    assert!(refused(&|plan| plan.mode = closed(0, 1)).contains("connection"));
    assert!(refused(&|plan| plan.threads = 0).contains("thread"));
    assert!(refused(&|plan| plan.connections = ConnectionUse::Calls(0)).contains("request"));
    let error = run(
        &Plan {
            cores: vec![99_999],
            ..good.clone()
        },
        &mut |_| {},
        &AtomicBool::new(false),
    );
    assert!(error.unwrap_err().to_string().contains("core 99999"));
}

#[test]
fn the_null_server_answers_every_kind_of_load() {
    let mut plan = plan(SocketAddr::from(([127, 0, 0, 1], 1)), open(100.0, 100));
    let expected = Some(Expected {
        status: 200,
        length: Some(70_000),
    });
    plan.requests = vec![
        Request {
            expected,
            ..request("GET", "/")
        },
        Request {
            expected,
            ..request("HEAD", "/")
        },
        Request {
            body: vec![b'z'; 300_000],
            ..request("POST", "/form")
        },
    ];
    for connections in [ConnectionUse::KeepAlive, ConnectionUse::PerRequest] {
        plan.connections = connections;
        let headroom = crate::headroom(&plan, &[], Duration::from_millis(100)).unwrap();
        assert!(headroom.rate > 0.0 && headroom.ceiling >= headroom.rate && headroom.cores > 0.0);
    }
}

#[test]
fn what_a_load_holds_does_not_grow_with_its_length() {
    let address = serve(|_| page("hello"));
    let size = |requests| {
        let outcome = load(&plan(address, closed(2, requests)));
        // Every list of the outcome; histograms have a fixed size.
        outcome.seconds.len() + outcome.statuses.len() + outcome.requests.len()
    };
    let (short, long) = (size(10), size(2_000));
    assert!(long <= short + 60, "one entry for each second at most");
}
