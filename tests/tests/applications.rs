//! Several applications behind one port: which of them gets a request, what they do not share, and that one which crashes,
//! hangs or never boots harms no other.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use highball_tests::http2::{Http2, run};
use highball_tests::several::{Several, by_host, named, prepared, settings_file, start};
use rustix::process::Signal;
use serde_json::Value;
use test_support::{Application, Client, until};

/// Takes each connection over, and sends back what comes on it.
const HIJACKS: &str = r##"run lambda { |env|
    io = env["rack.hijack"].call
    Thread.new do
      io.write("HTTP/1.1 101 Switching Protocols\r\n\r\n")
      while (line = io.gets) do io.write(line) end
          io.close
    end
    [200, {}, []]
}"##;

/// Applications `one` and `two`, for the hosts `one.test` and `two.test`.
fn one_and_two() -> Several {
    by_host(&[("one", &named("one")), ("two", &named("two"))]).start_all()
}

#[test]
fn requests_go_to_their_application_by_host_and_prefix() {
    let [shop, wiki, any] = [named("shop"), named("wiki"), named("any")];
    let several = start(&[
        (
            "shop",
            &shop,
            "hosts = [\"shop.test\", \"*.shops.test\"]\nvariables = { OWN = \"mine\" }",
        ),
        ("wiki", &wiki, "hosts = [\"shop.test\"]\nprefix = \"/wiki\""),
        ("any", &any, "prefix = \"/any\""),
    ]);
    let check = |host: &str, target: &str, expect: &str| {
        let response = several.get(host, target);
        response.expect(200);
        assert_eq!(response.text().trim_end(), expect, "{host} {target}");
    };
    check("shop.test", "/a?b=c", "shop  /a /a?b=c /a mine");
    check("SHOP.test.:80", "/wikis", "shop  /wikis /wikis /wikis mine");
    check("x.shops.test", "/", "shop  / / / mine");
    check(
        "shop.test",
        "/wiki/a%20b?c=d",
        "wiki /wiki /a%20b /wiki/a%20b?c=d /wiki/a%20b",
    );
    check("shop.test", "/wiki", "wiki /wiki  /wiki /wiki");
    check("other.test", "/any/x", "any /any /x /any/x /any/x");
    several.get("x.shops.test", "/any/x").expect(200);
}

#[test]
fn an_unknown_host_gets_421_and_an_unknown_path_404() {
    let one = named("one");
    let several = start(&[("one", &one, "hosts = [\"one.test\"]\nprefix = \"/one\"")]);
    let mut client = several.server.connect();
    client.send("GET / HTTP/1.1\r\nHost: two.test\r\n\r\n");
    client.response().expect(421);
    // The connection may have other hosts.
    client.send("GET /one HTTP/1.1\r\nHost: one.test\r\n\r\n");
    client.response().expect(200);
    several.get("one.test", "/").expect(404);
    let mut client = several.server.connect();
    client.send("GET /one HTTP/1.0\r\n\r\n");
    client.response().expect(421);
    let log = several.server.log();
    log.wait(|line| line.contains("status=421") && line.contains("outcome=no_application"));
    let lines = log.lines();
    let mut refused = lines
        .iter()
        .filter(|line| line.contains("outcome=no_application"));
    assert!(
        refused.all(|line| !line.contains("application=")),
        "{lines:?}"
    );
    assert_eq!(
        several.server.status().number("/counters/no_application"),
        3
    );
}

#[test]
fn both_threads_of_the_front_serve_each_application() {
    let several = by_host(&[("shop", &named("shop")), ("wiki", &named("wiki"))])
        .setting("front_threads", "2")
        .start_all();
    // They alternate between the threads, and stay there.
    let mut clients: Vec<Client> = (0..4).map(|_| several.server.connect()).collect();
    for client in &mut clients {
        for name in ["shop", "wiki"] {
            client.send(format!("GET /a HTTP/1.1\r\nHost: {name}.test\r\n\r\n"));
            let response = client.response();
            let expect = format!("{name}  /a /a /a");
            assert_eq!(response.expect(200).text().trim_end(), expect);
        }
        client.send("GET /a HTTP/1.1\r\nHost: other.test\r\n\r\n");
        client.response().expect(421);
    }
    for name in ["shop", "wiki"] {
        until("all are counted", || {
            several.status(name)["counters"]["ok"] == 4
        });
    }
}

