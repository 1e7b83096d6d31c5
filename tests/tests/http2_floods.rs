//! Rows 27 and 29 to 32 of the list of faults, over HTTP/2: clients that send far more than they take, or heads without end.
//! Each connection ends with GOAWAY, the front's memory stays as it is while they send, and others notice nothing.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use highball_tests::authority::Authority;
use highball_tests::http2::{ENHANCE_YOUR_CALM, Http2, RawHttp2, frame, head, kind, run};
use highball_tests::tls::{configuration, with_http_2};
use rustls::version::TLS13;
use test_support::{Application, Server, ServerBuilder, until};

/// How much more memory the front may use at any moment of a flood than ever before, in bytes.
const MEMORY_MARGIN: u64 = 16 << 20;
/// Frames of a flood: far beyond every limit.
const FLOOD: usize = 200_000;
/// Connections of a flood at the least, one after the other.
const ATTACKS: usize = 3;
/// Requests of a good client that are answered while a flood goes on.
const GOOD_ANSWERS: usize = 20;

const SOURCE: &str = r##"run lambda { |env|
  File.open("calls", "a") { |file| file.syswrite("x") } if env["PATH_INFO"] == "/counted"
  Test.text("hello")
}"##;

fn builder() -> ServerBuilder {
    let application = Application::new(SOURCE);
    Server::application_of(application)
        .workers(2)
        .setting("access_log", "false")
}

fn server() -> Server {
    builder().start()
}

/// Runs a flood, one connection after the other while a good client asks, and checks that each ends with GOAWAY with one of
/// these codes. Returns the number of connections.
fn flood(server: &Server, name: &str, codes: &[u32], attack: impl Fn() -> Option<u32>) -> usize {
    let address = server.address();
    let peak = || server.process().high_water().expect("its memory");
    let before = peak();
    let (over, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
    let ended = std::thread::scope(|scope| {
        let good = scope.spawn(|| {
            let client = Http2::connect(address);
            while !over.load(Ordering::Relaxed) {
                let answer = run(client.get("/")).expect("good traffic");
                assert_eq!((answer.status, &*answer.text()), (200, "hello"));
                answered.fetch_add(1, Ordering::Relaxed);
            }
        });
        let mut ended = Vec::new();
        let goes_on =
            |attacks| attacks < ATTACKS || answered.load(Ordering::Relaxed) < GOOD_ANSWERS;
        while goes_on(ended.len()) && !good.is_finished() {
            ended.push(attack());
        }
        over.store(true, Ordering::Relaxed);
        good.join().expect("good traffic");
        ended
    });
    let expected = |code: &Option<u32>| code.is_some_and(|code| codes.contains(&code));
    assert!(ended.iter().all(expected), "{name}: {ended:?}");
    until("the connections are gone", || {
        server.status().number("/connections") == 0
    });
    let after = peak();
    assert!(
        after < before + MEMORY_MARGIN,
        "{name}: {before} to {after}"
    );
    ended.len()
}

/// Sends these until the server has closed, then reads what it has sent before that, up to the code of its GOAWAY.
fn send_all(client: &mut RawHttp2, pieces: impl Iterator<Item = Vec<u8>>) -> Option<u32> {
    for piece in pieces {
        if !client.write(&piece) {
            break;
        }
    }
    client.goaway()
}

/// Numbers of streams.
fn streams() -> impl Iterator<Item = u32> {
    (0..FLOOD as u32).map(|number| 2 * number + 1)
}

/// What a client did before the head that never ends.
enum Before {
    Nothing,
    /// A request was answered: an idle connection would be kept for longer.
    Answered,
    /// A request runs on.
    Running,
}

#[test]
fn row_27_a_head_that_never_ends_ends_its_connection_at_header_timeout() {
    let source = r##"run lambda { |env|
      Test.pass("work") if env["PATH_INFO"] == "/work"
      Test.text("hello")
    }"##;
    let application = Application::new(source);
    let (gate, mut events) = (application.gate("work"), application.events());
    let server = Server::application_of(application)
        .threads(4)
        .setting("header_timeout", "1s")
        .start();
    let mut begin = |before: &Before| {
        let mut client = RawHttp2::connect(server.address(), &[]);
        match before {
            Before::Nothing => {}
            Before::Answered => {
                assert!(client.get(1, "/", true));
                client.next_of(&[kind::DATA]).expect("an answer");
            }
            Before::Running => {
                assert!(client.get(1, "/work", true));
                assert_eq!(events.wait(), "at work");
            }
        }
        assert!(client.send(kind::HEADERS, 1, 3, &head("GET", "/")));
        client
    };
    let befores = [Before::Nothing, Before::Answered, Before::Running];
    let [mut silent, mut dripping] = [(), ()].map(|()| befores.each_ref().map(&mut begin));
    // One long frame: a few short ones are too many already.
    let long = frame(kind::CONTINUATION, 0, 3, &[0; 16_384]);
    let (header, payload) = long.split_at(9);
    let mut open: Vec<_> = dripping.iter_mut().collect();
    open.retain_mut(|client| client.write(header));
    let good = Http2::connect(server.address());
    // A byte for every two good requests, so that there are enough of them for longer than the limit.
    for byte in payload.chunks(1) {
        open.retain_mut(|client| client.write(byte));
        if open.is_empty() {
            break;
        }
        for _ in 0..2 {
            assert_eq!(run(good.get("/")).expect("good traffic").text(), "hello");
        }
    }
    assert!(open.is_empty(), "the server takes bytes of a head for ever");
    for client in silent.iter_mut().chain(&mut dripping) {
        assert_eq!(client.goaway(), Some(0), "NO_ERROR");
    }
    // The requests that ran have ended with their connections.
    let cut = |line: &str| line.contains("/work") && line.contains("outcome=client_timeout");
    server.log().wait(cut);
    gate.open();
}

