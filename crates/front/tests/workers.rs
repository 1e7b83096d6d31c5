//! Workers that die, in every state of a request, and connections that their applications take over.

#[path = "support/front.rs"]
mod support;

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use exchange::response::Kind;
use exchange::{Dispatcher as _, WorkerId};
use support::Server;
use test_support::{Client, Fault, TEST_TIMEOUT};

/// The workers of the only generation.
const FIRST: WorkerId = WorkerId {
    generation: 1,
    worker: 0,
};
const SECOND: WorkerId = WorkerId {
    generation: 1,
    worker: 1,
};

fn post(server: &Server, path: &str) -> Client {
    let mut client = server.connect();
    client.send(format!(
        "POST {path} HTTP/1.1\r\nHost: test\r\nContent-Length: 0\r\n\r\n"
    ));
    client
}

#[test]
fn a_safe_request_that_has_killed_two_workers_is_a_502_and_named_in_the_log() {
    let server = Server::start(|settings| settings.workers = 2.into());
    let mut client = server.ask("/deadly?a=b");
    for worker in [0, 1] {
        let mut thread = server.worker(worker).thread(0);
        assert_eq!(thread.take().path(), "/deadly");
        let cause = "signal 11 (SEGV)".to_owned();
        if worker == 0 {
            server.bury_explained(worker, &cause);
        } else {
            let explain = server.bury_unexplained(worker);
            // The answer does not wait for what the log is to say.
            client.response().expect(502);
            explain.send(cause).expect("the front waits");
        }
    }
    server.expect_outcome("/deadly?a=b", "worker_died");
    let is_named = |line: &&String| line.contains("class=\"PoisonRequest\"");
    let lines = server.wait_for_lines(|lines| lines.iter().any(|line| is_named(&line)));
    let named = lines.iter().find(is_named).expect("waited for above");
    assert!(named.contains("level=error"), "{named}");
    assert!(named.contains("method=GET path=\"/deadly\""), "{named}");
    let workers = "worker 0 of generation 1 (signal 11 (SEGV)), then worker 1 of generation 1 (signal 11 (SEGV))";
    assert!(named.contains(workers), "{named}");
    let snapshot = server.with(|front| front.snapshot());
    assert_eq!((snapshot.retried, snapshot.killed_two_workers), (1, 1));
    server.until_quiet();
    // The next worker in a place of theirs serves.
    client.send("GET /next HTTP/1.1\r\nHost: test\r\n\r\n");
    server.thread().take().answer_path();
    assert_eq!(client.response().text(), "/next");
    assert_eq!(server.end(), 2);
}

#[test]
fn a_request_that_has_killed_two_workers_is_named_also_where_nobody_says_how_they_ended() {
    let server = Server::start(|_| {});
    let mut client = server.ask("/deadly");
    for _ in 0..2 {
        server.thread().take();
        server.reclaim(0);
    }
    client.response().expect(502);
    let text = "worker 0 of generation 1, then worker 0 of generation 1 died with it";
    server.wait_for_lines(|lines| lines.iter().any(|line| line.contains(text)));
}

#[test]
fn how_the_first_of_two_workers_ended_is_waited_for_as_well() {
    let server = Server::start(|settings| settings.workers = 2.into());
    let mut client = server.ask("/deadly");
    let deaths = [0, 1].map(|worker| {
        server.worker(worker).thread(0).take();
        server.bury_unexplained(worker)
    });
    client.response().expect(502);
    for explain in deaths.into_iter().rev() {
        let cause = "signal 9 (KILL)".to_owned();
        explain.send(cause).expect("the front waits");
    }
    let text = "worker 0 of generation 1 (signal 9 (KILL)), then worker 1 of generation 1 (signal 9 (KILL))";
    server.wait_for_lines(|lines| lines.iter().any(|line| line.contains(text)));
}

