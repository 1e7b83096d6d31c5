//! Rows 27 and 28 of the list of faults: clients that are slow in every way hold no Ruby thread and disturb nobody.
//! The pauses here are the load itself; nothing is decided by how long a pause happened to be.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use test_support::{Application, Client, Fault, Probe, Program, Server, expect_to_wait_for_client};

/// One thread for everyone: any client that held it would be noticed at once.
const HELLO: &str = r##"run lambda { |env| Test.text("hello") }"##;

/// Sends a byte every 50 ms until the server answers or ends the connection.
fn drip(client: &mut Client, byte: &str) -> Result<u16, Fault> {
    loop {
        let _ = client.try_send(byte);
        match client.try_head() {
            Ok(head) => return Ok(head.status),
            Err(Fault::TimedOut { .. }) => {}
            Err(fault) => return Err(fault),
        }
    }
}

#[test]
fn row_27_a_slow_header_gets_408_however_steadily_it_drips() {
    let mut probe = Probe::with(|builder| builder.setting("header_timeout", "700ms"));
    // Nothing more comes.
    let mut client = probe.server.connect();
    client.send("GET / HTTP/1.1\r\nHo");
    client.response().expect(408);
    client.expect_end();
    // Something always comes.
    let mut client = probe.server.connect().patience(Duration::from_millis(50));
    client.send("GET / HTTP/1.1\r\nX-Drip: ");
    assert_eq!(drip(&mut client, "x").expect("an answer"), 408);
    // On a connection that had a request before.
    let mut client = probe.server.connect();
    client.get("/before").expect(200);
    assert_eq!(probe.events.wait(), "GET /before");
    client.send("GET / HTT");
    client.response().expect(408);
    client.expect_end();
    probe.assert_untouched("slow headers");
}

#[test]
fn row_27_a_connection_on_which_nothing_ever_comes_is_closed() {
    let server = Server::app(HELLO)
        .setting("header_timeout", "500ms")
        .setting("keep_alive_timeout", "500ms")
        .start();
    let mut client = server.connect();
    match client.try_response("GET") {
        Ok(response) => drop(response.expect(408)),
        Err(Fault::Ended { so_far, .. }) => assert!(so_far.is_empty()),
        Err(fault) => panic!("{fault}"),
    }
}

#[test]
fn row_27_a_body_that_stops_gets_408_and_one_that_progresses_is_taken() {
    let mut probe = Probe::with(|builder| builder.setting("body_timeout", "2s"));
    for request in [
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel",
    ] {
        let mut client = probe.server.connect();
        client.send(request);
        client.response().expect(408);
        client.expect_end();
    }
    probe.assert_untouched("slow bodies");
    // Twice as long as the time-out in all, but never that long without progress.
    let mut client = probe.server.connect().patience(Duration::from_millis(400));
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n");
    for _ in 0..9 {
        client.send("x");
        let pause = client.try_head();
        assert!(matches!(pause, Err(Fault::TimedOut { .. })), "{pause:?}");
    }
    let mut client = client.patience(test_support::TEST_TIMEOUT);
    client.send("x");
    assert_eq!(client.response().json()["body"], "xxxxxxxxxx");
}

#[test]
fn row_27_a_slow_reader_holds_no_thread_and_loses_nothing() {
    const BYTES: usize = 40 << 20;
    let application = Application::without_lint(
        r##"PIECE = Array.new(1 << 20) { |i| i % 247 }.pack("C*").freeze
        run lambda { |env|
          next Test.text("hello") if env["PATH_INFO"] == "/other"
          [200, {}, Test::Body.new { |to| 40.times { to.call(PIECE) } }]
        }"##,
    );
    let mut events = application.events();
    let server = Server::application_of(application).start();
    let mut client = server.connect();
    client.send("GET /big HTTP/1.1\r\nHost: a\r\n\r\n");
    // The application has finished and its thread is free while the client has read nothing yet.
    assert_eq!(events.wait(), "body closed");
    assert_eq!(server.get("/other").text(), "hello");
    let memory = server.process().pss().expect("it runs");
    assert!(
        memory < (BYTES as u64),
        "the front holds {memory} bytes for a slow client"
    );
    let response = client.response();
    assert_eq!(response.body.len(), BYTES);
    assert!((0..BYTES).all(|i| response.body[i] == ((i % (1 << 20)) % 247) as u8));
}

