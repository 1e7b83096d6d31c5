//! Rows 12 and 16 to 19 of the list of faults: bodies of requests, both ends of every limit, and clients that leave within.

use std::time::Duration;

use test_support::{Application, Client, Fault, Probe, Server, until};

/// Reads the body in pieces of 1 MiB and checks each: its number in 8 bytes, then a pattern.
const CHECK_BLOCKS: &str = r##"
expected = Array.new(1 << 20) { |i| (i * 31 + 7) % 251 }.pack("C*")
run lambda { |env|
  buffer = String.new
  count = 0
  # One buffer for all: what is measured is the server, not how late Ruby collects.
  while env["rack.input"]&.read(1 << 20, buffer)
    buffer.force_encoding(Encoding::BINARY)
    8.times { |i| expected.setbyte(i, count >> (8 * i) & 255) }
    break unless buffer == expected
    count += 1
  end
  Test.text("#{count} blocks, #{env["CONTENT_LENGTH"]} declared")
}"##;

const BLOCK: usize = 1 << 20;

fn block(number: u64) -> Vec<u8> {
    let mut block: Vec<u8> = (0..BLOCK).map(|i| ((i * 31 + 7) % 251) as u8).collect();
    block[..8].copy_from_slice(&number.to_le_bytes());
    block
}

#[test]
fn a_body_of_1_gib_is_taken_with_flat_memory() {
    const BLOCKS: u64 = 1024;
    const FLAT: u64 = 48 << 20;
    // The default limit is 1 GiB: this body is exactly as long.
    let server = Server::app(CHECK_BLOCKS).start();
    server.get("/warm").expect(200);
    let processes = server.family().members();
    let before: Vec<u64> = processes
        .iter()
        .map(|process| process.high_water().expect("it runs"))
        .collect();
    let mut client = server.connect().patience(Duration::from_secs(120));
    client.send(format!(
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n",
        BLOCKS << 20
    ));
    let mut piece = block(0);
    for number in 0..BLOCKS {
        piece[..8].copy_from_slice(&number.to_le_bytes());
        client.send(&piece);
    }
    let answer = client.response();
    assert_eq!(
        answer.text(),
        format!("1024 blocks, {} declared", BLOCKS << 20)
    );
    for (process, before) in processes.iter().zip(before) {
        let after = process.high_water().expect("it runs");
        assert!(
            after < before + FLAT,
            "process {} of {processes:?} grew from {before} to {after} bytes",
            process.0
        );
    }
    // The file that held it goes with the request, once a thread that may wait has closed it.
    server.get("/after").expect(200);
    until("its file is closed", || !holds_bodies(&server));
}

#[test]
fn a_chunked_body_of_64_mib_is_taken() {
    let server = Server::app(CHECK_BLOCKS).start();
    let mut client = server.connect();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    for number in 0..64 {
        client.send(format!("{BLOCK:x}\r\n"));
        client.send(block(number)).send("\r\n");
    }
    client.send("0\r\n\r\n");
    let text = client.response().text();
    assert!(text.starts_with("64 blocks"), "{text}");
}

/// Whether the front holds deleted regular files open: bodies that were written to a file.
fn holds_bodies(server: &Server) -> bool {
    let fds = format!("/proc/{}/fd", server.process().0);
    std::fs::read_dir(fds)
        .expect("the front runs")
        .filter_map(|fd| std::fs::read_link(fd.ok()?.path()).ok())
        .any(|target| {
            let target = target.to_string_lossy();
            target.ends_with(" (deleted)") && !target.contains("memfd")
        })
}

#[test]
fn row_12_a_target_is_taken_up_to_its_limit() {
    let mut probe = Probe::default();
    let request = |length: usize| {
        format!(
            "GET /{} HTTP/1.1\r\nHost: a\r\n\r\n",
            "t".repeat(length - 1)
        )
    };
    probe.answer(request(12 * 1024));
    probe.refuse(request(12 * 1024 + 1), &[414]);
    probe.refuse(request(60 * 1024), &[414]);
    // The query counts.
    let query = |length: usize| {
        format!(
            "GET /?{} HTTP/1.1\r\nHost: a\r\n\r\n",
            "q".repeat(length - 2)
        )
    };
    probe.answer(query(12 * 1024));
    probe.refuse(query(12 * 1024 + 1), &[414]);
}

