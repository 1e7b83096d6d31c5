//! Out of file descriptors. A program of its own, for the limit is the whole process's.

#[path = "support/front.rs"]
mod support;

use std::fs::File;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use support::Server;
use test_support::Client;

#[test]
fn without_descriptors_idle_connections_go_then_accepting_pauses() {
    let server = Server::start(|_| {});
    let mut thread = server.thread();
    let mut idle = server.served(&mut thread, "/idle");
    let mut busy = server.ask("/busy");
    let job = thread.take();
    let maximum = getrlimit(Resource::Nofile).maximum;
    let limit = Rlimit {
        current: Some(64),
        maximum,
    };
    setrlimit(Resource::Nofile, limit).expect("a lower limit");
    // The client's socket takes the last one that is free, and the front has none to accept it with.
    let mut taken = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        taken.push(file);
    }
    taken.pop();
    let mut newcomer = Client::connect(server.address);
    newcomer.send("GET /newcomer HTTP/1.1\r\nHost: test\r\n\r\n");
    idle.expect_end();
    // Its client's end.
    drop(idle);
    let mut waits = Client::connect(server.address);
    waits.send("GET /waits HTTP/1.1\r\nHost: test\r\n\r\n");
    job.answer_path();
    busy.response().expect(200);
    for _ in 0..2 {
        thread.take().answer_path();
    }
    assert_eq!(newcomer.response().text(), "/newcomer");
    assert_eq!(waits.response().text(), "/waits");
    taken.clear();
}
