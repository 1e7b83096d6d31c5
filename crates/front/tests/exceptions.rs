//! Reports of exceptions, sound ones and others, as workers write them into the exchange.

#[path = "support/front.rs"]
mod support;

use exchange::response::Kind;
use serde_json::{Value, json};
use support::Server;

/// Has a worker answer a request with these reports before its response.
fn answer_with(server: &Server, path: &str, reports: &[Vec<u8>]) {
    let mut thread = server.thread();
    let mut client = server.ask(path);
    let mut taken = thread.take();
    for report in reports {
        taken.frame(Kind::Exception, report).expect("there is room");
    }
    taken.head(200, &[("content-length", "2")]).chunk(b"ok");
    taken.end();
    assert_eq!(client.response().text(), "ok");
}

fn report(class: &str) -> Vec<u8> {
    json!({"class": class, "frame": "app/a.rb:run"})
        .to_string()
        .into_bytes()
}

fn list(server: &Server) -> Value {
    let text = server.with(|front| front.applications()[0].exceptions().list().to_string());
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn a_report_is_kept_with_its_request_and_changes_no_response() {
    let server = Server::start(|_| {});
    answer_with(&server, "/orders?card=4111", &[report("IOError")]);
    let list = list(&server);
    let group = &list["groups"][0];
    assert_eq!(
        (&group["class"], &group["count"]),
        (&json!("IOError"), &json!(1))
    );
    let id = group["group"].as_str().expect("an id").to_owned();
    let found = server.with(move |front| {
        let exceptions = front.applications()[0].exceptions();
        exceptions.group(&id).map(|group| group.to_string())
    });
    let found: Value = serde_json::from_str(&found.expect("the group")).expect("JSON");
    let sample = &found["samples"][0];
    assert_eq!(
        (&sample["method"], &sample["path"]),
        (&json!("GET"), &json!("/orders"))
    );
    assert_eq!(
        (&sample["worker"], &sample["generation"]),
        (&json!(0), &json!(1))
    );
    server.expect_outcome("/orders?card=4111", "ok");
}

#[test]
fn reports_that_are_none_are_counted_and_harm_nobody() {
    let server = Server::start(|_| {});
    let hostile = [
        Vec::new(),
        b"\xff\xfe{".to_vec(),
        b"{\"class\":7}".to_vec(),
        [
            b"{\"class\":\"A\",\"parameters\":".to_vec(),
            vec![b'['; 9000],
        ]
        .concat(),
        vec![b' '; 40_000],
        b"{\"class\":\"\\u001b[2J\\n\"}".to_vec(),
    ];
    answer_with(&server, "/", &hostile);
    let list = list(&server);
    assert_eq!(list["unreadable_reports"], 5);
    assert_eq!(list["groups"][0]["class"], "\\u{1b}[2J\\n");
}

#[test]
fn of_one_request_eight_reports_are_read() {
    let server = Server::start(|_| {});
    let many: Vec<_> = (0..50)
        .map(|number| report(&format!("E{number}")))
        .collect();
    answer_with(&server, "/", &many);
    assert_eq!(list(&server)["groups"].as_array().expect("groups").len(), 8);
}
