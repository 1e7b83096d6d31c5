//! The commands: check, status, stop, and serving on every kind of listener at once.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::Path;

use serde_json::Value;
use test_support::{
    Application, Client, Directory, Fault, Process, Program, Server, Status, TEST_TIMEOUT, until,
};

const HELLO: &str = r##"run lambda { |env| Test.text("hello") }"##;

#[test]
fn check_shows_the_settings_and_that_the_application_loads() {
    let application = Application::new(HELLO);
    application.dir().write("highball.toml", "threads = 7\n");
    let ran = Program::highball(["check"])
        .arg(application.path())
        .env("HIGHBALL_BACKLOG", "77")
        .run();
    assert_eq!(ran.status.code(), Some(0), "{}", ran.output());
    for part in [
        "threads",
        "7",
        "highball.toml:1",
        "backlog",
        "77",
        "HIGHBALL_BACKLOG",
        "max_body_bytes",
    ] {
        assert!(
            ran.stdout.contains(part),
            "{part} is not in:\n{}",
            ran.output()
        );
    }
    // In the folder itself the argument may be left out.
    let ran = Program::highball(["check"])
        .current_dir(application.path())
        .run();
    assert_eq!(ran.status.code(), Some(0), "{}", ran.output());
}

#[test]
fn check_names_what_a_fork_would_lose_or_share() {
    let application = Application::new(
        r#"require "socket"
        SERVER = TCPServer.new("127.0.0.1", 0)
        Thread.new { sleep }
        run lambda { |_| Test.text(SERVER.addr[1].to_s) }"#,
    );
    let ran = Program::highball(["check"]).arg(application.path()).run();
    assert_eq!(ran.status.code(), Some(0), "{}", ran.output());
    for sentence in [
        "warning: thread started at ",
        "warning: a socket that listens on 127.0.0.1:",
    ] {
        assert!(ran.stdout.contains(sentence), "{}", ran.stdout);
    }
}

#[test]
fn check_says_why_the_application_does_not_load() {
    let application = Application::new("raise \"boot-error-text\"");
    let ran = Program::highball(["check"]).arg(application.path()).run();
    assert_eq!(ran.status.code(), Some(1));
    assert!(
        ran.output().contains("boot-error-text") && ran.output().contains("config.ru:3"),
        "{}",
        ran.output()
    );
    application.dir().write("highball.toml", "thread = 7\n");
    let ran = Program::highball(["check"]).arg(application.path()).run();
    assert_eq!(ran.status.code(), Some(1));
    assert!(ran.output().contains("highball.toml:1"), "{}", ran.output());
    let empty = Directory::new();
    let ran = Program::highball(["check"]).arg(empty.path()).run();
    assert_eq!(ran.status.code(), Some(1));
    assert!(ran.output().contains("config.ru"), "{}", ran.output());
}

#[test]
fn check_knows_the_environments_defaults_and_variables() {
    let application = Application::new(HELLO);
    let check = || Program::highball(["check"]).arg(application.path());
    let text = check().run().stdout;
    assert!(
        text.contains("127.0.0.1:3000") && text.contains("development"),
        "{text}"
    );
    for variable in ["RACK_ENV", "RAILS_ENV"] {
        let text = check().env(variable, "production").run().stdout;
        assert!(
            text.contains("0.0.0.0:3000") && text.contains("production"),
            "{text}"
        );
    }
    let text = check().env("PORT", "4567").run().stdout;
    assert!(text.contains("127.0.0.1:4567"), "{text}");
}

#[test]
fn status_names_every_process_with_its_pid_and_role() {
    let server = Server::app(HELLO).workers(2).threads(3).start();
    let status = server.status();
    assert_eq!(status.processes("front"), [server.process()]);
    let (templates, workers) = (status.processes("template"), status.processes("worker"));
    assert_eq!(templates.len(), 1, "{:#}", status.0);
    assert_eq!(workers, templates[0].children());
    assert_eq!(workers.len(), 2);
    let mut family = server.family().members();
    family.retain(|process| *process != server.process() && *process != templates[0]);
    assert_eq!(family, workers, "status leaves out a process");
    let ran = server.command(&["status"]);
    assert!(ran.status.success(), "{}", ran.output());
    for process in workers {
        assert!(
            ran.stdout.contains(&process.0.to_string()),
            "{}",
            ran.stdout
        );
    }
}

