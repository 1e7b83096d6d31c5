//! Error pages of the application's folder, and maintenance: what clients get from the server itself, also while no worker
//! serves.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use test_support::{Client, Response, Server, ServerBuilder, until};

const BROWSER: &str = "accept: text/html,application/xhtml+xml,*/*;q=0.8\r\n";

/// Its workers die at their start while there is a file `broken`.
const HOOKS: &str = "after_fork { exit!(1) if File.exist?(\"broken\") }\n";

/// Answers with the path; raises, exits, never ends or answers with 500 where that says so.
const APPLICATION: &str = r##"
run lambda { |env|
  case env["PATH_INFO"]
  when "/raise" then raise "boom"
  when "/exit" then Process.kill(:KILL, Process.pid)
  when "/late" then sleep
  when "/own" then next [500, { "content-type" => "text/plain" }, ["the application's own"]]
  end
  Test.text(env["PATH_INFO"])
}"##;

/// The application with these files in its folder.
fn with_files(files: &[(&str, &str)]) -> ServerBuilder {
    let builder = Server::app(APPLICATION);
    let files = files.iter().chain(&[("config/highball.rb", HOOKS)]);
    for (path, text) in files {
        let path = builder.application().path().join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    }
    builder
}

fn request(server: &Server, method: &str, path: &str, fields: &str) -> Response {
    let mut client: Client = server.connect();
    client.send(format!(
        "{method} {path} HTTP/1.1\r\nhost: test\r\n{fields}\r\n"
    ));
    client.response_to(method)
}

fn get(server: &Server, path: &str, fields: &str) -> Response {
    request(server, "GET", path, fields)
}

/// Waits until a GET of `/` is answered with this status; a server looks at its files once a second.
fn wait_status(server: &Server, status: u16) {
    until("the files are seen", || server.get("/").status() == status);
}

#[test]
fn browsers_get_the_pages_of_the_folder_and_others_text() {
    let pages = [
        ("public/500.html", "<h1>our 500</h1>"),
        ("public/502.html", "<h1>our 502</h1>"),
        ("public/405.html", "<h1>our 405</h1>"),
    ];
    let server = with_files(&pages).start();
    let page = get(&server, "/raise", BROWSER);
    assert_eq!(
        (page.status(), page.text().as_str()),
        (500, "<h1>our 500</h1>")
    );
    assert_eq!(page.field("content-type"), Some("text/html; charset=utf-8"));
    assert!(page.field("x-request-id").is_some());
    let head = request(&server, "HEAD", "/raise", BROWSER);
    assert_eq!((head.status(), head.body.len()), (500, 0));
    assert_eq!(head.field("content-length"), Some("16"));
    for accept in [
        "",
        "accept: */*\r\n",
        "accept: text/html;q=0, application/json\r\n",
    ] {
        let response = get(&server, "/raise", accept);
        assert_eq!(response.text(), "500 Internal Server Error\n", "{accept}");
    }
    // What the application answers is its own.
    assert_eq!(
        get(&server, "/own", BROWSER).text(),
        "the application's own"
    );
    assert_eq!(
        request(&server, "TRACE", "/", BROWSER).text(),
        "<h1>our 405</h1>"
    );
    assert_eq!(
        request(&server, "POST", "/exit", BROWSER).text(),
        "<h1>our 502</h1>"
    );
    server.stop();
}

#[test]
fn the_page_of_503_is_there_while_no_worker_serves() {
    let server = with_files(&[("public/503.html", "soon")]).start();
    // What kills each worker as soon as it starts.
    fs::write(server.dir().join("broken"), "").expect("a file");
    server.status().processes("worker")[0].kill();
    server
        .log()
        .wait(|line| line.contains("no worker can serve"));
    let response = get(&server, "/", BROWSER);
    assert_eq!((response.status(), response.text().as_str()), (503, "soon"));
    assert!(response.field("retry-after").is_some());
    assert_eq!(get(&server, "/", "").text(), "503 Service Unavailable\n");
    fs::remove_file(server.dir().join("broken")).expect("it is there");
    server
        .log()
        .wait(|line| line.contains("a worker serves again"));
    server.stop();
}

#[test]
fn the_page_of_504_is_sent_at_a_deadline() {
    let server = with_files(&[("public/504.html", "too late")])
        .threads(2)
        .setting("request_timeout", "1s")
        .start();
    let ask = |fields: &str| {
        let mut client: Client = server.connect();
        client.send(format!("GET /late HTTP/1.1\r\nhost: test\r\n{fields}\r\n"));
        client
    };
    for (mut client, text) in [
        (ask(BROWSER), "too late"),
        (ask(""), "504 Gateway Timeout\n"),
    ] {
        let response = client.response();
        assert_eq!((response.status(), response.text().as_str()), (504, text));
    }
    server.stop();
}

#[test]
fn pages_are_read_again_when_they_change() {
    let server = with_files(&[]).start();
    assert_eq!(
        get(&server, "/raise", BROWSER).text(),
        "500 Internal Server Error\n"
    );
    let public = server.dir().join("public");
    fs::create_dir(&public).expect("a folder");
    for text in ["one", "two", "three"] {
        fs::write(public.join("500.html"), text).expect("a file");
        until("the page is read", || {
            get(&server, "/raise", BROWSER).text() == text
        });
    }
    // One that cannot be sent is named in the log, and clients get text.
    fs::write(public.join("500.html"), vec![b'x'; 300 * 1024]).expect("a file");
    let line = server
        .log()
        .wait(|line| line.contains("cannot read an error page"));
    assert!(
        line.contains("500.html") && line.contains("256 KiB"),
        "{line}"
    );
    let plain = "500 Internal Server Error\n";
    until("it is given up", || {
        get(&server, "/raise", BROWSER).text() == plain
    });
    server.stop();
}

