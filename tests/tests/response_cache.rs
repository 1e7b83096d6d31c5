//! The response cache: what is answered without the application, what never is, and what becomes of it.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use test_support::{Application, Client, Events, Gate, Response, Server, ServerBuilder, until};

/// Answers with what the query asks for, and counts: `body` says how often the application was asked.
const COUNTS: &str = r##"
    count = 0
    run lambda { |env|
      count += 1
      query = Rack::Utils.parse_query(env["QUERY_STRING"])
      headers = query.slice("cache-control", "x-accel-expires", "x-accel-buffering", "etag", "vary", "set-cookie", "cache-tag", "location")
      Test.pass("answer") if query["waits"]
      next [304, {}, []] if query["etag"] && env["HTTP_IF_NONE_MATCH"] == query["etag"]
      raise "fails" if query["fails"] && count > 1
      Test.text("#{count} #{env["HTTP_COOKIE"]}", headers: headers)
    }"##;

fn server(source: &str) -> ServerBuilder {
    Server::app(source)
        .workers(1)
        .setting("cache_bytes", "4MiB")
}

fn started() -> Server {
    server(COUNTS).start()
}

/// Asks with these lines of the head.
fn ask(server: &Server, target: &str, fields: &str) -> Response {
    let mut client = server.connect();
    client.send(format!("GET {target} HTTP/1.1\r\n{fields}\r\n\r\n"));
    client.response()
}

/// Has the cache forget something, and returns what the command says.
fn purge(server: &Server, arguments: &[&str]) -> String {
    let ran = server.command(&[&["purge"], arguments].concat());
    assert!(ran.status.success(), "{}", ran.output());
    ran.stdout.trim().to_owned()
}

/// A server whose application waits with each request that wants it to.
struct Waiting {
    server: Server,
    gate: Gate,
    events: Events,
}

impl Waiting {
    /// Starts one with so many threads.
    fn start(threads: usize) -> Self {
        let server = server(COUNTS).threads(threads).start();
        let (gate, events) = (
            server.application().gate("answer"),
            server.application().events(),
        );
        Self {
            server,
            gate,
            events,
        }
    }

    /// A client whose request waits in the application.
    fn begin(&mut self, target: &str) -> Client {
        let client = self.server.ask("GET", target);
        self.events.wait();
        client
    }

    /// Has the application answer a request, and returns the body.
    fn answered(&mut self, target: &str) -> String {
        let mut client = self.begin(target);
        self.gate.admit(1);
        client.response().expect(200).text()
    }
}

#[test]
fn a_public_response_is_used_again_and_says_so() {
    let server = started();
    let target = "/?cache-control=public,max-age=60";
    let first = server.get(target);
    assert_eq!((first.text().trim(), first.field("age")), ("1", None));
    let second = server.get(target);
    assert_eq!(second.text().trim(), "1");
    assert!(second.field("age").is_some());
    let status = second.field("cache-status").expect("a field");
    assert!(status.starts_with("Highball; hit; ttl="), "{status}");
    let mut head = server.ask("HEAD", target);
    let head = head.response_to("HEAD");
    assert_eq!(head.field("content-length"), Some("2"));
    assert_eq!(
        server
            .get("/?cache-control=public,max-age=61")
            .text()
            .trim(),
        "2"
    );
}

#[test]
fn x_accel_expires_decides_and_stays_in_the_server() {
    let server = server(COUNTS).setting("trusted_proxies", "none").start();
    let target = "/?x-accel-expires=60&x-accel-buffering=yes&cache-control=no-cache";
    for _ in 0..2 {
        let response = server.get(target);
        assert_eq!(response.text().trim(), "1");
        for name in ["x-accel-expires", "x-accel-buffering"] {
            assert_eq!(response.field(name), None);
        }
    }
    let never = "/?x-accel-expires=0&cache-control=public,max-age=60";
    for count in ["2", "3"] {
        assert_eq!(server.get(never).text().trim(), count);
    }
    for count in ["4", "5"] {
        let response = ask(&server, "/", "Host: test\r\nX-Accel-Expires: 60");
        assert_eq!(response.text().trim(), count);
    }
}

