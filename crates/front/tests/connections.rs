//! A connection from accept to close, and what of a request reaches the application.

#[path = "support/front.rs"]
mod support;

use std::rc::Rc;
use std::time::Duration;

use config::Listen;
use exchange::request::Text;
use highball_front::{FileAccess, Listener};
use support::Server;
use test_support::Client;

#[test]
fn the_env_has_the_fields_as_rack_wants_them() {
    let server = Server::start(|settings| settings.request_id = false);
    let mut thread = server.thread();
    let mut client = server.connect();
    client.send(
        "POST http://target.example:8080/a%20b?c=d HTTP/1.1\r\nHost: other\r\nAccept: a\r\nCookie: a=1\r\n\
         X-Many: 1\r\naccept: b\r\nX_Under: x\r\ncookie: b=2\r\nX-Many: 2\r\nProxy: p\r\n\
         Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    );
    let taken = thread.take();
    let texts = [
        Text::Method,
        Text::Path,
        Text::Query,
        Text::ServerName,
        Text::Protocol,
        Text::Scheme,
    ]
    .map(|text| taken.text(text));
    assert_eq!(
        texts,
        [
            "POST",
            "/a%20b",
            "c=d",
            "target.example",
            "HTTP/1.1",
            "http"
        ]
    );
    assert_eq!(taken.port(), 8080);
    assert_eq!(taken.text(Text::RemoteAddress), "127.0.0.1");
    let fields: Vec<_> = taken.fields().into_iter().collect();
    let fields: Vec<_> = fields
        .iter()
        .map(|(name, value)| (&**name, &**value))
        .collect();
    assert_eq!(
        fields,
        [
            ("CONTENT_LENGTH", "5"),
            ("HTTP_ACCEPT", "a, b"),
            ("HTTP_COOKIE", "a=1; b=2"),
            ("HTTP_HOST", "target.example:8080"),
            ("HTTP_X_MANY", "1, 2"),
        ]
    );
    assert_eq!(taken.body(), b"hello");
    taken.answer_path();
    client.response().expect(200);
}

#[test]
fn a_malformed_message_is_answered_logged_once_and_ends_the_connection() {
    let server = Server::start(|settings| settings.max_body_bytes = 4);
    for (message, status) in [
        ("GET / HTTP/1.1\r\n\r\n", 400),
        (
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n",
            413,
        ),
        (
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0x1\r\n",
            400,
        ),
        (
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
            413,
        ),
    ] {
        let mut client = server.connect();
        client.send(message);
        client.response().expect(status);
        client.expect_end();
    }
    assert_eq!(server.end(), 4);
}

#[test]
fn a_client_that_is_too_slow_is_told() {
    let server = Server::start(|settings| {
        settings.header_timeout = Duration::from_millis(50);
        settings.body_timeout = Duration::from_millis(50);
    });
    for part in [
        "GET / HTT",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhe",
    ] {
        let mut client = server.connect();
        client.send(part);
        client.response().expect(408);
        client.expect_end();
    }
    // One that sends nothing is no request.
    server.connect().expect_end();
    assert_eq!(server.end(), 2);
}

#[test]
fn a_client_that_ends_within_its_body_never_reaches_a_worker() {
    let server = Server::start(|_| {});
    let cut = "POST /cut HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhe";
    let mut client = server.connect();
    client.send(cut).half_close().response().expect(400);
    client.expect_end();
    let mut client = server.connect();
    client.send(cut.replace("Content", "Expect: 100-continue\r\nContent"));
    // Now the head has been read.
    assert_eq!(client.head().status, 100);
    client.reset();
    server.until(|now| now.requests["client_closed"] == 2 && now.connections == 0);
    assert!(server.thread().try_take().is_none());
    assert_eq!(server.end(), 2);
}

#[test]
fn a_client_that_expects_100_gets_it_once_its_request_is_taken() {
    let server = Server::start(|settings| settings.queue_limit = 1);
    let mut thread = server.thread();
    let mut client = server.connect();
    let head =
        "POST /continue HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n";
    client.send(head);
    assert_eq!(client.head().status, 100);
    client.send("hello");
    let taken = thread.take();
    assert_eq!(taken.body(), b"hello");
    assert!(!taken.fields().contains_key("HTTP_EXPECT"));
    // Refused unread, without a 100.
    let _waits = server.ask("/waits");
    server.until(|now| now.queue.length == 1);
    let mut refused = server.connect();
    refused.send(head.replace("continue HTTP", "refused HTTP"));
    assert_eq!(refused.head().status, 503);
    taken.answer_path();
    client.response().expect(200);
}

#[test]
fn pipelined_requests_are_answered_one_after_the_other() {
    let server = Server::start(|_| {});
    let mut thread = server.thread();
    let mut client = server.connect();
    client.send(
        "GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\nbad message\r\n\r\n",
    );
    thread.take().answer_path();
    thread.take().answer_path();
    assert_eq!(client.response().text(), "/1");
    assert_eq!(client.response().text(), "/2");
    client.response().expect(400);
    client.expect_end();
    assert_eq!(server.end(), 3);
}

#[test]
fn a_connection_that_rests_wakes_up_for_a_request() {
    let server = Server::start(|_| {});
    let mut thread = server.thread();
    let mut client = server.connect();
    for round in 0..2 {
        client.send("GET /awake HTTP/1.1\r\nHost: a\r\n\r\n");
        thread.take().answer_path();
        assert_eq!(client.response().text(), "/awake", "round {round}");
        server.until(|now| now.resting == 1);
    }
    // Half a head wakes it, and its rest may come later.
    client.send("GET /half HT");
    server.until(|now| now.resting == 0);
    client.send("TP/1.1\r\nHost: a\r\n\r\n");
    thread.take().answer_path();
    assert_eq!(client.response().text(), "/half");
    server.until(|now| now.resting == 1);
    // It notices that its client leaves.
    drop(client);
    server.until(|now| now.connections == 0);
}

#[test]
fn an_idle_connection_is_closed_in_its_time() {
    let server = Server::start(|settings| settings.keep_alive_timeout = Duration::from_millis(50));
    let mut thread = server.thread();
    let mut client = server.served(&mut thread, "/");
    client.expect_end();
    let server = Server::start(|settings| settings.keep_alive_timeout = Duration::ZERO);
    let mut client = server.ask("/");
    server.thread().take().answer_path();
    assert_eq!(client.response().field("connection"), Some("close"));
    client.expect_end();
}

#[test]
fn a_drain_ends_what_is_idle_at_once_and_what_runs_with_its_response() {
    let server =
        Server::start(|settings| (settings.workers, settings.threads) = (1.into(), 2.into()));
    let player = server.worker(0);
    let (mut thread, mut other) = (player.thread(0), player.thread(1));
    let fresh = server.connect();
    let idle = server.served(&mut thread, "/idle");
    let resting = server.served(&mut thread, "/resting");
    server.until(|now| now.resting >= 1);
    let mut running = server.ask("/running");
    let taken = thread.take();
    let mut streaming = server.ask("/streaming");
    let mut stream = other.take();
    stream.head(200, &[]).chunk(b"begun").flush();
    streaming.head();
    streaming.chunk();
    // Begun, but not yet a request.
    let mut sending = server.connect();
    sending.send("GET /sending HTTP/1.1\r\n");
    server.until(|now| now.connections == 6);
    let drained = server.drain();
    for mut client in [fresh, idle, resting] {
        client.expect_end();
    }
    server.until(|now| now.connections == 3);
    assert!(Client::try_connect(server.address).is_err());
    taken.answer_path();
    let response = running.response();
    assert_eq!(
        (response.text().as_str(), response.field("connection")),
        ("/running", Some("close"))
    );
    running.expect_end();
    stream.end();
    assert_eq!(streaming.chunk(), None);
    streaming.expect_end();
    sending.send("Host: a\r\n\r\n");
    thread.take().answer_path();
    assert_eq!(sending.response().field("connection"), Some("close"));
    sending.expect_end();
    assert!(drained.recv().expect("the drain ends"));
}

#[test]
fn a_request_that_has_come_before_a_drain_is_answered_before_the_front_knows_of_it() {
    let server = Server::start(|_| {});
    let mut thread = server.thread();
    let path = std::env::temp_dir().join(format!("front-drain-{}", std::process::id()));
    // What is sent over a UNIX socket is there when the call returns.
    let listen = Listen::Unix(path.clone());
    server.with(move |front| {
        front
            .acceptors()
            .accept(Listener::bind(&listen, 8, FileAccess::PRIVATE).unwrap())
            .unwrap()
    });
    let fresh = Client::connect_unix(&path);
    let mut kept = Client::connect_unix(&path);
    kept.ask("GET", "/kept");
    thread.take().answer_path();
    kept.response().expect(200);
    let mut silent = Client::connect_unix(&path);
    server.until(|now| now.connections == 3);
    // Both come while the front stands still here.
    let (drained, mut clients) = server.with(move |front| {
        let mut clients = [fresh, kept];
        for client in &mut clients {
            client.ask("GET", "/last");
        }
        (support::begin_drain(front), clients)
    });
    thread.take().answer_path();
    thread.take().answer_path();
    for client in &mut clients {
        let response = client.response();
        assert_eq!(response.text(), "/last");
        assert_eq!(response.field("connection"), Some("close"));
        client.expect_end();
    }
    silent.expect_end();
    assert!(drained.recv().expect("the drain ends"));
}

#[test]
fn other_settings_are_for_what_begins_after_them() {
    let server = Server::start(|settings| settings.max_connections = 1);
    let mut thread = server.thread();
    let mut first = server.served(&mut thread, "/first");
    // Waits in the backlog until there is room for it.
    let mut second = server.ask("/too-long");
    server.with(|front| {
        let mut settings = (*front.settings()).clone();
        settings.max_connections = 3;
        settings.max_target_bytes = 16;
        let settings = Rc::new(settings);
        drop(front.apply(Rc::clone(&settings), &[settings]));
    });
    thread.take().answer_path();
    second.response().expect(200);
    let mut third = server.ask("/longer-than-sixteen");
    third.response().expect(414);
    // The first connection began under other limits.
    first.send("GET /longer-than-sixteen HTTP/1.1\r\nHost: test\r\n\r\n");
    thread.take().answer_path();
    first.response().expect(200);
}

#[test]
fn the_end_answers_what_runs() {
    let server = Server::start(|_| {});
    let mut thread = server.thread();
    let mut running = server.ask("/running");
    let taken = thread.take();
    let mut waiting = server.ask("/waiting");
    server.until(|now| now.queue.length == 1);
    server.end_now();
    // It may have had an effect.
    let response = running.response();
    assert_eq!(response.expect(502).field("retry-after"), None);
    let response = waiting.response();
    assert_eq!(response.expect(503).field("retry-after"), Some("1"));
    for client in [&mut running, &mut waiting] {
        client.expect_end();
    }
    server.expect_outcome("/running", "stopped");
    server.expect_outcome("/waiting", "shed");
    let in_time = |line: &String| line.contains("cut before their deadline");
    let lines = server.wait_for_lines(|lines| lines.iter().any(in_time));
    let line = lines.iter().find(|line| in_time(line));
    assert!(
        line.is_some_and(|line| line.ends_with("requests=1")),
        "{lines:#?}"
    );
    taken.finish();
    assert_eq!(server.end(), 2);
}

#[test]
fn the_end_delivers_what_a_worker_has_answered() {
    let server = Server::start(|_| {});
    let mut thread = server.thread();
    let mut client = server.ask("/answered");
    let taken = thread.take();
    // The front stands still, so the answer is there and not yet taken.
    let (stands, begin) = std::sync::mpsc::channel();
    let (answered, go_on) = std::sync::mpsc::channel();
    let ended = std::thread::scope(|scope| {
        let end = scope.spawn(|| {
            server.with(move |front| {
                stands.send(()).expect("the test waits");
                go_on.recv().expect("the test goes on");
                let front = Rc::clone(front);
                tokio::task::spawn_local(async move { front.end().await });
            });
        });
        begin.recv().expect("the front stands still");
        taken.answer_path();
        answered.send(()).expect("the front waits");
        end.join()
    });
    assert!(ended.is_ok());
    assert_eq!(client.response().expect(200).text(), "/answered");
    server.expect_outcome("/answered", "ok");
}

#[test]
fn a_client_that_was_refused_and_stays_is_let_go_of() {
    let server = Server::start(|_| {});
    let mut client = server.connect();
    client.send("no request at all\r\n\r\n");
    client.response().expect(400);
    // It neither closes nor sends: the front has a clock of its own for that.
    server.until(|now| now.connections == 0);
    client.expect_end();
}

#[test]
fn accepting_pauses_at_the_most_connections_and_goes_on() {
    let server = Server::start(|settings| settings.max_connections = 2);
    let mut thread = server.thread();
    let mut first = server.ask("/first");
    let job = thread.take();
    let mut second = server.ask("/second");
    server.until(|now| now.connections == 2 && now.queue.length + now.slots.free < 2);
    let mut third = server.ask("/third");
    job.answer_path();
    first.response().expect(200);
    // Idle now, and the third one waits.
    first.expect_end();
    thread.take().answer_path();
    assert_eq!(second.response().text(), "/second");
    thread.take().answer_path();
    assert_eq!(third.response().text(), "/third");
}

#[test]
fn at_the_most_connections_the_longest_idle_one_goes() {
    let server = Server::start(|settings| {
        settings.max_connections = 3;
        settings.keep_alive_timeout = Duration::from_secs(3600);
        settings.header_timeout = Duration::from_secs(3600);
    });
    let mut thread = server.thread();
    let mut silent = server.connect();
    let mut longest = server.served(&mut thread, "/longest");
    server.until(|now| now.resting == 2);
    let mut later = server.served(&mut thread, "/later");
    server.until(|now| now.resting == 3);
    let mut newcomer = server.ask("/newcomer");
    longest.expect_end();
    thread.take().answer_path();
    newcomer.response().expect(200);
    server.until(|now| now.resting == 3);
    let mut another = server.ask("/another");
    later.expect_end();
    thread.take().answer_path();
    another.response().expect(200);
    // One that has never sent anything goes only when no other is idle.
    newcomer.send("GET /busy HTTP/1.1\r\nHost: test\r\n\r\n");
    let job = thread.take();
    another.send("GET /busy HTTP/1.1\r\nHost: test\r\n\r\n");
    server.until(|now| now.resting == 1);
    let mut last = server.ask("/last");
    silent.expect_end();
    job.answer_path();
    thread.take().answer_path();
    thread.take().answer_path();
    last.response().expect(200);
}
