//! Row 35 of the list of faults, and what else becomes of requests past their deadline: 504 at once, or a cut where the
//! response had begun; a log that says where the thread is; and a worker in the place of one that does not come to an end.

use rustix::process::Signal;
use test_support::{
    Application, Client, Events, Fault, Gate, Process, Server, ServerBuilder, until,
};

/// What a path names is done; `/` answers with its worker at once.
const LATE: &str = r##"
def wait_at_gate(name) = Test.pass(name, "#{name} #{Process.pid}")

def spin
  Test.tell("spin #{Process.pid}")
  loop { @turns = @turns.to_i + 1 }
end

def sleep_on
  Test.tell("sleep #{Process.pid}")
  sleep
end

def stand_still
  Test.tell("stand #{Process.pid}")
  Process.kill(:STOP, Process.pid)
end

# The first piece of a response, and then what the block does.
def begin_with(piece, &rest)
  body = Test::Body.new { |send| [send.call(piece), rest.call(send)] }
  [200, { "content-type" => "text/plain" }, body]
end

def tell_events(send)
  loop do
    File.open(File.join(Test::DIR, "gate-step")) { |fifo| fifo.sysread(1) }
    send.call("event")
  end
end

run lambda { |env|
  case env["PATH_INFO"]
  when "/late", "/other" then wait_at_gate(env["PATH_INFO"].delete("/"))
  when "/late/spin" then spin
  when "/late/sleep" then sleep_on
  when "/late/stand" then stand_still
  when "/late/begun/spin" then next begin_with("begun") { spin }
  when "/late/begun/stand" then next begin_with("begun") { stand_still }
  when "/late/events" then next begin_with("begun") { |send| tell_events(send) }
  when "/late/after" then env["rack.after_reply"] << -> { sleep_on }
  end
  Test.text(Process.pid.to_s)
}
"##;

struct Late {
    server: Server,
    events: Events,
    late: Gate,
    other: Gate,
    step: Gate,
}

/// A server with little time for what begins with `/late`, its usual minute for all else, and no grace.
fn start(settings: impl FnOnce(ServerBuilder) -> ServerBuilder) -> Late {
    start_with_grace("0", settings)
}

/// Grace for a worker that must say where its late request is: Ruby takes the lock from a busy thread after 100 ms or, on
/// a busy machine, a multiple of that.
const TIME_TO_ANSWER: &str = "2s";

fn start_with_grace(grace: &str, settings: impl FnOnce(ServerBuilder) -> ServerBuilder) -> Late {
    let application = Application::new(LATE);
    let events = application.events();
    let (late, other) = (application.gate("late"), application.gate("other"));
    let step = application.gate("step");
    let server = Server::application_of(application)
        .setting("request_timeouts", "/late=1s")
        .setting("request_grace", grace);
    let server = settings(server).start();
    Late {
        server,
        events,
        late,
        other,
        step,
    }
}

impl Late {
    /// The worker that the next request to tell itself is in.
    #[track_caller]
    fn begun(&mut self, what: &str) -> Process {
        let event = self.events.wait();
        let pid = event.strip_prefix(&format!("{what} "));
        let pid = pid.and_then(|pid| pid.parse().ok());
        Process(pid.unwrap_or_else(|| panic!("{event}")))
    }

    /// Waits for the line of the log that has all of these.
    #[track_caller]
    fn logged(&self, parts: &[&str]) -> String {
        let wanted = |line: &str| parts.iter().all(|part| line.contains(part));
        self.server.log().wait(wanted)
    }

    /// Waits until the stuck worker is gone and another one serves.
    #[track_caller]
    fn replaced(&self, worker: Process) {
        self.logged(&[&format!("(pid {})", worker.0), "ended with signal 9 (KILL)"]);
        let successor = self.server.get("/").text();
        assert_ne!(successor, worker.0.to_string());
    }
}