#[test]
fn status_shows_what_each_worker_has_served_and_holds() {
    const KEEPS: &str = r##"
run lambda { |env|
  $kept = "x" * (64 << 20) if env["PATH_INFO"] == "/keep"
  Test.text(Process.pid.to_s)
}
"##;
    let server = Server::app(KEEPS).workers(2).start();
    let mut asked: BTreeMap<String, u64> = BTreeMap::new();
    let keeps = server.get("/keep").text();
    asked.insert(keeps.clone(), 1);
    for _ in 0..10 {
        *asked.entry(server.get("/").text()).or_default() += 1;
    }
    until("each worker's requests are shown", || {
        let status = server.status();
        let rows = status.0["processes"].as_array().expect("rows").clone();
        rows.iter()
            .filter(|row| row["role"] == "worker")
            .all(|row| {
                let own = asked.get(&row["pid"].to_string()).copied().unwrap_or(0);
                row["requests"].as_u64() == Some(own)
            })
    });
    let status = server.status();
    for row in status.0["processes"].as_array().expect("rows") {
        let memory = row["memory_bytes"].as_u64().expect("its memory");
        let keeps = row["pid"].as_u64() == keeps.parse().ok();
        assert_eq!(memory > 64 << 20, keeps, "{row}");
        assert_eq!(row["requests"].is_u64(), row["role"] == "worker", "{row}");
    }
    let page = server.command(&["status"]).stdout;
    let line = page.lines().find(|line| line.contains(&keeps));
    let line = line.expect("a row of the worker");
    let requests = asked[&keeps];
    let end = match requests {
        1 => "MiB private, 1 request".to_owned(),
        _ => format!("MiB private, {requests} requests"),
    };
    assert!(line.ends_with(&end), "{line}");
}

#[test]
fn memory_of_all_servers_of_the_user_is_shown_one_after_the_other() {
    let [one, other] = [(); 2].map(|()| Server::app("run ->(_) { Test.text('hello') }").start());
    // Of the machine there may be others.
    let ran = one.command(&["memory", "--all", "--json"]);
    let all: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    for server in [&one, &other] {
        let mut all = all.as_array().expect("a list").iter();
        let own = all.find(|memory| memory["pid"] == server.process().0);
        let own = own.expect("the server is in the list");
        assert_eq!(
            own["processes"].as_array().map(Vec::len),
            Some(3),
            "{own:#}"
        );
    }
    let page = other.command(&["memory", "--all"]).stdout;
    for server in [&one, &other] {
        let title = format!("pid {}: memory in MiB", server.process().0);
        assert!(page.contains(&title), "{page}");
    }
    let last = page.lines().last().expect("a line");
    assert!(last.contains(" servers: PSS "), "{page}");
    let both = one.command(&["memory", "--all", "--pid", "1"]);
    assert!(!both.status.success());
}

