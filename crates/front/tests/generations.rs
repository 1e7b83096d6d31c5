//! Two generations at once: to which of them a request goes, what becomes of it when that changes, and what is
//! left of a generation that is gone.

#[path = "support/front.rs"]
mod support;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use exchange::{Dispatcher as _, WorkerId};
use support::Server;
use test_support::{Client, TEST_TIMEOUT};

fn post(server: &Server, path: &str) -> Client {
    let mut client = server.connect();
    client.send(format!(
        "POST {path} HTTP/1.1\r\nHost: test\r\nContent-Length: 0\r\n\r\n"
    ));
    client
}

#[test]
fn what_waits_goes_to_the_new_generation_and_what_runs_ends_in_the_old_one() {
    let server = Server::start(|_| {});
    let mut old = server.thread();
    let mut running = post(&server, "/running");
    let taken = old.take();
    let waiting: Vec<Client> = (0..5)
        .map(|number| {
            let client = post(&server, &format!("/{number}"));
            server.until(|now| now.queue.length == number + 1);
            client
        })
        .collect();
    server.open(2);
    let player = server.worker_of(2, 0);
    let mut new = player.thread(0);
    assert!(new.try_take().is_none(), "the queue does not go there yet");
    server.route_to(&[2]);
    for (number, mut client) in waiting.into_iter().enumerate() {
        let path = format!("/{number}");
        let taken = new.take();
        assert_eq!(taken.path(), path);
        taken.answer_path();
        client.response().expect(200);
        assert!(server.logged(&path).contains("generation=2"));
    }
    taken.answer_path();
    assert_eq!(running.response().text(), "/running");
    assert!(server.logged("/running").contains("generation=1"));
    assert!(old.try_take().is_none());
    server.until_quiet();
}

#[test]
fn a_request_whose_worker_dies_in_the_old_generation_is_run_again_in_the_new_one() {
    let server = Server::start(|_| {});
    let mut old = server.thread();
    let mut client = server.ask("/get");
    old.take();
    server.open(2);
    let mut new = server.worker_of(2, 0).thread(0);
    server.route_to(&[2]);
    server.reclaim(0);
    let taken = new.take();
    assert_eq!(taken.path(), "/get");
    taken.answer_path();
    assert_eq!(client.response().text(), "/get");
    server.until_quiet();
    assert_eq!(server.end(), 1);
}

#[test]
fn with_two_generations_no_request_waits_behind_a_busy_thread_of_one_while_the_other_idles() {
    let server = Server::start(|settings| settings.workers = 2.into());
    let mut old = server.thread();
    server.open(2);
    let mut new = server.worker_of(2, 0).thread(0);
    server.route_to(&[1, 2]);
    let mut clients: Vec<Client> = (0..4).map(|n| server.ask(&format!("/{n}"))).collect();
    server.until(|now| now.queue.length + now.running.len() == 4);
    // Each has one: the other two wait in the queue, for the thread that is done first.
    let (first, second) = (old.take(), new.take());
    server.until(|now| now.queue.length == 2);
    assert!(old_and_new_differ(&first, &second));
    second.answer_path();
    new.take().answer_path();
    new.take().answer_path();
    first.answer_path();
    for client in &mut clients {
        client.response().expect(200);
    }
    server.until_quiet();
}

#[test]
fn with_two_generations_what_a_leaving_worker_runs_keeps_no_request_from_an_idle_thread() {
    let server = Server::start(|_| {});
    let mut old = server.thread();
    let mut successor = server.worker(1).thread(0);
    server.open(2);
    server.route_to(&[1, 2]);
    let mut long = server.ask("/long");
    let taken = old.take();
    server.with(|front| {
        front.applications()[0]
            .dispatcher()
            .stop_worker(WorkerId::new(1, 0))
    });
    let mut client = server.ask("/next");
    successor.take().answer_path();
    assert_eq!(client.response().text(), "/next");
    taken.answer_path();
    assert_eq!(long.response().text(), "/long");
    server.until_quiet();
}

