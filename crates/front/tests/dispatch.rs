//! From the queue into slots and back: order, work that is kept up, bounds, deadlines, and clients that leave.

#[path = "support/front.rs"]
mod support;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use exchange::response::Kind;
use exchange::{Dispatcher as _, WorkerId};
use support::{Server, TestThread};
use test_support::Client;

#[test]
fn requests_are_taken_in_the_order_in_which_they_came() {
    let server = Server::start(|_| {});
    let mut clients: Vec<Client> = (0..20)
        .map(|number| {
            let client = server.ask(&format!("/{number}"));
            server.until(|now| now.queue.length == number + 1);
            client
        })
        .collect();
    let mut thread = server.thread();
    for (number, client) in clients.iter_mut().enumerate() {
        let taken = thread.take();
        assert_eq!(taken.path(), format!("/{number}"));
        taken.answer_path();
        assert_eq!(client.response().text(), format!("/{number}"));
    }
    server.until_quiet();
    assert_eq!(server.end(), 20);
}

#[test]
fn no_thread_is_idle_while_a_request_waits() {
    for threads in [1, 3] {
        let server = Server::start(|settings| {
            (settings.workers, settings.threads) = (2.into(), threads.into());
        });
        let players = [server.worker(0), server.worker(1)];
        let mut threads: Vec<TestThread> = (0..threads)
            .flat_map(|thread| players.iter().map(move |player| player.thread(thread)))
            .collect();
        let count = threads.len() + 3;
        let clients: Vec<Client> = (0..count).map(|n| server.ask(&format!("/{n}"))).collect();
        server.until(|now| now.queue.length == count);
        // Every thread gets one while none has answered: each waits for its own in a thread of its own.
        let taken: BTreeSet<String> = std::thread::scope(|scope| {
            let threads: Vec<_> = threads
                .iter_mut()
                .map(|thread| scope.spawn(|| thread.take()))
                .collect();
            let taken: Vec<_> = threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect();
            server.until(|now| now.running.len() == taken.len() && now.queue.length == 3);
            let paths = taken.iter().map(support::Taken::path).collect();
            taken.into_iter().for_each(support::Taken::answer_path);
            paths
        });
        assert_eq!(taken.len(), count - 3);
        for _ in 0..3 {
            threads[0].take().answer_path();
        }
        for (number, mut client) in clients.into_iter().enumerate() {
            assert_eq!(client.response().text(), format!("/{number}"));
        }
        server.until_quiet();
    }
}

#[test]
fn a_thread_that_was_woken_and_stands_still_holds_no_request_up() {
    let server = Server::start(|settings| settings.workers = 2.into());
    let players = [server.worker(0), server.worker(1)];
    let region = server.region();
    let (still, mut other) = (players[0].thread(0), players[1].thread(0));
    std::thread::scope(|scope| {
        scope.spawn(move || still.sleep());
        scope.spawn(move || other.take().answer_path());
        // The first of both is woken.
        while region.coordination().availability.idle.words[0].load(Ordering::SeqCst) != 0b11 {
            std::thread::yield_now();
        }
        assert_eq!(server.ask("/moves-on").response().text(), "/moves-on");
    });
    server.until_quiet();
}

#[test]
fn nothing_is_lost_under_load() {
    const CLIENTS: usize = 8;
    const EACH: usize = 2500;
    let server = Server::start(|settings| {
        (settings.workers, settings.threads) = (2.into(), 2.into());
    });
    let players = [server.worker(0), server.worker(1)];
    let served = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for player in &players {
            for thread in 0..2 {
                let (mut thread, served) = (player.thread(thread), &served);
                scope.spawn(move || {
                    while let Some(taken) = thread.take_or_stop() {
                        served.fetch_add(1, Ordering::Relaxed);
                        taken.answer_path();
                    }
                });
            }
        }
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let server = &server;
                scope.spawn(move || {
                    let mut client = server.connect();
                    for index in 0..EACH {
                        let path = format!("/{number}/{index}");
                        assert_eq!(client.get(&path).text(), path);
                    }
                })
            })
            .collect();
        let ended: Vec<_> = clients.into_iter().map(|client| client.join()).collect();
        server.until_quiet();
        server.with(|front| {
            front.applications()[0]
                .dispatcher()
                .stop_worker(WorkerId::new(1, 0));
            front.applications()[0]
                .dispatcher()
                .stop_worker(WorkerId::new(1, 1));
        });
        assert!(ended.iter().all(Result::is_ok));
    });
    assert_eq!(served.load(Ordering::Relaxed), CLIENTS * EACH);
    let snapshot = server.with(|front| front.snapshot());
    assert_eq!(snapshot.requests["ok"], (CLIENTS * EACH) as u64);
    assert_eq!(server.end(), CLIENTS * EACH);
}

