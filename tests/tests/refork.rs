//! Re-forking: a template that a worker has forked, by command and by count: what its workers share with that worker, what
//! they don't, and that nothing is lost when a process is killed at any point.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use rustix::process::Signal;
use serde_json::Value;
use test_support::{Application, Client, Process, Program, Ran, Server, ServerBuilder, until};

/// `/warm` answers with the process in which the first request of all came, `/` with the worker's own.
const WARM: &str = r##"run lambda { |env|
  $warm ||= Process.pid
  case env["PATH_INFO"]
  when "/warm" then Test.text($warm.to_s)
  when "/raise" then raise "late"
  else Test.text(Process.pid.to_s)
  end
}"##;

fn app(source: &str, hooks: &str) -> ServerBuilder {
    let application = Application::without_lint(source);
    application.dir().write("config/highball.rb", hooks);
    Server::application_of(application)
}

fn refork(server: &Server) -> Ran {
    server.command(&["refork"])
}

#[track_caller]
fn expect_refork(server: &Server) -> String {
    let ran = refork(server);
    assert!(ran.status.success(), "{}", ran.output());
    ran.stdout
}

#[track_caller]
fn expect_refusal(server: &Server, reason: &str) {
    let ran = refork(server);
    assert!(!ran.status.success(), "{}", ran.output());
    assert!(ran.stderr.contains(reason), "{}", ran.output());
}

fn template(server: &Server) -> Process {
    until("there is one template", || {
        server.status().processes("template").len() == 1
    });
    server.status().processes("template")[0]
}

fn workers(server: &Server) -> BTreeSet<Process> {
    server.status().ready_workers().into_iter().collect()
}

/// Ruby that says whether this process, which was forked from a worker or is one, has that role, and the file `now` is there.
fn now_in(role: &str) -> String {
    format!("$warm && File.exist?(\"now\") && File.read(\"/proc/self/cmdline\").include?({role:?})")
}

/// The row of the only template.
fn template_row(server: &Server) -> Value {
    template(server);
    let Value::Array(rows) = server.status().0["processes"].take() else {
        panic!("no processes")
    };
    let mut rows = rows.into_iter();
    rows.find(|row| row["role"] == "template")
        .expect("a template")
}

#[test]
fn workers_share_what_a_worker_has_made_in_its_requests() {
    let server = app(WARM, "").workers(3).threads(2).start();
    let (old, before) = (template(&server), workers(&server));
    let first: u64 = server.get("/warm").text().parse().expect("a pid");
    // Of the worker with the most requests.
    let mut asked = Client::connect(server.address());
    until("one worker has had most of the requests", || {
        asked.get("/warm").expect(200);
        let rows = server.status().0["processes"].take();
        let most = rows.as_array().expect("rows").iter();
        let most = most.filter(|row| row["role"] == "worker");
        let most = most.max_by_key(|row| row["requests"].as_u64());
        most.is_some_and(|row| row["pid"] == first)
    });
    let said = expect_refork(&server);
    assert!(said.contains("forked from worker "), "{said}");
    assert!(said.contains("all workers are forked from it"), "{said}");
    let new = template(&server);
    assert_ne!(new, old);
    assert!(!old.is_alive());
    let after = workers(&server);
    assert_eq!(after.len(), 3);
    assert!(after.is_disjoint(&before), "{after:?} {before:?}");
    for worker in &after {
        assert_eq!(worker.parent(), Some(new));
    }
    for _ in 0..10 {
        assert_eq!(server.get("/warm").text(), first.to_string());
    }
    let row = template_row(&server);
    assert!(row["forked_from"]["requests"].as_u64() > Some(0), "{row}");
    let page = server.command(&["status"]).stdout;
    assert!(page.contains("forked from worker "), "{page}");
    let stopped = server.stop();
    assert!(stopped.status.success());
}

