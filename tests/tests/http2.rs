//! HTTP/2 without TLS, by prior knowledge: what requests and responses become, the limits, and that each stream has the rules
//! that a connection of HTTP/1.1 has.

use h2::Reason;
use h2::client::Builder;
use highball_tests::authority::Authority;
use highball_tests::http2::{
    Answer, Frame, Http2, RawHttp2, frame, head, kind, read, read_body, reset_by, run,
};
use serde_json::Value;
use test_support::{Application, Gated, Program, Server, ServerBuilder, reflect, until};

/// Waits at the gate for each path that is not `/`.
const WAITING: &str = r##"run lambda { |env|
  name = env["PATH_INFO"].delete("/")
  Test.pass("work", "call #{name} #{Process.pid}") unless name.empty?
  Test.text("hello #{name}")
}"##;

/// Answers in many ways.
const RESPONSES: &str = r##"run lambda { |env|
  text = { "content-type" => "text/plain" }
  case env["PATH_INFO"]
  when "/big" then [200, text, ["0123456789abcdef" * 65_536]]
  when "/connection"
    fields = { "connection" => "close, x", "keep-alive" => "timeout=5", "upgrade" => "x", "proxy-connection" => "close" }
    [200, text.merge(fields), ["hello"]]
  when "/short" then [200, text.merge("content-length" => "4000000"), Test::Body.new { |to| to.call("x" * 3_000_000) }]
  when "/raises" then [200, text, Test::Body.new { |to| to.call("x" * 3_000_000); raise "boom" }]
  when "/204" then [204, {}, []]
  when "/304" then [304, { "etag" => '"a"' }, []]
  when "/chunked"
    [200, text.merge("transfer-encoding" => "chunked"), ["5\r\nhello\r\n", "0\r\n\r\n"]]
  when "/hints"
    env["rack.early_hints"].call("link" => "</a.css>; rel=preload")
    [200, text, ["hello"]]
  else [200, text, ["hello"]]
  end
}"##;

fn waiting(settings: impl FnOnce(ServerBuilder) -> ServerBuilder) -> Gated {
    Gated::start(Application::new(WAITING), settings)
}

fn responses(settings: impl FnOnce(ServerBuilder) -> ServerBuilder) -> Server {
    let application = Application::without_lint(RESPONSES);
    settings(Server::application_of(application)).start()
}

/// Answers with what it was given.
fn reflecting() -> ServerBuilder {
    Server::app(&reflect().replacen("Test.tell", "# ", 1))
}

fn get(client: &Http2, path: &str) -> Answer {
    run(client.get(path)).expect("a response")
}

#[test]
fn a_request_of_http_2_reaches_the_application_as_rack_wants_it() {
    let server = reflecting().start();
    let client = Http2::connect(server.address());
    let request = client.request("POST", "/a%20b;c?d=e&f");
    let request = request
        .header("cookie", "a=1")
        .header("cookie", "b=2; c=3")
        .header("x-one", "1")
        .header("x-one", "2")
        .header("te", "trailers")
        .header("x_forwarded_for", "1.1.1.1");
    let answer = run(client.ask(request, "the body")).expect("a response");
    assert_eq!(answer.status, 200);
    assert_eq!(answer.field("connection"), None);
    assert!(answer.field("date").is_some(), "{answer:?}");
    let told: Value = serde_json::from_slice(&answer.body).expect("JSON");
    let address = server.address();
    for (key, expected) in [
        ("REQUEST_METHOD", "POST"),
        ("PATH_INFO", "/a%20b;c"),
        ("QUERY_STRING", "d=e&f"),
        ("SERVER_PROTOCOL", "HTTP/2"),
        ("SERVER_NAME", &address.ip().to_string()),
        ("SERVER_PORT", &address.port().to_string()),
        ("HTTP_HOST", &address.to_string()),
        ("HTTP_COOKIE", "a=1; b=2; c=3"),
        ("HTTP_X_ONE", "1, 2"),
        ("rack.url_scheme", "http"),
    ] {
        assert_eq!(told["env"][key], expected, "{key}: {told:#}");
    }
    assert_eq!(told["env"]["HTTP_X_FORWARDED_FOR"], Value::Null);
    assert_eq!(told["body"], "the body");
}

