//! Processes that an application forks: from a request, a hook, or while it is loaded. None of them is a worker or the
//! template, whatever it does with its copy of their code.

use test_support::{Application, Events, Gate, Process, Server};

/// The ways to fork in a request. The child leaves by `exit`, raises, or comes back; the parent answers with how it ended
/// and with its own pid.
const FORKING: &str = r##"
def leave(how)
  case how
  when "exit" then exit 7
  when "raise" then raise "the child's own error"
  when "return" then nil
  end
end

def outcome(pid)
  Process.wait(pid)
  "#{$?.exitstatus} of #{pid} by #{Process.pid}"
end

def fork_or_leave(how, forked = fork)
  return outcome(forked) if forked

  leave(how)
  "a child's answer"
end

run lambda { |env|
  how = env["QUERY_STRING"]
  case env["PATH_INFO"]
  when "/fork" then Test.text(fork_or_leave(how), headers: { "set-cookie" => "of=#{env["HTTP_X_CLIENT"]}" })
  when "/block" then Test.text(outcome(fork { leave(how) }))
  when "/thread" then Test.text(Thread.new { fork_or_leave(how) }.value)
  when "/popen"
    io = IO.popen("-")
    unless io
      $stdout.write("from the child")
      leave(how)
      next Test.text("a child's answer")
    end
    said = io.read
    io.close
    Test.text("#{$?.exitstatus} of #{said}")
  when "/stream"
    [200, { "content-type" => "text/plain" }, Test::Body.new { |to| to.call(fork_or_leave(how)) }]
  when "/after"
    env["rack.after_reply"] << -> { (pid = fork) ? Test.tell(outcome(pid)) : leave(how) }
    Test.text("soon")
  when "/nested"
    from_child, child = IO.pipe
    pid = fork do
      # Files of its own, with the numbers of what it has let go of.
      files = Array.new(8) { IO.pipe }
      grandchild = fork { files.each { |_, writer| writer.write("written") } }
      Process.wait(grandchild)
      files.each { |_, writer| writer.close }
      child.write(files.map { |reader, _| reader.read }.join(" "))
    end
    Process.wait(pid)
    child.close
    Test.text(from_child.read)
  when "/programs"
    Process.wait(spawn("true"))
    Test.text([`echo one`, system("true"), IO.popen(%w[echo two], &:read)].inspect)
  else Test.text("#{env["HTTP_X_CLIENT"]} by #{Process.pid}")
  end
}"##;

fn start(source: &str, threads: usize) -> (Server, Events) {
    let application = Application::without_lint(source);
    let events = application.events();
    let server = Server::application_of(application).threads(threads);
    (server.start(), events)
}

/// Asks the worker's threads, each more than once, as other clients, and expects their own answers from this worker alone.
#[track_caller]
fn expect_own_answers(server: &Server, worker: &str) {
    for client in 0..8 {
        let mut connection = server.connect();
        connection.send(format!(
            "GET / HTTP/1.1\r\nHost: test\r\nX-Client: {client}\r\n\r\n"
        ));
        let response = connection.response();
        response.expect(200);
        assert_eq!(response.text(), format!("{client} by {worker}"));
        assert_eq!(response.head.field("set-cookie"), None);
    }
}

/// What follows "by".
fn worker_of(outcome: &str) -> &str {
    outcome.rsplit(' ').next().unwrap_or_default()
}

#[test]
fn a_child_that_exits_in_a_request_answers_nobody_and_is_no_worker() {
    for threads in [1, 3] {
        let (server, _) = start(FORKING, threads);
        for path in ["/fork", "/block", "/thread"] {
            let mut client = server.connect();
            client.send(format!(
                "GET {path}?exit HTTP/1.1\r\nHost: test\r\nX-Client: A\r\n\r\n"
            ));
            let response = client.response();
            response.expect(200);
            let outcome = response.text();
            assert!(
                outcome.starts_with("7 of "),
                "{path}, {threads} threads: {outcome}"
            );
            expect_own_answers(&server, worker_of(&outcome));
        }
        let status = server.status();
        assert_eq!(status.processes("worker").len(), 1);
    }
}

#[test]
fn a_child_that_raises_ends_with_its_own_error() {
    for threads in [1, 3] {
        let (server, _) = start(FORKING, threads);
        for path in ["/fork", "/block", "/thread"] {
            let before = server.log().len();
            let outcome = server.get(&format!("{path}?raise")).text();
            assert!(outcome.starts_with("1 of "), "{path}: {outcome}");
            let is_error = |line: &str| line.contains("the child's own error");
            server.log().wait_after(before, is_error);
            expect_own_answers(&server, worker_of(&outcome));
        }
    }
}

