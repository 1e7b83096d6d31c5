//! Who goes first: paths with priority, paths with a share of the threads, and requests while no worker can serve.

#[path = "support/front.rs"]
mod support;

use std::time::{Duration, Instant};

use exchange::{Dispatcher as _, WorkerId};
use support::{Server, TestThread};
use test_support::Client;

/// Asks for each path; each is in the queue before the next one comes.
fn ask_in_order(server: &Server, paths: &[&str]) -> Vec<Client> {
    let before = server.with(|front| front.snapshot()).queue.length;
    let asked = paths.iter().zip(before + 1..).map(|(path, length)| {
        let client = server.ask(path);
        server.until(|now| now.queue.length == length);
        client
    });
    asked.collect()
}

/// Has the thread take and answer this path next.
#[track_caller]
fn answer(thread: &mut TestThread, path: &str) {
    let taken = thread.take();
    assert_eq!(taken.path(), path);
    taken.answer_path();
}

fn expect_all(clients: Vec<Client>) {
    for mut client in clients {
        client.response().expect(200);
    }
}

// ===== priority =====

#[test]
fn a_request_of_a_priority_path_goes_before_all_that_wait() {
    let server =
        Server::start(|settings| settings.priority_paths = [("/up", ())].into_iter().collect());
    let mut thread = server.thread();
    let mut running = server.ask("/running");
    let taken = thread.take();
    // The first two of these lie in a slot and in the queue.
    let clients = ask_in_order(
        &server,
        &["/a", "/b", "/up", "/upper", "/up/2", "/c", "/up?3"],
    );
    taken.answer_path();
    running.response().expect(200);
    for path in ["/up", "/up/2", "/up", "/a", "/b", "/upper", "/c"] {
        answer(&mut thread, path);
    }
    expect_all(clients);
    server.until_quiet();
    assert_eq!(server.end(), 8);
}

#[test]
fn a_request_of_a_priority_path_passes_a_full_queue_up_to_a_bound_of_its_own() {
    let server = Server::start(|settings| {
        settings.queue_limit = 2;
        settings.priority_paths = [("/up", ())].into_iter().collect();
    });
    let mut thread = server.thread();
    let mut running = server.ask("/running");
    let taken = thread.take();
    let mut waiting = ask_in_order(&server, &["/a", "/b"]);
    server.ask("/refused").response().expect(503);
    // One in the slot and two in the queue.
    waiting.extend(ask_in_order(&server, &["/up/1", "/up/2", "/up/3"]));
    server.ask("/up/refused").response().expect(503);
    server.expect_outcome("/up/refused", "shed");
    taken.answer_path();
    running.response().expect(200);
    for path in ["/up/1", "/up/2", "/up/3", "/a", "/b"] {
        answer(&mut thread, path);
    }
    expect_all(waiting);
    server.until_quiet();
    assert_eq!(server.end(), 8);
}

#[test]
fn a_priority_path_under_load_lets_others_through_once_nothing_of_it_waits() {
    let server =
        Server::start(|settings| settings.priority_paths = [("/up", ())].into_iter().collect());
    let mut thread = server.thread();
    let mut running = server.ask("/running");
    let taken = thread.take();
    let waiting = ask_in_order(&server, &["/a"]);
    // More often than the ring of the exchange has places: each takes the other one out of its slot and back.
    for _ in 0..40 {
        let gone = ask_in_order(&server, &["/up"]);
        drop(gone);
        server.until(|now| now.queue.length == 1);
    }
    taken.answer_path();
    running.response().expect(200);
    answer(&mut thread, "/a");
    expect_all(waiting);
    server.until_quiet();
}

// ===== shares =====

/// Two workers of one thread each, one of which `/reports` may have.
fn with_share(queue_limit: usize) -> (Server, [TestThread; 2]) {
    let server = Server::start(|settings| {
        (settings.workers, settings.queue_limit) = (2.into(), queue_limit);
        settings.path_shares = [("/reports", 50)].into_iter().collect();
    });
    let threads = [server.worker(0).thread(0), server.worker(1).thread(0)];
    (server, threads)
}

