//! Row 37 of the list of faults, and what the queue promises: first in, first out; bounded; no worker idle while a request
//! waits, none with two while another is idle; and no Ruby time for requests that nobody waits for any more.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::time::{Instant, SystemTime};

use test_support::{Application, Client, Fault, Gated, Process, Server, ServerBuilder, until};

/// Each request waits at the gate that its path names, after an event with its path and worker; `/` answers at once.
const WAITING: &str = r##"run lambda { |env|
  name = env["PATH_INFO"].delete("/")
  Test.pass("work", "call #{name} #{Process.pid}") unless name.empty?
  Test.text("#{name} #{env["HTTP_X_REQUEST_START"]}")
}"##;

fn start(settings: impl FnOnce(ServerBuilder) -> ServerBuilder) -> Gated {
    Gated::start(Application::new(WAITING), settings)
}

fn ask(waiting: &Gated, name: &str) -> Client {
    waiting.server.ask("GET", &format!("/{name}"))
}

#[test]
fn row_37_a_full_queue_answers_503_at_once() {
    let mut waiting = start(|builder| builder.setting("queue_limit", "2"));
    let mut first = ask(&waiting, "first");
    waiting.called();
    // The only thread is taken: of five more, two may wait. Nothing moves on before the gate opens, so what is answered
    // until then was not held back.
    let mut clients: Vec<Client> = (0..5).map(|n| ask(&waiting, &format!("more{n}"))).collect();
    waiting.wait_queued(2);
    let shed = |line: &str| line.contains("outcome=shed");
    let count = Cell::new(0);
    waiting.server.log().wait(|line| {
        count.set(count.get() + usize::from(shed(line)));
        count.get() == 3
    });
    let lines = waiting.server.log().lines();
    for line in lines.iter().filter(|line| shed(line)) {
        let number = (0..5).find(|n| line.contains(&format!("path=\"/more{n}\"")));
        let client = &mut clients[number.expect("one of the five")];
        let response = client.response();
        let seconds = response.expect(503).field("retry-after");
        let seconds = seconds.map(str::parse::<u32>);
        assert!(matches!(seconds, Some(Ok(1..))), "{response:?}");
        // On the same connection there is now place for no other.
        client.get("/again").expect(503);
    }
    waiting.gate.open();
    first.response().expect(200);
    let served = waiting.events.take(2);
    assert!(served.iter().all(|call| call.starts_with("call more")));
    waiting.server.get("/").expect(200);
    assert_eq!(
        waiting.events.rest(),
        [""; 0],
        "refused requests reached Ruby"
    );
}

#[test]
fn row_37_a_request_whose_deadline_passed_in_the_queue_never_reaches_ruby() {
    let mut waiting = start(|builder| builder.setting("request_timeout", "1s"));
    let _first = ask(&waiting, "first");
    waiting.called();
    let mut late = ask(&waiting, "late");
    let response = late.response();
    assert!(matches!(response.status(), 503 | 504), "{response:?}");
    waiting
        .server
        .log()
        .wait(|line| line.contains("path=\"/late\"") && line.contains("outcome=deadline_exceeded"));
    waiting.gate.open();
    waiting.server.get("/").expect(200);
    assert_eq!(waiting.events.rest(), [""; 0]);
}

#[test]
fn row_37_a_request_whose_client_left_the_queue_never_reaches_ruby() {
    let mut waiting = start(|builder| builder);
    let mut first = ask(&waiting, "first");
    waiting.called();
    let gone = ask(&waiting, "gone");
    waiting.wait_queued(1);
    gone.reset();
    waiting
        .server
        .log()
        .wait(|line| line.contains("path=\"/gone\"") && line.contains("outcome=client_closed"));
    waiting.gate.open();
    first.response().expect(200);
    waiting.server.get("/").expect(200);
    assert_eq!(waiting.events.rest(), [""; 0]);
}

#[test]
fn the_queue_is_first_in_first_out() {
    const MANY: usize = 20;
    let mut waiting = start(|builder| builder);
    let _first = ask(&waiting, "first");
    waiting.called();
    let mut clients = Vec::new();
    for n in 0..MANY {
        clients.push(ask(&waiting, &format!("n{n}")));
        waiting.wait_queued(n as u64 + 1);
    }
    for n in 0..MANY {
        waiting.gate.admit(1);
        assert_eq!(waiting.called().0, format!("n{n}"));
    }
    waiting.gate.open();
    for client in &mut clients {
        client.response().expect(200);
    }
}

#[test]
fn no_worker_is_idle_while_a_request_waits() {
    let mut waiting = start(|builder| builder.workers(3).threads(1));
    for round in 0..30 {
        let mut clients: Vec<Client> = (0..5)
            .map(|n| ask(&waiting, &format!("r{round}n{n}")))
            .collect();
        // Each of three runs one, and each that becomes free takes one of the two that wait.
        let workers: HashSet<Process> = (0..3).map(|_| waiting.called().1).collect();
        assert_eq!(workers.len(), 3, "in round {round}");
        assert_eq!(waiting.events.rest(), [""; 0]);
        waiting.gate.admit(1);
        waiting.called();
        waiting.gate.admit(1);
        waiting.called();
        waiting.gate.admit(3);
        for client in &mut clients {
            client.response().expect(200);
        }
    }
}

