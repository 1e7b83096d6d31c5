//! Limits of workers, the budget of all, and work between requests: who is to go is followed before it goes, and no
//! client notices any of it.

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use test_support::{Application, Client, Events, Gate, Server, ServerBuilder, until};

/// `/leak/N` keeps N MiB, `/long` waits at the gate, POSTs are written down; each answers with its worker's process.
const WORKING: &str = r##"run lambda { |env|
  case env["PATH_INFO"]
  when %r{\A/leak/\d+} then ($kept ||= []) << "x" * (env["PATH_INFO"][/\d+/].to_i << 20)
  when "/long" then Test.pass("work", "long #{Process.pid}")
  else
    File.open("seen", "a") { |file| file.syswrite("#{env["PATH_INFO"]}\n") } if env["REQUEST_METHOD"] == "POST"
  end
  Test.text(Process.pid.to_s)
}"##;

/// Tells when workers come and go.
const FOLLOWED: &str = r##"
after_fork { |worker| Test.tell("up #{worker} #{Process.pid}") }
before_worker_exit { |worker| Test.tell("exit #{worker} #{Process.pid}") }
"##;

struct Working {
    server: Server,
    events: Events,
    work: Gate,
    hook: Gate,
}

fn start(hooks: &str, settings: impl FnOnce(ServerBuilder) -> ServerBuilder) -> Working {
    let application = Application::without_lint(WORKING);
    application.dir().write("config/highball.rb", hooks);
    let (events, work) = (application.events(), application.gate("work"));
    let hook = application.gate("hook");
    Working {
        server: settings(Server::application_of(application)).start(),
        events,
        work,
        hook,
    }
}

impl Working {
    fn ask(&self, path: &str) -> Client {
        let mut client = self.server.connect();
        client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        client
    }

    /// The next event, which begins so; what follows.
    #[track_caller]
    fn event(&mut self, begin: &str) -> String {
        let event = self.events.wait();
        let rest = event.strip_prefix(begin);
        rest.unwrap_or_else(|| panic!("{event:?} is not {begin:?}"))
            .trim()
            .to_owned()
    }
}

#[test]
fn a_worker_that_leaks_serves_until_its_successor_is_ready_and_finishes_what_it_runs() {
    let hooks = FOLLOWED.replace(
        "after_fork { |worker| Test.tell(",
        "after_fork { |worker| Test.pass(\"hook\", ",
    );
    let application = Application::without_lint(WORKING);
    application.dir().write("config/highball.rb", hooks);
    let (events, work) = (application.events(), application.gate("work"));
    let hook = application.gate("hook");
    hook.admit(1);
    let server = Server::application_of(application).setting("worker_max_memory", "64MiB");
    let mut working = Working {
        server: server.start(),
        events,
        work,
        hook,
    };
    let old = working.event("up 0 ");
    assert_eq!(working.server.get("/leak/100").text(), old);
    let new = working.event("up 1 ");
    // Its successor is there, but not ready.
    for _ in 0..5 {
        assert_eq!(working.server.get("/").text(), old);
    }
    let mut long = working.ask("/long");
    assert_eq!(working.event("long "), old);
    working.hook.admit(1);
    // There is one thread, and the old worker's has something to do.
    for _ in 0..5 {
        assert_eq!(working.server.get("/").text(), new);
    }
    working.work.admit(1);
    assert_eq!(long.response().text(), old);
    assert_eq!(working.event("exit 0 "), old);
    working.server.log().wait(|line| {
        line.contains(&format!("worker 0 (pid {old}): private memory "))
            && line.contains("exceeds worker_max_memory 64.0 MiB; worker 1 will replace it")
    });
    let left = format!("worker 0 (pid {old}) was asked to exit and ended with exit 0");
    working.server.log().wait(|line| line.contains(&left));
    let workers = working.server.status().processes("worker");
    assert_eq!(workers.len(), 1);
    assert_eq!(workers[0].0.to_string(), new);
}