#[test]
fn streams_of_one_http_2_connection_go_to_their_applications() {
    let [one, two] = [named("one"), named("two")];
    let several = start(&[
        ("one", &one, "hosts = [\"one.test\"]"),
        ("two", &two, "hosts = [\"*.two.test\"]\nprefix = \"/two\""),
    ]);
    let client = Http2::connect(several.server.address());
    let ask = |host: &str, path: &str| {
        let request = http::Request::get(format!("http://{host}{path}"));
        let answer = run(client.ask(request, "")).expect("a response");
        (answer.status, answer.text())
    };
    assert_eq!(ask("one.test", "/a"), (200, "one  /a /a /a ".to_owned()));
    assert_eq!(
        ask("X.Two.test:8080", "/two/a"),
        (200, "two /two /a /two/a /two/a ".to_owned())
    );
    assert_eq!(ask("three.test", "/").0, 421);
}

#[test]
fn caches_and_rate_limits_are_not_shared() {
    const SOURCE: &str = r##"run lambda { |env|
        Test.text("NAME", headers: { "cache-control" => "public, max-age=60" })
    }"##;
    let [one, two] = ["one", "two"].map(|name| SOURCE.replace("NAME", name));
    let limits = "cache_bytes = \"1MiB\"\nrate_limits = [\"/limited=1/h\"]";
    let several = by_host(&[("one", &one), ("two", &two)])
        .keys("one", limits)
        .keys("two", limits)
        .start_all();
    for name in ["one", "two"] {
        let host = format!("{name}.test");
        for hits in [0, 1] {
            let response = several.get(&host, "/");
            assert_eq!(response.text().trim_end(), name);
            assert_eq!(response.field("age").is_some(), hits > 0);
        }
        several.get(&host, "/limited").expect(200);
        several.get(&host, "/limited").expect(429);
    }
}

#[test]
fn secrets_of_any_application_are_hidden_where_none_is_found() {
    let several = by_host(&[("one", &named("one")), ("two", &named("two"))])
        .keys("one", "log_filter_parameters = [\"pin\"]")
        .keys("two", "log_filter_parameters = [\"card\"]")
        .start_all();
    let target = |path: &str| format!("{path}?pin=1&card=2&token=3");
    several.get("other.test", &target("/lost")).expect(421);
    several.get("b a d", &target("/refused")).expect(400);
    several.get("one.test", &target("/one")).expect(200);
    let log = several.server.stop().log;
    let check = |path: &str, query: &str| {
        let line = log
            .iter()
            .find(|line| line.contains(&format!("path=\"{path}?")));
        let line = line.expect("a line");
        assert!(line.contains(&format!("{path}?{query}\"")), "{line}");
    };
    let all = "pin=[FILTERED]&card=[FILTERED]&token=[FILTERED]";
    check("/lost", all);
    check("/refused", all);
    check("/one", "pin=[FILTERED]&card=2&token=3");
}

#[test]
fn files_and_error_pages_are_each_applications_own() {
    let raising = "raise 'it never boots'";
    let applications = vec![Application::new(raising), Application::new(&named("two"))];
    applications[0]
        .dir()
        .write("public/503.html", "<p>the page of one</p>");
    applications[1]
        .dir()
        .write("public/a.txt", "the file of two");
    let tables = [
        ("one", "hosts = [\"one.test\"]"),
        ("two", "prefix = \"/two\"\npublic_files = \"public\""),
    ];
    let several = prepared(applications, &tables, |builder| builder);
    let text = several.get("any.test", "/two/a.txt");
    assert_eq!(text.text(), "the file of two");
    several
        .server
        .log()
        .wait(|line| line.contains("application=one") && line.contains("did not come up"));
    let mut client = several.server.connect();
    client.send("GET / HTTP/1.1\r\nHost: one.test\r\nAccept: text/html\r\n\r\n");
    let page = client.response();
    page.expect(503);
    assert_eq!(page.text(), "<p>the page of one</p>");
    assert!(page.field("retry-after").is_some());
}

