//! From a worker's frames to what the client reads: whole, in pieces, larger than every buffer, cut, without a
//! body; and early hints.

#[path = "support/front.rs"]
mod support;

use std::io::Write;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use exchange::response::Kind;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use support::{Server, Taken};
use test_support::{Ending, Fault, TEST_TIMEOUT};

#[test]
fn a_response_in_one_go_has_a_length_and_the_connection_goes_on() {
    let server = Server::start(|_| {});
    let mut thread = server.thread();
    let mut client = server.connect();
    for path in ["/a", "/b"] {
        client.send(format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n"));
        thread.take().answer_path();
        let response = client.response();
        assert_eq!(response.field("content-length"), Some("2"));
        assert_eq!(response.text(), path);
        let line = server.logged(path);
        assert!(line.contains("status=200 bytes=2 queue_ms="), "{line}");
        assert!(
            !line.contains("queue_ms=-") && !line.contains("app_ms=-"),
            "{line}"
        );
    }
}

#[test]
fn a_streamed_response_goes_out_as_it_comes_and_a_pause_costs_nothing() {
    let server = Server::start(|_| {});
    let mut thread = server.thread();
    let mut client = server.ask("/stream");
    let mut taken = thread.take();
    taken.head(200, &[]).flush();
    assert_eq!(client.head().status, 200);
    let region = server.region();
    for piece in ["one", "two", "three"] {
        // A front that asked itself again and again would never sleep.
        let deadline = Instant::now() + TEST_TIMEOUT;
        while region
            .coordination()
            .completions
            .front_sleeps
            .load(Ordering::SeqCst)
            != 1
        {
            assert!(Instant::now() < deadline, "the front never sleeps");
            std::thread::yield_now();
        }
        taken.chunk(piece.as_bytes()).flush();
        assert_eq!(client.chunk().as_deref(), Some(piece.as_bytes()));
    }
    taken.end();
    assert_eq!(client.chunk(), None);
    server.expect_outcome("/stream", "ok");
}

/// Writes a body of `count` blocks of 32 KiB, each filled with its number.
fn write_blocks(mut taken: Taken<'_>, count: usize) {
    taken.head(200, &[]);
    for number in 0..count {
        taken.chunk(&[number as u8; 32 * 1024]);
    }
    taken.end();
}

fn blocks(count: usize) -> Vec<u8> {
    (0..count)
        .flat_map(|number| [number as u8; 32 * 1024])
        .collect()
}

#[test]
fn a_slow_reader_never_holds_a_worker() {
    // Beyond the ring (256 KiB) and the sockets' buffers; then beyond memory, on disk.
    for (count, memory) in [(20, 64 << 20), (1000, 64 << 10)] {
        let server = Server::start(|settings| settings.response_buffer_bytes = memory);
        let mut thread = server.thread();
        let mut client = server.ask("/large");
        // It returns although the client has read no byte.
        write_blocks(thread.take(), count);
        server.until_quiet();
        let response = client.response();
        assert!(
            response.body == blocks(count),
            "{} bytes",
            response.body.len()
        );
        server.expect_outcome("/large", "ok");
    }
}

#[test]
fn an_application_waits_where_the_file_has_reached_its_bound() {
    let server = Server::start(|settings| {
        settings.response_buffer_bytes = 4096;
        settings.response_spool_max_bytes = 1 << 20;
    });
    let player = server.worker(0);
    let mut client = server.ask("/bounded");
    let mut thread = player.thread(0);
    let taken = thread.take();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| write_blocks(taken, 2000));
        // The head is there, so the front has begun; the worker cannot be done before the client reads.
        let head = client.head();
        assert_eq!(head.status, 200);
        assert!(!writer.is_finished());
        let mut body = Vec::new();
        while let Some(chunk) = client.chunk() {
            body.extend_from_slice(&chunk);
        }
        assert!(body == blocks(2000), "{} bytes", body.len());
    });
    server.expect_outcome("/bounded", "ok");
    server.until_quiet();
}

#[test]
fn a_response_that_waited_for_its_client_gives_its_slot_back_with_its_last_byte() {
    let server = Server::start(|settings| {
        settings.response_buffer_bytes = 4096;
        settings.response_spool_max_bytes = 4096;
    });
    let mut client = server.ask("/large");
    let mut thread = server.thread();
    let mut taken = thread.take();
    let length = blocks(2).len().to_string();
    taken.head(200, &[("content-length", &length)]);
    for number in 0..2 {
        taken.chunk(&[number; 32 * 1024]);
    }
    taken.end();
    assert_eq!(client.response().expect(200).body, blocks(2));
    server.until_quiet();
}

