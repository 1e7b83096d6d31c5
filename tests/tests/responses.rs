//! Rows 20 to 23 of the list of faults, and what a Rack application may answer with: bodies of every kind, headers of
//! either version of Rack, hijack, hints, callbacks; `close` exactly once in every outcome.

use test_support::{Application, Client, Ending, Events, Fault, Gate, Server, expect_echo};

/// A server without Rack::Lint around the application, and its events.
fn start(source: &str) -> (Server, Events) {
    let application = Application::without_lint(source);
    let events = application.events();
    (Server::application_of(application).start(), events)
}

/// The same with a gate named "body".
fn start_with_gate(source: &str) -> (Server, Events, Gate) {
    let application = Application::without_lint(source);
    let (events, gate) = (application.events(), application.gate("body"));
    (Server::application_of(application).start(), events, gate)
}

/// A server whose applications may send early hints.
fn with_hints(application: Application) -> Server {
    let server = Server::application_of(application);
    server.setting("early_hints", "true").start()
}

/// All events of the application, once it is certain that no more comes.
fn all_events(server: Server, mut events: Events) -> Vec<String> {
    assert!(server.stop().status.success());
    events.rest()
}

#[test]
fn a_long_body_in_pieces_is_sent_as_it_came() {
    let (server, _) =
        start(r##"run lambda { |_| [200, {}, ("a".."j").map { |letter| letter * 150_000 }] }"##);
    let mut client = server.connect();
    for _ in 0..5 {
        let response = client.get("/");
        assert_eq!(response.head.field("content-length"), Some("1500000"));
        let body = response.text();
        let pieces = ('a'..='j').map(|letter| letter.to_string().repeat(150_000));
        assert!(body == pieces.collect::<String>(), "{} bytes", body.len());
    }
}

#[test]
fn row_20_no_body_follows_head_204_and_304() {
    let (server, events) = start(
        r##"run lambda { |env|
          status = Integer(env["PATH_INFO"].delete("/"))
          headers = env["QUERY_STRING"] == "length" ? { "content-length" => "5" } : {}
          [status, headers, Test::Body.new { |to| to.call("hello") }]
        }"##,
    );
    let mut client = server.connect();
    let mut calls = 0;
    for (method, target) in [
        ("HEAD", "/200"),
        ("HEAD", "/200?length"),
        ("HEAD", "/404"),
        ("GET", "/204"),
        ("GET", "/204?length"),
        ("HEAD", "/204?length"),
        ("GET", "/304"),
        ("GET", "/304?length"),
        ("POST", "/204"),
    ] {
        client.ask(method, target);
        let response = client.response_to(method);
        assert_eq!(
            response
                .head
                .field("transfer-encoding")
                .filter(|_| response.status() == 204),
            None
        );
        if method == "HEAD" && target.ends_with("length") {
            let length = Some("5").filter(|_| response.status() != 204);
            assert_eq!(response.field("content-length"), length);
        }
        // Stray bytes would be taken for the start of this response.
        assert_eq!(
            client.get("/200").text(),
            "hello",
            "after {method} {target}"
        );
        calls += 2;
    }
    assert_eq!(all_events(server, events), vec!["body closed"; calls]);
}

#[test]
fn row_21_a_body_shorter_than_its_content_length_is_cut_visibly() {
    let (server, events) = start(
        r##"run lambda { |env| [200, { "content-length" => "10" }, Test::Body.new { |to| to.call("hello") }] }"##,
    );
    for request in [
        "GET / HTTP/1.1\r\nHost: a\r\n\r\nGET /next HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    ] {
        let mut client = server.connect();
        client.send(request);
        match client.try_response("GET") {
            Err(Fault::Truncated { response, .. }) => assert_eq!(response.text(), "hello"),
            Ok(response) => drop(response.expect(500)),
            Err(fault) => panic!("{fault}"),
        }
    }
    server
        .log()
        .wait(|line| line.contains("status=") && !line.contains("outcome=ok"));
    let closed = all_events(server, events);
    assert!(!closed.is_empty() && closed.iter().all(|event| event == "body closed"));
}

#[test]
fn row_21_bytes_beyond_the_content_length_never_become_the_next_response() {
    let (server, events) = start(
        r##"run lambda { |env|
          long = env["PATH_INFO"] == "/long"
          Test.tell("call #{env["PATH_INFO"]}")
          body = long ? "helloHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil" : "next!"
          [200, { "content-length" => "5" }, Test::Body.new { |to| to.call(body) }]
        }"##,
    );
    for separate in [false, true] {
        let mut client = server.connect();
        client.send("GET /long HTTP/1.1\r\nHost: a\r\n\r\n");
        if !separate {
            client.send("GET /next HTTP/1.1\r\nHost: a\r\n\r\n");
        }
        match client.try_response("GET") {
            Ok(response) if response.status() == 200 => assert_eq!(response.text(), "hello"),
            Ok(response) => drop(response.expect(500)),
            Err(Fault::Truncated { response, .. }) => {
                assert!("hello".starts_with(&response.text()))
            }
            Err(fault) => panic!("{fault}"),
        }
        // Either the connection ends here, or the next response is the application's next one.
        match client.try_get("/next") {
            Ok(response) => assert_eq!(response.text(), "next!"),
            Err(Fault::Ended { so_far, .. }) => assert!(so_far.is_empty(), "{so_far:?}"),
            Err(fault) => panic!("{fault}"),
        }
    }
    let events = all_events(server, events);
    let (calls, closed): (Vec<_>, Vec<_>) =
        events.iter().partition(|event| event.starts_with("call"));
    assert_eq!(calls.len(), closed.len(), "{events:?}");
}

