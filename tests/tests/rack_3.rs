//! What Rack 3 has beside Rack 2: streaming bodies and upgrades. Each test runs under both, and under Rack 3 with that
//! one's own Rack::Lint around the application. `scripts/rack-3` brings it to target/rack-3.

use std::path::Path;

use test_support::{Application, Server, expect_echo};

/// A server for `source` under each Rack, with its name.
fn under_each_rack(source: &str) -> [(&'static str, Server); 2] {
    let rack_3 = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/rack-3/lib");
    assert!(rack_3.join("rack.rb").exists(), "run scripts/rack-3 first");
    let search_path = format!("RUBYLIB={}", rack_3.display());
    // Its Lint refuses what only Rack 3 knows.
    let installed = Server::application_of(Application::without_lint(source)).start();
    let with_lint = format!("raise Rack.release unless Rack.release.start_with?(\"3.\")\n{source}");
    let third = Server::app(&with_lint)
        .under(&["env", &search_path])
        .start();
    [("installed", installed), ("3", third)]
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
          body = env["rack.input"]&.read.to_s
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