#[test]
fn a_client_that_takes_nothing_is_cut_off_and_its_worker_freed() {
    let server = Server::start(|settings| {
        settings.response_buffer_bytes = 4096;
        settings.response_spool_max_bytes = 4096;
        settings.send_timeout = Duration::from_millis(100);
    });
    let mut thread = server.thread();
    let mut client = server.ask("/stuck");
    let mut taken = thread.take();
    taken.head(200, &[]);
    while taken.frame(Kind::Chunk, &[0; 32 * 1024]).is_ok() {}
    taken.finish();
    server.expect_outcome("/stuck", "client_timeout");
    server.until_quiet();
    server.until(|now| now.connections == 0);
    // What was in the buffers, and then no orderly end.
    assert_eq!(client.rest().1, Ending::Reset);
}

#[test]
fn a_client_that_leaves_a_stream_frees_its_worker() {
    let server = Server::start(|_| {});
    let mut thread = server.thread();
    let mut client = server.ask("/pauses");
    let mut taken = thread.take();
    taken.head(200, &[]).flush();
    client.head();
    // In a pause: nothing is written that could fail.
    client.reset();
    taken.until_abandoned();
    taken.finish();
    server.expect_outcome("/pauses", "client_closed");
    server.until_quiet();
}

#[test]
fn a_body_of_another_length_than_declared_never_becomes_another_response() {
    let server = Server::start(|_| {});
    let mut thread = server.thread();
    for (path, length, pieces) in [
        ("/short", "9", &["hello"][..]),
        ("/long", "3", &["hello"]),
        ("/surplus", "5", &["hello", "more"]),
    ] {
        // All of it known before the head goes out.
        let mut client = server.ask(path);
        let mut taken = thread.take();
        taken.head(200, &[("content-length", length)]);
        pieces.iter().for_each(|piece| {
            taken.chunk(piece.as_bytes());
        });
        taken.end();
        client.response().expect(500);
        server.expect_outcome(path, "app_error");
        // And streamed.
        let streamed = format!("{path}/streamed");
        let mut client = server.ask(&streamed);
        let mut taken = thread.take();
        taken.head(200, &[("content-length", length)]).flush();
        client.head();
        for piece in pieces {
            if taken.frame(Kind::Chunk, piece.as_bytes()).is_ok() {
                taken.flush();
            }
        }
        let _ = taken.frame(Kind::End, b"");
        taken.finish();
        let (rest, _) = client.rest_or_next();
        assert!(
            "hello".starts_with(&String::from_utf8_lossy(&rest)[..]),
            "{rest:?}"
        );
        let expected = if path == "/surplus" { "ok" } else { "aborted" };
        server.expect_outcome(&streamed, expected);
        server.until_quiet();
    }
}

/// Reads what follows a head until the connection ends, or pauses because it was kept.
trait RestOrNext {
    fn rest_or_next(&mut self) -> (Vec<u8>, bool);
}

impl RestOrNext for test_support::Client {
    fn rest_or_next(&mut self) -> (Vec<u8>, bool) {
        // The next request of a connection that was kept is refused, which ends it after what was sent.
        let _ = self.try_send("\0\r\n\r\n");
        let (rest, _) = self.rest();
        let end = rest.windows(5).position(|part| part == b"HTTP/");
        (rest[..end.unwrap_or(rest.len())].to_vec(), end.is_some())
    }
}

#[test]
fn a_response_to_head_or_without_content_has_no_body() {
    let server = Server::start(|_| {});
    let mut thread = server.thread();
    let mut client = server.connect();
    for (method, status, length) in [
        ("HEAD", 200, Some("5")),
        ("HEAD", 200, None),
        ("GET", 204, None),
        ("GET", 304, None),
        ("POST", 204, None),
    ] {
        client.send(format!(
            "{method} / HTTP/1.1\r\nHost: test\r\nContent-Length: 0\r\n\r\n"
        ));
        let mut taken = thread.take();
        let fields: Vec<_> = length
            .map(|length| ("content-length", length))
            .into_iter()
            .collect();
        taken.head(status, &fields).chunk(b"hello");
        taken.end();
        let response = client.response_to(method);
        assert_eq!(response.status(), status);
        // In the response to HEAD the front may give the length of what it drops.
        let may_tell = method == "HEAD" && response.field("content-length") == Some("5");
        assert!(
            may_tell || response.field("content-length") == length,
            "{method} {status}"
        );
        assert_eq!(
            response
                .field("transfer-encoding")
                .filter(|_| status == 204),
            None
        );
    }
    server.until_quiet();
    client.send("GET /last HTTP/1.1\r\nHost: test\r\n\r\n");
    thread.take().answer_path();
    assert_eq!(client.response().text(), "/last");
    let ok = server.until(|now| now.requests["ok"] == 6);
    assert_eq!(ok.requests.values().sum::<u64>(), 6);
}

