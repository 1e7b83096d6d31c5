//! Row 39 of the list of faults, as far as it is about the server's own program: a new server takes the place of the old
//! one under load and nobody notices; one that does not come up changes nothing.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use highball_tests::operators::get;
use rustix::process::Signal;
use test_support::{
    Application, Client, Log, Process, Program, Ran, Server, ServerBuilder, TEST_TIMEOUT, binary,
    ruby_library, until,
};

/// Answers with the path, writes down each request, and waits at `/long`. What the file `version` says may be no good.
const SOURCE: &str = r##"
version = File.read("version").strip
raise "boot-error-text" if version == "raises"
sleep if version == "hangs"
Test.pass("load", "loads") if version == "gated"
run lambda { |env|
  path = env["PATH_INFO"]
  Test.pass("work", "calls") if path == "/long"
  File.open("seen", "a") { |file| file.syswrite("#{env["REQUEST_METHOD"]} #{path}\n") } unless path == "/"
  Test.text(path, status: version == "sick" && path == "/up" ? 503 : 200)
}"##;

fn application() -> Application {
    let application = Application::new(SOURCE);
    application.dir().write("version", "good");
    application
}

fn start(settings: impl FnOnce(ServerBuilder) -> ServerBuilder) -> Server {
    settings(Server::application_of(application())).start()
}

/// Has another server take over, and goes on with that one. The one before comes back.
#[track_caller]
fn upgrade(server: &mut Server) -> Process {
    let ran = server.command(&["upgrade"]);
    follow(server, &ran)
}

#[track_caller]
fn follow(server: &mut Server, ran: &Ran) -> Process {
    assert_eq!(ran.status.code(), Some(0), "{}", ran.output());
    let new = ran.process();
    let before = format!("(pid {}) finishes", server.process().0);
    assert!(ran.stdout.contains(&before), "{}", ran.output());
    assert_eq!(server.status().processes("front"), [new]);
    server.replaced_by(new)
}

/// Asserts exit status 1, these parts of the reason, and that the server serves on with the processes that it had.
#[track_caller]
fn expect_given_up(server: &Server, ran: &Ran, parts: &[&str], before: &[Process]) {
    assert_eq!(ran.status.code(), Some(1), "{}", ran.output());
    let serves = format!("(pid {}) keeps serving", server.process().0);
    for part in [&*serves].iter().chain(parts) {
        assert!(ran.stderr.contains(part), "{part:?}: {}", ran.output());
    }
    server.get("/").expect(200);
    until("the new server is gone", || {
        server.family().members() == before
    });
}

/// Gives what comes up from now on so many seconds to load.
#[track_caller]
fn boot_within(server: &Server, seconds: u32) {
    let text = format!("boot_timeout = {seconds}\n");
    server.application().dir().write("highball.toml", text);
    let ran = server.command(&["reload"]);
    assert!(ran.status.success(), "{}", ran.output());
}

fn executable(path: &Path) {
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).expect("it is ours");
}

