//! Out of file descriptors. A program of its own, for the limit is the whole process's.

#[path = "support/front.rs"]
mod support;

use std::fs::File;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use support::Server;
use test_support::Client;

#[test]
fn accepting_pauses_without_descriptors_and_goes_on_once_there_are_some() {
    let server = Server::start(|_| {});
    let mut seat = server.seat();
    let mut first = server.served(&mut seat, "/first");
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
    let mut waits = Client::connect(server.address);
    waits.send("GET /waits HTTP/1.1\r\nHost: test\r\n\r\n");
    // Those who are there are served meanwhile.
    for _ in 0..3 {
        first.send("GET /first HTTP/1.1\r\nHost: test\r\n\r\n");
        seat.take().answer_path();
        first.response().expect(200);
        assert_eq!(server.with(|front| front.snapshot().connections), 1);
    }
    taken.clear();
    seat.take().answer_path();
    assert_eq!(waits.response().text(), "/waits");
}