#[test]
fn a_full_queue_refuses_what_no_thread_and_no_place_is_left_for() {
    let server = Server::start(|settings| settings.queue_limit = 2);
    let mut thread = server.thread();
    let mut running = server.ask("/running");
    let taken = thread.take();
    let mut waiting: Vec<Client> = (0..2).map(|n| server.ask(&format!("/{n}"))).collect();
    server.until(|now| now.queue.length == 2);
    let mut refused = server.ask("/refused");
    let response = refused.response();
    assert_eq!(response.expect(503).field("retry-after"), Some("1"));
    server.expect_outcome("/refused", "shed");
    taken.answer_path();
    running.response().expect(200);
    for client in &mut waiting {
        thread.take().answer_path();
        client.response().expect(200);
    }
    // The connection that was refused goes on.
    refused.send("GET /again HTTP/1.1\r\nHost: test\r\n\r\n");
    thread.take().answer_path();
    assert_eq!(refused.response().text(), "/again");
    server.until_quiet();
    assert_eq!(server.end(), 5);
}

#[test]
fn threads_of_workers_that_shall_not_be_there_hold_no_place_for_a_request() {
    let server = Server::start(|settings| (settings.workers, settings.queue_limit) = (2.into(), 1));
    let mut thread = server.thread();
    server.with(|front| front.applications()[0].dispatcher().resize(1, 1));
    let mut running = server.ask("/running");
    let taken = thread.take();
    let mut waiting = server.ask("/waiting");
    server.until(|now| now.queue.length == 1);
    server.ask("/refused").response().expect(503);
    server.expect_outcome("/refused", "shed");
    // There is to be one more again: it is on its way.
    server.with(|front| front.applications()[0].dispatcher().resize(1, 2));
    let mut second = server.ask("/second");
    server.until(|now| now.queue.length == 2);
    server.ask("/refused-again").response().expect(503);
    // Never more than the exchange has threads for.
    server.with(|front| front.applications()[0].dispatcher().resize(1, 7));
    server.ask("/refused-as-well").response().expect(503);
    taken.answer_path();
    running.response().expect(200);
    for client in [&mut waiting, &mut second] {
        thread.take().answer_path();
        client.response().expect(200);
    }
    server.until_quiet();
    assert_eq!(server.end(), 6);
}

#[test]
fn what_a_worker_still_runs_that_leaves_takes_nobodys_place_in_the_queue() {
    let server = Server::start(|settings| settings.queue_limit = 2);
    let mut old = server.thread();
    let mut first = server.ask("/first");
    let leaving = old.take();
    let mut successor = server.worker(1).thread(0);
    server.with(|front| {
        front.applications()[0]
            .dispatcher()
            .stop_worker(WorkerId::new(1, 0))
    });
    let mut second = server.ask("/second");
    let taken = successor.take();
    let mut waiting: Vec<Client> = (0..2).map(|n| server.ask(&format!("/{n}"))).collect();
    server.until(|now| now.queue.length == 2);
    server.ask("/refused").response().expect(503);
    taken.answer_path();
    second.response().expect(200);
    for client in &mut waiting {
        successor.take().answer_path();
        client.response().expect(200);
    }
    leaving.answer_path();
    first.response().expect(200);
    server.reclaim(0);
    server.until_quiet();
    assert_eq!(server.end(), 5);
}