#[test]
fn a_drained_front_names_a_request_whose_workers_are_not_explained_yet() {
    let server = Server::start(|settings| settings.workers = 2.into());
    let mut client = server.ask("/deadly");
    let _unexplained = [0, 1].map(|worker| {
        server.worker(worker).thread(0).take();
        server.bury_unexplained(worker)
    });
    client.response().expect(502);
    let drained = server.drain();
    assert_eq!(drained.recv_timeout(TEST_TIMEOUT), Ok(true));
    let text = "worker 0 of generation 1, then worker 1 of generation 1 died with it";
    server.wait_for_lines(|lines| lines.iter().any(|line| line.contains(text)));
}

/// Has both threads of a worker take a request each, and the worker die.
fn die_with_two(server: &Server) -> (Client, Client) {
    let player = server.worker(0);
    let first = server.ask("/first");
    assert_eq!(player.thread(0).take().path(), "/first");
    let second = server.ask("/second");
    assert_eq!(player.thread(1).take().path(), "/second");
    server.reclaim(0);
    (first, second)
}

#[test]
fn requests_that_a_worker_died_with_are_run_again_one_at_a_time_so_that_one_alone_kills_two() {
    let server = Server::start(|settings| settings.threads = 2.into());
    let (mut deadly, mut innocent) = die_with_two(&server);
    let player = server.worker(0);
    let (mut first, mut second) = (player.thread(0), player.thread(1));
    assert_eq!(first.take().path(), "/first");
    assert!(second.try_take().is_none(), "they are in one worker again");
    // Others go on meanwhile.
    let mut other = server.ask("/other");
    second.take().answer_path();
    assert_eq!(other.response().text(), "/other");
    server.reclaim(0);
    deadly.response().expect(502);
    server.thread().take().answer_path();
    assert_eq!(innocent.response().text(), "/second");
    let snapshot = server.with(|front| front.snapshot());
    assert_eq!((snapshot.retried, snapshot.killed_two_workers), (2, 1));
    server.until_quiet();
}

#[test]
fn a_request_that_a_worker_died_with_holds_others_up_until_it_has_begun_to_answer() {
    let server = Server::start(|settings| settings.threads = 2.into());
    let (mut long, mut other) = die_with_two(&server);
    let player = server.worker(0);
    let (mut first, mut second) = (player.thread(0), player.thread(1));
    let mut taken = first.take();
    assert_eq!(taken.path(), "/first");
    taken.head(200, &[]).chunk(b"begun").flush();
    assert_eq!(long.head().status, 200);
    second.take().answer_path();
    assert_eq!(other.response().text(), "/second");
    taken.end();
    assert_eq!(long.chunk().as_deref(), Some(&b"begun"[..]));
    assert_eq!(long.chunk(), None);
    server.until_quiet();
}

#[test]
fn without_retries_a_safe_request_dies_with_its_worker_and_is_no_culprit_yet() {
    let server = Server::start(|settings| settings.max_retries = 0);
    let mut client = server.ask("/once");
    server.thread().take();
    server.reclaim(0);
    client.response().expect(502);
    server.expect_outcome("/once", "worker_died");
    let lines = server.wait_for_lines(|_| true);
    assert!(
        !lines.iter().any(|line| line.contains("Killed")),
        "{lines:#?}"
    );
}

#[test]
fn a_request_that_is_run_again_has_one_answer_and_one_line() {
    let server = Server::start(|_| {});
    let mut client = server.ask("/again");
    server.thread().take();
    server.reclaim(0);
    server.thread().take().answer_path();
    assert_eq!(client.response().text(), "/again");
    server.expect_outcome("/again", "ok");
    assert_eq!(server.end(), 1);
}

#[test]
fn a_worker_has_served_when_it_has_finished_a_request() {
    let server = Server::start(|_| {});
    let served = || {
        server.with(|front| {
            front.applications()[0]
                .dispatcher()
                .has_served(WorkerId::new(1, 0))
        })
    };
    let mut thread = server.thread();
    let mut client = server.ask("/");
    // One that dies at its first request was of no use.
    let taken = thread.take();
    assert!(!served());
    taken.answer_path();
    client.response().expect(200);
    server.until(|_| served());
    server.reclaim(0);
    server.worker(0);
    assert!(!served());
}

