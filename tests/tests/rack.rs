//! What an application is given: the Rack env of 2.2 and 3, whom it may believe about the client, and its input.

use serde_json::Value;
use test_support::{Application, Client, Probe, Server};

fn env(answer: &Value) -> &serde_json::Map<String, Value> {
    answer["env"].as_object().expect("an object")
}

#[test]
fn the_env_has_every_key_of_rack_2_and_3() {
    let mut probe = Probe::default();
    let answer = probe
        .answer("GET /a%2Fb/%C3%A9?c=d%20e&f HTTP/1.1\r\nHost: example.com:81\r\nUser-Agent: x\r\nAccept: */*\r\n\r\n")
        .json();
    let env = env(&answer);
    for (key, value) in [
        ("REQUEST_METHOD", "GET"),
        ("SCRIPT_NAME", ""),
        ("PATH_INFO", "/a%2Fb/%C3%A9"),
        ("QUERY_STRING", "c=d%20e&f"),
        ("SERVER_NAME", "example.com"),
        ("SERVER_PORT", "81"),
        ("SERVER_PROTOCOL", "HTTP/1.1"),
        ("REMOTE_ADDR", "127.0.0.1"),
        ("HTTP_HOST", "example.com:81"),
        ("HTTP_USER_AGENT", "x"),
        ("HTTP_ACCEPT", "*/*"),
        ("rack.url_scheme", "http"),
    ] {
        assert_eq!(env.get(key).and_then(Value::as_str), Some(value), "{key}");
    }
    assert!(
        env["SERVER_SOFTWARE"]
            .as_str()
            .is_some_and(|name| name.starts_with("highball")),
        "{env:?}"
    );
    let classes = answer["classes"].as_object().expect("an object");
    for (key, class) in [
        ("rack.version", "Array"),
        ("rack.multithread", "FalseClass"),
        ("rack.run_once", "FalseClass"),
        ("rack.hijack?", "TrueClass"),
        ("rack.response_finished", "Array"),
        ("rack.after_reply", "Array"),
        ("highball.deadline", "Float"),
    ] {
        assert_eq!(
            classes.get(key).and_then(Value::as_str),
            Some(class),
            "{key}"
        );
    }
    for key in ["rack.errors", "rack.multiprocess", "rack.hijack"] {
        assert!(classes.contains_key(key), "{key}");
    }
    for key in [
        "HTTP_CONTENT_TYPE",
        "HTTP_CONTENT_LENGTH",
        "CONTENT_LENGTH",
        "CONTENT_TYPE",
        "HTTP_CONNECTION_X",
        // Offered where the setting says so; see `responses.rs`.
        "rack.early_hints",
    ] {
        assert!(!env.contains_key(key), "{key}");
    }
}

#[test]
fn server_name_and_port_come_from_the_host_or_the_listener() {
    let mut probe = Probe::default();
    let port = probe.server.address().port().to_string();
    for (request, name, expect) in [
        ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", "a", "80"),
        (
            "GET / HTTP/1.1\r\nHost: [::1]:8080\r\n\r\n",
            "[::1]",
            "8080",
        ),
        (
            "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-Proto: https\r\n\r\n",
            "a",
            "443",
        ),
        ("GET / HTTP/1.0\r\n\r\n", "127.0.0.1", port.as_str()),
    ] {
        let answer = probe.answer(request).json();
        assert_eq!(answer["env"]["SERVER_NAME"], name, "{request:?}");
        assert_eq!(answer["env"]["SERVER_PORT"], expect, "{request:?}");
    }
}

#[test]
fn the_protocol_is_that_of_the_request() {
    let mut probe = Probe::default();
    let answer = probe.answer("GET / HTTP/1.0\r\nHost: a\r\n\r\n").json();
    assert_eq!(answer["env"]["SERVER_PROTOCOL"], "HTTP/1.0");
}

