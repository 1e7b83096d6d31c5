//! Listeners with TLS: handshakes, certificates, and HTTP/1.1 over them.

mod hostile;
mod idle;

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use highball_tests::authority::{Authority, Key, Signed};
use highball_tests::operators;
use highball_tests::tls::{Client, configuration, field, with_http_2};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, HandshakeKind, NamedGroup};
use serde_json::Value;
use test_support::{
    Application, Events, Program, Server, ServerBuilder, TEST_TIMEOUT, reflect, until, workspace,
};

/// Answers with the length of the body, with a long body at `/long`, and with hints first at `/hints`.
const SOURCE: &str = r##"
run lambda { |env|
  case env["PATH_INFO"]
  when "/long" then next [200, { "content-type" => "text/plain" }, ["0123456789abcdef" * 65_536]]
  when "/hints"
    env["rack.early_hints"].call("link" => "</a.css>; rel=preload")
    Test.pass("hints", "hinted")
  end
  Test.text(Test.input(env).bytesize.to_s)
}"##;

/// Writes down each request.
const SEEN: &str = r##"
run lambda { |env|
  File.open("seen", "a") { |file| file.syswrite("#{env["PATH_INFO"]}\n") }
  Test.text("seen")
}"##;

/// Takes the connection over and answers each line in capitals, up to `end`.
const HIJACK: &str = r##"
run lambda { |env|
  headers = { "connection" => "upgrade", "upgrade" => "echo" }
  headers["rack.hijack"] = lambda do |io|
    while (line = io.gets)
      io.write(line.upcase)
      break if line == "end\n"
    end
    io.close
  end
  [101, headers, []]
}"##;

/// A server with TLS for `localhost`, and what a client needs for it.
struct Fixture {
    authority: Authority,
    server: Server,
    _events: Events,
    trusting: Arc<ClientConfig>,
}

impl Fixture {
    fn start(source: &str, settings: impl FnOnce(ServerBuilder) -> ServerBuilder) -> Self {
        let authority = Authority::new();
        let application = Application::without_lint(source);
        let _events = application.events();
        authority
            .sign(&["localhost"])
            .write(&application, "localhost");
        let builder = Server::application_of(application)
            .listen(["tls://127.0.0.1:0"])
            .setting("tls_certificate_files", "localhost.pem:localhost.key");
        Self {
            trusting: configuration(&authority, &[&TLS13, &TLS12], None),
            server: settings(builder).start(),
            _events,
            authority,
        }
    }

    fn connect(&self) -> Client {
        let connected = Client::connect(self.server.tls_address(), "localhost", &self.trusting);
        connected.expect("a handshake")
    }

    /// Whether a handshake for this name succeeds, or its error.
    fn handshake(&self, name: &str) -> Result<Client, String> {
        let connected = Client::connect(self.server.tls_address(), name, &self.trusting);
        connected.map_err(|error| error.to_string())
    }
}

/// The serial number of the certificate that the server has shown.
fn shown(client: &Client) -> Vec<u8> {
    let shown = client.session().peer_certificates().expect("a certificate");
    shown[0].to_vec()
}

#[test]
fn requests_come_over_both_versions_of_tls_as_https() {
    let mut one = Fixture::start(reflect(), |builder| builder);
    for version in [&TLS12, &TLS13] {
        one.trusting = configuration(&one.authority, &[version], None);
        let mut client = one.connect();
        assert_eq!(client.session().protocol_version(), Some(version.version));
        assert_eq!(client.session().alpn_protocol(), Some(&b"http/1.1"[..]));
        for path in ["/a", "/b"] {
            let answer = client.get("localhost", path).expect("an answer");
            assert_eq!(answer.status, 200, "{}", answer.head);
            for part in [
                "\"rack.url_scheme\":\"https\"",
                "\"SERVER_PORT\":\"443\"",
                "\"SERVER_NAME\":\"localhost\"",
            ] {
                assert!(answer.body.contains(part), "{part}: {}", answer.body);
            }
        }
    }
}