#[test]
fn an_unsafe_request_whose_worker_dies_is_a_502() {
    let server = Server::start(|_| {});
    let mut client = post(&server, "/post");
    server.thread().take();
    server.reclaim(0);
    client.response().expect(502);
    server.expect_outcome("/post", "worker_died");
    server.until_quiet();
    assert!(server.thread().try_take().is_none());
}

#[test]
fn a_response_that_has_begun_is_cut_when_its_worker_dies() {
    for path in ["/get", "/post"] {
        let server = Server::start(|_| {});
        let mut client = match path {
            "/get" => server.ask(path),
            _ => post(&server, path),
        };
        let mut thread = server.thread();
        let mut taken = thread.take();
        taken.head(200, &[]).chunk(b"begun").flush();
        assert_eq!(client.head().status, 200);
        assert_eq!(client.chunk().as_deref(), Some(&b"begun"[..]));
        server.reclaim(0);
        let (rest, _) = client.rest();
        assert!(rest.is_empty(), "{rest:?}");
        server.expect_outcome(path, "aborted");
        server.until_quiet();
    }
}

#[test]
fn what_a_worker_had_written_whole_before_it_died_is_delivered() {
    for (path, done) in [("/done", true), ("/claimed", false)] {
        let server = Server::start(|_| {});
        let mut client = post(&server, path);
        server.until(|now| now.queue.length == 1);
        let region = server.region();
        // On the front's own thread, so that it sees nothing between the last frame and the death.
        server.with({
            let player = server.worker(0);
            move |front| {
                let mut thread = player.thread(0);
                let mut taken = thread.take();
                taken.head(200, &[]).chunk(b"whole");
                taken.frame(Kind::End, b"").expect("there is room");
                taken.flush();
                if done {
                    taken.finish();
                }
                region.coordination().completions.bits.words[0]
                    .store(0, std::sync::atomic::Ordering::SeqCst);
                let unknown = Box::pin(std::future::ready(None));
                front.applications()[0]
                    .dispatcher()
                    .worker_died(WorkerId::new(1, 0), unknown);
            }
        });
        assert_eq!(client.response().text(), "whole", "{path}");
        server.expect_outcome(path, "ok");
        server.until_quiet();
    }
}

#[test]
fn what_waits_is_left_to_the_other_workers() {
    let server = Server::start(|settings| settings.workers = 2.into());
    let other = server.worker(1);
    let mut thread = other.thread(0);
    let mut first = server.ask("/first");
    let taken = thread.take();
    let mut second = server.ask("/second");
    let mut lost = server.thread();
    let held = lost.take();
    assert_eq!(held.path(), "/second");
    server.reclaim(0);
    taken.answer_path();
    thread.take().answer_path();
    assert_eq!(first.response().text(), "/first");
    assert_eq!(second.response().text(), "/second");
    server.until_quiet();
}

#[test]
fn malformed_frames_are_a_500_of_that_request_only() {
    let server = Server::start(|settings| settings.threads = 2.into());
    let player = server.worker(0);
    let (mut broken, mut sound) = (player.thread(0), player.thread(1));
    let mut client = server.ask("/broken");
    let mut taken = broken.take();
    let mut other = server.ask("/sound");
    let fine = sound.take();
    // A head whose first field points outside of it.
    taken
        .frame(Kind::Head, &[200, 0, 1, 0, 255, 255, 0, 0, 0, 0, 0, 0])
        .expect("there is room");
    taken.finish();
    client.response().expect(500);
    server.expect_outcome("/broken", "app_error");
    fine.answer_path();
    assert_eq!(other.response().text(), "/sound");
    server.until_quiet();
}