#[test]
fn row_39_upgrades_under_load_lose_no_request_on_new_and_on_kept_connections() {
    const UPGRADES: usize = 4;
    const CLIENTS: usize = 6;
    let mut server = start(|builder| builder.workers(2).threads(2));
    let address = server.address();
    let descriptors = server.process().descriptors();
    let (over, sent, asked) = (
        AtomicBool::new(false),
        AtomicUsize::new(0),
        AtomicUsize::new(0),
    );
    let mut old = Vec::new();
    let dir = server.dir().to_owned();
    let failures: Vec<String> = std::thread::scope(|scope| {
        let load = |number: usize| {
            let (over, sent) = (&over, &sent);
            move || {
                let mut kept: Option<Client> = None;
                for count in 0.. {
                    if over.load(Ordering::Relaxed) {
                        break;
                    }
                    let path = format!("/{number}/{count}");
                    let mut client =
                        match kept.take().map_or_else(|| Client::try_connect(address), Ok) {
                            Ok(client) => client,
                            Err(error) => return Some(format!("{path}: no connection: {error}")),
                        };
                    let method = ["GET", "POST"][count % 2];
                    sent.fetch_add(1, Ordering::Relaxed);
                    let request = format!(
                        "{method} {path} HTTP/1.1\r\nHost: test\r\nContent-Length: 0\r\n\r\n"
                    );
                    if let Err(error) = client.try_send(request) {
                        return Some(format!("{path} was not taken: {error}"));
                    }
                    match client.try_response(method) {
                        Ok(response) if response.status() == 200 && response.text() == path => {
                            // Every other client keeps its connection for good.
                            kept = number.is_multiple_of(2).then_some(client);
                        }
                        Ok(response) => return Some(format!("{path}: {response:?}")),
                        Err(fault) => return Some(format!("{path}: {fault}")),
                    }
                }
                None
            }
        };
        let loads: Vec<_> = (0..CLIENTS)
            .map(|number| scope.spawn(load(number)))
            .collect();
        // At every moment there is a server that answers for the folder.
        let asks = scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let ran = Program::highball(["status"]).current_dir(&dir).run();
                if !ran.status.success() {
                    return Some(ran.output());
                }
                asked.fetch_add(1, Ordering::Relaxed);
            }
            None
        });
        let progress = || {
            let more = sent.load(Ordering::Relaxed) + 200;
            until("more answers", || {
                sent.load(Ordering::Relaxed) > more || loads.iter().any(|load| load.is_finished())
            });
        };
        progress();
        for _ in 0..UPGRADES {
            old.push(upgrade(&mut server));
            progress();
        }
        over.store(true, Ordering::Relaxed);
        let loads = loads.into_iter().map(|load| load.join());
        let asks = std::iter::once(asks.join());
        let all = loads.chain(asks);
        all.filter_map(|one| one.expect("no load panics")).collect()
    });
    assert_eq!(failures, [""; 0]);
    assert!(asked.into_inner() > UPGRADES);
    let seen = server.application().read("seen");
    let unique: BTreeSet<&str> = seen.lines().collect();
    assert_eq!(unique.len(), seen.lines().count(), "some ran twice");
    assert_eq!(unique.len(), sent.into_inner());
    // Nothing of the old ones is left.
    for process in old {
        assert!(process.wait_gone(TEST_TIMEOUT), "{process:?}");
    }
    let own = |server: &Server| {
        let status = server.status();
        let roles = ["front", "template", "worker"].into_iter();
        let mut own: Vec<Process> = roles.flat_map(|role| status.processes(role)).collect();
        own.sort();
        own
    };
    until("the old processes are gone", || {
        server.family().members() == own(&server)
    });
    until("their files are closed", || {
        server.process().descriptors() <= descriptors
    });
    let stopped = server.stop();
    let logged = stopped.log.iter().filter(|line| line.contains("outcome="));
    let logged: Vec<_> = logged.collect();
    assert_eq!(logged.len(), unique.len(), "one line each");
    assert!(logged.iter().all(|line| line.ends_with("outcome=ok")));
    for generation in 1..=UPGRADES + 1 {
        let named = format!(" generation={generation} ");
        assert!(logged.iter().any(|line| line.contains(&named)));
    }
}

#[test]
fn a_request_that_runs_ends_in_the_old_server_while_the_new_one_serves() {
    let application = application();
    let (mut events, gate) = (application.events(), application.gate("work"));
    let mut server = Server::application_of(application).threads(2).start();
    let mut long = server.ask("POST", "/long");
    assert_eq!(events.wait(), "calls");
    let mut idle = server.connect();
    let old = upgrade(&mut server);
    server.get("/new").expect(200);
    let pid = old.0.to_string();
    let page = server.command(&["status", "--pid", &pid]).stdout;
    assert!(
        page.contains("is replaced") && page.contains("/long"),
        "{page}"
    );
    // A connection that was not used yet is the new server's.
    assert_eq!(idle.get("/idle").expect(200).field("connection"), None);
    gate.admit(1);
    long.response().expect(200);
    assert!(old.wait_gone(TEST_TIMEOUT));
    // And so is the one of the request that the old server has answered.
    long.get("/follows").expect(200);
    let stopped = server.stop();
    let line = |part: &str| stopped.log.iter().any(|line| line.contains(part));
    assert!(line("upgrade requested (highball upgrade)"));
    assert!(line(&format!(
        "took over from highball {} (pid {pid})",
        env!("CARGO_PKG_VERSION")
    )));
    let path = |path: &str, generation: u32| {
        let (path, generation) = (
            format!("path=\"{path}\""),
            format!(" generation={generation} "),
        );
        let mut lines = stopped.log.iter();
        lines.any(|line| line.contains(&path) && line.contains(&generation))
    };
    assert!(path("/long", 1) && path("/idle", 2) && path("/new", 2) && path("/follows", 2));
}

