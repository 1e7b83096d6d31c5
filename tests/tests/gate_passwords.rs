//! Basic authentication over the wire: who gets in, what is remembered, and clients that guess.

use std::fs;

use test_support::{Client, Program, Response, Server, ServerBuilder, until};

/// `open sesame`, at the lowest cost.
const ALICE: &str = "alice:$2y$04$G6z3qcF9nzePrRgTZseZcOtqMoGrpn2j4TaQFrL4OQ39tnXUd0U1.\n";
/// `bob's`, at the lowest cost.
const BOB: &str = "bob:$2y$04$UdymB27k7Xrv7VrPZyxX2uIg.eLsebi6y20JMH0T2hMxm3Ffr3T9a\n";
/// `slow`, at a usual cost: a check takes far longer than a request.
const SLOW: &str = "slow:$2y$10$SNCgFxyjraLdWXugUIWoG.DxMybXeOjhVEb4v1xygTUXsLrwfB8.O\n";
/// Of another kind.
const APACHE: &str = "carl:$apr1$N280W8Cn$HsVTJOgOAh53jongUswzB1\n";

/// `alice` and `open sesame`.
const AS_ALICE: &str = "authorization: Basic YWxpY2U6b3BlbiBzZXNhbWU=\r\n";
/// `bob` and `bob's`.
const AS_BOB: &str = "authorization: Basic Ym9iOmJvYidz\r\n";
/// `slow` and `slow`.
const AS_SLOW: &str = "authorization: Basic c2xvdzpzbG93\r\n";