#[test]
fn a_child_that_comes_back_from_the_application_is_logged_and_ends() {
    for threads in [1, 3] {
        let (server, _) = start(FORKING, threads);
        let outcome = server.get("/fork?return").text();
        assert!(outcome.starts_with("1 of "), "{outcome}");
        expect_own_answers(&server, worker_of(&outcome));
        server
            .log()
            .wait(|line| line.contains("NotTheWorker") && line.contains("forked from a worker"));
    }
}

#[test]
fn a_child_made_by_popen_speaks_to_its_parent_alone() {
    let (server, _) = start(FORKING, 1);
    for (how, outcome) in [
        ("exit", "7 of from the child"),
        ("return", "1 of from the child"),
    ] {
        assert_eq!(server.get(&format!("/popen?{how}")).text(), outcome);
        server.get("/").expect(200);
    }
}

#[test]
fn a_child_forked_while_a_body_is_sent_writes_none_of_it() {
    for how in ["exit", "raise", "return"] {
        let (server, mut events) = start(FORKING, 1);
        let outcome = server.get(&format!("/stream?{how}")).text();
        assert!(
            outcome.contains(" of ") && !outcome.contains("child's"),
            "{how}: {outcome}"
        );
        assert_eq!(events.wait(), "body closed", "by one process or the other");
        expect_own_answers(&server, worker_of(&outcome));
    }
}

#[test]
fn a_child_forked_after_the_reply_takes_no_request() {
    for how in ["exit", "raise", "return"] {
        let (server, mut events) = start(FORKING, 1);
        assert_eq!(server.get(&format!("/after?{how}")).text(), "soon");
        let outcome = events.wait();
        assert!(!outcome.contains("child's"), "{how}: {outcome}");
        expect_own_answers(&server, worker_of(&outcome));
    }
}

#[test]
fn a_worker_runs_programs_as_any_process_does() {
    let (server, _) = start(FORKING, 1);
    assert_eq!(
        server.get("/programs").text(),
        r#"["one\n", true, "two\n"]"#
    );
}

#[test]
fn files_that_a_child_opens_are_open_in_its_own_children() {
    let (server, _) = start(FORKING, 1);
    assert_eq!(server.get("/nested").text(), ["written"; 8].join(" "));
}

#[test]
fn a_child_forked_by_a_signal_handler_in_an_idle_worker_is_logged() {
    let (server, mut events) = start(
        r##"trap("USR1") { (pid = fork) ? Process.detach(pid) : Test.tell("child #{Process.pid}") }
        run ->(_) { Test.text(Process.pid.to_s) }"##,
        1,
    );
    let worker = server.get("/").text();
    let waits = || {
        let stat = std::fs::read_to_string(format!("/proc/{worker}/stat")).unwrap_or_default();
        stat.contains(") S ")
    };
    test_support::until("the worker waits for a request", waits);
    Process(worker.parse().expect("a process id")).signal(rustix::process::Signal::USR1);
    let child = child_of(&mut events);
    assert!(child.wait_gone(test_support::TEST_TIMEOUT));
    let log = server.log();
    log.wait(|line| line.contains("NotTheWorker") && line.contains("forked from a worker"));
    assert!(!log.text().contains("[BUG]"), "{}", log.text());
    assert_eq!(server.get("/").text(), worker);
}

/// A child that lives on, and tells its pid; the worker answers meanwhile.
const LIVING_ON: &str = r##"run lambda { |env|
  case env["PATH_INFO"]
  when "/child"
    child = fork do
      Test.pass("child", "child #{Process.pid}")
      Test.tell("child goes")
    end
    Process.detach(child)
    Test.text("forked")
  when "/daemon"
    Process.daemon(true, true)
    Test.pass("child", "child #{Process.pid}")
    Test.text("a daemon's answer")
  else Test.text(Process.pid.to_s)
  end
}"##;

fn start_living_on() -> (Server, Events, Gate) {
    let application = Application::without_lint(LIVING_ON);
    let (events, gate) = (application.events(), application.gate("child"));
    (Server::application_of(application).start(), events, gate)
}

/// What a process has open, as the kernel names it.
fn links(process: Process) -> Vec<String> {
    std::fs::read_dir(format!("/proc/{}/fd", process.0))
        .expect("it lives")
        .filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
        .map(|link| link.to_string_lossy().into_owned())
        .collect()
}