#[test]
fn a_trusted_proxy_gets_the_fields_that_may_be_for_it() {
    let server = started();
    let target = "/?x-accel-expires=60&x-accel-buffering=no";
    let first = server.get(target);
    assert_eq!(first.field("x-accel-buffering"), Some("no"));
    assert_eq!(first.field("x-accel-expires"), Some("60"));
    // Its time has begun.
    let stored = server.get(target);
    assert!(stored.field("age").is_some());
    assert_eq!(stored.field("x-accel-expires"), None);
}

#[test]
fn a_stored_response_has_the_id_of_the_request_that_it_answers() {
    let server = server(
        r##"run lambda { |env|
            headers = { "cache-control" => "public, max-age=60", "x-request-id" => env["HTTP_X_REQUEST_ID"] }
            Test.text("hello", headers: headers)
        }"##,
    )
    .start();
    let ask = |id: &str| ask(&server, "/", &format!("Host: test\r\nX-Request-Id: {id}"));
    for id in ["one", "two"] {
        assert_eq!(ask(id).field("x-request-id"), Some(id));
    }
    assert!(ask("three").field("age").is_some());
}

#[test]
fn a_websocket_at_the_url_of_a_stored_page_reaches_the_application() {
    let server = server(
        r##"run lambda { |env|
            next Test.text("socket") if env["HTTP_UPGRADE"]
            Test.text("page", headers: { "cache-control" => "public, max-age=60" })
        }"##,
    )
    .start();
    for _ in 0..2 {
        assert_eq!(server.get("/").text(), "page");
    }
    let upgrade = "Host: test\r\nConnection: Upgrade\r\nUpgrade: websocket";
    assert_eq!(ask(&server, "/", upgrade).text(), "socket");
    assert_eq!(server.get("/").text(), "page");
}

#[test]
fn a_client_gets_304_or_a_part_of_what_is_stored() {
    let server = started();
    let target = "/?cache-control=public,max-age=60&etag=%22a%22";
    server.get(target).expect(200);
    let ask = |fields: &str| ask(&server, target, &format!("Host: test\r\n{fields}"));
    assert_eq!(ask("If-None-Match: W/\"a\"").status(), 304);
    let part = ask("Range: bytes=0-0");
    assert_eq!((part.status(), part.text().as_str()), (206, "1"));
    assert_eq!(part.field("content-range"), Some("bytes 0-0/2"));
    assert_eq!(ask("Range: bytes=9-").status(), 416);
}

#[test]
fn nothing_is_stored_where_the_cache_is_off_or_not_named() {
    let off = Server::app(COUNTS).workers(1).start();
    let target = "/?cache-control=public,max-age=60";
    assert_eq!(off.get(target).text().trim(), "1");
    let second = off.get(target);
    assert_eq!(
        (second.text().trim(), second.field("cache-status")),
        ("2", None)
    );
    let server = started();
    for control in ["max-age=60", "private,max-age=60", "public,no-store", ""] {
        let target = format!("/?cache-control={control}");
        let bodies = [server.get(&target).text(), server.get(&target).text()];
        assert_ne!(bodies[0], bodies[1], "{control}");
    }
}

#[test]
fn of_two_users_none_gets_what_is_the_others() {
    let server = server(
        r##"run lambda { |env|
            user = env["HTTP_COOKIE"] || env["HTTP_AUTHORIZATION"]
            control = case env["PATH_INFO"]
                      when "/private" then "private, max-age=60"
                      when "/cookie" then "public, max-age=60"
                      when "/login" then "max-age=60"
                      when "/vary" then "public, max-age=60"
                      end
            headers = { "cache-control" => control }
            headers["set-cookie"] = "session=#{user}" if env["PATH_INFO"] == "/cookie"
            headers["vary"] = "Cookie, Authorization" if env["PATH_INFO"] == "/vary"
            Test.text(user, headers: headers)
        }"##,
    )
    .start();
    let mut client = server.connect();
    let host = server.address();
    for round in 0..10_000 {
        let path = ["/private", "/cookie", "/login", "/vary"][round % 4];
        let user = ["ann", "bob"][round / 4 % 2];
        let field = ["Cookie", "Authorization"][round / 8 % 2];
        client.send(format!(
            "GET {path} HTTP/1.1\r\nHost: {host}\r\n{field}: {user}\r\n\r\n"
        ));
        assert_eq!(client.response().text(), user, "{path} {field}");
    }
}

