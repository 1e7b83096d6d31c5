//! Until when what a worker runs is in time: what a drain waits for; and what a front waits for that another one has
//! replaced.

#[path = "support/front.rs"]
mod support;

use std::rc::Rc;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use exchange::response::Kind;
use exchange::{Dispatcher as _, WorkerId};
use support::Server;
use test_support::TEST_TIMEOUT;

const HOUR: Duration = Duration::from_secs(3600);

/// For how long what this worker runs is in time, where anything is.
fn rest(server: &Server, worker: u16) -> Option<Duration> {
    server.with(move |front| {
        let deadline = front.applications()[0]
            .dispatcher()
            .deadline(WorkerId::new(1, worker));
        deadline.map(|deadline| deadline - Instant::now())
    })
}

/// Asserts the number of full hours.
#[track_caller]
fn expect_hours(server: &Server, worker: u16, hours: u32) {
    let rest = rest(server, worker).expect("it runs something in time");
    assert!(
        rest <= hours * HOUR && rest > (hours - 1) * HOUR,
        "{rest:?}"
    );
}

#[test]
fn the_latest_deadline_of_what_a_worker_runs_counts_that_of_its_path_included() {
    let server = Server::start(|settings| {
        (settings.workers, settings.threads) = (2.into(), 2.into());
        settings.request_timeout = Some(HOUR);
        settings.request_timeouts = [("/reports", 3 * HOUR)].into_iter().collect();
    });
    let (player, other) = (server.worker(0), server.worker(1));
    let (mut thread, mut second) = (player.thread(0), player.thread(1));
    assert_eq!(rest(&server, 0), None);
    let client = server.ask("/");
    let taken = thread.take();
    expect_hours(&server, 0, 1);
    let _reports = server.ask("/reports/1");
    let report = second.take();
    expect_hours(&server, 0, 3);
    assert_eq!(rest(&server, 1), None, "the other one runs nothing");
    // No worker has this one yet.
    let _waits = server.ask("/waits");
    server.until(|now| now.queue.length == 1);
    expect_hours(&server, 0, 3);
    report.answer_path();
    server.until(|now| now.running.len() == 1);
    expect_hours(&server, 0, 1);
    // Its client's leaving does not change what it does to the world.
    client.reset();
    server.until(|now| now.requests["client_closed"] == 1);
    expect_hours(&server, 0, 1);
    taken.finish();
    drop(other);
}

