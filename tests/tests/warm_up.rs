//! `warm_up = "frequent"`: which pages the next generation requests before it serves, and which never.

use highball_tests::several;
use serde_json::Value;
use test_support::{Application, Server, ServerBuilder, until};

/// Writes down what is requested in the template; `/warmed` answers with that. Pages are public, some in part.
const SOURCE: &str = r##"
loader, warmed = Process.pid, []
run lambda { |env|
  path = env["PATH_INFO"]
  if Process.pid == loader
    warmed << path
    raise "not at the start" if path == "/raises"
  end
  env["sinatra.route"] = "GET /users/:id" if path.start_with?("/users/")
  headers = { "/sets" => { "set-cookie" => "a=b" }, "/secret" => { "cache-control" => "private, no-store" } }
  next Test.text(warmed.join(" ")) if path == "/warmed"

  Test.text("ok", status: path == "/missing" ? 404 : 200, headers: headers.fetch(path, {}))
}"##;

fn builder() -> ServerBuilder {
    Server::application_of(Application::without_lint(SOURCE))
        .workers(1)
        .threads(1)
}

fn start() -> Server {
    builder().setting("warm_up", "frequent").start()
}

/// The paths that the status names, the most frequent first.
fn frequent(server: &Server) -> Vec<String> {
    paths(&server.status().0)
}

fn paths(status: &Value) -> Vec<String> {
    let all = status["frequent_paths"].as_array();
    let paths = all.into_iter().flatten();
    paths
        .map(|one| one["path"].as_str().expect("a path").to_owned())
        .collect()
}

/// Requests a page so often over one connection.
fn ask(server: &Server, times: usize, path: &str) {
    let mut client = server.connect();
    for _ in 0..times {
        client.get(path).expect(200);
    }
}

/// Waits until the server has counted these pages, and no others.
#[track_caller]
fn until_counted(server: &Server, expect: &[&str]) {
    until("the pages are counted", || frequent(server) == expect);
}

#[track_caller]
fn restart(server: &Server) {
    let ran = server.command(&["restart"]);
    assert!(ran.status.success(), "{}", ran.output());
}

/// What was requested in the template of the generation that serves.
#[track_caller]
fn warmed(server: &Server) -> String {
    server.get("/warmed?1").expect(200).text()
}

#[test]
fn a_new_generation_requests_what_clients_ask_for() {
    let server = start();
    ask(&server, 4, "/a");
    ask(&server, 9, "/b");
    ask(&server, 1, "/once");
    until_counted(&server, &["/b", "/a"]);
    assert_eq!(warmed(&server), "");
    let page = server.command(&["status"]).stdout;
    let says = "warm_up: the next generation requests /b, /a\n";
    assert!(page.contains(says), "{page}");
    restart(&server);
    assert_eq!(warmed(&server), "/b /a");
    let page = server.command(&["status"]).stdout;
    assert!(page.contains(", warm_up 2 pages in 0."), "{page}");
    // What it has learnt stays for the next one.
    restart(&server);
    assert_eq!(warmed(&server), "/b /a");
}

#[test]
fn pages_that_are_not_for_everybody_are_never_requested() {
    let application = Application::without_lint(SOURCE);
    application.dir().write("public/file.txt", "a file");
    let server = Server::application_of(application)
        .workers(1)
        .threads(1)
        .setting("public_files", "public")
        .setting("warm_up", "frequent")
        .start();
    let mut client = server.connect();
    for _ in 0..3 {
        for (path, field) in [
            ("/with-cookie", "Cookie: session=1"),
            ("/with-password", "Authorization: Basic YTpi"),
            ("/sets", "X-Plain: 1"),
            ("/secret", "X-Plain: 1"),
            ("/missing", "X-Plain: 1"),
            ("/query?token=secret", "X-Plain: 1"),
            ("/file.txt", "X-Plain: 1"),
        ] {
            let request = format!("GET {path} HTTP/1.1\r\nHost: test\r\n{field}\r\n\r\n");
            client.send(request).response();
        }
        client.post("/posted", "a=b").expect(200);
        client.ask("HEAD", "/head").response_to("HEAD").expect(200);
        client.ask("DELETE", "/deleted").response().expect(200);
    }
    // On the same connection and in the same thread: what came before has been counted.
    for _ in 0..2 {
        client.get("/public").expect(200);
    }
    until_counted(&server, &["/public"]);
    restart(&server);
    assert_eq!(warmed(&server), "/public");
    assert!(!server.status().0.to_string().contains("token"));
}

#[test]
fn a_route_is_requested_by_one_path_that_was_asked_for_twice() {
    let server = start();
    let mut client = server.connect();
    for id in [1, 2, 3, 4, 4, 5, 6] {
        client.get(&format!("/users/{id}")).expect(200);
    }
    until("all are counted", || {
        server.status().0["frequent_paths"][0]["requests"] == 7
    });
    assert_eq!(frequent(&server), ["/users/4"]);
    restart(&server);
    assert_eq!(warmed(&server), "/users/4");
}

