//! Compression of responses: who gets which coding, what is left alone, what fields say, streams, entity tags, bounds.

use std::io::{Read, Write};
use std::process::Command;
use std::thread;
use std::time::Duration;

use highball_tests::browser::keep_pictures;
use test_support::{Application, Client, Fault, Response, Server, until};

/// What a client of each coding sends, and the name of the coding.
const CODINGS: [(&str, &str); 3] = [("zstd", "zstd"), ("gzip", "gzip"), ("br", "br")];

/// A page of as many bytes as the query says, or what the query is as an env says.
const PAGES: &str = r##"
  WORDS = %w[order invoice customer shipped pending paid berlin london]
  def page(bytes) = (0..bytes / 5).map { |at| "#{WORDS[at * at % 7]} #{at}\n" }.join[0, bytes]
  run lambda { |env|
    fields = { "content-type" => "text/html; charset=utf-8" }
    env["QUERY_STRING"].split("&").each do |pair|
      name, value = pair.split("=", 2)
      value ? fields[name] = Rack::Utils.unescape(value) : fields.delete(name)
    end
    path = env["PATH_INFO"]
    status = fields.delete("status").to_i.nonzero? || 200
    # Threads of one lambda share its `$1`.
    number = path[/\d+/].to_i
    case path
    when %r{\A/\d+\z} then [status, fields, [page(number)]]
    when %r{\A/file/} then [status, fields, File.open(File.join(Dir.pwd, "page.html"))]
    when %r{\A/stream/}
      pieces = Enumerator.new { |to| number.times { |at| to << page(1000 + at) } }
      [status, fields, pieces]
    end
  }
"##;

fn pages() -> Server {
    Server::application_of(Application::without_lint(PAGES)).start()
}

/// Asks with these lines of the head, and returns the response.
fn ask(client: &mut Client, method: &str, target: &str, fields: &str) -> Response {
    client.send(format!(
        "{method} {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"
    ));
    client.response_to(method)
}

/// The same, of a client that accepts `codings`.
fn accepting(client: &mut Client, target: &str, codings: &str) -> Response {
    let fields = format!("Accept-Encoding: {codings}\r\n");
    ask(client, "GET", target, &fields)
}

/// Decodes what there is of a body, whole or not.
fn decode(coding: &str, body: &[u8]) -> (Vec<u8>, bool) {
    let mut plain = Vec::new();
    let read = match coding {
        "zstd" => zstd::Decoder::new(body)
            .expect("a decoder")
            .read_to_end(&mut plain),
        "gzip" => flate2::read::GzDecoder::new(body).read_to_end(&mut plain),
        "br" => brotli::Decompressor::new(body, 4096).read_to_end(&mut plain),
        other => panic!("unknown coding {other:?}"),
    };
    (plain, read.is_ok())
}

/// The body that the client sees.
fn plain(response: &Response) -> Vec<u8> {
    let Some(coding) = response.field("content-encoding") else {
        return response.body.clone();
    };
    let (plain, whole) = decode(coding, &response.body);
    assert!(whole, "{:?}", response.head);
    plain
}

#[test]
fn each_coding_decodes_to_what_the_application_sent() {
    let server = pages();
    let mut client = server.connect();
    for target in [
        "/1024",
        "/20000",
        "/100000",
        "/3000000",
        "/stream/2",
        "/stream/900",
    ] {
        let identity = accepting(&mut client, target, "identity");
        assert_eq!(identity.field("content-encoding"), None);
        assert_eq!(identity.values("vary"), ["accept-encoding"], "{target}");
        for (accepted, coding) in CODINGS {
            let response = accepting(&mut client, target, accepted);
            assert_eq!(response.field("content-encoding"), Some(coding), "{target}");
            assert_eq!(response.values("vary"), ["accept-encoding"]);
            assert_eq!(plain(&response), identity.body, "{coding} {target}");
            assert!(response.body.len() < identity.body.len() / 2);
        }
    }
}

