//! Row 34 of the list of faults: workers that die, and a front that dies. A safe request is run again, any other gets 502,
//! every slot comes back, and nothing is left behind.

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use test_support::{
    Application, Client, Fault, Gated, Process, Server, ServerBuilder, TEST_TIMEOUT, until,
};

/// `/` answers with its worker's number; anything else tells it and waits at the gate first.
const WORKING: &str = r##"run lambda { |env|
  unless env["PATH_INFO"] == "/"
    Test.pass("work", "call #{env["PATH_INFO"]} #{Process.pid}")
  end
  Test.text(Process.pid.to_s)
}"##;

fn start(source: &str, settings: impl FnOnce(ServerBuilder) -> ServerBuilder) -> Gated {
    Gated::start(Application::without_lint(source), settings)
}

/// The worker that the next request waits in, which is one for this path.
#[track_caller]
fn called(working: &mut Gated, path: &str) -> Process {
    let (name, worker) = working.called();
    assert_eq!(name, path);
    worker
}

#[test]
fn row_34_a_post_whose_worker_dies_gets_502_and_is_never_run_again() {
    let mut working = start(WORKING, |builder| builder);
    for round in 0..7 {
        let path = format!("/post{round}");
        let mut client = working.server.ask("POST", &path);
        let worker = called(&mut working, &path);
        worker.kill();
        // Not the 504 that it gets where nobody sees the death.
        client.response().expect(502);
        working
            .server
            .log()
            .wait(|line| line.contains(&path) && line.contains("outcome=worker_died"));
        // The connection lives on, and another worker has taken the place.
        let successor = client.get("/").text();
        assert_ne!(successor, worker.0.to_string());
        assert_eq!(working.events.rest(), [""; 0], "it was run again");
    }
}

#[test]
fn row_34_the_deaths_of_eight_workers_are_logged_within_one_request() {
    // What only a look each second or a deadline notices would take longer than that.
    let mut working = start(WORKING, |builder| {
        let builder = builder.workers(2);
        builder.setting("request_timeouts", "/yardstick=3s")
    });
    let mut yardstick = working.server.ask("POST", "/yardstick");
    called(&mut working, "/yardstick");
    for round in 0..8 {
        let path = format!("/post{round}");
        let mut client = working.server.ask("POST", &path);
        called(&mut working, &path).kill();
        client.response().expect(502);
        // One that dies before it has served anything is not replaced at once for ever.
        client.get("/").expect(200);
    }
    yardstick.expect_silence();
    working.gate.admit(1);
    yardstick.response().expect(200);
}

#[test]
fn row_34_a_safe_request_is_run_again_once_and_named_when_it_has_killed_two_workers() {
    for method in ["GET", "HEAD", "OPTIONS", "TRACE"] {
        let mut working = start(WORKING, |builder| builder.setting("allow_trace", "true"));
        let mut client = working.server.ask(method, "/once");
        called(&mut working, "/once").kill();
        let second = called(&mut working, "/once");
        working.gate.admit(1);
        let response = client.response_to(method);
        response.expect(200);
        if method != "HEAD" {
            assert_eq!(response.text(), second.0.to_string());
        }
        let mut client = working.server.ask(method, "/deadly");
        for _ in 0..2 {
            called(&mut working, "/deadly").kill();
        }
        client.response_to(method).expect(502);
        working.server.get("/").expect(200);
        assert_eq!(working.events.rest(), [""; 0], "it was tried a third time");
        let named = working
            .server
            .log()
            .wait(|line| line.contains("PoisonRequest"));
        assert!(named.contains("level=error"), "{named}");
        let request = format!("method={method} path=\"/deadly\"");
        assert!(named.contains(&request), "{named}");
        assert_eq!(named.matches("(signal 9 (KILL))").count(), 2, "{named}");
        let retried = working.server.status().number("/retried");
        assert_eq!(retried, 2, "one of each path");
        assert_eq!(working.server.status().number("/killed_two_workers"), 1);
    }
}