fn old_and_new_differ(first: &support::Taken<'_>, second: &support::Taken<'_>) -> bool {
    first.path() != second.path()
}

#[test]
fn a_worker_that_is_to_leave_one_of_two_generations_leaves_nothing_waiting() {
    let server = Server::start(|settings| settings.threads = 2.into());
    let player = server.worker(0);
    server.open(2);
    let new = server.worker_of(2, 0);
    server.route_to(&[1, 2]);
    // The threads of neither look, so all four lie in slots.
    let mut clients: Vec<Client> = (0..4).map(|n| server.ask(&format!("/{n}"))).collect();
    server.until(|now| now.queue.length == 4);
    server.with(|front| {
        front.applications()[0]
            .dispatcher()
            .stop_worker(WorkerId::new(1, 0))
    });
    assert!(player.stopping());
    let mut thread = new.thread(0);
    for _ in 0..4 {
        thread.take().answer_path();
    }
    for client in &mut clients {
        client.response().expect(200);
    }
    assert!(player.thread(0).try_take().is_none());
    server.until_quiet();
}

#[test]
fn a_generation_that_is_gone_leaves_its_response_to_a_slow_client() {
    const CHUNK: usize = 16 * 1024;
    let server = Server::start(|settings| {
        settings.response_buffer_bytes = 4096;
        settings.response_spool_max_bytes = 4096;
    });
    let mut client = server.ask("/large");
    let mut thread = server.thread();
    let mut taken = thread.take();
    taken.head(200, &[("content-length", &(9 * CHUNK).to_string())]);
    for _ in 0..9 {
        taken.chunk(&[b'x'; CHUNK]);
    }
    taken.end();
    server.open(2);
    let mut new = server.worker_of(2, 0).thread(0);
    server.route_to(&[2]);
    server.reclaim(0);
    let slots = server.with(|front| front.snapshot()).slots.total;
    server.with(|front| front.applications()[0].dispatcher().close(1));
    assert_eq!(client.response().expect(200).body.len(), 9 * CHUNK);
    // Then it is gone, and with it its slots.
    server.until(|now| now.slots.total == slots / 2);
    let mut client = server.ask("/new");
    new.take().answer_path();
    assert_eq!(client.response().text(), "/new");
    server.until_quiet();
}

/// Begins to ask generation 2 whether it is fit to serve; what comes is its answer.
fn check(server: &Server) -> mpsc::Receiver<Result<(), String>> {
    let (sender, receiver) = mpsc::channel();
    server.with(move |front| {
        let front = std::rc::Rc::clone(front);
        tokio::task::spawn_local(async move {
            let _ = sender.send(
                front.applications()[0]
                    .dispatcher()
                    .check(2, "/up?a=b".to_owned())
                    .await,
            );
        });
    });
    receiver
}

#[test]
fn a_check_is_answered_by_the_generation_that_it_is_for_and_by_no_other() {
    let server = Server::start(|_| {});
    let mut old = server.thread();
    server.open(2);
    for (status, fit) in [(200, true), (204, true), (302, false), (503, false)] {
        let mut new = server.worker_of(2, 0).thread(0);
        let answer = check(&server);
        let mut taken = new.take();
        assert_eq!(taken.path(), "/up");
        assert_eq!(taken.text(exchange::request::Text::Query), "a=b");
        assert!(old.try_take().is_none());
        taken.head(status, &[]);
        taken.end();
        let answer = answer.recv().expect("an answer");
        assert_eq!(answer.is_ok(), fit, "{answer:?}");
        if let Err(reason) = answer {
            assert!(reason.contains(&status.to_string()), "{reason}");
        }
        server.until_quiet();
    }
    // Nor is it run again anywhere when its worker dies.
    let answer = check(&server);
    server.worker_of(2, 0).thread(0).take();
    server.with(|front| {
        front.applications()[0]
            .dispatcher()
            .worker_died(WorkerId::new(2, 0), Box::pin(std::future::ready(None)))
    });
    let reason = answer.recv().expect("an answer").unwrap_err();
    assert!(reason.contains("the worker died"), "{reason}");
    assert!(old.try_take().is_none());
    server.until_quiet();
    assert_eq!(server.end(), 0, "a check is no client's request");
}

