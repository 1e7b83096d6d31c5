//! Row 39 of the list of faults, as far as it is about restarts: new code takes the place of the old one under load and
//! nobody notices; code that is not fit changes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use test_support::{
    Application, Client, Process, Program, Ran, Server, ServerBuilder, TEST_TIMEOUT, until,
};

/// Its code is what the file `version` says: `VERSION` and the path are the answer, and some versions are no good.
const VERSIONED: &str = r##"
VERSION = File.read("version").strip
raise "boot-error-text" if VERSION == "raises"
sleep if VERSION == "hangs"
Test.pass("load", "loads #{VERSION}") if VERSION.start_with?("gated")
run lambda { |env|
  case env["PATH_INFO"]
  when "/up"
    raise "check-error-text" if VERSION == "fails"
    next Test.text(VERSION, status: VERSION == "sick" ? 503 : env["rack.url_scheme"] == "https" ? 200 : 301)
  when "/long" then Test.pass("work", "call #{VERSION}")
  when "/stream"
    next [200, {}, Test::Body.new { |to| to.call("one "); Test.pass("work", "call #{VERSION}"); to.call(VERSION) }]
  when "/hijack"
    io = env["rack.hijack"].call
    Thread.new do
      io.write("HTTP/1.1 101 Switching Protocols\r\n\r\n")
      while (line = io.gets) do io.write("#{VERSION} #{line}") end
      io.close
    end
  else
    File.open("seen", "a") { |file| file.syswrite("#{env["REQUEST_METHOD"]} #{env["PATH_INFO"]}\n") }
  end
  Test.text("#{VERSION} #{env["PATH_INFO"]}")
}"##;

fn versioned() -> Application {
    let application = Application::without_lint(VERSIONED);
    application.dir().write("version", "1");
    application
}

fn start(settings: impl FnOnce(ServerBuilder) -> ServerBuilder) -> Server {
    settings(Server::application_of(versioned())).start()
}

/// Puts this version in the place of the application's code, and restarts.
#[track_caller]
fn restart(server: &Server, version: &str) -> Ran {
    server.application().dir().write("version", version);
    server.command(&["restart"])
}

#[track_caller]
fn expect_success(ran: &Ran, generation: usize) {
    assert_eq!(ran.status.code(), Some(0), "{}", ran.output());
    let expected = format!("generation {generation} serves");
    assert!(ran.stdout.starts_with(&expected), "{}", ran.output());
}

/// Asserts exit status 1, these parts of the reason, and that the first generation serves on.
#[track_caller]
fn expect_given_up(server: &Server, ran: &Ran, parts: &[&str]) {
    assert_eq!(ran.status.code(), Some(1), "{}", ran.output());
    for part in ["generation 1 keeps serving"].iter().chain(parts) {
        assert!(ran.stderr.contains(part), "{part:?}: {}", ran.output());
    }
    assert_eq!(server.get("/").text(), "1 /");
    until("the new generation is gone", || {
        generations(server) == [(1, "serving".to_owned())]
    });
}

fn generations(server: &Server) -> Vec<(u64, String)> {
    let status = server.status();
    let all = status.0["generations"].as_array().expect("generations");
    all.iter()
        .map(|one| {
            let state = one["state"].as_str().expect("a state");
            (one["number"].as_u64().expect("a number"), state.to_owned())
        })
        .collect()
}

fn processes(server: &Server) -> BTreeSet<Process> {
    let status = server.status();
    let roles = ["template", "worker"];
    roles
        .iter()
        .flat_map(|role| status.processes(role))
        .collect()
}

