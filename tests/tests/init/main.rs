//! `highball init`: the file that it writes, and the configurations of other servers that it translates. The fixtures are
//! those that Rails generates, and some as they are found in applications.

use std::fs;

use test_support::{Application, Program, Ran};

const HELLO: &str = r##"run lambda { |env| Test.text("hello") }"##;

/// Translates a configuration in an application's folder.
fn init(application: &Application, name: &str, text: &str) -> Ran {
    let config = application.path().join("config");
    fs::create_dir_all(&config).expect("a folder");
    fs::write(config.join(name), text).expect("a file");
    Program::highball(["init", "--from"])
        .arg(format!("config/{name}"))
        .current_dir(application.path())
        .run()
}

/// The settings that the written file has, in its order.
fn settings(application: &Application) -> Vec<String> {
    let text = application.read("highball.toml");
    let lines = text
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty());
    lines.map(str::to_owned).collect()
}

#[test]
fn init_writes_every_setting_as_a_comment_and_overwrites_nothing() {
    let application = Application::new(HELLO);
    let ran = Program::highball(["init"])
        .current_dir(application.path())
        .run();
    assert!(ran.status.success(), "{}", ran.output());
    assert!(ran.stdout.starts_with("wrote "), "{}", ran.stdout);
    let written = application.read("highball.toml");
    assert!(
        written.contains("\n#request_timeout = \"60s\"\n"),
        "{written}"
    );
    assert_eq!(settings(&application), [""; 0]);
    let check = Program::highball(["check"]).arg(application.path()).run();
    assert!(check.status.success(), "{}", check.output());
    let again = Program::highball(["init"]).arg(application.path()).run();
    assert_eq!(again.status.code(), Some(1));
    assert!(
        again.stderr.contains("highball.toml exists already"),
        "{}",
        again.output()
    );
    assert_eq!(application.read("highball.toml"), written);
}

#[test]
fn a_file_of_settings_in_config_is_not_shadowed() {
    let application = Application::new(HELLO);
    fs::create_dir(application.path().join("config")).unwrap();
    application
        .dir()
        .write("config/highball.toml", "threads = 2\n");
    let ran = Program::highball(["init"]).arg(application.path()).run();
    assert_eq!(ran.status.code(), Some(1), "{}", ran.output());
    assert!(!application.path().join("highball.toml").exists());
}

#[test]
fn the_configurations_that_rails_generates_are_translated() {
    let five = [
        "pid_file = \"tmp/pids/server.pid\"",
        "listen = [3000]",
        "threads = 5",
    ];
    let six = [
        "pid_file = \"tmp/pids/server.pid\"",
        "listen = [3000]",
        "workers = 2",
        "threads = 5",
    ];
    let seven = ["listen = [3000]", "threads = 3"];
    let cases = [
        (include_str!("rails-5.2-puma.rb"), &five[..]),
        (include_str!("rails-6.1-puma.rb"), &six),
        (include_str!("rails-7.2-puma.rb"), &seven),
        (include_str!("rails-8.0-puma.rb"), &seven),
    ];
    for (text, expect) in cases {
        let application = Application::new(HELLO);
        let ran = init(&application, "puma.rb", text);
        assert!(ran.status.success(), "{}", ran.output());
        assert_eq!(settings(&application), expect, "{}", ran.output());
        assert!(
            ran.stdout.contains("not needed: restart_file is"),
            "{}",
            ran.stdout
        );
        assert!(!ran.stdout.contains("no counterpart"), "{}", ran.stdout);
        let one_process = ran.stdout.contains("workers is not called");
        assert_eq!(
            one_process,
            !expect.contains(&"workers = 2"),
            "{}",
            ran.stdout
        );
        let check = Program::highball(["check"]).arg(application.path()).run();
        assert!(check.status.success(), "{}", check.output());
    }
}

