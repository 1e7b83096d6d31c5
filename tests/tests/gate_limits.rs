//! Who may request what, and how often: `allow`, `deny` and `rate_limits` over the wire, with clients that try to evade them.

use std::fs;

use test_support::{Response, Server, ServerBuilder};

/// Answers with the path.
fn server() -> ServerBuilder {
    Server::app(r##"run lambda { |env| Test.text(env["PATH_INFO"]) }"##)
}

/// A GET as a proxy sends it that speaks for these addresses.
fn get_from(server: &Server, path: &str, addresses: &str) -> Response {
    let field = format!("x-forwarded-for: {addresses}\r\n");
    request(server, path, &field)
}

fn request(server: &Server, path: &str, fields: &str) -> Response {
    let mut client = server.connect();
    client.send(format!("GET {path} HTTP/1.1\r\nhost: test\r\n{fields}\r\n"));
    client.response()
}

#[test]
fn only_allowed_clients_reach_a_path_however_it_is_spelled() {
    let server = server()
        .setting("allow", "/admin=10.0.0.0/8 2001:db8::/32")
        .setting("deny", "/=198.51.100.0/24")
        .start();
    let status = |path: &str, address: &str| get_from(&server, path, address).status();
    for path in [
        "/admin",
        "/admin/x",
        "/%61dmin",
        "//admin",
        "/x/../admin",
        "/admin?a=b",
    ] {
        assert_eq!(status(path, "192.0.2.1"), 403, "{path}");
        assert_eq!(status(path, "10.1.2.3"), 200, "{path}");
        assert_eq!(status(path, "2001:db8::7"), 200, "{path}");
    }
    assert_eq!(status("/", "192.0.2.1"), 200);
    assert_eq!(status("/", "198.51.100.9"), 403);
    let refused = get_from(&server, "/admin", "192.0.2.1");
    assert_eq!(refused.text(), "403 Forbidden\n");
    server
        .log()
        .wait(|line| line.contains("status=403") && line.ends_with("outcome=denied"));
    assert_eq!(server.status().number("/counters/denied"), 8);
    server.stop();
}

#[test]
fn no_client_invents_an_address_that_is_allowed() {
    let allowed = "10.0.0.7";
    let trusting = server().setting("allow", "/=10.0.0.0/8").start();
    for claim in [
        format!("{allowed}, 192.0.2.1"),
        format!("{allowed}, unknown"),
        format!("{allowed},"),
        format!("{allowed}, 192.0.2.1, 127.0.0.1"),
        format!("192.0.2.1{}", ", 127.0.0.1".repeat(1000)),
    ] {
        assert_eq!(get_from(&trusting, "/", &claim).status(), 403, "{claim}");
    }
    // Several fields are one list, and only this one counts.
    let two = format!("x-forwarded-for: {allowed}\r\nx-forwarded-for: 192.0.2.1\r\n");
    assert_eq!(request(&trusting, "/", &two).status(), 403);
    for field in [
        "x-real-ip",
        "client-ip",
        "forwarded",
        "x_forwarded_for",
        "cf-connecting-ip",
    ] {
        let field = format!("{field}: {allowed}\r\n");
        assert_eq!(request(&trusting, "/", &field).status(), 403, "{field}");
    }
    trusting.stop();
    for (trusted, expect) in [("none", 403), ("all", 200)] {
        let server = server()
            .setting("allow", "/=10.0.0.0/8")
            .setting("trusted_proxies", trusted)
            .start();
        assert_eq!(
            get_from(&server, "/", allowed).status(),
            expect,
            "{trusted}"
        );
        // Where all are trusted the nearest one alone is believed.
        let claim = format!("{allowed}, 192.0.2.1");
        assert_eq!(get_from(&server, "/", &claim).status(), 403, "{trusted}");
        server.stop();
    }
}

#[test]
fn requests_beyond_the_rate_get_429_and_when_to_come_again() {
    let server = server().setting("rate_limits", "/login=3/h").start();
    let status = |address: &str| get_from(&server, "/login", address).status();
    assert_eq!(
        [
            status("192.0.2.1"),
            status("192.0.2.1"),
            status("192.0.2.1")
        ],
        [200; 3]
    );
    let refused = get_from(&server, "/login", "192.0.2.1");
    assert_eq!(refused.status(), 429);
    assert_eq!(refused.text(), "429 Too Many Requests\n");
    let seconds = refused.field("retry-after").map(str::parse);
    assert!(matches!(seconds, Some(Ok(1100..=1200_u32))), "{refused:?}");
    // Neither other clients nor other paths suffer.
    assert_eq!(status("192.0.2.2"), 200);
    assert_eq!(get_from(&server, "/", "192.0.2.1").status(), 200);
    assert_eq!(get_from(&server, "/%6Cogin/", "192.0.2.1").status(), 429);
    // A network of IPv6 is one client.
    for number in 1..=4 {
        let expect = if number <= 3 { 200 } else { 429 };
        assert_eq!(status(&format!("2001:db8::{number}")), expect);
    }
    server
        .log()
        .wait(|line| line.contains("status=429") && line.ends_with("outcome=rate_limited"));
    assert_eq!(server.status().number("/counters/rate_limited"), 3);
    server.stop();
}

#[test]
fn a_refused_request_keeps_its_connection_whatever_its_body() {
    let server = server().setting("rate_limits", "/=1/h").start();
    let mut client = server.connect();
    assert_eq!(client.get("/").status(), 200);
    for _ in 0..3 {
        assert_eq!(client.get("/").status(), 429);
    }
    let response = server.connect().post("/", "x".repeat(300_000));
    assert_eq!(response.status(), 429);
    let mut client = server.connect();
    client.send("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\nexpect: 100-continue\r\n\r\n");
    let response = client.response();
    assert_eq!((response.status(), response.interim.len()), (429, 0));
    server.stop();
}

#[test]
fn the_counts_survive_a_reload() {
    let builder = Server::app(r##"run lambda { |env| Test.text(env["PATH_INFO"]) }"##);
    let server = builder
        .settings_file("workers = 1\nthreads = 1\nrate_limits = [\"/login=1/h\"]\n")
        .start();
    assert_eq!(server.get("/login").status(), 200);
    assert_eq!(server.get("/login").status(), 429);
    let file = server.dir().join("highball.toml");
    let text = "workers = 1\nthreads = 1\nrate_limits = [\"/login=1/h\", \"/=100/s\"]\ndeny = [\"/closed=all\"]\n";
    fs::write(file, text).expect("a file");
    let ran = server.command(&["reload"]);
    assert!(ran.status.success(), "{}", ran.output());
    assert_eq!(server.get("/login").status(), 429);
    assert_eq!(server.get("/closed").status(), 403);
    assert_eq!(server.get("/").status(), 200);
    server.stop();
}

#[test]
fn clients_may_be_told_apart_by_a_header() {
    let server = server()
        .setting("rate_limits", "/=1/h by x-api-key")
        .start();
    let status = |key: &str| request(&server, "/", &format!("x-api-key: {key}\r\n")).status();
    assert_eq!([status("a"), status("a"), status("b")], [200, 429, 200]);
    // A long value is one like any other.
    let long = "k".repeat(50_000);
    assert_eq!([status(&long), status(&long)], [200, 429]);
    assert_eq!(request(&server, "/", "").status(), 200);
    assert_eq!(request(&server, "/", "").status(), 429);
    server.stop();
}

#[test]
fn no_good_client_is_refused_among_ten_thousand_addresses() {
    let builder = server();
    // A request that passes the limit is answered without Ruby: it has no password.
    builder.application().dir().write("htpasswd", "");
    let server = builder
        .setting("rate_limits", "/=5/h")
        .setting("basic_auth", "/=htpasswd")
        .start();
    let mut client = server.connect();
    let get = |address: &str| get_from(&server, "/", address).status();
    assert_eq!(get("198.51.100.1"), 401);
    for batch in 0..100_u32 {
        // A hundred at once.
        let request = |number: u32| {
            format!("GET / HTTP/1.1\r\nhost: a\r\nx-forwarded-for: 10.0.{batch}.{number}\r\n\r\n")
        };
        client.send((0..100).map(request).collect::<String>());
        (0..100).for_each(|_| assert_eq!(client.response().status(), 401));
    }
    for _ in 0..4 {
        assert_eq!(get("198.51.100.1"), 401);
    }
    assert_eq!(get("198.51.100.1"), 429);
    server.stop();
}