#[test]
fn the_access_log_names_http_2() {
    let server = reflecting().setting("log_fields", "protocol,host").start();
    get(&Http2::connect(server.address()), "/logged");
    let line = server.log().wait(|line| line.contains("/logged"));
    assert!(line.contains("protocol=\"HTTP/2\""), "{line}");
    let host = format!("host={}", server.address());
    assert!(line.replace('"', "").contains(&host), "{line}");
}

#[test]
fn responses_lose_what_belongs_to_connections_and_keep_their_bodies() {
    let server = responses(|builder| builder);
    let client = Http2::connect(server.address());
    let big = get(&client, "/big");
    assert_eq!(big.body.len(), 1 << 20);
    assert!(
        big.body
            .chunks(16)
            .all(|chunk| chunk == b"0123456789abcdef")
    );
    let answer = get(&client, "/connection");
    assert_eq!(answer.text(), "hello");
    for name in ["connection", "keep-alive", "upgrade", "proxy-connection"] {
        assert_eq!(answer.field(name), None, "{answer:?}");
    }
    let answer = get(&client, "/chunked");
    assert_eq!(
        (answer.text(), answer.field("transfer-encoding")),
        ("hello".into(), None)
    );
    let answer = get(&client, "/204");
    assert_eq!((answer.status, answer.body.len()), (204, 0));
    let answer = get(&client, "/304");
    assert_eq!((answer.status, answer.field("etag")), (304, Some("\"a\"")));
    let head = run(client.ask(client.request("HEAD", "/big"), "")).expect("a response");
    assert_eq!(head.field("content-length"), Some("1048576"));
    assert_eq!(head.body, b"");
}

#[test]
fn a_response_that_breaks_its_promise_resets_its_stream_alone() {
    let server = responses(|builder| builder);
    let client = Http2::connect(server.address());
    for path in ["/short", "/raises"] {
        let reason = reset_by(run(client.get(path)));
        assert_eq!(reason, Some(Reason::INTERNAL_ERROR), "{path}");
        let aborted = format!("path=\"{path}\"");
        server
            .log()
            .wait(|line| line.contains(&aborted) && line.contains("outcome=aborted"));
        assert_eq!(get(&client, "/").text(), "hello");
    }
}

#[test]
fn early_hints_go_out_as_a_103_response() {
    let server = responses(|builder| builder.setting("early_hints", "true"));
    let client = Http2::connect(server.address());
    run(async {
        let request = client.request("GET", "/hints").body(()).expect("a request");
        let (mut response, _) = client.send(request, true).await.expect("a stream");
        let hints = std::future::poll_fn(|cx| response.poll_informational(cx)).await;
        let hints = hints.expect("hints").expect("hints");
        assert_eq!(hints.status(), 103);
        let link = hints
            .headers()
            .get("link")
            .and_then(|link| link.to_str().ok());
        assert_eq!(link, Some("</a.css>; rel=preload"));
        assert_eq!(read(response).await.expect("a response").text(), "hello");
    });
}

#[test]
fn a_client_that_waits_for_100_continue_gets_it() {
    let server = reflecting().start();
    let client = Http2::connect(server.address());
    run(async {
        let request = client.request("POST", "/").header("expect", "100-continue");
        let request = request.body(()).expect("a request");
        let (mut response, mut body) = client.send(request, false).await.expect("a stream");
        let interim = std::future::poll_fn(|cx| response.poll_informational(cx)).await;
        assert_eq!(interim.expect("100").expect("100").status(), 100);
        body.send_data("abc".into(), true).expect("a stream");
        let answer = read(response).await.expect("a response");
        let told: Value = serde_json::from_slice(&answer.body).expect("JSON");
        assert_eq!(told["body"], "abc");
    });
}