#[test]
fn a_half_closed_client_is_answered_by_a_thread_that_idles_beside_a_worker_that_leaves() {
    let server = Server::start(|_| {});
    let mut old = server.thread();
    let mut first = server.ask("/first");
    let leaving = old.take();
    let mut successor = server.worker(1).thread(0);
    server.with(|front| {
        front.applications()[0]
            .dispatcher()
            .stop_worker(WorkerId::new(1, 0))
    });
    let mut half = server.ask("/half");
    server.until(|now| now.queue.length == 1);
    half.half_close();
    // The front has seen it when it has seen what came later.
    let mut later = server.ask("/later");
    server.until(|now| now.queue.length == 2);
    for path in ["/half", "/later"] {
        let taken = successor.take();
        assert_eq!(taken.path(), path);
        taken.answer_path();
    }
    half.response().expect(200);
    later.response().expect(200);
    leaving.answer_path();
    first.response().expect(200);
    server.until_quiet();
}

#[test]
fn a_burst_onto_idle_threads_is_not_refused() {
    let server = Server::start(|settings| {
        (settings.workers, settings.threads, settings.queue_limit) = (2.into(), 3.into(), 1);
    });
    let clients: Vec<Client> = (0..7).map(|n| server.ask(&format!("/{n}"))).collect();
    server.until(|now| now.queue.length == 7);
    server.ask("/refused").response().expect(503);
    let mut thread = server.thread();
    for mut client in clients {
        thread.take().answer_path();
        client.response().expect(200);
    }
}

#[test]
fn a_request_whose_deadline_passes_in_the_queue_never_reaches_a_worker() {
    let server =
        Server::start(|settings| settings.request_timeout = Some(Duration::from_millis(50)));
    // One in a slot, one for the other slot, one in the queue.
    let mut clients: Vec<Client> = (0..3).map(|n| server.ask(&format!("/{n}"))).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        assert_eq!(
            client.response().expect(503).field("retry-after"),
            Some("1")
        );
        server.expect_outcome(&format!("/{number}"), "deadline_exceeded");
    }
    server.until_quiet();
    assert!(server.thread().try_take().is_none());
}

#[test]
fn deadlines_may_differ_by_path_and_the_later_request_may_be_late_first() {
    let server = Server::start(|settings| {
        let hasty = ("/hasty", Duration::from_millis(50));
        settings.request_timeouts = [hasty].into_iter().collect();
    });
    let mut thread = server.thread();
    let mut running = server.ask("/running");
    let taken = thread.take();
    // One in the other slot, the others behind it in the queue.
    let mut patient: Vec<Client> = (0..2).map(|n| server.ask(&format!("/{n}"))).collect();
    server.until(|now| now.queue.length == 2);
    let mut hasty = server.ask("/hasty/1");
    let mut last = server.ask("/hastyish");
    hasty.response().expect(503);
    server.expect_outcome("/hasty/1", "deadline_exceeded");
    server.until(|now| now.queue.length == 3);
    taken.answer_path();
    running.response().expect(200);
    for client in patient.iter_mut().chain([&mut last]) {
        thread.take().answer_path();
        client.response().expect(200);
    }
    server.until_quiet();
    assert!(thread.try_take().is_none());
}

#[test]
fn a_request_whose_deadline_passes_in_a_worker_is_a_504_and_its_slot_comes_back() {
    let server =
        Server::start(|settings| settings.request_timeout = Some(Duration::from_millis(50)));
    let mut client = server.ask("/slow");
    let mut thread = server.thread();
    let mut taken = thread.take();
    client.response().expect(504);
    server.expect_outcome("/slow", "deadline_exceeded");
    taken.until_abandoned();
    assert_eq!(server.with(|front| front.snapshot()).slots.free, 1);
    assert!(taken.frame(Kind::Chunk, b"late").is_err());
    taken.finish();
    server.until_quiet();
    // The connection that got the 504 goes on, and nothing late is on it.
    client.send("GET /next HTTP/1.1\r\nHost: test\r\n\r\n");
    thread.take().answer_path();
    assert_eq!(client.response().text(), "/next");
    assert_eq!(server.end(), 2);
}