#[test]
fn row_12_fields_are_taken_up_to_their_number() {
    let mut probe = Probe::default();
    let request = |count: usize| {
        let fields: String = (1..count).map(|n| format!("X-{n}: v\r\n")).collect();
        format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n")
    };
    let answer = probe.answer(request(128)).json();
    assert_eq!(answer["env"]["HTTP_X_127"], "v");
    probe.refuse(request(129), &[431]);
    probe.refuse(request(2000), &[431]);
}

#[test]
fn row_12_one_field_is_taken_up_to_its_size() {
    let mut probe = Probe::default();
    // The line without its end counts: name, colon, space and value.
    let request = |length: usize| {
        let value = "v".repeat(length - "X-A: ".len());
        format!("GET / HTTP/1.1\r\nHost: a\r\nX-A: {value}\r\n\r\n")
    };
    let answer = probe.answer(request(80 * 1024)).json();
    let value = answer["env"]["HTTP_X_A"].as_str().map(str::len);
    assert_eq!(value, Some(80 * 1024 - 5));
    probe.refuse(request(80 * 1024 + 1), &[431]);
}

#[test]
fn row_12_all_fields_are_taken_up_to_their_size() {
    const LIMIT: usize = 112 * 1024;
    let mut probe = Probe::default();
    // Field lines of `length` bytes in all, with their ends.
    let request = |length: usize| {
        let fields = format!("Host: a\r\nX-A: {}\r\nX-B: ", "v".repeat(LIMIT / 2));
        let rest = "v".repeat(length - fields.len() - 2);
        format!("GET / HTTP/1.1\r\n{fields}{rest}\r\n\r\n")
    };
    probe.answer(request(LIMIT));
    probe.refuse(request(LIMIT + 1), &[431]);
    probe.refuse(request(LIMIT + LIMIT / 4), &[431]);
}

#[test]
fn row_12_each_limit_is_a_setting() {
    let mut probe = Probe::with(|builder| {
        builder
            .setting("max_header_count", "3")
            .setting("max_target_bytes", "16")
            .setting("max_field_bytes", "64")
            .setting("max_header_bytes", "8KiB")
            .setting("max_body_bytes", "10")
    });
    probe.answer("GET /234567890123456 HTTP/1.1\r\nHost: a\r\n\r\n");
    probe.refuse("GET /2345678901234567 HTTP/1.1\r\nHost: a\r\n\r\n", &[414]);
    probe.answer("GET / HTTP/1.1\r\nHost: a\r\nX-A: b\r\nX-B: b\r\n\r\n");
    probe.refuse(
        "GET / HTTP/1.1\r\nHost: a\r\nX-A: b\r\nX-B: b\r\nX-C: b\r\n\r\n",
        &[431],
    );
    probe.answer(format!(
        "GET / HTTP/1.1\r\nHost: a\r\nX-A: {}\r\n\r\n",
        "v".repeat(59)
    ));
    probe.refuse(
        format!(
            "GET / HTTP/1.1\r\nHost: a\r\nX-A: {}\r\n\r\n",
            "v".repeat(60)
        ),
        &[431],
    );
    probe.answer("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n0123456789");
    probe.refuse(
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\n01234567890",
        &[413],
    );
}

#[test]
fn row_16_100_continue_is_sent_once_the_request_is_acceptable() {
    let probe = Probe::default();
    let mut client = probe.server.connect();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n");
    assert_eq!(client.head().status, 100);
    client.send("hello");
    let response = client.response();
    assert_eq!(response.interim, []);
    assert_eq!(response.json()["body"], "hello");
    // A client of HTTP/1.0 does not know interim responses, and one that sent its body at once needs none.
    let mut client = probe.server.connect();
    client.send("POST / HTTP/1.0\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\nhello");
    assert_eq!(client.response().interim, []);
}