#[test]
fn the_limits_of_http_1_hold_for_each_stream_and_cost_no_connection() {
    let application = Application::new(reflect());
    let mut events = application.events();
    let server = Server::application_of(application)
        .setting("max_target_bytes", "100")
        .setting("max_header_count", "10")
        .setting("max_header_bytes", "8KiB")
        .setting("max_field_bytes", "4000")
        .setting("max_body_bytes", "100000")
        .start();
    let client = Http2::connect(server.address());
    let get = |path: &str| client.request("GET", path);
    let long = "x".repeat(3000);
    let mut many = get("/");
    for _ in 0..11 {
        many = many.header("x-a", "1");
    }
    let post = |length: Option<usize>| {
        let request = client.request("POST", "/");
        match length {
            Some(length) => request.header("content-length", length),
            None => request,
        }
    };
    let body = vec![b'x'; 100_001];
    for (request, body, expected) in [
        (get(&format!("/{}", "x".repeat(100))), vec![], 414),
        (many, vec![], 431),
        (get("/").header("x-a", "x".repeat(4000)), vec![], 431),
        (
            get("/")
                .header("a", &long)
                .header("b", &long)
                .header("c", &long),
            vec![],
            431,
        ),
        (get("/").header("host", "other"), vec![], 400),
        (get("/").header("expect", "x"), vec![], 417),
        (get("/<"), vec![], 400),
        (post(None), body.clone(), 413),
        (post(Some(body.len())), body, 413),
        (client.request("TRACE", "/"), vec![], 405),
    ] {
        let Ok(request) = request.body(()) else {
            // The client's own crate does not take it.
            continue;
        };
        let (mut parts, ()) = request.into_parts();
        let builder = client
            .request(parts.method.as_str(), "/")
            .uri(parts.uri.clone());
        let mut builder = builder;
        *builder.headers_mut().expect("fields") = std::mem::take(&mut parts.headers);
        let answer = run(client.ask(builder, body)).expect("a response");
        assert_eq!(answer.status, expected, "{parts:?}");
        assert!(
            answer.text().starts_with(&expected.to_string()),
            "{answer:?}"
        );
    }
    assert_eq!(
        run(client.ask(get("/"), "")).expect("a response").status,
        200
    );
    assert_eq!(events.rest(), ["GET /"]);
}

#[test]
fn a_body_beyond_memory_arrives_whole() {
    let server = Server::app(
        r##"run lambda { |env|
          body = Test.input(env)
          Test.text("#{body.bytesize} #{body.sum}")
        }"##,
    )
    .start();
    let client = Http2::connect(server.address());
    let body: Vec<u8> = (0..3_000_000_u32).map(|number| number as u8).collect();
    let sum: u64 = body.iter().map(|&byte| u64::from(byte)).sum();
    let expected = format!("3000000 {}", sum % 65_536);
    let answer = run(async {
        let request = client.request("POST", "/").body(()).expect("a request");
        let (response, mut stream) = client.send(request, false).await.expect("a stream");
        let mut left = bytes::Bytes::from(body);
        while !left.is_empty() {
            stream.reserve_capacity(left.len());
            let room = std::future::poll_fn(|cx| stream.poll_capacity(cx)).await;
            let room = room.expect("open").expect("room").min(left.len());
            stream.send_data(left.split_to(room), false).expect("open");
        }
        stream.send_data(bytes::Bytes::new(), true).expect("open");
        read(response).await.expect("a response")
    });
    assert_eq!(answer.text(), expected);
}

#[test]
fn without_the_setting_http_2_is_refused() {
    let server = reflecting().setting("http2", "false").start();
    let mut client = server.connect();
    client.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    client.response().expect(505);
    client.expect_end();
}

#[test]
fn row_37_a_request_whose_stream_is_reset_in_the_queue_never_runs() {
    let mut waiting = waiting(|builder| builder);
    let client = Http2::connect(waiting.server.address());
    run(async {
        let request = |path| client.request("GET", path).body(()).expect("a request");
        let (first, _) = client
            .send(request("/first"), true)
            .await
            .expect("a stream");
        assert_eq!(waiting.called().0, "first");
        let (second, mut reset) = client
            .send(request("/second"), true)
            .await
            .expect("a stream");
        let (third, _) = client
            .send(request("/third"), true)
            .await
            .expect("a stream");
        waiting.wait_queued(2);
        reset.send_reset(Reason::CANCEL);
        waiting.wait_queued(1);
        waiting.gate.open();
        assert_eq!(read(first).await.expect("a response").text(), "hello first");
        assert_eq!(read(third).await.expect("a response").text(), "hello third");
        assert_eq!(waiting.called().0, "third");
        drop(second);
    });
    assert_eq!(waiting.events.rest(), [""; 0]);
    let line = waiting.server.log().wait(|line| line.contains("/second"));
    assert!(line.contains("outcome=client_closed"), "{line}");
}