#[test]
fn a_template_that_a_worker_forked_is_as_good_as_another() {
    let hooks = "before_fork { warn(\"hook before_fork #{Process.pid}\") }\n\
                 after_fork { |_| warn(\"hook after_fork #{Process.pid} #{Process.ppid}\") }\n\
                 before_worker_exit { |_| warn(\"hook exit #{Process.pid}\") }\n";
    let server = app(WARM, hooks).workers(2).start();
    for _ in 0..3 {
        server.get("/").expect(200);
        let donors = workers(&server);
        let log = server.log().len();
        expect_refork(&server);
        let new = template(&server);
        // In the worker before it forks, in the template before each of its forks.
        let donor = server.log().wait_after(log, |line| {
            donors
                .iter()
                .any(|pid| *line == format!("hook before_fork {}", pid.0))
        });
        let donor = donor.rsplit(' ').next().expect("a pid").to_owned();
        server
            .log()
            .wait_after(log, |line| *line == format!("hook exit {donor}"));
        server
            .log()
            .wait_after(log, |line| *line == format!("hook before_fork {}", new.0));
        server.log().wait_after(log, |line| {
            line.starts_with("hook after_fork") && line.ends_with(&format!(" {}", new.0))
        });
    }
    // Scaling, deaths and restarts are those of any template.
    let new = template(&server);
    let ran = server.command(&["scale", "4"]);
    assert!(ran.status.success(), "{}", ran.output());
    assert!(workers(&server).iter().all(|one| one.parent() == Some(new)));
    let killed = *workers(&server).first().expect("a worker");
    killed.kill();
    until("it is replaced", || {
        let all = workers(&server);
        all.len() == 4 && !all.contains(&killed)
    });
    server.log().wait(|line| {
        line.contains(&format!("pid {}", killed.0)) && line.contains("ended with signal 9 (KILL)")
    });
    let ran = server.command(&["restart"]);
    assert!(ran.status.success(), "{}", ran.output());
    until("the old generation is gone", || !new.is_alive());
    assert!(template_row(&server)["forked_from"].is_null());
    assert_ne!(server.get("/warm").text(), "");
}

#[test]
fn a_template_that_a_worker_forked_is_loaded_again_when_it_dies() {
    let server = app(WARM, "").workers(2).start();
    server.get("/").expect(200);
    expect_refork(&server);
    let (new, before) = (template(&server), workers(&server));
    new.kill();
    until("another one is loaded", || {
        let all = server.status().processes("template");
        all.len() == 1 && all[0] != new
    });
    assert!(template_row(&server)["forked_from"].is_null());
    assert_eq!(workers(&server), before, "its workers go on");
    server.get("/").expect(200);
}

#[test]
fn a_template_is_forked_after_so_many_requests_once_each() {
    let server = app(WARM, "").workers(2).setting("refork", "5,20").start();
    let first = template(&server);
    // That it was asked for too early changes nothing.
    expect_refusal(&server, "no worker has finished a request");
    let mut client = Client::connect(server.address());
    let proven = |line: &str| line.contains("all workers are forked from template");
    until("the first one is there", || {
        client = Client::connect(server.address());
        client.get("/").expect(200);
        server.log().lines().iter().any(|line| proven(line))
    });
    assert_ne!(template(&server), first);
    until("its figures are known", || {
        server.get("/").expect(200);
        let lines = server.log().lines();
        lines
            .iter()
            .any(|line| line.contains("template and workers hold "))
    });
}

#[test]
fn no_request_is_lost_through_twenty_reforks_under_load() {
    let server = app(WARM, "").workers(2).threads(2).start();
    let (ended, served) = (AtomicBool::new(false), AtomicUsize::new(0));
    let address = server.address();
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut client = Client::connect(address);
                while !ended.load(Ordering::Relaxed) {
                    client.get("/").expect(200);
                    served.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let reforked = (0..20).map(|_| {
            let before = served.load(Ordering::Relaxed);
            until("requests are served", || {
                served.load(Ordering::Relaxed) > before + 10
            });
            refork(&server)
        });
        let reforked: Vec<Ran> = reforked.collect();
        ended.store(true, Ordering::Relaxed);
        for ran in reforked {
            assert!(ran.status.success(), "{}", ran.output());
        }
    });
    assert_eq!(server.status().number("/retried"), 0);
    // Front, template and workers; nobody has stayed, once the last template but one has left.
    until("nobody else is there", || {
        server.family().members().len() == 4
    });
}