#[test]
fn no_worker_takes_a_second_request_while_another_is_idle() {
    let mut waiting = start(|builder| builder.workers(3).threads(3));
    let mut doubled = 0;
    for round in 0..50 {
        wait_until_all_sleep(&waiting.server);
        let mut clients: Vec<Client> = (0..3)
            .map(|n| ask(&waiting, &format!("r{round}n{n}")))
            .collect();
        let mut first_of = HashMap::new();
        let mut second = Vec::new();
        for _ in 0..3 {
            let (name, worker) = waiting.called();
            if let Some(first) = first_of.insert(worker, name.clone()) {
                second.push([first, name]);
            }
        }
        waiting.gate.admit(3);
        for client in &mut clients {
            client.response().expect(200);
        }
        // On a machine with no time for the idle worker, a busy one takes the request after 20 ms; never earlier.
        for names in second {
            doubled += 1;
            let queued = names.map(|name| queue_ms(&waiting.server, &name));
            let longest = queued[0].max(queued[1]);
            assert!(longest >= 20.0, "queued for {queued:?} ms in round {round}");
        }
    }
    assert!(
        doubled <= 10,
        "in {doubled} rounds the idle worker never came"
    );
    // All nine threads work at once where there is work for them.
    let mut clients: Vec<Client> = (0..9).map(|n| ask(&waiting, &format!("n{n}"))).collect();
    for _ in 0..9 {
        waiting.called();
    }
    waiting.gate.admit(9);
    for client in &mut clients {
        client.response().expect(200);
    }
}

/// Waits until every thread of the workers waits for a request: with the response before, some are not yet done.
#[track_caller]
fn wait_until_all_sleep(server: &Server) {
    until("every thread is idle", || {
        let status = server.status();
        let threads = status.0["threads"].as_array().expect("a list");
        threads.iter().all(|thread| thread["state"] == "idle")
    });
    // What has nothing more to do may be on its way to its sleep.
    for worker in server.status().processes("worker") {
        worker.wait_asleep();
    }
}

/// How long the only request for `/name` was in the queue, by the access log.
#[track_caller]
fn queue_ms(server: &Server, name: &str) -> f64 {
    let path = format!("path=\"/{name}\"");
    let line = server.log().wait(|line| line.contains(&path));
    let (_, rest) = line.split_once("queue_ms=").expect("a request's line");
    let number = rest.split(' ').next().expect("a value");
    number.parse().expect("it reached a worker")
}

#[test]
fn one_worker_that_hangs_holds_up_nobody_else() {
    let mut waiting = start(|builder| builder.workers(2).threads(1));
    let mut stuck = ask(&waiting, "stuck");
    waiting.called();
    // On connections of their own and on one kept connection: none of them may stick to the busy worker.
    let mut kept = waiting.server.connect();
    for _ in 0..200 {
        kept.get("/").expect(200);
        waiting.server.get("/").expect(200);
    }
    waiting.gate.open();
    stuck.response().expect(200);
}

/// Seconds since 1970 in an X-Request-Start of any usual form: `t=` before it or not; seconds, milli- or microseconds.
fn start_seconds(value: &str) -> f64 {
    let number: f64 = value.trim_start_matches("t=").parse().expect("a number");
    match number {
        seconds if seconds < 1e11 => seconds,
        milliseconds if milliseconds < 1e14 => milliseconds / 1e3,
        microseconds => microseconds / 1e6,
    }
}

fn now() -> f64 {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .expect("after 1970")
        .as_secs_f64()
}

#[test]
fn x_request_start_tells_when_the_request_arrived_not_when_it_ran() {
    let mut waiting = start(|builder| builder);
    let mut first = ask(&waiting, "first");
    waiting.called();
    let before = now();
    let mut second = ask(&waiting, "second");
    waiting.wait_queued(1);
    let queued = now();
    waiting.gate.admit(2);
    first.response();
    let text = second.response().text();
    let (_, value) = text.split_once(' ').expect("name and start");
    let start = start_seconds(value);
    // A millisecond for the rounding of either.
    assert!(
        before - 0.001 <= start && start <= queued + 0.001,
        "{before} {start} {queued}"
    );
}

#[test]
fn the_deadline_is_in_the_env() {
    let server = Server::app(
        r##"run lambda { |env|
          left = env["highball.deadline"] - Process.clock_gettime(Process::CLOCK_MONOTONIC)
          Test.text("#{left}")
        }"##,
    )
    .setting("request_timeout", "20s")
    .start();
    let asked = Instant::now();
    let left: f64 = server.get("/").text().parse().expect("seconds");
    // What is gone of it is no more than the time that the request took.
    let least = 20.0 - asked.elapsed().as_secs_f64();
    assert!(least <= left && left <= 20.0, "{least} {left}");
}

#[test]
fn a_request_that_expires_while_it_is_answered_never_looks_whole() {
    let mut waiting = start(|builder| builder.setting("request_timeout", "1s").workers(2));
    let mut slow = ask(&waiting, "slow");
    waiting.called();
    match slow.try_response("GET") {
        Ok(response) => assert!(response.status() >= 500, "{response:?}"),
        Err(Fault::Ended { .. } | Fault::Truncated { .. }) => {}
        Err(fault) => panic!("{fault}"),
    }
    waiting.gate.open();
    waiting.server.get("/").expect(200);
}