#[test]
fn row_35_an_endless_loop_gets_504_at_its_deadline_and_its_worker_is_replaced() {
    let mut late = start(|builder| builder);
    let mut client = late.server.ask("POST", "/late/spin");
    let worker = late.begun("spin");
    // What waits behind it has its own time.
    let mut waiting: Vec<Client> = (0..3).map(|_| late.server.ask("GET", "/")).collect();
    client.response().expect(504);
    for client in &mut waiting {
        assert_ne!(client.response().text(), worker.0.to_string());
    }
    late.replaced(worker);
    late.logged(&[
        "path=\"/late/spin\"",
        "status=504",
        "outcome=deadline_exceeded",
    ]);
    assert_eq!(late.events.rest(), [""; 0], "it was run again");
}

#[test]
fn row_35_a_stopped_worker_gets_504_at_its_deadline_and_is_replaced() {
    let mut late = start(|builder| builder);
    let mut client = late.server.ask("POST", "/late/stand");
    let worker = late.begun("stand");
    let mut waiting = late.server.ask("GET", "/");
    client.response().expect(504);
    assert_ne!(waiting.response().text(), worker.0.to_string());
    late.replaced(worker);
    let line = late.logged(&["without having said where", "path=\"/late/stand\""]);
    assert!(line.contains("method=POST"), "{line}");
    assert_eq!(late.events.rest(), [""; 0], "it was run again");
}

