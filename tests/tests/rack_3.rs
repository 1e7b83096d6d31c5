//! The SPECs of Rack 2.2, 3.1 and 3.2, and what Rack 3 has beside Rack 2: streaming bodies, upgrades, requests without an
//! input. The applications run under the Rack::Lint of their Rack. `scripts/rack-3` unpacks them into target.

use test_support::{Application, Server, expect_echo, workspace};

/// The releases, and where they are below `target`.
const RACKS: [(&str, &str); 3] = [("2.2", "rack-2.2"), ("3.1", "rack-3"), ("3.2", "rack-3.2")];

/// A server for an application under one of them.
fn under_rack((release, folder): (&str, &str), application: Application) -> Server {
    let library = workspace().join("target").join(folder).join("lib");
    assert!(library.join("rack.rb").exists(), "run scripts/rack-3 first");
    let search_path = format!("RUBYLIB={}", library.display());
    let config_ru = application.read("config.ru");
    let check = format!("Rack.release.start_with?(\"{release}.\") or raise Rack.release\n");
    application.dir().write("config.ru", check + &config_ru);
    Server::application_of(application)
        .under(&["env", &search_path])
        .start()
}

/// A server for `source` under each Rack, with its release. The Lint of Rack 2.2 refuses what only Rack 3 knows.
fn under_each_rack(source: &str) -> [(&'static str, Server); 3] {
    RACKS.map(|rack| {
        let application = match rack.0 {
            "2.2" => Application::without_lint(source),
            _ => Application::new(source),
        };
        (rack.0, under_rack(rack, application))
    })
}

#[test]
fn requests_of_every_kind_pass_the_lint_of_each_rack() {
    for rack in RACKS {
        let source = r##"run lambda { |env|
          input = env["rack.input"]
          offered = Array(env["rack.protocol"]).join(" and ")
          seen = [env["REQUEST_METHOD"], env["PATH_INFO"], input ? input.read.to_s.bytesize : "none", offered]
          Test.text(seen.join("|"), headers: { "x-version" => env["HTTP_VERSION"].inspect })
        }"##;
        let server = under_rack(rack, Application::new(source));
        let (none, offered) = match rack.0 {
            "2.2" => ("0", ""),
            _ => ("none", "h2c and echo/1"),
        };
        let body = "x".repeat(200_000);
        let length = body.len();
        let requests = [
            ("GET /a%20b?c=d HTTP/1.1\r\nHost: a:80\r\n\r\n".into(), format!("GET|/a%20b|{none}|")),
            ("GET http://[::1]:80 HTTP/1.1\r\nHost: [::1]:80\r\n\r\n".into(), format!("GET|/|{none}|")),
            ("GET //a//b HTTP/1.1\r\nHost: a\r\n\r\n".into(), format!("GET|//a//b|{none}|")),
            ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nin".into(), "POST|/|2|".into()),
            ("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n".into(), format!("PUT|/|{none}|")),
            (
                "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nin\r\n0\r\n\r\n".into(),
                "POST|/|2|".into(),
            ),
            (
                format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n{body}"),
                format!("POST|/|{length}|"),
            ),
            (
                "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: h2c, echo/1\r\n\r\n".into(),
                format!("GET|/|{none}|{offered}"),
            ),
            ("DELETE / HTTP/1.0\r\nHost: a\r\n\r\n".into(), format!("DELETE|/|{none}|")),
        ];
        for (request, expected) in requests {
            let mut client = server.connect();
            let response = client.send(request).response();
            assert_eq!(response.expect(200).text(), expected, "Rack {}", rack.0);
            let version = response.field("x-version").map(str::to_owned);
            let protocol = if expected.starts_with("DELETE") {
                "0"
            } else {
                "1"
            };
            let expected = match rack.0 {
                "2.2" => format!("\"HTTP/1.{protocol}\""),
                _ => "nil".to_owned(),
            };
            assert_eq!(version, Some(expected), "Rack {}", rack.0);
        }
    }
}

#[test]
fn rack_protocol_upgrades_to_what_the_client_offers() {
    let source = r##"run lambda { |env|
      next Test.text("hello") unless env["rack.protocol"] == ["echo"]
      echo = lambda { |stream|
        Thread.new do
          while (line = stream.read(4))
            stream << "echo " << line
            stream.flush
          end
          stream.close
        end
      }
      protocol = env["PATH_INFO"] == "/other" ? "other" : "echo"
      [200, { "rack.protocol" => protocol }, echo]
    }"##;
    for rack in &RACKS[1..] {
        let server = under_rack(*rack, Application::new(source));
        let head = expect_echo(&server, "/");
        assert_eq!(
            (head.status, head.field("upgrade")),
            (101, Some("echo")),
            "Rack {}",
            rack.0
        );
        // Without the Lint, which refuses it itself.
        let server = under_rack(*rack, Application::without_lint(source));
        let mut client = server.connect();
        client
            .send("GET /other HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n");
        client.response().expect(500);
        server
            .log()
            .wait(|line| line.contains("which the client does not offer"));
    }
}