#[test]
fn row_22_a_header_with_a_line_break_is_a_500_and_splits_nothing() {
    let (server, events) = start(
        r##"HEADERS = {
          "crlf" => { "x-a" => "b\r\nevil: 1" },
          "cr" => { "x-a" => "b\revil: 1" },
          "nul" => { "x-a" => "b\0c" },
          "response" => { "x-a" => "b\r\n\r\nHTTP/1.1 200 OK\r\nevil: 1\r\n\r\n" },
          "array" => { "x-a" => ["b", "c\r\nevil: 1"] },
          "name-crlf" => { "x-a\r\nevil" => "1" },
          "name-lf" => { "x-a\nevil" => "1" },
          "name-colon" => { "x-a:evil" => "1" },
          "name-space" => { "x a" => "1" },
          "name-empty" => { "" => "1" },
          "name-bytes" => { "x-\u00e9" => "1" }
        }
        run lambda { |env| [200, HEADERS.fetch(env["PATH_INFO"].delete("/")), Test::Body.new { |to| to.call("hello") }] }"##,
    );
    let names = [
        "crlf",
        "cr",
        "nul",
        "response",
        "array",
        "name-crlf",
        "name-lf",
        "name-colon",
        "name-space",
        "name-empty",
        "name-bytes",
    ];
    for name in names {
        let response = server.get(&format!("/{name}"));
        response.expect(500);
        assert_eq!(response.field("evil"), None, "{name}");
        assert_eq!(response.field("x-a"), None, "{name}");
    }
    assert_eq!(all_events(server, events), vec!["body closed"; names.len()]);
}

#[test]
fn a_status_that_is_none_is_a_500() {
    let (server, events) = start(
        r##"STATUS = { "text" => "abc", "nil" => nil, "low" => 99, "high" => 1000, "negative" => -200 }
        run lambda { |env| [STATUS.fetch(env["PATH_INFO"].delete("/")), {}, Test::Body.new { |to| to.call("hello") }] }"##,
    );
    for name in ["text", "nil", "low", "high", "negative"] {
        server.get(&format!("/{name}")).expect(500);
    }
    assert_eq!(all_events(server, events), ["body closed"; 5]);
}

#[test]
fn what_is_no_response_is_a_500() {
    let (server, _events) = start(
        r##"ANSWERS = {
          "nil" => nil, "text" => "hello", "empty" => [], "short" => [200, {}], "headers" => [200, nil, ["hello"]],
          "body" => [200, {}, nil], "number" => [200, {}, 7], "key" => [200, { 1 => 2 }, ["hello"]], "chunk" => [200, {}, [7]]
        }
        run lambda { |env| ANSWERS.fetch(env["PATH_INFO"].delete("/")) }"##,
    );
    for name in ["nil", "text", "empty", "short", "body", "number"] {
        server.get(&format!("/{name}")).expect(500);
    }
    // Whatever is made of these, the server must live on, and answer whole or visibly not.
    for name in ["headers", "key", "chunk"] {
        let _ = server
            .connect()
            .try_get(&format!("/{name}"))
            .map_err(|fault| match fault {
                Fault::Truncated { .. } => {}
                fault => panic!("{name}: {fault}"),
            });
    }
    server.get("/nil").expect(500);
}

#[test]
fn row_23_an_application_that_raises_before_its_headers_is_a_500() {
    let (server, _events) = start(
        r##"run lambda { |env|
          case env["PATH_INFO"]
          when "/standard" then raise "standard-error-text"
          when "/exception" then raise Exception, "exception-text"
          when "/exit" then exit 3
          when "/throw" then throw :nothing
          when "/stack" then define_singleton_method(:deep) { deep }; deep
          else Test.text("well #{Process.pid}")
          end
        }"##,
    );
    let worker = server.get("/").text();
    for path in ["/standard", "/exception", "/exit", "/throw", "/stack"] {
        let mut client = server.connect();
        let response = client.get(path);
        response.expect(500);
        assert!(
            !response.text().contains("error-text"),
            "the message is shown to the client"
        );
        // The connection is as good as before, and the worker as well.
        assert_eq!(client.get("/").text(), worker, "after {path}");
    }
}