#[test]
fn a_client_gets_the_coding_that_it_likes_best() {
    let server = pages();
    let mut client = server.connect();
    for (accepted, coding) in [
        ("gzip, deflate, br, zstd", Some("zstd")),
        ("gzip, deflate, br", Some("gzip")),
        ("br;q=1, gzip;q=0.5", Some("br")),
        ("zstd;q=0, *;q=0.1", Some("gzip")),
        ("identity;q=1, gzip;q=0.5", None),
        ("gzip;q=0", None),
        ("deflate", None),
        ("", None),
    ] {
        let response = accepting(&mut client, "/5000", accepted);
        assert_eq!(response.field("content-encoding"), coding, "{accepted:?}");
        assert_eq!(plain(&response).len(), 5000);
    }
    let two = "Accept-Encoding: gzip;q=0.2\r\naccept-encoding: br\r\n";
    let response = ask(&mut client, "GET", "/5000", two);
    assert_eq!(response.field("content-encoding"), Some("br"));
}

#[test]
fn what_must_not_be_compressed_is_left_alone() {
    let server = pages();
    let mut client = server.connect();
    for (target, varies) in [
        ("/1023", false),
        ("/5000?content-type=image/png", false),
        ("/5000?content-type=text/event-stream;charset=utf-8", false),
        ("/5000?content-type", false),
        ("/5000?content-encoding=x", false),
        ("/5000?status=206", false),
        ("/5000?content-range=bytes+0-4999/5000", false),
        ("/5000?cache-control=public,+no-transform", false),
        ("/5000?repr-digest=sha-256=:AA==:", false),
        ("/5000?content-digest=sha-256=:AA==:", false),
        ("/5000?status=204", false),
    ] {
        let response = accepting(&mut client, target, "zstd, gzip");
        let expected = target.contains("content-encoding").then_some("x");
        assert_eq!(response.field("content-encoding"), expected, "{target}");
        assert_eq!(response.field("vary").is_some(), varies, "{target}");
    }
    let fields = "Accept-Encoding: gzip\r\nCache-Control: no-transform\r\n";
    let response = ask(&mut client, "GET", "/5000", fields);
    assert_eq!(response.field("content-encoding"), None);
    client.send("GET /5000 HTTP/1.0\r\nAccept-Encoding: gzip\r\n\r\n");
    let response = client.response();
    assert_eq!(response.field("content-encoding"), None);
    assert_eq!(response.field("vary"), Some("accept-encoding"));
}

#[test]
fn fields_say_what_the_body_is() {
    let server = pages();
    let mut client = server.connect();
    for (vary, expected) in [
        ("Cookie", vec!["Cookie", "accept-encoding"]),
        ("Origin,+Accept-Encoding", vec!["Origin, Accept-Encoding"]),
        ("*", vec!["*"]),
    ] {
        let response = accepting(&mut client, &format!("/5000?vary={vary}"), "gzip");
        assert_eq!(response.values("vary"), expected);
    }
    let target = "/5000?content-length=5000&accept-ranges=bytes&etag=\"a\"";
    for method in ["GET", "HEAD"] {
        let fields = "Accept-Encoding: gzip\r\n";
        let response = ask(&mut client, method, target, fields);
        assert_eq!(response.field("content-encoding"), Some("gzip"), "{method}");
        assert_eq!(response.field("accept-ranges"), None);
        assert_eq!(response.field("etag"), Some("W/\"a--encoded\""));
        let length = (method == "GET").then(|| response.body.len().to_string());
        assert_eq!(response.field("content-length"), length.as_deref());
    }
    let response = accepting(&mut client, "/40000?content-length=40000", "gzip");
    assert_eq!(response.field("content-length"), None);
    assert_eq!(plain(&response).len(), 40000);
    let weak = accepting(&mut client, "/5000?etag=W/\"a\"", "gzip");
    assert_eq!(weak.field("etag"), Some("W/\"a\""));
    // What a GET would get is unknown where the length is.
    let head = ask(
        &mut client,
        "HEAD",
        "/stream/5",
        "Accept-Encoding: gzip\r\n",
    );
    assert_eq!(head.field("content-encoding"), None);
    assert_eq!(head.field("vary"), Some("accept-encoding"));
}