#[test]
fn row_29_rapid_resets_end_the_connection_and_the_application_sees_few() {
    let server = server();
    let attacks = flood(&server, "rapid reset", &[ENHANCE_YOUR_CALM], || {
        let mut client = RawHttp2::connect(server.address(), &[]);
        let pieces = streams().map(|stream| {
            let mut bytes = frame(kind::HEADERS, 5, stream, &head("GET", "/counted"));
            bytes.extend(frame(kind::RST_STREAM, 0, stream, &[0, 0, 0, 8]));
            bytes
        });
        send_all(&mut client, pieces)
    });
    let calls = server.application().read("calls").len();
    assert!(calls <= attacks * 100, "{calls}");
}

#[test]
fn row_29_resets_that_the_server_is_provoked_to_end_the_connection() {
    let server = server();
    // A window that grows too far, one that grows by nothing, and a stream that goes on after its end. The last two are
    // errors of the connection at once (PROTOCOL_ERROR).
    let provocations: [fn(u32) -> Vec<u8>; 3] = [
        |stream| frame(kind::WINDOW_UPDATE, 0, stream, &[0x7f, 0xff, 0xff, 0xff]),
        |stream| frame(kind::WINDOW_UPDATE, 0, stream, &[0; 4]),
        |stream| frame(kind::DATA, 0, stream, b"after its end"),
    ];
    let mut attacks = 0;
    for provocation in provocations {
        attacks += flood(&server, "made you reset", &[ENHANCE_YOUR_CALM, 1], || {
            let mut client = RawHttp2::connect(server.address(), &[]);
            let pieces = streams().map(|stream| {
                let mut bytes = frame(kind::HEADERS, 5, stream, &head("GET", "/counted"));
                bytes.extend(provocation(stream));
                bytes
            });
            send_all(&mut client, pieces)
        });
    }
    let calls = server.application().read("calls").len();
    assert!(calls <= attacks * 200, "{calls}");
}

#[test]
fn row_30_a_flood_of_continuations_ends_the_connection() {
    let server = server();
    for piece in [0, 1, 1000] {
        flood(&server, "continuations", &[ENHANCE_YOUR_CALM, 1], || {
            let mut client = RawHttp2::connect(server.address(), &[]);
            client.send(kind::HEADERS, 1, 1, &head("GET", "/"));
            let field: Vec<u8> = [0, 1, b'a', 1, b'b'].repeat(piece / 5 + 1);
            let next = frame(kind::CONTINUATION, 0, 1, &field[..piece]);
            send_all(&mut client, std::iter::repeat_n(next, FLOOD))
        });
    }
}

#[test]
fn row_30_a_small_block_that_unpacks_to_much_is_refused() {
    let server = server();
    let mut client = RawHttp2::connect(server.address(), &[]);
    // One field of 3,000 bytes goes into the table, and is then named 4,000 times by one byte each.
    let mut block = head("GET", "/counted");
    block.extend([
        0x40,
        1,
        b'a',
        0x7f,
        0x80 | (2873 & 0x7f) as u8,
        (2873 >> 7) as u8,
    ]);
    block.extend([b'x'; 3000]);
    block.extend([0xbe; 4000]);
    assert!(client.send(kind::HEADERS, 5, 1, &block));
    let answer = client.next_of(&[kind::HEADERS, kind::RST_STREAM, kind::GOAWAY]);
    let answer = answer.expect("an answer");
    // 431 as a literal or from the table: the status is no 200, and the application was not called.
    assert_ne!(answer.payload.first(), Some(&0x88), "{answer:?}");
    assert_eq!(server.get("/").text(), "hello");
    assert_eq!(server.application().read("calls"), "");
}

