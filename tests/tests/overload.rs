//! Row 36 of the list of faults, and what the server promises when there is more to do than it can: health checks pass,
//! slow paths leave threads for others, nothing waits for workers that do not come, and every request has one outcome.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use test_support::{Application, Client, Gated, Server, ServerBuilder, until};

// ===== no worker =====

/// Loads unless there is a file `unbootable`; its workers end at once while there is a file `broken`.
fn fragile() -> Application {
    let application = Application::without_lint(
        r##"exit!(8) if File.exist?("unbootable")
        run lambda { |env|
          Test.pass("work", "called") if env["PATH_INFO"] == "/busy"
          Test.text("hello")
        }"##,
    );
    let hooks = r##"after_fork { exit!(9) if File.exist?("broken") }"##;
    application.dir().write("config/highball.rb", hooks);
    application
}

/// Asserts a 503 of a server without workers, which says when to come again.
#[track_caller]
fn expect_retry(client: &mut Client) {
    let response = client.response();
    let seconds = response.expect(503).field("retry-after").map(str::parse);
    assert!(matches!(seconds, Some(Ok(1..=30_u32))), "{response:?}");
}

#[track_caller]
fn expect_logged(server: &Server, path: &str, outcome: &str) {
    let path = format!("path=\"{path}\"");
    let outcome = format!("outcome={outcome}");
    server
        .log()
        .wait(|line| line.contains(&path) && line.ends_with(&outcome));
}

#[test]
fn row_36_while_every_worker_dies_at_its_start_requests_get_503_until_one_serves_again() {
    let application = fragile();
    let (mut events, _gate) = (application.events(), application.gate("work"));
    let server = Server::application_of(application).start();
    let mut busy = server.ask("POST", "/busy");
    events.wait();
    let mut waiting = server.connect();
    waiting.send("GET /waiting HTTP/1.1\r\nHost: a\r\n\r\n");
    until("one is in the queue", || {
        server.status().number("/queue/length") == 1
    });
    server.application().dir().write("broken", "");
    server.status().processes("worker")[0].kill();
    busy.response().expect(502);
    // It waited for as long as there was hope.
    expect_retry(&mut waiting);
    expect_logged(&server, "/waiting", "no_worker");
    let line = server
        .log()
        .wait(|line| line.contains("no worker can serve"));
    assert!(line.contains("level=warn"), "{line}");
    waiting.send("GET /later HTTP/1.1\r\nHost: a\r\n\r\n");
    expect_retry(&mut waiting);
    expect_logged(&server, "/later", "no_worker");
    assert!(server.status().number("/next_start_s") >= 1);
    let page = server.command(&["status"]);
    assert!(
        page.stdout.contains("no worker can serve"),
        "{}",
        page.output()
    );
    std::fs::remove_file(server.dir().join("broken")).expect("it is there");
    server
        .log()
        .wait(|line| line.contains("a worker serves again"));
    waiting.get("/").expect(200);
    assert!(server.status().0["next_start_s"].is_null());
}

#[test]
fn row_36_while_the_application_does_not_load_and_no_worker_is_left_requests_get_503() {
    let server = Server::application_of(fragile()).workers(2).start();
    server.application().dir().write("unbootable", "");
    server.status().processes("template")[0].kill();
    server.log().wait(|line| line.contains("; retrying"));
    // The workers go on by themselves.
    server.get("/").expect(200);
    for worker in server.status().processes("worker") {
        worker.kill();
    }
    expect_outage_until_gone(&server, "unbootable");
}

/// Asserts that requests are refused with the time of the next attempt, and that one is served again once this file of the
/// application is gone.
#[track_caller]
fn expect_outage_until_gone(server: &Server, file: &str) {
    server
        .log()
        .wait(|line| line.contains("no worker can serve"));
    let mut client = server.connect();
    client.send("GET /down HTTP/1.1\r\nHost: a\r\n\r\n");
    expect_retry(&mut client);
    expect_logged(server, "/down", "no_worker");
    std::fs::remove_file(server.dir().join(file)).expect("it is there");
    server
        .log()
        .wait(|line| line.contains("a worker serves again"));
    client.get("/").expect(200);
}

#[test]
fn row_36_while_no_worker_can_be_forked_requests_get_503_and_the_template_goes_on() {
    let application = Application::without_lint(r##"run ->(_) { Test.text("hello") }"##);
    let hooks = r##"before_fork { exit if File.exist?("unforkable") }"##;
    application.dir().write("config/highball.rb", hooks);
    let server = Server::application_of(application).start();
    let template = server.status().processes("template")[0].0;
    server.application().dir().write("unforkable", "");
    server.status().processes("worker")[0].kill();
    let refused = |line: &str| line.contains("worker 0 cannot be forked: SystemExit: exit");
    server.log().wait(refused);
    expect_outage_until_gone(&server, "unforkable");
    assert_eq!(server.status().processes("template")[0].0, template);
}

// ===== priority and shares =====

/// Each request waits at the gate that its path names, after an event with its path; `/` answers at once.
const WAITING: &str = r##"run lambda { |env|
  Test.pass("work", env["PATH_INFO"]) unless env["PATH_INFO"] == "/"
  Test.text(env["PATH_INFO"])
}"##;