#[test]
fn files_of_the_application_are_compressed_by_their_type() {
    let server = pages();
    let page = "a line of the page\n".repeat(20_000);
    std::fs::write(server.dir().join("page.html"), &page).expect("the file");
    let mut client = server.connect();
    let response = accepting(&mut client, "/file/", "gzip");
    assert_eq!(response.field("content-encoding"), Some("gzip"));
    assert_eq!(plain(&response), page.as_bytes());
    let picture = accepting(&mut client, "/file/?content-type=image/png", "gzip");
    assert_eq!(picture.field("content-length"), Some("380000"));
    assert_eq!(picture.body, page.as_bytes());
}

/// What an application with Rack's validators answers: with a strong tag of its own, and with the one of `Rack::ETag`.
const VALIDATED: &str = r##"
  require "rack/etag"
  require "rack/conditional_get"
  use Rack::ConditionalGet
  use Rack::ETag
  run lambda { |env|
    fields = { "content-type" => "text/html" }
    fields["etag"] = "\"strong\"" if env["PATH_INFO"] == "/strong"
    fields["ETag"] = fields.delete("etag") if fields["etag"] && Rack.release < "3"
    fields["x-match"] = env["HTTP_IF_MATCH"] if env["HTTP_IF_MATCH"]
    [200, fields, ["text " * 1000]]
  }
"##;

#[test]
fn a_client_that_returns_its_entity_tag_gets_304_from_the_application() {
    let server = Server::application_of(Application::without_lint(VALIDATED)).start();
    let mut client = server.connect();
    for target in ["/strong", "/weak"] {
        for accepted in ["gzip", "zstd", "br", "identity"] {
            let first = accepting(&mut client, target, accepted);
            let tag = first.field("etag").expect("a tag").to_owned();
            let compressed = accepted != "identity";
            assert_eq!(
                tag.starts_with("W/"),
                compressed || target == "/weak",
                "{tag}"
            );
            let fields = format!("Accept-Encoding: {accepted}\r\nIf-None-Match: {tag}\r\n");
            let second = ask(&mut client, "GET", target, &fields);
            assert_eq!(second.status(), 304, "{target} {accepted} {tag}");
            assert_eq!(second.field("etag"), Some(tag.as_str()));
            assert_eq!(second.field("vary"), Some("accept-encoding"));
            assert_eq!(second.field("content-encoding"), None);
        }
    }
    let fields = "If-Match: W/\"strong--encoded\", \"b\"\r\n";
    let response = ask(&mut client, "PUT", "/weak", fields);
    assert_eq!(response.field("x-match"), Some("\"strong\", \"b\""));
}

/// `fresh_when` of a Rails controller, with a strong and a weak tag.
const RAILS: &str = r##"
  require "action_controller/railtie"
  class Application < Rails::Application
    config.eager_load = false
    config.secret_key_base = "secret"
    config.logger = Logger.new(IO::NULL)
    config.hosts.clear
    routes.append { get "/:kind", to: "pages#show" }
  end
  class PagesController < ActionController::Base
    def show
      fresh_when(params[:kind] == "strong" ? { strong_etag: "page" } : { etag: "page" })
      render html: "text " * 1000 unless performed?
    end
  end
  Rails.application.initialize!
  run Rails.application
"##;

#[test]
fn fresh_when_of_rails_sees_the_tags_that_it_gave() {
    let server = Server::application_of(Application::without_lint(RAILS)).start();
    let mut client = server.connect();
    for kind in ["/strong", "/weak"] {
        let first = accepting(&mut client, kind, "gzip");
        assert_eq!(plain(first.expect(200)).len(), 5000);
        let tag = first.field("etag").expect("a tag");
        let fields = format!("Accept-Encoding: gzip\r\nIf-None-Match: {tag}\r\n");
        let second = ask(&mut client, "GET", kind, &fields);
        assert_eq!(second.expect(304).field("etag"), Some(tag), "{kind}");
    }
}

/// Writes a line, waits at the gate, and writes another one; `/cut` then raises.
const PAUSES: &str = r##"
  run lambda { |env|
    body = Test::Body.new { |to|
      to.call("the first line\n")
      Test.pass("pause")
      raise "cut" if env["PATH_INFO"] == "/cut"
      to.call("the second line\n")
    }
    [200, { "content-type" => "text/plain" }, body]
  }
"##;