#[test]
fn memory_shows_each_process_what_sharing_saves_and_a_leak() {
    const LEAKS: &str = r##"
$shared = Array.new(64) { |at| "x" * (1 << 20) }
$leak = []
run lambda { |env|
  spawn("sleep", "1000") if env["PATH_INFO"] == "/start"
  $leak << "y" * (8 << 20) if env["PATH_INFO"] == "/leak"
  Test.text(Process.pid.to_s)
}
"##;
    let server = Server::app(LEAKS).workers(2).start();
    let workers = server.status().processes("worker");
    until("each worker was measured once", || {
        let rows = server.status().0["processes"].clone();
        let rows = rows.as_array().expect("rows").iter();
        let measured = rows.filter(|row| row["first_memory_bytes"].is_u64());
        measured.count() == workers.len()
    });
    let mut leaks = 0;
    let leaking = server.get("/start").text();
    while leaks < 10 {
        leaks += u64::from(server.get("/leak").text() == leaking);
    }
    let ran = server.command(&["memory", "--json"]);
    assert!(ran.status.success(), "{}", ran.output());
    let memory: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    let rows = memory["processes"].as_array().expect("rows");
    let row = |role: &'static str| rows.iter().filter(move |row| row["role"] == role);
    let leaking = row("worker").find(|row| row["pid"].as_u64() == leaking.parse().ok());
    let leaking = leaking.expect("a row of the worker");
    let grown = leaking["grown_bytes"].as_i64().expect("it was measured");
    assert!(grown >= leaks.cast_signed() * (8 << 20), "{memory:#}");
    for row in row("worker") {
        let shared = row["memory"]["shared_bytes"].as_u64().expect("its memory");
        assert!(shared > 64 << 20, "{row:#}");
        let of = |name: &str| row["memory"][name].as_u64().expect("its memory");
        let private = row["memory_bytes"].as_u64().expect("its memory");
        assert_eq!(
            of("rss_bytes") + of("swap_bytes"),
            private + of("shared_bytes"),
            "{row:#}"
        );
    }
    // The template and two workers have the same 64 MiB, which are there once.
    let saved = memory["total"]["saved_bytes"].as_u64().expect("a sum");
    assert!(saved >= 2 * (64 << 20), "{memory:#}");
    let child = row("child").next().expect("the process that was started");
    assert_eq!(
        (&child["name"], &child["worker"]),
        (&"sleep".into(), &leaking["worker"])
    );
    let page = server.command(&["memory"]).stdout;
    let line = page.lines().find(|line| line.contains("has grown most"));
    let line = line.expect("the worker that leaks");
    assert!(
        line.starts_with(&format!("worker {}", leaking["worker"])),
        "{page}"
    );
    let sleep = Process(child["pid"].as_u64().expect("a pid") as u32);
    sleep.kill();
    until("a child that has ended is not shown", || {
        server.status().processes("child").is_empty()
    });
}

