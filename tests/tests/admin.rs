//! The operators' API: over TCP with a token, within what its address may do, through upgrades and reloads, and over the
//! control socket what the commands do.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use highball_tests::operators::{TOKEN, address, ask, get};
use test_support::{Application, Client, Server, ServerBuilder};

const SOURCE: &str = "run ->(_) { Test.text('hello') }";

/// A server with an address for operators and this file of tokens.
fn with_tokens(text: &str) -> ServerBuilder {
    let application = Application::new(SOURCE);
    application.dir().write("tokens", text);
    let path = application.path().join("tokens");
    std::fs::set_permissions(path, Permissions::from_mode(0o600)).expect("a file of ours");
    Server::application_of(application)
        .setting("admin_listen", "127.0.0.1:0")
        .setting("admin_tokens_file", "tokens")
}

fn state(lines: &str) -> serde_json::Value {
    let last = lines.lines().last().expect("a line");
    serde_json::from_str(last).expect("JSON")
}

#[test]
fn a_token_reads_the_status_and_changes_nothing_by_default() {
    let server = with_tokens(TOKEN).start();
    let address = address(&server, "admin_listen");
    let status = ask(&address, "GET", "/v1/status", "");
    assert_eq!(status.expect(200).json()["pid"], server.status().0["pid"]);
    let refused = ask(&address, "POST", "/v1/restart", "");
    let text = refused.expect(403).text();
    assert!(text.contains("admin_write"), "{text}");
    assert_eq!(server.status().0["generations"][0]["number"], 1);
    // Nothing of it is on the address of the application.
    assert_eq!(server.get("/v1/status").expect(200).text(), "hello");
}

#[test]
fn without_a_token_not_a_byte_of_the_server_is_told() {
    for tokens in ["# nobody\n", TOKEN] {
        let server = with_tokens(tokens).setting("admin_write", "true").start();
        let address = address(&server, "admin_listen");
        for request in [
            "GET /v1/status HTTP/1.1\r\nHost: localhost\r\n\r\n",
            "GET /metrics HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer \r\n\r\n",
            "POST /v1/stop HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n",
        ] {
            let mut client = Client::connect(&*address);
            let answer = client.send(request).response();
            let text = answer.expect(401).text();
            assert_eq!(
                text,
                "{\"error\":\"send a token of admin_tokens_file: Authorization: Bearer TOKEN\"}\n"
            );
        }
        let rebound = "GET /v1/status HTTP/1.1\r\nHost: rebound.example\r\n\r\n";
        Client::connect(&*address)
            .send(rebound)
            .response()
            .expect(421);
        assert_eq!(server.status().0["state"], "serving");
    }
}

#[test]
fn with_admin_write_a_token_does_what_the_commands_do() {
    let server = with_tokens(TOKEN)
        .setting("admin_write", "true")
        .setting("cache_bytes", "1MiB")
        .start();
    let address = address(&server, "admin_listen");
    let post = |path: &str, body: &str| ask(&address, "POST", path, body);
    let restarted = state(&post("/v1/restart", "{}").expect(200).text());
    assert_eq!(restarted["state"], "done");
    assert!(
        restarted["message"]
            .as_str()
            .unwrap()
            .starts_with("generation 2 serves")
    );
    let unknown = post("/v1/restart", "{\"application\":\"shop\"}");
    assert_eq!(state(&unknown.expect(200).text())["state"], "failed");
    let reloaded = state(&post("/v1/reload", "").expect(200).text());
    assert_eq!(reloaded["state"], "done");
    let purged = state(&post("/v1/purge", "{\"all\":true}").expect(200).text());
    assert_eq!(purged["message"], "forgot the responses of 0 URLs\n");
    // Code of somebody's choice is for those on the machine alone.
    post("/v1/upgrade", "{\"binary\":\"/bin/true\"}").expect(403);
    let length = "Content-Length: 0";
    let mut client = Client::connect(&*address);
    client.send(format!(
        "POST /v1/stop HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n{length}\r\n\r\n"
    ));
    assert_eq!(client.head().status, 200);
    assert!(server.wait_end().status.success());
}

#[test]
fn a_reload_reads_the_tokens_again_and_keeps_them_if_they_are_bad() {
    let server = with_tokens(TOKEN).start();
    let address = address(&server, "admin_listen");
    let file = server.dir().join("tokens");
    let write = |text: &str| std::fs::write(&file, text).expect("a file of ours");
    write("short");
    let refused = server.command(&["reload"]);
    assert!(
        refused.stderr.contains("line 1: a token has"),
        "{}",
        refused.output()
    );
    assert!(!refused.output().contains("short"));
    ask(&address, "GET", "/v1/status", "").expect(200);
    write(&TOKEN.replace('0', "1"));
    assert!(server.command(&["reload"]).status.success());
    ask(&address, "GET", "/v1/status", "").expect(401);
}