#[test]
fn row_39_restarts_under_load_lose_no_request_and_run_none_twice() {
    const RESTARTS: usize = 5;
    const CLIENTS: usize = 6;
    for rollout in ["all-at-once", "worker-by-worker"] {
        let server = start(|builder| {
            let builder = builder.workers(2).threads(2);
            builder.setting("rollout", rollout)
        });
        let address = server.address();
        let descriptors = server.process().descriptors();
        let (over, sent) = (AtomicBool::new(false), AtomicUsize::new(0));
        let versions: Mutex<BTreeMap<String, usize>> = Mutex::default();
        let mut old = BTreeSet::new();
        let failures: Vec<String> = std::thread::scope(|scope| {
            let load = |number: usize| {
                let (over, sent, versions) = (&over, &sent, &versions);
                move || {
                    let mut client = Client::connect(address);
                    for count in 0.. {
                        if over.load(Ordering::Relaxed) {
                            break;
                        }
                        let (method, path) =
                            (["GET", "POST"][count % 2], format!("/{number}/{count}"));
                        sent.fetch_add(1, Ordering::Relaxed);
                        client.ask(method, &path);
                        let response = match client.try_response(method) {
                            Ok(response) if response.status() == 200 => response,
                            Ok(response) => return Some(format!("{path}: {response:?}")),
                            Err(fault) => return Some(format!("{path}: {fault}")),
                        };
                        let text = response.text();
                        match text.split_once(' ') {
                            Some((version, echo)) if echo == path => {
                                let mut versions = versions.lock().expect("no load panics");
                                *versions.entry(version.to_owned()).or_default() += 1;
                            }
                            _ => return Some(format!("{path} got {text}")),
                        }
                    }
                    None
                }
            };
            let loads: Vec<_> = (0..CLIENTS)
                .map(|number| scope.spawn(load(number)))
                .collect();
            let seen = |version: usize| {
                let versions = versions.lock().expect("no load panics");
                versions.get(&version.to_string()).copied().unwrap_or(0) > 50
            };
            until("answers of the first code", || seen(1));
            for round in 2..RESTARTS + 2 {
                old.extend(processes(&server));
                expect_success(&restart(&server, &round.to_string()), round);
                until("answers of the new code", || {
                    seen(round) || loads.iter().any(|load| load.is_finished())
                });
            }
            over.store(true, Ordering::Relaxed);
            loads
                .into_iter()
                .filter_map(|load| load.join().expect("no load panics"))
                .collect()
        });
        assert_eq!(failures, [""; 0], "{rollout}");
        let seen = server.application().read("seen");
        let unique: BTreeSet<&str> = seen.lines().collect();
        assert_eq!(unique.len(), seen.lines().count(), "some ran twice");
        assert_eq!(unique.len(), sent.into_inner());
        // Nothing of the old code is left.
        until("the old processes are gone", || {
            old.iter().all(|process| !process.exists())
        });
        until("its files are closed", || {
            server.process().descriptors() <= descriptors
        });
        let last = RESTARTS + 1;
        assert_eq!(generations(&server), [(last as u64, "serving".to_owned())]);
        let stopped = server.stop();
        let logged = |line: &&String| line.contains("outcome=");
        let logged: Vec<_> = stopped.log.iter().filter(logged).collect();
        assert_eq!(logged.len(), unique.len(), "one line each");
        assert!(logged.iter().all(|line| line.ends_with("outcome=ok")));
        for generation in 1..=last {
            let named = format!(" generation={generation} ");
            assert!(logged.iter().any(|line| line.contains(&named)));
        }
    }
}

#[test]
fn row_39_code_that_does_not_boot_leaves_the_old_one_serving() {
    let server = start(|builder| builder.workers(2));
    let before = processes(&server);
    let ran = restart(&server, "raises");
    expect_given_up(
        &server,
        &ran,
        &["boot-error-text (RuntimeError)", "config.ru:4"],
    );
    server.log().wait(|line| {
        line.contains("the new generation failed") && line.contains("boot-error-text")
    });
    // So do hooks, which are read again as well.
    let dir = server.application().dir();
    dir.write("config/highball.rb", "raise \"hook-error-text\"");
    let ran = restart(&server, "1");
    expect_given_up(
        &server,
        &ran,
        &["hook-error-text (RuntimeError)", "config/highball.rb:1"],
    );
    dir.write(
        "config/highball.rb",
        "after_fork { exit!(7) if VERSION == \"dies\" }",
    );
    let ran = restart(&server, "dies");
    expect_given_up(
        &server,
        &ran,
        &["ended 5 times in a row when it was started"],
    );
    assert_eq!(processes(&server), before);
    expect_success(&restart(&server, "2"), 5);
    assert_eq!(server.get("/").text(), "2 /");
}

