//! `rails server` with Highball, on an application that `rails new` has generated: in a terminal, in the background, with
//! its switches. Needs Debian's Rails; downloads nothing.

use std::fs;

use highball_tests::background::Background;
use highball_tests::rails::{RailsApplication, get};
use test_support::{Process, TerminalSession};

const PID_FILE: &str = "tmp/pids/server.pid";

/// The process that the file of an application names.
fn pid(application: &RailsApplication, name: &str) -> Option<Process> {
    let text = fs::read_to_string(application.path().join(name)).ok()?;
    Some(Process(text.trim().parse().expect("a process number")))
}

#[test]
fn rails_server_shows_page_and_log_and_reloads_code_until_ctrl_c() {
    let application = RailsApplication::generate(&[]);
    let terminal = application.server("-p 0", &[]);
    let address = terminal.wait_serving();
    terminal.wait("=> Booting Highball");
    let server = pid(&application, PID_FILE).expect("a file with the number");
    assert!(server.is_alive());

    let welcome = get(&address, "/");
    assert_eq!(welcome.status(), 200);
    assert!(
        welcome.text().contains("Ruby on Rails"),
        "{}",
        welcome.text()
    );
    terminal.wait("Started GET \"/\" for 127.0.0.1");
    terminal.wait("Completed 200 OK in ");

    for text in ["first", "second"] {
        application.write_page(&format!("render plain: {text:?}"));
        assert_eq!(get(&address, "/page").text(), text);
    }

    TerminalSession::keep("rails_server", &terminal.interrupt());
    assert!(!server.exists());
    assert_eq!(pid(&application, PID_FILE), None);
}

#[test]
fn rails_server_starts_the_other_server_of_a_gemfile_unless_told() {
    let application = RailsApplication::generate(&["puma"]);
    let mut terminal = application.server("-p 0", &[]);
    terminal.wait("=> Booting Puma");
    terminal.wait("Use Ctrl-C to stop");
    terminal.press("\x03");
    terminal.wait_end();

    let terminal = application.server("-p 0 -u highball", &[]);
    terminal.wait("=> Booting Highball");
    terminal.wait_serving();
    terminal.interrupt();
}

#[test]
fn rails_server_in_the_background_restarts_and_removes_its_pid_file() {
    let application = RailsApplication::generate(&[]);
    application.write_page("render plain: \"#{Rails.env} #{Dir.pwd}\"");
    let start = ["server", "-u", "highball", "-d", "-p", "0"];
    let ran = application.rails(&start).run();
    assert!(ran.status.success(), "{}", ran.output());
    let server = Background::wait(&application.path());
    let folder = application.path().canonicalize().expect("it exists");
    let expected = format!("development {}", folder.display());
    assert_eq!(get(&server.address, "/page").text(), expected);
    let log = fs::read_to_string(application.path().join("log/development.log"));
    assert!(log.expect("Rails' log").contains("Started GET \"/page\""));

    let again = application.rails(&start).run();
    assert!(
        again.output().contains("already running"),
        "{}",
        again.output()
    );

    let restart = application.rails(&["restart"]).run();
    assert!(restart.status.success(), "{}", restart.output());
    server.wait_generation(2);
    assert_eq!(pid(&application, PID_FILE), Some(server.process));
    server.stop();
    assert_eq!(pid(&application, PID_FILE), None);
}

#[test]
fn rails_server_takes_environment_address_and_pid_file() {
    let application = RailsApplication::generate(&[]);
    // Rails 7 generates an application that redirects in production.
    application.write(
        "config/initializers/force_ssl.rb",
        "Rails.application.config.force_ssl = false\n",
    );
    application
        .write_page("render plain: \"#{Rails.env} #{request.env.key?(\"rack.early_hints\")}\"");
    application.write(
        "highball.toml",
        "environment = \"test\"\nlisten = [\"[::1]:0\"]\n",
    );
    // In production Rails 7 writes its log to stdout itself, from this level on.
    let secret = [
        ("SECRET_KEY_BASE", "a secret of the test"),
        ("RAILS_LOG_LEVEL", "warn"),
    ];
    let pid_file = application.root().join("other.pid");
    let arguments = format!(
        "-b 127.0.0.1 -p 0 -e production --early-hints -P {}",
        pid_file.display()
    );
    let terminal = application.server(&arguments, &secret);
    let address = terminal.wait_serving();
    assert!(address.starts_with("127.0.0.1:"), "{address}");
    assert_eq!(get(&address, "/page").text(), "production true");
    assert!(pid_file.exists());
    assert_eq!(pid(&application, PID_FILE), None);
    let shown = terminal.interrupt();
    // Rails shows its log in development alone.
    let started = shown.iter().any(|line| line.contains("Started GET"));
    assert!(!started, "{shown:?}");
    assert!(!pid_file.exists());
}

#[test]
fn the_file_that_pidfile_names_is_removed_also_after_a_failed_start() {
    let application = RailsApplication::generate(&[]);
    let pid_file = application.root().join("named.pid");
    let name = pid_file.display().to_string();
    let variables = [("PIDFILE", name.as_str())];
    let terminal = application.server("-p 0", &variables);
    terminal.wait_serving();
    assert!(pid_file.exists());
    terminal.interrupt();
    assert!(!pid_file.exists());

    // The application cannot be loaded; the settings cannot be read.
    for settings in ["ruby = \"/no/such/ruby\"\n", "wokers = 1\n"] {
        application.write("highball.toml", settings);
        let (status, shown) = application.server("-p 0", &variables).wait_end();
        assert!(!status.success(), "{shown:?}");
        assert!(!pid_file.exists(), "{shown:?}");
    }
}
