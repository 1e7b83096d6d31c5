//! What a start says, in a terminal and elsewhere, and what Ctrl-C and a closed terminal do.

use test_support::{Application, Process, Program, Server, TEST_TIMEOUT, TerminalSession};

const HELLO: &str = r##"run lambda { |env| Test.text("hello") }"##;

#[test]
fn a_start_says_what_it_loads_and_then_where_it_listens() {
    let application = Application::new(&format!("Test.pass(\"load\", \"loading\")\n{HELLO}"));
    let (mut events, gate) = (application.events(), application.gate("load"));
    let terminal = TerminalSession::highball(
        application.path(),
        &["-b", "127.0.0.1:0", "-w", "1", "-t", "2", "-e", "test"],
    );
    assert_eq!(events.wait(), "loading");
    let wait = |part: &str| terminal.log().wait(|line| line.contains(part));
    wait(&format!(
        "highball {}: loading /",
        env!("CARGO_PKG_VERSION")
    ));
    // The socket is bound, but no request is accepted yet.
    assert!(!terminal.log().text().contains("listening"));
    gate.admit(1);
    let address = wait("listening on http://127.0.0.1:");
    let ready = wait("ready: 1 worker x 2 threads");
    assert!(
        ready.contains(", ruby ") && ready.contains(", pid "),
        "{ready}"
    );
    let (_, port) = address.split_once("127.0.0.1:").expect("an address");
    let url = format!("http://localhost:{}: ", port.trim_end());
    let stop = wait("`highball stop` stops the server");
    assert!(stop.contains(&url), "{stop}");
}

#[test]
fn outside_of_a_terminal_nothing_is_said_about_keys() {
    let stopped = Server::app(HELLO).start().stop();
    assert!(stopped.log.iter().any(|line| line.contains("ready: ")));
    assert!(
        !stopped.log.iter().any(|line| line.contains("Ctrl-C")),
        "{:#?}",
        stopped.log
    );
}

/// A server in a terminal that is ready, its process and its application.
fn in_terminal() -> (TerminalSession, Process, Application) {
    let application = Application::new(HELLO);
    let terminal = TerminalSession::highball(application.path(), &["-b", "127.0.0.1:0", "-w", "1"]);
    terminal
        .log()
        .wait(|line| line.contains("`highball stop` stops the server"));
    let process = terminal.process();
    (terminal, process, application)
}

#[test]
fn ctrl_c_stops_the_server() {
    let (mut terminal, process, _application) = in_terminal();
    terminal.press("\x03");
    let (status, shown) = terminal.wait_end();
    assert!(status.success(), "{status}: {shown:#?}");
    assert!(process.wait_gone(TEST_TIMEOUT));
}

#[test]
fn a_closed_terminal_stops_the_server() {
    let (mut terminal, process, application) = in_terminal();
    let workers = process.children();
    terminal.close();
    assert!(process.wait_gone(TEST_TIMEOUT), "it still runs");
    workers
        .iter()
        .for_each(|worker| assert!(worker.wait_gone(TEST_TIMEOUT)));
    let ran = Program::highball(["status"])
        .current_dir(application.path())
        .run();
    assert_eq!(ran.status.code(), Some(1), "{}", ran.output());
}

#[test]
fn hup_in_a_terminal_that_is_open_is_a_reload() {
    let (terminal, process, application) = in_terminal();
    application
        .dir()
        .write("highball.toml", "request_timeout = \"7s\"\n");
    process.signal(rustix::process::Signal::HUP);
    terminal
        .log()
        .wait(|line| line.contains("reload requested (signal HUP)"));
    let line = terminal
        .log()
        .wait(|line| line.contains("read the settings again"));
    assert!(line.contains("request_timeout"), "{line}");
    assert!(process.is_alive());
}