#[test]
fn a_stale_response_is_validated_and_used_again() {
    let server = started();
    let target = "/?cache-control=public,max-age=0&etag=%22a%22";
    server.get(target).expect(200);
    let again = server.get(target);
    assert_eq!((again.status(), again.text().trim()), (200, "1"));
    assert_eq!(
        again.field("cache-status"),
        Some("Highball; fwd=stale; fwd-status=304")
    );
}

#[test]
fn a_stale_response_is_sent_while_another_one_is_fetched() {
    let server = started();
    let target = "/?cache-control=public,max-age=0,stale-while-revalidate=60";
    assert_eq!(server.get(target).text().trim(), "1");
    assert_eq!(server.get(target).text().trim(), "1");
    // The second one is fetched meanwhile.
    until("another one is stored", || {
        server.get(target).text().trim() != "1"
    });
}

#[test]
fn a_validation_is_logged_as_the_fronts_own_request() {
    let server = started();
    let target = "/?cache-control=public,max-age=0,stale-while-revalidate=60";
    server.get(target).expect(200);
    let mut client = server.connect();
    let stale = client.get(target);
    let id = stale.field("x-request-id").expect("an id").to_owned();
    let own = server.log().wait(|line| line.contains("client=\"front\""));
    assert!(own.contains(target) && own.contains("outcome=ok"), "{own}");
    assert!(own.contains("request_id="), "{own}");
    assert!(!own.contains(&id), "{own}");
    let line = server.log().wait(|line| line.contains(&id));
    assert!(
        line.contains("worker=-") && !line.contains("client="),
        "{line}"
    );
    // Of a client are two requests, and what was asked for meanwhile is none.
    let status = server.status();
    assert_eq!(status.number("/counters/ok"), 2);
    assert_eq!(status.number("/responses/2xx"), 2);
    assert_eq!(status.number("/cache/renewals"), 1);
}

#[test]
fn where_the_application_fails_a_stale_response_may_be_sent() {
    let server = started();
    let target = "/?cache-control=public,max-age=0,stale-if-error=60&fails=1";
    assert_eq!(server.get(target).text().trim(), "1");
    let stale = server.get(target);
    assert_eq!((stale.status(), stale.text().trim()), (200, "1"));
    let target = "/?cache-control=public,max-age=0&fails=1";
    assert_eq!(server.get(target).status(), 500);
}

#[test]
fn of_many_requests_for_what_is_stale_one_goes_to_the_application() {
    let mut waiting = Waiting::start(4);
    let target = "/?cache-control=public,max-age=60&waits=1";
    waiting.answered(target);
    purge(&waiting.server, &["--all"]);
    let mut clients: Vec<Client> = (0..8).map(|_| waiting.server.ask("GET", target)).collect();
    waiting.events.wait();
    waiting.gate.admit(1);
    let bodies: BTreeSet<String> = clients
        .iter_mut()
        .map(|client| client.response().text())
        .collect();
    assert_eq!(bodies, BTreeSet::from(["2 ".to_owned()]));
}

