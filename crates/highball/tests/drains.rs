//! What leaves finishes first: requests that are in time outlast `drain_timeout` wherever nobody waits for their worker.
//! What is not in time, and what somebody waits for, is cut.

use test_support::{Application, Client, Events, Gate, Process, Ran, Server, until};

/// `/long` waits at a gate; `/hijack` takes its connection over and keeps it for as long as its worker is there. One
/// version of it comes no further than its load.
const SOURCE: &str = r##"
sleep if File.read("version") == "hangs"
run lambda { |env|
  case env["PATH_INFO"]
  when "/long" then Test.pass("work", "calls")
  when "/hijack"
    io = env["rack.hijack"].call
    io.write("HTTP/1.1 101 Switching Protocols\r\n\r\n")
    Thread.new { io.read; io.close }
  end
  Test.text(Process.pid.to_s)
}"##;

/// Two workers of one thread, whose drain is as short as one can be.
const SHORT: &str = "workers = 2\nthreads = 1\ndrain_timeout = \"1s\"\n";
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

    /// Writes the settings anew and has them read.
    #[track_caller]
    fn reload(&self, settings: &str) -> Ran {
        let dir = self.server.application().dir();
        dir.write("highball.toml", settings);
        expect_success(self.server.command(&["reload"]))
    }

    /// The worker that answers now.
    fn worker(&self) -> Process {
        let pid = self.server.get("/").text().parse();
        Process(pid.expect("a process"))
    }

    /// Waits until a worker is left alone beyond its drain.
    fn expect_in_time(&self) {
        let line = self.server.log().wait(|line| line.contains("which leaves"));
        assert!(line.contains("what it runs is in time"), "{line}");
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
    assert!(first.wait_gone(test_support::PATIENCE));
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
        !log.iter().any(|line| line.contains("which leaves")),
        "{log:#?}"
    );
}

#[test]
fn a_restart_waits_for_the_one_before_no_longer_than_for_a_drain_and_the_log_says_so() {
    let mut case = start(SHORT);
    let mut long = case.long();
    case.restart();
    // Now somebody waits, so what is in time is cut in the end.
    let ran = case.restart();
    let begin = "generation 3 serves";
    assert!(ran.stdout.starts_with(begin), "{}", ran.output());
    let line = case.server.log().wait(|line| line.contains("waits for"));
    assert!(line.contains("for 1 s at most") && line.contains("generation=\"1\""));
    let response = long.response();
    assert_eq!(response.expect(502).field("retry-after"), None);
}

#[test]
fn a_drain_is_as_long_as_the_settings_in_force_say() {
    let case = start("workers = 2\nthreads = 1\ndrain_timeout = \"1h\"\n");
    let mut hijacked = case.hijacked();
    let ran = case.reload(SHORT);
    assert_eq!(ran.stdout, "drain_timeout: 1h -> 1s", "{}", ran.output());
    // The generation was launched with the other one.
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