#[test]
fn row_27_a_reader_that_stops_is_cut_off() {
    let application = Application::without_lint(
        r##"PIECE = ("x" * (1 << 20)).freeze
        run lambda { |env| [200, {}, Test::Body.new { |to| 40.times { to.call(PIECE) } }] }"##,
    );
    let mut events = application.events();
    let server = Server::application_of(application)
        .setting("send_timeout", "700ms")
        .start();
    let mut client = server.connect();
    client.send("GET /big HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(events.wait(), "body closed");
    // Logged once the connection was given up, before anything was read.
    let line = server.log().wait(|line| line.contains("path=\"/big\""));
    assert!(!line.contains("outcome=ok"), "{line}");
    assert!(client.try_response("GET").is_err());
}

#[test]
fn row_27_the_application_waits_for_the_client_at_the_response_limit() {
    expect_to_wait_for_client(|builder| {
        let builder = builder.setting("response_buffer_bytes", "64KiB");
        builder.setting("response_spool_max_bytes", "1MiB")
    });
}

#[test]
fn an_application_that_wants_no_buffering_waits_for_the_client() {
    expect_to_wait_for_client(|builder| builder.env("ACCEL_BUFFERING", "no"));
}

#[test]
fn a_body_that_drips_below_the_least_rate_gets_408() {
    // Any byte is progress for `body_timeout`.
    let server = Server::app(HELLO).setting("body_timeout", "1h").start();
    let mut client = server.connect().patience(Duration::from_millis(500));
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n");
    assert_eq!(drip(&mut client, "x").expect("an answer"), 408);
}

#[test]
fn a_reader_below_the_least_rate_is_cut_off() {
    let application = Application::without_lint(
        r##"PIECE = ("x" * (1 << 20)).freeze
        run lambda { |env| [200, {}, Test::Body.new { |to| 40.times { to.call(PIECE) } }] }"##,
    );
    let server = Server::application_of(application)
        .setting("send_timeout", "1h")
        .start();
    let mut client = server.connect();
    client.ask("GET", "/big");
    client.head();
    // It reads a byte now and then, and waits for the line of its end meanwhile.
    let log = server.log();
    let ended = || {
        log.lines()
            .iter()
            .any(|line| line.contains("path=\"/big\""))
    };
    test_support::until("it is cut off", || {
        client.bytes(1);
        std::thread::sleep(Duration::from_millis(300));
        ended()
    });
    let line = log.wait(|line| line.contains("path=\"/big\""));
    assert!(line.contains("outcome=client_timeout"), "{line}");
}

#[test]
fn an_application_that_is_slow_is_no_slow_client() {
    let application = Application::without_lint(
        r##"run lambda { |env| [200, {}, Test::Body.new { |to| 13.times { to.call("x"); sleep 1 } }] }"##,
    );
    let server = Server::application_of(application).start();
    assert_eq!(server.get("/").body, b"xxxxxxxxxxxxx");
}

#[test]
fn row_27_many_slow_clients_of_every_kind_leave_good_ones_alone() {
    let server = Server::app(
        r##"run lambda { |env| Test.text("x" * (env["PATH_INFO"] == "/big" ? 4_000_000 : 5)) }"##,
    )
    .start();
    let mut slow = Vec::new();
    for _ in 0..60 {
        for start in [
            "GET / HTTP/1.1\r\nHo",
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello",
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel",
            "GET /big HTTP/1.1\r\nHost: a\r\n\r\n",
            "",
        ] {
            let mut client = server.connect();
            client.send(start);
            slow.push(client);
        }
    }
    for _ in 0..20 {
        assert_eq!(server.get("/").text(), "xxxxx");
    }
    // Those that only read slowly get everything in the end.
    for client in slow.iter_mut().skip(3).step_by(5) {
        assert_eq!(client.response().body.len(), 4_000_000);
    }
}

#[test]
fn row_28_a_newcomer_is_served_at_once_beside_more_idle_connections_than_threads() {
    const IDLE: usize = 1000;
    // Far longer than a test waits: a newcomer who had to wait for one of them would not be answered.
    let server = Server::app(HELLO)
        .setting("keep_alive_timeout", "1h")
        .start();
    let mut idle: Vec<Client> = (0..IDLE).map(|_| server.connect()).collect();
    for client in &mut idle {
        client.get("/").expect(200);
    }
    for _ in 0..15 {
        server.get("/").expect(200);
    }
    // None of them had to go, and all are still good.
    for client in &mut idle {
        assert!(client.is_idle());
        client.get("/").expect(200);
    }
}

#[test]
fn idle_connections_are_closed_after_the_keep_alive_timeout() {
    let server = Server::app(HELLO)
        .setting("keep_alive_timeout", "300ms")
        .start();
    let mut client = server.connect();
    client.get("/").expect(200);
    client.expect_end();
    let server = Server::app(HELLO)
        .setting("keep_alive_timeout", "0")
        .start();
    let mut client = server.connect();
    assert_eq!(client.get("/").field("connection"), Some("close"));
    client.expect_end();
}

/// Runs slowhttptest in one mode against the server while good requests go on, and asserts that these are unaffected.
#[track_caller]
fn slowhttptest(path: &str, arguments: &[&str]) {
    // One attack at a time: four at once are a test of the machine.
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let server = Server::app(
        r##"BIG = ("x" * 1_000_000).freeze
        run lambda { |env| Test.text(env["PATH_INFO"] == "/big" ? BIG : "hello") }"##,
    )
    .workers(2)
    .setting("header_timeout", "3s")
    .setting("body_timeout", "3s")
    .setting("send_timeout", "3s")
    .start();
    let (address, over) = (server.address(), AtomicBool::new(false));
    let (output, answered) = std::thread::scope(|scope| {
        let good = scope.spawn(|| {
            let mut answered = 0;
            let mut kept = Client::connect(address);
            while !over.load(Ordering::Relaxed) {
                // Newcomers and kept connections in turn.
                if answered % 2 == 0 {
                    Client::connect(address).get("/").expect(200);
                } else {
                    kept.get("/").expect(200);
                }
                answered += 1;
            }
            answered
        });
        let mut program = Program::new("slowhttptest");
        for argument in ["-c", "300", "-r", "300", "-l", "6", "-p", "5"]
            .iter()
            .chain(arguments)
        {
            program = program.arg(argument);
        }
        let ran = program
            .arg("-u")
            .arg(format!("http://{address}{path}"))
            .current_dir(server.dir())
            .run();
        over.store(true, Ordering::Relaxed);
        (ran.output(), good.join())
    });
    // The attack lasts six seconds: good requests that had to wait for its end would be two.
    let answered = answered.expect("every good request is answered with 200");
    assert!(answered > 50, "{answered} good requests: {output}");
    assert!(output.contains("service available:"), "{output}");
    assert!(!output.contains("\x1b[1;31mNO"), "{output}");
}

#[test]
fn row_27_slowhttptest_slow_headers() {
    slowhttptest("/", &["-H", "-i", "1", "-x", "24"]);
}

#[test]
fn row_27_slowhttptest_slow_bodies() {
    slowhttptest("/", &["-B", "-i", "1", "-s", "8192", "-x", "10"]);
}

#[test]
fn row_27_slowhttptest_ranges() {
    slowhttptest("/", &["-R", "-a", "10", "-b", "3000"]);
}

#[test]
fn row_27_slowhttptest_slow_readers() {
    slowhttptest(
        "/big",
        &[
            "-X", "-w", "512", "-y", "1024", "-n", "1", "-z", "32", "-k", "3",
        ],
    );
}