#[test]
fn a_body_without_end_that_nobody_wants_is_ended() {
    let server = Server::start(|_| {});
    let mut thread = server.thread();
    let mut client = server.connect();
    client.send("HEAD / HTTP/1.1\r\nHost: test\r\n\r\n");
    let mut taken = thread.take();
    taken.head(200, &[]).flush();
    client.response_to("HEAD").expect(200);
    while taken.frame(Kind::Chunk, b"and on").is_ok() {
        taken.flush();
    }
    taken.finish();
    server.until_quiet();
}

#[test]
fn what_the_application_coded_as_chunked_is_coded_once() {
    let server = Server::start(|_| {});
    let mut thread = server.thread();
    let mut client = server.connect();
    for flushed in [true, false] {
        client.send("GET / HTTP/1.1\r\nHost: test\r\n\r\n");
        let mut taken = thread.take();
        taken.head(
            200,
            &[("transfer-encoding", "chunked"), ("content-length", "99")],
        );
        taken.chunk(b"5\r\nhel");
        if flushed {
            taken.flush();
        }
        taken.chunk(b"lo\r\n0\r\n\r\n");
        taken.end();
        assert_eq!(client.response().text(), "hello");
    }
}

#[test]
fn a_cut_response_is_visibly_cut() {
    let server = Server::start(|_| {});
    let mut thread = server.thread();
    for (version, ending) in [("1.1", Ending::Closed), ("1.0", Ending::Reset)] {
        for kind in [Kind::Abort, Kind::Error] {
            let path = format!("/{version}/{kind:?}");
            let mut client = server.connect();
            client.send(format!("GET {path} HTTP/{version}\r\nHost: test\r\n\r\n"));
            let mut taken = thread.take();
            taken.head(200, &[]).chunk(b"begun").flush();
            assert_eq!(client.head().status, 200);
            if version == "1.1" {
                assert_eq!(client.chunk().as_deref(), Some(&b"begun"[..]));
            } else {
                assert_eq!(client.bytes(5), b"begun");
            }
            taken
                .frame(kind, b"Late: error\nline")
                .expect("there is room");
            taken.finish();
            assert_eq!(client.rest(), (Vec::new(), ending));
            server.expect_outcome(&path, "aborted");
        }
    }
    server.wait_for_lines(|lines| lines.iter().any(|line| line.contains("class=\"Late\"")));
    server.until_quiet();
}

#[test]
fn an_application_that_fails_before_its_head_is_a_500_and_logged() {
    let server = Server::start(|_| {});
    let mut thread = server.thread();
    let mut client = server.ask("/fails");
    let mut taken = thread.take();
    taken
        .frame(Kind::Error, b"RuntimeError: oh\na.rb:1\nb.rb:2")
        .expect("there is room");
    taken.finish();
    client.response().expect(500);
    server.expect_outcome("/fails", "app_error");
    let lines = server.wait_for_lines(|lines| lines.iter().any(|line| line.contains("b.rb:2")));
    assert!(
        lines.iter().any(|line| line.contains("message=\"oh\"")),
        "{lines:#?}"
    );
}

#[test]
fn a_head_that_cannot_be_sent_is_a_500() {
    let server = Server::start(|_| {});
    let mut thread = server.thread();
    let mut client = server.connect();
    for (status, fields) in [
        (200, &[("bad name", "x")][..]),
        (200, &[("", "x")]),
        (200, &[("x", "a\r\nb: c")]),
        (200, &[("content-length", "x")]),
        (200, &[("content-length", "-1")]),
        (200, &[("content-length", "1"), ("content-length", "2")]),
        (99, &[]),
        (101, &[]),
        (600, &[]),
    ] {
        client.send("GET / HTTP/1.1\r\nHost: test\r\n\r\n");
        let mut taken = thread.take();
        taken.head(status, fields);
        taken.end();
        client.response().expect(500);
    }
    let snapshot = server.until(|now| now.requests["app_error"] == 9);
    assert_eq!(snapshot.requests.values().sum::<u64>(), 9);
}