#[test]
fn row_34_a_response_that_began_is_cut_visibly_and_never_run_again() {
    let mut working = start(
        r##"run lambda { |env|
          next Test.text(Process.pid.to_s) if env["PATH_INFO"] == "/"
          [200, {}, Test::Body.new { |to| to.call("begun"); Test.pass("work", "call /begun #{Process.pid}") }]
        }"##,
        |builder| builder,
    );
    let mut client = working.server.ask("GET", "/begun");
    let worker = called(&mut working, "/begun");
    assert_eq!(client.head().status, 200);
    assert_eq!(client.chunk().as_deref(), Some(&b"begun"[..]));
    worker.kill();
    let (rest, _) = client.rest();
    assert!(!rest.ends_with(b"0\r\n\r\n"), "the body looks whole");
    working.server.get("/").expect(200);
    assert_eq!(working.events.rest(), [""; 0]);
}

#[test]
fn row_34_requests_that_wait_outlive_the_worker() {
    let mut working = start(WORKING, |builder| builder);
    let mut dying = working.server.ask("POST", "/dying");
    let worker = called(&mut working, "/dying");
    let mut waiting: Vec<Client> = (0..10).map(|_| working.server.ask("POST", "/")).collect();
    worker.kill();
    dying.response().expect(502);
    for client in &mut waiting {
        client.response().expect(200);
    }
}

#[test]
fn row_34_a_worker_that_ends_itself_is_replaced() {
    let working = start(
        r##"run lambda { |env|
          case env["PATH_INFO"]
          when "/exit" then exit!(7)
          when "/segv" then Process.kill(:SEGV, Process.pid); sleep
          when "/abrt" then Process.kill(:ABRT, Process.pid); sleep
          end
          Test.text(Process.pid.to_s)
        }"##,
        |builder| builder.workers(2),
    );
    for path in ["/exit", "/segv", "/abrt"] {
        working.server.ask("POST", path).response().expect(502);
        working.server.get("/").expect(200);
    }
    working.server.log().wait(|line| {
        line.contains("exit 7") || line.contains("status 7") || line.contains("code 7")
    });
}

/// Slots, threads and descriptors as they are when nothing runs; equal before and after means that nothing leaked.
#[track_caller]
fn idle_state(server: &Server) -> (u64, u64) {
    let deadline = Instant::now() + TEST_TIMEOUT;
    loop {
        let status = server.status();
        let (free, total) = (status.number("/slots/free"), status.number("/slots/total"));
        if free == total && status.number("/queue/length") == 0 {
            return (free, total);
        }
        assert!(
            Instant::now() < deadline,
            "slots are missing: {:#}",
            status.0
        );
    }
}