#[test]
fn what_has_no_counterpart_is_listed_with_its_line_and_reason() {
    let application = Application::new(HELLO);
    let ran = init(&application, "puma.rb", include_str!("large-puma.rb"));
    assert!(ran.status.success(), "{}", ran.output());
    assert_eq!(
        settings(&application),
        [
            "environment = \"staging\"",
            "rackup = \"other.ru\"",
            "pid_file = \"tmp/pids/puma.pid\"",
            "listen = [\"unix:tmp/sockets/puma.sock\", \"127.0.0.1:9292\"]",
            "unix_socket_mode = \"0660\"",
            "backlog = 64",
            "workers = 4",
            "threads = 4",
            "header_timeout = 15",
            "keep_alive_timeout = 20",
            "boot_timeout = 120",
            "drain_timeout = 25",
            "access_log = false",
        ]
    );
    for (entry, became) in [
        (
            "on_worker_boot { ... }",
            "move the block to config/highball.rb: after_fork { ... }",
        ),
        (
            "before_fork { ... }",
            "move the block to config/highball.rb: before_fork { ... }",
        ),
        (
            "lowlevel_error_handler { ... }",
            "no counterpart: errors that the application",
        ),
        (
            "made_up_call \"a\", {\"b\":1}",
            "no counterpart: it is unknown to Highball",
        ),
        (
            "preload_app!",
            "not needed: the application is always loaded once",
        ),
    ] {
        let mut lines = ran.stdout.lines();
        let line = lines.find(|line| line.starts_with("line ") && line.ends_with(entry));
        assert!(line.is_some(), "{entry} is not in {}", ran.stdout);
        let next = lines.next().unwrap_or_default().trim_start();
        assert!(next.starts_with(became), "{entry}: {next}");
    }
}

#[test]
fn the_configuration_of_unicorn_is_translated() {
    let application = Application::new(HELLO);
    let ran = init(
        &application,
        "unicorn.rb",
        include_str!("gitlab-unicorn.rb"),
    );
    assert!(ran.status.success(), "{}", ran.output());
    assert_eq!(
        settings(&application),
        [
            "pid_file = \"/home/git/gitlab/tmp/pids/unicorn.pid\"",
            "listen = [\"unix:/home/git/gitlab/tmp/sockets/gitlab.socket\", \"127.0.0.1:8080\"]",
            "unix_socket_mode = \"0777\"",
            "backlog = 1024",
            "workers = 3",
            "threads = 1",
            "request_timeout = 60",
        ]
    );
    for part in [
        "after_fork { ... }",
        "before_fork { ... }",
        "working_directory",
        "stderr_path",
    ] {
        assert!(ran.stdout.contains(part), "{part} is not in {}", ran.stdout);
    }
}

#[test]
fn the_configuration_of_passenger_is_translated() {
    let application = Application::new(HELLO);
    let text = include_str!("Passengerfile.json");
    let ran = init(&application, "Passengerfile.json", text);
    assert!(ran.status.success(), "{}", ran.output());
    assert_eq!(
        settings(&application),
        [
            "environment = \"production\"",
            "user = \"app\"",
            "listen = [\"127.0.0.1:8080\"]",
            "workers = 6",
            "worker_max_requests = 5000",
            "worker_max_memory = \"300MiB\"",
            "request_timeout = 30",
        ]
    );
    assert!(
        ran.stdout
            .contains("no counterpart: listen on tls://ADDRESS"),
        "{}",
        ran.stdout
    );
}

#[test]
fn a_configuration_that_cannot_be_evaluated_writes_nothing() {
    let application = Application::new(HELLO);
    for (name, text, expect) in [
        (
            "puma.rb",
            "threads 5, 5\nRails.root\n",
            "config/puma.rb:2: uninitialized constant",
        ),
        ("puma.rb", "threads 5,\n", "config/puma.rb"),
        ("puma.rb", "loop { threads 1 }\n", "more than 1000 calls"),
        ("puma.rb", "exit 3\n", "cannot translate config/puma.rb"),
        ("Passengerfile.json", "[1]", "not a JSON object"),
    ] {
        let ran = init(&application, name, text);
        assert_eq!(ran.status.code(), Some(1), "{}", ran.output());
        assert!(ran.stderr.contains(expect), "{}", ran.output());
        assert!(!application.path().join("highball.toml").exists());
    }
    let missing = Program::highball(["init", "--from", "config/absent.rb"])
        .current_dir(application.path())
        .run();
    assert!(
        missing.stderr.contains("cannot translate config/absent.rb"),
        "{}",
        missing.output()
    );
}