#[test]
fn a_worker_or_template_that_is_killed_leaves_the_old_template_in_place() {
    // The worker before it forks, the new template before it forks, and the workers that it has forked.
    for (hook, role, reason) in [
        ("before_fork", "worker", "ended too early"),
        ("before_fork", "template", "its template ended"),
        ("after_fork", "worker", "ended at once"),
    ] {
        let point = format!("{hook} {{ Process.kill(:KILL, $$) if {} }}\n", now_in(role));
        let server = app(WARM, &point).workers(2).start();
        let old = template(&server);
        server.get("/").expect(200);
        std::fs::write(server.dir().join("now"), "").expect("a file");
        expect_refusal(&server, reason);
        assert_eq!(template(&server), old, "{point}");
        until("all serve again", || workers(&server).len() == 2);
        assert!(workers(&server).iter().all(|one| one.parent() == Some(old)));
        server.get("/").expect(200);
        std::fs::remove_file(server.dir().join("now")).expect("the file");
        until("a later one succeeds", || {
            server.get("/").expect(200);
            refork(&server).status.success()
        });
        assert_ne!(template(&server), old);
    }
}

#[test]
fn a_fork_that_hangs_is_given_up() {
    // The worker's own, and the new template's.
    for (role, killed) in [("worker", false), ("template", true)] {
        let hook = format!("before_fork {{ sleep if {} }}\n", now_in(role));
        let server = app(WARM, &hook)
            .workers(1)
            .setting("boot_timeout", "3s")
            .setting("drain_timeout", "1s")
            .start();
        let old = template(&server);
        server.get("/").expect(200);
        std::fs::write(server.dir().join("now"), "").expect("a file");
        let reason = if killed {
            "its template ended"
        } else {
            "ended too early"
        };
        expect_refusal(&server, reason);
        assert_eq!(template(&server), old);
        server.get("/").expect(200);
        let family = server.family().members();
        assert_eq!(family.len(), 3, "{family:?}");
    }
}

#[test]
fn a_worker_that_does_not_answer_is_not_waited_for() {
    let server = app(WARM, "").workers(1).start();
    let old = template(&server);
    let worker = Process(server.get("/").text().parse().expect("a pid"));
    worker.suspend();
    expect_refusal(&server, "did not answer within 5 s");
    worker.signal(Signal::CONT);
    assert_eq!(server.get("/").text(), worker.0.to_string());
    // What it was asked late it does not do.
    worker.signal(Signal::TERM);
    assert!(worker.wait_gone(test_support::TEST_TIMEOUT));
    assert_ne!(server.get("/").text(), worker.0.to_string());
    assert_eq!(template(&server), old);
    assert_eq!(server.family().members().len(), 3);
}

#[test]
fn nothing_is_left_behind_when_the_server_dies_after_a_refork() {
    let server = app(WARM, "").workers(2).listen(["unix:socket"]).start();
    let mut family = server.family();
    Client::connect_unix(&server.dir().join("socket"))
        .get("/")
        .expect(200);
    expect_refork(&server);
    family.join(server.family());
    server.process().signal(Signal::KILL);
    assert_eq!(family.wait_gone(test_support::TEST_TIMEOUT), []);
    until("the socket file is removed", || {
        !server.dir().join("socket").exists()
    });
    server.wait_end();
}

#[test]
fn it_is_refused_where_it_cannot_be() {
    let server = app(WARM, "").start();
    expect_refusal(&server, "no worker has finished a request");
    server.get("/").expect(200);
    let ran = server.command(&["refork", "--application", "shop"]);
    assert!(
        ran.stderr.contains("there is no application shop"),
        "{}",
        ran.output()
    );
    let development = app(WARM, "").environment(Some("development")).start();
    development.get("/").expect(200);
    expect_refusal(&development, "not in development");
    let grpc = "Gem.loaded_specs[\"grpc\"] = Gem::Specification.new(\"grpc\", \"1.60.0\")\n";
    let unsafe_gem = app(&format!("{grpc}{WARM}"), "").start();
    unsafe_gem.get("/").expect(200);
    let template = template(&unsafe_gem);
    expect_refusal(&unsafe_gem, "gem grpc 1.60.0 does not survive a fork");
    assert_eq!(self::template(&unsafe_gem), template);
}