#[test]
fn row_23_an_application_that_raises_after_its_headers_is_cut_visibly() {
    let (server, mut events) = start(
        r##"run lambda { |env|
          body = Test::Body.new { |to| to.call("hello"); Test.tell("sent"); Test.pass("body"); raise "late-error" }
          [200, env["PATH_INFO"] == "/length" ? { "content-length" => "100" } : {}, body]
        }"##,
    );
    let gate = {
        // The gate is made late here: nobody waits at it before the first request.
        server.application().gate("body")
    };
    for path in ["/", "/length"] {
        let mut client = server.connect();
        client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert_eq!(events.take(2), ["sent", "at body"]);
        assert_eq!(client.head().status, 200);
        gate.admit(1);
        let (rest, _) = client.rest();
        let rest = String::from_utf8_lossy(&rest).into_owned();
        assert!(rest.contains("hello"), "{rest:?}");
        assert!(
            !rest.contains("0\r\n\r\n"),
            "the body looks whole: {rest:?}"
        );
        assert_eq!(events.wait(), "body closed");
    }
    // HTTP/1.0 has no last chunk to miss: only a reset shows that this is not all.
    let mut client = server.connect();
    client.send("GET / HTTP/1.0\r\n\r\n");
    assert_eq!(client.head().status, 200);
    gate.admit(1);
    assert_eq!(client.rest().1, Ending::Reset);
    assert_eq!(events.take(3), ["sent", "at body", "body closed"]);
    server.log().wait(|line| line.contains("late-error"));
    server.log().wait(|line| line.contains("outcome=aborted"));
    assert_eq!(all_events(server, events), [""; 0]);
}

#[test]
fn a_body_that_raises_before_its_first_chunk_never_looks_whole() {
    let (server, events) =
        start(r##"run lambda { |env| [200, {}, Test::Body.new { |to| raise "at once" }] }"##);
    let mut client = server.connect();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    match client.try_response("GET") {
        Ok(response) => drop(response.expect(500)),
        Err(Fault::Truncated { .. }) => {}
        Err(fault) => panic!("{fault}"),
    }
    assert_eq!(all_events(server, events), ["body closed"]);
}

#[test]
fn a_close_that_raises_harms_nobody() {
    let (server, mut events) = start(
        r##"class Closing < Test::Body
          def close
            super
            raise "close-error"
          end
        end
        run lambda { |env| [200, { "content-length" => "5" }, Closing.new { |to| to.call("hello") }] }"##,
    );
    let mut client = server.connect();
    assert_eq!(client.get("/").text(), "hello");
    assert_eq!(events.wait(), "body closed");
    server.log().wait(|line| line.contains("close-error"));
    assert_eq!(server.get("/").text(), "hello");
    assert_eq!(all_events(server, events), ["body closed"]);
}

#[test]
fn chunks_go_out_as_they_are_yielded() {
    let (server, mut events, gate) = start_with_gate(
        r##"run lambda { |env|
          body = Test::Body.new { |to| to.call("one"); Test.pass("body"); to.call("two"); Test.pass("body"); to.call("three") }
          [200, env["PATH_INFO"] == "/length" ? { "content-length" => "11" } : {}, body]
        }"##,
    );
    let mut client = server.connect();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.head().field("transfer-encoding"), Some("chunked"));
    for chunk in ["one", "two", "three"] {
        assert_eq!(client.chunk().as_deref(), Some(chunk.as_bytes()));
        gate.admit(1);
    }
    assert_eq!(client.chunk(), None);
    assert_eq!(events.take(3), ["at body", "at body", "body closed"]);
    // One admission too many was given: this request starts with it.
    client.send("GET /length HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.head().field("content-length"), Some("11"));
    assert_eq!(client.bytes(6), b"onetwo");
    assert_eq!(events.take(2), ["at body", "at body"]);
    client.expect_silence();
    gate.admit(1);
    assert_eq!(client.bytes(5), b"three");
    assert_eq!(all_events(server, events), ["body closed"]);
}

#[test]
fn a_body_of_unknown_length_ends_an_http_1_0_connection() {
    let (server, mut events, gate) = start_with_gate(
        r##"run lambda { |env|
          [200, {}, Test::Body.new { |to| to.call("one"); Test.pass("body"); to.call("two") }]
        }"##,
    );
    let mut client = server.connect();
    client.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    let head = client.head();
    assert_eq!(head.field("transfer-encoding"), None);
    // It would be a promise that the end of this response breaks.
    assert_ne!(head.field("connection"), Some("keep-alive"));
    assert_eq!(client.bytes(3), b"one");
    gate.admit(1);
    assert_eq!(client.rest(), (b"two".to_vec(), Ending::Closed));
    assert_eq!(events.take(2), ["at body", "body closed"]);
}

#[test]
fn a_client_of_http_1_0_gets_either_close_or_keep_alive() {
    let (server, _events, gate) = start_with_gate(
        r##"run lambda { |env|
          case env["PATH_INFO"]
          when "/stream" then [200, {}, Test::Body.new { |to| to.call("hel"); Test.pass("body"); to.call("lo") }]
          when "/close" then [200, { "connection" => "close" }, ["hello"]]
          else [200, {}, ["hello"]]
          end
        }"##,
    );
    for (target, expect) in [
        ("/", "keep-alive"),
        ("/stream", "close"),
        ("/close", "close"),
    ] {
        let mut client = server.connect();
        client.send(format!(
            "GET {target} HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
        ));
        let head = client.head();
        assert_eq!(head.values("connection"), [expect], "{target}");
        if target == "/stream" {
            gate.admit(1);
        }
        assert_eq!(client.bytes(5), b"hello");
        if expect == "close" {
            client.expect_end();
        }
    }
}