#[test]
fn a_stream_that_pauses_shows_what_was_written_and_a_cut_stays_visible() {
    let application = Application::without_lint(PAUSES);
    let (mut events, gate) = (application.events(), application.gate("pause"));
    let server = Server::application_of(application).start();
    for (accepted, coding) in CODINGS {
        for target in ["/whole", "/cut"] {
            let mut client = server.connect();
            client.send(format!(
                "GET {target} HTTP/1.1\r\nHost: a\r\nAccept-Encoding: {accepted}\r\n\r\n"
            ));
            let head = client.head();
            assert_eq!(head.field("content-encoding"), Some(coding));
            assert_eq!(events.wait(), "at pause");
            let mut encoded = Vec::new();
            while decode(coding, &encoded).0 != b"the first line\n" {
                encoded.extend(client.chunk().expect("more of the body"));
            }
            gate.admit(1);
            if target == "/whole" {
                while let Some(chunk) = client.chunk() {
                    encoded.extend(chunk);
                }
                let expected = b"the first line\nthe second line\n".to_vec();
                assert_eq!(decode(coding, &encoded), (expected, true));
            } else {
                let (rest, _) = client.rest();
                assert!(!rest.ends_with(b"0\r\n\r\n"), "{rest:?}");
                assert_eq!(
                    decode(coding, &encoded),
                    (b"the first line\n".to_vec(), false)
                );
            }
            assert_eq!(events.wait(), "body closed");
        }
    }
}

#[test]
fn settings_turn_it_off_and_bound_it_and_a_reload_applies_them() {
    let application = Application::without_lint(PAGES);
    let server = Server::application_of(application)
        .settings_file("compression_min_bytes = 4096\ncompression_types = [\"text/css\"]\n")
        .start();
    let mut client = server.connect();
    let mut compressed = |target: &str, fields: &str| {
        let fields = format!("Accept-Encoding: gzip\r\n{fields}");
        let response = ask(&mut client, "GET", target, &fields);
        (
            response.field("content-encoding").is_some(),
            response.field("vary").is_some(),
        )
    };
    assert_eq!(compressed("/5000", ""), (false, false));
    assert_eq!(
        compressed("/4095?content-type=text/css", ""),
        (false, false)
    );
    assert_eq!(compressed("/4096?content-type=text/css", ""), (true, true));
    let reload = |text: &str| {
        std::fs::write(server.dir().join("highball.toml"), text).expect("the file");
        let ran = server.command(&["reload"]);
        assert!(ran.status.success(), "{}", ran.output());
    };
    reload("compression_skip_authenticated = true\n");
    assert_eq!(compressed("/5000", ""), (true, true));
    assert_eq!(compressed("/5000", "Cookie: a=b\r\n"), (false, true));
    assert_eq!(
        compressed("/5000", "Authorization: Basic eA==\r\n"),
        (false, true)
    );
    reload("compression = false\n");
    assert_eq!(compressed("/5000", ""), (false, false));
}

#[test]
fn the_access_log_has_the_coding_and_the_bytes_that_were_sent() {
    let server = Server::application_of(Application::without_lint(PAGES))
        .setting("log_fields", "bytes,encoding")
        .start();
    let mut client = server.connect();
    for target in ["/5000", "/50000"] {
        let response = accepting(&mut client, target, "zstd");
        let bytes = response.body.len();
        let wanted = format!("path=\"{target}\" status=200 bytes={bytes} encoding=zstd ");
        server.log().wait(|line| line.contains(&wanted));
    }
    accepting(&mut client, "/6000", "identity");
    server
        .log()
        .wait(|line| line.contains("bytes=6000 encoding=- "));
}

#[test]
fn a_stored_page_is_compressed_once_for_each_coding() {
    let server = Server::application_of(Application::without_lint(PAGES))
        .setting("cache_bytes", "16MiB")
        .start();
    let mut client = server.connect();
    for path in ["/5000", "/200000", "/stream/50"] {
        let target = format!("{path}?cache-control=public,max-age=600&etag=\"a\"");
        let page = accepting(&mut client, &target, "identity").body;
        for (accepted, coding) in CODINGS {
            let mut get = || accepting(&mut client, &target, accepted);
            // The random bytes that each compression adds are the same in all: there was one.
            let responses: Vec<_> = (0..12).map(|_| get()).collect();
            for response in &responses {
                assert_eq!(response.field("content-encoding"), Some(coding));
                assert_eq!(response.field("etag"), Some("W/\"a--encoded\""));
                assert_eq!(response.body, responses[0].body, "{path} {coding}");
            }
            assert!(plain(&responses[0]) == page, "{path} {coding}");
        }
        assert!(accepting(&mut client, &target, "identity").body == page);
    }
    assert_eq!(server.status().number("/cache/misses"), 3);
}