#[test]
fn a_check_has_the_time_of_the_path_that_it_asks_for() {
    // No setting names the path of the check: this is that of a reload that is being tried.
    let server = Server::start(|settings| {
        settings.request_timeout = Some(4 * TEST_TIMEOUT);
        let own = [("/up", Duration::from_millis(100))];
        settings.request_timeouts = own.into_iter().collect();
    });
    server.open(2);
    let mut new = server.worker_of(2, 0).thread(0);
    let answer = check(&server);
    new.take();
    let answer = answer.recv_timeout(TEST_TIMEOUT).expect("it ends in time");
    assert!(answer.is_err(), "{answer:?}");
}

#[test]
fn nothing_is_lost_while_generations_come_and_go_under_load() {
    const CLIENTS: usize = 6;
    const GENERATIONS: u32 = 20;
    let server = Server::start(|settings| settings.threads = 2.into());
    let served = AtomicUsize::new(0);
    let asked = AtomicUsize::new(0);
    let over = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for number in 0..CLIENTS {
            let (server, asked, over) = (&server, &asked, &over);
            scope.spawn(move || {
                let mut client = server.connect();
                while over.load(Ordering::Relaxed) == 0 {
                    let path = format!("/{number}/{}", asked.fetch_add(1, Ordering::Relaxed));
                    assert_eq!(client.post(&path, "").text(), path);
                }
            });
        }
        let mut all_threads = Vec::new();
        for generation in 1..=GENERATIONS {
            if generation > 1 {
                server.open(generation);
            }
            let player = server.worker_of(generation, 0);
            let begun = served.load(Ordering::Relaxed);
            let threads = (0..2).map(|thread| {
                let (mut thread, served) = (player.thread(thread), &served);
                scope.spawn(move || {
                    while let Some(taken) = thread.take_or_stop() {
                        served.fetch_add(1, Ordering::Relaxed);
                        taken.answer_path();
                    }
                })
            });
            let threads: Vec<_> = threads.collect();
            server.with(move |front| {
                front.applications()[0]
                    .dispatcher()
                    .route_to(&[generation, generation - 1])
            });
            while served.load(Ordering::Relaxed) < begun + 100 {
                std::thread::yield_now();
            }
            if generation > 1 {
                server.with(move |front| {
                    front.applications()[0].dispatcher().route_to(&[generation]);
                    front.applications()[0]
                        .dispatcher()
                        .stop_worker(WorkerId::new(generation - 1, 0));
                });
                for thread in all_threads.drain(..) {
                    let thread: std::thread::ScopedJoinHandle<'_, ()> = thread;
                    thread.join().expect("no worker panics");
                }
                server.with(move |front| {
                    front.applications()[0].dispatcher().worker_died(
                        WorkerId::new(generation - 1, 0),
                        Box::pin(std::future::ready(None)),
                    );
                    front.applications()[0].dispatcher().close(generation - 1);
                });
            }
            all_threads = threads;
        }
        over.store(1, Ordering::Relaxed);
        server.until_quiet();
        server.until(|now| now.slots.total == 4);
        // The clients' last answers come first.
        while served.load(Ordering::Relaxed) < asked.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        server.with(|front| {
            front.applications()[0]
                .dispatcher()
                .stop_worker(WorkerId::new(GENERATIONS, 0))
        });
    });
    let asked = asked.into_inner();
    assert_eq!(served.into_inner(), asked);
    assert_eq!(server.end(), asked);
}