#[test]
fn of_what_the_application_says_of_the_connection_only_its_close_is_kept() {
    let server = Server::start(|_| {});
    let mut thread = server.thread();
    let mut client = server.ask("/");
    let mut taken = thread.take();
    taken.head(
        200,
        &[
            ("connection", "upgrade"),
            ("keep-alive", "timeout=1"),
            ("upgrade", "h2c"),
        ],
    );
    taken.end();
    let response = client.response();
    for name in ["connection", "keep-alive", "upgrade"] {
        assert_eq!(response.field(name), None, "{name}");
    }
    client.send("GET / HTTP/1.1\r\nHost: test\r\n\r\n");
    let mut taken = thread.take();
    taken.head(200, &[("connection", "x, Close")]);
    taken.end();
    assert_eq!(client.response().field("connection"), Some("close"));
    client.expect_end();
}

#[test]
fn a_file_is_sent_and_one_that_cannot_be_is_a_500() {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(&blocks(20)).expect("space on the disk");
    let path = file.path().to_str().expect("a plain name").to_owned();
    let server = Server::start(|_| {});
    let mut thread = server.thread();
    let mut client = server.connect();
    for (method, path, length, status, bytes) in [
        ("GET", &*path, None, 200, 20 * 32 * 1024),
        ("GET", &*path, Some("100"), 200, 100),
        ("HEAD", &*path, Some("100"), 200, 0),
        ("GET", &*path, Some("999999999"), 500, 26),
        ("GET", "/nonexistent", None, 500, 26),
        ("GET", "/", None, 500, 26),
    ] {
        client.send(format!("{method} /file HTTP/1.1\r\nHost: test\r\n\r\n"));
        let mut taken = thread.take();
        let fields: Vec<_> = length
            .map(|length| ("content-length", length))
            .into_iter()
            .collect();
        taken.head(200, &fields);
        taken
            .frame(Kind::File, path.as_bytes())
            .expect("there is room");
        taken.end();
        let response = client.response_to(method);
        response.expect(status);
        assert_eq!(response.body.len(), bytes, "{path} {length:?}");
    }
    server.until_quiet();
}

#[test]
fn a_path_that_is_no_regular_file_is_a_500_at_once_and_named_in_the_log() {
    let dir = tempfile::tempdir().expect("a folder");
    let at = |name: &str| dir.path().join(name).to_str().expect("plain").to_owned();
    // Opening one waits for a writer, unless a flag forbids it.
    let mode = Mode::RUSR | Mode::WUSR;
    mknodat(CWD, at("fifo"), FileType::Fifo, mode, 0).expect("a FIFO");
    let _socket = UnixListener::bind(at("socket")).expect("a socket");
    symlink("/dev/zero", at("link")).expect("a link");
    let server = Server::start(|_| {});
    let mut thread = server.thread();
    let mut client = server.connect();
    for name in ["fifo", "socket", "link", "", "missing"] {
        client.send("GET /file HTTP/1.1\r\nHost: test\r\n\r\n");
        let mut taken = thread.take();
        taken.head(200, &[]);
        let path = at(name);
        taken
            .frame(Kind::File, path.as_bytes())
            .expect("there is room");
        taken.end();
        client.response().expect(500);
        let text = format!("cannot send the file {path}: ");
        server.wait_for_lines(|lines| lines.iter().any(|line| line.contains(&text)));
    }
}

#[test]
fn early_hints_go_out_at_once_and_only_where_they_are_known() {
    let server = Server::start(|_| {});
    let mut thread = server.thread();
    let mut client = server.ask("/hints");
    let mut taken = thread.take();
    taken
        .head(
            103,
            &[("link", "</a.css>; rel=preload"), ("link", "</b.js>")],
        )
        .flush();
    let hints = client.head();
    assert_eq!(hints.status, 103);
    assert_eq!(hints.values("link"), ["</a.css>; rel=preload", "</b.js>"]);
    // Malformed ones are no reason to fail.
    taken.head(103, &[("x", "a\r\nb: c")]).flush();
    taken.answer_path();
    assert_eq!(client.response().text(), "/hints");
    let mut old = server.connect();
    old.send("GET /old HTTP/1.0\r\n\r\n");
    let mut taken = thread.take();
    taken.head(103, &[("link", "</a.css>")]).flush();
    taken.answer_path();
    match old.try_response("GET") {
        Ok(response) => assert_eq!((response.status(), response.interim.len()), (200, 0)),
        Err(fault @ Fault::Truncated { .. }) => panic!("{fault}"),
        Err(fault) => panic!("{fault}"),
    }
}