#[test]
fn since_rack_3_a_line_break_in_a_header_is_refused() {
    let source = r##"run lambda { |env|
      env["rack.early_hints"]&.call("link" => "</a>\n</b>")
      body = env["PATH_INFO"] == "/array" ? ["a"] : Enumerator.new { |to| to << "a" }
      [200, { "content-type" => "text/plain", "x-list" => "1\n2" }, body]
    }"##;
    for rack in RACKS {
        let server = under_rack(rack, Application::without_lint(source));
        for path in ["/array", "/each"] {
            let response = server.get(path);
            match rack.0 {
                "2.2" => assert_eq!(response.expect(200).values("x-list"), ["1", "2"]),
                _ => assert_eq!(response.status(), 500, "Rack {}", rack.0),
            }
        }
        if rack.0 != "2.2" {
            server
                .log()
                .wait(|line| line.contains("since Rack 3 several values are an array"));
        }
    }
}

#[test]
fn the_streaming_body_of_a_101_gets_the_upgraded_connection() {
    for (rack, server) in under_each_rack(
        r##"run lambda { |env|
          next Test.text("hello") unless env["HTTP_UPGRADE"] == "echo"
          echo = lambda { |stream|
            Thread.new do
              while (line = stream.read(4))
                stream << "echo " << line
                stream.flush
              end
              stream.close
            end
          }
          [101, { "upgrade" => "echo" }, echo]
        }"##,
    ) {
        let head = expect_echo(&server, "/");
        assert_eq!(head.field("connection"), Some("Upgrade"), "Rack {rack}");
        assert_eq!(head.field("transfer-encoding"), None, "Rack {rack}");
        server.log().wait(|line| line.contains("outcome=hijacked"));
    }
}

#[test]
fn an_upgraded_stream_that_raises_ends_its_connection() {
    for (rack, server) in under_each_rack(
        r##"run lambda { |env|
          [101, { "upgrade" => "echo" }, ->(stream) { stream.write("begun"); raise "broken stream" }]
        }"##,
    ) {
        let mut client = server.connect();
        client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n");
        assert_eq!(client.head().status, 101, "Rack {rack}");
        assert_eq!(client.rest().0, b"begun");
        server.log().wait(|line| line.contains("broken stream"));
    }
}

#[test]
fn a_partial_hijack_after_head_sends_no_content() {
    for (rack, server) in under_each_rack(
        r##"run lambda { |env|
          content = ->(stream) { stream.write("content"); stream.close }
          [200, { "content-type" => "text/plain", "x-a" => "b", "rack.hijack" => content }, []]
        }"##,
    ) {
        let mut client = server.connect();
        for _ in 0..2 {
            client.ask("HEAD", "/");
            let response = client.response_to("HEAD");
            assert_eq!(response.expect(200).field("x-a"), Some("b"), "Rack {rack}");
        }
        // Content of those before would be read as the start of this.
        client.ask("GET", "/");
        assert_eq!(client.head().status, 200);
        assert_eq!(client.rest().0, b"content");
    }
}

#[test]
fn responses_of_every_kind_pass_the_lint_of_rack_3() {
    for (rack, server) in under_each_rack(
        r##"class Listed
          def initialize = @closed = false
          def to_ary = ["hel", "lo"].tap { close }
          def each(&block) = to_ary.each(&block)
          def close = @closed = true
        end
        BODIES = {
          "/array" => -> { ["hel", "lo"] },
          "/each" => -> { Enumerator.new { |to| to << "hel" << "lo" } },
          "/to_ary" => -> { Listed.new },
          "/file" => -> { File.open("hello", "rb") },
          "/stream" => -> { ->(stream) { stream << "hel"; stream.write("lo"); stream.flush; stream.close } }
        }
        File.write("hello", "hello")
        run lambda { |env|
          env["rack.response_finished"] << ->(*) { Test.tell("finished") }
          body = Test.input(env)
          [200, { "content-type" => "text/plain", "x-body" => body, "set-cookie" => %w[a=1 b=2] }, BODIES.fetch(env["PATH_INFO"]).call]
        }"##,
    ) {
        let mut events = server.application().events();
        let mut client = server.connect();
        for path in ["/array", "/each", "/to_ary", "/file", "/stream"] {
            let response = client.post(path, "in");
            assert_eq!(response.expect(200).text(), "hello", "Rack {rack}: {path}");
            assert_eq!(response.field("x-body"), Some("in"));
            assert_eq!(response.values("set-cookie"), ["a=1", "b=2"]);
            assert_eq!(events.wait(), "finished");
            client.ask("HEAD", path);
            client.response_to("HEAD").expect(200);
            assert_eq!(events.wait(), "finished");
        }
    }
}