#[test]
fn a_full_queue_of_one_application_delays_no_other() {
    let waiting = "run lambda { |env| Test.pass(\"work\", \"call\"); Test.text(\"slow\") }";
    let several =
        by_host(&[("slow", waiting), ("fast", &named("fast"))]).keys("slow", "queue_limit = 1");
    let slow = several.application("slow");
    let (mut events, gate) = (slow.events(), slow.gate("work"));
    let several = several.start_all();
    let mut running = several.ask("slow.test", "/");
    assert_eq!(events.wait(), "call");
    let mut queued = several.ask("slow.test", "/");
    until("it waits", || {
        several.status("slow")["queue"]["length"] == 1
    });
    several.get("slow.test", "/").expect(503);
    for _ in 0..20 {
        several.get("fast.test", "/").expect(200);
    }
    assert_eq!(several.status("fast")["queue"]["length"], 0);
    gate.admit(1);
    running.response().expect(200);
    assert_eq!(events.wait(), "call");
    gate.admit(1);
    queued.response().expect(200);
}

#[test]
fn an_application_that_crashes_all_the_time_costs_no_other_a_request() {
    let crashing = "run lambda { |env| Process.kill(:KILL, Process.pid); sleep }";
    let several = by_host(&[("crashing", crashing), ("sound", &named("sound"))])
        .keys("crashing", "max_retries = 0")
        .start_all();
    let (over, wrong) = (AtomicBool::new(false), AtomicUsize::new(0));
    let crashes = AtomicUsize::new(0);
    let address = several.server.address();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let mut client = Client::connect(address);
                client.send("GET / HTTP/1.1\r\nHost: crashing.test\r\n\r\n");
                let response = client.response();
                crashes.fetch_add(usize::from(response.status() == 502), Ordering::Relaxed);
            }
        });
        let mut client = several.server.connect();
        let mut asked = 0;
        while asked < 300 || crashes.load(Ordering::Relaxed) < 5 {
            client.send("GET / HTTP/1.1\r\nHost: sound.test\r\n\r\n");
            wrong.fetch_add(
                usize::from(client.response().status() != 200),
                Ordering::Relaxed,
            );
            asked += 1;
        }
        over.store(true, Ordering::Relaxed);
    });
    assert_eq!(wrong.load(Ordering::Relaxed), 0);
    assert_eq!(several.status("sound")["counters"]["worker_died"], 0);
}

#[test]
fn an_application_that_boots_late_is_tried_again_until_it_serves() {
    let source = format!(
        "raise \"not yet\" unless File.exist?(\"good\")\n{}",
        named("late")
    );
    let several = by_host(&[("late", &source), ("other", &named("other"))]).start();
    several.get("other.test", "/").expect(200);
    several
        .server
        .log()
        .wait(|line| line.contains("application=late") && line.contains("not yet"));
    several.get("late.test", "/").expect(503);
    several.applications[0].dir().write("good", "");
    several.until_all_serve();
    several.get("late.test", "/").expect(200);
}

#[test]
fn a_start_needs_one_application_even_at_its_second_attempt() {
    let late = format!(
        "unless File.exist?(\"again\")\nFile.write(\"again\", \"\")\nraise \"not yet\"\nend\n{}",
        named("late")
    );
    // It would not start before the other one has had its `boot_timeout`, and then not at all.
    let several = by_host(&[("late", &late), ("hanging", "sleep")]).start();
    several.get("late.test", "/").expect(200);
}

#[test]
fn a_stop_does_not_wait_for_an_application_that_has_never_served() {
    let several = by_host(&[("sound", &named("sound")), ("hanging", "sleep")])
        .setting("drain_timeout", "1h")
        .setting("request_timeout", "1h")
        .start();
    several.get("sound.test", "/").expect(200);
    let mut waiting = several.ask("hanging.test", "/");
    until("it waits", || {
        several.status("hanging")["queue"]["length"] == 1
    });
    several.server.stop();
    waiting.response().expect(503);
}

#[test]
fn attempts_without_a_folder_do_not_claim_that_another_generation_serves() {
    let several = by_host(&[("gone", &named("gone")), ("other", &named("other"))]);
    std::fs::remove_dir_all(several.application("gone").path()).expect("a folder");
    let several = several.start();
    let log = several.server.log();
    let failed = log.wait(|line| line.contains("trying again in 2 s"));
    assert!(failed.contains("cannot open the folder"), "{failed}");
    assert!(!log.text().contains("continues to serve"), "{}", log.text());
}