#[test]
fn connections_of_active_record_are_not_shared() {
    let source = r##"require "active_record"
ActiveRecord::Base.establish_connection(adapter: "sqlite3", database: File.join(Dir.pwd, "books.sqlite3"))
run lambda { |_|
  connection = ActiveRecord::Base.connection
  raw = connection.raw_connection
  made = raw.instance_variable_get(:@made) || raw.instance_variable_set(:@made, Process.pid)
  connection.select_value("SELECT 1")
  ActiveRecord::Base.connection_handler.clear_active_connections!
  Test.text("#{made} #{Process.pid}")
}"##;
    let server = app(source, "").workers(2).start();
    server.get("/").expect(200);
    expect_refork(&server);
    for _ in 0..10 {
        let text = server.get("/").text();
        let (made, by) = text.split_once(' ').expect("two processes");
        assert_eq!(made, by);
    }
}

#[test]
fn threads_of_the_application_that_a_fork_loses_are_named() {
    let source = format!(
        "$thread = nil\n{}",
        WARM.replace("$warm ||=", "$thread ||= Thread.new { sleep }\n  $warm ||=")
    );
    let server = app(&source, "").start();
    server.get("/").expect(200);
    expect_refork(&server);
    server
        .log()
        .wait(|line| line.contains("does not exist in a template that is forked from a worker"));
}

/// Why the status says that re-forking by itself has stopped; null where it has not.
fn stopped(server: &Server) -> Value {
    server.status().0["generations"][0]["refork_stopped"].take()
}

/// Asks until re-forking has stopped by itself, and returns why.
#[track_caller]
fn until_stopped(server: &Server) -> String {
    until("re-forking has stopped", || {
        server.get("/").expect(200);
        stopped(server).is_string()
    });
    let reason = stopped(server);
    let reason = reason.as_str().expect("a reason").to_owned();
    let page = server.command(&["status"]).stdout;
    let line = format!("\n  re-forking   stopped: {reason}\n");
    assert!(page.contains(&line), "{page}");
    reason
}

#[test]
fn log_and_status_name_the_extension_that_stops_reforking() {
    let grpc = "Gem.loaded_specs[\"grpc\"] = Gem::Specification.new(\"grpc\", \"1.60.0\")\n";
    let server = app(&format!("{grpc}{WARM}"), "")
        .setting("refork", "1,2")
        .start();
    let before = template(&server);
    assert_eq!(stopped(&server), Value::Null);
    let reason = until_stopped(&server);
    let text = "gem grpc 1.60.0 does not survive a fork of a process that has served requests";
    assert_eq!(reason, text);
    let line =
        format!("re-forking failed: {text}; no other template is forked from a worker by itself");
    server.log().wait(|one| one.contains(&line));
    assert_eq!(template(&server), before);
}

#[test]
fn the_status_says_that_a_template_has_saved_too_little() {
    // Each process takes as much again in its first request.
    let grows = WARM.replace(
        "$warm ||=",
        "($own ||= {})[$$] ||= \"x\" * 40_000_000\n  $warm ||=",
    );
    let server = app(&grows, "").setting("refork", "1,1000000").start();
    let reason = until_stopped(&server);
    assert!(reason.contains("the last template changed"), "{reason}");
    assert!(reason.ends_with("and must save 5 %"), "{reason}");
    assert!(template_row(&server)["forked_from"].is_object());
}

#[test]
fn a_failure_stops_reforking_by_itself_until_a_command_succeeds() {
    let hook = format!(
        "before_fork {{ Process.kill(:KILL, $$) if {} }}\n",
        now_in("worker")
    );
    let server = app(WARM, &hook).setting("refork", "3,1000000").start();
    // What fails by command alone stops nothing.
    expect_refusal(&server, "no worker has finished a request");
    assert_eq!(stopped(&server), Value::Null);
    std::fs::write(server.dir().join("now"), "").expect("a file");
    let reason = until_stopped(&server);
    assert!(reason.contains("ended too early"), "{reason}");
    std::fs::remove_file(server.dir().join("now")).expect("the file");
    until("a later one succeeds", || {
        server.get("/").expect(200);
        refork(&server).status.success()
    });
    assert_eq!(stopped(&server), Value::Null);
}