#[test]
fn a_worker_that_hands_back_without_an_end_is_a_500() {
    let server = Server::start(|_| {});
    let mut client = server.ask("/endless");
    let mut thread = server.thread();
    let mut taken = thread.take();
    taken.head(200, &[]).chunk(b"no end");
    taken.finish();
    match client.try_response("GET") {
        Ok(response) => drop(response.expect(500)),
        Err(Fault::Truncated { .. }) => {}
        Err(fault) => panic!("{fault}"),
    }
    server.until_quiet();
    assert_eq!(server.end(), 1);
}

// ===== hijack =====

fn sockets() -> (UnixStream, OwnedFd) {
    let (ours, theirs) = UnixStream::pair().expect("a pair of sockets");
    ours.set_read_timeout(Some(TEST_TIMEOUT)).expect("a socket");
    (ours, theirs.into())
}

#[test]
fn a_hijacked_connection_is_spliced_whichever_half_comes_first() {
    for socket_first in [true, false] {
        let server = Server::start(|_| {});
        let mut client = server.connect();
        client.send("GET /hijack HTTP/1.1\r\nHost: test\r\n\r\nheld back");
        let mut thread = server.thread();
        let mut taken = thread.take();
        let (slot, sequence) = taken.key();
        let (mut ours, theirs) = sockets();
        if socket_first {
            server.with(move |front| {
                front.applications()[0]
                    .dispatcher()
                    .hijacked(FIRST, slot, sequence, theirs)
            });
            taken.frame(Kind::Hijacked, b"").expect("there is room");
            taken.finish();
        } else {
            taken.frame(Kind::Hijacked, b"").expect("there is room");
            taken.finish();
            server.until_quiet();
            server.with(move |front| {
                front.applications()[0]
                    .dispatcher()
                    .hijacked(FIRST, slot, sequence, theirs)
            });
        }
        ours.write_all(b"HTTP/1.1 101 Switching Protocols\r\n\r\nhello")
            .expect("the front reads");
        assert_eq!(client.head().status, 101);
        assert_eq!(client.bytes(5), b"hello");
        let mut held = [0; 9];
        ours.read_exact(&mut held).expect("what was held back");
        assert_eq!(&held, b"held back");
        server.expect_outcome("/hijack", "hijacked");
        // The worker's death does not concern it any more.
        server.reclaim(0);
        client.send("more").half_close();
        let mut more = String::new();
        ours.read_to_string(&mut more).expect("the client's end");
        assert_eq!(more, "more");
        drop(ours);
        client.expect_end();
        server.until(|now| now.connections == 0);
        assert_eq!(server.end(), 1);
    }
}

/// Asserts that the front has let go of the other end.
fn expect_closed(mut ours: UnixStream) {
    let mut rest = Vec::new();
    ours.read_to_end(&mut rest).expect("the front's end");
    assert!(rest.is_empty());
}

#[test]
fn a_socket_whose_announcement_never_comes_is_closed() {
    let server = Server::start(|_| {});
    let mut thread = server.thread();
    for (path, sequences_ahead) in [("/answered", 0), ("/early", 1), ("/nowhere", 99)] {
        let mut client = server.ask(path);
        let taken = thread.take();
        let (slot, sequence) = taken.key();
        let (ours, theirs) = sockets();
        server.with(move |front| {
            front.applications()[0].dispatcher().hijacked(
                FIRST,
                slot,
                sequence + sequences_ahead,
                theirs,
            )
        });
        taken.answer_path();
        client.response().expect(200);
        expect_closed(ours);
    }
    let (ours, theirs) = sockets();
    server.with(move |front| {
        front.applications()[0]
            .dispatcher()
            .hijacked(FIRST, 60_000, 1, theirs)
    });
    expect_closed(ours);
    server.until_quiet();
}