#[test]
fn a_client_that_offers_hybrid_key_exchange_gets_it() {
    let mut one = Fixture::start(SOURCE, |builder| builder);
    for (version, expected) in [
        (&TLS13, NamedGroup::X25519MLKEM768),
        // It knows no hybrid groups.
        (&TLS12, NamedGroup::X25519),
    ] {
        one.trusting = configuration(&one.authority, &[version], None);
        let offered = &one.trusting.crypto_provider().kx_groups;
        assert!(offered.iter().any(|group| group.name() == expected));
        let client = one.connect();
        let group = client.session().negotiated_key_exchange_group();
        assert_eq!(group.map(|group| group.name()), Some(expected));
    }
}

#[test]
fn long_bodies_pass_both_ways() {
    let one = Fixture::start(SOURCE, |builder| builder);
    let mut client = one.connect();
    let length = 3_000_000;
    let head = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n");
    client.send(head.as_bytes()).expect("a connection");
    client.send(&vec![b'a'; length]).expect("a connection");
    assert_eq!(client.response().expect("an answer").body, "3000000");
    let answer = client.get("localhost", "/long").expect("an answer");
    assert_eq!(answer.body, "0123456789abcdef".repeat(65_536));
    // Requests that came in one record.
    let two = "GET /1 HTTP/1.1\r\nHost: a\r\n\r\n".repeat(2);
    client.send(two.as_bytes()).expect("a connection");
    assert_eq!(client.response().expect("an answer").status, 200);
    assert_eq!(client.response().expect("an answer").status, 200);
}

#[test]
fn early_hints_come_before_the_response() {
    let application = Application::new(SOURCE);
    let _events = application.events();
    let gate = application.gate("hints");
    let authority = Authority::new();
    authority
        .sign(&["localhost"])
        .write(&application, "localhost");
    let server = Server::application_of(application)
        .listen(["tls://127.0.0.1:0"])
        .setting("early_hints", "true")
        .setting("tls_certificate_files", "localhost.pem:localhost.key")
        .start();
    let trusting = configuration(&authority, &[&TLS13], None);
    let connected = Client::connect(server.tls_address(), "localhost", &trusting);
    let mut client = connected.expect("a handshake");
    client
        .send(b"GET /hints HTTP/1.1\r\nHost: a\r\n\r\n")
        .expect("a connection");
    let hints = client.head().expect("hints");
    assert!(hints.starts_with("HTTP/1.1 103"), "{hints}");
    gate.open();
    assert_eq!(client.response().expect("an answer").status, 200);
}

#[test]
fn the_name_in_the_handshake_chooses_the_certificate() {
    let authority = Authority::new();
    let application = Application::new(SOURCE);
    let names = [
        ("one", &["one.test", "www.one.test"][..]),
        ("two", &["*.two.test"]),
        ("exact", &["exact.two.test"]),
    ];
    for (file, names) in names {
        authority.sign(names).write(&application, file);
    }
    authority
        .sign_until(&["one.test"], Key::Rsa, 2099)
        .write(&application, "one-rsa");
    let server = Server::application_of(application)
        .listen(["tls://127.0.0.1:0"])
        .setting("tls_certificate_files", "one.pem:one.key,.")
        .start();
    let trusting = configuration(&authority, &[&TLS13, &TLS12], None);
    let connect = |name: &str| Client::connect(server.tls_address(), name, &trusting);
    for name in ["one.test", "www.one.test", "a.two.test", "exact.two.test"] {
        let mut client = connect(name).expect(name);
        assert_eq!(client.get(name, "/").expect("an answer").status, 200);
    }
    let exact = shown(&connect("exact.two.test").expect("a handshake"));
    let wild = shown(&connect("a.two.test").expect("a handshake"));
    assert_ne!(exact, wild);
    for name in ["other.test", "a.b.two.test", "two.test"] {
        let error = connect(name).err().map(|error| error.to_string());
        let error = error.expect("a refusal");
        assert!(error.contains("UnrecognisedName"), "{name}: {error}");
    }
    let line = server.log().wait(|line| line.contains("no certificate"));
    assert!(line.contains("other.test"), "{line}");
    // A client that names no host gets the first certificate; here it cannot check that.
    let error = connect("127.0.0.1").err().map(|error| error.to_string());
    let error = error.expect("it names no address");
    assert!(error.contains("not valid for name"), "{error}");
}