#[test]
fn the_status_says_where_reforking_can_never_be() {
    let server = app(WARM, "")
        .environment(Some("development"))
        .setting("refork", "1")
        .start();
    assert_eq!(stopped(&server), "not in development, where code changes");
    // Where nobody asks for it, there is nothing to say.
    let server = app(WARM, "").environment(Some("development")).start();
    assert_eq!(stopped(&server), Value::Null);
}

#[test]
fn a_worker_killed_before_it_names_its_template_is_not_waited_for() {
    // The template is there by then, and nobody knows it.
    let hook = format!(
        "before_fork do\n  dies = -> (_) {{ Process.kill(:KILL, $$) }}\n  \
         Highball::Native.define_singleton_method(:pidfd, &dies) if {}\nend\n",
        now_in("worker")
    );
    let server = app(WARM, &hook).start();
    let old = template(&server);
    server.get("/").expect(200);
    std::fs::write(server.dir().join("now"), "").expect("a file");
    expect_refusal(&server, "ended too early");
    assert_eq!(template(&server), old);
    until("nobody has stayed", || server.family().members().len() == 3);
    server.get("/").expect(200);
}

#[test]
fn a_refork_that_a_change_of_the_workers_calls_off_is_tried_again() {
    let hook = "after_fork { |_| sleep 0.01 while File.exist?(\"hold\") }\n";
    let server = app(WARM, hook).setting("refork", "1").start();
    let old = template(&server);
    std::fs::write(server.dir().join("hold"), "").expect("a file");
    server.get("/").expect(200);
    server
        .log()
        .wait(|line| line.contains("requests it forks a new template and leaves"));
    let scale = Program::highball(["scale", "2"]).current_dir(server.dir());
    thread::scope(|scope| {
        let scaled = scope.spawn(|| scale.run());
        until("another number is wanted", || {
            server.status().number("/workers/wanted") == 2
        });
        std::fs::remove_file(server.dir().join("hold")).expect("the file");
        let ran = scaled.join().expect("a command does not panic");
        assert!(ran.status.success(), "{}", ran.output());
    });
    let proven = |line: &str| line.contains("all workers are forked from template");
    server.log().wait(proven);
    let new = template(&server);
    assert_ne!(new, old);
    assert_eq!(workers(&server).len(), 2);
    assert!(workers(&server).iter().all(|one| one.parent() == Some(new)));
    let lines = server.log().lines();
    assert!(
        !lines
            .iter()
            .any(|line| line.contains("a message of the server failed"))
    );
}

#[test]
fn an_upgrade_after_a_refork_leaves_no_process_of_the_old_server() {
    let mut server = app(WARM, "").workers(2).start();
    let (ended, served) = (AtomicBool::new(false), AtomicUsize::new(0));
    server.get("/").expect(200);
    expect_refork(&server);
    let old = server.family();
    let address = server.address();
    thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                Client::connect(address).get("/").expect(200);
                served.fetch_add(1, Ordering::Relaxed);
            }
        });
        let ran = server.command(&["upgrade"]);
        let left = old.wait_gone(test_support::TEST_TIMEOUT);
        let before = served.load(Ordering::Relaxed);
        until("the new server serves on", || {
            served.load(Ordering::Relaxed) > before + 10
        });
        ended.store(true, Ordering::Relaxed);
        assert!(ran.status.success(), "{}", ran.output());
        assert_eq!(left, []);
        server.replaced_by(ran.process());
    });
    assert!(template_row(&server)["forked_from"].is_null());
    assert_eq!(server.family().members().len(), 4);
    // And so does the next one, whose template a worker of the new server has forked.
    expect_refork(&server);
    server.get("/").expect(200);
    assert!(server.stop().status.success());
}