#[test]
fn what_is_cut_with_its_generation_is_stopped_or_run_again_and_blamed_for_nothing() {
    let server = Server::start(|settings| settings.threads = 2.into());
    let player = server.worker(0);
    let (mut thread, mut second) = (player.thread(0), player.thread(1));
    let mut post = server.connect();
    post.send("POST /post HTTP/1.1\r\nHost: test\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(thread.take().path(), "/post");
    let mut get = server.ask("/get");
    assert_eq!(second.take().path(), "/get");
    server.open(2);
    let mut new = server.worker_of(2, 0).thread(0);
    server.route_to(&[2]);
    assert_eq!(
        server.with(|front| front.applications()[0].dispatcher().cut(1)),
        1
    );
    server.reclaim(0);
    post.response().expect(502);
    server.expect_outcome("/post", "stopped");
    new.take().answer_path();
    get.response().expect(200);
    server.until_quiet();
}

#[test]
fn neither_what_is_late_nor_a_connection_that_was_taken_over_is_in_time() {
    let server = Server::start(|settings| {
        settings.threads = 2.into();
        settings.request_timeout = Some(HOUR);
        // Long enough for a busy machine to give each request to its worker, and the stream to begin.
        let short = ("/short", Duration::from_secs(1));
        settings.request_timeouts = [short].into_iter().collect();
    });
    let player = server.worker(0);
    let (mut thread, mut second) = (player.thread(0), player.thread(1));
    let mut late = server.ask("/short");
    let taken = thread.take();
    late.response().expect(504);
    assert_eq!(rest(&server, 0), None);
    let mut streams = server.ask("/short/stream");
    let mut stream = second.take();
    stream.head(200, &[]).chunk(b"begun").flush();
    streams.head();
    server.until(|_| rest(&server, 0).is_none());
    taken.finish();
    let _hijacks = server.ask("/hijack");
    let mut hijack = thread.take();
    expect_hours(&server, 0, 1);
    hijack.frame(Kind::Hijacked, b"").expect("it is read");
    hijack.flush();
    server.until(|_| rest(&server, 0).is_none());
    hijack.finish();
    stream.end();
}

/// Begins to let the workers go, whose drain takes so long; what comes is that none is needed any more.
fn let_workers_go(server: &Server, limit: Duration) -> mpsc::Receiver<()> {
    let (sender, receiver) = mpsc::channel();
    server.with(move |front| {
        let front = Rc::clone(front);
        tokio::task::spawn_local(async move {
            front.let_workers_go(limit).await;
            let _ = sender.send(());
        });
    });
    receiver
}

#[test]
fn workers_are_needed_until_all_that_clients_wait_for_is_here() {
    let server = Server::start(|settings| settings.threads = 2.into());
    let player = server.worker(0);
    let (mut thread, mut second) = (player.thread(0), player.thread(1));
    let mut running = server.ask("/running");
    let taken = thread.take();
    let mut sending = server.connect();
    sending.send("POST /sending HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n");
    server.until(|now| now.connections == 2);
    let gone = let_workers_go(&server, 4 * TEST_TIMEOUT);
    // Neither the end of what runs, nor a request that is still being read, leaves a worker without use.
    let large = vec![b'x'; 100_000];
    let mut answer = taken;
    answer.head(200, &[]);
    for _ in 0..100 {
        answer.frame(Kind::Chunk, &large).expect("there is room");
    }
    answer.end();
    sending.send("hello");
    let last = second.take();
    assert_eq!(gone.try_recv(), Err(mpsc::TryRecvError::Empty));
    last.answer_path();
    sending.response().expect(200);
    drop(sending);
    gone.recv_timeout(TEST_TIMEOUT)
        .expect("no worker is needed");
    // The client takes its response when it likes.
    let response = running.response();
    assert_eq!(response.expect(200).body.len(), 100 * large.len());
}

#[test]
fn what_has_no_deadline_to_come_ends_with_the_drain_of_a_front_that_was_replaced() {
    let server = Server::start(|settings| {
        settings.threads = 2.into();
        // Long enough for a busy machine to give each request to its worker, and the stream to begin.
        let short = ("/short", Duration::from_secs(1));
        settings.request_timeouts = [short].into_iter().collect();
    });
    let player = server.worker(0);
    let (mut thread, mut second) = (player.thread(0), player.thread(1));
    let mut streams = server.ask("/short");
    let mut stream = thread.take();
    stream.head(200, &[]).chunk(b"begun").flush();
    streams.head();
    let mut running = server.ask("/running");
    let taken = second.take();
    let gone = let_workers_go(&server, Duration::ZERO);
    // It goes on to move, so that only its first deadline passes.
    let reads = thread::spawn(move || streams.rest());
    while stream.frame(Kind::Chunk, b"more").is_ok() {
        stream.flush();
    }
    reads.join().expect("it reads to the end");
    // Cut by the drain, and late besides.
    let line = server.logged("/short");
    let cut = ["outcome=aborted", "outcome=deadline_exceeded"];
    assert!(
        cut.iter().any(|end| line.trim_end().ends_with(end)),
        "{line}"
    );
    assert_eq!(gone.try_recv(), Err(mpsc::TryRecvError::Empty));
    taken.answer_path();
    running.response().expect(200);
    drop(running);
    gone.recv_timeout(TEST_TIMEOUT)
        .expect("no worker is needed");
    stream.finish();
}
