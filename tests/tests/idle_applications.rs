//! Applications that stop when nobody uses them (`idle_timeout`): when they stop, that their first request starts them again,
//! and what commands do with a stopped one.

use highball_tests::several::{Several, named, prepared, settings_file};
use test_support::{Application, Client, Server, until};

/// The shortest time that the setting allows.
const SOON: &str = "idle_timeout = \"1s\"";

/// A server with an application `idle` that stops soon, and another one, `other`, that does not.
fn with_idle(source: &str, keys: &str) -> Several {
    let applications = [source, &named("other")].map(Application::new);
    let idle = format!("hosts = [\"idle.test\"]\n{SOON}\n{keys}");
    let tables = [("idle", &*idle), ("other", "hosts = [\"other.test\"]")];
    let several = prepared(applications.into(), &tables, |builder| builder);
    several.until_all_serve();
    several
}

/// Waits until the application `idle` is stopped and has no process.
fn until_stopped(several: &Several) {
    until("it is stopped", || {
        several.status("idle")["stopped"] == "idle" && several.processes("idle").is_empty()
    });
}

/// Counts its starts in a file, and answers with its process and that number.
const COUNTED: &str = r##"
    File.write("starts", File.exist?("starts") ? File.read("starts").to_i + 1 : 1)
    run lambda { |env| Test.text("#{Process.pid} #{File.read("starts")}") }
"##;

/// The number of starts that the application `idle` says it had.
fn starts(several: &Several) -> u32 {
    let response = several.get("idle.test", "/");
    let text = response.expect(200).text();
    let count = text.split_whitespace().nth(1).expect("a number");
    count.parse().expect("a number")
}

#[test]
fn an_idle_application_stops_and_its_first_request_starts_it() {
    let several = with_idle(COUNTED, "");
    let before = several.processes("idle");
    assert_eq!(before.len(), 2, "a template and a worker");
    until_stopped(&several);
    assert!(before.iter().all(|process| !process.exists()));
    let log = several.server.log();
    log.wait(|line| {
        line.contains("application=idle") && line.contains("nothing to do for 1s (idle_timeout)")
    });
    let page = several.server.command(&["status"]).stdout;
    assert!(page.contains("stopped: idle"), "{page}");
    several.get("other.test", "/").expect(200);
    assert_eq!(starts(&several), 2);
    log.wait(|line| line.contains("a request has started the application again"));
    let status = several.status("idle");
    assert_eq!(status["generations"][0]["number"], 2);
    assert!(status["stopped"].is_null(), "{status}");
    until_stopped(&several);
    assert_eq!(starts(&several), 3);
}

#[test]
fn many_requests_at_once_start_a_stopped_application_once() {
    let several = with_idle(COUNTED, "");
    until_stopped(&several);
    let mut clients: Vec<Client> = (0..30).map(|_| several.ask("idle.test", "/")).collect();
    for client in &mut clients {
        client.response().expect(200);
    }
    assert_eq!(starts(&several), 2);
    assert_eq!(several.status("idle")["counters"]["ok"], 31);
}

#[test]
fn a_stopped_application_that_does_not_start_is_an_outage_of_its_own() {
    let source = format!("raise \"broken\" if File.exist?(\"bad\")\n{COUNTED}");
    let several = with_idle(&source, "");
    until_stopped(&several);
    let folder = several.applications[0].dir();
    folder.write("bad", "");
    let refused = several.get("idle.test", "/");
    refused.expect(503);
    assert!(refused.field("retry-after").is_some());
    several.get("other.test", "/").expect(200);
    std::fs::remove_file(folder.join("bad")).expect("the file");
    until("it serves again", || {
        several.status("idle")["generations"][0]["state"] == "serving"
    });
    several.get("idle.test", "/").expect(200);
}

#[test]
fn requests_for_a_stopped_application_end_at_their_deadline_at_the_latest() {
    let source = format!("sleep if File.exist?(\"hang\")\n{COUNTED}");
    let several = with_idle(&source, "request_timeout = \"1s\"\nqueue_limit = 1");
    until_stopped(&several);
    several.applications[0].dir().write("hang", "");
    let mut first = several.ask("idle.test", "/");
    let mut second = several.ask("idle.test", "/");
    let statuses = [&mut first, &mut second].map(|one| one.response().status());
    // The queue takes one. How long the other one waits is its deadline's matter.
    assert!(statuses.iter().all(|status| *status == 503), "{statuses:?}");
    let counters = &several.status("idle")["counters"];
    assert_eq!(counters["shed"], 1, "{counters}");
    several.get("other.test", "/").expect(200);
}