#[test]
fn status_shows_what_each_thread_runs() {
    let application =
        Application::new(r##"run lambda { |env| Test.pass("work"); Test.text("hello") }"##);
    let (mut events, gate) = (application.events(), application.gate("work"));
    let server = Server::application_of(application).threads(2).start();
    let mut client = server.connect();
    client.send("GET /what-it-runs HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(events.wait(), "at work");
    let status = server.status().0.to_string();
    assert!(status.contains("/what-it-runs"), "{status}");
    let ran = server.command(&["status"]);
    assert!(ran.stdout.contains("/what-it-runs"), "{}", ran.stdout);
    gate.admit(1);
    client.response().expect(200);
    let threads = server.status().0["threads"].to_string();
    assert!(!threads.contains("/what-it-runs"), "{threads}");
}

#[test]
fn status_finds_the_server_by_folder_config_or_pid() {
    let application = Application::new(HELLO);
    let config = application.dir().write("highball.toml", "");
    let config = config.display().to_string();
    let server = Server::application_of(application).start();
    let elsewhere = Directory::new();
    let (dir, pid) = (
        server.dir().display().to_string(),
        server.process().0.to_string(),
    );
    for arguments in [
        &["status", "--json", &dir][..],
        &["status", "--json", "--pid", &pid],
        &["status", "--json", "--config", &config],
    ] {
        let ran = Program::highball(arguments)
            .current_dir(elsewhere.path())
            .run();
        assert!(ran.status.success(), "{arguments:?}: {}", ran.output());
        let status = Status(serde_json::from_str(&ran.stdout).unwrap());
        assert_eq!(
            status.processes("front"),
            [server.process()],
            "{arguments:?}"
        );
    }
}

#[test]
fn status_and_stop_without_a_server_say_so() {
    let application = Application::new(HELLO);
    for command in ["status", "stop"] {
        let ran = Program::highball([command])
            .current_dir(application.path())
            .run();
        assert_eq!(ran.status.code(), Some(1), "{}", ran.output());
        let folder = application
            .path()
            .file_name()
            .unwrap()
            .to_string_lossy()
            .into_owned();
        assert!(ran.stderr.contains(&folder), "{}", ran.output());
        let ran = Program::highball([command, "--pid", "999999999"]).run();
        assert_eq!(ran.status.code(), Some(1), "{}", ran.output());
    }
}

#[test]
fn stop_lets_running_requests_finish_and_stop_now_does_not() {
    for now in [false, true] {
        let application =
            Application::new(r##"run lambda { |env| Test.pass("work"); Test.text("hello") }"##);
        let (mut events, gate) = (application.events(), application.gate("work"));
        let server = Server::application_of(application).start();
        // An idle connection is closed when the draining begins.
        let mut idle = server.connect();
        gate.admit(1);
        idle.get("/").expect(200);
        assert_eq!(events.wait(), "at work");
        let mut client = server.connect();
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(events.wait(), "at work");
        if now {
            let ran = server.command(&["stop", "--now"]);
            assert!(ran.status.success(), "{}", ran.output());
            match client.try_response("GET") {
                Ok(response) => assert!(response.status() >= 500, "{response:?}"),
                Err(Fault::Ended { .. }) => {}
                Err(fault) => panic!("{fault}"),
            }
        } else {
            // The command may wait for the end, so it runs beside.
            let dir = server.dir().to_owned();
            let stopping =
                std::thread::spawn(move || Program::highball(["stop"]).current_dir(dir).run());
            idle.expect_end();
            gate.admit(1);
            assert_eq!(client.response().text(), "hello");
            let ran = stopping.join().unwrap();
            assert!(ran.status.success(), "{}", ran.output());
        }
        let stopped = server.wait_end();
        assert!(stopped.status.success(), "{:?}", stopped.status);
    }
}

#[test]
fn commands_to_a_server_that_stands_still_end_with_an_error() {
    let application = Application::new(r##"run lambda { |env| Test.pass("work", "called") }"##);
    let (mut events, _gate) = (application.events(), application.gate("work"));
    let server = Server::application_of(application).start();
    let _running = server.ask("GET", "/");
    assert_eq!(events.wait(), "called");
    let dir = server.dir();
    std::thread::scope(|scope| {
        let command = |name: &'static str| {
            scope.spawn(move || {
                Program::highball([name])
                    .current_dir(dir)
                    .patience(2 * TEST_TIMEOUT)
                    .run()
            })
        };
        let stop = command("stop");
        // It was answered, and waits for the end.
        server.log().wait(|line| line.contains("draining"));
        server.process().suspend();
        let others = [command("status"), command("restart"), command("stop")];
        let stopped = stop.join().expect("it ran");
        for ran in others.map(|one| one.join().expect("it ran")) {
            assert_eq!(ran.status.code(), Some(1), "{}", ran.output());
            let expected = "the server does not answer, and gave no sign of life for 20s";
            assert!(ran.stderr.contains(expected), "{}", ran.output());
        }
        assert_eq!(stopped.status.code(), Some(1), "{}", stopped.output());
        let expected = "the server has not exited, and gave no sign of life for 20s";
        assert!(stopped.stderr.contains(expected), "{}", stopped.output());
    });
    server.process().kill();
    server.wait_end();
}

#[test]
fn tcp_over_ipv4_and_ipv6_and_unix_sockets_are_served_at_once() {
    let application = Application::new(r##"run lambda { |env| Test.text(env["REMOTE_ADDR"]) }"##);
    let path = application.path().join("tmp/a.sock");
    std::fs::create_dir(application.path().join("tmp")).unwrap();
    let server = Server::application_of(application)
        .listen(["127.0.0.1:0", "[::1]:0", "unix:tmp/a.sock", "127.0.0.1:0"])
        .start();
    let tcp = server.tcp_addresses();
    assert_eq!(tcp.len(), 3);
    assert!(tcp.iter().all(|address| address.port() != 0));
    assert_ne!(tcp[0], tcp[2]);
    for address in tcp {
        assert_eq!(
            Client::connect(address).get("/").text(),
            address.ip().to_string()
        );
    }
    let mut client = Client::connect_unix(&path);
    client.get("/").expect(200);
    assert!(
        server
            .addresses()
            .iter()
            .any(|address| address.contains("tmp/a.sock")),
        "{:?}",
        server.addresses()
    );
    server.stop();
    assert!(!path.exists());
}

#[test]
fn the_file_the_environment_and_flags_are_respected_in_this_order() {
    let application =
        Application::new(r##"run lambda { |env| Test.text("#{env["rack.multithread"]}") }"##);
    application.dir().write(
        "highball.toml",
        "max_body_bytes = \"1KiB\"\nmax_header_count = 3\n",
    );
    let server = Server::application_of(application)
        .setting("max_body_bytes", "10")
        .start();
    server.connect().post("/", "01234567890").expect(413);
    let mut client = server.connect();
    client.send("GET / HTTP/1.1\r\nHost: a\r\nA: b\r\nB: c\r\nC: d\r\n\r\n");
    client.response().expect(431);
}

#[test]
fn help_and_version_are_printed() {
    let ran = Program::highball(["--version"]).run();
    assert!(
        ran.status.success() && ran.stdout.contains("highball"),
        "{}",
        ran.output()
    );
    let ran = Program::highball(["--help"]).run();
    assert!(ran.status.success(), "{}", ran.output());
    for word in ["serve", "check", "status", "stop", "load"] {
        assert!(ran.stdout.contains(word), "{word} is not in {}", ran.stdout);
    }
    let ran = Program::highball(["serve", "--no-such-flag"]).run();
    assert!(!ran.status.success());
    assert!(ran.stderr.contains("no-such-flag"), "{}", ran.output());
}

#[test]
fn port_is_respected() {
    // Free now; no other program knows it.
    let port = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().port()
    };
    let application = Application::new(HELLO);
    let text = Program::highball(["check"])
        .arg(application.path())
        .env("PORT", port.to_string())
        .run()
        .stdout;
    assert!(text.contains(&format!("127.0.0.1:{port}")), "{text}");
}

#[test]
fn a_command_of_the_lab_becomes_the_program_beside_this_one() {
    let folder = Directory::new();
    // Copied by another process: a program that this one holds open for writing can't be run.
    let install = |from: &Path, name: &str| {
        let copy = Program::new("install").args(["-m", "755"]).arg(from);
        let ran = copy.arg(folder.join(name)).run();
        assert!(ran.status.success(), "{}", ran.output());
    };
    install(&test_support::binary(), "highball");
    let run = |arguments: &[&str]| Program::new(folder.join("highball")).args(arguments).run();
    let missing = run(&["compare", "--help"]);
    assert_eq!(missing.status.code(), Some(1), "{}", missing.output());
    let lab = folder.join("highball-lab");
    let expect = format!(
        "highball: {} is missing, which has this command; install highball again",
        lab.display()
    );
    assert!(missing.stderr.contains(&expect), "{}", missing.output());
    let script = "#!/bin/sh\nprintf '%s,' \"$@\"; echo warned >&2; exit 7\n";
    install(&folder.write("lab.sh", script), "highball-lab");
    for arguments in [
        &["load", "--no", "such flag", "-h"][..],
        &["compare", "--help"],
        &["study"],
        &["stacks", "-V"],
        &["help", "compare"],
    ] {
        let ran = run(arguments);
        assert_eq!(ran.status.code(), Some(7), "{}", ran.output());
        assert_eq!(ran.stdout, arguments.join(",") + ",");
        assert_eq!(ran.stderr.trim_end(), "warned");
    }
}