#[test]
fn a_status_without_a_known_reason_has_an_empty_one() {
    let (server, _events) = start(r##"run lambda { |env| [299, {}, ["hello"]] }"##);
    let mut client = server.connect();
    client.ask("GET", "/");
    let line = b"HTTP/1.1 299 \r\n";
    assert_eq!(client.bytes(line.len()), line);
}

#[test]
fn a_205_has_no_content() {
    let (server, _events) = start(
        r##"run lambda { |env|
          case env["PATH_INFO"]
          when "/array" then [205, {}, ["hello"]]
          when "/length" then [205, { "content-length" => "5" }, ["hello"]]
          when "/stream" then [205, {}, Test::Body.new { |to| to.call("hello") }]
          else Test.text("next")
          end
        }"##,
    );
    let mut client = server.connect();
    for target in ["/array", "/length", "/stream"] {
        let response = client.get(target);
        assert_eq!(response.status(), 205);
        assert_eq!(response.head.values("content-length"), ["0"], "{target}");
        assert_eq!(response.text(), "");
        assert_eq!(client.get("/").text(), "next");
    }
}

#[test]
fn the_length_of_an_array_is_sent_for_get_and_head() {
    let (server, _events) = start(
        r##"run lambda { |env|
          case env["PATH_INFO"]
          when "/large" then [200, {}, ["x" * 300_000, "y" * 300_000]]
          when "/small" then [200, {}, ["hello"]]
          when "/none" then [200, {}, []]
          when "/own" then [200, { "Content-Length" => "5" }, ["hello"]]
          when "/coded" then [200, { "transfer-encoding" => "chunked" }, ["5\r\nhello\r\n0\r\n\r\n"]]
          when "/204" then [204, {}, []]
          when "/304" then [304, {}, []]
          end
        }"##,
    );
    for (method, target, expect) in [
        ("GET", "/large", Some("600000")),
        ("HEAD", "/large", Some("600000")),
        ("GET", "/small", Some("5")),
        ("HEAD", "/small", Some("5")),
        ("GET", "/none", Some("0")),
        // Rack::Head leaves an empty array of any body: it says nothing about GET.
        ("HEAD", "/none", None),
        ("GET", "/own", Some("5")),
        ("HEAD", "/own", Some("5")),
        // Of what the coding holds, once all of it has come.
        ("GET", "/coded", Some("5")),
        ("HEAD", "/coded", None),
        ("GET", "/204", None),
        ("GET", "/304", None),
    ] {
        let mut client = server.connect();
        client.ask(method, target);
        let response = client.response_to(method);
        let found = response.head.values("content-length");
        assert_eq!(found, Vec::from_iter(expect), "{method} {target}");
        let whole = match (method, expect) {
            ("GET", Some(length)) => length.parse().unwrap_or_default(),
            ("GET", None) if target == "/coded" => 5,
            _ => 0,
        };
        assert_eq!(response.body.len(), whole, "{method} {target}");
    }
}

#[test]
fn ab_with_keep_alive_counts_no_failure() {
    let (server, _events) = start(
        r##"run lambda { |env|
          case env["PATH_INFO"]
          when "/large" then [200, {}, ["x" * 300_000]]
          when "/stream" then [200, {}, Test::Body.new { |to| 40.times { to.call("x" * 10_000) } }]
          else [200, {}, ["hello"]]
          end
        }"##,
    );
    for target in ["/", "/large", "/stream"] {
        let ran = std::process::Command::new("ab")
            .args(["-k", "-q", "-n", "200", "-c", "4"])
            .arg(format!("http://{}{target}", server.address()))
            .output()
            .expect("ab, of apache2-utils");
        let text = String::from_utf8_lossy(&[ran.stdout, ran.stderr].concat()).into_owned();
        let figure = |name: &str| {
            let line = text.lines().find(|line| line.starts_with(name));
            let value = line.and_then(|line| line.split_whitespace().nth(2));
            value
                .unwrap_or_else(|| panic!("no {name} in {text}"))
                .to_owned()
        };
        assert_eq!(figure("Complete requests:"), "200", "{target}: {text}");
        assert_eq!(figure("Failed requests:"), "0", "{target}: {text}");
    }
}

#[test]
fn a_response_with_too_many_fields_is_a_500_and_harms_nobody() {
    let (server, _events) = start(
        r##"run lambda { |env|
          many = env["QUERY_STRING"].to_i
          [200, (0...many).to_h { |index| ["a#{index.to_s(36)}", ""] }, ["hello"]]
        }"##,
    );
    for (count, status) in [(4096, 200), (4097, 500), (26_000, 500)] {
        server.get(&format!("/?{count}")).expect(status);
    }
    server
        .log()
        .wait(|line| line.contains("more than 4096 header fields"));
    server.get("/?1").expect(200);
    assert!(server.stop().status.success());
}

