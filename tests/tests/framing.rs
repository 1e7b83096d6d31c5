//! Rows 1 to 15 of the list of faults (docs/internals/testing.md): where a request ends and what it says. Everything here is sent
//! as raw bytes, and whatever is refused must not reach the application.

use test_support::{Fault, IntoBytes, Probe, Server};

#[test]
fn row_01_a_missing_doubled_or_invalid_host_is_refused() {
    let mut probe = Probe::default();
    probe.refuse_only("GET / HTTP/1.1\r\n\r\n", &[400]);
    probe.refuse_only("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", &[400]);
    probe.refuse_only("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", &[400]);
    for host in [
        "a b", "a/b", "a?b", "a#b", "user@a", "a:b", "a:80:80", "a:99999", "[::1", "::1", "a\\b",
        "a<b>", "a\"b", "%zz",
    ] {
        let request = format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n");
        probe.refuse_only(request, &[400]);
    }
}

#[test]
fn row_01_every_valid_host_is_taken_and_http_1_0_needs_none() {
    let mut probe = Probe::default();
    for host in [
        "a",
        "a.b:80",
        "127.0.0.1:3000",
        "[::1]",
        "[::1]:80",
        "a_b",
        "0.0.0.0=5000",
    ] {
        let answer = probe.answer(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        assert_eq!(answer.json()["env"]["HTTP_HOST"], host);
    }
    probe.answer("GET / HTTP/1.0\r\n\r\n");
}

#[test]
fn row_02_content_length_with_transfer_encoding_is_refused_and_closed() {
    let mut probe = Probe::default();
    for fields in [
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 0\r\n",
        "content-length: 5\r\ntransfer-encoding: Chunked\r\n",
    ] {
        let request = format!(
            "POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"
        );
        probe.refuse(request, &[400]);
    }
}

#[test]
fn row_03_an_ambiguous_content_length_is_refused_and_closed() {
    let mut probe = Probe::default();
    for fields in [
        "Content-Length: 5\r\nContent-Length: 6\r\n",
        "Content-Length: 5, 6\r\n",
        "Content-Length: +5\r\n",
        "Content-Length: -5\r\n",
        "Content-Length: 5_0\r\n",
        "Content-Length: 0x5\r\n",
        "Content-Length: 5 5\r\n",
        "Content-Length: 5a\r\n",
        "Content-Length: \r\n",
        "Content-Length: ,5\r\n",
        "Content-Length: 18446744073709551616\r\n",
        "Content-Length: 18446744073709551621\r\n",
        "Content-Length: 99999999999999999999999999999999\r\n",
    ] {
        let request = format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\nhello");
        probe.refuse(request, &[400]);
    }
}

#[test]
fn row_04_transfer_encoding_must_end_with_chunked_and_name_nothing_else() {
    let mut probe = Probe::default();
    for (fields, statuses) in [
        ("Transfer-Encoding: gzip\r\n", &[400, 501][..]),
        ("Transfer-Encoding: identity\r\n", &[400, 501]),
        ("Transfer-Encoding: xchunked\r\n", &[400, 501]),
        ("Transfer-Encoding: chunked, gzip\r\n", &[400]),
        ("Transfer-Encoding: chunked, identity\r\n", &[400]),
        (
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: gzip\r\n",
            &[400],
        ),
        ("Transfer-Encoding: chunked, chunked\r\n", &[400]),
        (
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
            &[400],
        ),
        ("Transfer-Encoding:\x0bchunked\r\n", &[400, 501]),
        ("Transfer-Encoding: \"chunked\"\r\n", &[400, 501]),
        ("Transfer-Encoding: chunked;a=b\r\n", &[400, 501]),
        ("Transfer-Encoding: \r\n", &[400, 501]),
        ("Transfer-Encoding: unheard-of, chunked\r\n", &[501]),
        ("Transfer-Encoding: gzip, chunked\r\n", &[501]),
    ] {
        let request = format!(
            "POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"
        );
        probe.refuse(request, statuses);
    }
}

#[test]
fn row_05_transfer_encoding_on_http_1_0_is_refused_and_closed() {
    let mut probe = Probe::default();
    probe.refuse("POST / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", &[400]);
}

#[test]
fn row_06_malformed_chunks_are_refused_and_closed() {
    let mut probe = Probe::default();
    for body in [
        // 2^64 and beyond, which wrap around to small sizes.
        "10000000000000005\r\nhello\r\n0\r\n\r\n",
        "fffffffffffffffff\r\nhello\r\n0\r\n\r\n",
        "0x5\r\nhello\r\n0\r\n\r\n",
        "1_0\r\n0123456789abcdef\r\n0\r\n\r\n",
        "+5\r\nhello\r\n0\r\n\r\n",
        "-5\r\nhello\r\n0\r\n\r\n",
        " 5\r\nhello\r\n0\r\n\r\n",
        "5g\r\nhello\r\n0\r\n\r\n",
        "\r\nhello\r\n0\r\n\r\n",
        ";a=b\r\nhello\r\n0\r\n\r\n",
        "5\nhello\r\n0\r\n\r\n",
        "5;a\nhello\r\n0\r\n\r\n",
        "5;a=\rb\r\nhello\r\n0\r\n\r\n",
        "5\r\nhello\n0\r\n\r\n",
        "5\r\nhelloXX0\r\n\r\n",
        "5\r\nhello!\r\n0\r\n\r\n",
        "4\r\nhello\r\n0\r\n\r\n",
        "5\r\nhello\r\n0\r\nbad trailer\r\n\r\n",
    ] {
        let request =
            format!("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{body}");
        probe.refuse(request, &[400]);
    }
}

#[test]
fn row_06_well_formed_chunks_of_any_spelling_are_taken() {
    let mut probe = Probe::default();
    for (body, expect) in [
        ("5\r\nhello\r\n0\r\n\r\n", "hello"),
        ("0005\r\nhello\r\n000\r\n\r\n", "hello"),
        (
            "A\r\n0123456789\r\na\r\n0123456789\r\n0\r\n\r\n",
            "01234567890123456789",
        ),
        ("5;a;b=c;d=\"e f\"\r\nhello\r\n0;x\r\n\r\n", "hello"),
        ("0\r\n\r\n", ""),
    ] {
        let request =
            format!("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{body}");
        let answer = probe.answer(request).json();
        assert_eq!(answer["body"], expect);
        assert_eq!(
            answer["env"]["HTTP_TRANSFER_ENCODING"],
            serde_json::Value::Null
        );
    }
}

#[test]
fn row_07_chunk_extensions_are_refused_at_a_limit() {
    let mut probe = Probe::default();
    let head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    // One without end, and many chunks of one byte with a longer extension each. The answer comes without more.
    let one = format!("5;{}", "e".repeat(64 * 1024));
    let many = format!("1;{}\r\nx\r\n", "e".repeat(1000)).repeat(128);
    for body in [one, many] {
        probe.refuse(format!("{head}{body}"), &[400]);
    }
}

#[test]
fn row_07_endless_chunk_extensions_end_the_connection() {
    static PIECE: [u8; 64 * 1024] = [b'e'; 64 * 1024];
    const MANY: usize = (256 << 20) / PIECE.len();
    let mut probe = Probe::default();
    let mut client = probe.server.connect();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5;");
    let taken = (0..MANY).take_while(|_| client.try_send(PIECE.as_slice()).is_ok());
    assert!(taken.count() < MANY, "256 MiB of extensions were taken");
    // The refusal may be lost to the reset that the unread bytes bring about.
    match client.try_response("GET") {
        Ok(response) => drop(response.expect(400)),
        Err(Fault::Ended { so_far, .. }) => assert!(so_far.is_empty()),
        Err(fault) => panic!("{fault}"),
    }
    probe.assert_untouched("chunk extensions");
}

#[test]
fn row_08_trailers_never_reach_the_application() {
    let mut probe = Probe::default();
    let answer = probe
        .answer(
            "POST /trailed HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: X-Late\r\n\r\n5\r\nhello\r\n0\r\n\
             Host: evil\r\nContent-Length: 99\r\nAuthorization: Basic eDp5\r\nX-Late: 1\r\n\r\n",
        )
        .json();
    assert_eq!(answer["env"]["HTTP_HOST"], "a");
    assert_eq!(answer["body"], "hello");
    let env = answer["env"].as_object().expect("an object");
    for name in ["HTTP_AUTHORIZATION", "HTTP_X_LATE"] {
        assert!(!env.contains_key(name), "{name} came from a trailer");
    }
    assert_ne!(answer["env"]["CONTENT_LENGTH"], "99");
}

#[test]
fn row_09_space_before_the_colon_and_folded_lines_are_refused() {
    let mut probe = Probe::default();
    for fields in [
        "X-A : b\r\n",
        "X-A\t: b\r\n",
        "Content-Length : 5\r\n",
        "Transfer-Encoding : chunked\r\n",
        "X-A: b\r\n c\r\n",
        "X-A: b\r\n\tc\r\n",
        "X-A: b\r\n \r\n",
        " X-A: b\r\n",
        "X A: b\r\n",
        ": b\r\n",
        "X-A\r\n",
        "X-\u{e9}: b\r\n",
        "X(A): b\r\n",
    ] {
        probe.refuse(format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n"), &[400]);
        // As the first field as well, where a parser may still think of the request line.
        probe.refuse(format!("GET / HTTP/1.1\r\n{fields}Host: a\r\n\r\n"), &[400]);
    }
}

#[test]
fn row_10_control_characters_in_values_and_bare_line_feeds_are_refused() {
    let mut probe = Probe::default();
    for request in [
        "GET / HTTP/1.1\r\nHost: a\r\nX-A: b\0c\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nX-A: b\rc\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nX-A: b\x01c\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nX-A: b\x1bc\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nX-A: b\x7fc\r\n\r\n",
        "GET / HTTP/1.1\nHost: a\n\n",
        "GET / HTTP/1.1\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nX-A: b\nX-C: d\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nX-A: b\r\n\n",
        "GET / HTTP/1.1\r\rHost: a\r\n\r\n",
    ] {
        probe.refuse(request, &[400]);
    }
}

#[test]
fn row_10_tabs_and_bytes_beyond_ascii_are_taken_in_values() {
    let mut probe = Probe::default();
    let request = b"GET / HTTP/1.1\r\nHost: a\r\nX-A:\t b\tc \t\r\nX-B: caf\xe9\r\nX-C:\r\n\r\n";
    let answer = probe.answer(&request[..]).json();
    assert_eq!(answer["env"]["HTTP_X_A"], "b\tc");
    assert_eq!(answer["env"]["HTTP_X_B"], "caf\u{e9}");
    assert_eq!(answer["env"]["HTTP_X_C"], "");
}

#[test]
fn row_11_a_name_with_an_underscore_never_stands_for_one_with_a_dash() {
    let mut probe = Probe::default();
    let both = "X-Forwarded-For: 192.0.2.1\r\nX_Forwarded_For: 192.0.2.66\r\n";
    let swapped = "X_Forwarded_For: 192.0.2.66\r\nX-Forwarded-For: 192.0.2.1\r\n";
    for fields in [both, swapped] {
        let answer = probe.answer(format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
        assert_eq!(answer.json()["env"]["HTTP_X_FORWARDED_FOR"], "192.0.2.1");
    }
    let alone = "GET / HTTP/1.1\r\nHost: a\r\nX_Forwarded-For: 192.0.2.66\r\nContent_Length: 7\r\nTransfer_Encoding: x\r\n\r\n";
    let answer = probe.answer(alone).json();
    let env = answer["env"].as_object().expect("an object");
    for name in [
        "HTTP_X_FORWARDED_FOR",
        "HTTP_CONTENT_LENGTH",
        "HTTP_TRANSFER_ENCODING",
        "CONTENT_LENGTH",
    ] {
        assert!(
            !matches!(env.get(name), Some(value) if value != "0"),
            "{name} is {:?}",
            env.get(name)
        );
    }
}

// Row 12, both ends of each limit: bodies.rs.

#[test]
fn row_13_bad_methods_and_versions_are_refused() {
    let mut probe = Probe::default();
    for line in [
        "G@T / HTTP/1.1",
        "G\u{e9}T / HTTP/1.1",
        "GET\t/ HTTP/1.1",
        "(GET) / HTTP/1.1",
        " / HTTP/1.1",
        "GET / HTTP/1.1 x",
        "GET  / HTTP/1.1",
        "GET /a b HTTP/1.1",
        "GET /",
        "GET / HTTP/1",
        "GET / HTTP/111",
        "GET / http/1.1",
        "GET / FTP/1.1",
        "GET / HTTP/1.1x",
    ] {
        probe.refuse(format!("{line}\r\nHost: a\r\n\r\n"), &[400, 505]);
    }
    for version in ["HTTP/9.9", "HTTP/2.0", "HTTP/3.0", "HTTP/0.9"] {
        probe.refuse(format!("GET / {version}\r\nHost: a\r\n\r\n"), &[505]);
    }
}

#[test]
fn row_13_http_1_2_is_treated_as_1_1_and_any_token_is_a_method() {
    let mut probe = Probe::default();
    let answer = probe.answer("GET / HTTP/1.2\r\nHost: a\r\n\r\n");
    assert_eq!(answer.head.protocol, "HTTP/1.1");
    let answer = probe.answer("M-SEARCH!#$%&'*+.^_`|~ / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(
        answer.json()["env"]["REQUEST_METHOD"],
        "M-SEARCH!#$%&'*+.^_`|~"
    );
}

#[test]
fn row_14_an_absolute_target_wins_over_host() {
    let mut probe = Probe::default();
    let answer = probe
        .answer("GET http://example.com:81/a/b?c=d HTTP/1.1\r\nHost: evil\r\n\r\n")
        .json();
    let env = &answer["env"];
    assert_eq!(env["HTTP_HOST"], "example.com:81");
    assert_eq!(env["SERVER_NAME"], "example.com");
    assert_eq!(env["SERVER_PORT"], "81");
    assert_eq!(env["PATH_INFO"], "/a/b");
    assert_eq!(env["QUERY_STRING"], "c=d");
    let answer = probe
        .answer("GET http://example.com HTTP/1.1\r\nHost: example.com\r\n\r\n")
        .json();
    assert_eq!(answer["env"]["PATH_INFO"], "/");
}

#[test]
fn row_14_other_forms_of_the_target_are_refused_and_nothing_is_tunnelled() {
    let mut probe = Probe::default();
    for (line, statuses) in [
        ("GET *", &[400][..]),
        ("POST *", &[400]),
        ("CONNECT example.com:443", &[400, 405, 501]),
        ("CONNECT /", &[400, 405, 501]),
        ("GET example.com:443", &[400]),
        ("GET example.com", &[400]),
        ("GET a/b", &[400]),
        ("GET ?a", &[400]),
        ("GET ftp://example.com/", &[400]),
        ("GET http://", &[400]),
        ("GET http:///a", &[400]),
        ("GET /<a>", &[400]),
        ("GET /a#b", &[400]),
        ("GET /\0", &[400]),
        ("GET /\x7f", &[400]),
    ] {
        let request = format!("{line} HTTP/1.1\r\nHost: a\r\n\r\n");
        probe.refuse_only(request, statuses);
    }
}

#[test]
fn row_14_raw_bytes_of_a_target_reach_the_application_as_sent() {
    let mut probe = Probe::default();
    for (target, path, query) in [
        (
            &b"/caf\xc3\xa9?q=\xc3\xa9"[..],
            &b"/caf\xc3\xa9"[..],
            &b"q=\xc3\xa9"[..],
        ),
        (b"/\"|`{}^[]\\?\"|`{}^[]\\", b"/\"|`{}^[]\\", b"\"|`{}^[]\\"),
        (b"/\xff\xfe?\x80", b"/\xff\xfe", b"\x80"),
        (b"/%C3%A9_`", b"/%C3%A9_`", b""),
        (b"http://a/`?`\xe9?", b"/`", b"`\xe9?"),
    ] {
        let request = [b"GET ", target, b" HTTP/1.1\r\nHost: a\r\n\r\n"].concat();
        let answer = probe.answer(request).json();
        let latin = |bytes: &[u8]| bytes.iter().copied().map(char::from).collect::<String>();
        let env = &answer["env"];
        assert_eq!(env["PATH_INFO"], latin(path));
        assert_eq!(env["REQUEST_PATH"], latin(path));
        assert_eq!(env["QUERY_STRING"], latin(query));
        let uri = match query {
            b"" => latin(path),
            query => latin(path) + "?" + &latin(query),
        };
        assert_eq!(env["REQUEST_URI"], uri);
    }
}

#[test]
fn row_13_a_method_of_16_kib_gets_501() {
    let mut probe = Probe::default();
    let request = format!("{} / HTTP/1.1\r\nHost: a\r\n\r\n", "M".repeat(16 * 1024));
    probe.refuse(request, &[501]);
}

#[test]
fn row_01_a_host_of_70000_bytes_gets_400() {
    let mut probe = Probe::default();
    let request = format!("GET / HTTP/1.1\r\nHost: {}\r\n\r\n", "a".repeat(70_000));
    probe.refuse(request, &[400]);
}

#[test]
fn trace_is_refused_with_405_unless_a_setting_allows_it() {
    let mut probe = Probe::default();
    let request = "TRACE /x HTTP/1.1\r\nHost: a\r\nCookie: secret\r\n\r\n";
    let response = probe.refuse(request, &[405]);
    let allowed = response.field("allow").expect("RFC 9110 section 15.5.6");
    assert!(allowed.contains("GET") && !allowed.contains("TRACE"));
    let mut probe = Probe::with(|builder| builder.setting("allow_trace", "true"));
    let answer = probe.answer(request).json();
    assert_eq!(answer["env"]["REQUEST_METHOD"], "TRACE");
}

#[test]
fn a_body_of_very_small_chunks_is_taken() {
    let mut probe = Probe::default();
    let body: String = (0..20_000)
        .map(|at| format!("1\r\n{}\r\n", at % 10))
        .collect();
    let request =
        format!("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{body}0\r\n\r\n");
    let expect: String = (0..20_000).map(|at| (at % 10).to_string()).collect();
    assert_eq!(probe.answer(request).json()["body"], expect);
}

#[test]
fn row_14_options_may_ask_about_the_server_as_a_whole() {
    let probe = Probe::default();
    // Rack has no form for it: any answer but a failure will do, and Rack::Lint must not be hurt.
    let mut client = probe.server.connect();
    client.send("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n");
    let response = client.response();
    assert!(response.status() < 400, "{response:?}");
}

#[test]
fn row_15_a_bad_request_in_a_pipeline_ends_it() {
    let mut probe = Probe::default();
    let mut client = probe.server.connect();
    client.send(
        "GET /first HTTP/1.1\r\nHost: a\r\n\r\n\
         GET /second HTTP/1.1\r\nHost: a\r\nBad Field: x\r\n\r\n\
         GET /third HTTP/1.1\r\nHost: a\r\n\r\n",
    );
    client.response().expect(200);
    client.response().expect(400);
    client.expect_end();
    assert_eq!(probe.events.wait(), "GET /first");
    probe.assert_untouched("the second or third of three");
}

#[test]
fn row_15_pipelined_requests_are_answered_in_order() {
    let mut probe = Probe::with(|builder| builder.workers(2).threads(2));
    let mut client = probe.server.connect();
    let request =
        |n: usize| format!("POST /{n} HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{n:02}");
    client.send((0..20).map(request).collect::<String>());
    for n in 0..20 {
        let answer = client.response().json();
        assert_eq!(answer["env"]["PATH_INFO"], format!("/{n}"));
        assert_eq!(answer["body"], format!("{n:02}"));
    }
    assert_eq!(probe.events.take(20).len(), 20);
}

#[test]
fn requests_arrive_whole_however_they_are_cut() {
    let mut probe = Probe::default();
    let request = "POST /cut?a=b HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n6\r\n world\r\n0\r\nX-T: z\r\n\r\n";
    let mut client = probe.server.connect();
    for byte in request.bytes() {
        client.send([byte].bytes());
    }
    assert_eq!(client.response().json()["body"], "hello world");
    // The same connection, cut once at each place.
    for place in 1..request.len() {
        client.send(&request[..place]).send(&request[place..]);
        assert_eq!(
            client.response().json()["body"],
            "hello world",
            "cut at {place}"
        );
    }
    assert_eq!(probe.events.take(request.len()).len(), request.len());
}

#[test]
fn keep_alive_follows_version_and_connection_field() {
    // With a length: without one the end of the connection is the end of a response of HTTP/1.0 (responses.rs).
    let server = Server::app(
        r##"run lambda { |env| Test.text("hello", headers: { "content-length" => "5" }) }"##,
    )
    .start();
    for (request, kept) in [
        ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", true),
        (
            "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
            false,
        ),
        (
            "GET / HTTP/1.1\r\nHost: a\r\nConnection: x, Close\r\n\r\n",
            false,
        ),
        ("GET / HTTP/1.0\r\nHost: a\r\n\r\n", false),
        (
            "GET / HTTP/1.0\r\nHost: a\r\nConnection: Keep-Alive\r\n\r\n",
            true,
        ),
    ] {
        let mut client = server.connect();
        client.send(request);
        client.response().expect(200);
        if kept {
            client.get("/again").expect(200);
        } else {
            client.expect_end();
        }
    }
}
