//! What leaves finishes first: requests that are in time outlast `drain_timeout` wherever nobody waits for their worker, and
//! clients of a server that was replaced are served at their own pace. What is not in time, and what somebody waits for, is
//! cut.

use std::thread::{Scope, ScopedJoinHandle};

use rustix::process::Signal;
use test_support::{
    Application, Client, Events, Gate, Process, Program, Ran, Server, TEST_TIMEOUT, until,
};

/// More than sockets hold on their way.
const LARGE: usize = 32 * 1024 * 1024;

/// `/long` waits at a gate; `/hijack` takes its connection over and keeps it for as long as its worker is there; `/large`
/// answers with much; `/echo` with what it was sent. One version of it comes no further than its load.
const SOURCE: &str = r##"
LARGE = 32 * 1024 * 1024
sleep if File.read("version") == "hangs"
run lambda { |env|
  case env["PATH_INFO"]
  when "/long" then Test.pass("work", "calls")
  when "/large" then next [200, { "content-length" => LARGE.to_s }, ["x" * LARGE]]
  when "/echo" then next Test.text(Test.input(env))
  when "/hijack"
    io = env["rack.hijack"].call
    io.write("HTTP/1.1 101 Switching Protocols\r\n\r\n")
    Thread.new { io.read; io.close }
  end
  Test.text(Process.pid.to_s)
}"##;

/// Two workers of one thread, whose drain is as short as one can be.
const SHORT: &str = "workers = 2\nthreads = 1\ndrain_timeout = \"1s\"\n";
/// The same with a drain that no test waits for.
const ENDLESS: &str = "workers = 2\nthreads = 1\ndrain_timeout = \"1h\"\n";

struct Case {
    server: Server,
    events: Events,
    work: Gate,
}

/// A server with these settings in its file.
fn start(settings: &str) -> Case {
    let application = Application::without_lint(SOURCE);
    application.dir().write("version", "good");
    let (events, work) = (application.events(), application.gate("work"));
    let server = Server::application_of(application).settings_file(settings);
    Case {
        server: server.start(),
        events,
        work,
    }
}

impl Case {
    /// A POST that runs until the gate lets it go.
    fn long(&mut self) -> Client {
        let client = self.server.ask("POST", "/long");
        assert_eq!(self.events.wait(), "calls");
        client
    }

    /// A connection that the application took over. It has no deadline.
    fn hijacked(&self) -> Client {
        let mut client = self.server.ask("GET", "/hijack");
        assert_eq!(client.head().status, 101);
        client
    }

    #[track_caller]
    fn restart(&self) -> Ran {
        expect_success(self.server.command(&["restart"]))
    }

    /// Has another server take over, and goes on with that one. The one before comes back.
    #[track_caller]
    fn upgrade(&mut self) -> Process {
        let ran = expect_success(self.server.command(&["upgrade"]));
        self.server.replaced_by(ran.process())
    }

    /// Writes the settings again and has them read.
    #[track_caller]
    fn reload(&self, settings: &str) -> Ran {
        let dir = self.server.application().dir();
        dir.write("highball.toml", settings);
        expect_success(self.server.command(&["reload"]))
    }

    /// A command in a thread of its own.
    fn beside<'scope>(
        &self,
        scope: &'scope Scope<'scope, '_>,
        command: &'static str,
    ) -> ScopedJoinHandle<'scope, Ran> {
        let dir = self.server.dir().to_owned();
        scope.spawn(move || Program::highball([command]).current_dir(dir).run())
    }

    /// The worker that answers now.
    fn worker(&self) -> Process {
        let pid = self.server.get("/").text().parse();
        Process(pid.expect("a process"))
    }

    /// Waits until a worker is left alone beyond its drain.
    fn expect_in_time(&self) {
        let line = self
            .server
            .log()
            .wait(|line| line.contains("its time to exit is over"));
        assert!(
            line.contains("its requests are before their deadline"),
            "{line}"
        );
    }
}

#[track_caller]
fn expect_success(ran: Ran) -> Ran {
    assert_eq!(ran.status.code(), Some(0), "{}", ran.output());
    ran
}

#[test]
fn a_post_in_time_outlasts_the_drain_of_a_restart() {
    let mut case = start(SHORT);
    let mut long = case.long();
    // The other worker has this one, and nothing that is in time.
    let mut hijacked = case.hijacked();
    case.restart();
    hijacked.expect_end();
    case.expect_in_time();
    case.work.admit(1);
    long.response().expect(200);
    until("the old generation is gone", || {
        case.server.status().processes("template").len() == 1
    });
}

#[test]
fn a_post_in_time_outlasts_the_drain_of_a_worker_that_reached_its_limit() {
    let mut case =
        start("workers = 1\nthreads = 2\ndrain_timeout = \"1s\"\nworker_max_requests = 5\n");
    let mut long = case.long();
    let first = case.worker();
    until("another worker serves", || case.worker() != first);
    case.expect_in_time();
    assert!(first.is_alive());
    case.work.admit(1);
    long.response().expect(200);
    assert!(first.wait_gone(TEST_TIMEOUT));
}

#[test]
fn what_is_late_is_cut_at_the_end_of_a_drain() {
    let mut case = start(&format!(
        "{SHORT}request_timeout = \"500ms\"\nrequest_grace = \"1h\"\n"
    ));
    let mut late = case.long();
    late.response().expect(504);
    let old = case.server.status().processes("worker");
    case.restart();
    until("its worker is killed", || {
        old.iter().all(|one| !one.exists())
    });
    let log = case.server.stop().log;
    assert!(
        !log.iter()
            .any(|line| line.contains("its time to exit is over")),
        "{log:#?}"
    );
}