#[test]
fn counters_of_the_status_go_on_in_the_new_server() {
    let application = application();
    let (mut events, gate) = (application.events(), application.gate("work"));
    let mut server = Server::application_of(application).start();
    for _ in 0..3 {
        server.get("/a").expect(200);
    }
    let counted = |server: &Server, count: u64| {
        let status = server.status();
        let figures = ["/counters/ok", "/responses/2xx"].map(|figure| status.number(figure));
        figures == [count; 2]
    };
    until("three are counted", || counted(&server, 3));
    let mut long = server.ask("GET", "/long");
    assert_eq!(events.wait(), "calls");
    upgrade(&mut server);
    assert!(counted(&server, 3), "{:#}", server.status().0);
    server.get("/b").expect(200);
    until("a request of the new server is counted", || {
        counted(&server, 4)
    });
    gate.open();
    long.response().expect(200);
    until("a request that ends in the old server is counted", || {
        counted(&server, 5)
    });
}

#[test]
fn connections_that_clients_keep_outlive_every_server_that_they_began_with() {
    let mut server = Server::application_of(application())
        .listen(["127.0.0.1:0", "unix:a.sock"])
        .start();
    let mut kept = server.connect();
    kept.get("/first").expect(200);
    let mut clients = [
        kept,
        server.connect(),
        Client::connect_unix(&server.dir().join("a.sock")),
    ];
    for round in 1..=3 {
        let old = upgrade(&mut server);
        // It has given away what it held: nothing keeps it.
        assert!(old.wait_gone(TEST_TIMEOUT));
        for (number, client) in clients.iter_mut().enumerate() {
            let path = format!("/{number}/{round}");
            assert_eq!(client.post(&path, "").expect(200).text(), path);
        }
    }
}

#[test]
fn a_stop_waits_for_the_server_that_was_replaced() {
    let application = application();
    let (mut events, gate) = (application.events(), application.gate("work"));
    let mut server = Server::application_of(application).start();
    let mut long = server.ask("POST", "/long");
    assert_eq!(events.wait(), "calls");
    let old = upgrade(&mut server);
    let new = server.process();
    let status = server.status();
    let own: Vec<Process> = ["template", "worker"]
        .into_iter()
        .flat_map(|role| status.processes(role))
        .collect();
    new.signal(Signal::TERM);
    for process in own {
        assert!(process.wait_gone(TEST_TIMEOUT), "{process:?}");
    }
    // Everything of its own has ended, and it is there: what a service manager would kill with its end is not done yet.
    let ran = server.command(&["status", "--pid", &new.0.to_string()]);
    assert!(ran.stdout.contains("is stopping"), "{}", ran.output());
    assert!(old.is_alive());
    gate.admit(1);
    long.response().expect(200);
    assert!(old.wait_gone(TEST_TIMEOUT));
    server.wait_end();
}

#[test]
fn a_replaced_server_that_stands_still_is_waited_for_no_longer_than_for_requests() {
    let application = application();
    let (mut events, _gate) = (application.events(), application.gate("work"));
    let mut server = Server::application_of(application).start();
    let _long = server.ask("POST", "/long");
    assert_eq!(events.wait(), "calls");
    // For the new one alone.
    let dir = server.application().dir();
    dir.write("highball.toml", "drain_timeout = \"1s\"\n");
    let old = upgrade(&mut server);
    old.suspend();
    let ran = server.command(&["restart"]);
    assert!(ran.status.success(), "{}", ran.output());
    server.process().signal(Signal::TERM);
    assert!(server.process().wait_gone(TEST_TIMEOUT));
    assert!(old.is_alive());
    old.kill();
    server.wait_end();
}

#[test]
fn a_program_that_is_no_server_is_backed_out_of() {
    let server = start(|builder| builder.workers(2));
    boot_within(&server, 2);
    let before = server.family().members();
    let dir = server.application().dir();
    let script = |text: &str| {
        let path = dir.write("other", format!("#!/bin/sh\n{text}\n"));
        executable(&path);
        server.command(&["upgrade", "--binary", "other"])
    };
    let check = |ran: &Ran, parts: &[&str]| expect_given_up(&server, ran, parts, &before);
    let ran = script("echo no such word >&2; exit 3");
    check(&ran, &["exited before it was ready (exit status: 3)"]);
    server.log().wait(|line| line == "no such word");
    server
        .log()
        .wait(|line| line.contains("the upgrade failed") && line.contains("exit status: 3"));
    check(
        &script("exec sleep 1000"),
        &["not ready within 6s", "boot_timeout"],
    );
    check(
        &script("exec sleep 1000 < /dev/null"),
        &["has closed its stdin"],
    );
    let ran = server.command(&["upgrade", "--binary", "nowhere"]);
    check(&ran, &["cannot run /", "/nowhere", "No such file"]);
}