#[test]
fn code_whose_file_is_gone_is_given_up_in_the_words_of_a_start() {
    let server = start(|builder| builder);
    let (config_ru, moved) = (server.dir().join("config.ru"), server.dir().join("moved"));
    std::fs::rename(&config_ru, &moved).unwrap();
    let ran = server.command(&["restart"]);
    expect_given_up(
        &server,
        &ran,
        &["there is no config.ru in /", "(setting rackup)"],
    );
    assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.output());
    let log = server.log();
    log.wait(|line| {
        line.contains("the new generation failed") && line.contains("there is no config.ru in /")
    });
    std::fs::rename(&moved, &config_ru).unwrap();
    expect_success(&restart(&server, "2"), 3);
    assert_eq!(server.get("/").text(), "2 /");
}

/// Its answer: how nice the thread was that loaded it, and how nice is the one that runs the request.
const RANKED: &str = r##"
def nice = File.read("/proc/thread-self/stat")[/\) .*/].split[17]
NICE = nice
run ->(_) { Test.text("#{NICE} #{nice}") }
"##;

/// How nice the server is, which has that of this test, and how nice new code is beside what serves.
fn ranks() -> (i32, i32) {
    let own = rustix::process::getpriority_process(None).expect("a process has a niceness");
    // There is no step beyond the nineteenth.
    (own, (own + 10).min(19))
}

#[test]
fn new_code_is_loaded_behind_what_serves_and_its_workers_run_beside() {
    let builder = Server::application_of(Application::without_lint(RANKED));
    let server = builder.workers(2).start();
    let (own, behind) = ranks();
    // There is nobody yet whom it could hold up.
    assert_eq!(server.get("/").text(), format!("{own} {own}"));
    expect_success(&server.command(&["restart"]), 2);
    assert_eq!(server.get("/").text(), format!("{behind} {own}"));
}

#[test]
fn code_that_gets_no_time_at_low_priority_is_loaded_at_normal_priority() {
    // Behind what serves it comes to no end, as if there was no time for it.
    let (own, behind) = ranks();
    let code = format!("{RANKED}\nloop {{}} if NICE == \"{behind}\"");
    let begun = Instant::now();
    let server = Server::application_of(Application::without_lint(&code)).start();
    // The load beside what serves needs as long as this one did: more on a busy machine.
    let boot_timeout = (5 * begun.elapsed()).max(Duration::from_secs(3));
    let settings = format!("boot_timeout = \"{}ms\"\n", boot_timeout.as_millis());
    server.application().dir().write("highball.toml", settings);
    let reloaded = server.command(&["reload"]);
    assert!(reloaded.status.success(), "{}", reloaded.output());
    expect_success(&server.command(&["restart"]), 2);
    assert_eq!(server.get("/").text(), format!("{own} {own}"));
    server.log().wait(|line| {
        line.contains("loading at low priority timed out; retrying at normal priority")
            && line.contains("generation=2")
    });
}

/// The first code comes back from no fork where the file `forks_hang` is there, and tells it.
const HANGS_IN_FORKS: &str = r##"before_fork do
  if VERSION == "1" && File.exist?("forks_hang")
    Test.tell("hangs")
    sleep
  end
end"##;

fn versioned_with(hooks: &str) -> Application {
    let application = versioned();
    application.dir().write("config/highball.rb", hooks);
    application
}

#[test]
fn an_old_template_that_hangs_in_the_fork_of_a_successor_is_killed_and_the_restart_goes_on() {
    let application = versioned_with(HANGS_IN_FORKS);
    let mut events = application.events();
    let builder = Server::application_of(application).workers(2);
    let builder = builder.setting("worker_max_requests", "5");
    let server = builder.setting("boot_timeout", "4s").start();
    server.application().dir().write("forks_hang", "");
    for _ in 0..20 {
        server.get("/").expect(200);
    }
    assert_eq!(events.wait(), "hangs");
    expect_success(&restart(&server, "2"), 2);
    assert_eq!(server.get("/").text(), "2 /");
    expect_success(&restart(&server, "3"), 3);
}