#[test]
fn row_34_500_random_kills_under_load_fail_no_get_but_those_named_and_lose_no_slot() {
    const KILLS: usize = 500;
    const CLIENTS: usize = 8;
    let working = start(
        r##"run lambda { |env| Test.text("#{Process.pid} #{env["PATH_INFO"]}") }"##,
        |builder| builder.workers(3).threads(2).setting("access_log", "false"),
    );
    let address = working.server.address();
    let before = idle_state(&working.server);
    let descriptors = working.server.process().descriptors().expect("it runs");
    let (over, served) = (AtomicBool::new(false), AtomicUsize::new(0));
    let unlucky: Mutex<Vec<String>> = Mutex::default();
    // Workers that answered and were not killed yet.
    let live: Mutex<Vec<Process>> = Mutex::default();
    let failures: Vec<String> = std::thread::scope(|scope| {
        let load = |number: usize| {
            let (over, served, live, unlucky) = (&over, &served, &live, &unlucky);
            move || {
                let mut killed: HashSet<Process> = HashSet::new();
                let mut client = Client::connect(address);
                let mut count = 0;
                while !over.load(Ordering::Relaxed) {
                    count += 1;
                    let path = format!("/{number}/{count}");
                    let response = match client.try_get(&path) {
                        Ok(response) if response.status() == 200 => response,
                        // Two in a row had it when they were killed; the log is looked at below.
                        Ok(response) if response.status() == 502 => {
                            unlucky.lock().expect("no load panics").push(path);
                            continue;
                        }
                        Ok(response) => return Some(format!("{path}: {response:?}")),
                        Err(fault) => return Some(format!("{path}: {fault}")),
                    };
                    let text = response.text();
                    let Some((pid, echo)) = text.split_once(' ') else {
                        return Some(text);
                    };
                    if echo != path {
                        return Some(format!("{path} got the answer to {echo}"));
                    }
                    served.fetch_add(1, Ordering::Relaxed);
                    let process = Process(pid.parse().expect("a number"));
                    if killed.insert(process) {
                        live.lock().expect("no load panics").push(process);
                    }
                }
                None
            }
        };
        let loads: Vec<_> = (0..CLIENTS)
            .map(|number| scope.spawn(load(number)))
            .collect();
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        let mut dead: HashSet<Process> = HashSet::new();
        let deadline = Instant::now() + Duration::from_secs(240);
        while dead.len() < KILLS
            && Instant::now() < deadline
            && !loads.iter().any(|load| load.is_finished())
        {
            let candidates: Vec<Process> = {
                let mut live = live.lock().expect("no load panics");
                live.retain(|process| !dead.contains(process));
                live.sort();
                live.dedup();
                live.clone()
            };
            // Two at least, so that there is a choice and the service goes on.
            if candidates.len() < 2 {
                std::thread::yield_now();
                continue;
            }
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let victim = candidates[(random % candidates.len() as u64) as usize];
            victim.kill();
            dead.insert(victim);
        }
        over.store(true, Ordering::Relaxed);
        let failures = loads
            .into_iter()
            .filter_map(|load| load.join().expect("no load panics"))
            .collect();
        assert_eq!(dead.len(), KILLS, "too slow: {failures:?}");
        failures
    });
    assert_eq!(failures, [""; 0]);
    let unlucky = unlucky.into_inner().expect("no load panics");
    for path in &unlucky {
        let request = format!("method=GET path=\"{path}\"");
        let named = |line: &str| line.contains("PoisonRequest") && line.contains(&request);
        working.server.log().wait(named);
    }
    assert!(unlucky.len() < KILLS / 20, "{unlucky:?}");
    assert!(served.load(Ordering::Relaxed) > KILLS);
    assert_eq!(idle_state(&working.server), before);
    // The last one killed may be on its way back.
    until("no worker is missing", || {
        working.server.status().processes("worker").len() == 3
    });
    // The sockets of the dead workers are closed.
    let after = working.server.process().descriptors().expect("it runs");
    assert!(
        after <= descriptors + 8,
        "{descriptors} descriptors became {after}"
    );
}