#[test]
fn an_empty_chunk_does_not_end_the_body() {
    let (server, events) = start(
        r##"run lambda { |env| [200, {}, Test::Body.new { |to| ["", "a", "", "b", ""].each { |chunk| to.call(chunk) } }] }"##,
    );
    let mut client = server.connect();
    assert_eq!(client.get("/").text(), "ab");
    assert_eq!(client.get("/").text(), "ab");
    assert_eq!(all_events(server, events), ["body closed", "body closed"]);
}

#[test]
fn bodies_of_every_size_arrive_whole() {
    let server = Server::app(
        r##"require "digest/md5"
        run lambda { |env|
          size, pieces = env["PATH_INFO"].split("/").last(2).map(&:to_i)
          text = Array.new(size) { |i| (i * 7 + i / 251) % 256 }.pack("C*")
          chunks = pieces == 0 ? [text] : text.scan(/.{1,#{pieces}}/mn)
          [200, { "content-type" => "application/octet-stream", "x-digest" => Digest::MD5.hexdigest(text) }, chunks]
        }"##,
    )
    .start();
    let mut client = server.connect();
    for size in [
        0, 1, 4095, 4096, 4097, 16_383, 16_384, 16_385, 65_535, 65_536, 65_537, 300_000, 3_000_000,
    ] {
        for pieces in [0, 1000, 65_536] {
            let response = client.get(&format!("/{size}/{pieces}"));
            assert_eq!(response.body.len(), size);
            let good = (0..size).all(|i| response.body[i] == ((i * 7 + i / 251) % 256) as u8);
            assert!(good, "{size} bytes in pieces of {pieces}");
        }
    }
}

#[test]
fn a_file_is_sent_by_the_front() {
    let application = Application::without_lint(
        r##"class FileBody
          def initialize(path) = @path = path
          def to_path = @path
          def each = Test.tell("each called")
          def close = Test.tell("body closed")
        end
        run lambda { |env|
          path = File.join(Dir.pwd, env["PATH_INFO"])
          [200, env["QUERY_STRING"] == "length" ? { "content-length" => File.size(path).to_s } : {}, FileBody.new(path)]
        }"##,
    );
    let content: Vec<u8> = (0..5_000_000u32).map(|i| (i % 253) as u8).collect();
    application.dir().write("big", &content);
    application.dir().write("empty", "");
    application.dir().write("small", "a small file");
    let events = application.events();
    let server = Server::application_of(application).start();
    let mut client = server.connect();
    assert!(client.get("/big").body == content);
    assert!(client.get("/big?length").body == content);
    assert_eq!(client.get("/small").text(), "a small file");
    assert_eq!(client.get("/empty").text(), "");
    client.send("HEAD /big HTTP/1.1\r\nHost: a\r\n\r\n");
    client.response_to("HEAD").expect(200);
    assert_eq!(client.get("/small").text(), "a small file");
    assert_eq!(all_events(server, events), ["body closed"; 6]);
}

#[test]
fn a_file_that_is_not_there_never_looks_like_an_answer() {
    let (server, events) = start(
        r##"class FileBody
          def to_path = "/nonexistent/file"
          def each = raise(Errno::ENOENT)
          def close = Test.tell("body closed")
        end
        run lambda { |env| [200, { "content-length" => "5" }, FileBody.new] }"##,
    );
    match server.connect().try_get("/") {
        Ok(response) => drop(response.expect(500)),
        Err(Fault::Truncated { .. }) => {}
        Err(fault) => panic!("{fault}"),
    }
    assert_eq!(all_events(server, events), ["body closed"]);
}

#[test]
fn a_body_whose_path_is_nil_is_enumerated() {
    let (server, _events) = start(
        r##"class Unnamed
          def each = yield("hello")
          def to_path = nil
        end
        run lambda { |env| [200, {}, Unnamed.new] }"##,
    );
    assert_eq!(server.get("/").expect(200).text(), "hello");
}

/// The request of whose query an application makes its exceptions' messages: bytes that are no UTF-8.
const BINARY_QUERY: &str = "/?%FF%FE%C3";

#[test]
fn a_clients_bytes_in_an_exception_cost_no_worker_and_no_backtrace() {
    let (server, _events) = start(
        r##"def parse(text) = raise("no such thing: #{text}".b)
        run lambda { |env|
          next Test.text(Process.pid.to_s) if env["QUERY_STRING"].empty?
          bytes = Rack::Utils.unescape(env["QUERY_STRING"], Encoding::BINARY)
          begin
            parse(bytes)
          rescue StandardError => error
            raise "caf\u00e9 is not available"
          end
        }"##,
    );
    let worker = server.get("/").text();
    server.get(BINARY_QUERY).expect(500);
    for expected in ["café is not available", "no such thing: ", "parse'"] {
        server.log().wait(|line| line.contains(expected));
    }
    assert_eq!(server.get("/").text(), worker);
}

#[test]
fn a_chunked_coding_that_is_none_is_a_500_with_its_reason() {
    let (server, events) = start(
        r##"BODIES = {
          "/text" => ["hello"], "/empty" => [], "/cut" => ["5\r\nhel"], "/endless" => ["5\r\nhello\r\n"],
          "/second" => ["5\r\nhello\r\n", "world"], "/each" => nil
        }
        run lambda { |env|
          body = BODIES.fetch(env["PATH_INFO"]) || Test::Body.new { |to| to.call("hello"); to.call("world") }
          [200, { "transfer-encoding" => "chunked", "content-type" => "text/plain" }, body]
        }"##,
    );
    let mut client = server.connect();
    for path in ["/text", "/empty", "/cut", "/endless", "/second", "/each"] {
        let before = server.log().len();
        client.get(path).expect(500);
        server
            .log()
            .wait_after(before, |line| line.contains("transfer-encoding: chunked"));
    }
    assert_eq!(all_events(server, events), ["body closed"]);
}

#[test]
fn a_chunked_coding_that_breaks_after_its_start_is_cut() {
    let (server, mut events, gate) = start_with_gate(
        r##"run lambda { |env|
          body = Test::Body.new { |to| to.call("5\r\nhello\r\n"); Test.pass("body"); to.call("world") }
          [200, { "transfer-encoding" => "chunked" }, body]
        }"##,
    );
    let mut client = server.connect();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.head().status, 200);
    assert_eq!(client.chunk().as_deref(), Some(&b"hello"[..]));
    gate.admit(1);
    let (rest, _) = client.rest();
    assert_eq!(rest, b"");
    server
        .log()
        .wait(|line| line.contains("transfer-encoding: chunked"));
    assert_eq!(events.take(2), ["at body", "body closed"]);
}