/// An application whose path `/admin` needs a user of this file.
fn with_users(users: &str) -> ServerBuilder {
    let builder = Server::app(r##"run lambda { |env| Test.text(env["REMOTE_USER"].inspect) }"##);
    builder.application().dir().write("config/htpasswd", users);
    builder.setting("basic_auth", "/admin=config/htpasswd,/admin/open=none")
}

fn send(server: &Server, path: &str, fields: &str) -> Client {
    let mut client = server.connect();
    client.send(format!("GET {path} HTTP/1.1\r\nhost: test\r\n{fields}\r\n"));
    client
}

fn get(server: &Server, path: &str, fields: &str) -> Response {
    send(server, path, fields).response()
}

#[test]
fn a_path_needs_a_user_with_the_right_password() {
    let server = with_users(&format!("# people\n{ALICE}{BOB}")).start();
    let refused = get(&server, "/admin", "");
    assert_eq!(refused.status(), 401);
    assert_eq!(refused.text(), "401 Unauthorized\n");
    let challenge = "Basic realm=\"Restricted\", charset=\"UTF-8\"";
    assert_eq!(refused.field("www-authenticate"), Some(challenge));
    // The second time the verdict is remembered.
    for _ in 0..2 {
        for (fields, user) in [(AS_ALICE, "alice"), (AS_BOB, "bob")] {
            let response = get(&server, "/admin/users", fields);
            assert_eq!(response.status(), 200);
            assert_eq!(response.text(), format!("{user:?}"));
        }
        let wrong = "authorization: Basic YWxpY2U6Ym9iJ3M=\r\n";
        assert_eq!(get(&server, "/admin", wrong).status(), 401);
        let unknown = "authorization: Basic ZXZlOmJvYidz\r\n";
        assert_eq!(get(&server, "/%61dmin//x", unknown).status(), 401);
    }
    for path in ["/", "/admin/open", "/admin/open/x", "/administration"] {
        let response = get(&server, path, "remote-user: eve\r\nremote_user: eve\r\n");
        assert_eq!(
            (response.status(), response.text().as_str()),
            (200, "nil"),
            "{path}"
        );
    }
    server
        .log()
        .wait(|line| line.contains("status=401") && line.ends_with("outcome=unauthorized"));
    assert_eq!(server.status().number("/counters/unauthorized"), 5);
    server.stop();
}

#[test]
fn credentials_that_are_none_are_refused() {
    let server = with_users(ALICE).start();
    let long = format!("authorization: Basic {}\r\n", "YWxp".repeat(10_000));
    let twice = AS_ALICE.repeat(2);
    for fields in [
        "authorization: Bearer YWxpY2U6b3BlbiBzZXNhbWU=\r\n",
        "authorization: Basic\r\n",
        "authorization: Basic ====\r\n",
        "authorization: Basic YWxpY2U\r\n",
        "proxy-authorization: Basic YWxpY2U6b3BlbiBzZXNhbWU=\r\n",
        &twice,
        &long,
    ] {
        assert_eq!(get(&server, "/admin", fields).status(), 401, "{fields:.80}");
    }
    let mut client = server.connect();
    assert_eq!(client.post("/admin", "x".repeat(200_000)).status(), 401);
    server.stop();
}

#[test]
fn the_file_is_read_again_and_one_that_is_wrong_changes_nothing() {
    let server = with_users(ALICE).start();
    let file = server.dir().join("config/htpasswd");
    let status = |fields: &str| get(&server, "/admin", fields).status();
    assert_eq!((status(AS_ALICE), status(AS_BOB)), (200, 401));
    fs::write(&file, BOB).expect("a file");
    until("bob is let in", || status(AS_BOB) == 200);
    // Also a verdict that was remembered is void.
    assert_eq!(status(AS_ALICE), 401);
    fs::write(&file, APACHE).expect("a file");
    let line = server
        .log()
        .wait(|line| line.contains("a file of passwords cannot be used"));
    assert!(
        line.contains("line 1") && line.contains("htpasswd -B"),
        "{line}"
    );
    assert!(!line.contains("N280W8Cn"), "{line}");
    assert_eq!((status(AS_ALICE), status(AS_BOB)), (401, 200));
    fs::remove_file(&file).expect("a file");
    server
        .log()
        .wait(|line| line.contains("there is no such file"));
    assert_eq!((status(AS_ALICE), status(AS_BOB)), (401, 200));
    server.stop();
}

#[test]
fn a_server_does_not_start_with_passwords_that_it_cannot_use() {
    for (users, expect) in [
        (
            Some(APACHE),
            "line 1: the password of \\\"carl\\\" is no bcrypt hash",
        ),
        (None, "there is no such file"),
    ] {
        let builder = with_users(users.unwrap_or_default());
        let dir = builder.application().path();
        if users.is_none() {
            fs::remove_file(dir.join("config/htpasswd")).expect("a file");
        }
        let path = dir.to_str().expect("a path");
        let flags = [
            "serve",
            path,
            "-b",
            "127.0.0.1:0",
            "--basic-auth",
            "/=config/htpasswd",
        ];
        let ran = Program::highball(flags).run();
        assert!(!ran.status.success(), "{}", ran.output());
        let output = ran.output().replace('"', "\\\"");
        assert!(
            output.contains(expect) && output.contains("basic_auth"),
            "{output}"
        );
    }
}

#[test]
fn slow_passwords_hold_up_no_other_request_and_a_flood_gets_503() {
    let server = with_users(&format!("{ALICE}{SLOW}")).start();
    let guess = |number: usize| {
        let text = format!("slow:{number:05}");
        let code = base64(text.as_bytes());
        send(
            &server,
            "/admin",
            &format!("authorization: Basic {code}\r\n"),
        )
    };
    // There are two threads for them: all at once are more than may wait.
    let mut guesses: Vec<Client> = (0..100).map(guess).collect();
    assert_eq!(get(&server, "/", "").status(), 200);
    let mut refused = guesses.split_off(70);
    let answer = refused.pop().expect("a client").response();
    assert_eq!(answer.status(), 503);
    assert_eq!(answer.field("retry-after"), Some("1"));
    drop((guesses, refused));
    until("the right password is checked", || {
        get(&server, "/admin", AS_SLOW).status() == 200
    });
    server.stop();
}

/// The code of RFC 4648, of lengths that are divisible by three or not.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut code = String::new();
    for group in bytes.chunks(3) {
        let bits = group
            .iter()
            .fold(0_u32, |bits, &byte| bits << 8 | u32::from(byte));
        let bits = bits << (8 * (3 - group.len()));
        for digit in 0..4 {
            let index = (bits >> (18 - 6 * digit)) as usize & 63;
            code.push(if digit <= group.len() {
                char::from(DIGITS[index])
            } else {
                '='
            });
        }
    }
    code
}