/// Asserts that a response was cut after its first piece, visibly.
#[track_caller]
fn expect_cut(client: &mut Client) {
    match client.try_response("GET") {
        Err(Fault::Truncated { response, .. }) => assert_eq!(response.body, b"begun"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn row_35_a_response_that_stands_still_is_cut_and_its_worker_is_replaced() {
    let mut late = start_with_grace(TIME_TO_ANSWER, |builder| builder);
    let mut client = late.server.ask("GET", "/late/begun/spin");
    let worker = late.begun("spin");
    let mut waiting = late.server.ask("GET", "/");
    expect_cut(&mut client);
    late.logged(&["runs past its deadline", "path=\"/late/begun/spin\""]);
    late.logged(&["  | ", "config.ru:8:in ", "spin'"]);
    assert_ne!(waiting.response().text(), worker.0.to_string());
    late.replaced(worker);
    late.logged(&[
        "path=\"/late/begun/spin\"",
        "status=200",
        "outcome=deadline_exceeded",
    ]);
}

#[test]
fn row_35_a_worker_that_is_stopped_within_a_response_is_replaced() {
    let mut late = start(|builder| builder);
    let mut client = late.server.ask("GET", "/late/begun/stand");
    let worker = late.begun("stand");
    expect_cut(&mut client);
    late.replaced(worker);
    let path = "path=\"/late/begun/stand\"";
    late.logged(&["without having said where", path]);
    late.logged(&[path, "status=200", "outcome=deadline_exceeded"]);
}

#[test]
fn events_that_keep_coming_outlive_the_time_of_their_request() {
    let mut late = start_with_grace("1h", |builder| builder.threads(2));
    let mut events = late.server.ask("GET", "/late/events");
    assert_eq!(events.head().status, 200);
    assert_eq!(events.chunk().as_deref(), Some(&b"begun"[..]));
    // Came later and has as much time, so it expires later.
    let mut silent = late.server.ask("GET", "/late");
    late.begun("late");
    let expired = || late.server.log().text().contains("status=504");
    while !expired() {
        late.step.admit(1);
        assert_eq!(events.chunk().as_deref(), Some(&b"event"[..]));
    }
    silent.response().expect(504);
    late.step.admit(1);
    assert_eq!(events.chunk().as_deref(), Some(&b"event"[..]));
    events.reset();
    // Its thread notices with one of the next events.
    late.step.open();
    late.late.admit(1);
    late.logged(&["path=\"/late/events\"", "outcome=client_closed"]);
}

#[test]
fn a_thread_that_does_not_come_back_from_what_follows_a_response_costs_its_worker() {
    let mut late = start(|builder| builder);
    late.server.get("/late/after").expect(200);
    let worker = late.begun("sleep");
    assert_eq!(late.server.status().0["threads"][0]["state"], "finishing");
    late.logged(&["what follows a response runs past its deadline"]);
    late.logged(&["  | ", "config.ru:13:in ", "sleep_on'"]);
    late.replaced(worker);
}

#[test]
fn row_35_a_stopped_worker_that_idles_holds_nobody_up() {
    let late = start(|builder| builder.workers(2).threads(2));
    let stopped = late.server.status().processes("worker")[0];
    stopped.suspend();
    for _ in 0..20 {
        assert_ne!(late.server.get("/").text(), stopped.0.to_string());
    }
    stopped.signal(Signal::CONT);
}

#[test]
fn row_35_a_worker_that_was_stopped_while_it_idled_is_replaced_and_what_waits_for_it_is_served() {
    let late = start(|builder| builder);
    let stopped = late.server.status().processes("worker")[0];
    stopped.suspend();
    let mut client = late.server.ask("POST", "/");
    assert_ne!(client.response().text(), stopped.0.to_string());
    let worker = format!("worker 0 (pid {})", stopped.0);
    late.logged(&[&worker, " was woken for a request and does not respond"]);
    late.logged(&[
        &worker,
        " is still running; starting its replacement, worker 1",
    ]);
    // It has lost nothing, and leaves like any other where it goes on.
    stopped.signal(Signal::CONT);
    late.logged(&[&worker, " was asked to exit and ended with exit 0"]);
    assert_ne!(late.server.get("/").text(), stopped.0.to_string());
}

#[test]
fn a_worker_that_hangs_between_requests_is_replaced_when_others_wait() {
    const HOOK: &str = r##"out_of_band { |worker| Test.tell("hook #{Process.pid}"); sleep }"##;
    let application = Application::new(LATE);
    application.dir().write("config/highball.rb", HOOK);
    let mut events = application.events();
    let server = Server::application_of(application)
        .setting("out_of_band_interval", "1")
        .setting("request_timeout", "1s")
        .setting("request_timeouts", "/=1h")
        .setting("request_grace", "0")
        .setting("drain_timeout", "0")
        .start();
    let hangs = server.get("/").text();
    assert_eq!(events.wait(), format!("hook {hangs}"));
    let successor = server.ask("POST", "/").response().text();
    assert_ne!(successor, hangs);
    server.log().wait(|line| {
        line.contains(&format!(
            "worker 0 (pid {hangs}) has run code between requests for longer than"
        ))
    });
    let ended = format!("worker 0 (pid {hangs}) was asked to exit and ended with signal 9");
    server.log().wait(|line| line.contains(&ended));
}

#[test]
fn the_log_names_the_line_of_the_application_in_which_a_late_request_is() {
    // Ruby 3.4 puts another mark before the method.
    for (path, event, line, method) in [
        ("/late/spin", "spin", "config.ru:8:in ", "spin'"),
        ("/late/sleep", "sleep", "config.ru:13:in ", "sleep_on'"),
    ] {
        let mut late = start_with_grace(TIME_TO_ANSWER, |builder| builder.threads(2));
        let mut client = late.server.ask("GET", path);
        let worker = late.begun(event);
        client.response().expect(504);
        let head = late.logged(&["a request runs past its deadline"]);
        let facts = format!(
            "level=warn message=\"a request runs past its deadline\" method=GET path=\"{path}\" app_ms="
        );
        assert!(head.contains(&facts), "{head}");
        assert!(head.ends_with("worker=0 generation=1"), "{head}");
        late.logged(&["  | ", line, method]);
        late.replaced(worker);
    }
}

/// A worker of two threads, one of which is past its deadline: the client of the other one, and the worker.
#[track_caller]
fn one_late_of_two() -> (Late, Client, Process) {
    let mut late = start(|builder| builder.threads(2));
    let other = late.server.ask("GET", "/other");
    late.begun("other");
    let mut client = late.server.ask("GET", "/late");
    let worker = late.begun("late");
    client.response().expect(504);
    (late, other, worker)
}

#[test]
fn deadlines_differ_by_path() {
    let (late, mut other, worker) = one_late_of_two();
    // The one that came first is in time, and so ends with its worker waiting for it.
    late.logged(&["worker 0 (pid ", ") is stuck with a request"]);
    late.other.admit(1);
    assert_eq!(other.response().text(), worker.0.to_string());
    late.replaced(worker);
    late.logged(&["path=\"/other\"", "status=200", "outcome=ok"]);
}

#[test]
fn a_stuck_worker_s_successor_serves_while_that_one_finishes_what_is_in_time() {
    let (late, mut other, worker) = one_late_of_two();
    let successor = late.server.get("/").text();
    assert_ne!(successor, worker.0.to_string());
    late.logged(&[
        "worker 0 (pid ",
        " is still running; starting its replacement, worker 1",
    ]);
    late.other.admit(1);
    assert_eq!(other.response().text(), worker.0.to_string());
    late.replaced(worker);
    assert_eq!(late.server.get("/").text(), successor);
    assert_eq!(late.server.status().processes("worker").len(), 1);
}

#[test]
fn a_worker_whose_late_request_ends_within_the_grace_is_kept() {
    let mut late = start_with_grace("1h", |builder| builder);
    let mut client = late.server.ask("POST", "/late");
    let worker = late.begun("late");
    client.response().expect(504);
    late.logged(&["a request runs past its deadline"]);
    late.late.admit(1);
    assert_eq!(late.server.get("/").text(), worker.0.to_string());
    assert_eq!(late.events.rest(), [""; 0], "it was run again");
    // On the connection that had the 504 as well.
    assert_eq!(client.get("/").text(), worker.0.to_string());
    assert!(!late.server.log().text().contains("stuck"));
}

#[test]
fn a_late_request_that_ends_after_all_lets_its_worker_leave_by_itself() {
    let mut late = start(|builder| builder.threads(2));
    let _other = late.server.ask("GET", "/other");
    late.begun("other");
    let mut client = late.server.ask("GET", "/late");
    let worker = late.begun("late");
    client.response().expect(504);
    late.logged(&["worker 0 (pid ", ") is stuck with a request"]);
    late.late.admit(1);
    until("the other one alone is left", || {
        let status = late.server.status();
        status.number("/slots/free") + 1 == status.number("/slots/total")
    });
    late.other.admit(1);
    late.logged(&[&format!("(pid {})", worker.0), "ended with exit 0"]);
    assert_ne!(late.server.get("/").text(), worker.0.to_string());
}

#[test]
fn a_request_whose_client_has_left_is_late_as_well() {
    let mut late = start(|builder| builder);
    let client = late.server.ask("GET", "/late/sleep");
    let worker = late.begun("sleep");
    client.reset();
    late.logged(&["path=\"/late/sleep\"", "outcome=client_closed"]);
    late.replaced(worker);
    assert_eq!(late.events.rest(), [""; 0], "it was run again");
}

#[test]
fn no_control_character_of_a_backtrace_reaches_the_log() {
    let source = r##"
run lambda { |env|
  next Test.text("ok") unless env["PATH_INFO"] == "/late"
  eval("sleep", binding, "escape\e[31m.rb\r\n\t.rb", 7)
}
"##;
    for format in ["text", "json"] {
        let server = Server::app(source)
            .setting("request_timeouts", "/late=500ms")
            .setting("request_grace", "0")
            .setting("log_format", format)
            .start();
        server.get("/late").expect(504);
        server.log().wait(|line| line.contains("[31m.rb"));
        server.get("/").expect(200);
        let plain = |line: &String| !line.chars().any(char::is_control);
        let lines = server.log().lines();
        assert!(lines.iter().all(plain), "{lines:#?}");
    }
}