#[test]
fn a_chunked_coding_of_the_applications_own_is_undone() {
    let (server, mut events, gate) = start_with_gate(
        r##"run lambda { |env|
          whole = "5\r\nhello\r\n1;x=y\r\n!\r\n0\r\n\r\n"
          body =
            case env["PATH_INFO"]
            when "/whole" then [whole]
            when "/bytes" then whole.chars
            when "/nothing" then ["0\r\n\r\n"]
            else
              Test::Body.new { |to| to.call("5"); Test.pass("body"); to.call("\r\nhello"); Test.pass("body"); to.call(whole[8..]) }
            end
          [200, { "transfer-encoding" => "chunked" }, body]
        }"##,
    );
    let mut client = server.connect();
    for path in ["/whole", "/bytes"] {
        assert_eq!(client.get(path).expect(200).text(), "hello!");
    }
    assert_eq!(client.get("/nothing").expect(200).text(), "");
    client.send("GET /slowly HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(events.wait(), "at body");
    // What could still be no coding at all is not begun.
    client.expect_silence();
    gate.admit(1);
    assert_eq!(client.head().status, 200);
    assert_eq!(client.chunk().as_deref(), Some(&b"hello"[..]));
    gate.admit(1);
    assert_eq!(client.chunk().as_deref(), Some(&b"!"[..]));
    assert_eq!(client.chunk(), None);
}

#[test]
fn a_streaming_body_writes_when_it_wants() {
    let (server, mut events, gate) = start_with_gate(
        r##"class Streaming
          def call(stream)
            stream.write("one")
            stream.flush
            Test.pass("body")
            stream << "two" << "three"
            Test.tell("closed? #{stream.closed?}")
            stream.close
            Test.tell("closed? #{stream.closed?}")
          end
        end
        run lambda { |env| [200, {}, Streaming.new] }"##,
    );
    let mut client = server.connect();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    client.head();
    assert_eq!(client.chunk().as_deref(), Some(&b"one"[..]));
    assert_eq!(events.wait(), "at body");
    client.expect_silence();
    gate.admit(1);
    let rest: Vec<u8> = std::iter::from_fn(|| client.chunk()).flatten().collect();
    assert_eq!(rest, b"twothree");
    gate.admit(1);
    assert_eq!(client.get("/").text(), "onetwothree");
    assert_eq!(events.take(2), ["closed? false", "closed? true"]);
    // One whose call returns has finished, and one that raises has not.
    let (server, _events) = start(
        r##"run lambda { |env|
          raises = env["PATH_INFO"] == "/raise"
          [200, {}, proc { |stream| stream.write("hello"); raise "in the stream" if raises }]
        }"##,
    );
    let mut client = server.connect();
    assert_eq!(client.get("/").text(), "hello");
    client.send("GET /raise HTTP/1.1\r\nHost: a\r\n\r\n");
    match client.try_response("GET") {
        // Nothing of it was on its way yet.
        Ok(response) => drop(response.expect(500)),
        Err(Fault::Truncated { .. }) => {}
        Err(fault) => panic!("{fault}"),
    }
}