/// A server of another version that is replaced: it hands over what the new one may not understand, does not say when it has
/// left its operators, and ends with its stdin.
const OTHER_VERSION: &str = r##"
import json, os, socket, subprocess, sys
here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
new = subprocess.Popen(sys.argv[1:], stdin=there, env=dict(os.environ, HIGHBALL_HANDOVER="stdin"))
there.close()
def send(message): here.send(json.dumps(message).encode())
def state(part, text):
    file = os.memfd_create("state")
    os.write(file, text.encode())
    os.lseek(file, 0, os.SEEK_SET)
    socket.send_fds(here, [json.dumps({"State": part}).encode()], [file])
    os.close(file)
send({"version": 1, "highball": "9.9.9", "pid": os.getpid(), "generation": 3, "sockets": 0})
assert b"Ready" in here.recv(4096)
state("Totals", '{"format": 99, "applications": {"": {"outcomes": {"ok": 7}}}}')
state("Exceptions", "no JSON")
state("Colours", "{}")
state("SlowRequests", '{"": [{"method": 5}]}')
state("Totals", '{"format": 1, "applications": {"": {"outcomes": {"ok": 41, "invented": 5}}, "other": {}}}')
send("Serve")
assert b"Serving" in here.recv(4096)
sys.stdin.read()
new.terminate()
new.wait()
"##;

#[test]
fn what_another_version_has_gathered_begins_empty_and_is_logged() {
    let application = application();
    let mut old = Command::new("python3")
        .args(["-c", OTHER_VERSION])
        .arg(binary())
        .args(["serve", "--listen", "127.0.0.1:0"])
        .args(["--metrics-listen", "127.0.0.1:0"])
        .env_remove("HIGHBALL_BIN")
        .env("HIGHBALL_RUBY_LIB", ruby_library())
        .current_dir(application.path())
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3: scripts/install test");
    let log = Log::default();
    log.follow(old.stdout.take().expect("a pipe"));
    log.follow(old.stderr.take().expect("a pipe"));
    for (part, reason) in [
        ("Totals", "format 99"),
        ("Exceptions", "no JSON of the kind"),
        ("SlowRequests", "no JSON of the kind"),
    ] {
        log.wait(|line| {
            let all = ["it begins empty in this server", part, reason];
            all.iter().all(|text| line.contains(text))
        });
    }
    let line = log.wait(|line| line.contains("(metrics_listen)"));
    let (_, address) = line.split_once("http://").expect("an address");
    let address = address.split(' ').next().expect("a word");
    let text = get(address, "/metrics").expect(200).text();
    assert!(text.contains("outcome=\"ok\"} 41\n"), "{text}");
    assert!(!text.contains("invented"), "{text}");
    drop(old.stdin.take());
    assert!(old.wait().expect("it ends").success(), "{}", log.text());
}

#[test]
fn a_program_that_promises_and_does_not_serve_is_backed_out_of() {
    let server = start(|builder| builder);
    let before = server.family().members();
    let text = "#!/usr/bin/env python3\nimport socket, time\n\
        end = socket.socket(fileno=0)\nend.send(b'{\"Ready\":{\"highball\":\"9.9.9\"}}')\ntime.sleep(1000)\n";
    let path = server.application().dir().write("other", text);
    executable(&path);
    let ran = server.command(&["upgrade", "--binary", "other"]);
    expect_given_up(
        &server,
        &ran,
        &["ready but did not begin to serve"],
        &before,
    );
}