fn start(source: &str, settings: impl FnOnce(ServerBuilder) -> ServerBuilder) -> Gated {
    Gated::start(Application::without_lint(source), settings)
}

#[test]
fn a_health_check_passes_a_full_queue_and_goes_first() {
    let mut waiting = start(WAITING, |builder| {
        builder
            .setting("queue_limit", "2")
            .setting("priority_paths", "/up")
    });
    let mut clients = vec![waiting.server.ask("GET", "/first")];
    assert_eq!(waiting.events.wait(), "/first");
    clients.extend([
        waiting.server.ask("GET", "/a"),
        waiting.server.ask("GET", "/b"),
    ]);
    waiting.wait_queued(2);
    waiting.server.get("/refused").expect(503);
    let mut check = waiting.server.ask("GET", "/up/live");
    waiting.wait_queued(3);
    waiting.gate.admit(1);
    assert_eq!(waiting.events.wait(), "/up/live");
    waiting.gate.admit(1);
    check.response().expect(200);
    waiting.gate.admit(2);
    for client in &mut clients {
        client.response().expect(200);
    }
}

#[test]
fn a_slow_path_leaves_threads_for_others() {
    let mut waiting = start(WAITING, |builder| {
        builder
            .workers(2)
            .threads(2)
            .setting("path_shares", "/slow=50%,/slower=1%")
    });
    let mut clients: Vec<Client> = (0..6)
        .map(|n| waiting.server.ask("GET", &format!("/slow/{n}")))
        .collect();
    clients.extend((0..3).map(|n| waiting.server.ask("GET", &format!("/slower/{n}"))));
    let mut called = waiting.events.take(3);
    called.sort();
    assert!(
        called[0].starts_with("/slow/") && called[1].starts_with("/slow/"),
        "{called:?}"
    );
    assert!(called[2].starts_with("/slower/"), "{called:?}");
    // The fourth thread serves all others who come, however many are there.
    for _ in 0..100 {
        waiting.server.get("/").expect(200);
    }
    assert_eq!(waiting.events.rest(), [""; 0], "more than their share");
    waiting.gate.open();
    for client in &mut clients {
        client.response().expect(200);
    }
    assert_eq!(waiting.events.rest().len(), 6);
}

#[test]
fn a_rule_counts_for_its_path_however_a_client_spells_it() {
    let mut waiting = start(WAITING, |builder| {
        builder.threads(3).setting("path_shares", "/slow=33%")
    });
    let spelled = [
        "/%73low/1",
        "//slow/2",
        "/a/../slow/3",
        "/./slow/4",
        "/%2e/slow",
    ];
    let mut clients: Vec<Client> = spelled
        .iter()
        .map(|path| waiting.server.ask("GET", path))
        .collect();
    // One of them runs, as it was sent, and the others wait for it.
    let first = waiting.events.wait();
    assert!(spelled.contains(&&*first), "{first}");
    waiting.wait_queued(4);
    waiting.server.get("/").expect(200);
    assert_eq!(waiting.events.rest(), [""; 0], "more than their share");
    waiting.gate.open();
    for (client, path) in clients.iter_mut().zip(spelled) {
        assert_eq!(client.response().expect(200).text(), path);
    }
}

// ===== one outcome =====

/// What a path asks for in its first part is what happens to it; the second is the id of the request.
const ENDINGS: &str = r##"run lambda { |env|
  _, kind, id = env["PATH_INFO"].split("/")
  kill = lambda { Process.kill(:KILL, Process.pid); sleep }
  case kind
  when "raise" then raise "no"
  when "kill" then kill.call
  when "once"
    unless File.exist?("once-#{id}")
      File.write("once-#{id}", "")
      kill.call
    end
  when "gate", "late" then Test.pass("work", env["PATH_INFO"])
  when "cut" then next [200, {}, Enumerator.new { |to| to << "begun"; raise "cut" }]
  when "tear"
    next [200, {}, Enumerator.new { |to| to << "begun"; Test.pass("work", env["PATH_INFO"]); raise "torn" }]
  when "stream" then next [200, {}, Enumerator.new { |to| 100.times { |n| to << "#{n}\n" * 1000 } }]
  when "hijack"
    io = env["rack.hijack"].call
    io.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
    io.close
  end
  Test.text(id)
}"##;

/// The request of this kind and id, as it goes over the wire.
fn message(kind: &str, id: &str) -> String {
    let post = |length: usize, body: &str| {
        format!("POST /{kind}/{id} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n{body}")
    };
    match kind {
        "post" | "raise" => post(2, "ab"),
        "large" => post(1001, ""),
        "half" => post(9, "half"),
        "bad" => format!("GET /bad/{id} HTTP/1.1\r\n\r\n"),
        _ => format!("GET /{kind}/{id} HTTP/1.1\r\nHost: a\r\n\r\n"),
    }
}