#[test]
fn workers_that_served_enough_are_replaced_under_load_and_no_request_is_lost_or_run_twice() {
    const REPLACED: usize = 4;
    let working = start("", |builder| {
        let builder = builder.workers(2).threads(2);
        builder.setting("worker_max_requests", "50")
    });
    let address = working.server.address();
    let (over, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
    let posted: Mutex<Vec<String>> = Mutex::default();
    let failures: Vec<String> = std::thread::scope(|scope| {
        let load = |number: usize| {
            let (over, posted, answered) = (&over, &posted, &answered);
            move || {
                let mut client = Client::connect(address);
                for count in 0.. {
                    if over.load(Ordering::Relaxed) {
                        break;
                    }
                    let method = ["GET", "POST"][count % 2];
                    let path = format!("/{number}/{count}");
                    client.ask(method, &path);
                    match client.try_response(method) {
                        Ok(response) if response.status() == 200 => {
                            answered.fetch_add(1, Ordering::Relaxed);
                        }
                        other => return Some(format!("{method} {path}: {other:?}")),
                    }
                    if method == "POST" {
                        posted.lock().expect("no load panics").push(path);
                    }
                }
                None
            }
        };
        let clients: Vec<_> = (0..6).map(|number| scope.spawn(load(number))).collect();
        let log = working.server.log();
        let mut from = 0;
        for _ in 0..REPLACED {
            let left = |line: &str| line.contains("asked to exit and ended with exit 0");
            let found = log.try_wait_after(from, left);
            if found.is_none() {
                break;
            }
            let lines = log.lines();
            from += 1 + lines[from..]
                .iter()
                .position(|line| left(line))
                .unwrap_or(0);
        }
        over.store(true, Ordering::Relaxed);
        let ended = clients.into_iter().map(|client| client.join());
        ended
            .filter_map(|client| client.expect("no load panics"))
            .collect()
    });
    assert_eq!(failures, [""; 0]);
    let seen = working.server.application().read("seen");
    let seen: Vec<&str> = seen.lines().collect();
    let unique: HashSet<&str> = seen.iter().copied().collect();
    assert_eq!(unique.len(), seen.len(), "a POST was run twice");
    assert_eq!(
        seen.len(),
        posted.into_inner().expect("no load panics").len()
    );
    let status = working.server.status();
    assert_eq!(status.number("/slots/free"), status.number("/slots/total"));
    assert_eq!(status.processes("worker").len(), 2);
    let log = working.server.stop().log;
    let count = |part: &str| log.iter().filter(|line| line.contains(part)).count();
    assert!(count("asked to exit and ended with exit 0") >= REPLACED);
    assert!(count("requests reach its limit of") >= REPLACED);
    let answered = answered.into_inner();
    assert_eq!(
        (count("outcome=ok"), count("outcome=")),
        (answered, answered)
    );
}

#[test]
fn workers_that_are_old_enough_are_replaced_one_after_the_other() {
    let mut working = start(FOLLOWED, |builder| {
        let builder = builder.workers(2);
        builder.setting("worker_max_age", "1s")
    });
    // At each moment two are up: those that came less those that went, which come first.
    let (mut came, mut gone) = (0_usize, 0);
    while gone < 4 {
        let event = working.events.wait();
        match event.starts_with("up ") {
            true => came += 1,
            false => gone += 1,
        }
        assert!(
            came - gone >= 2 || came < 2,
            "{event}: {came} came, {gone} went"
        );
        assert!(came - gone <= 3, "{event}: {came} came, {gone} went");
        working.server.get("/").expect(200);
    }
    working
        .server
        .log()
        .wait(|line| line.contains("s reaches its limit of") && line.contains("worker_max_age"));
}

#[test]
fn over_the_budget_the_largest_worker_goes_first_and_a_fresh_one_comes_when_there_is_room() {
    let mut working = start(FOLLOWED, |builder| {
        let builder = builder.workers(2).setting("queue_limit", "1");
        builder.setting("memory_budget", "256MiB")
    });
    let ups: Vec<String> = (0..2).map(|_| working.event("up ")).collect();
    // While one waits, what leaks is the other one.
    let mut long = working.ask("/long");
    let small = working.event("long ");
    let large = working.server.get("/leak/320").text();
    assert_ne!(small, large);
    let gone = working.event("exit ");
    assert!(
        ups.contains(&gone) && gone.ends_with(&large),
        "{gone} {ups:?}"
    );
    working.work.admit(1);
    assert_eq!(long.response().text(), small);
    for _ in 0..5 {
        assert_eq!(working.server.get("/").text(), small);
    }
    // The thread that is not there holds no place for a request.
    let mut long = working.ask("/long");
    assert_eq!(working.event("long "), small);
    let mut waiting = working.ask("/");
    until("one waits", || {
        working.server.status().number("/queue/length") == 1
    });
    working.server.get("/").expect(503);
    working.work.admit(1);
    assert_eq!(long.response().text(), small);
    assert_eq!(waiting.response().text(), small);
    working.server.log().wait(|line| {
        line.contains(": largest worker, private memory ")
            && line.contains("stopping it without a replacement")
            && line.contains(", memory_budget 256.0 MiB")
    });
    working.event("up ");
    working.server.log().wait(|line| {
        line.contains("starting a worker again, there is memory for it: server memory")
    });
    assert_eq!(working.events.rest(), [""; 0]);
}

#[test]
fn over_the_budget_the_last_worker_is_followed_by_a_fresh_one_where_that_is_enough() {
    let mut working = start(FOLLOWED, |builder| {
        let builder = builder.setting("memory_budget", "256MiB");
        builder.setting("worker_max_requests", "1")
    });
    let first = working.event("up 0 ");
    assert_eq!(working.server.get("/").text(), first);
    // The look that has it replaced has seen what a fresh one holds.
    let second = working.event("up 1 ");
    assert_eq!(working.event("exit 0 "), first);
    assert_eq!(working.server.get("/leak/320").text(), second);
    let third = working.event("up 0 ");
    assert_eq!(working.event("exit 1 "), second);
    working.server.log().wait(|line| {
        line.contains(&format!(
            "worker 1 (pid {second}): last worker, private memory "
        )) && line.contains(", memory_budget 256.0 MiB; worker 0 will replace it")
    });
    assert_eq!(working.server.get("/").text(), third);
}

#[test]
fn over_the_budget_the_last_worker_stays_and_new_code_comes_worker_by_worker() {
    let mut working = start(FOLLOWED, |builder| builder.setting("memory_budget", "8MiB"));
    let old = working.event("up 0 ");
    working
        .server
        .log()
        .wait(|line| line.contains("keeping the last worker, although memory is short"));
    assert_eq!(working.server.get("/").text(), old);
    assert_eq!(working.events.rest(), [""; 0]);
    let ran = working.server.command(&["restart"]);
    assert_eq!(ran.status.code(), Some(0), "{}", ran.output());
    working
        .server
        .log()
        .wait(|line| line.contains("replacing worker by worker"));
    let new = working.event("up 0 ");
    assert_eq!(working.event("exit 0 "), old);
    assert_eq!(working.server.get("/").text(), new);
    // Another server is more than another generation.
    let ran = working.server.command(&["upgrade"]);
    assert_eq!(ran.status.code(), Some(1), "{}", ran.output());
    let why = "no memory for a second server next to this one: server memory";
    assert!(ran.output().contains(why), "{}", ran.output());
    assert_eq!(working.server.get("/").text(), new);
}

#[test]
fn under_a_budget_new_code_is_taken_for_as_large_as_the_old_one_that_all_workers_share() {
    // A fifth of it is each process's part.
    const LARGE: &str = r##"$loaded = "x" * (160 << 20)
run ->(env) { Test.text("large") }"##;
    let server = Server::application_of(Application::without_lint(LARGE))
        .workers(4)
        .setting("memory_budget", "330MiB")
        .start();
    let ran = server.command(&["restart"]);
    assert_eq!(ran.status.code(), Some(0), "{}", ran.output());
    let expected =
        "replacing worker by worker, because there is no memory for two generations at once";
    server.log().wait(|line| line.contains(expected));
    let ran = server.command(&["upgrade"]);
    assert_eq!(ran.status.code(), Some(1), "{}", ran.output());
    let why = "no memory for a second server next to this one: server memory";
    assert!(ran.output().contains(why), "{}", ran.output());
    server.get("/").expect(200);
}

#[test]
fn one_worker_at_a_time_collects_its_garbage_between_requests() {
    const HOOKS: &str = r##"
after_fork { |worker| GC.disable; Test.tell("up #{worker} #{GC.count}") }
out_of_band { |worker| Test.pass("hook", "band #{worker} #{GC.count}") }
"##;
    let mut working = start(HOOKS, |builder| {
        let builder = builder.workers(2);
        builder.setting("out_of_band_interval", "5")
    });
    let ups: Vec<String> = (0..2).map(|_| working.event("up ")).collect();
    let before = |worker: &str| -> u64 {
        let mut all = ups.iter().filter_map(|up| up.split_once(' '));
        let found = all.find(|(number, _)| *number == worker);
        found
            .expect("a worker that came up")
            .1
            .parse()
            .expect("a count")
    };
    let first = until_event(&mut working);
    let (worker, count) = first.split_once(' ').expect("worker and count");
    let (worker, count) = (worker.to_owned(), count.parse::<u64>());
    assert_eq!(count, Ok(before(&worker) + 1), "once, and by nothing else");
    // It is busy with that, so the other one serves, and has no turn however much it served.
    let pid = working.server.get("/").text();
    for _ in 0..12 {
        assert_eq!(working.server.get("/").text(), pid);
    }
    assert_eq!(working.events.rest(), [""; 0]);
    // Its turn comes when the first one has given it back.
    working.hook.open();
    while until_event(&mut working).starts_with(&worker) {}
}

/// Asks until a worker works between requests.
#[track_caller]
fn until_event(working: &mut Working) -> String {
    for _ in 0..10_000 {
        // Two at once, so that each worker has some.
        let mut asked = [working.ask("/"), working.ask("/")];
        for client in &mut asked {
            client.response().expect(200);
        }
        if let Some(event) = working.events.wait_within(Duration::from_millis(1)) {
            let rest = event.strip_prefix("band ");
            return rest.unwrap_or_else(|| panic!("{event}")).to_owned();
        }
    }
    panic!("no work between requests:\n{}", working.server.log().text());
}

#[test]
fn no_work_between_requests_while_one_waits_or_another_thread_runs_one() {
    const HOOKS: &str = r##"out_of_band { |worker| Test.tell("band #{worker}") }"##;
    let mut working = start(HOOKS, |builder| {
        builder.setting("out_of_band_interval", "1")
    });
    let mut first = working.ask("/long");
    working.event("long ");
    let mut rest: Vec<Client> = (0..4).map(|_| working.ask("/long")).collect();
    while working.server.status().number("/queue/length") < 4 {}
    working.work.admit(1);
    first.response().expect(200);
    for client in &mut rest {
        // The next one comes at once, and nothing between the two.
        working.event("long ");
        working.work.admit(1);
        client.response().expect(200);
    }
    assert_eq!(working.event("band "), "0");

    let mut working = start(HOOKS, |builder| {
        builder.threads(2).setting("out_of_band_interval", "1")
    });
    let mut long = working.ask("/long");
    working.event("long ");
    for _ in 0..5 {
        working.server.get("/").expect(200);
    }
    assert_eq!(working.events.rest(), [""; 0]);
    working.work.admit(1);
    long.response().expect(200);
    assert_eq!(working.event("band "), "0");
}

#[test]
fn a_worker_that_dies_while_it_works_between_requests_leaves_the_turn_to_others() {
    const HOOKS: &str =
        r##"out_of_band { |worker| Test.pass("hook", "band #{worker} #{Process.pid}") }"##;
    let mut working = start(HOOKS, |builder| {
        let builder = builder.workers(2);
        builder.setting("out_of_band_interval", "2")
    });
    let first = until_event(&mut working);
    let pid = first.split_once(' ').expect("worker and process").1;
    test_support::Process(pid.parse().expect("a process id")).kill();
    let ended = format!("(pid {pid}) ended with signal 9");
    working.server.log().wait(|line| line.contains(&ended));
    let second = until_event(&mut working);
    assert!(!second.ends_with(pid), "{second}");
    working.hook.open();
}