#[test]
fn a_changed_certificate_is_used_without_a_restart() {
    let one = Fixture::start(SOURCE, |builder| builder);
    let before = shown(&one.connect());
    let mut open = one.connect();
    let application = one.server.application();
    // A pair that does not belong together changes nothing.
    let (new, other) = (
        one.authority.sign(&["localhost"]),
        one.authority.sign(&["localhost"]),
    );
    let broken = Signed {
        key: other.key,
        ..new.clone()
    };
    broken.write(application, "localhost");
    let line = one
        .server
        .log()
        .wait(|line| line.contains("earlier one stays"));
    assert!(line.contains("localhost"), "{line}");
    assert_eq!(shown(&one.connect()), before);
    new.write(application, "localhost");
    one.server
        .log()
        .wait(|line| line.contains("read certificates again"));
    until("the new certificate is used", || {
        shown(&one.connect()) != before
    });
    assert_eq!(open.get("a", "/").expect("an answer").status, 200);
}

#[test]
fn sessions_are_resumed_by_tickets() {
    let mut one = Fixture::start(SOURCE, |builder| builder);
    for version in [&TLS12, &TLS13] {
        one.trusting = configuration(&one.authority, &[version], None);
        let mut first = one.connect();
        assert_eq!(first.session().handshake_kind(), Some(HandshakeKind::Full));
        first.get("a", "/").expect("an answer");
        let mut second = one.connect();
        second.get("a", "/").expect("an answer");
        assert_eq!(
            second.session().handshake_kind(),
            Some(HandshakeKind::Resumed)
        );
    }
}