/// The outcomes in a log, by path.
fn outcomes(log: &[String]) -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in log {
        if let Some((rest, outcome)) = line.split_once(" outcome=") {
            let path = rest
                .split_once("path=\"")
                .and_then(|(_, rest)| rest.split_once('"'));
            let (path, _) = path.expect("a path");
            found
                .entry(path.to_owned())
                .or_default()
                .push(outcome.to_owned());
        }
    }
    found
}

#[test]
fn each_way_in_which_a_request_can_end_is_one_line_and_one_count() {
    let mut waiting = start(ENDINGS, |builder| {
        builder
            .setting("queue_limit", "1")
            .setting("max_body_bytes", "1000")
            .setting("body_timeout", "200ms")
            .setting("request_timeouts", "/late=200ms,/hasty=200ms")
    });
    let mut expect: Vec<(String, &str)> = Vec::new();
    let mut id = 0;
    let mut send = |kind: &str, outcome| {
        id += 1;
        let mut client = waiting.server.connect();
        client.send(message(kind, &id.to_string()));
        expect.push((format!("/{kind}/{id}"), outcome));
        client
    };
    for (kind, status, outcome) in [
        ("ok", 200, "ok"),
        ("post", 200, "ok"),
        ("raise", 500, "app_error"),
        ("once", 200, "ok"),
        ("kill", 502, "worker_died"),
        ("hijack", 200, "hijacked"),
        ("large", 413, "too_large"),
        ("bad", 400, "bad_request"),
        ("half", 408, "client_timeout"),
    ] {
        send(kind, outcome).response().expect(status);
    }
    let mut torn = send("tear", "aborted");
    torn.head();
    assert_eq!(torn.chunk().as_deref(), Some(&b"begun"[..]));
    waiting.gate.admit(1);
    torn.rest();
    waiting.events.take(1);
    let mut half = send("half", "client_closed");
    half.half_close();
    half.response().expect(400);

    send("late", "deadline_exceeded").response().expect(504);
    waiting.gate.admit(1);
    waiting.events.take(1);
    // One runs and one waits from here on.
    let runs = send("gate", "client_closed");
    waiting.events.take(1);
    let waits = send("ok", "client_closed");
    until("one is in the queue", || {
        waiting.server.status().number("/queue/length") == 1
    });
    send("ok", "shed").response().expect(503);
    waits.reset();
    until("nothing is in the queue", || {
        waiting.server.status().number("/queue/length") == 0
    });
    send("hasty", "deadline_exceeded").response().expect(503);
    runs.reset();
    until("they have left", || {
        waiting.server.status().number("/counters/client_closed") == 3
    });
    waiting.gate.admit(1);

    let counters = waiting.server.status().0["counters"].clone();
    let found = outcomes(&waiting.server.stop().log);
    assert_eq!(found.len(), expect.len(), "{found:#?}");
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for (path, outcome) in &expect {
        assert_eq!(found[path], [*outcome], "{path}");
        *counts.entry(outcome).or_default() += 1;
    }
    for (outcome, count) in counters.as_object().expect("counters") {
        let expected = counts.get(outcome.as_str()).copied().unwrap_or(0);
        assert_eq!(count.as_u64(), Some(expected), "{outcome}");
    }
}

/// One request on a connection of its own, and whatever comes back.
fn request(address: SocketAddr, kind: &str, id: &str) {
    let mut client = Client::connect(address);
    client.send(message(kind, id));
    match kind {
        // It leaves when there is surely a request.
        "stream" => {
            let _ = client.try_head();
            client.reset();
        }
        "half" => {
            client.half_close();
            let _ = client.try_response("GET");
        }
        _ => drop(client.try_response("GET")),
    }
}

#[test]
fn of_mixed_traffic_while_workers_are_killed_each_request_is_logged_once() {
    const KINDS: [&str; 12] = [
        "ok", "post", "raise", "stream", "kill", "ok", "cut", "hijack", "large", "bad", "half",
        "once",
    ];
    const CLIENTS: usize = 6;
    const EACH: usize = 36;
    let server = Server::application_of(Application::without_lint(ENDINGS))
        .workers(3)
        .threads(2)
        // Now and then it is full.
        .setting("queue_limit", "1")
        .setting("max_body_bytes", "1000")
        .start();
    let address = server.address();
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            scope.spawn(move || {
                for number in 0..EACH {
                    let kind = KINDS[(number + client) % KINDS.len()];
                    request(address, kind, &format!("{client}-{number}"));
                }
            });
        }
    });
    let counted = |server: &Server| {
        let counters = server.status().0["counters"].clone();
        let counters = counters.as_object().expect("counters").values();
        counters.filter_map(|count| count.as_u64()).sum::<u64>()
    };
    until("all are counted", || {
        counted(&server) == (CLIENTS * EACH) as u64
    });
    let found = outcomes(&server.stop().log);
    assert_eq!(found.len(), CLIENTS * EACH);
    for client in 0..CLIENTS {
        for number in 0..EACH {
            let kind = KINDS[(number + client) % KINDS.len()];
            let path = format!("/{kind}/{client}-{number}");
            assert_eq!(found[&path].len(), 1, "{path}: {:?}", found[&path]);
        }
    }
}