#[test]
fn an_old_template_that_hangs_in_a_fork_when_it_is_to_leave_is_killed() {
    const TWO: &str = "workers = 2\nthreads = 1\n";
    let application = versioned_with(HANGS_IN_FORKS);
    let mut events = application.events();
    let builder = Server::application_of(application);
    let server = builder.settings_file(TWO).start();
    let dir = server.application().dir();
    dir.write("forks_hang", "");
    server.status().processes("worker")[0].kill();
    assert_eq!(events.wait(), "hangs");
    expect_success(&restart(&server, "2"), 2);
    // The time for a fork is that of the settings in force.
    dir.write("highball.toml", format!("{TWO}boot_timeout = \"500ms\"\n"));
    let reloaded = server.command(&["reload"]);
    assert!(reloaded.status.success(), "{}", reloaded.output());
    server
        .log()
        .wait(|line| line.contains("the generation has ended") && line.contains("generation=1"));
}

#[test]
fn a_boot_that_hangs_ends_at_boot_timeout() {
    let server = start(|builder| builder.setting("boot_timeout", "2s"));
    let before = server.family().members();
    let ran = restart(&server, "hangs");
    expect_given_up(&server, &ran, &["did not boot within 2s", "boot_timeout"]);
    until("its template is gone", || {
        server.family().members() == before
    });
}

#[test]
fn a_check_keeps_code_that_answers_but_is_not_well_from_taking_over() {
    for rollout in ["all-at-once", "worker-by-worker"] {
        let server = start(|builder| {
            let builder = builder.workers(2).setting("rollout", rollout);
            builder.setting("ready_check", "/up")
        });
        let ran = restart(&server, "sick");
        expect_given_up(
            &server,
            &ran,
            &["GET /up was answered with 503", "ready_check"],
        );
        let ran = restart(&server, "fails");
        let parts = [
            "GET /up was not answered: the application failed: RuntimeError: check-error-text",
            "config.ru:10:in",
        ];
        expect_given_up(&server, &ran, &parts);
        expect_success(&restart(&server, "2"), 4);
        assert_eq!(server.get("/").text(), "2 /");
        let log = server.stop().log;
        let is_request = |line: &str| line.contains("path=\"/up\"") && line.contains("outcome=");
        let checks = log.iter().filter(|line| is_request(line));
        assert_eq!(checks.count(), 0, "a check is no request of a client");
    }
}

#[test]
fn usr1_and_a_touched_file_restart_as_well() {
    let server = start(|builder| builder);
    let serves = |generation: u32| {
        let wanted = format!("generation={generation}");
        server
            .log()
            .wait(|line| line.contains("new generation serves") && line.contains(&wanted));
    };
    let dir = server.application().dir();
    dir.write("version", "2");
    server.process().signal(Signal::USR1);
    serves(2);
    assert_eq!(server.get("/").text(), "2 /");
    dir.write("version", "3");
    dir.write("tmp/restart.txt", "");
    serves(3);
    assert_eq!(server.get("/").text(), "3 /");
    // Touched again. A second later, for file systems that count in seconds.
    dir.write("version", "4");
    let path = dir.join("tmp/restart.txt");
    let later = std::time::SystemTime::now() + std::time::Duration::from_secs(2);
    let file = std::fs::File::options().write(true).open(path).unwrap();
    file.set_modified(later).unwrap();
    serves(4);
    assert_eq!(server.get("/").text(), "4 /");
    // Code that is no good is in the log.
    dir.write("version", "raises");
    server.process().signal(Signal::USR1);
    server.log().wait(|line| line.contains("boot-error-text"));
    assert_eq!(server.get("/").text(), "4 /");
}