#[test]
fn a_server_that_does_not_come_up_is_backed_out_of() {
    let server = start(|builder| builder.workers(2).setting("ready_check", "/up"));
    let before = server.family().members();
    let dir = server.application().dir();
    let check = |version: &str, parts: &[&str]| {
        dir.write("version", version);
        let ran = server.command(&["upgrade"]);
        expect_given_up(&server, &ran, parts, &before);
    };
    check("raises", &["boot-error-text (RuntimeError)", "config.ru:5"]);
    check("sick", &["GET /up was answered with 503", "ready_check"]);
    dir.write("highball.toml", "treads = 5\n");
    check(
        "good",
        &["highball.toml:1: unknown setting treads; the nearest known one is threads"],
    );
    boot_within(&server, 3);
    check("hangs", &["did not boot within 3s", "boot_timeout"]);
    boot_within(&server, 60);
    // And a good one is taken all the same.
    dir.write("version", "good");
    let mut server = server;
    upgrade(&mut server);
    server.get("/").expect(200);
}

#[test]
fn the_file_that_the_server_was_started_from_is_taken_as_it_is_now() {
    let application = application();
    let path = application.path().join("highball");
    std::os::unix::fs::symlink(binary(), &path).unwrap();
    let mut server = Server::application_of(application)
        .program(path.clone())
        .start();
    let before = server.family().members();
    let put = |text: &str| {
        let new = server.application().dir().write("highball.new", text);
        executable(&new);
        std::fs::rename(new, &path).unwrap();
    };
    put("#!/bin/sh\nexit 7\n");
    let ran = server.command(&["upgrade"]);
    expect_given_up(&server, &ran, &["exit status: 7"], &before);
    let dir = server.dir().display().to_string();
    put(&format!(
        "#!/bin/sh\necho new-program >> {dir}/started\nexec {} \"$@\"\n",
        binary().display()
    ));
    upgrade(&mut server);
    assert_eq!(server.application().read("started"), "new-program\n");
}

