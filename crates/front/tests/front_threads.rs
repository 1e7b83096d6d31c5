//! A front with several threads: connections are spread over them, and what counts for all edges together stays one.

#[path = "support/front.rs"]
mod support;

use std::io;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use config::AddressList;
use support::{Server, TestThread};
use test_support::Client;
use tokio::sync::Notify;

/// A front with so many threads, one worker of one thread, and time-outs that no test waits for.
fn start(front_threads: u16, change: impl FnOnce(&mut config::Settings)) -> Server {
    Server::start(|settings| {
        settings.front_threads = front_threads;
        settings.keep_alive_timeout = Duration::from_secs(3600);
        settings.header_timeout = Duration::from_secs(3600);
        change(settings);
    })
}

fn by_thread(server: &Server) -> Vec<usize> {
    server.with(|front| front.snapshot()).connections_by_thread
}

fn expect_served(client: &mut Client, thread: &mut TestThread) {
    client.send("GET /served HTTP/1.1\r\nHost: test\r\n\r\n");
    thread.take().answer_path();
    assert_eq!(client.response().text(), "/served");
}

#[test]
fn each_connection_goes_to_the_thread_with_the_fewest() {
    let server = start(3, |_| {});
    let mut thread = server.thread();
    let mut clients: Vec<Client> = (0..7).map(|_| server.connect()).collect();
    server.until(|now| now.connections_by_thread == [3, 2, 2]);
    for client in &mut clients {
        expect_served(client, &mut thread);
    }
    // The second one of each round was the second thread's.
    drop(clients.remove(4));
    drop(clients.remove(1));
    server.until(|now| now.connections_by_thread == [3, 0, 2]);
    clients.push(server.connect());
    server.until(|now| now.connections_by_thread == [3, 1, 2]);
    let answered = server.with(|front| front.snapshot());
    assert_eq!((answered.requests["ok"], answered.responses["2xx"]), (7, 7));
}

#[test]
fn the_most_connections_are_those_of_all_threads_and_the_longest_idle_one_goes() {
    let server = start(2, |settings| settings.max_connections = 3);
    let mut thread = server.thread();
    // The first thread's, the second's, and the first's.
    let mut first = server.served(&mut thread, "/first");
    server.until(|now| now.resting == 1);
    let mut second = server.served(&mut thread, "/second");
    server.until(|now| now.resting == 2);
    let mut third = server.served(&mut thread, "/third");
    server.until(|now| now.resting == 3);
    assert_eq!(by_thread(&server), [2, 1]);
    expect_served(&mut first, &mut thread);
    server.until(|now| now.resting == 3);
    let mut newcomer = server.ask("/newcomer");
    second.expect_end();
    thread.take().answer_path();
    newcomer.response().expect(200);
    server.until(|now| now.resting == 3);
    let mut another = server.ask("/another");
    third.expect_end();
    thread.take().answer_path();
    another.response().expect(200);
    assert_eq!(by_thread(&server).iter().sum::<usize>(), 3);
}

#[test]
fn an_address_has_so_many_connections_over_all_threads() {
    let server = start(2, |settings| {
        settings.max_connections_per_address = Some(3);
        settings.trusted_proxies = AddressList::parse(&["none"]).expect("a list");
    });
    let clients: Vec<Client> = (0..3).map(|_| server.connect()).collect();
    server.until(|now| now.connections == 3);
    assert_eq!(by_thread(&server), [2, 1]);
    server.connect().expect_end();
    drop(clients);
    server.until(|now| now.connections == 0);
    let mut thread = server.thread();
    expect_served(&mut server.connect(), &mut thread);
}

#[test]
fn settings_are_in_force_at_all_threads_when_a_reload_is_done() {
    let server = start(2, |_| {});
    let mut clients = [server.connect(), server.connect()];
    server.until(|now| now.connections_by_thread == [1, 1]);
    let (sender, applied) = mpsc::channel();
    server.with(|front| {
        let mut settings = (*front.settings()).clone();
        settings.allow_trace = true;
        let front = Rc::clone(front);
        tokio::task::spawn_local(async move {
            let settings = Rc::new(settings);
            front.apply(Rc::clone(&settings), &[settings]).await;
            let _ = sender.send(());
        });
    });
    applied.recv().expect("it is done");
    let mut thread = server.thread();
    for client in &mut clients {
        client.send("TRACE /trace HTTP/1.1\r\nHost: test\r\n\r\n");
        thread.take().answer_path();
        assert_eq!(client.response().text(), "/trace");
    }
}

#[test]
fn a_drain_lets_what_runs_at_each_thread_end_and_closes_the_rest() {
    let server = start(2, |one| one.threads = 2.into());
    let player = server.worker(0);
    let (mut one, mut other) = (player.thread(0), player.thread(1));
    let mut idle = [server.connect(), server.connect()];
    server.until(|now| now.connections_by_thread == [1, 1]);
    let mut first = server.ask("/first");
    let first_taken = one.take();
    let mut second = server.ask("/second");
    let second_taken = other.take();
    assert_eq!(by_thread(&server), [2, 2]);
    let drained = server.drain();
    idle.iter_mut().for_each(Client::expect_end);
    assert!(drained.try_recv().is_err(), "two requests run");
    first_taken.answer_path();
    assert_eq!(first.response().text(), "/first");
    second_taken.answer_path();
    assert_eq!(second.response().text(), "/second");
    assert!(drained.recv().expect("it ends"), "all ended by itself");
    server.expect_outcome("/first", "ok");
    server.expect_outcome("/second", "ok");
}

#[test]
fn what_is_idle_at_any_thread_is_given_to_another_server() {
    let (old, new) = (start(3, |_| {}), start(2, |_| {}));
    let mut new_worker = new.thread();
    let mut clients: Vec<Client> = (0..60).map(|_| old.connect()).collect();
    old.until(|now| now.connections_by_thread == [20, 20, 20]);
    let given = old.give_to(&new, || Ok(()), Arc::default());
    assert!(given.recv().expect("it ends").is_ok());
    assert_eq!(by_thread(&old), [0, 0, 0]);
    new.until(|now| now.connections_by_thread == [30, 30]);
    for client in &mut clients {
        expect_served(client, &mut new_worker);
    }
}

#[test]
fn what_cannot_be_given_yet_is_served_where_it_is() {
    let (old, new) = (start(2, |_| {}), start(1, |_| {}));
    let (mut worker, mut new_worker) = (old.thread(), new.thread());
    let mut clients = [old.connect(), old.connect(), old.connect()];
    old.until(|now| now.connections_by_thread == [2, 1]);
    let (full, room) = (Arc::new(AtomicBool::new(true)), Arc::new(Notify::new()));
    let asked = Arc::clone(&full);
    let give = move || match asked.load(Ordering::Relaxed) {
        true => Err(io::ErrorKind::WouldBlock.into()),
        false => Ok(()),
    };
    let given = old.give_to(&new, give, Arc::clone(&room));
    for client in &mut clients {
        expect_served(client, &mut worker);
    }
    full.store(false, Ordering::Relaxed);
    room.notify_one();
    assert!(given.recv().expect("it ends").is_ok());
    for client in &mut clients {
        expect_served(client, &mut new_worker);
    }
}