#[test]
fn a_small_public_file_is_compressed_once_for_each_coding_and_version() {
    let application = Application::without_lint(PAGES);
    for (name, rows) in [("short.css", 100), ("long.css", 5000)] {
        application
            .dir()
            .write(&format!("static/{name}"), "a { color: red }\n".repeat(rows));
    }
    let server = Server::application_of(application)
        .setting("public_files", "static")
        .start();
    let mut client = server.connect();
    for path in ["/short.css", "/long.css"] {
        let page = accepting(&mut client, path, "identity").body;
        for (accepted, coding) in CODINGS {
            // The random bytes that each compression adds are the same in all: there was one.
            let responses: Vec<_> = (0..12)
                .map(|_| accepting(&mut client, path, accepted))
                .collect();
            for response in &responses {
                assert_eq!(response.field("content-encoding"), Some(coding));
                assert_eq!(response.field("vary"), Some("accept-encoding"));
                assert_eq!(response.field("etag"), responses[0].field("etag"));
                assert_eq!(response.body, responses[0].body, "{path} {coding}");
            }
            assert!(plain(&responses[0]) == page, "{path} {coding}");
            let length = ask(
                &mut client,
                "HEAD",
                path,
                &format!("Accept-Encoding: {accepted}\r\n"),
            );
            assert_eq!(length.field("content-encoding"), Some(coding));
        }
        assert!(accepting(&mut client, path, "identity").body == page);
    }
    let before = accepting(&mut client, "/short.css", "zstd");
    server
        .application()
        .dir()
        .write("static/short.css", "b { color: blue }\n".repeat(100));
    until("the new file is served", || {
        let response = accepting(&mut client, "/short.css", "zstd");
        let is_new = response.field("etag") != before.field("etag");
        let text = if is_new { "b {" } else { "a {" };
        assert!(
            plain(&response).starts_with(text.as_bytes()),
            "the file of its tag"
        );
        is_new
    });
}

#[test]
fn what_compression_does_not_shorten_is_tried_once() {
    let noise = r##"NOISE = Random.bytes(4000)
        run lambda { |env| [200, { "content-type" => "text/plain", "cache-control" => "public, max-age=60" }, [NOISE]] }"##;
    let server = Server::application_of(Application::without_lint(noise))
        .setting("cache_bytes", "1MiB")
        .start();
    let mut client = server.connect();
    for _ in 0..3 {
        let response = accepting(&mut client, "/", "zstd, gzip");
        assert_eq!(response.field("content-encoding"), None);
        assert_eq!(response.body.len(), 4000);
    }
}

#[test]
fn responses_of_one_page_differ_in_length() {
    let server = pages();
    let mut client = server.connect();
    for (accepted, coding) in CODINGS {
        let mut length = || accepting(&mut client, "/5000", accepted).body.len();
        let lengths: std::collections::BTreeSet<_> = (0..40).map(|_| length()).collect();
        assert!(lengths.len() > 5, "{coding} {lengths:?}");
    }
}

#[test]
fn curl_decodes_every_coding() {
    let server = pages();
    let mut client = server.connect();
    for target in ["/5000", "/200000"] {
        let expected = accepting(&mut client, target, "identity").body;
        for (accepted, _) in CODINGS {
            let mut curl = Command::new("curl");
            curl.args(["--silent", "--fail", "--compressed", "--noproxy", "*"]);
            curl.args(["--header", &format!("Accept-Encoding: {accepted}")]);
            let ran = curl
                .arg(format!("http://{}{target}", server.address()))
                .output();
            let ran = ran.expect("curl runs");
            assert!(ran.status.success() && ran.stdout == expected, "{accepted}");
        }
    }
}