#[test]
fn requests_that_wait_for_a_response_that_is_anothers_get_their_own() {
    const CLIENTS: usize = 6;
    // Stored at first, so that requests wait for one another; then each user's alone.
    let source = r##"
        asked = Hash.new(0)
        run lambda { |env|
          path, user = env.values_at("PATH_INFO", "HTTP_COOKIE")
          next Test.text("other") if path == "/other"
          is_first = (asked[path] += 1) == 1
          Test.pass("answer")
          is_private = path == "/private" && !is_first
          headers = { "cache-control" => "#{is_private ? "private" : "public"}, max-age=60" }
          headers["set-cookie"] = user if path == "/cookie" && !is_first
          Test.text(user.to_s, headers: headers)
        }"##;
    let server = server(source).threads(CLIENTS + 1).start();
    let (gate, mut events) = (
        server.application().gate("answer"),
        server.application().events(),
    );
    for path in ["/private", "/cookie"] {
        let mut first = server.ask("GET", path);
        events.wait();
        gate.admit(1);
        first.response().expect(200);
        purge(&server, &["--all"]);
        let ask = |user: usize| {
            let mut client = server.connect();
            let fields = format!("Host: {}\r\nCookie: user-{user}", server.address());
            client.send(format!("GET {path} HTTP/1.1\r\n{fields}\r\n\r\n"));
            client
        };
        let mut clients: Vec<Client> = (0..CLIENTS).map(ask).collect();
        // One is in the application, and the front has read the others: a later one is answered.
        events.wait();
        server.get("/other").expect(200);
        gate.admit(CLIENTS);
        for (user, client) in clients.iter_mut().enumerate() {
            let (response, own) = (client.response(), format!("user-{user}"));
            assert_eq!(response.text(), own, "{path}");
            let cookie = (path == "/cookie").then_some(&*own);
            assert_eq!(response.field("set-cookie"), cookie, "{path}");
        }
        // Each one has been in the application.
        (1..CLIENTS).for_each(|_| drop(events.wait()));
    }
    assert_eq!(events.rest(), [""; 0]);
}

#[test]
fn a_request_does_not_wait_for_ever_for_anothers_response() {
    let mut waiting = Waiting::start(2);
    let target = "/?cache-control=public,max-age=60&waits=1";
    waiting.answered(target);
    purge(&waiting.server, &["--all"]);
    let mut leads = waiting.begin(target);
    // It goes to the application itself in the end, while the first one still waits there.
    let mut waits = waiting.begin(target);
    waiting.gate.admit(2);
    leads.response().expect(200);
    waits.response().expect(200);
}

#[test]
fn nothing_longer_than_the_limit_is_stored() {
    let source = r##"
        count = 0
        run lambda { |env|
          body = (count += 1).to_s * Integer(env["QUERY_STRING"])
          Test.text(body, headers: { "cache-control" => "public, max-age=60" })
        }"##;
    let server = server(source).setting("cache_entry_bytes", "1KiB").start();
    assert_eq!(server.get("/?1024").text(), server.get("/?1024").text());
    assert_ne!(server.get("/?1025").text(), server.get("/?1025").text());
}

#[test]
fn a_stored_response_is_sent_while_every_thread_is_busy() {
    let mut waiting = Waiting::start(1);
    let target = "/?cache-control=public,max-age=60";
    waiting.server.get(target).expect(200);
    let mut busy = waiting.begin("/?waits=1");
    assert_eq!(waiting.server.get(target).text().trim(), "1");
    waiting.gate.admit(1);
    busy.response().expect(200);
}

#[test]
fn a_purge_forgets_by_url_prefix_and_tag() {
    let server = started();
    let target = |path: &str| {
        format!(
            "{path}?cache-control=public,max-age=60&cache-tag=all,x{}",
            path.len()
        )
    };
    let urls = [target("/a"), target("/a/b"), target("/c/d/e")];
    let stored = || {
        urls.iter()
            .map(|url| server.get(url).text())
            .collect::<Vec<_>>()
    };
    let purge = |arguments: &[&str]| purge(&server, arguments);
    let before = stored();
    assert_eq!(stored(), before);
    assert_eq!(purge(&["--url", &urls[0]]), "forgot the responses of 1 URL");
    let after = stored();
    assert_eq!((&after[1..], after[0] == before[0]), (&before[1..], false));
    let url = "http://test/a";
    assert_eq!(purge(&["--prefix", url]), "forgot the responses of 2 URLs");
    assert_eq!(stored()[2], before[2]);
    assert_eq!(purge(&["--tag", "x6"]), "forgot the responses of 1 URL");
    assert_eq!(purge(&["--tag", "x6"]), "forgot the responses of 0 URLs");
    stored();
    assert_eq!(purge(&["--all"]), "forgot the responses of 3 URLs");
    let off = Server::app(COUNTS).start();
    let ran = off.command(&["purge", "--all"]);
    assert_eq!(ran.status.code(), Some(1));
    assert!(
        ran.stderr
            .contains("the response cache is off: set cache_bytes"),
        "{}",
        ran.output()
    );
}