#[test]
fn repeated_fields_are_joined_and_cookies_with_a_semicolon() {
    let mut probe = Probe::default();
    let answer = probe
        .answer("GET / HTTP/1.1\r\nHost: a\r\nX-A: 1\r\nCookie: a=1\r\nx-a: 2\r\nCookie: b=2\r\nX-A: 3\r\n\r\n")
        .json();
    let list = answer["env"]["HTTP_X_A"].as_str().expect("a text");
    assert_eq!(list.replace(", ", ","), "1,2,3");
    assert_eq!(answer["env"]["HTTP_COOKIE"], "a=1; b=2");
}

#[test]
fn content_type_and_length_have_no_prefix() {
    let mut probe = Probe::default();
    let answer = probe
        .answer(
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Type: text/x\r\nContent-Length: 5\r\n\r\nhello",
        )
        .json();
    let env = env(&answer);
    assert_eq!(env["CONTENT_TYPE"], "text/x");
    assert_eq!(env["CONTENT_LENGTH"], "5");
    assert_eq!(answer["body"], "hello");
    assert!(!env.contains_key("HTTP_CONTENT_TYPE") && !env.contains_key("HTTP_CONTENT_LENGTH"));
}

/// Everything by which a proxy speaks for its client.
const FORWARDED: &str = "X-Forwarded-For: 192.0.2.7\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: public.example\r\n\
                         X-Forwarded-Port: 443\r\nX-Forwarded-Ssl: on\r\nForwarded: for=192.0.2.7\r\nX-Real-IP: 192.0.2.7\r\n";
const FORWARDED_KEYS: [&str; 7] = [
    "HTTP_X_FORWARDED_FOR",
    "HTTP_X_FORWARDED_PROTO",
    "HTTP_X_FORWARDED_HOST",
    "HTTP_X_FORWARDED_PORT",
    "HTTP_X_FORWARDED_SSL",
    "HTTP_FORWARDED",
    "HTTP_X_REAL_IP",
];

#[test]
fn x_forwarded_is_believed_from_trusted_proxies() {
    let mut probe = Probe::default();
    let answer = probe
        .answer(format!("GET / HTTP/1.1\r\nHost: a\r\n{FORWARDED}\r\n"))
        .json();
    let env = env(&answer);
    assert_eq!(env["rack.url_scheme"], "https");
    assert_eq!(env["HTTP_X_FORWARDED_FOR"], "192.0.2.7");
    assert_eq!(env["HTTP_X_FORWARDED_HOST"], "public.example");
    assert_eq!(env["REMOTE_ADDR"], "127.0.0.1");
}

#[test]
fn x_forwarded_from_anybody_else_never_reaches_the_application() {
    for trusted in ["none", "10.0.0.0/8", "unix"] {
        let mut probe = Probe::with(|builder| builder.setting("trusted_proxies", trusted));
        let answer = probe
            .answer(format!("GET / HTTP/1.1\r\nHost: a\r\n{FORWARDED}\r\n"))
            .json();
        let env = env(&answer);
        assert_eq!(env["rack.url_scheme"], "http");
        assert_eq!(env["REMOTE_ADDR"], "127.0.0.1");
        for key in FORWARDED_KEYS {
            assert!(
                !env.contains_key(key),
                "{key} with trusted_proxies={trusted}"
            );
        }
    }
}

