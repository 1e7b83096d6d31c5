//! The id of a request: kept from a trusted proxy, or a new one; the same in the env, the log and the response, errors too.

use serde_json::Value;
use test_support::{Server, ServerBuilder};

/// Answers with the id that it got.
const APPLICATION: &str = r##"
run lambda { |env|
  raise "boom" if env["PATH_INFO"] == "/fail"
  headers = { "content-type" => "text/plain" }
  headers["x-request-id"] = "own" if env["PATH_INFO"] == "/own"
  [200, headers, [env["HTTP_X_REQUEST_ID"].inspect]]
}"##;

fn server() -> ServerBuilder {
    Server::app(APPLICATION).setting("log_format", "json")
}

/// What a request with these fields got: its id in the response, and the one in the env.
fn get(server: &Server, path: &str, fields: &str) -> (Option<String>, String) {
    let mut client = server.connect();
    client.send(format!("GET {path} HTTP/1.1\r\nHost: test\r\n{fields}\r\n"));
    let response = client.response();
    let id = response.field("x-request-id").map(str::to_owned);
    (id, response.text())
}

/// The id in the log's line for a path.
fn logged(server: &Server, path: &str) -> Value {
    let wanted = format!("\"path\":\"{path}\"");
    let line = server
        .log()
        .wait(|line| line.contains(&wanted) && line.contains("outcome"));
    let line: Value = serde_json::from_str(&line).expect("JSON");
    line["request_id"].clone()
}

fn is_uuid_7(id: &str) -> bool {
    let form: String = id
        .chars()
        .map(|c| {
            if c.is_ascii_hexdigit() && !c.is_ascii_uppercase() {
                'x'
            } else {
                c
            }
        })
        .collect();
    form == "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx" && id.as_bytes()[14] == b'7'
}

#[test]
fn the_id_of_a_trusted_proxy_stays() {
    let server = server().start();
    let (id, env) = get(&server, "/kept", "X-Request-Id: a-B_1@x\r\n");
    assert_eq!(id.as_deref(), Some("a-B_1@x"));
    assert_eq!(env, "\"a-B_1@x\"");
    assert_eq!(logged(&server, "/kept"), "a-B_1@x");
    server.stop();
}

#[test]
fn a_request_without_a_sound_id_gets_a_new_one() {
    let server = server().start();
    let long = format!("X-Request-Id: {}\r\n", "x".repeat(256));
    for (path, fields) in [
        ("/none", ""),
        ("/space", "X-Request-Id: a b\r\n"),
        ("/empty", "X-Request-Id:\r\n"),
        ("/long", &long),
    ] {
        let (id, env) = get(&server, path, fields);
        let id = id.expect("an id");
        assert!(is_uuid_7(&id), "{path}: {id}");
        assert_eq!(env, format!("{id:?}"), "{path}");
        assert_eq!(logged(&server, path), id.as_str(), "{path}");
    }
    server.stop();
}

#[test]
fn the_id_of_a_client_that_is_not_trusted_is_replaced() {
    let server = server().setting("trusted_proxies", "none").start();
    let (id, env) = get(&server, "/", "X-Request-Id: mine\r\n");
    let id = id.expect("an id");
    assert!(is_uuid_7(&id), "{id}");
    assert_eq!(env, format!("{id:?}"));
    server.stop();
}

#[test]
fn an_id_of_the_applications_own_stays_in_the_response() {
    let server = server().start();
    let (id, _) = get(&server, "/own", "X-Request-Id: proxy\r\n");
    assert_eq!(id.as_deref(), Some("own"));
    server.stop();
}

#[test]
fn errors_have_the_id_too() {
    let server = server().start();
    let (id, _) = get(&server, "/fail", "X-Request-Id: f1\r\n");
    assert_eq!(id.as_deref(), Some("f1"));
    let error = server.log().wait(|line| line.contains("boom"));
    let error: Value = serde_json::from_str(&error).expect("JSON");
    assert_eq!(error["request_id"], "f1");
    let response = server
        .connect()
        .send("GET /refused HTTP/1.1\r\n\r\n")
        .response();
    assert_eq!(response.status(), 400);
    let id = response.field("x-request-id").expect("an id");
    assert!(is_uuid_7(id), "{id}");
    assert_eq!(logged(&server, "/refused"), id);
    server.stop();
}

#[test]
fn without_ids_the_field_is_the_clients_own() {
    let server = server().setting("request_id", "false").start();
    let (id, env) = get(&server, "/", "X-Request-Id: a b\r\n");
    assert_eq!((id, env.as_str()), (None, "\"a b\""));
    let (id, env) = get(&server, "/none", "");
    assert_eq!((id, env.as_str()), (None, "nil"));
    assert_eq!(logged(&server, "/none"), Value::Null);
    server.stop();
}