#[test]
fn row_16_what_is_refused_unread_gets_its_final_status_and_no_100() {
    let mut probe = Probe::with(|builder| builder.setting("max_body_bytes", "10"));
    for (request, status) in [
        (
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\nExpect: 100-continue\r\n\r\n",
            413,
        ),
        (
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 200-maybe\r\n\r\n",
            417,
        ),
        (
            "POST / HTTP/1.1\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n",
            400,
        ),
    ] {
        let response = probe.refuse(request, &[status]);
        assert_eq!(response.interim, [], "{request:?}");
    }
}

#[test]
fn row_17_a_body_over_the_limit_is_refused_declared_or_chunked() {
    const LIMIT: usize = 256 * 1024;
    let mut probe = Probe::with(|builder| builder.setting("max_body_bytes", "256KiB"));
    let declared = |length: usize| {
        let head = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n");
        head + &"b".repeat(length)
    };
    let chunked = |length: usize| {
        let whole = "b".repeat(length);
        let chunks: String = whole
            .as_bytes()
            .chunks(1000)
            .map(|chunk| format!("{:x}\r\n{}\r\n", chunk.len(), "b".repeat(chunk.len())))
            .collect();
        format!("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}0\r\n\r\n")
    };
    for request in [declared(LIMIT), chunked(LIMIT)] {
        let answer = probe.answer(request).json();
        assert_eq!(answer["body"].as_str().map(str::len), Some(LIMIT));
    }
    for request in [declared(LIMIT + 1), chunked(LIMIT + 1)] {
        probe.refuse(request, &[413]);
    }
    // Declared far beyond, and only the header sent: the answer does not wait for the body.
    probe.refuse(
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9999999999999\r\n\r\n",
        &[413],
    );
}

#[test]
fn row_18_a_client_that_vanishes_within_its_body_never_reaches_the_application() {
    let mut probe = Probe::default();
    for (name, request) in [
        (
            "declared",
            "POST /declared HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nhello".to_owned(),
        ),
        (
            "chunked",
            "POST /chunked HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"
                .to_owned(),
        ),
        (
            "long",
            format!(
                "POST /long HTTP/1.1\r\nHost: a\r\nContent-Length: 9000000\r\n\r\n{}",
                "b".repeat(4_000_000)
            ),
        ),
    ] {
        for vanish in [
            Client::reset,
            |client: Client| drop(client),
            |mut client: Client| {
                client.half_close();
                // No answer that says the request succeeded.
                match client.try_response("POST") {
                    Ok(response) => assert!(response.status() >= 400, "{response:?}"),
                    Err(Fault::Ended { .. }) => {}
                    Err(fault) => panic!("{fault}"),
                }
            },
        ] {
            let before = probe.server.log().len();
            let mut client = probe.server.connect();
            client.send(&request);
            vanish(client);
            let path = format!("path=\"/{name}\"");
            let line = (probe.server.log()).wait_after(before, |line| line.contains(&path));
            assert!(
                line.contains("outcome=client_closed") || line.contains("outcome=bad_request"),
                "{line}"
            );
            probe.assert_untouched(name);
        }
    }
    until("their files are closed", || !holds_bodies(&probe.server));
}

#[test]
fn row_19_a_response_is_still_sent_after_a_half_close() {
    let application =
        Application::new(r##"run lambda { |env| Test.pass("work"); Test.text("done") }"##);
    let (mut events, gate) = (application.events(), application.gate("work"));
    let server = Server::application_of(application).start();
    let mut client = server.connect();
    client
        .send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        .half_close();
    assert_eq!(events.wait(), "at work");
    gate.admit(1);
    assert_eq!(client.response().text(), "done");
    client.expect_end();
    // With a body, and the end in the same packet.
    let mut client = server.connect();
    client
        .send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello")
        .half_close();
    gate.admit(1);
    assert_eq!(client.response().text(), "done");
    client.expect_end();
}

#[test]
fn get_with_a_body_and_post_without_one_are_taken() {
    let mut probe = Probe::default();
    let answer = probe.answer("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello");
    assert_eq!(answer.json()["body"], "hello");
    let answer = probe.answer("POST / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(answer.json()["body"], "");
}
