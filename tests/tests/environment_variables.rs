//! Variables of the environment: those that other servers share, unknown ones, and those that are there by chance.

use std::fs;

use test_support::{Application, Program, Server};

const HELLO: &str = r##"run lambda { |env| Test.text("hello") }"##;

fn check(application: &Application, variables: &[(&str, &str)]) -> String {
    let mut program = Program::highball(["check"]).arg(application.path());
    for (name, value) in variables {
        program = program.env(name, value);
    }
    let ran = program.run();
    assert!(ran.status.success(), "{}", ran.output());
    ran.stdout
}

#[test]
fn check_names_the_variables_of_other_servers_as_origins() {
    let application = Application::new(HELLO);
    let text = check(
        &application,
        &[
            ("WEB_CONCURRENCY", "3"),
            ("RAILS_MAX_THREADS", "7"),
            ("RAILS_MIN_THREADS", "2"),
            ("PIDFILE", "server.pid"),
            ("PORT", "4567"),
        ],
    );
    let row = |name: &str| {
        let row = text
            .lines()
            .find(|line| line.trim_start().starts_with(name));
        row.unwrap_or_else(|| panic!("{name} is not in {text}"))
            .to_owned()
    };
    assert!(row("workers ").ends_with(" 3  (WEB_CONCURRENCY)"), "{text}");
    assert!(
        row("threads ").ends_with(" 7  (RAILS_MAX_THREADS)"),
        "{text}"
    );
    assert!(
        row("pid_file ").ends_with(" server.pid  (PIDFILE)"),
        "{text}"
    );
    assert!(row("listen ").ends_with("(PORT)"), "{text}");
    assert!(
        row("note: ").contains("RAILS_MIN_THREADS has no effect"),
        "{text}"
    );
}

#[test]
fn an_unknown_variable_is_a_warning_and_the_server_starts() {
    let server = Server::app(HELLO)
        .under(&["env", "HIGHBALL_METRICS_TOKEN=1", "HIGHBALL_PORT=3000"])
        .start();
    let line = server
        .log()
        .wait(|line| line.contains("no setting has these variables"));
    assert!(
        line.contains("HIGHBALL_METRICS_TOKEN") && line.contains("HIGHBALL_PORT"),
        "{line}"
    );
    server.get("/").expect(200);
}

#[test]
fn a_variable_that_is_nearly_a_setting_ends_the_start() {
    let application = Application::new(HELLO);
    let ran = Program::highball(["serve"])
        .arg(application.path())
        .env("HIGHBALL_TREADS", "5")
        .run();
    assert_eq!(ran.status.code(), Some(1));
    let expect = "unknown setting HIGHBALL_TREADS; the nearest known one is HIGHBALL_THREADS";
    assert!(ran.stderr.contains(expect), "{}", ran.output());
}

#[test]
fn variables_that_kubernetes_sets_are_left_alone() {
    let server = Server::app(HELLO)
        .under(&[
            "env",
            "HIGHBALL_PORT=tcp://10.0.0.1:3000",
            "HIGHBALL_PORT_3000_TCP=tcp://10.0.0.1:3000",
            "HIGHBALL_SERVICE_HOST=10.0.0.1",
            "HIGHBALL_SERVICE_PORT=3000",
        ])
        .start();
    server.get("/").expect(200);
    let log = server.stop().log;
    assert!(
        !log.iter().any(|line| line.contains("HIGHBALL_")),
        "{log:#?}"
    );
}

#[test]
fn the_pid_file_is_there_while_the_server_runs() {
    let application = Application::new(HELLO);
    fs::create_dir(application.path().join("tmp")).unwrap();
    let path = application.path().join("tmp/server.pid");
    // Left by a server that was killed.
    fs::write(&path, "1\n").unwrap();
    let server = Server::application_of(application)
        .under(&["env", "PIDFILE=tmp/server.pid"])
        .start();
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(text, format!("{}\n", server.process().0));
    let mut stopped = server.stop();
    assert!(!path.exists());
    stopped.log.retain(|line| line.contains("pid_file"));
    assert_eq!(stopped.log, [""; 0]);
}

#[test]
fn after_an_upgrade_the_pid_file_is_that_of_the_new_server() {
    let application = Application::new(HELLO);
    let path = application.path().join("server.pid");
    let mut server = Server::application_of(application)
        .setting("pid_file", "server.pid")
        .start();
    let old = server.process();
    let ran = server.command(&["upgrade"]);
    assert!(ran.status.success(), "{}", ran.output());
    let new = server.status().processes("front")[0];
    server.replaced_by(new);
    assert!(old.wait_gone(test_support::TEST_TIMEOUT));
    assert_eq!(fs::read_to_string(&path).unwrap(), format!("{}\n", new.0));
    server.stop();
    assert!(!path.exists());
}

#[test]
fn a_pid_file_that_cannot_be_written_ends_the_start() {
    let application = Application::new(HELLO);
    let ran = Program::highball([
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--pid-file",
        "missing/server.pid",
    ])
    .arg(application.path())
    .run();
    assert_eq!(ran.status.code(), Some(1));
    assert!(
        ran.stderr.contains("missing/server.pid (setting pid_file)"),
        "{}",
        ran.output()
    );
}