#[test]
fn a_front_killed_with_9_leaves_nothing_behind() {
    let application = Application::without_lint(WORKING);
    let (mut events, gate) = (application.events(), application.gate("work"));
    let socket = application.path().join("front.sock");
    let before = shared_memory();
    let server = Server::application_of(application)
        .workers(2)
        .threads(2)
        .listen([
            "127.0.0.1:0".to_owned(),
            format!("unix:{}", socket.display()),
        ])
        .start();
    assert!(socket.exists());
    // Some threads are idle, one is in the application.
    let mut client = server.connect();
    client.send("GET /busy HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(events.wait().starts_with("call /busy"));
    let family = server.family();
    assert!(family.members().len() >= 4, "{:?}", family.members());
    // One stands still, and sees no end of anything.
    server.status().processes("worker")[0].suspend();
    server.process().kill();
    // Also the busy one goes at once: nobody waits for its answer.
    assert_eq!(family.wait_gone(Duration::from_secs(10)), []);
    assert!(matches!(
        client.try_response("GET"),
        Err(Fault::Ended { .. })
    ));
    gate.open();
    server.wait_end();
    assert!(!socket.exists(), "the socket file is left");
    assert_eq!(shared_memory(), before);
}

/// What lies in the system's shared memory under our name.
fn shared_memory() -> Vec<String> {
    let entries = std::fs::read_dir("/dev/shm").into_iter().flatten();
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter(|name| name.contains("highball")).collect()
}

#[test]
fn a_template_that_dies_ends_in_service_or_in_a_clear_end() {
    let working = start(WORKING, |builder| builder.workers(2));
    let template = working.server.status().processes("template");
    assert_eq!(template.len(), 1);
    template[0].kill();
    // Whether it boots again or ends, a request never hangs.
    let mut client = working.server.connect();
    match client.try_get("/") {
        Ok(response) => assert!(matches!(response.status(), 200 | 502 | 503), "{response:?}"),
        Err(Fault::Ended { .. }) => {}
        Err(fault) => panic!("{fault}"),
    }
}

#[test]
fn term_int_and_quit_let_running_requests_finish() {
    for signal in [Signal::TERM, Signal::INT, Signal::QUIT] {
        let mut working = start(WORKING, |builder| builder.workers(2).threads(2));
        let mut running = working.server.ask("POST", "/running");
        called(&mut working, "/running");
        let mut idle = working.server.connect();
        idle.get("/").expect(200);
        let address = working.server.address();
        working.server.process().signal(signal);
        // No new connection is accepted, and idle ones are closed.
        idle.expect_end();
        assert!(
            Client::try_connect(address).is_err() || Client::connect(address).try_get("/").is_err()
        );
        working.gate.admit(1);
        let response = running.response();
        response.expect(200);
        assert_eq!(response.field("connection"), Some("close"));
        let stopped = working.server.wait_end();
        assert!(stopped.status.success(), "{:?}", stopped.status);
    }
}

#[test]
fn what_outlasts_the_drain_is_cut() {
    let mut working = start(WORKING, |builder| builder.setting("drain_timeout", "500ms"));
    let mut running = working.server.ask("GET", "/running");
    called(&mut working, "/running");
    let stopped = working.server.stop();
    assert!(!stopped.log.is_empty());
    match running.try_response("GET") {
        Ok(response) => assert!(response.status() >= 500, "{response:?}"),
        Err(Fault::Ended { .. }) => {}
        Err(fault) => panic!("{fault}"),
    }
}

#[test]
fn requests_in_the_queue_are_served_while_draining() {
    let mut working = start(WORKING, |builder| builder);
    let mut running = working.server.ask("POST", "/running");
    called(&mut working, "/running");
    let mut queued = working.server.ask("POST", "/");
    until("it waits", || {
        working.server.status().number("/queue/length") > 0
    });
    working.server.process().signal(Signal::TERM);
    working.gate.admit(1);
    running.response().expect(200);
    queued.response().expect(200);
    assert!(working.server.wait_end().status.success());
}

#[test]
fn hooks_run_in_the_process_that_they_name() {
    let application = Application::new(r##"run lambda { |env| Test.text(Process.pid.to_s) }"##);
    application.dir().write(
        "config/highball.rb",
        r##"before_fork { Test.tell("before_fork #{Process.pid}") }
        after_fork { Test.tell("after_fork #{Process.pid}") }
        before_worker_exit { Test.tell("before_worker_exit #{Process.pid}") }
        "##,
    );
    let mut events = application.events();
    let server = Server::application_of(application).workers(1).start();
    let (status, worker) = (server.status(), server.get("/").text());
    let template = status.processes("template")[0].0;
    assert!(server.stop().status.success());
    assert_eq!(
        events.rest(),
        [
            format!("before_fork {template}"),
            format!("after_fork {worker}"),
            format!("before_worker_exit {worker}")
        ]
    );
}