#[test]
fn header_values_come_as_strings_or_arrays() {
    let (server, _events) = start(
        r##"run lambda { |env|
          [200, { "set-cookie" => ["a=1", "b=2"], "X-Case" => "e", "x-empty" => "", "x-bytes" => "caf\xC3\xA9", "rack.private" => "f" }, ["hello"]]
        }"##,
    );
    let response = server.get("/");
    assert_eq!(response.values("set-cookie"), ["a=1", "b=2"]);
    assert_eq!(response.values("x-case"), ["e"]);
    assert_eq!(response.values("x-empty"), [""]);
    assert_eq!(response.values("x-bytes"), ["café"]);
    assert_eq!(response.field("rack.private"), None);
    // An array's value with a newline: two values or none, but no field of another name.
    let (server, _events) =
        start(r##"run lambda { |env| [200, { "x-a" => ["b", "c\nevil: 1"] }, ["hello"]] }"##);
    let response = server.get("/");
    assert_eq!(response.field("evil"), None);
}

#[test]
fn the_application_may_close_the_connection() {
    let (server, _events) =
        start(r##"run lambda { |env| [200, { "connection" => "close" }, ["hello"]] }"##);
    let mut client = server.connect();
    assert_eq!(client.get("/").text(), "hello");
    client.expect_end();
}

#[test]
fn early_hints_go_out_before_the_response() {
    let application = Application::without_lint(
        r##"run lambda { |env|
          env["rack.early_hints"].call("link" => "</a.css>; rel=preload\n</b.js>; rel=preload")
          Test.pass("body")
          Test.text("hello")
        }"##,
    );
    let (mut events, gate) = (application.events(), application.gate("body"));
    let server = with_hints(application);
    let mut client = server.connect();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let hints = client.head();
    assert_eq!(hints.status, 103);
    assert_eq!(
        hints.values("link"),
        ["</a.css>; rel=preload", "</b.js>; rel=preload"]
    );
    assert_eq!(events.wait(), "at body");
    client.expect_silence();
    gate.admit(1);
    assert_eq!(client.response().text(), "hello");
    // HTTP/1.0 knows no interim responses.
    gate.admit(1);
    let mut client = server.connect();
    client.send("GET / HTTP/1.0\r\n\r\n");
    assert_eq!(client.response().interim, []);
}

#[test]
fn row_22_early_hints_with_a_line_break_split_nothing() {
    let server = with_hints(Application::without_lint(
        r##"run lambda { |env|
          begin
            env["rack.early_hints"].call("link" => "a\r\nevil: 1\r\n\r\nHTTP/1.1 200 OK")
          rescue StandardError
            nil
          end
          Test.text("hello")
        }"##,
    ));
    let response = server.get("/");
    for hints in &response.interim {
        assert_eq!(hints.field("evil"), None);
    }
    assert!(
        response.status() == 500 || response.text() == "hello",
        "{response:?}"
    );
}

#[test]
fn partial_hijack_hands_over_the_connection_after_the_headers() {
    let application = Application::without_lint(
        r##"run lambda { |env|
          raise "no hijack" unless env["rack.hijack?"]
          echo = lambda { |io|
            Thread.new do
              while (line = io.gets)
                io.write("echo #{line}")
                io.flush
              end
              io.close
              Test.tell("hijack closed")
            end
          }
          if env["PATH_INFO"] == "/hijack"
            [101, { "upgrade" => "echo", "connection" => "upgrade", "rack.hijack" => echo }, []]
          else
            Test.text("hello")
          end
        }"##,
    );
    let mut events = application.events();
    let server = Server::application_of(application).start();
    expect_echo(&server, "/hijack");
    assert_eq!(events.wait(), "hijack closed");
    server
        .log()
        .wait(|line| line.contains("path=\"/hijack\"") && line.contains("outcome=hijacked"));
}

#[test]
fn full_hijack_hands_over_the_connection_before_any_response() {
    let (server, mut events) = start(
        r##"run lambda { |env|
          io = env["rack.hijack"].call
          io = env["rack.hijack_io"] || io
          Thread.new do
            body = Test.input(env)
            line = io.gets
            io.write("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n#{body} #{line}")
            io.close
            Test.tell("hijack closed")
          end
          [500, { "x-ignored" => "1" }, ["ignored"]]
        }"##,
    );
    let mut client = server.connect();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody");
    client.send("raw line\n");
    let (response, _) = client.rest();
    assert_eq!(
        String::from_utf8_lossy(&response),
        "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nbody raw line\n"
    );
    assert_eq!(events.wait(), "hijack closed");
    // Bytes that came together with the request belong to the hijacker as well.
    let mut client = server.connect();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbodyraw line\n");
    let (response, _) = client.rest();
    assert!(
        response.ends_with(b"body raw line\n"),
        "{:?}",
        String::from_utf8_lossy(&response)
    );
}