#[test]
fn an_application_with_an_open_stream_or_connection_does_not_stop() {
    const SOURCE: &str = r##"run lambda { |env|
        next Test.text("plain") if env["PATH_INFO"] == "/"
        next [200, {}, Enumerator.new { |all| all << "begun"; Test.pass("stream", "begun") }] if env["PATH_INFO"] == "/stream"
        io = env["rack.hijack"].call
        Thread.new do
          io.write("HTTP/1.1 101 Switching Protocols\r\n\r\n")
          while (line = io.gets) do io.write(line) end
          io.close
        end
        [200, {}, []]
    }"##;
    for front_threads in ["1", "2"] {
        let applications = [SOURCE, &named("other")].map(Application::new);
        let (mut events, gate) = (applications[0].events(), applications[0].gate("stream"));
        let idle = format!("hosts = [\"idle.test\"]\n{SOON}");
        let tables = [("idle", &*idle), ("other", "hosts = [\"other.test\"]")];
        let several = prepared(applications.into(), &tables, |builder| {
            builder.setting("front_threads", front_threads)
        });
        several.until_all_serve();
        // They are at different threads, where there are two.
        let mut stream = several.ask("idle.test", "/stream");
        assert_eq!(events.wait(), "begun");
        // A stop of the other kind would come much earlier than these requests end.
        let quiet = |asked: u32| {
            for _ in 0..asked {
                let began = std::time::Instant::now();
                until("more than the idle time has passed", || {
                    began.elapsed() > std::time::Duration::from_millis(1500)
                });
                assert!(several.status("idle")["stopped"].is_null());
            }
        };
        quiet(2);
        gate.admit(1);
        stream.response().expect(200);
        let mut hijacked = several.ask("idle.test", "/hijack");
        assert_eq!(hijacked.head().status, 101);
        quiet(2);
        hijacked.send("still here\n");
        assert_eq!(hijacked.bytes(11), b"still here\n");
        drop(hijacked);
        until_stopped(&several);
    }
}

#[test]
fn a_restart_or_reload_of_a_stopped_application_is_for_its_next_start() {
    let several = with_idle(&named("old"), "");
    until_stopped(&several);
    let folder = several.applications[0].dir();
    folder.write(
        "config.ru",
        Application::new(&named("new")).read("config.ru"),
    );
    let ran = several
        .server
        .command(&["restart", "--application", "idle"]);
    assert!(ran.status.success(), "{}", ran.output());
    assert!(
        ran.stdout.contains("idle: it is stopped (idle_timeout)"),
        "{}",
        ran.output()
    );
    folder.write("tmp/restart.txt", "");
    let log = several.server.log();
    log.wait(|line| line.contains("restart of idle requested"));
    let idle = format!("hosts = [\"idle.test\"]\n{SOON}\nthreads = 2");
    let tables = [("idle", &*idle), ("other", "hosts = [\"other.test\"]")];
    let file = settings_file(&several.applications, &tables);
    let server = several.server.application().dir();
    server.write("highball.toml", file);
    let ran = several.server.command(&["reload"]);
    assert!(ran.status.success(), "{}", ran.output());
    assert!(
        ran.stdout.contains("idle: threads: 1 -> 2"),
        "{}",
        ran.output()
    );
    assert!(several.processes("idle").is_empty());
    let response = several.get("idle.test", "/");
    assert!(response.expect(200).text().starts_with("new"));
    let status = several.status("idle");
    assert_eq!(status["threads"].as_array().map(Vec::len), Some(2));
}

#[test]
fn an_upgrade_leaves_a_stopped_application_stopped() {
    let mut several = with_idle(COUNTED, "");
    until_stopped(&several);
    let ran = several.server.command(&["upgrade"]);
    assert_eq!(ran.status.code(), Some(0), "{}", ran.output());
    let old = several.server.replaced_by(ran.process());
    assert!(old.wait_gone(test_support::TEST_TIMEOUT));
    until_stopped(&several);
    several.get("other.test", "/").expect(200);
    assert_eq!(starts(&several), 2);
}

#[test]
fn files_and_cached_pages_of_a_stopped_application_are_served() {
    const CACHED: &str = r##"run lambda { |env|
        Test.text("cached", headers: { "cache-control" => "public, max-age=3600" })
    }"##;
    let applications = [CACHED, &named("other")].map(Application::new);
    applications[0].dir().write("public/a.txt", "a file");
    let idle = format!(
        "hosts = [\"idle.test\"]\n{SOON}\ncache_bytes = \"1MiB\"\npublic_files = \"public\""
    );
    let tables = [("idle", &*idle), ("other", "hosts = [\"other.test\"]")];
    let several = prepared(applications.into(), &tables, |builder| builder);
    several.until_all_serve();
    several.get("idle.test", "/").expect(200);
    until_stopped(&several);
    assert_eq!(
        several.get("idle.test", "/a.txt").expect(200).text(),
        "a file"
    );
    let cached = several.get("idle.test", "/");
    assert!(cached.expect(200).field("age").is_some());
    assert!(several.processes("idle").is_empty());
    let ran = several.server.command(&["purge", "--all"]);
    assert!(ran.status.success(), "{}", ran.output());
    assert!(several.processes("idle").is_empty());
    assert!(
        several
            .get("idle.test", "/")
            .expect(200)
            .field("age")
            .is_none()
    );
}

#[test]
fn a_server_with_a_single_application_lets_it_stop_too() {
    let server = Server::app(COUNTED).setting("idle_timeout", "1s");
    let server = server.start();
    until("it is stopped", || {
        let status = server.status();
        status.0["stopped"] == "idle" && status.processes("worker").is_empty()
    });
    assert!(server.get("/").expect(200).text().ends_with(" 2"));
    until("it is stopped again", || {
        server.status().0["stopped"] == "idle"
    });
    server.stop();
}