#[test]
fn row_31_floods_of_small_frames_end_the_connection() {
    let server = server();
    for (name, flooding) in [
        ("settings", frame(kind::SETTINGS, 0, 0, &[])),
        ("pings", frame(kind::PING, 0, 0, &[0; 8])),
        (
            "window updates",
            frame(kind::WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1]),
        ),
        ("unknown frames", frame(0x42, 0, 0, b"x")),
        ("empty data", frame(kind::DATA, 0, 1, &[])),
        ("small data", frame(kind::DATA, 0, 1, b"x")),
    ] {
        // A window may grow beyond its limit first: FLOW_CONTROL_ERROR.
        flood(&server, name, &[ENHANCE_YOUR_CALM, 3], || {
            let mut client = RawHttp2::connect(server.address(), &[]);
            client.get(1, "/", false);
            send_all(&mut client, std::iter::repeat_n(flooding.clone(), FLOOD))
        });
    }
}

#[test]
fn row_31_a_flood_over_tls_ends_the_connection() {
    let (builder, authority) = (builder(), Authority::new());
    let signed = authority.sign(&["localhost"]);
    signed.write(builder.application(), "localhost");
    let server = builder
        .listen(["127.0.0.1:0", "tls://127.0.0.1:0"])
        .setting("tls_certificate_files", "localhost.pem:localhost.key")
        .start();
    let trusting = with_http_2(&configuration(&authority, &[&TLS13], None));
    flood(&server, "pings over TLS", &[ENHANCE_YOUR_CALM], || {
        let mut client = RawHttp2::tls(server.tls_address(), "localhost", &trusting);
        let ping = frame(kind::PING, 0, 0, &[0; 8]);
        send_all(&mut client, std::iter::repeat_n(ping, FLOOD))
    });
}

#[test]
fn row_31_a_client_that_reads_nothing_is_cut_off() {
    let application = Application::new(r##"run lambda { |env| Test.text("x" * 1_000_000) }"##);
    let server = Server::application_of(application)
        .setting("send_timeout", "1s")
        .start();
    // The largest windows, and nobody reads.
    let largest = 0x7fff_ffff;
    let mut client = RawHttp2::connect(server.address(), &[(4, largest)]);
    let more = (largest - 65_535).to_be_bytes();
    assert!(client.send(kind::WINDOW_UPDATE, 0, 0, &more));
    for stream in (1..200).step_by(2) {
        assert!(client.get(stream, "/", true));
    }
    server
        .log()
        .wait(|line| line.contains("outcome=client_timeout"));
    until("it is closed", || {
        server.status().number("/connections") == 0
    });
}

#[test]
fn row_32_malformed_heads_reset_their_stream_or_end_the_connection() {
    let server = server();
    let mut client = RawHttp2::connect(server.address(), &[]);
    let good = || head("GET", "/counted");
    let with = |name, value| {
        let mut block = good();
        block.extend(highball_tests::http2::field(name, value));
        block
    };
    let blocks = [
        with("connection", "close"),
        with("transfer-encoding", "chunked"),
        with("te", "gzip"),
        with("content-length", "5"),
        with(":path", "/again"),
    ];
    for (block, stream) in blocks.iter().zip((1..).step_by(2)) {
        assert!(client.send(kind::HEADERS, 5, stream, block));
        let reset = client.next_of(&[kind::RST_STREAM, kind::HEADERS]);
        let reset = reset.expect("a reset");
        assert_eq!((reset.kind, reset.stream), (kind::RST_STREAM, stream));
        assert_eq!(reset.payload, [0, 0, 0, 1], "PROTOCOL_ERROR");
    }
    assert!(client.get(101, "/", true));
    assert!(client.next_of(&[kind::DATA]).is_some());
    // What could be no field at all ends the connection (RFC 9113 section 5.4.1 allows both).
    for block in [
        with("X-Upper", "1"),
        with("x-crlf", "a\r\nb: c"),
        with("x y", "1"),
        with(":unknown", "1"),
    ] {
        let mut client = RawHttp2::connect(server.address(), &[]);
        assert!(client.send(kind::HEADERS, 5, 1, &block));
        assert_eq!(client.goaway(), Some(1), "PROTOCOL_ERROR");
    }
    assert_eq!(server.application().read("calls"), "");
}