#[test]
fn a_socket_for_a_request_of_another_worker_is_refused_and_named() {
    for announced in [true, false] {
        let server = Server::start(|settings| settings.workers = 2.into());
        let mut client = server.connect();
        client.send("GET /hijack HTTP/1.1\r\nHost: test\r\n\r\n");
        let mut thread = server.thread();
        let mut taken = thread.take();
        let (slot, sequence) = taken.key();
        if announced {
            taken.frame(Kind::Hijacked, b"").expect("there is room");
            taken.flush();
        }
        let (theirs, stolen) = sockets();
        server.with(move |front| {
            front.applications()[0]
                .dispatcher()
                .hijacked(SECOND, slot, sequence, stolen)
        });
        expect_closed(theirs);
        server.wait_for_lines(|lines| {
            let named = "worker 1 sent a socket for the connection of a request that worker 0 has";
            lines.iter().any(|line| line.contains(named))
        });
        if !announced {
            taken.frame(Kind::Hijacked, b"").expect("there is room");
        }
        taken.finish();
        // Neither does it once the slot is free and only the socket is missing.
        server.until_quiet();
        let (theirs, stolen) = sockets();
        server.with(move |front| {
            front.applications()[0]
                .dispatcher()
                .hijacked(SECOND, slot, sequence, stolen)
        });
        expect_closed(theirs);
        let (mut ours, own) = sockets();
        server.with(move |front| {
            front.applications()[0]
                .dispatcher()
                .hijacked(FIRST, slot, sequence, own)
        });
        ours.write_all(b"HTTP/1.1 101 Switching Protocols\r\n\r\n")
            .expect("the front reads");
        assert_eq!(client.head().status, 101);
    }
}

#[test]
fn a_socket_for_a_request_that_no_worker_has_is_refused() {
    let server = Server::start(|_| {});
    let mut client = server.ask("/waits");
    server.until(|now| now.queue.length == 1);
    let (theirs, stolen) = sockets();
    // The first publication of the first slot.
    server.with(move |front| {
        front.applications()[0]
            .dispatcher()
            .hijacked(FIRST, 0, 1, stolen)
    });
    expect_closed(theirs);
    server.wait_for_lines(|lines| {
        let named = "worker 0 sent a socket for the connection of a request that no worker has";
        lines.iter().any(|line| line.contains(named))
    });
    server.thread().take().answer_path();
    assert_eq!(client.response().text(), "/waits");
}

#[test]
fn a_hijack_whose_client_is_gone_is_closed() {
    for socket_first in [true, false] {
        let server = Server::start(|_| {});
        let mut thread = server.thread();
        let client = server.ask("/gone");
        let mut taken = thread.take();
        let (slot, sequence) = taken.key();
        let (ours, theirs) = sockets();
        let give = |server: &Server| {
            server.with(move |front| {
                front.applications()[0]
                    .dispatcher()
                    .hijacked(FIRST, slot, sequence, theirs)
            });
        };
        if socket_first {
            give(&server);
            client.reset();
            taken.until_abandoned();
            taken.finish();
        } else {
            taken.frame(Kind::Hijacked, b"").expect("there is room");
            taken.flush();
            client.reset();
            taken.until_abandoned();
            give(&server);
            taken.finish();
        }
        expect_closed(ours);
        server.expect_outcome("/gone", "client_closed");
        server.until_quiet();
    }
}

#[test]
fn a_hijack_whose_socket_never_comes_ends_with_its_worker() {
    let server = Server::start(|_| {});
    let mut client = server.ask("/half");
    let mut thread = server.thread();
    let mut taken = thread.take();
    taken.frame(Kind::Hijacked, b"").expect("there is room");
    taken.finish();
    server.until_quiet();
    server.reclaim(0);
    client.response().expect(502);
    server.expect_outcome("/half", "worker_died");
}

#[test]
fn a_hijack_whose_socket_does_not_come_ends_at_its_deadline() {
    let server =
        Server::start(|settings| settings.request_timeout = Some(Duration::from_millis(50)));
    let mut client = server.ask("/half");
    let mut thread = server.thread();
    let mut taken = thread.take();
    taken.frame(Kind::Hijacked, b"").expect("there is room");
    taken.finish();
    client.response().expect(504);
    server.expect_outcome("/half", "deadline_exceeded");
    server.until_quiet();
}