#[test]
fn a_browser_may_leave_a_page_with_all_its_streams_open() {
    let mut waiting = waiting(|builder| builder);
    let client = Http2::connect(waiting.server.address());
    run(async {
        // The server's settings come with the first answer.
        client.get("/").await.expect("a response");
        let mut open = Vec::new();
        for number in 0..100 {
            let request = client.request("GET", &format!("/{number}"));
            let request = request.body(()).expect("a request");
            open.push(client.send(request, true).await.expect("a stream"));
        }
        assert_eq!(waiting.called().0, "0");
        // Dropped, each is reset.
        drop(open);
        waiting.gate.open();
        assert_eq!(client.get("/").await.expect("a response").text(), "hello ");
    });
}

#[test]
fn streams_that_are_reset_as_they_come_leave_the_connection_open() {
    let server = waiting(|builder| builder).server;
    let mut client = RawHttp2::connect(server.address(), &[]);
    let mut bytes = Vec::new();
    for stream in (1..199).step_by(2) {
        bytes.extend(frame(kind::HEADERS, 5, stream, &head("GET", "/")));
        bytes.extend(frame(kind::RST_STREAM, 0, stream, &[0, 0, 0, 8]));
    }
    bytes.extend(frame(kind::HEADERS, 5, 199, &head("GET", "/")));
    assert!(client.write(&bytes));
    let answer = |frame: &Frame| frame.stream == 199 || frame.kind == kind::GOAWAY;
    let mut frames = std::iter::from_fn(|| client.next_frame());
    let answered = frames.find(answer).expect("an answer");
    assert_eq!(answered.kind, kind::HEADERS);
}

#[test]
fn row_37_requests_of_a_client_that_leaves_never_run() {
    let mut waiting = waiting(|builder| builder);
    let mut other = waiting.server.ask("GET", "/other");
    assert_eq!(waiting.called().0, "other");
    let mut client = RawHttp2::connect(waiting.server.address(), &[]);
    for stream in [1, 3, 5] {
        assert!(client.get(stream, &format!("/{stream}"), true));
    }
    waiting.wait_queued(3);
    drop(client);
    waiting.wait_queued(0);
    waiting.gate.open();
    other.response().expect(200);
    waiting.server.get("/").expect(200);
    assert_eq!(waiting.events.rest(), [""; 0]);
}

#[test]
fn one_connection_fills_no_queue_unless_its_peer_is_trusted() {
    for (trusted, queued) in [("none", 15), ("127.0.0.1", 39)] {
        let mut waiting = waiting(|builder| builder.setting("trusted_proxies", trusted));
        let client = Http2::connect(waiting.server.address());
        let answers = run(async {
            let mut responses = Vec::new();
            for _ in 0..40 {
                let request = client.request("GET", "/a").body(()).expect("a request");
                responses.push(client.send(request, true).await.expect("a stream").0);
            }
            waiting.called();
            waiting.wait_queued(queued);
            // Others come to their turn.
            let mut other = waiting.server.ask("GET", "/other");
            waiting.wait_queued(queued + 1);
            waiting.gate.open();
            other.response().expect(200);
            let mut answers = Vec::new();
            for response in responses {
                answers.push(read(response).await.expect("a response").status);
            }
            answers
        });
        assert_eq!(answers, [200; 40]);
    }
}

#[test]
fn row_31_a_window_that_never_opens_holds_its_own_response_for_a_time_only() {
    let server = responses(|builder| builder.setting("send_timeout", "1s"));
    let mut builder = Builder::new();
    builder.initial_window_size(0);
    let client = Http2::with(server.address(), builder);
    run(async {
        let request = client.request("GET", "/big").body(()).expect("a request");
        let (response, _) = client.send(request, true).await.expect("a stream");
        let (head, mut body) = response.await.expect("a head").into_parts();
        assert_eq!(head.status, 200);
        let reason = reset_by(read_body(&mut body).await);
        assert_eq!(reason, Some(Reason::CANCEL));
    });
    let line = server.log().wait(|line| line.contains("/big"));
    assert!(line.contains("outcome=client_timeout"), "{line}");
    // The connection serves on.
    assert_eq!(get(&client, "/204").status, 204);
}