#[test]
fn usr2_asks_for_an_upgrade_and_one_comes_after_the_other() {
    let mut server = start(|builder| builder);
    server.process().signal(Signal::USR2);
    let line = server.log().wait(|line| line.contains("has taken over"));
    let number = line
        .split_once("(pid ")
        .unwrap()
        .1
        .split(')')
        .next()
        .unwrap();
    let old = server.replaced_by(Process(number.parse().unwrap()));
    assert!(old.wait_gone(TEST_TIMEOUT));
    server.get("/").expect(200);
    // What waits while a server is replaced is done by the next one.
    let dir = server.dir().to_owned();
    let ran: Vec<Ran> = std::thread::scope(|scope| {
        let command = |name: &'static str| {
            let dir = dir.clone();
            scope.spawn(move || Program::highball([name]).current_dir(dir).run())
        };
        let all = [command("upgrade"), command("restart"), command("upgrade")];
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    for ran in &ran {
        assert!(ran.status.success(), "{}", ran.output());
    }
    let front = server.status().processes("front")[0];
    server.replaced_by(front);
    server.get("/").expect(200);
}

#[test]
fn whatever_is_asked_for_within_an_upgrade_is_done_by_the_new_server() {
    let application = application();
    let (mut events, gate) = (application.events(), application.gate("load"));
    let mut server = Server::application_of(application).start();
    let (dir, old) = (server.dir().to_owned(), server.process());
    server.application().dir().write("version", "gated");
    std::thread::scope(|scope| {
        let command = |arguments: &[&str]| {
            let program = Program::highball(arguments).current_dir(&dir);
            scope.spawn(move || program.run())
        };
        let upgrade = command(&["upgrade"]);
        assert_eq!(events.wait(), "loads");
        // The new server has read the code, so nothing but a restart brings what comes now.
        old.signal(Signal::USR1);
        let others = [
            command(&["restart"]),
            command(&["restart", "--pid", &old.0.to_string()]),
            command(&["reload"]),
        ];
        let log = server.log();
        for (what, who, count) in [
            ("restart", "signal USR1", 1),
            ("restart", "highball restart", 2),
            ("reload", "highball reload", 1),
        ] {
            let text = format!("{what} requested ({who}); waiting: upgrade in progress");
            until("the log says that they wait", || {
                let lines = log.lines();
                lines.iter().filter(|line| line.contains(&text)).count() == count
            });
        }
        gate.admit(1);
        follow(&mut server, &upgrade.join().expect("it ran"));
        assert_eq!(events.wait(), "loads");
        gate.open();
        for other in others {
            let ran = other.join().expect("it ran");
            assert!(ran.status.success(), "{}", ran.output());
            let new = format!("another server (pid {}) has taken over", server.process().0);
            for text in ["waiting: upgrade in progress, at most", &*new] {
                assert!(ran.stderr.contains(text), "{text}: {}", ran.output());
            }
        }
    });
    let log = server.stop().log;
    let passed_on = "restart requested (passed on by the previous server)";
    assert!(log.iter().any(|line| line.contains(passed_on)), "{log:#?}");
}

#[test]
fn a_server_that_was_replaced_passes_on_what_it_is_asked_for() {
    let application = application();
    let (mut events, gate) = (application.events(), application.gate("work"));
    let builder = Server::application_of(application).threads(2);
    let mut server = builder.setting("drain_timeout", "1s").start();
    let mut long = server.ask("POST", "/long");
    assert_eq!(events.wait(), "calls");
    let old = upgrade(&mut server);
    old.signal(Signal::USR1);
    let passed_on = "restart requested (passed on by the previous server)";
    server.log().wait(|line| line.contains(passed_on));
    until("the new code serves", || {
        server.command(&["status"]).stdout.contains("generation 3")
    });
    let ran = server.command(&["restart", "--pid", &old.0.to_string()]);
    assert!(
        ran.stdout.starts_with("generation 4 serves"),
        "{}",
        ran.output()
    );
    assert!(old.is_alive());
    gate.admit(1);
    long.response().expect(200);
    assert!(old.wait_gone(TEST_TIMEOUT));
}

#[test]
fn the_file_of_a_unix_socket_goes_over() {
    let mut server = Server::application_of(application())
        .listen(["unix:a.sock", "127.0.0.1:0"])
        .start();
    let path = server.dir().join("a.sock");
    let socket = path.display().to_string();
    for _ in 0..2 {
        let old = upgrade(&mut server);
        assert!(old.wait_gone(TEST_TIMEOUT));
        Client::connect_unix(&path).get("/").expect(200);
        server.get("/").expect(200);
        // The kernel says who listens: the new server.
        let ran = server.command(&["status", "--json", "--socket", &socket]);
        let pid = format!("\"pid\": {}", server.process().0);
        assert!(ran.stdout.contains(&pid), "{}", ran.output());
    }
    let ran = server.command(&["stop", "--socket", &socket]);
    assert!(ran.status.success(), "{}", ran.output());
    server.wait_end();
    assert!(!path.exists());
}

#[test]
fn what_is_killed_after_an_upgrade_leaves_nothing() {
    let mut server = Server::application_of(application())
        .listen(["unix:a.sock"])
        .start();
    let path = server.dir().join("a.sock");
    let old = upgrade(&mut server);
    assert!(old.wait_gone(TEST_TIMEOUT));
    server.process().kill();
    until("the socket's file is removed", || !path.exists());
    server.wait_end();
}

#[test]
fn a_server_that_is_stopped_takes_the_new_one_along() {
    let application = application();
    let (mut events, _gate) = (application.events(), application.gate("load"));
    let server = Server::application_of(application).start();
    server.application().dir().write("version", "gated");
    let dir = server.dir().to_owned();
    std::thread::scope(|scope| {
        let upgrade = scope.spawn(|| Program::highball(["upgrade"]).current_dir(dir).run());
        assert_eq!(events.wait(), "loads");
        assert!(server.stop().status.success());
        let ran = upgrade.join().unwrap();
        assert_eq!(ran.status.code(), Some(1), "{}", ran.output());
        assert!(
            ran.stderr.contains("the server is stopping"),
            "{}",
            ran.output()
        );
    });
}

#[test]
fn a_server_that_is_killed_while_it_is_replaced_takes_the_new_one_along() {
    let application = application();
    let (mut events, _gate) = (application.events(), application.gate("load"));
    let server = Server::application_of(application).start();
    server.application().dir().write("version", "gated");
    server.process().signal(Signal::USR2);
    assert_eq!(events.wait(), "loads");
    server.process().kill();
    assert!(!server.wait_end().status.success());
}

/// The server as the first process of a process namespace, as in a container.
const FIRST_PROCESS: [&str; 5] = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"];

#[test]
fn the_first_process_of_a_container_refuses_and_serves_on() {
    let server = start(|builder| builder.under(&FIRST_PROCESS));
    let ran = server.command(&["upgrade"]);
    assert_eq!(ran.status.code(), Some(1), "{}", ran.output());
    assert!(
        ran.stderr.contains("first process of its container"),
        "{}",
        ran.output()
    );
    server.get("/").expect(200);
    assert!(server.command(&["stop"]).status.success());
    assert!(server.wait_end().status.success());
}
