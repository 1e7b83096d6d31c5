//! Bounds for all clients together: what one takes is not there for another, and comes back when it leaves.

use highball_tests::several::prepared;
use test_support::{Application, Client, Server, expect_to_wait_for_client, until};

const HELLO: &str = r##"run lambda { |env| Test.text(Test.input(env).bytesize.to_s) }"##;

/// A client that has sent part of a body.
fn upload(server: &Server, sent: usize) -> Client {
    let mut client = server.connect();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n");
    client.send(vec![b'a'; sent]);
    client
}

/// Bytes of the front's files that have no name.
fn spooled(server: &Server) -> u64 {
    let folder = format!("/proc/{}/fd", server.process().0);
    let all = std::fs::read_dir(folder).expect("it runs").flatten();
    let files = all.filter(|one| {
        let target = std::fs::read_link(one.path()).unwrap_or_default();
        let target = target.to_string_lossy();
        target.ends_with("(deleted)") && !target.starts_with("/memfd:")
    });
    // Through the link, to the file itself.
    let facts = files.filter_map(|one| std::fs::metadata(one.path()).ok());
    facts.map(|facts| facts.len()).sum()
}

#[test]
fn a_body_beyond_the_spool_limit_is_refused_until_there_is_room() {
    let server = Server::app(HELLO)
        .setting("spool_max_bytes", "1MiB")
        .setting("min_body_rate", "none")
        .start();
    let mut first = upload(&server, 900_000);
    until("most of it is in its file", || spooled(&server) > 700_000);
    let refused = server.connect().post("/", vec![b'b'; 500_000]);
    refused.expect(503);
    assert!(refused.field("retry-after").is_some());
    let line = server.log().wait(|line| line.contains("spool_max_bytes"));
    assert!(line.contains("could not be stored"), "{line}");
    // What was begun goes on, and a request that needs no file is not affected.
    server.connect().post("/", vec![b'b'; 50_000]).expect(200);
    first.send(vec![b'a'; 100_000]);
    assert_eq!(first.response().text(), "1000000");
    until("there is room again", || {
        server.connect().post("/", vec![b'b'; 500_000]).status() == 200
    });
}

#[test]
fn an_application_that_fills_the_spool_leaves_room_for_others() {
    let applications = ["greedy", "modest"].map(|_| Application::new(HELLO));
    let tables = [
        ("greedy", "hosts = [\"greedy.test\"]"),
        ("modest", "hosts = [\"modest.test\"]"),
    ];
    let several = prepared(applications.into(), &tables, |builder| {
        builder
            .setting("spool_max_bytes", "1MiB")
            .setting("min_body_rate", "none")
    });
    several.until_all_serve();
    let post = |host: &str, length: usize, sent: usize| {
        let mut client = several.server.connect();
        client.send(format!(
            "POST / HTTP/1.1\r\nHost: {host}\r\nContent-Length: {length}\r\n\r\n"
        ));
        client.send(vec![b'a'; sent]);
        client
    };
    // Three pieces of 256 KiB are in its file. There is room for one more, but not for this application.
    let _first = post("greedy.test", 1_000_000, 900_000);
    until("most of it is in its file", || {
        spooled(&several.server) > 780_000
    });
    post("greedy.test", 150_000, 150_000).response().expect(503);
    post("modest.test", 150_000, 150_000).response().expect(200);
}

#[test]
fn an_application_waits_for_its_client_at_the_spool_limit() {
    expect_to_wait_for_client(|builder| {
        let builder = builder.setting("response_buffer_bytes", "64KiB");
        builder.setting("spool_max_bytes", "1MiB")
    });
}

#[test]
fn large_bodies_are_kept_in_the_folder_of_the_setting() {
    let application = Application::new(HELLO);
    let folder = application.dir().join("bodies");
    std::fs::create_dir(&folder).expect("a folder can be made");
    let server = Server::application_of(application)
        .setting("spool_dir", &folder.display().to_string())
        .start();
    let _first = upload(&server, 900_000);
    let descriptors = format!("/proc/{}/fd", server.process().0);
    until("a file is in it", || {
        let mut all = std::fs::read_dir(&descriptors).expect("it runs").flatten();
        all.any(|one| std::fs::read_link(one.path()).is_ok_and(|file| file.starts_with(&folder)))
    });
}

#[test]
fn connections_of_one_address_are_bounded_but_for_proxies() {
    let bounded = |proxies: &str| {
        Server::app(HELLO)
            .setting("max_connections_per_address", "2")
            .setting("trusted_proxies", proxies)
            .start()
    };
    let server = bounded("none");
    let (mut first, mut second) = (server.connect(), server.connect());
    first.get("/").expect(200);
    second.get("/").expect(200);
    server.connect().expect_end();
    let line = server
        .log()
        .wait(|line| line.contains("max_connections_per_address"));
    assert!(line.contains("127.0.0.1"), "{line}");
    // Both are served on, and there is room when one has left.
    first.get("/").expect(200);
    drop(second);
    until("there is room again", || {
        server.connect().try_get("/").is_ok()
    });
    let server = bounded("127.0.0.1");
    let mut all: Vec<Client> = (0..5).map(|_| server.connect()).collect();
    for client in &mut all {
        client.get("/").expect(200);
    }
}

#[test]
fn websockets_beyond_their_limit_are_refused_by_all_front_threads_until_one_has_left() {
    let source = r##"run lambda { |env|
      next Test.text("hello") if env["PATH_INFO"] == "/"
      next Test.text("no such socket", status: 404) if env["PATH_INFO"] == "/missing"
      io = env["rack.hijack"].call
      io.write("HTTP/1.1 101 Switching Protocols\r\nUpgrade: test\r\nConnection: Upgrade\r\n\r\n")
      Thread.new { io.read; io.close }
    }"##;
    let server = Server::application_of(Application::without_lint(source))
        .setting("front_threads", "2")
        .setting("max_websockets", "2")
        .start();
    let open = |path: &str| {
        let mut client = server.connect();
        client.send(format!(
            "GET {path} HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: test\r\n\r\n"
        ));
        let status = client.head().status;
        (client, status)
    };
    // An upgrade that the application does not make keeps no place.
    let others: Vec<_> = (0..4).map(|_| open("/missing")).collect();
    assert!(others.iter().all(|(_, status)| *status == 404));
    let (first, second) = (open("/socket"), open("/socket"));
    assert_eq!((first.1, second.1), (101, 101));
    for _ in 0..4 {
        assert_eq!(open("/socket").1, 503);
    }
    let line = server.log().wait(|line| line.contains("max_websockets"));
    assert!(line.contains("open=2"), "{line}");
    server.get("/").expect(200);
    drop(first);
    until("there is a place again", || open("/socket").1 == 101);
}