#[test]
fn a_stop_gives_requests_the_drain_timeout_of_their_application() {
    let slow = "run lambda { |env| Test.pass(\"work\", \"call\"); Test.text(\"slow\") }";
    let several = by_host(&[("slow", slow), ("other", &named("other"))])
        .keys("slow", "drain_timeout = \"1h\"")
        .keys("other", "drain_timeout = \"0s\"");
    let slow = several.application("slow");
    let (mut events, gate) = (slow.events(), slow.gate("work"));
    let several = several.start_all();
    let mut running = several.ask("slow.test", "/");
    assert_eq!(events.wait(), "call");
    several.server.process().signal(Signal::TERM);
    let line = several.server.log().wait(|line| line.contains("draining"));
    assert!(line.contains("at most 3600s"), "{line}");
    gate.admit(1);
    running.response().expect(200);
    several.server.wait_end();
}

#[test]
fn a_stop_gives_hijacked_connections_the_time_of_their_application() {
    for front_threads in ["1", "2"] {
        let several = by_host(&[("brief", HIJACKS), ("long", HIJACKS)])
            .keys("brief", "websocket_drain_timeout = \"100ms\"")
            .keys("long", "websocket_drain_timeout = \"1h\"")
            .setting("front_threads", front_threads)
            .setting("drain_timeout", "1h")
            .start_all();
        let mut brief = [several.hijack("brief.test"), several.hijack("brief.test")];
        let mut long = [several.hijack("long.test"), several.hijack("long.test")];
        several.server.process().signal(Signal::TERM);
        brief.iter_mut().for_each(Client::expect_end);
        for one in &mut long {
            one.send("still here\n");
            assert_eq!(one.bytes(11), b"still here\n");
        }
        drop(long);
        several.server.wait_end();
    }
}

#[test]
fn a_restart_of_all_does_not_wait_for_one_that_never_came_up() {
    let several = by_host(&[("hanging", "sleep"), ("sound", &named("sound"))]).start();
    several.get("sound.test", "/").expect(200);
    let folder = several.server.dir().to_owned();
    let restarting = std::thread::spawn(move || {
        test_support::Program::highball(["restart"])
            .current_dir(folder)
            .run()
    });
    until("the other one is restarted", || {
        let generation = &several.status("sound")["generations"][0];
        generation["number"] == 2 && generation["state"] == "serving"
    });
    several.server.process().signal(Signal::TERM);
    let restarting = restarting.join().expect("the command ends");
    let output = restarting.output();
    assert!(
        output.contains("hanging: generation 1 is starting, for at most"),
        "{output}"
    );
}

#[test]
fn an_upgrade_does_not_wait_for_an_application_that_hangs_at_its_start() {
    let mut several = by_host(&[("hanging", "sleep"), ("sound", &named("sound"))]).start();
    several.get("sound.test", "/").expect(200);
    let ran = several.server.command(&["upgrade"]);
    assert_eq!(ran.status.code(), Some(0), "{}", ran.output());
    assert!(!ran.output().contains("hanging"), "{}", ran.output());
    several.server.replaced_by(ran.process());
    several.get("sound.test", "/").expect(200);
}

#[test]
fn a_restart_serves_the_public_folder_of_the_new_release() {
    let releases = ["old", "new"].map(|text| {
        let release = Application::new(&named(text));
        release.dir().write("public/a.txt", text);
        release
    });
    let folder = test_support::Directory::new();
    let link = folder.join("current");
    let move_to = |release: &Application| {
        let _ = std::fs::remove_file(&link);
        std::os::unix::fs::symlink(release.path(), &link).expect("a folder of our own");
    };
    move_to(&releases[0]);
    let server = Application::new("");
    let file = format!(
        "workers = 1\nthreads = 1\n[[application]]\nname = \"shop\"\npath = \"{}\"\npublic_files = \"public\"\n",
        link.display()
    );
    let server = test_support::Server::application_of(server).settings_file(&file);
    let server = server.start();
    let text = || server.get("/a.txt").expect(200).text().to_owned();
    assert_eq!(text(), "old");
    move_to(&releases[1]);
    // Files are those of the code that serves.
    assert_eq!(text(), "old");
    let ran = server.command(&["restart"]);
    assert!(ran.status.success(), "{}", ran.output());
    assert_eq!(text(), "new");
}

