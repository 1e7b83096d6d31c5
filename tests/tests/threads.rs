//! How many threads take requests: the advice in the status.

use serde_json::Value;
use test_support::{Server, until};

#[test]
fn the_status_advises_threads_after_a_thousand_requests() {
    let server = Server::app("run ->(_) { sleep 0.005; Test.text('done') }")
        .setting("threads", "1")
        .start();
    let mut client = server.connect();
    let mut get = || {
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        client.response().expect(200);
    };
    (0..999).for_each(|_| get());
    until("these are counted", || {
        server.status().0["routes"][0]["requests"] == 999
    });
    assert_eq!(server.status().0["thread_advice"], Value::Null);
    get();
    until("there is advice", || {
        !server.status().0["thread_advice"].is_null()
    });
    let advice = server.status().0["thread_advice"].clone();
    assert_eq!([&advice["threads"], &advice["requests"]], [1, 1000]);
    assert_eq!(advice["alone"], true);
    assert!(advice["advised"].as_u64() > Some(1), "{advice}");
    assert!(advice["wait_share"].as_f64() > Some(0.5), "{advice}");
    let page = server.command(&["status"]).stdout;
    assert!(page.contains("threads: 1; requests wait "), "{page}");
}