#[test]
fn pages_may_be_in_another_folder_or_off() {
    let files = [("public/500.html", "public"), ("errors/500.html", "errors")];
    for (setting, expect) in [
        ("errors", "errors"),
        ("none", "500 Internal Server Error\n"),
    ] {
        let server = with_files(&files).setting("error_pages", setting).start();
        assert_eq!(get(&server, "/raise", BROWSER).text(), expect);
        server.stop();
    }
}

#[test]
fn maintenance_begins_and_ends_with_its_file_and_needs_no_restart() {
    let server = with_files(&[("public/503.html", "our 503")]).start();
    assert_eq!(server.get("/").status(), 200);
    let tmp = server.dir().join("tmp");
    fs::create_dir(&tmp).expect("a folder");
    fs::write(tmp.join("maintenance.html"), "<p>back at ten</p>").expect("a file");
    wait_status(&server, 503);
    let response = get(&server, "/", "");
    assert_eq!(response.text(), "<p>back at ten</p>");
    assert_eq!(response.field("retry-after"), Some("60"));
    assert_eq!(response.field("cache-control"), Some("no-store"));
    assert_eq!(
        response.field("content-type"),
        Some("text/html; charset=utf-8")
    );
    fs::write(tmp.join("maintenance.json"), "{}").expect("a file");
    let json = "accept: application/json\r\n";
    until("the second form is seen", || {
        get(&server, "/", json).text() == "{}"
    });
    // A body that is not read any more does not keep the client from its answer.
    let mut client = server.connect();
    assert_eq!(client.post("/", "x".repeat(100_000)).status(), 503);
    fs::remove_file(tmp.join("maintenance.html")).expect("a file");
    fs::remove_file(tmp.join("maintenance.json")).expect("a file");
    wait_status(&server, 200);
    // An empty file shows the page of 503.
    fs::write(tmp.join("maintenance.txt"), "").expect("a file");
    wait_status(&server, 503);
    assert_eq!(get(&server, "/", BROWSER).text(), "our 503");
    assert_eq!(get(&server, "/", "").text(), "503 Service Unavailable\n");
    server.log().wait(|line| line.contains("maintenance ends"));
    server
        .log()
        .wait(|line| line.contains("outcome=maintenance"));
    assert!(server.status().number("/counters/maintenance") > 3);
    server.stop();
}

#[test]
fn maintenance_spares_some_addresses_and_paths() {
    let server = with_files(&[("tmp/maintenance.txt", "later")])
        .setting("maintenance_allow", "192.0.2.0/24")
        .setting("maintenance_except", "/assets")
        .setting("priority_paths", "/up")
        .start();
    // It is in force before the first request.
    assert_eq!(get(&server, "/", "").text(), "later");
    assert_eq!(get(&server, "/up", "").text(), "/up");
    assert_eq!(get(&server, "/assets/a.css", "").text(), "/assets/a.css");
    assert_eq!(get(&server, "/assetsx", "").status(), 503);
    let from = |addresses: &str| {
        let field = format!("x-forwarded-for: {addresses}\r\n");
        get(&server, "/", &field).status()
    };
    assert_eq!(from("192.0.2.7"), 200);
    assert_eq!(from("192.0.2.7, 127.0.0.1"), 200);
    // What a client writes itself is on the left of what its proxy writes.
    assert_eq!(from("192.0.2.7, 198.51.100.1"), 503);
    server.stop();
}

#[test]
fn clients_that_are_not_trusted_cannot_claim_another_address() {
    let server = with_files(&[("tmp/maintenance.txt", "")])
        .setting("maintenance_allow", "192.0.2.0/24")
        .setting("trusted_proxies", "none")
        .start();
    assert_eq!(
        get(&server, "/", "x-forwarded-for: 192.0.2.7\r\n").status(),
        503
    );
    server.stop();
}

#[test]
fn the_command_turns_maintenance_on_and_off() {
    let server = with_files(&[]).start();
    let command = |arguments: &[&str]| {
        let ran = server.command(&[&["maintenance"], arguments].concat());
        assert!(ran.status.success(), "{}", ran.output());
        ran.stdout
    };
    assert!(command(&["status"]).starts_with("maintenance is off"));
    assert!(command(&["on", "--message", "back <soon>"]).contains("maintenance begins"));
    wait_status(&server, 503);
    assert_eq!(get(&server, "/", "").text(), "back <soon>\n");
    assert!(
        get(&server, "/", BROWSER)
            .text()
            .contains("<p>back &lt;soon&gt;</p>")
    );
    assert!(command(&["status"]).starts_with("maintenance is on"));
    assert!(command(&["off"]).contains("maintenance ends"));
    wait_status(&server, 200);
    assert!(command(&["off"]).contains("there was no maintenance"));
    assert!(!Path::new(&server.dir().join("tmp/maintenance.html")).exists());
    server.stop();
}

#[test]
fn a_maintenance_file_that_cannot_be_read_counts_all_the_same() {
    let builder = with_files(&[("tmp/other.txt", "")]);
    let tmp = builder.application().path().join("tmp");
    symlink("/dev/zero", tmp.join("maintenance.txt")).expect("a link");
    let server = builder.start();
    assert_eq!(get(&server, "/", "").status(), 503);
    server
        .log()
        .wait(|line| line.contains("cannot read the maintenance file"));
    server.stop();
}