#[test]
fn row_27_a_body_that_stops_gets_408_and_its_connection_stays() {
    let server = reflecting().setting("body_timeout", "500ms").start();
    let client = Http2::connect(server.address());
    run(async {
        let request = client.request("POST", "/").body(()).expect("a request");
        let (response, mut body) = client.send(request, false).await.expect("a stream");
        body.send_data("a part".into(), false).expect("a stream");
        assert_eq!(response.await.expect("a head").status(), 408);
    });
    assert_eq!(get(&client, "/").status, 200);
}

#[test]
fn an_idle_connection_hears_goaway_after_the_keep_alive_timeout() {
    let server = responses(|builder| builder.setting("keep_alive_timeout", "300ms"));
    let mut client = RawHttp2::connect(server.address(), &[]);
    assert!(client.get(1, "/", true));
    assert_eq!(client.goaway(), Some(0), "NO_ERROR");
    until("it is closed", || {
        server.status().number("/connections") == 0
    });
}

#[test]
fn an_idle_connection_gives_way_to_a_newcomer() {
    let server = responses(|builder| builder.setting("max_connections", "2"));
    let mut idle = RawHttp2::connect(server.address(), &[]);
    assert!(idle.get(1, "/", true));
    assert!(idle.next_of(&[kind::DATA]).is_some());
    // It has begun a request, so it is not idle.
    let mut busy = server.connect();
    busy.send("GET / HTTP/1.1\r\n");
    let mut newcomer = server.connect();
    newcomer.get("/").expect(200);
    assert_eq!(idle.goaway(), Some(0), "NO_ERROR");
}

/// Runs h2spec in strict mode, and returns what it printed and the tests that failed.
fn h2spec(port: u16, arguments: &[&str]) -> (String, Vec<String>) {
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/h2spec");
    let ran = Program::new(program)
        .args(["--strict", "--host", "127.0.0.1"])
        .args(["--port", &port.to_string()])
        .args(arguments)
        .run();
    let output = ran.output();
    let failures = output.split("Failures:").nth(1).unwrap_or_default();
    let failed = failures.lines().filter(|line| line.contains('\u{d7}'));
    let failed = failed.map(str::to_owned).collect();
    (output, failed)
}

#[test]
fn h2spec_finds_nothing_but_an_answer_of_http_1() {
    let server = responses(|builder| builder);
    let (output, failed) = h2spec(server.address().port(), &[]);
    // On a port without TLS what does not begin as HTTP/2 is HTTP/1, and answered with 400 before the connection ends.
    assert!(
        output.contains("146 tests, 145 passed, 0 skipped, 1 failed"),
        "{output}"
    );
    assert!(
        failed.len() == 1 && failed[0].contains("Sends invalid connection preface"),
        "{output}"
    );
}

#[test]
fn h2spec_finds_nothing_with_tls() {
    let application = Application::without_lint(RESPONSES);
    let signed = Authority::new().sign(&["localhost"]);
    signed.write(&application, "localhost");
    let server = Server::application_of(application)
        .listen(["tls://127.0.0.1:0"])
        .setting("tls_certificate_files", "localhost.pem:localhost.key")
        .start();
    let (output, _) = h2spec(server.tls_address().port(), &["--tls", "--insecure"]);
    assert!(
        output.contains("146 tests, 146 passed, 0 skipped, 0 failed"),
        "{output}"
    );
}

#[test]
fn curl_and_h2load_are_served() {
    let server = responses(|builder| builder);
    let url = format!("http://{}", server.address());
    let big = format!("{url}/big");
    let ran = Program::new("curl")
        .args([
            "--silent",
            "--http2-prior-knowledge",
            "--write-out",
            "%{http_version}",
        ])
        .args(["--output", "/dev/null", &big])
        .run();
    assert_eq!(ran.stdout, "2", "{}", ran.output());
    let ran = Program::new("h2load")
        .args(["-n", "500", "-c", "5", "-m", "10", &url])
        .run();
    assert!(
        ran.stdout.contains("500 succeeded, 0 failed"),
        "{}",
        ran.output()
    );
}
