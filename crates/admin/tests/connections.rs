//! Connections of operators over real sockets: what clients get that are slow, too many or not admitted.

use std::cell::RefCell;
use std::rc::Rc;

use highball_admin::{
    Access, Call, ClientTask, Routes, Terms, Tokens, json, lines, serve_connection, serve_listener,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::task::spawn_local;

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build_local(Default::default())
        .expect("a runtime");
    runtime.block_on(test);
}

fn routes() -> Routes {
    Routes::default()
        .open("/live", |_: Call| async { Ok(json(&"live")) })
        .get("/v1/status", |_: Call| async { Ok(json(&"status")) })
        .post("/v1/echo", |call: Call| async move {
            Ok(json(&call.json::<serde_json::Map<_, _>>()?))
        })
        .get("/v1/endless", |_: Call| async {
            let (lines, answer) = lines();
            spawn_local(async move { while lines.send(&"x".repeat(65_536)).await.is_ok() {} });
            Ok(answer)
        })
}

/// A listener with these routes; returns its address.
fn listen(access: Access) -> std::net::SocketAddr {
    listen_with(move || access.clone())
}

/// Spawns the work for a client.
fn spawn(work: ClientTask) {
    spawn_local(work);
}

/// The same for clients who may do what `access` says at each request.
fn listen_with(access: impl Fn() -> Access + 'static) -> std::net::SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a socket");
    listener.set_nonblocking(true).expect("a socket");
    let address = listener.local_addr().expect("a socket");
    let listener = Rc::new(TcpListener::from_std(listener).expect("a socket"));
    let serve = serve_listener(listener, Rc::new(routes()), move || access().into(), spawn);
    spawn_local(serve);
    address
}

async fn ask(address: std::net::SocketAddr, request: &str) -> String {
    let mut client = TcpStream::connect(address).await.expect("a socket");
    client
        .write_all(request.as_bytes())
        .await
        .expect("a socket");
    let mut answer = Vec::new();
    // One that was not read completely is reset after its answer.
    let _ = client.read_to_end(&mut answer).await;
    String::from_utf8(answer).expect("text")
}

fn request(line: &str, fields: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "{line} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n{fields}\r\n{body}"
    )
}

#[test]
fn a_token_that_is_withdrawn_is_refused_on_an_open_connection() {
    run(async {
        let text = Rc::new(RefCell::new(TOKEN));
        let given = Rc::clone(&text);
        let address = listen_with(move || Access::Token {
            tokens: Tokens::parse(*given.borrow()).unwrap(),
            write: true,
        });
        let mut client = TcpStream::connect(address).await.expect("a socket");
        let mut statuses = Vec::new();
        for tokens in [TOKEN, ""] {
            text.replace(tokens);
            let request = format!(
                "GET /v1/status HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
            );
            let sent = client.write_all(request.as_bytes()).await;
            sent.expect("a socket");
            let mut answer = [0; 12];
            client.read_exact(&mut answer).await.expect("an answer");
            statuses.push(String::from_utf8_lossy(&answer[9..]).into_owned());
            // The rest of it.
            let _ = client.read(&mut [0; 4096]).await;
        }
        assert_eq!(statuses, ["200", "401"]);
    });
}

#[test]
fn without_a_token_every_path_gets_the_same_401() {
    run(async {
        for text in [TOKEN, ""] {
            let tokens = Tokens::parse(text).unwrap();
            let address = listen(Access::Token {
                tokens,
                write: true,
            });
            let mut answers = Vec::new();
            for line in [
                "GET /v1/status",
                "GET /live",
                "GET /nothing",
                "POST /v1/echo",
                "PUT /v1/status",
            ] {
                for fields in ["", "Authorization: Bearer x\r\n", "Authorization:\r\n"] {
                    let answer = ask(address, &request(line, fields, "{}")).await;
                    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
                    assert!(head.starts_with("HTTP/1.1 401 "), "{line}: {answer}");
                    assert!(head.contains("www-authenticate: Bearer"), "{answer}");
                    answers.push(body.to_owned());
                }
            }
            answers.dedup();
            assert_eq!(answers.len(), 1, "{answers:?}");
        }
    });
}

#[test]
fn a_token_reads_and_changes_only_where_that_is_allowed() {
    run(async {
        let bearer = format!("Authorization: Bearer {TOKEN}\r\n");
        for (write, expect) in [(false, "403"), (true, "200")] {
            let tokens = Tokens::parse(TOKEN).unwrap();
            let address = listen(Access::Token { tokens, write });
            let read = ask(address, &request("GET /v1/status", &bearer, "")).await;
            assert!(read.ends_with("\r\n\r\n\"status\"\n"), "{read}");
            let changed = ask(address, &request("POST /v1/echo", &bearer, "{}")).await;
            assert!(
                changed.starts_with(&format!("HTTP/1.1 {expect} ")),
                "{changed}"
            );
        }
    });
}

