//! What workers say that the application has counted, sound and otherwise, as they write it into the exchange.

#[path = "support/front.rs"]
mod support;

use exchange::response::Kind;
use metrics::{CustomTotals, Value};
use support::Server;

/// Has a worker answer a request with these frames of counts before its response.
fn answer_with(server: &Server, path: &str, counts: &[Vec<u8>]) {
    let mut thread = server.thread();
    let mut client = server.ask(path);
    let mut taken = thread.take();
    for batch in counts {
        taken.frame(Kind::Counts, batch).expect("there is room");
    }
    taken.head(200, &[("content-length", "2")]).chunk(b"ok");
    taken.end();
    assert_eq!(client.response().text(), "ok");
}

fn orders(by: u32) -> Vec<u8> {
    format!(
        r#"{{"metrics":[{{"name":"orders","kind":"counter","help":"h","series":[{{"labels":[],"value":{by}}}]}}]}}"#
    )
    .into_bytes()
}

fn custom(server: &Server) -> CustomTotals {
    server.with(|front| front.applications()[0].totals().custom)
}

fn counted(custom: &CustomTotals) -> &Value {
    &custom.metrics["orders"].series[0].1
}

#[test]
fn of_one_request_eight_frames_of_counts_are_read() {
    let server = Server::start(|_| {});
    answer_with(&server, "/", &vec![orders(1); 20]);
    assert_eq!(counted(&custom(&server)), &Value::Counter(8.0));
    answer_with(&server, "/", &[orders(2)]);
    assert_eq!(counted(&custom(&server)), &Value::Counter(10.0));
}

#[test]
fn counts_that_are_none_are_counted_and_harm_no_response() {
    let server = Server::start(|_| {});
    let hostile = [
        Vec::new(),
        b"\xff{".to_vec(),
        b"{\"metrics\":7}".to_vec(),
        [b"{\"metrics\":".to_vec(), vec![b'['; 30_000]].concat(),
    ];
    answer_with(&server, "/", &hostile);
    let custom = custom(&server);
    assert_eq!((custom.dropped.invalid, custom.metrics.len()), (4, 0));
}

#[test]
fn the_next_server_shows_what_this_one_has_counted() {
    let server = Server::start(|_| {});
    answer_with(&server, "/", &[orders(3)]);
    let all = server.with(|front| {
        let application = &front.applications()[0];
        application.add_before(&application.totals());
        application.totals().custom
    });
    assert_eq!(counted(&all), &Value::Counter(6.0));
}