#[test]
fn worker_by_worker_one_comes_and_one_goes() {
    let application = versioned();
    application.dir().write(
        "config/highball.rb",
        r##"after_fork { Test.tell("comes #{VERSION}") }
        before_worker_exit { Test.tell("goes #{VERSION}") }
        "##,
    );
    let mut events = application.events();
    let server = Server::application_of(application)
        .workers(3)
        .setting("rollout", "worker-by-worker")
        .start();
    assert_eq!(events.take(3), ["comes 1"; 3]);
    expect_success(&restart(&server, "2"), 2);
    // The next one comes when the last one is gone.
    assert_eq!(events.take(6), ["comes 2", "goes 1"].repeat(3));
    until("the old generation is gone", || {
        generations(&server).len() == 1
    });
    assert_eq!(server.status().processes("worker").len(), 3);
    assert!(server.stop().status.success());
    assert_eq!(events.rest(), ["goes 2"; 3]);
}

#[test]
fn what_runs_in_the_old_code_ends_there_while_the_new_one_serves() {
    let application = versioned();
    let (mut events, gate) = (application.events(), application.gate("work"));
    let server = Server::application_of(application).threads(3).start();
    let mut long = server.ask("POST", "/long");
    let mut stream = server.ask("GET", "/stream");
    let mut hijack = server.ask("GET", "/hijack");
    assert_eq!(events.take(2), ["call 1"; 2]);
    assert_eq!(stream.head().status, 200);
    assert_eq!(stream.chunk().as_deref(), Some(&b"one "[..]));
    assert_eq!(hijack.head().status, 101);
    expect_success(&restart(&server, "2"), 2);
    let both = [(1, "draining".to_owned()), (2, "serving".to_owned())];
    assert_eq!(generations(&server), both);
    let page = server.command(&["status"]).stdout;
    assert!(page.contains("generation 1, draining") && page.contains("generation 2, serving"));
    assert!(page.contains("/long"), "{page}");
    assert_eq!(server.get("/").text(), "2 /");
    gate.admit(2);
    assert_eq!(long.response().expect(200).text(), "1 /long");
    assert_eq!(stream.chunk().as_deref(), Some(&b"1"[..]));
    assert_eq!(stream.chunk(), None);
    // No request runs in it any more, and a connection that the application took over still goes on.
    until("no old thread runs anything", || {
        server.status().0["threads"]
            .as_array()
            .is_some_and(|all| all.iter().all(|thread| thread["state"] == "idle"))
    });
    for line in ["a", "b"] {
        hijack.send(format!("{line}\n"));
        assert_eq!(hijack.bytes(4), format!("1 {line}\n").as_bytes());
    }
    assert_eq!(generations(&server), both);
    hijack.half_close();
    hijack.expect_end();
    until("the old generation is gone", || {
        generations(&server) == both[1..]
    });
    let log = server.stop().log;
    for (path, generation) in [("/long", 1), ("/stream", 1), ("/hijack", 1), ("/", 2)] {
        let path = format!("path=\"{path}\"");
        let line = log.iter().find(|line| line.contains(&path)).unwrap();
        let named = format!(" generation={generation} ");
        assert!(line.contains(&named), "{line}");
    }
}

#[test]
fn what_outlasts_the_drain_of_the_old_code_is_cut() {
    let application = versioned();
    let (mut events, _gate) = (application.events(), application.gate("work"));
    let server = Server::application_of(application)
        .threads(3)
        .setting("drain_timeout", "1s")
        .setting("request_timeouts", "/long=500ms,/stream=500ms")
        .start();
    let mut long = server.ask("POST", "/long");
    let mut stream = server.ask("GET", "/stream");
    let mut hijack = server.ask("GET", "/hijack");
    assert_eq!(events.take(2), ["call 1"; 2]);
    assert_eq!(stream.head().status, 200);
    assert_eq!(hijack.head().status, 101);
    // What is in time would be waited for.
    long.response().expect(504);
    let old = processes(&server);
    expect_success(&restart(&server, "2"), 2);
    let (rest, _) = stream.rest();
    assert!(!rest.ends_with(b"0\r\n\r\n"), "the body looks whole");
    hijack.expect_end();
    until("the old processes are gone", || {
        old.iter().all(|process| !process.exists())
    });
    assert_eq!(server.get("/").text(), "2 /");
}