#[test]
fn a_path_never_has_more_threads_than_its_share_and_others_pass_what_waits() {
    let (server, [mut first, mut second]) = with_share(10);
    let reports = ask_in_order(&server, &["/reports/1", "/reports/2", "/reports"]);
    let report = first.take();
    assert_eq!(report.path(), "/reports/1");
    assert!(second.try_take().is_none(), "the share is taken");
    for path in ["/other", "/reportsx"] {
        let mut client = server.ask(path);
        answer(&mut second, path);
        client.response().expect(200);
    }
    assert!(second.try_take().is_none(), "the share is taken");
    report.answer_path();
    // Whichever thread is free takes the next one.
    let report = second.take();
    assert_eq!(report.path(), "/reports/2");
    assert!(first.try_take().is_none(), "the share is taken");
    report.answer_path();
    answer(&mut first, "/reports");
    expect_all(reports);
    server.until_quiet();
}

#[test]
fn a_share_is_one_of_the_threads_that_serve_now() {
    let server = Server::start(|settings| {
        settings.workers = 4.into();
        settings.path_shares = [("/reports", 50)].into_iter().collect();
    });
    let [mut first, mut second, mut third, _] =
        [0, 1, 2, 3].map(|worker| server.worker(worker).thread(0));
    let reports = ask_in_order(&server, &["/reports/1", "/reports/2", "/reports/3"]);
    let running = (first.take(), second.take());
    assert!(third.try_take().is_none(), "half of four is two");
    running.0.answer_path();
    answer(&mut third, "/reports/3");
    running.1.answer_path();
    expect_all(reports);
    server.reclaim(2);
    server.reclaim(3);
    let reports = ask_in_order(&server, &["/reports/4", "/reports/5"]);
    let running = first.take();
    assert!(second.try_take().is_none(), "half of two is one");
    running.answer_path();
    answer(&mut second, "/reports/5");
    expect_all(reports);
    server.until_quiet();
}

#[test]
fn among_those_that_may_run_the_one_that_came_first_is_first() {
    let (server, [mut first, mut second]) = with_share(10);
    let mut busy = [server.ask("/busy"), server.ask("/busy")];
    let taken = [first.take(), second.take()];
    // The first two lie in slots, the others in lanes of the queue.
    let paths = ["/a", "/b", "/reports/1", "/c", "/d"];
    let clients = ask_in_order(&server, &paths);
    taken.into_iter().for_each(support::Taken::answer_path);
    for client in &mut busy {
        client.response().expect(200);
    }
    for path in paths {
        answer(&mut first, path);
    }
    expect_all(clients);
    server.until_quiet();
}

#[test]
fn a_path_takes_no_more_of_the_queue_than_its_share() {
    let (server, [mut first, mut second]) = with_share(4);
    let mut busy = [server.ask("/reports/busy"), server.ask("/busy")];
    let taken = [first.take(), second.take()];
    let mut clients = ask_in_order(&server, &["/reports/1", "/reports/2"]);
    server.ask("/reports/refused").response().expect(503);
    server.expect_outcome("/reports/refused", "shed");
    clients.extend(ask_in_order(&server, &["/a", "/b"]));
    server.ask("/refused").response().expect(503);
    taken.into_iter().for_each(support::Taken::answer_path);
    for client in &mut busy {
        client.response().expect(200);
    }
    for _ in 0..4 {
        first.take().answer_path();
    }
    expect_all(clients);
    server.until_quiet();
}

#[test]
fn a_share_comes_back_however_its_request_ends() {
    let (server, [mut first, mut second]) = with_share(10);
    for round in 0..3 {
        // Answered, given up by its client while it runs, while it waits in a slot, and lost with its worker.
        let mut client = server.ask("/reports/answered");
        answer(&mut first, "/reports/answered");
        client.response().expect(200);

        let client = server.ask("/reports/abandoned");
        let taken = first.take();
        client.reset();
        taken.until_abandoned();
        taken.finish();
        server.until_quiet();

        let mut busy = [server.ask("/busy"), server.ask("/busy")];
        let taken = [first.take(), second.take()];
        let waiting = ask_in_order(&server, &["/reports/left"]);
        waiting.into_iter().for_each(Client::reset);
        server.until(|now| now.queue.length == 0);
        taken.into_iter().for_each(support::Taken::answer_path);
        for client in &mut busy {
            client.response().expect(200);
        }

        let mut client = server.connect();
        client.send("POST /reports/lost HTTP/1.1\r\nHost: test\r\nContent-Length: 0\r\n\r\n");
        assert_eq!(first.take().path(), "/reports/lost", "round {round}");
        server.reclaim(0);
        client.response().expect(502);
        first = server.worker(0).thread(0);
        server.until_quiet();
    }
    assert_eq!(server.end(), 3 * 6);
}