#[test]
fn a_server_whose_applications_all_fail_does_not_start() {
    let applications = vec![
        Application::new("raise 'first reason'"),
        Application::new("raise 'second reason'"),
    ];
    let tables = [
        ("one", "hosts = [\"one.test\"]"),
        ("two", "hosts = [\"two.test\"]"),
    ];
    let folder = Application::new("");
    folder
        .dir()
        .write("highball.toml", settings_file(&applications, &tables));
    let program = test_support::Program::highball(["serve", "--listen", "127.0.0.1:0"]);
    let ran = program.current_dir(folder.path()).run();
    assert_eq!(ran.status.code(), Some(1), "{}", ran.output());
    assert!(
        ran.stderr.contains("no application came up"),
        "{}",
        ran.output()
    );
    assert!(
        ran.stderr.contains(" reason (RuntimeError)"),
        "{}",
        ran.output()
    );
}

#[test]
fn a_restart_of_one_application_leaves_the_others_alone() {
    let several = one_and_two();
    let before = several.processes("two");
    let ran = several.server.command(&["restart", "--application", "one"]);
    assert!(ran.status.success(), "{}", ran.output());
    assert!(
        ran.stdout.starts_with("one: generation 2 serves"),
        "{}",
        ran.output()
    );
    assert_eq!(several.processes("two"), before);
    let ran = several.server.command(&["restart"]);
    assert!(ran.status.success(), "{}", ran.output());
    assert!(
        ran.stdout.contains("one: generation 3 serves"),
        "{}",
        ran.output()
    );
    assert!(
        ran.stdout.contains("two: generation 2 serves"),
        "{}",
        ran.output()
    );
    let ran = several
        .server
        .command(&["restart", "--application", "three"]);
    assert_eq!(ran.status.code(), Some(1), "{}", ran.output());
    assert!(
        ran.stderr
            .contains("there is no application three; there are one, two"),
        "{}",
        ran.output()
    );
    let ran = several
        .server
        .command(&["restart", "--application", "\u{1b}[31mred"]);
    let output = ran.output();
    assert!(output.contains("no application \\u{1b}[31mred"), "{output}");
    assert!(!output.contains('\u{1b}'), "{output}");
    several.applications[1].dir().write("tmp/restart.txt", "");
    several
        .server
        .log()
        .wait(|line| line.contains("restart of two requested"));
    until("it is restarted", || {
        several.status("two")["generations"][0]["number"] == 3
    });
    until("no other is", || {
        several.status("one")["generations"][0]["number"] == 3
    });
}

#[test]
fn a_reload_changes_one_application_and_names_it() {
    let several = one_and_two();
    let before = several.processes("two");
    let tables = [
        ("one", "hosts = [\"one.test\"]\nthreads = 2"),
        ("two", "hosts = [\"two.test\"]\nqueue_limit = 9"),
    ];
    let file = settings_file(&several.applications, &tables);
    several
        .server
        .application()
        .dir()
        .write("highball.toml", file);
    let ran = several.server.command(&["reload"]);
    assert!(ran.status.success(), "{}", ran.output());
    for part in [
        "one: threads: 1 -> 2",
        "two: queue_limit: 256 -> 9",
        "one: generation 2 serves",
    ] {
        assert!(ran.stdout.contains(part), "{part}: {}", ran.output());
    }
    assert_eq!(several.processes("two"), before);
    assert_eq!(several.status("two")["queue"]["limit"], 9);
    let file = settings_file(&several.applications[..1], &tables);
    several
        .server
        .application()
        .dir()
        .write("highball.toml", file);
    let ran = several.server.command(&["reload"]);
    assert!(
        ran.stdout.contains("not applied: needs highball upgrade"),
        "{}",
        ran.output()
    );
    several.get("two.test", "/").expect(200);
}