#[test]
fn an_open_address_has_the_open_paths_alone() {
    run(async {
        let address = listen(Access::Open);
        let check = async |line: &str, expect: &str| {
            let answer = ask(address, &request(line, "", "")).await;
            assert!(
                answer.starts_with(&format!("HTTP/1.1 {expect} ")),
                "{line}: {answer}"
            );
        };
        check("GET /live", "200").await;
        check("HEAD /live", "200").await;
        check("POST /live", "405").await;
        check("GET /v1/status", "404").await;
        check("POST /v1/echo", "404").await;
        let rebound = "GET /live HTTP/1.1\r\nHost: rebound.example\r\nConnection: close\r\n\r\n";
        let answer = ask(address, rebound).await;
        assert!(answer.starts_with("HTTP/1.1 421 "), "{answer}");
    });
}

#[test]
fn bodies_that_are_too_large_or_no_objects_are_refused() {
    run(async {
        let (client, server) = UnixStream::pair().unwrap();
        spawn_local(async move {
            serve_connection(server, &routes(), &|| Access::Local.into(), false).await;
        });
        let (mut reader, mut writer) = client.into_split();
        for (body, expect) in [("{\"a\":1}", "200"), ("[1]", "400"), ("{", "400")] {
            let text = request("POST /v1/echo", "", body).replace("Connection: close\r\n", "");
            writer.write_all(text.as_bytes()).await.unwrap();
            let mut answer = vec![0; 4096];
            let count = reader.read(&mut answer).await.unwrap();
            let answer = String::from_utf8_lossy(&answer[..count]).into_owned();
            assert!(
                answer.starts_with(&format!("HTTP/1.1 {expect} ")),
                "{answer}"
            );
        }
        let long = format!("{{{}}}", " ".repeat(64 * 1024));
        let long = request("POST /v1/echo", "", &long);
        // The server may close before it has read all.
        let _ = writer.write_all(long.as_bytes()).await;
        let mut answer = Vec::new();
        let _ = reader.read_to_end(&mut answer).await;
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    });
}

#[test]
fn clients_that_send_or_read_nothing_are_let_go() {
    run(async {
        let address = listen(Access::Token {
            tokens: Tokens::parse(TOKEN).unwrap(),
            write: true,
        });
        let bearer = format!("Authorization: Bearer {TOKEN}\r\n");
        let mut cut = request("POST /v1/echo", &bearer, "{}");
        cut.pop();
        let sent = async |text: &str| {
            let mut client = TcpStream::connect(address).await.unwrap();
            client.write_all(text.as_bytes()).await.unwrap();
            client
        };
        let mut silent = sent("").await;
        let mut half = sent("GET /v1/status HTTP/1.1\r\nHo").await;
        let mut cut = sent(&cut).await;
        let (mut deaf, server) = UnixStream::pair().unwrap();
        let served = spawn_local(async move {
            serve_connection(server, &routes(), &|| Access::Local.into(), false).await;
        });
        let endless = request("GET /v1/endless", "", "");
        deaf.write_all(endless.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        for client in [&mut silent, &mut half] {
            let _ = client.read_to_end(&mut answer).await;
        }
        let _ = cut.read_to_end(&mut answer).await;
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.contains("HTTP/1.1 408 "), "{answer}");
        served.await.unwrap();
    });
}

#[test]
fn silent_clients_keep_nobody_out_and_hold_no_place() {
    run(async {
        let address = listen(Access::Open);
        let mut silent = Vec::new();
        for _ in 0..64 {
            silent.push(TcpStream::connect(address).await.unwrap());
        }
        let answer = ask(address, &request("GET /live", "", "")).await;
        assert!(answer.ends_with("\"live\"\n"), "{answer}");
        // The others are let go as well, long before the time for a head is over that others have.
        for client in &mut silent {
            // One that was closed with its place is reset.
            let _ = client.read_to_end(&mut Vec::new()).await;
        }
    });
}

#[test]
fn clients_with_a_token_keep_their_places() {
    run(async {
        let address = listen(Access::Token {
            tokens: Tokens::parse(TOKEN).unwrap(),
            write: false,
        });
        let bearer = format!("Host: localhost\r\nAuthorization: Bearer {TOKEN}\r\n");
        let status = format!("GET /v1/status HTTP/1.1\r\n{bearer}\r\n");
        let endless = format!("GET /v1/endless HTTP/1.1\r\n{bearer}\r\n");
        let mut trusted = Vec::new();
        for _ in 0..16 {
            let mut client = TcpStream::connect(address).await.unwrap();
            client.write_all(endless.as_bytes()).await.unwrap();
            client.read_exact(&mut [0; 12]).await.unwrap();
            trusted.push(client);
        }
        // There is no place for another one of the same network, with a token or without.
        assert_eq!(ask(address, &status).await, "");
        for client in &mut trusted {
            client.read_exact(&mut [0; 65_536]).await.unwrap();
        }
        trusted.pop();
        let refused = request("GET /v1/status", "", "").replace("Connection: close\r\n", "");
        while !ask(address, &refused).await.starts_with("HTTP/1.1 401") {}
    });
}