#[test]
fn a_hijacked_connection_carries_much_in_both_directions() {
    const BYTES: usize = 8 << 20;
    let (server, _events) = start(
        r##"run lambda { |env|
          io = env["rack.hijack"].call
          Thread.new do
            while (piece = io.read(65_536))
              io.write(piece)
            end
            io.close
          end
          [200, {}, []]
        }"##,
    );
    let mut client = server.connect();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let content: Vec<u8> = (0..BYTES).map(|i| (i % 249) as u8).collect();
    // In turns, so that neither side's buffers fill up.
    for piece in content.chunks(65_536) {
        client.send(piece);
        assert!(client.bytes(piece.len()) == piece);
    }
    client.half_close();
    client.expect_end();
}

#[test]
fn a_hijacked_connection_is_probed_by_the_kernel_while_it_idles() {
    let (server, _events) = start(
        r##"run lambda { |env|
          return Test.text("hello") if env["PATH_INFO"] == "/"
          io = env["rack.hijack"].call
          io = env["rack.hijack_io"] || io
          io.write("HTTP/1.1 101 Switching Protocols\r\n\r\n")
          io.flush
          Thread.new { io.read; io.close }
          [200, {}, []]
        }"##,
    );
    let mut client = server.connect();
    client.get("/").expect(200);
    assert!(!has_keep_alive_timer(&server, &client));
    client.ask("GET", "/hijack");
    assert_eq!(client.head().status, 101);
    // What is on its way has a timer of its own: the client's answer ends that one.
    test_support::until("the probe's timer", || {
        has_keep_alive_timer(&server, &client)
    });
}

/// Whether the kernel keeps the timer of SO_KEEPALIVE for the server's side of this connection (proc_net_tcp.txt).
fn has_keep_alive_timer(server: &Server, client: &Client) -> bool {
    let port = |address: &str| u16::from_str_radix(address.rsplit(':').next()?, 16).ok();
    let table = std::fs::read_to_string("/proc/net/tcp").expect("a kernel with /proc");
    let ports = (Some(server.address().port()), Some(client.local_port()));
    table.lines().skip(1).any(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        (port(words[1]), port(words[2])) == ports && words[5].starts_with("02:")
    })
}

#[test]
fn callbacks_run_once_after_the_response_was_sent() {
    let (server, mut events, gate) = start_with_gate(
        r##"run lambda { |env|
          env["rack.response_finished"] << lambda { |e, status, headers, error|
            Test.pass("body")
            Test.tell("finished #{e.equal?(env)} #{status} #{headers && headers["x-a"]} #{error&.message.inspect}")
          }
          env["rack.response_finished"] << lambda { |*| raise "callback-error" }
          env["rack.after_reply"] << lambda { Test.tell("after reply") }
          raise "app-error" if env["PATH_INFO"] == "/raise"
          [200, { "x-a" => "b" }, Test::Body.new { |to| to.call("hello") }]
        }"##,
    );
    let mut client = server.connect();
    // Whole, although a callback still waits.
    assert_eq!(client.get("/").text(), "hello");
    let mut found = events.take(2);
    gate.admit(1);
    found.extend(events.take(2));
    assert!(found.contains(&"body closed".to_owned()), "{found:?}");
    assert!(found.contains(&"after reply".to_owned()), "{found:?}");
    assert!(
        found.contains(&"finished true 200 b nil".to_owned()),
        "{found:?}"
    );
    server.log().wait(|line| line.contains("callback-error"));
    gate.admit(1);
    client.get("/raise").expect(500);
    let found = events.take(3);
    assert!(found.contains(&"after reply".to_owned()), "{found:?}");
    let finished = found.iter().find(|event| event.starts_with("finished"));
    assert!(
        finished.is_some_and(|event| event.contains("\"app-error\"")),
        "{found:?}"
    );
    assert_eq!(all_events(server, events), [""; 0]);
}

#[test]
fn a_body_without_end_is_closed_once_when_its_client_leaves() {
    for leave in [Client::reset, |client: Client| drop(client)] {
        let (server, mut events) = start(
            r##"run lambda { |env|
              next Test.text("hello") if env["PATH_INFO"] == "/other"
              piece = "x" * 65_536
              [200, {}, Test::Body.new { |to| loop { to.call(piece) } }]
            }"##,
        );
        let mut client = server.connect();
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        client.head();
        client.chunk().expect("a first chunk");
        leave(client);
        assert_eq!(events.wait(), "body closed");
        // Its thread is free again.
        assert_eq!(server.get("/other").text(), "hello");
        server
            .log()
            .wait(|line| line.contains("outcome=client_closed"));
        assert_eq!(all_events(server, events), [""; 0]);
    }
}

#[test]
fn a_client_that_leaves_before_the_response_costs_one_close() {
    let (server, mut events, gate) = start_with_gate(
        r##"run lambda { |env| Test.pass("body"); [200, {}, Test::Body.new { |to| to.call("hello") }] }"##,
    );
    let mut client = server.connect();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(events.wait(), "at body");
    client.reset();
    gate.admit(2);
    assert_eq!(events.wait(), "body closed");
    assert_eq!(server.get("/").text(), "hello");
    assert_eq!(all_events(server, events), ["at body", "body closed"]);
}
