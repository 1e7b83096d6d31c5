//! A signal that must not end the front, and what it owes the kernel as the first process of a container.

use rustix::process::Signal;
use test_support::{Application, Program, Server, ServerBuilder, until};

fn hello() -> ServerBuilder {
    Server::app(r##"run lambda { |env| Test.text("hello") }"##)
}

#[test]
fn hup_is_ignored_where_the_server_was_started_so() {
    let server = hello().under(&["nohup"]).start();
    let mut client = server.connect();
    client.get("/").expect(200);
    server.process().signal(Signal::HUP);
    // Comes later than the one before.
    server.process().signal(Signal::USR1);
    server.log().wait(|line| line.contains("USR1"));
    client.get("/").expect(200);
    server.get("/").expect(200);
    let stopped = server.stop();
    assert!(stopped.status.success());
    let drains = |line: &&String| line.contains("draining");
    assert_eq!(stopped.log.iter().filter(drains).count(), 1);
}

#[test]
fn hup_has_the_settings_read_again() {
    let server = hello().settings_file("max_body_bytes = 10\n").start();
    server.connect().post("/", "01234567890").expect(413);
    server
        .application()
        .dir()
        .write("highball.toml", "max_body_bytes = 20\n");
    server.process().signal(Signal::HUP);
    let line = server
        .log()
        .wait(|line| line.contains("read the settings again: "));
    assert!(line.contains("max_body_bytes"), "{line}");
    server.connect().post("/", "01234567890").expect(200);
    let stopped = server.stop();
    let reloads = |line: &&String| line.contains("reload requested (signal HUP)");
    assert_eq!(stopped.log.iter().filter(reloads).count(), 1);
}

#[test]
fn hup_has_a_log_file_that_was_renamed_opened_again() {
    let server = hello().setting("log_file", "server.log").start();
    let folder = server.dir().to_owned();
    let log = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap_or_default();
    server.get("/before").expect(200);
    until("the request is logged", || {
        log("server.log").contains("/before")
    });
    let renamed = std::fs::rename(folder.join("server.log"), folder.join("server.log.1"));
    renamed.expect("the file is there");
    server.process().signal(Signal::HUP);
    until("the reload is logged", || {
        log("server.log").contains("read the settings again")
    });
    server.get("/after").expect(200);
    until("the request is logged", || {
        log("server.log").contains("/after")
    });
    assert!(!log("server.log.1").contains("/after"));
}

/// The server as the first process of a process namespace, as in a container.
const FIRST_PROCESS: [&str; 5] = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"];

#[test]
fn as_the_first_process_the_front_reaps_orphans_but_not_its_template() {
    let possible = FIRST_PROCESS[1..]
        .iter()
        .fold(Program::new(FIRST_PROCESS[0]), Program::arg)
        .arg("true")
        .run();
    assert!(
        possible.status.success(),
        "this test needs a process namespace of its own, so root or CAP_SYS_ADMIN: {}",
        possible.output()
    );
    let application = Application::new(
        r##"run lambda { |env|
          next Test.text("hello") if env["PATH_INFO"] == "/"
          Process.wait(fork { fork { Test.pass("end"); exit!(0) }; exit!(0) })
          Test.text("orphaned")
        }"##,
    );
    let (mut events, gate) = (application.events(), application.gate("end"));
    let server = Server::application_of(application)
        .under(&FIRST_PROCESS)
        .start();
    let front = server.process().children()[0];
    server.get("/orphan").expect(200);
    assert_eq!(events.wait(), "at end");
    let mut orphan = None;
    until("the orphan has a new parent", || {
        let mut children = front.children().into_iter();
        orphan = children.find(|child| child.children().is_empty());
        orphan.is_some()
    });
    let orphan = orphan.expect("it was found");
    gate.admit(1);
    until("the orphan is reaped", || !orphan.exists());
    // Workers of a template that dies are orphans as well; the log still says how it died itself.
    let template = front.children()[0];
    let worker = template.children()[0];
    template.kill();
    server.log().wait(|line| line.contains("signal 9 (KILL)"));
    worker.kill();
    until("the worker is reaped", || !worker.exists());
    server.get("/").expect(200);
    assert!(server.command(&["stop"]).status.success());
    assert!(server.wait_end().status.success());
}
