//! Connections that go over to another front: each at a moment when nothing is under way on it, so that no client notices.

#[path = "support/front.rs"]
mod support;

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};

use support::{Server, TestThread};
use test_support::Client;
use tokio::sync::Notify;

const REQUEST: &str = "GET /next HTTP/1.1\r\nHost: test\r\n\r\n";

/// One more request of a connection, which this thread gets. The connection stays open.
#[track_caller]
fn expect_served(client: &mut Client, thread: &mut TestThread) {
    client.send(REQUEST);
    thread.take().answer_path();
    let response = client.response();
    assert_eq!(response.expect(200).text(), "/next");
    assert_eq!(response.field("connection"), None);
}

#[test]
fn what_is_idle_goes_over_at_once_and_what_runs_after_its_response() {
    let (old, new) = (
        Server::start(|one| one.threads = 2.into()),
        Server::start(|_| {}),
    );
    let player = old.worker(0);
    let (mut thread, mut other) = (player.thread(0), player.thread(1));
    let mut new_worker = new.thread();
    let mut fresh = old.connect();
    let mut kept = old.served(&mut thread, "/kept");
    let mut resting = old.served(&mut thread, "/resting");
    old.until(|now| now.resting >= 1);
    let mut running = old.ask("/running");
    let taken = thread.take();
    // It is there while the first one still runs.
    running.send("GET /pipelined HTTP/1.1\r\nHost: test\r\n\r\n");
    let mut streaming = old.ask("/streaming");
    let mut stream = other.take();
    stream.head(200, &[]).chunk(b"begun").flush();
    streaming.head();
    streaming.chunk();
    let mut sending = old.connect();
    sending.send("GET /sending HTTP/1.1\r\n");
    old.until(|now| now.connections == 6);
    let given = old.give_to(&new, || Ok(()), Arc::default());
    old.until(|now| now.connections == 3);
    new.until(|now| now.connections == 3);
    assert!(Client::try_connect(old.address).is_err());
    for client in [&mut fresh, &mut kept, &mut resting] {
        expect_served(client, &mut new_worker);
    }
    taken.answer_path();
    running.response().expect(200);
    thread.take().answer_path();
    assert_eq!(running.response().text(), "/pipelined");
    expect_served(&mut running, &mut new_worker);
    stream.end();
    assert_eq!(streaming.chunk(), None);
    expect_served(&mut streaming, &mut new_worker);
    sending.send("Host: a\r\n\r\n");
    thread.take().answer_path();
    assert_eq!(sending.response().text(), "/sending");
    assert!(given.recv().expect("it ends").is_ok());
    expect_served(&mut sending, &mut new_worker);
    assert_eq!(new.until(|now| now.connections == 6).connections, 6);
}

#[test]
fn a_request_that_comes_at_that_very_moment_is_answered_by_the_other() {
    let (old, new) = (Server::start(|_| {}), Server::start(|_| {}));
    let mut thread = old.thread();
    let mut new_worker = new.thread();
    let mut client = old.served(&mut thread, "/kept");
    // The front has found the connection idle, and stands still until the request is there.
    let (reached, at_it) = mpsc::channel();
    let (go_on, receiver) = mpsc::channel();
    let given = old.give_to(
        &new,
        move || {
            reached.send(()).expect("the test waits");
            receiver.recv().expect("the test goes on");
            Ok(())
        },
        Arc::default(),
    );
    at_it.recv().expect("the connection is given");
    client.send(REQUEST);
    go_on.send(()).expect("the front waits");
    new_worker.take().answer_path();
    assert_eq!(client.response().text(), "/next");
    expect_served(&mut client, &mut new_worker);
    assert!(given.recv().expect("it ends").is_ok());
}

#[test]
fn a_connection_that_there_is_no_room_for_yet_is_served_where_it_is() {
    let (old, new) = (Server::start(|_| {}), Server::start(|_| {}));
    let mut thread = old.thread();
    let mut new_worker = new.thread();
    let mut client = old.connect();
    let mut another = old.connect();
    old.until(|now| now.connections == 2);
    let full = Arc::new(AtomicBool::new(true));
    let room = Arc::new(Notify::new());
    let asked = Arc::clone(&full);
    let given = old.give_to(
        &new,
        move || match asked.load(Ordering::Relaxed) {
            true => Err(io::ErrorKind::WouldBlock.into()),
            false => Ok(()),
        },
        Arc::clone(&room),
    );
    for _ in 0..3 {
        expect_served(&mut client, &mut thread);
        expect_served(&mut another, &mut thread);
    }
    full.store(false, Ordering::Relaxed);
    room.notify_one();
    assert!(given.recv().expect("it ends").is_ok());
    expect_served(&mut client, &mut new_worker);
    expect_served(&mut another, &mut new_worker);
}

#[test]
fn where_nobody_takes_them_they_are_served_on() {
    let (old, new) = (Server::start(|_| {}), Server::start(|_| {}));
    let mut thread = old.thread();
    let mut client = old.served(&mut thread, "/kept");
    let given = old.give_to(
        &new,
        || Err(io::ErrorKind::BrokenPipe.into()),
        Arc::default(),
    );
    let error = given
        .recv()
        .expect("it ends")
        .expect_err("they are not taken");
    assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    expect_served(&mut client, &mut thread);
    let drained = old.drain();
    client.expect_end();
    assert!(drained.recv().expect("the drain ends"));
}

#[test]
fn a_front_that_stops_closes_what_it_is_given() {
    let (old, new) = (Server::start(|_| {}), Server::start(|_| {}));
    let mut thread = old.thread();
    let mut client = old.served(&mut thread, "/kept");
    assert!(new.drain().recv().expect("the drain ends"));
    let given = old.give_to(&new, || Ok(()), Arc::default());
    client.expect_end();
    assert!(given.recv().expect("it ends").is_ok());
}

#[test]
fn one_that_is_given_waits_for_a_place_like_a_new_one() {
    let (old, new) = (
        Server::start(|_| {}),
        Server::start(|one| one.max_connections = 1),
    );
    let mut new_worker = new.thread();
    let mut client = old.connect();
    let first = new.connect();
    old.until(|now| now.connections == 1);
    new.until(|now| now.connections == 1);
    let given = old.give_to(&new, || Ok(()), Arc::default());
    assert!(given.recv().expect("it ends").is_ok());
    client.send(REQUEST);
    for _ in 0..3 {
        assert_eq!(new.with(|front| front.snapshot().connections), 1);
    }
    drop(first);
    new_worker.take().answer_path();
    assert_eq!(client.response().text(), "/next");
}