#[test]
fn handshakes_are_counted_by_result_and_version_over_an_upgrade() {
    let mut one = Fixture::start(SOURCE, |builder| {
        builder.setting("metrics_listen", "127.0.0.1:0")
    });
    let operators = operators::address(&one.server, "metrics_listen");
    for version in [&TLS12, &TLS13, &TLS13] {
        one.trusting = configuration(&one.authority, &[version], None);
        for _ in 0..2 {
            one.connect().get("a", "/").expect("an answer");
        }
    }
    assert!(one.handshake("unknown.test").is_err());
    let ran = one.server.command(&["upgrade"]);
    assert!(ran.status.success(), "{}", ran.output());
    one.server.replaced_by(ran.process());
    one.connect().get("a", "/").expect("an answer");
    let text = operators::get(&operators, "/metrics").expect(200).text();
    let prefix = "highball_tls_handshakes_total";
    let mut lines: Vec<_> = text
        .lines()
        .filter_map(|line| line.strip_prefix(prefix))
        .collect();
    lines.sort_unstable();
    let expected = [
        "{result=\"failed\",version=\"\"} 1",
        "{result=\"full\",version=\"1.2\"} 1",
        "{result=\"full\",version=\"1.3\"} 3",
        "{result=\"resumed\",version=\"1.2\"} 1",
        "{result=\"resumed\",version=\"1.3\"} 2",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn plain_http_on_a_port_with_tls_gets_an_answer_that_says_so() {
    let one = Fixture::start(SOURCE, |builder| builder);
    let mut socket = TcpStream::connect(one.server.tls_address()).expect("a connection");
    socket
        .set_read_timeout(Some(TEST_TIMEOUT))
        .expect("a socket");
    let request = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    socket.write_all(request).expect("a connection");
    let mut answer = String::new();
    socket.read_to_string(&mut answer).expect("text");
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    assert!(body.contains("https://"), "{answer}");
    let length = field(head, "content-length").map(str::to_owned);
    assert_eq!(length, Some(body.len().to_string()));
}

#[test]
fn certificates_of_clients_are_checked_and_reach_the_application() {
    let signer = Authority::new();
    let mut one = Fixture::start(reflect(), |builder| {
        builder
            .application()
            .dir()
            .write("clients.pem", &signer.pem);
        builder
            .setting("tls_client_ca_file", "clients.pem")
            .setting("tls_client_verify", "optional")
    });
    let (known, unknown) = (signer.sign(&["alice"]), one.authority.sign(&["mallory"]));
    let mut without = one.connect();
    let forged = "GET / HTTP/1.1\r\nHost: a\r\nSSL-Client-Verify: SUCCESS\r\n\r\n";
    without.send(forged.as_bytes()).expect("a connection");
    let answer = without.response().expect("an answer");
    assert!(
        answer.body.contains("\"SSL_CLIENT_VERIFY\":\"NONE\""),
        "{}",
        answer.body
    );
    for version in [&TLS12, &TLS13] {
        one.trusting = configuration(&one.authority, &[version], Some(&known));
        let answer = one.connect().get("a", "/").expect("an answer");
        for part in [
            "\"SSL_CLIENT_VERIFY\":\"SUCCESS\"",
            "\"SSL_CLIENT_S_DN\":\"CN=alice\"",
            "\"SSL_CLIENT_CERT\":\"-----BEGIN CERTIFICATE-----\\n",
        ] {
            assert!(answer.body.contains(part), "{part}: {}", answer.body);
        }
        one.trusting = configuration(&one.authority, &[version], Some(&unknown));
        let refused = one.handshake("localhost").and_then(|mut client| {
            // With TLS 1.3 the client hears of it after the handshake.
            client.get("a", "/").map_err(|error| error.to_string())
        });
        assert!(refused.is_err(), "{refused:?}");
    }
}

#[test]
fn what_a_client_with_a_certificate_gets_is_not_stored_for_others() {
    let signer = Authority::new();
    let source = r##"run lambda { |env|
        subject = env["SSL_CLIENT_S_DN"] || "nobody"
        Test.text(subject, headers: { "cache-control" => "max-age=60" })
    }"##;
    let mut one = Fixture::start(source, |builder| {
        builder
            .application()
            .dir()
            .write("clients.pem", &signer.pem);
        builder
            .setting("tls_client_ca_file", "clients.pem")
            .setting("tls_client_verify", "optional")
            .setting("cache_bytes", "1MiB")
            .setting("cache_policy", "standard")
    });
    let alice = signer.sign(&["alice"]);
    let plain = Arc::clone(&one.trusting);
    let with_certificate = configuration(&one.authority, &[&TLS13], Some(&alice));
    for _ in 0..2 {
        one.trusting = Arc::clone(&with_certificate);
        let answer = one.connect().get("localhost", "/").expect("an answer");
        assert_eq!(answer.body, "CN=alice");
        one.trusting = Arc::clone(&plain);
        let answer = one.connect().get("localhost", "/").expect("an answer");
        assert_eq!(answer.body, "nobody");
    }
}

#[test]
fn a_client_that_does_not_finish_its_handshake_is_closed() {
    let one = Fixture::start(SOURCE, |builder| builder.setting("header_timeout", "1s"));
    let mut sockets: Vec<_> = (0..20)
        .map(|_| TcpStream::connect(one.server.tls_address()).expect("a connection"))
        .collect();
    for (at, socket) in sockets.iter_mut().enumerate() {
        socket
            .set_read_timeout(Some(TEST_TIMEOUT))
            .expect("a socket");
        // A record that promises more, byte by byte or not at all.
        let begun = [22, 3, 1, 2, 0, 1, 0, 1];
        socket.write_all(&begun[..at % 9]).expect("a connection");
    }
    assert_eq!(one.connect().get("a", "/").expect("an answer").status, 200);
    for mut socket in sockets {
        let mut rest = Vec::new();
        // An end or a reset.
        let _ = socket.read_to_end(&mut rest);
    }
    one.server
        .log()
        .wait(|line| line.contains("longer than header_timeout"));
    until("no connection is left", || {
        one.server.status().number("/connections") == 0
    });
}

#[test]
fn clients_with_tls_lose_nothing_in_an_upgrade() {
    const CLIENTS: usize = 4;
    let one = Fixture::start(SEEN, |builder| builder.workers(2));
    let mut idle = one.connect();
    assert_eq!(idle.get("a", "/idle").expect("an answer").status, 200);
    let (stop, sent) = (AtomicBool::new(false), AtomicUsize::new(0));
    let Fixture {
        mut server,
        trusting,
        _events,
        ..
    } = one;
    let address = server.tls_address();
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                let mut open: Option<Client> = None;
                while !stop.load(Ordering::Relaxed) {
                    let mut client = open.take().unwrap_or_else(|| {
                        Client::connect(address, "localhost", &trusting).expect("a handshake")
                    });
                    let number = sent.fetch_add(1, Ordering::Relaxed);
                    let answer = client.get("a", &format!("/{number}")).expect("an answer");
                    assert_eq!(answer.status, 200, "{}", answer.head);
                    let closes = field(&answer.head, "connection") == Some("close");
                    open = (!closes).then_some(client);
                }
            });
        }
        let done = || sent.load(Ordering::Relaxed);
        for _ in 0..2 {
            let before = done();
            until("requests run", || done() > before + 50);
            let ran = server.command(&["upgrade"]);
            assert_eq!(ran.status.code(), Some(0), "{}", ran.output());
            let old = server.replaced_by(ran.process());
            assert!(old.wait_gone(TEST_TIMEOUT), "the old server ends");
        }
        let before = done();
        until("requests run", || done() > before + 50);
        stop.store(true, Ordering::Relaxed);
    });
    // It was told, and not cut off.
    assert_eq!(idle.rest().expect("an announced end"), b"");
    let seen = server.application().read("seen");
    let seen: Vec<_> = seen.lines().filter(|line| *line != "/idle").collect();
    let unique: BTreeSet<_> = seen.iter().collect();
    assert_eq!(seen.len(), sent.load(Ordering::Relaxed));
    assert_eq!(unique.len(), seen.len(), "none ran twice");
}

