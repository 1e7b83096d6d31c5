//! Flags and commands that users of other servers know: short flags, versions, help, completions.

use std::net::TcpListener;

use test_support::{Application, Client, Program, Server};

const HELLO: &str = r##"run lambda { |env| Test.text("hello") }"##;

/// The value and the origin of a setting, as `highball check` shows them.
fn shown(output: &str, setting: &str) -> (String, String) {
    let row = output.lines().find_map(|line| {
        let (name, rest) = line.trim_start().split_once(' ')?;
        (name == setting).then(|| rest.trim().to_owned())
    });
    let row = row.unwrap_or_else(|| panic!("{setting} is not in:\n{output}"));
    let (value, origin) = row.split_once("  (").expect("an origin");
    (value.to_owned(), origin.trim_end_matches(')').to_owned())
}

#[test]
fn short_flags_set_what_they_set_for_puma() {
    let application = Application::new(HELLO);
    let file = application.dir().write("elsewhere.toml", "backlog = 77\n");
    let flags = [
        "-p",
        "3001",
        "-b",
        "tcp://127.0.0.1:3002",
        "-e",
        "production",
        "-w",
        "2",
        "-t",
        "0:5",
        "-C",
    ];
    let ran = Program::highball(["check"])
        .args(flags)
        .arg(file)
        .arg(application.path())
        .run();
    assert!(ran.status.success(), "{}", ran.output());
    let expect = |setting: &str, value: &str, origin: &str| {
        let (found, from) = shown(&ran.stdout, setting);
        assert_eq!((&*found, &*from), (value, origin), "{setting}");
    };
    expect("environment", "production", "--environment");
    expect("workers", "2", "--workers");
    expect("threads", "5", "--threads");
    let (backlog, from) = shown(&ran.stdout, "backlog");
    assert!(
        backlog == "77" && from.ends_with("elsewhere.toml:1"),
        "{from}"
    );
    let (listen, from) = shown(&ran.stdout, "listen");
    assert!(
        listen.starts_with("0.0.0.0:3001,") && listen.ends_with(",127.0.0.1:3002"),
        "{listen}"
    );
    assert_eq!(from, "--listen");
}

#[test]
fn addresses_in_the_form_of_puma_are_listened_on() {
    let application = Application::new(HELLO);
    let path = application.path().join("a.sock");
    let server = Server::application_of(application)
        .listen(["tcp://127.0.0.1:0", "unix://a.sock"])
        .start();
    server.get("/").expect(200);
    Client::connect_unix(&path).get("/").expect(200);
}

#[test]
fn an_address_without_a_host_is_served_over_ipv4_and_ipv6() {
    let application = Application::new(r##"run lambda { |env| Test.text(env["REMOTE_ADDR"]) }"##);
    // A machine without IPv6 has the first alone.
    let mut hosts = vec!["127.0.0.1", "::1"];
    hosts.retain(|&host| TcpListener::bind((host, 0)).is_ok());
    // Two addresses cannot have port 0. The kernel gives these numbers to no other test.
    let mut ports = 20_000 + (std::process::id() % 10_000) as u16..;
    let is_free = |port: &u16| {
        let mut hosts = hosts.iter();
        hosts.all(|&host| TcpListener::bind((host, *port)).is_ok())
    };
    let port = ports.find(is_free).expect("a free port");
    let server = Server::application_of(application)
        .listen([port.to_string()])
        .start();
    let addresses = server.tcp_addresses();
    let found: Vec<String> = addresses.iter().map(|one| one.ip().to_string()).collect();
    assert_eq!(found, hosts);
    for address in addresses {
        assert_eq!(address.port(), port);
        let remote = Client::connect(address).get("/").text();
        assert_eq!(remote, address.ip().to_string());
    }
}

#[test]
fn the_configuration_of_puma_is_no_file_of_settings() {
    let application = Application::new(HELLO);
    let file = application.dir().write("puma.rb", "threads 5, 5\n");
    let ran = Program::highball(["check", "-C"])
        .arg(file)
        .arg(application.path())
        .run();
    assert_eq!(ran.status.code(), Some(1));
    assert!(
        ran.stderr.contains("highball init --from "),
        "{}",
        ran.output()
    );
}

#[test]
fn check_compares_the_threads_with_the_pool_of_the_database() {
    let application = Application::new(&format!(
        r##"require "active_record"
        ActiveRecord::Base.establish_connection(adapter: "sqlite3", database: ":memory:", pool: 4)
        {HELLO}"##
    ));
    let warned = |threads: &str| {
        let check = Program::highball(["check", "-t", threads]);
        let ran = check.arg(application.path()).run();
        assert!(ran.status.success(), "{}", ran.output());
        let line = ran
            .stdout
            .lines()
            .find(|line| line.contains("database pool"));
        line.map(str::to_owned)
    };
    assert_eq!(warned("4"), None);
    let line = warned("5").expect("a warning");
    assert!(
        line.starts_with("warning: the database pool") && line.contains("4 connections"),
        "{line}"
    );
    assert!(
        line.ends_with("set pool to 5 or more in config/database.yml, or threads to 4"),
        "{line}"
    );
}

#[test]
fn a_mistyped_command_is_answered_with_the_right_one() {
    let ran = Program::highball(["retsart"]).run();
    assert_eq!(ran.status.code(), Some(1), "{}", ran.output());
    assert!(
        ran.stderr.contains("did you mean `highball restart`?"),
        "{}",
        ran.stderr
    );
}

#[test]
fn version_help_and_completion_print_and_exit_with_0() {
    let version = env!("CARGO_PKG_VERSION");
    for (arguments, expect) in [
        (&["version"][..], &*format!("highball {version}")),
        (&["help", "settings"], "\n  request_timeout = 60s\n"),
        (&["help", "signals"], "USR1 "),
        (&["help", "request_timeout"], "HIGHBALL_REQUEST_TIMEOUT"),
        (&["help", "--workers"], "WEB_CONCURRENCY"),
        (&["help", "stop"], "--now"),
        (&["completion", "bash"], "complete "),
        (&["completion", "zsh"], "#compdef highball"),
        (&["completion", "fish"], "complete -c highball"),
    ] {
        let ran = Program::highball(arguments).run();
        assert_eq!(ran.status.code(), Some(0), "{}", ran.output());
        assert!(ran.stdout.contains(expect), "{arguments:?}: {}", ran.stdout);
        assert_eq!(ran.stderr, "");
    }
    let ran = Program::highball(["help", "request_timeot"]).run();
    assert_eq!(ran.status.code(), Some(1));
    assert!(
        ran.stderr.contains("the nearest topic is request_timeout"),
        "{}",
        ran.stderr
    );
}