#[test]
fn a_drain_is_as_long_as_the_settings_in_force_say() {
    let case = start(ENDLESS);
    let mut hijacked = case.hijacked();
    let ran = case.reload(SHORT);
    assert_eq!(ran.stdout, "drain_timeout: 1h -> 1s", "{}", ran.output());
    // The generation was launched with the other one.
    case.restart();
    hijacked.expect_end();
}

#[test]
fn a_restart_waits_for_the_one_before_no_longer_than_for_a_drain_and_the_log_says_so() {
    let mut case = start(SHORT);
    let mut long = case.long();
    case.restart();
    // Now somebody waits, so what is in time is cut in the end.
    let ran = case.restart();
    assert!(
        ran.stdout.starts_with("generation 3 serves"),
        "{}",
        ran.output()
    );
    let expected = "waiting: generation 1 finishes its requests, for at most 1 s";
    assert!(ran.stderr.contains(expected), "{}", ran.output());
    let response = long.response();
    assert_eq!(response.expect(502).field("retry-after"), None);
    let cut = "killed because another change is waiting; unexpired requests lost: 1";
    case.server.log().wait(|line| line.contains(cut));
    case.server
        .log()
        .wait(|line| line.contains("outcome=stopped"));
}

#[test]
fn a_change_that_waits_goes_on_as_soon_as_the_old_generation_is_gone() {
    // Nothing but the end of the request ends the wait in time.
    let mut case = start(ENDLESS);
    let mut long = case.long();
    case.restart();
    std::thread::scope(|scope| {
        let restart = case.beside(scope, "restart");
        let log = case.server.log();
        log.wait(|line| line.contains("the next change waits until this generation has finished"));
        // Who comes later hears it as well.
        let another = case.beside(scope, "restart");
        case.work.admit(1);
        long.response().expect(200);
        for command in [restart, another] {
            let ran = expect_success(command.join().expect("it ran"));
            assert!(ran.stdout.contains("serves after"), "{}", ran.output());
        }
    });
}

#[test]
fn a_reload_waits_for_nobody_and_shortens_the_wait_of_a_restart() {
    let case = start(ENDLESS);
    let mut hijacked = case.hijacked();
    case.restart();
    case.reload(SHORT);
    case.restart();
    hijacked.expect_end();
}

#[test]
fn the_time_for_a_boot_is_that_of_the_settings_in_force_in_service_too() {
    let case = start(SHORT);
    case.reload(&format!("{SHORT}boot_timeout = \"500ms\"\n"));
    case.server.application().dir().write("version", "hangs");
    case.server.status().processes("template")[0].kill();
    let line = "the application did not boot within 500ms";
    case.server.log().wait(|text| text.contains(line));
    case.server.get("/").expect(200);
}

#[test]
fn a_stop_says_what_it_cuts_in_time() {
    let mut case = start(SHORT);
    let mut long = case.long();
    let stopped = case.server.stop();
    let response = long.response();
    assert_eq!(response.expect(502).field("retry-after"), None);
    for part in ["cut before their deadline", "outcome=stopped"] {
        let found = stopped.log.iter().any(|line| line.contains(part));
        assert!(found, "{part}: {:#?}", stopped.log);
    }
}

#[test]
fn clients_and_what_is_in_time_outlast_the_drain_of_a_server_that_was_replaced() {
    let mut case = start(SHORT);
    let mut long = case.long();
    let mut hijacked = case.hijacked();
    let mut download = case.server.ask("GET", "/large");
    assert_eq!(download.head().status, 200);
    let mut upload = case.server.connect();
    upload.send(
        "POST /echo HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 10\r\n\r\n",
    );
    // Its body is being read.
    assert_eq!(upload.head().status, 100);
    upload.send("hello");
    let workers = case.server.status().processes("worker");
    let old = case.upgrade();
    // What has no deadline ends with the drain, and the rest goes on beyond it.
    hijacked.expect_end();
    upload.send("world");
    assert_eq!(upload.response().expect(200).text(), "helloworld");
    assert!(workers.iter().any(|worker| worker.is_alive()));
    case.work.admit(1);
    long.response().expect(200);
    // Nobody needs them any more, and the front alone serves the last client.
    for worker in workers {
        assert!(worker.wait_gone(TEST_TIMEOUT), "{worker:?}");
    }
    assert!(old.is_alive());
    let bytes = download.bytes(LARGE);
    assert!(bytes.iter().all(|&byte| byte == b'x'));
    assert!(old.wait_gone(TEST_TIMEOUT));
    let log = case.server.stop().log;
    for path in ["/long", "/large", "/echo"] {
        let path = format!("path=\"{path}\"");
        let line = log
            .iter()
            .find(|line| line.contains(&path))
            .expect("a line");
        assert!(
            line.contains(" generation=1 ") && line.ends_with("outcome=ok"),
            "{line}"
        );
    }
}

#[test]
fn a_server_that_was_replaced_and_is_stopped_has_a_drain_from_then() {
    let mut case = start(SHORT);
    let mut long = case.long();
    let mut hijacked = case.hijacked();
    let old = case.upgrade();
    hijacked.expect_end();
    assert!(old.is_alive());
    old.signal(Signal::TERM);
    long.response().expect(502);
    assert!(old.wait_gone(TEST_TIMEOUT));
    case.server.get("/").expect(200);
}

#[test]
fn a_server_whose_successor_has_ended_has_a_drain_from_then() {
    let mut case = start(SHORT);
    let mut long = case.long();
    let old = case.upgrade();
    case.server.process().kill();
    let log = case.server.log();
    log.wait(|line| line.contains("draining this one as for a stop"));
    long.response().expect(502);
    assert!(old.wait_gone(TEST_TIMEOUT));
    case.server.wait_end();
}