#[test]
fn chromium_shows_pages_of_every_size_in_the_coding_that_it_asks_for() {
    let server = Server::application_of(Application::without_lint(
        r##"run lambda { |env|
          rows = "<p>row</p>" * env["PATH_INFO"].delete("/").to_i
          [200, { "content-type" => "text/html" }, ["<!doctype html>#{rows}<b id=last>the end</b>"]]
        }"##,
    ))
    .setting("log_fields", "encoding")
    .start();
    for rows in ["/300", "/20000"] {
        let name = format!("compressed-{}", &rows[1..]);
        // Chromium asks for zstd and brotli over TLS, and of this host alone.
        let address = format!("http://localhost:{}{rows}", server.address().port());
        keep_pictures(&address, "#last", &name, server.dir());
        let wanted = format!("path=\"{rows}\" status=200 encoding=zstd ");
        server.log().wait(|line| line.contains(&wanted));
    }
}

#[test]
fn many_clients_at_once_get_their_own_pages() {
    let server = Server::application_of(Application::without_lint(PAGES))
        .threads(4)
        .start();
    let lengths = (0..200).map(|at| 1000 + at * 397);
    let expected: Vec<_> = {
        let mut client = server.connect();
        let mut page = |bytes| accepting(&mut client, &format!("/{bytes}"), "identity").body;
        lengths.clone().map(|bytes| (bytes, page(bytes))).collect()
    };
    thread::scope(|scope| {
        for (at, (bytes, page)) in expected.iter().enumerate() {
            let (accepted, _) = CODINGS[at % CODINGS.len()];
            let mut client = server.connect().patience(Duration::from_secs(120));
            scope.spawn(move || {
                for _ in 0..2 {
                    let response = accepting(&mut client, &format!("/{bytes}"), accepted);
                    let seen = plain(&response);
                    let same = seen
                        .iter()
                        .zip(page)
                        .take_while(|(one, other)| one == other);
                    assert!(
                        seen == *page,
                        "{bytes} {accepted}: {} bytes, the first {} right; {:?}",
                        seen.len(),
                        same.count(),
                        response.head
                    );
                }
            });
        }
    });
}

#[test]
fn a_huge_body_takes_no_more_memory_than_a_large_one() {
    let server = Server::app(
        r##"
          PIECE = Random.new(1).bytes(32 * 1024).unpack1("H*")
          run lambda { |env|
            count = env["PATH_INFO"].delete("/").to_i
            [200, { "content-type" => "text/plain" }, Enumerator.new { |to| count.times { to << PIECE } }]
          }
        "##,
    )
    .start();
    let read = |count: usize| {
        let mut client = server.connect().patience(Duration::from_secs(120));
        client.send(format!(
            "GET /{count} HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n"
        ));
        assert_eq!(client.head().field("content-encoding"), Some("gzip"));
        let mut decoder = flate2::write::GzDecoder::new(Counter(0));
        while let Some(chunk) = client.chunk() {
            decoder.write_all(&chunk).expect("gzip");
        }
        assert_eq!(decoder.finish().expect("gzip").0, count * 64 * 1024);
        server.process().high_water().expect("a figure")
    };
    let large = read(64);
    let huge = read(320);
    assert!(huge < large + 16 * 1024 * 1024, "{huge} after {large}");
}

/// Counts bytes.
struct Counter(usize);

impl Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_body_shorter_than_its_length_is_cut_visibly_in_any_coding() {
    let server = Server::application_of(Application::without_lint(
        r##"run lambda { |env|
          body = Enumerator.new { |to| to << "text " * 1000; to << "more" * 1000 }
          [200, { "content-type" => "text/plain", "content-length" => "100000" }, body]
        }"##,
    ))
    .start();
    for (accepted, coding) in CODINGS {
        let mut client = server.connect();
        client.send(format!(
            "GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: {accepted}\r\n\r\n"
        ));
        match client.try_response("GET") {
            Err(Fault::Truncated { response, .. }) => {
                let (plain, whole) = decode(coding, &response.body);
                assert!(!whole && plain.len() <= 9000, "{coding}");
            }
            Ok(response) => drop(response.expect(500)),
            Err(fault) => panic!("{fault}"),
        }
    }
}