fn child_of(events: &mut Events) -> Process {
    let event = events.wait();
    let pid = event
        .strip_prefix("child ")
        .unwrap_or_else(|| panic!("{event}"));
    Process(pid.parse().expect("a process id"))
}

/// Expects that a process holds nothing of what reaches the exchange or the supervisor. `worker` holds all of it.
#[track_caller]
fn expect_nothing_of_ours(process: Process, worker: Process) {
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", process.0)).expect("it lives");
    assert!(!maps.contains("highball-exchange"), "{maps}");
    let (held, of_worker) = (links(process), links(worker));
    for what in ["memfd:", "socket:", "[eventfd]"] {
        let count = |links: &[String]| links.iter().filter(|link| link.contains(what)).count();
        // All that a worker has of the first two is Highball's; Ruby has eventfds as well.
        let most = match what {
            "[eventfd]" => count(&of_worker) - 1,
            _ => 0,
        };
        assert!(count(&held) <= most, "{held:?}, its worker {of_worker:?}");
    }
}

#[test]
fn a_child_has_neither_the_exchange_nor_the_sockets_of_its_worker() {
    let (server, mut events, gate) = start_living_on();
    assert_eq!(server.get("/child").text(), "forked");
    let child = child_of(&mut events);
    let worker = server.get("/").text().parse().unwrap();
    expect_nothing_of_ours(child, Process(worker));
    gate.admit(1);
    assert_eq!(events.wait(), "child goes");
}

#[test]
fn children_of_the_template_have_nothing_of_it_and_end_by_term() {
    let application = Application::without_lint(
        r##"LIVE_ON = -> { Process.detach(fork { Test.tell("child #{Process.pid}") and sleep }) }
        LIVE_ON.call
        run ->(_) { Test.text(Process.pid.to_s) }"##,
    );
    let hooks = "before_fork { LIVE_ON.call }";
    application.dir().write("config/highball.rb", hooks);
    let mut events = application.events();
    let server = Server::application_of(application).start();
    let worker = server.get("/").text();
    for _ in ["while it loads", "before it forks a worker"] {
        let child = child_of(&mut events);
        expect_nothing_of_ours(child, Process(worker.parse().unwrap()));
        child.signal(rustix::process::Signal::TERM);
        assert!(child.wait_gone(test_support::TEST_TIMEOUT));
    }
    assert_eq!(server.get("/").text(), worker);
}

#[test]
fn a_child_that_gets_term_ends_itself_and_not_its_worker() {
    let (server, mut events, _gate) = start_living_on();
    let worker = server.get("/").text();
    assert_eq!(server.get("/child").text(), "forked");
    let child = child_of(&mut events);
    child.signal(rustix::process::Signal::TERM);
    assert!(child.wait_gone(test_support::TEST_TIMEOUT));
    assert_eq!(server.get("/").text(), worker);
}

#[test]
fn a_worker_that_turns_itself_into_a_daemon_is_replaced_and_answers_nobody() {
    let (server, mut events, gate) = start_living_on();
    let mut client = server.ask("POST", "/daemon");
    let daemon = child_of(&mut events);
    client.response().expect(502);
    let worker = server.get("/").text();
    assert_ne!(worker, daemon.0.to_string());
    gate.admit(1);
    assert!(daemon.wait_gone(test_support::TEST_TIMEOUT));
    assert_eq!(server.get("/").text(), worker);
}

#[test]
fn children_forked_by_hooks_and_while_loading_speak_for_nobody() {
    for how in ["exit", "raise 'x'", "nil"] {
        let application = Application::without_lint(&format!(
            "Process.wait(fork || (({how}); 0)) rescue raise\nrun ->(_) {{ Test.text(Process.pid.to_s) }}"
        ));
        application.dir().write(
            "config/highball.rb",
            format!(
                "%i[before_fork after_fork before_worker_exit].each do |hook|\n  \
                   __send__(hook) {{ (pid = fork) ? Process.wait(pid) : ({how}) }}\n\
                 end\n"
            ),
        );
        let server = Server::application_of(application).start();
        let worker = server.get("/").text();
        for _ in 0..4 {
            assert_eq!(server.get("/").text(), worker, "{how}");
        }
        let status = server.status();
        assert_eq!(status.processes("worker").len(), 1);
        assert_eq!(status.processes("template").len(), 1);
        let stopped = server.stop();
        assert!(stopped.status.success(), "{how}");
    }
}