#[test]
fn plain_requests_for_known_hosts_are_redirected() {
    let one = Fixture::start(SOURCE, |builder| {
        builder
            .listen(["127.0.0.1:0", "tls://127.0.0.1:0"])
            .setting("priority_paths", "/up")
    });
    let port = one.server.tls_address().port();
    for (head, status, location) in [
        (
            "GET /a?b HTTP/1.1\r\nHost: localhost",
            301,
            Some("https://localhost/a?b".to_owned()),
        ),
        (
            "HEAD / HTTP/1.1\r\nHost: LOCALHOST:80",
            301,
            Some(format!("https://localhost:{port}/")),
        ),
        (
            "DELETE / HTTP/1.1\r\nHost: localhost",
            308,
            Some("https://localhost/".to_owned()),
        ),
        ("GET / HTTP/1.1\r\nHost: other.test", 200, None),
        ("GET /up HTTP/1.1\r\nHost: localhost", 200, None),
        (
            "GET /.well-known/acme-challenge/a HTTP/1.1\r\nHost: localhost",
            200,
            None,
        ),
        // What a proxy says that ends TLS.
        (
            "GET / HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-Proto: https",
            200,
            None,
        ),
    ] {
        let mut client = one.server.connect();
        client.send(format!("{head}\r\n\r\n"));
        let method = head.split(' ').next().expect("a method");
        let response = client.response_to(method);
        assert_eq!(response.status(), status, "{head}");
        assert_eq!(response.field("location"), location.as_deref(), "{head}");
    }
}

#[test]
fn browsers_are_told_to_come_by_tls_if_the_settings_want_that() {
    let one = Fixture::start(SOURCE, |builder| {
        builder
            .listen(["127.0.0.1:0", "tls://127.0.0.1:0"])
            .setting("hsts", "2y; includeSubDomains")
            .setting("canonical_host", "localhost")
    });
    let answer = one.connect().get("localhost", "/").expect("an answer");
    let said = field(&answer.head, "strict-transport-security");
    assert_eq!(said, Some("max-age=63072000; includeSubDomains"));
    let answer = one.connect().get("www.test", "/a").expect("an answer");
    assert_eq!(answer.status, 301);
    let location = field(&answer.head, "location");
    assert_eq!(location, Some("https://localhost/a"));
    let plain = one.server.get("/");
    assert_eq!(plain.field("strict-transport-security"), None);
}