#[test]
fn a_request_whose_client_leaves_while_it_waits_never_reaches_a_worker() {
    let server = Server::start(|_| {});
    let mut thread = server.thread();
    let mut running = server.ask("/running");
    let taken = thread.take();
    for (path, leave) in [
        ("/reset", Client::reset as fn(Client)),
        ("/closed", drop::<Client>),
    ] {
        // Behind it, so that one is in the second slot and one in the queue.
        let clients = [server.ask(path), server.ask(&format!("{path}/2"))];
        server.until(|now| now.queue.length == 2);
        clients.into_iter().for_each(leave);
        server.until(|now| now.queue.length == 0);
        server.expect_outcome(path, "client_closed");
        server.expect_outcome(&format!("{path}/2"), "client_closed");
    }
    taken.answer_path();
    running.response().expect(200);
    server.until_quiet();
    assert!(thread.try_take().is_none());
    assert_eq!(server.end(), 5);
}

#[test]
fn a_request_whose_client_leaves_while_it_runs_is_abandoned_and_its_slot_comes_back() {
    let server = Server::start(|_| {});
    let mut thread = server.thread();
    let client = server.ask("/gone");
    let taken = thread.take();
    client.reset();
    taken.until_abandoned();
    server.expect_outcome("/gone", "client_closed");
    taken.finish();
    server.until_quiet();
    assert_eq!(server.end(), 1);
}

#[test]
fn a_completion_for_a_client_that_is_gone_never_leaves_the_doorbell_out_of_order() {
    let server =
        Server::start(|settings| (settings.workers, settings.threads) = (1.into(), 2.into()));
    let region = server.region();
    let player = server.worker(0);
    let (mut first, mut second) = (player.thread(0), player.thread(1));
    let parked = || {
        region
            .coordination()
            .completions
            .front_sleeps
            .load(Ordering::SeqCst)
            == 1
    };
    let thread = server.with(|_| FrontThread::own());
    let asleep = thread.call_while(parked);
    for _ in 0..51 {
        let gone = server.ask("/gone");
        let taken = first.take();
        let mut stays = server.ask("/stays");
        let other = second.take();
        gone.reset();
        taken.until_abandoned();
        taken.finish();
        // The front takes it and goes to sleep again: it must have said that it wants to be rung.
        loop {
            let before = thread.sleeps();
            let sleeps = || thread.call() == asleep;
            if sleeps() && !parked() && sleeps() {
                assert_ne!(
                    before,
                    thread.sleeps(),
                    "it sleeps and no doorbell will wake it"
                );
            }
            let taken = region.coordination().completions.bits.words[0].load(Ordering::SeqCst) == 0;
            if taken && parked() {
                break;
            }
            std::thread::yield_now();
        }
        other.answer_path();
        stays.response().expect(200);
    }
    server.until_quiet();
}

/// What the kernel reports of the front's thread.
struct FrontThread(std::path::PathBuf);

impl FrontThread {
    /// The calling thread.
    fn own() -> Self {
        let own = std::fs::read_link("/proc/thread-self").expect("a thread");
        Self(std::path::Path::new("/proc").join(own))
    }

    /// The system call that it sleeps in, by number; `running` while it does not sleep.
    fn call(&self) -> String {
        let text =
            std::fs::read_to_string(self.0.join("syscall")).expect("a thread of this process");
        text.split_whitespace().next().unwrap_or("").to_owned()
    }

    /// The call that it sleeps in once `reached` holds.
    fn call_while(&self, reached: impl Fn() -> bool) -> String {
        loop {
            let call = self.call();
            if reached() && call != "running" && call == self.call() {
                return call;
            }
            std::thread::yield_now();
        }
    }

    /// How often it has begun to sleep.
    fn sleeps(&self) -> String {
        let text =
            std::fs::read_to_string(self.0.join("status")).expect("a thread of this process");
        let line = text
            .lines()
            .find(|line| line.starts_with("voluntary_ctxt_switches"));
        line.expect("its count of sleeps").to_owned()
    }
}

#[test]
fn a_half_closed_client_is_still_answered() {
    let server = Server::start(|_| {});
    let mut thread = server.thread();
    let mut client = server.ask("/half");
    client.half_close();
    thread.take().answer_path();
    assert_eq!(client.response().text(), "/half");
    client.expect_end();
    server.expect_outcome("/half", "ok");
}