#[test]
fn fields_that_name_a_client_or_a_target_are_for_trusted_proxies() {
    let names = [
        "True-Client-IP",
        "CF-Connecting-IP",
        "CF-Connecting-IPv6",
        "CF-Pseudo-IPv4",
        "Fastly-Client-IP",
        "Fly-Client-IP",
        "Client-IP",
        "X-Client-IP",
        "X-Cluster-Client-IP",
        "X-Real-IP",
        "X-Forwarded",
        "X-Forwarded-For",
        "X-Forwarded-By",
        "X-Original-Forwarded-For",
        "X-Envoy-External-Address",
        "X-Azure-ClientIP",
        "X-Remote-IP",
        "X-Remote-Addr",
        "X-Originating-IP",
        "X-ProxyUser-IP",
        "Forwarded",
        "Forwarded-For",
        "Forwarded-Proto",
        "Front-End-Https",
        "X-Original-URL",
        "X-Original-URI",
        "X-Rewrite-URL",
        "X-Original-Host",
        "X-Host",
        "X-URL-Scheme",
        "X-Request-Start",
        "X-Queue-Start",
        "X-Sendfile-Type",
        "X-Accel-Mapping",
        "X-Accel-Redirect",
    ];
    let fields: String = names
        .iter()
        .map(|name| format!("{name}: 192.0.2.7\r\n"))
        .collect();
    let request = format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}X-Requested-With: b\r\n\r\n");
    for (trusted, believed) in [("127.0.0.1", true), ("none", false)] {
        let mut probe = Probe::with(|builder| builder.setting("trusted_proxies", trusted));
        let answer = probe.answer(&request).json();
        let env = env(&answer);
        for name in names {
            let key = format!("HTTP_{}", name.to_uppercase().replace('-', "_"));
            let reached = env.get(&key).is_some_and(|value| value == "192.0.2.7");
            assert_eq!(reached, believed, "{name}");
        }
        assert_eq!(env["HTTP_X_REQUESTED_WITH"], "b");
    }
}

#[test]
fn a_peer_on_a_unix_socket_is_trusted_when_unix_is() {
    for (trusted, scheme) in [("unix", "https"), ("127.0.0.0/8", "http")] {
        let application = Application::new(test_support::reflect());
        let (_events, path) = (application.events(), application.path().join("a.sock"));
        let _server = Server::application_of(application)
            .listen(["unix:a.sock"])
            .setting("trusted_proxies", trusted)
            .start();
        let mut client = Client::connect_unix(&path);
        client.send(format!("GET / HTTP/1.1\r\nHost: a\r\n{FORWARDED}\r\n"));
        let answer = client.response().json();
        assert_eq!(answer["env"]["rack.url_scheme"], scheme);
        assert_eq!(
            env(&answer).contains_key("HTTP_X_FORWARDED_FOR"),
            scheme == "https"
        );
    }
}

#[test]
fn row_11_an_underscore_is_dropped_from_trusted_proxies_too() {
    let mut probe = Probe::default();
    let answer = probe
        .answer("GET / HTTP/1.1\r\nHost: a\r\nX_Forwarded_Proto: https\r\nX_A: b\r\n\r\n")
        .json();
    assert_eq!(answer["env"]["rack.url_scheme"], "http");
    for key in ["HTTP_X_FORWARDED_PROTO", "HTTP_X_A"] {
        assert!(!env(&answer).contains_key(key), "{answer}");
    }
}

/// Reads the input in every way that Rack knows, and tells what it is.
const READING: &str = r##"require "digest/md5"
run lambda { |env|
  input = env["rack.input"]
  whole = input.read
  raise "not rewound" unless input.read(1).nil? && input.read == ""
  # The Lint of Rack 3 hides this method.
  next Test.text("#{input.class} #{whole.bytesize}") unless input.respond_to?(:rewind)
  input.rewind
  buffer = +"previous"
  first = input.read(3, buffer)
  raise "buffer" unless whole.empty? ? first.nil? : first.equal?(buffer)
  rest = input.read
  raise "parts" unless first.to_s + rest.to_s == whole
  input.rewind
  lines = []
  input.each { |line| lines << line }
  raise "lines" unless lines.join == whole
  input.rewind
  raise "gets" unless input.gets.to_s == lines.first.to_s
  raise "encoding" unless whole.encoding == Encoding::BINARY
  input.rewind
  Test.text("#{input.class} #{whole.bytesize} #{Digest::MD5.hexdigest(whole)}")
}"##;

#[test]
fn the_input_can_be_read_in_every_way_and_rewound() {
    let (linted, plain) = (
        Server::app(READING).start(),
        Server::application_of(Application::without_lint(READING)).start(),
    );
    for server in [&linted, &plain] {
        let mut client = server.connect();
        let mut last = String::new();
        for size in [1, 3, 4, 1000, 65_535, 65_536, 65_537, 200_000, 3_000_000] {
            let body: Vec<u8> = (0..size)
                .map(|i| if i % 61 == 60 { b'\n' } else { (i % 256) as u8 })
                .collect();
            let response = client.post("/", &body);
            let text = response.expect(200).text();
            assert_eq!(text.split(' ').nth(1), Some(size.to_string().as_str()));
            last = text;
        }
        let _ = last;
    }
}