#[test]
fn a_connection_ends_with_its_last_answer() {
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let terms = || Terms {
            access: Access::Open,
            is_last: true,
        };
        spawn_local(serve_listener(
            Rc::new(listener),
            Rc::new(routes()),
            terms,
            spawn,
        ));
        let kept = request("GET /live", "", "").replace("Connection: close\r\n", "");
        let answer = ask(address, &kept).await;
        assert!(answer.contains("connection: close"), "{answer}");
        assert!(answer.ends_with("\"live\"\n"), "{answer}");
    });
}

#[test]
fn a_token_elsewhere_than_in_its_field_lets_nobody_in() {
    run(async {
        let address = listen(Access::Token {
            tokens: Tokens::parse(TOKEN).unwrap(),
            write: true,
        });
        for (line, fields) in [
            (format!("GET /v1/status?token={TOKEN}"), String::new()),
            (
                format!("GET /v1/status?access_token={TOKEN}"),
                String::new(),
            ),
            (
                "GET /v1/status".to_owned(),
                format!("Cookie: token={TOKEN}\r\n"),
            ),
            ("GET /v1/status".to_owned(), format!("X-Token: {TOKEN}\r\n")),
            (
                format!("GET http://{TOKEN}@localhost/v1/status"),
                String::new(),
            ),
            (
                "POST /v1/echo".to_owned(),
                format!("Authorization: Basic {TOKEN}\r\n"),
            ),
        ] {
            let answer = ask(address, &request(&line, &fields, "")).await;
            assert!(!answer.contains("200 OK"), "{line} {fields}: {answer}");
            assert!(!answer.contains(TOKEN), "{line} {fields}: {answer}");
        }
    });
}

#[test]
fn a_path_is_taken_as_it_is_written() {
    run(async {
        let address = listen(Access::Local);
        for path in [
            "/v1/../v1/status",
            "/v1/%73tatus",
            "//v1/status",
            "/v1//status",
            "/v1/status/",
            "/V1/status",
            "/v1/status%00",
            "/live/..%2fv1/status",
        ] {
            let answer = ask(address, &request(&format!("GET {path}"), "", "")).await;
            assert!(answer.starts_with("HTTP/1.1 404 "), "{path}: {answer}");
        }
        for method in ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"] {
            let answer = ask(address, &request(&format!("{method} /v1/status"), "", "")).await;
            assert!(answer.starts_with("HTTP/1.1 405 "), "{method}: {answer}");
        }
    });
}

#[test]
fn a_body_of_100_megabytes_is_refused_without_being_taken() {
    run(async {
        let address = listen(Access::Local);
        let mut client = TcpStream::connect(address).await.unwrap();
        let head = "POST /v1/echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 104857600\r\n\r\n";
        client.write_all(head.as_bytes()).await.unwrap();
        let piece = [b'x'; 65_536];
        let mut sent = 0;
        // The server answers and closes after a small part of it.
        while sent < 104_857_600 && client.write_all(&piece).await.is_ok() {
            sent += piece.len();
        }
        assert!(sent < 32 << 20, "{sent} bytes were taken");
        let mut answer = Vec::new();
        let _ = client.read_to_end(&mut answer).await;
        let answer = String::from_utf8_lossy(&answer);
        // A socket that is reset may have lost it.
        assert!(
            answer.is_empty() || answer.starts_with("HTTP/1.1 413 "),
            "{answer}"
        );
    });
}

#[test]
fn requests_behind_one_without_a_token_are_not_answered() {
    run(async {
        let address = listen(Access::Token {
            tokens: Tokens::parse(TOKEN).unwrap(),
            write: true,
        });
        let without = "GET /v1/status HTTP/1.1\r\nHost: localhost\r\n\r\n";
        let with = format!(
            "GET /v1/status HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
        );
        let answer = ask(address, &format!("{without}{with}{with}")).await;
        assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
        assert_eq!(answer.matches("HTTP/1.1").count(), 1, "{answer}");
        // Pipelined requests with a token are answered in their order.
        let last = request(
            "GET /nothing",
            &format!("Authorization: Bearer {TOKEN}\r\n"),
            "",
        );
        let answer = ask(address, &format!("{with}{with}{last}")).await;
        assert_eq!(answer.matches("HTTP/1.1 200").count(), 2, "{answer}");
        assert!(answer.contains("HTTP/1.1 404"), "{answer}");
    });
}

#[test]
fn a_thousand_connections_leave_the_operator_a_place() {
    run(async {
        let address = listen(Access::Token {
            tokens: Tokens::parse(TOKEN).unwrap(),
            write: false,
        });
        let mut silent = Vec::new();
        for _ in 0..1000 {
            silent.push(TcpStream::connect(address).await.unwrap());
        }
        let bearer = format!("Authorization: Bearer {TOKEN}\r\n");
        let answer = ask(address, &request("GET /v1/status", &bearer, "")).await;
        assert!(answer.ends_with("\"status\"\n"), "{answer}");
    });
}