#[test]
fn what_a_leaving_worker_still_runs_takes_nothing_of_a_share() {
    let (server, [mut first, mut second]) = with_share(10);
    let reports = ask_in_order(&server, &["/reports/1", "/reports/2"]);
    let old = first.take();
    assert!(second.try_take().is_none(), "the share is taken");
    server.with(|front| {
        front.applications()[0]
            .dispatcher()
            .stop_worker(WorkerId::new(1, 0))
    });
    // Its successor has its threads.
    answer(&mut second, "/reports/2");
    old.answer_path();
    expect_all(reports);
    server.until_quiet();
}

#[test]
fn a_new_generation_has_shares_of_its_own() {
    let (server, [mut first, _]) = with_share(10);
    let reports = ask_in_order(&server, &["/reports/1", "/reports/2"]);
    let old = first.take();
    server.open(2);
    let mut new = server.worker_of(2, 0).thread(0);
    server.route_to(&[2]);
    // What runs in the old one takes no thread of the new one.
    answer(&mut new, "/reports/2");
    old.answer_path();
    expect_all(reports);
    server.until_quiet();
}

// ===== no worker =====

fn outage(server: &Server, delay: Option<Duration>) {
    server.with(move |front| {
        front.applications()[0]
            .dispatcher()
            .outage(delay.map(|delay| Instant::now() + delay))
    });
}

/// Asserts a 503 that names a time within the next `most` seconds.
#[track_caller]
fn expect_retry(client: &mut Client, most: u32) {
    let response = client.response();
    let seconds = response.expect(503).field("retry-after");
    let seconds: u32 = seconds.and_then(|text| text.parse().ok()).unwrap_or(0);
    assert!((1..=most).contains(&seconds), "{seconds}");
}

#[test]
fn while_no_worker_can_serve_what_waits_and_what_comes_is_told_when_to_come_again() {
    let server =
        Server::start(|settings| settings.priority_paths = [("/up", ())].into_iter().collect());
    // In slots and in the queue.
    let mut waiting = ask_in_order(&server, &["/a", "/b", "/c", "/up"]);
    outage(&server, Some(Duration::from_secs(3600)));
    for client in &mut waiting {
        expect_retry(client, 3600);
    }
    server.expect_outcome("/a", "no_worker");
    for path in ["/d", "/up/e"] {
        let mut client = server.ask(path);
        expect_retry(&mut client, 3600);
        server.expect_outcome(path, "no_worker");
        waiting.push(client);
    }
    let snapshot = server.with(|front| front.snapshot());
    assert!(matches!(snapshot.next_start_s, Some(3500..=3600)));
    assert_eq!(snapshot.requests["no_worker"], 6);
    // The next attempt is under way: it may be any moment.
    outage(&server, Some(Duration::ZERO));
    expect_retry(&mut server.ask("/f"), 1);
    let mut thread = server.thread();
    assert!(thread.try_take().is_none());
    outage(&server, None);
    // The connections go on.
    let mut client = waiting.swap_remove(0);
    client.send("GET /again HTTP/1.1\r\nHost: test\r\n\r\n");
    answer(&mut thread, "/again");
    client.response().expect(200);
    server.until_quiet();
    assert_eq!(server.end(), 8);
}

#[test]
fn what_a_leaving_worker_still_runs_is_answered_while_no_other_can_serve() {
    let server = Server::start(|settings| settings.workers = 2.into());
    let mut thread = server.thread();
    let mut running = server.ask("/running");
    let taken = thread.take();
    server.with(|front| {
        front.applications()[0]
            .dispatcher()
            .stop_worker(WorkerId::new(1, 0))
    });
    outage(&server, Some(Duration::from_secs(5)));
    expect_retry(&mut server.ask("/new"), 5);
    taken.answer_path();
    assert_eq!(running.response().text(), "/running");
}

#[test]
fn a_client_that_expects_100_is_told_before_it_sends_its_body() {
    let server = Server::start(|_| {});
    outage(&server, Some(Duration::from_secs(5)));
    let mut client = server.connect();
    client.send(
        "POST /upload HTTP/1.1\r\nHost: test\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n",
    );
    expect_retry(&mut client, 5);
}