#[test]
fn a_body_too_large_for_a_slot_is_a_file() {
    let server = Server::application_of(Application::without_lint(READING)).start();
    let response = server.connect().post("/", vec![b'b'; 3_000_000]);
    let text = response.text();
    assert!(text.starts_with("File "), "{text}");
    let response = server.connect().post("/", "small");
    assert!(!response.text().starts_with("File "), "{}", response.text());
}

#[test]
fn a_body_that_nobody_reads_disturbs_nobody() {
    let server = Server::app(r##"run lambda { |env| Test.text("unread") }"##).start();
    let mut client = server.connect();
    for size in [5, 100_000, 3_000_000] {
        assert_eq!(client.post("/", vec![b'b'; size]).text(), "unread");
    }
}

#[test]
fn what_one_request_does_to_its_env_no_other_sees() {
    let server = Server::application_of(Application::without_lint(
        r##"run lambda { |env|
          seen = env.keys.grep(/\Atest\./) + [env["PATH_INFO"].dup, env["QUERY_STRING"].dup, env["SERVER_NAME"].dup, env["rack.response_finished"].size, env["rack.after_reply"].size]
          env["test.left"] = 1
          env["rack.response_finished"] << proc {}
          env["rack.after_reply"] << proc {}
          %w[PATH_INFO QUERY_STRING SERVER_NAME REQUEST_METHOD].each { |key| env[key] << "x" unless env[key].frozen? }
          env.delete("rack.url_scheme")
          Test.text(seen.inspect)
        }"##,
    ))
    .start();
    let mut client = server.connect();
    let first = client.get("/a?b").text();
    assert_eq!(first, r#"["/a", "b", "test", 0, 0]"#);
    for _ in 0..3 {
        assert_eq!(client.get("/a?b").text(), first);
    }
}

#[test]
fn multithread_and_multiprocess_tell_the_truth() {
    // With one worker there may still be another process: the worker that follows it.
    for (workers, threads, expect) in [
        (2, 1, "false true"),
        (1, 3, "true true"),
        (2, 2, "true true"),
    ] {
        let server = Server::app(
            r##"run lambda { |env| Test.text("#{env["rack.multithread"]} #{env["rack.multiprocess"]}") }"##,
        )
        .workers(workers)
        .threads(threads)
        .start();
        assert_eq!(server.get("/").text(), expect);
    }
}

#[test]
fn threads_of_one_worker_run_requests_side_by_side() {
    let application = Application::new(
        r##"run lambda { |env| Test.pass("work"); Test.text(Process.pid.to_s) }"##,
    );
    let (mut events, gate) = (application.events(), application.gate("work"));
    let server = Server::application_of(application).threads(3).start();
    let mut clients: Vec<Client> = (0..3).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    assert_eq!(events.take(3), ["at work"; 3]);
    gate.admit(3);
    let pids: Vec<String> = clients
        .iter_mut()
        .map(|client| client.response().text())
        .collect();
    assert!(pids.iter().all(|pid| *pid == pids[0]), "{pids:?}");
}

#[test]
fn rack_errors_reaches_the_log() {
    let server = Server::app(
        r##"run lambda { |env| env["rack.errors"].puts("written to rack.errors"); env["rack.errors"].flush; Test.text("hello") }"##,
    )
    .start();
    server.get("/").expect(200);
    server
        .log()
        .wait(|line| line.contains("written to rack.errors"));
}

#[test]
fn the_application_sees_its_folder_and_its_environment() {
    let server = Server::app(
        r##"run lambda { |env| Test.text([Dir.pwd, ENV["RACK_ENV"], ENV["RAILS_ENV"]].join(" ")) }"##,
    )
    .start();
    let folder = server.dir().canonicalize().expect("it exists");
    assert_eq!(
        server.get("/").text(),
        format!("{} staging staging", folder.display())
    );
}