/// `highball restart` in a thread of its own.
fn restart_beside<'scope>(
    scope: &'scope std::thread::Scope<'scope, '_>,
    server: &Server,
) -> std::thread::ScopedJoinHandle<'scope, Ran> {
    let dir = server.dir().to_owned();
    scope.spawn(move || Program::highball(["restart"]).current_dir(dir).run())
}

#[test]
fn a_restart_within_a_restart_comes_after_it_with_the_code_as_it_is_then() {
    let application = versioned();
    let (mut events, gate) = (application.events(), application.gate("load"));
    let server = Server::application_of(application).start();
    let dir = server.application().dir();
    dir.write("version", "gated-2");
    std::thread::scope(|scope| {
        let first = restart_beside(scope, &server);
        assert_eq!(events.wait(), "loads gated-2");
        dir.write("version", "gated-3");
        // However many ask meanwhile, one more restart serves them all.
        let others = [(); 3].map(|()| restart_beside(scope, &server));
        server.process().signal(Signal::USR1);
        let waits = "; waiting: restart in progress";
        until("the log says that they wait", || {
            let lines = server.log().lines();
            lines.iter().filter(|line| line.contains(waits)).count() == 4
        });
        gate.admit(1);
        expect_success(&first.join().expect("it ran"), 2);
        assert_eq!(events.wait(), "loads gated-3");
        gate.open();
        for other in others {
            let ran = other.join().expect("it ran");
            assert!(ran.status.success(), "{}", ran.output());
            let expected = "waiting: restart in progress, at most";
            assert!(ran.stderr.contains(expected), "{}", ran.output());
        }
    });
    assert_eq!(server.get("/").text(), "gated-3 /");
}

#[test]
fn any_number_of_signals_within_a_restart_is_one_more_restart() {
    let application = versioned();
    let (mut events, gate) = (application.events(), application.gate("load"));
    let server = Server::application_of(application).start();
    server.application().dir().write("version", "gated");
    server.process().signal(Signal::USR1);
    assert_eq!(events.wait(), "loads gated");
    for _ in 0..30 {
        server.process().signal(Signal::USR1);
        // It has been heard when the next question is answered.
        server.status();
    }
    gate.admit(1);
    assert_eq!(events.wait(), "loads gated");
    gate.admit(1);
    // What is asked for last comes last.
    assert!(server.command(&["reload"]).status.success());
    assert_eq!(events.rest(), [""; 0]);
    until("nothing else is there", || {
        generations(&server) == [(3, "serving".to_owned())]
    });
}

#[test]
fn a_stop_within_a_restart_leaves_nothing_behind() {
    for (version, rollout) in [("hangs", "all-at-once"), ("gated", "worker-by-worker")] {
        let application = versioned();
        let (mut events, gate) = (application.events(), application.gate("load"));
        let server = Server::application_of(application)
            .workers(2)
            .setting("rollout", rollout)
            .start();
        server.application().dir().write("version", version);
        let ran = std::thread::scope(|scope| {
            let restart = restart_beside(scope, &server);
            if version == "gated" {
                assert_eq!(events.wait(), "loads gated");
                // It may get as far as it can.
                gate.open();
            } else {
                until("the new generation boots", || {
                    generations(&server).len() == 2
                });
            }
            assert!(server.stop().status.success());
            restart.join().expect("it ran")
        });
        if version == "hangs" {
            assert_eq!(ran.status.code(), Some(1), "{}", ran.output());
            assert!(
                ran.stderr.contains("the server is stopping"),
                "{}",
                ran.output()
            );
        }
    }
}

#[test]
fn a_template_that_dies_is_started_again_for_the_same_generation() {
    let server = start(|builder| builder.workers(2));
    let template = server.status().processes("template")[0];
    server.application().dir().write("version", "2");
    template.kill();
    let line = server.log().wait(|line| line.contains("signal 9 (KILL)"));
    let text =
        "starting another template of the same generation, which loads the code as it is now";
    assert!(
        line.contains(text) && line.contains("generation=1"),
        "{line}"
    );
    server
        .log()
        .wait_after(1, |line| line.contains("application loaded"));
    assert_eq!(generations(&server), [(1, "serving".to_owned())]);
    expect_success(&restart(&server, "3"), 2);
    assert_eq!(server.get("/").text(), "3 /");
}