#[test]
fn what_was_asked_for_before_a_purge_is_not_stored_after_it() {
    let mut waiting = Waiting::start(2);
    let target = "/?cache-control=public,max-age=60&cache-tag=x&waits=1";
    for what in [
        &["--all"][..],
        &["--url", target],
        &["--prefix", "/"],
        &["--tag", "x"],
    ] {
        let mut before = waiting.begin(target);
        purge(&waiting.server, what);
        waiting.gate.admit(1);
        before.response().expect(200);
        let after = waiting.answered(target);
        assert_eq!(waiting.server.get(target).text(), after, "{what:?}");
        purge(&waiting.server, &["--all"]);
    }
}

#[test]
fn a_change_forgets_its_url_and_where_it_leads() {
    let server = started();
    let target = "/?cache-control=public,max-age=60";
    let other = "/other?cache-control=public,max-age=60";
    assert_eq!(server.get(target).text().trim(), "1");
    assert_eq!(server.get(other).text().trim(), "2");
    let mut client = server.connect();
    let location = "%2Fother%3Fcache-control%3Dpublic%2Cmax-age%3D60";
    client
        .post(&format!("/?location={location}"), "x")
        .expect(200);
    assert_eq!(server.get(target).text().trim(), "1");
    assert_eq!(server.get(other).text().trim(), "4");
    client.post(target, "x").expect(200);
    assert_eq!(server.get(target).text().trim(), "6");
}

#[test]
fn after_a_restart_what_is_stored_is_stale() {
    let server = started();
    let target = "/?cache-control=public,max-age=60";
    assert_eq!(server.get(target).text().trim(), "1");
    assert!(server.command(&["restart"]).status.success());
    let next = server.get(target);
    // A new process counts from the beginning.
    assert_eq!((next.text().trim(), next.field("age")), ("1", None));
    assert_eq!(server.get(target).field("age"), Some("0"));
}

#[test]
fn the_host_and_a_proxys_word_on_it_tell_responses_apart() {
    let server = server(
        r##"run lambda { |env|
            host = env["HTTP_X_FORWARDED_HOST"] || env["HTTP_HOST"]
            Test.text(host, headers: { "cache-control" => "public, max-age=60" })
        }"##,
    )
    .start();
    let ask = |fields: &str| ask(&server, "/", fields).text();
    for _ in 0..2 {
        assert_eq!(ask("Host: a"), "a");
        assert_eq!(ask("Host: b"), "b");
        assert_eq!(ask("Host: a\r\nX-Forwarded-Host: evil"), "evil");
    }
}

/// The folder that `scripts/http-cache-tests` fills.
fn cache_tests() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let folder = root.join("target/http-cache-tests/node_modules/http-cache-tests");
    assert!(folder.exists(), "run scripts/http-cache-tests first");
    folder.canonicalize().expect("it exists")
}

#[test]
fn required_http_cache_tests_pass_that_any_other_cache_passes() {
    let (folder, own) = (
        cache_tests(),
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/http_cache"),
    );
    let mut origin = Command::new("node")
        .arg(own.join("origin.mjs"))
        .arg(&folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("node");
    let mut port = String::new();
    let mut lines = BufReader::new(origin.stdout.take().expect("a pipe"));
    lines.read_line(&mut port).expect("a port");
    let source = std::fs::read_to_string(own.join("config.ru")).expect("it is there");
    let server = Server::application_of(Application::without_lint(&source))
        .workers(1)
        .threads(10)
        .setting("cache_bytes", "64MiB")
        .setting("cache_policy", "standard")
        .env("ORIGIN_PORT", port.trim())
        .start();
    let ran = Command::new("node")
        .arg("--no-warnings")
        .arg(own.join("run.mjs"))
        .arg(&folder)
        .arg(format!("http://{}", server.address()))
        .output()
        .expect("node");
    drop(origin.stdin.take());
    origin.wait().expect("the origin ends");
    let text = String::from_utf8_lossy(&ran.stdout);
    let results: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(results["missed"], serde_json::json!([]), "{results}");
    // Squid passes 262 of all and is the best of the other caches; see docs/caching.md.
    assert!(results["passed"].as_u64() >= Some(280), "{results}");
}