#[test]
fn tls_on_a_plain_port_is_logged() {
    let one = Fixture::start(SOURCE, |builder| {
        builder.listen(["127.0.0.1:0", "tls://127.0.0.1:0"])
    });
    let refused = Client::connect(one.server.address(), "localhost", &one.trusting);
    assert!(refused.is_err());
    let line = one
        .server
        .log()
        .wait(|line| line.contains("this port speaks plain HTTP"));
    let port = one.server.address().port();
    assert!(line.contains(&format!("port={port} ")), "{line}");
}

#[test]
fn an_application_takes_a_connection_with_tls_over() {
    let one = Fixture::start(HIJACK, |builder| builder);
    let mut client = one.connect();
    let head = "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n";
    // What follows the head in the same record is the application's as well.
    client
        .send(format!("{head}first\n").as_bytes())
        .expect("a connection");
    let answer = client.head().expect("a head");
    assert!(answer.starts_with("HTTP/1.1 101 "), "{answer}");
    assert_eq!(client.bytes(6).expect("an echo"), b"FIRST\n");
    client.send(b"second\n").expect("a connection");
    assert_eq!(client.bytes(7).expect("an echo"), b"SECOND\n");
    client.send(b"end\n").expect("a connection");
    assert_eq!(client.rest().expect("an announced end"), b"END\n");
}

#[test]
fn certificates_are_shown_with_what_is_wrong() {
    let one = Fixture::start(SOURCE, |builder| builder);
    let status = one.server.command(&["status"]);
    let line = "certificate localhost, until 2099-12-31\n";
    assert!(status.stdout.contains(line), "{}", status.output());
    let application = Application::new(SOURCE);
    one.authority
        .sign_until(&["old.test"], Key::Ecdsa, 2021)
        .write(&application, "old");
    let check = |arguments: &[&str]| {
        let program = Program::highball(["check"]).arg(application.path());
        let program = program.arg("--listen").arg("tls://127.0.0.1:0");
        arguments.iter().fold(program, Program::arg).run()
    };
    let ran = check(&["--tls-certificate-files", "old.pem:old.key"]);
    assert_eq!(ran.status.code(), Some(0), "{}", ran.output());
    let warning = "warning: old.test: it ended on 2021-12-31\n";
    assert!(ran.stdout.contains(warning), "{}", ran.output());
    let ran = check(&["--tls-certificate-files", "old.pem:missing.key"]);
    assert_eq!(ran.status.code(), Some(1), "{}", ran.output());
    assert!(
        ran.stderr.contains("missing.key: No such file"),
        "{}",
        ran.output()
    );
    let ran = check(&[]);
    assert_eq!(ran.status.code(), Some(1), "{}", ran.output());
    assert!(
        ran.stderr
            .contains("set tls_hosts or tls_certificate_files"),
        "{}",
        ran.output()
    );
}

/// Runs curl and returns what it printed.
fn curl(one: &Fixture, arguments: &[&str]) -> String {
    let address = one.server.tls_address();
    let authority = one.server.application().path().join("authority.pem");
    std::fs::write(&authority, &one.authority.pem).expect("a file");
    let url = format!("https://localhost:{}/", address.port());
    let ran = Command::new("curl")
        .args(["-sS", "--http1.1", "--resolve"])
        .arg(format!("localhost:{}:127.0.0.1", address.port()))
        .arg("--cacert")
        .arg(authority)
        .args(arguments)
        .arg(url)
        .output()
        .expect("curl");
    let errors = String::from_utf8_lossy(&ran.stderr).into_owned();
    String::from_utf8_lossy(&ran.stdout).into_owned() + &errors
}

#[test]
fn curl_and_openssl_are_served_and_older_versions_are_refused() {
    let one = Fixture::start(SOURCE, |builder| builder);
    for version in [
        ["--tlsv1.2", "--tls-max", "1.2"],
        ["--tlsv1.3", "--tls-max", "1.3"],
    ] {
        assert_eq!(curl(&one, &version), "0");
    }
    let body = ["--data-binary", "abc", "-H", "Expect: 100-continue"];
    assert_eq!(curl(&one, &body), "3");
    let refused = curl(
        &one,
        &[
            "--tlsv1.1",
            "--tls-max",
            "1.1",
            "--ciphers",
            "DEFAULT@SECLEVEL=0",
        ],
    );
    assert!(refused.contains("(35)"), "{refused}");
    let connect = one.server.tls_address().to_string();
    let ran = Command::new("openssl")
        .args([
            "s_client",
            "-brief",
            "-servername",
            "localhost",
            "-connect",
            &connect,
        ])
        .stdin(Stdio::null())
        .output()
        .expect("openssl");
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(said.contains("Protocol version: TLSv1.3"), "{said}");
}