#[test]
fn tokens_that_others_can_read_end_the_start() {
    let application = Application::new(SOURCE);
    application.dir().write("tokens", TOKEN);
    let path = application.path().join("tokens");
    std::fs::set_permissions(&path, Permissions::from_mode(0o644)).expect("a file of ours");
    let arguments = [
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--admin-listen",
        "127.0.0.1:0",
    ];
    let mut program = test_support::Program::highball(arguments).current_dir(application.path());
    program = program.args(["--admin-tokens-file", "tokens"]);
    let ran = program.run();
    assert!(!ran.status.success());
    assert!(ran.stderr.contains("its mode is 0644"), "{}", ran.output());
    assert!(!ran.output().contains(TOKEN));
}

#[test]
fn an_upgrade_hands_the_operators_addresses_over() {
    let mut server = with_tokens(TOKEN)
        .setting("metrics_listen", "127.0.0.1:0")
        .start();
    let [admin, metrics] = ["admin_listen", "metrics_listen"].map(|name| address(&server, name));
    let before = ask(&admin, "GET", "/v1/status", "").json()["pid"].clone();
    assert!(server.command(&["upgrade"]).status.success());
    let after = ask(&admin, "GET", "/v1/status", "").expect(200).json()["pid"].clone();
    assert_ne!(before, after);
    get(&metrics, "/ready").expect(200);
    let pid = u32::try_from(after.as_u64().expect("a number")).expect("a pid");
    server.replaced_by(test_support::Process(pid));
}

/// The schema of this name in a description of the API.
fn schema(description: &serde_json::Value, name: &str) -> jsonschema::Validator {
    let schema = serde_json::json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$ref": format!("#/components/schemas/{name}"),
        "components": description["components"],
    });
    jsonschema::validator_for(&schema).expect("a schema")
}

#[track_caller]
fn fits(description: &serde_json::Value, name: &str, value: &serde_json::Value) {
    let validator = schema(description, name);
    let errors: Vec<_> = validator
        .iter_errors(value)
        .map(|one| one.to_string())
        .collect();
    assert!(errors.is_empty(), "{name}: {errors:#?}\n{value:#}");
}

#[test]
fn real_answers_are_those_that_the_description_promises() {
    let server = with_tokens(TOKEN).setting("admin_write", "true").start();
    let address = address(&server, "admin_listen");
    let get = |path: &str| ask(&address, "GET", path, "");
    let description = get("/v1/openapi.json").expect(200).json();
    assert_eq!(description["openapi"], "3.1.0");
    let check = |name: &str, value: &serde_json::Value| fits(&description, name, value);
    check("Live", &get("/live").expect(200).json());
    check("Readiness", &get("/ready").expect(200).json());
    let status = get("/v1/status").expect(200).json();
    check("Status", &status);
    // What it describes is there, and not only allowed.
    let described = description["components"]["schemas"]["Status"]["required"].as_array();
    for name in described.expect("a list") {
        assert!(
            status.get(name.as_str().expect("a name")).is_some(),
            "{name}"
        );
    }
    check(
        "WorkersOfApplications",
        &get("/v1/workers").expect(200).json(),
    );
    server.get("/").expect(200);
    let routes = get("/v1/routes?application=").expect(200).json();
    check("RoutesOfApplications", &routes);
    assert_eq!(routes["applications"][0]["routes"][0]["requests"], 1);
    let recording = get("/v1/recording").expect(200).json();
    check("RecordingOfApplications", &recording);
    assert_eq!(
        recording["applications"][0]["workers"],
        status["workers"]["allowed"]
    );
    check("Exceptions", &get("/v1/exceptions").expect(200).json());
    assert!(get("/metrics").expect(200).text().contains("highball_info"));
    for path in [
        "/v1/workers",
        "/v1/routes",
        "/v1/recording",
        "/v1/exceptions",
    ] {
        let unknown = get(&format!("{path}?application=shop"));
        check("Error", &unknown.expect(404).json());
    }
    check("Error", &get("/v1/exceptions/none").expect(404).json());
    check("Error", &get("/nothing").expect(404).json());
    for (path, body) in [
        ("/v1/reload", "{}"),
        ("/v1/restart", "{\"application\":\"shop\"}"),
        ("/v1/purge", "{\"tag\":\"a\"}"),
        ("/v1/scale", "{\"workers\":2}"),
        ("/v1/scale", "{\"workers\":\"default\"}"),
        ("/v1/log-level", "{\"level\":\"warn\"}"),
        ("/v1/log-level", "{\"level\":\"default\"}"),
        ("/v1/restart", ""),
    ] {
        let answer = ask(&address, "POST", path, body);
        let text = answer.expect(200).text();
        assert_eq!(answer.field("content-type"), Some("application/x-ndjson"));
        for line in text.lines() {
            check("Progress", &serde_json::from_str(line).expect("JSON"));
        }
        assert!(!text.is_empty());
    }
    // A schema that takes anything would prove nothing.
    let wrong = serde_json::json!({"state": "done"});
    assert!(!schema(&description, "Progress").is_valid(&wrong));
    assert!(!schema(&description, "Status").is_valid(&serde_json::json!({})));
}