#[test]
fn a_flood_of_paths_displaces_no_frequent_page() {
    let server = start();
    ask(&server, 50, "/a");
    let mut client = server.connect();
    for number in 0..1000 {
        client.get(&format!("/flood/{number}")).expect(200);
    }
    for number in 0..100 {
        let path = format!("/twice/{number}");
        for _ in 0..2 {
            client.get(&path).expect(200);
        }
    }
    ask(&server, 3, "/a");
    until("all are counted", || {
        server.status().0["frequent_paths"][0]["requests"] == 53
    });
    let all = frequent(&server);
    assert_eq!(all[0], "/a");
    assert!(all.len() <= 20, "{all:?}");
    restart(&server);
    let all = warmed(&server);
    assert!(all.starts_with("/a"), "{all}");
    assert!(all.split(' ').count() <= 20, "{all}");
    assert!(!all.contains("/flood/"), "{all}");
}

#[test]
fn without_the_setting_nothing_is_counted_or_requested() {
    let server = builder().setting("warm_up", "/listed").start();
    assert_eq!(warmed(&server), "/listed");
    ask(&server, 5, "/a");
    restart(&server);
    assert_eq!(warmed(&server), "/listed");
    assert_eq!(server.status().0["frequent_paths"], Value::Null);
}

#[test]
fn pages_are_forgotten_when_the_setting_goes() {
    let file = |warm_up: &str| format!("workers = 1\nthreads = 1\nwarm_up = {warm_up}\n");
    let server = Server::application_of(Application::without_lint(SOURCE))
        .settings_file(&file("[\"/listed\", \"frequent\"]"))
        .start();
    ask(&server, 3, "/a");
    ask(&server, 5, "/listed");
    until_counted(&server, &["/listed", "/a"]);
    restart(&server);
    assert_eq!(warmed(&server), "/listed /a");
    let reload = |warm_up: &str| {
        let application = server.application();
        application.dir().write("highball.toml", file(warm_up));
        let ran = server.command(&["reload"]);
        assert!(ran.status.success(), "{}", ran.output());
    };
    reload("\"none\"");
    assert_eq!(warmed(&server), "");
    assert!(frequent(&server).is_empty());
    reload("\"frequent\"");
    assert_eq!(warmed(&server), "");
}

#[test]
fn a_frequent_page_that_fails_stops_no_restart() {
    let server = start();
    ask(&server, 5, "/raises");
    ask(&server, 3, "/a");
    until_counted(&server, &["/raises", "/a"]);
    restart(&server);
    let log = server.log();
    log.wait(|line| line.contains("warm_up: /raises failed: RuntimeError: not at the start"));
    assert_eq!(warmed(&server), "/raises /a");
}

#[test]
fn an_upgrade_takes_the_frequent_pages_along() {
    let mut server = start();
    ask(&server, 5, "/a");
    ask(&server, 3, "/b");
    until_counted(&server, &["/a", "/b"]);
    let ran = server.command(&["upgrade"]);
    assert!(ran.status.success(), "{}", ran.output());
    server.replaced_by(ran.process());
    assert_eq!(warmed(&server), "/a /b");
    assert_eq!(frequent(&server), ["/a", "/b"]);
}

#[test]
fn each_application_has_its_own_frequent_pages() {
    let keys = |host: &str| format!("hosts = [\"{host}.test\"]\nwarm_up = \"frequent\"");
    let several = several::start(&[
        ("shop", SOURCE, &keys("shop")),
        ("wiki", SOURCE, &keys("wiki")),
    ]);
    for (host, path) in [("shop.test", "/goods"), ("wiki.test", "/page")] {
        for _ in 0..3 {
            several.get(host, path).expect(200);
        }
    }
    until("both are counted", || {
        ["shop", "wiki"].map(|name| paths(&several.status(name)).len()) == [1, 1]
    });
    restart(&several.server);
    let warmed = |host| several.get(host, "/warmed?1").expect(200).text();
    assert_eq!(warmed("shop.test"), "/goods");
    assert_eq!(warmed("wiki.test"), "/page");
}

#[test]
fn check_says_that_a_restart_requests_more() {
    let application = Application::without_lint(SOURCE);
    let check = |warm_up: &str| {
        let program = test_support::Program::highball(["check", "-e", "production"]);
        let program = program.arg(application.path());
        let ran = program.env("HIGHBALL_WARM_UP", warm_up).run();
        assert!(ran.status.success(), "{}", ran.output());
        ran.stdout
    };
    let text = check("/a,frequent");
    assert!(text.contains("  warm_up      1 page in 0."), "{text}");
    assert!(text.contains("1 listed, 0 frequent"), "{text}");
    assert!(text.contains("note: a restart also requests"), "{text}");
    let text = check("none");
    assert!(!text.contains("note: a restart"), "{text}");
}