/// Has a link lead to a folder beside it.
fn lead_to(link: &Path, release: &str) {
    let (beside, new) = (link.with_file_name(release), link.with_file_name("new"));
    std::os::unix::fs::symlink(beside, &new).expect("a link can be made");
    // As a deploy does it: there is always one.
    std::fs::rename(new, link).expect("it can take the other one's place");
}

#[test]
fn a_folder_that_is_a_link_is_followed_anew_by_each_restart() {
    let application = Application::new("");
    let link = application.path().join("current");
    for release in ["first", "second"] {
        let source =
            "run ->(env) { [200, {}, [\"#{File.basename(__dir__)} #{File.basename(Dir.pwd)}\"]] }";
        let name = format!("{release}/config.ru");
        application.dir().write(&name, source);
    }
    lead_to(&link, "first");
    let server = Server::application_of(application)
        .folder(link.clone())
        .start();
    assert_eq!(server.get("/").text(), "first first");
    lead_to(&link, "second");
    assert_eq!(server.get("/").text(), "first first");
    let current = link.display().to_string();
    for generation in [2, 3] {
        expect_success(&server.command(&["restart", &current]), generation);
        assert_eq!(server.get("/").text(), "second second");
    }
    // The server of a folder is also found by where the link led at its start.
    let first = server.dir().join("first").display().to_string();
    for name in [&first, &current, &format!("{current}/")] {
        let ran = server.command(&["status", name]);
        assert!(ran.status.success(), "{}", ran.output());
    }
}

#[test]
fn a_link_by_which_the_working_folder_was_entered_is_followed_anew_as_well() {
    let application = Application::new("");
    let link = application.path().join("current");
    for release in ["1", "2", "3"] {
        let source = "run ->(env) { [200, {}, [File.basename(__dir__)]] }";
        let dir = application.dir();
        dir.write(&format!("{release}/config.ru"), source);
        dir.write(
            &format!("{release}/highball.toml"),
            format!("queue_limit = {release}\n"),
        );
    }
    lead_to(&link, "1");
    // As after `cd current`.
    let link_text = link.display().to_string();
    let enter = [
        "sh",
        "-c",
        "cd \"$0\" && export PWD && exec \"$@\"",
        &link_text,
    ];
    let mut server = Server::application_of(application)
        .under(&enter)
        .folder(".".into())
        .start();
    let command = |name: &str| {
        let program = Program::highball([name]).current_dir(&link);
        let ran = program.env("PWD", &link).run();
        assert!(ran.status.success(), "{}", ran.output());
        ran
    };
    assert_eq!(server.get("/").text(), "1");
    lead_to(&link, "2");
    expect_success(&command("restart"), 2);
    assert_eq!(server.get("/").text(), "2");
    let ran = command("reload");
    assert!(
        ran.stdout.contains("queue_limit: 1 -> 2"),
        "{}",
        ran.output()
    );
    lead_to(&link, "3");
    let ran = command("upgrade");
    let old = server.replaced_by(ran.process());
    assert_eq!(server.get("/").text(), "3");
    assert!(old.wait_gone(TEST_TIMEOUT));
    lead_to(&link, "1");
    command("restart");
    assert_eq!(server.get("/").text(), "1");
}

#[test]
fn a_worker_that_ends_at_once_and_by_itself_is_not_forked_in_a_loop() {
    let application = Application::new(r##"run ->(env) { Test.text("hello") }"##);
    application.dir().write(
        "config/highball.rb",
        r##"after_fork { |worker| Thread.new { sleep 0.01; exit!(7) } if worker == 1 }"##,
    );
    let server = Server::application_of(application).workers(2).start();
    let line = server.log().wait(|line| line.contains("next start in 1 s"));
    assert!(line.contains("worker 1 ended 6 times"), "{line}");
    server.get("/").expect(200);
}