#[test]
fn sslyze_finds_nothing_that_mozilla_advises_against() {
    let one = Fixture::start(SOURCE, |builder| builder.setting("hsts", "2y"));
    let application = one.server.application();
    one.authority
        .sign_for_days(&["localhost"], 90)
        .write(application, "localhost");
    one.server
        .log()
        .wait(|line| line.contains("read certificates again"));
    let tool = workspace().join("target/tools/sslyze-6.3.1");
    assert!(tool.is_dir(), "scripts/sslyze installs it");
    let ran = Command::new("python3")
        .args(["-m", "sslyze", "--mozilla_config", "intermediate"])
        .arg(format!("localhost:{}", one.server.tls_address().port()))
        .env("PYTHONPATH", tool)
        .output()
        .expect("python3");
    let report = String::from_utf8_lossy(&ran.stdout).into_owned();
    let (_, verdict) = report.split_once("COMPLIANCE").expect("a verdict");
    let findings: Vec<_> = verdict.lines().filter(|line| line.contains("* ")).collect();
    // The test's authority is in no list of those that browsers trust.
    assert_eq!(findings.len(), 1, "{report}");
    assert!(
        findings[0].contains("certificate_path_validation"),
        "{report}"
    );
}

#[test]
fn testssl_finds_nothing_but_what_is_wanted_here() {
    let one = Fixture::start(SOURCE, |builder| builder);
    let application = one.server.application();
    let signed = one.authority.sign_for_days(&["localhost"], 90);
    signed.write(application, "localhost");
    one.server
        .log()
        .wait(|line| line.contains("read certificates again"));
    let report = application.path().join("testssl.json");
    // Forward secrecy, preferences, defaults and vulnerabilities: SSLyze looks at the rest.
    let ran = Program::new("testssl")
        .args(["-f", "-P", "-S", "-U"])
        .args(["--quiet", "--color", "0", "--warnings", "batch"])
        .args(["--ip", "127.0.0.1", "--severity", "MEDIUM", "--jsonfile"])
        .arg(&report)
        .arg(format!("localhost:{}", one.server.tls_address().port()))
        .patience(10 * TEST_TIMEOUT)
        .run();
    let report = std::fs::read_to_string(report).expect("testssl reports");
    let findings: Vec<Value> = serde_json::from_str(&report).expect("JSON");
    let findings = findings
        .iter()
        .filter(|finding| finding["severity"] != "WARN")
        .filter_map(|finding| finding["id"].as_str());
    // The client chooses among ciphers of which none is weak. The test's authority is in no list of those that browsers
    // trust, and revokes nothing.
    let expected = ["cipher_order", "cert_chain_of_trust", "cert_revocation"];
    let findings: Vec<_> = findings.collect();
    assert_eq!(findings, expected, "{report}\n{}", ran.output());
}

#[test]
fn a_client_with_tls_that_asks_for_http_2_gets_it() {
    let version = ["--http2", "--write-out", " %{http_version}"];
    let one = Fixture::start(SOURCE, |builder| builder);
    assert_eq!(curl(&one, &version), "0 2");
    let one = Fixture::start(SOURCE, |builder| builder.setting("http2", "false"));
    assert_eq!(curl(&one, &version), "0 1.1");
}

#[test]
fn a_client_that_agreed_on_http_2_is_not_served_by_http_1() {
    let mut one = Fixture::start(SEEN, |builder| builder);
    one.trusting = with_http_2(&one.trusting);
    let mut client = one.connect();
    assert_eq!(client.session().alpn_protocol(), Some(&b"h2"[..]));
    let request = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    client.send(request).expect("a connection");
    // GOAWAY or nothing, and the end.
    let said = client.rest().unwrap_or_default();
    assert!(!said.starts_with(b"HTTP/1"), "{said:?}");
    assert_eq!(one.server.application().read("seen"), "");
}