#[test]
fn status_and_log_name_each_application() {
    let [one, two] = [named("one"), named("two")];
    let several = start(&[
        ("one", &one, "hosts = [\"one.test\"]"),
        ("two", &two, "hosts = [\"*.two.test\"]\nprefix = \"/two\""),
    ]);
    several.get("one.test", "/asked").expect(200);
    let log = several.server.log();
    log.wait(|line| line.contains("application=one method=GET path=\"/asked\""));
    for name in ["one", "two"] {
        log.wait(|line| {
            line.contains(&format!("application={name}")) && line.contains("the application serves")
        });
    }
    let ran = several.server.command(&["status"]);
    let folder = several.applications[1].path().display();
    for part in [
        "\none: one.test, ".to_owned(),
        format!("\ntwo: *.two.test/two, {folder} (staging)\n"),
    ] {
        assert!(ran.stdout.contains(&part), "{part}: {}", ran.output());
    }
    assert_eq!(several.status("one")["counters"]["ok"], 1);
    assert_eq!(several.status("two")["counters"]["ok"], 0);
    let status = several.server.status();
    assert_eq!(status.number("/counters/ok"), 1);
    assert_eq!(status.processes("worker").len(), 2);
}

#[test]
fn an_upgrade_under_load_takes_all_applications_along() {
    let (one, two) = (named("one"), named("two"));
    let broken = "raise 'it never boots'";
    let mut several = by_host(&[("one", &one), ("two", &two), ("broken", broken)]).start();
    let both = |status: Value| {
        let serves = |at: usize| status["applications"][at]["generations"][0]["state"] == "serving";
        serves(0) && serves(1)
    };
    until("both serve", || both(several.server.status().0));
    let (over, asked, wrong) = (
        AtomicBool::new(false),
        AtomicUsize::new(0),
        AtomicUsize::new(0),
    );
    let address = several.server.address();
    let ran = std::thread::scope(|scope| {
        for host in ["one.test", "two.test"] {
            let (over, asked, wrong) = (&over, &asked, &wrong);
            scope.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    let mut client = Client::connect(address);
                    client.send(format!(
                        "GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
                    ));
                    wrong.fetch_add(
                        usize::from(client.response().status() != 200),
                        Ordering::Relaxed,
                    );
                    asked.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let ran = several.server.command(&["upgrade"]);
        let before = asked.load(Ordering::Relaxed);
        until("the new server was asked", || {
            asked.load(Ordering::Relaxed) > before + 50
        });
        over.store(true, Ordering::Relaxed);
        ran
    });
    assert_eq!(ran.status.code(), Some(0), "{}", ran.output());
    assert_eq!(wrong.load(Ordering::Relaxed), 0);
    let old = several.server.replaced_by(ran.process());
    assert!(old.wait_gone(test_support::TEST_TIMEOUT));
    for name in ["one", "two"] {
        assert_eq!(several.status(name)["generations"][0]["number"], 2);
    }
}

#[test]
fn a_restart_closes_the_hijacked_connections_of_its_application_alone() {
    for front_threads in ["1", "2"] {
        let several = by_host(&[("one", HIJACKS), ("two", HIJACKS)])
            .setting("front_threads", front_threads)
            .setting("websocket_drain_timeout", "100ms")
            // A test that waits for it fails.
            .setting("drain_timeout", "1h")
            .start_all();
        // They alternate between the threads: each application has one at each.
        let mut ones = [several.hijack("one.test"), several.hijack("one.test")];
        let mut twos = [several.hijack("two.test"), several.hijack("two.test")];
        let ran = several.server.command(&["restart", "--application", "two"]);
        assert!(ran.status.success(), "{}", ran.output());
        for two in &mut twos {
            two.expect_end();
        }
        for one in &mut ones {
            one.send("still here\n");
            assert_eq!(one.bytes(11), b"still here\n");
        }
    }
}

#[test]
fn a_check_loads_each_application_and_names_those_that_fail() {
    let applications = vec![
        Application::new(&named("good")),
        Application::new("raise 'broken'"),
    ];
    let tables = [
        ("good", "hosts = [\"good.test\"]\nthreads = 2"),
        ("bad", "prefix = \"/bad\""),
    ];
    let folder = Application::new("");
    folder
        .dir()
        .write("highball.toml", settings_file(&applications, &tables));
    let program = test_support::Program::highball(["check"]);
    let ran = program.current_dir(folder.path()).run();
    assert_eq!(ran.status.code(), Some(1), "{}", ran.output());
    for part in [
        "application good: ",
        "for good.test\n  threads  2\n",
        "good loads in ",
        "for any host/bad",
    ] {
        assert!(ran.stdout.contains(part), "{part}: {}", ran.output());
    }
    assert!(
        ran.stderr
            .contains("bad: the application did not boot: broken"),
        "{}",
        ran.output()
    );
}
