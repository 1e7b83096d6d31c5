//! Bad starts: each ends with exit status 1 and one clear message, and leaves nothing behind. And what a good start says
//! about threads that will not survive the fork.

use std::fs::{self, Permissions};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use test_support::{Application, Directory, Program, Ran, Server, ruby_library};

const HELLO: &str = r##"run lambda { |env| Test.text("hello") }"##;

fn serve(dir: &Path, arguments: &[&str]) -> Program {
    arguments
        .iter()
        .fold(Program::highball(["serve"]).arg(dir), Program::arg)
        .arg("--workers")
        .arg("1")
}

/// Asserts exit status 1, one message on stderr with all of `parts` in it, and no trace of a crash.
#[track_caller]
fn expect_message(ran: &Ran, parts: &[&str]) {
    assert_eq!(ran.status.code(), Some(1), "{}", ran.output());
    for part in parts {
        assert!(
            ran.stderr.contains(part),
            "{part:?} is not in: {}",
            ran.output()
        );
    }
    for noise in ["panicked at", "RUST_BACKTRACE", "ready:"] {
        assert!(!ran.output().contains(noise), "{}", ran.output());
    }
}

/// The same where the message is one line.
#[track_caller]
fn expect_line(ran: &Ran, parts: &[&str]) {
    expect_message(ran, parts);
    let lines = ran
        .stderr
        .lines()
        .filter(|line| !line.trim().is_empty())
        .count();
    assert_eq!(lines, 1, "{}", ran.stderr);
}

#[test]
fn a_folder_without_config_ru_is_named() {
    let dir = Directory::new();
    let path = dir.path().display().to_string();
    expect_line(
        &serve(dir.path(), &["--listen", "127.0.0.1:0"]).run(),
        &["config.ru", &path],
    );
    let missing = dir.join("missing");
    expect_line(
        &serve(&missing, &["--listen", "127.0.0.1:0"]).run(),
        &["missing"],
    );
}

#[test]
fn another_file_that_is_not_there_is_named_with_its_setting() {
    let application = Application::new(HELLO);
    let flags = ["--listen", "127.0.0.1:0", "--rackup", "other.ru"];
    let ran = serve(application.path(), &flags).run();
    expect_line(&ran, &["there is no other.ru in /", "(setting rackup)"]);
}

#[test]
fn a_stop_while_the_application_is_loaded_is_in_the_log() {
    let application = Application::new("Test.pass(\"load\", \"loads\")");
    let (mut events, _gate) = (application.events(), application.gate("load"));
    std::thread::scope(|scope| {
        let program = serve(application.path(), &["--listen", "127.0.0.1:0"]);
        let server = scope.spawn(|| program.run());
        assert_eq!(events.wait(), "loads");
        let stop = Program::highball(["stop"]).current_dir(application.path());
        let stopped = stop.run();
        assert!(stopped.status.success(), "{}", stopped.output());
        let ran = server.join().expect("it ran");
        assert!(ran.status.success(), "{}", ran.output());
        let expected = "stopped before the application was loaded";
        assert!(ran.stdout.contains(expected), "{}", ran.output());
    });
}

#[test]
fn an_application_that_raises_at_boot_shows_its_backtrace() {
    for (source, parts) in [
        (
            "def inner = raise(ArgumentError, \"boot-error-text\")\ninner",
            &[
                "ArgumentError",
                "boot-error-text",
                "config.ru:2",
                "config.ru:3",
            ][..],
        ),
        (
            "require \"no/such/library\"",
            &["LoadError", "no/such/library", "config.ru:2"],
        ),
        ("run lambda { |env|", &["SyntaxError", "config.ru"]),
        (
            "raise Exception, \"boot-error-text\"",
            &["Exception", "boot-error-text", "config.ru:2"],
        ),
        ("exit 3", &["exit"]),
        ("exit! 3", &["3"]),
        ("Process.kill(:KILL, Process.pid); sleep", &["KILL"]),
        ("# nothing runs", &["run"]),
    ] {
        let application = Application::without_lint(source);
        let ran = serve(application.path(), &["--listen", "127.0.0.1:0"]).run();
        expect_message(&ran, parts);
    }
}

#[test]
fn an_application_that_never_boots_is_given_up() {
    let application = Application::new("sleep");
    let ran = serve(
        application.path(),
        &["--listen", "127.0.0.1:0", "--boot-timeout", "1s"],
    )
    .run();
    expect_line(&ran, &["boot_timeout", "1s"]);
}

#[test]
fn a_port_in_use_is_named() {
    let application = Application::new(HELLO);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    expect_line(
        &serve(application.path(), &["--listen", &address]).run(),
        &[&address, "in use"],
    );
}

#[test]
fn a_unix_socket_that_cannot_be_made_is_named() {
    let application = Application::new(HELLO);
    // Not even root may make one there.
    let ran = serve(
        application.path(),
        &["--listen", "unix:/sys/highball-test.sock"],
    )
    .run();
    expect_line(&ran, &["/sys/highball-test.sock", "permission denied"]);
    let ran = serve(
        application.path(),
        &["--listen", "unix:no/such/folder/a.sock"],
    )
    .run();
    expect_line(&ran, &["no/such/folder/a.sock"]);
    // A file that is no socket is not ours to remove.
    application.dir().write("precious", "data");
    let ran = serve(application.path(), &["--listen", "unix:precious"]).run();
    expect_line(&ran, &["precious"]);
    assert_eq!(application.read("precious"), "data");
}

#[test]
fn a_unix_socket_in_use_is_named_and_a_stale_one_is_replaced() {
    let application = Application::new(HELLO);
    let path = application.path().join("a.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let ran = serve(application.path(), &["--listen", "unix:a.sock"]).run();
    expect_line(&ran, &["a.sock", "in use"]);
    drop(listener);
    let server = Server::application_of(application)
        .listen(["unix:a.sock"])
        .start();
    let mut client = test_support::Client::connect_unix(&path);
    assert_eq!(client.get("/").text(), "hello");
    server.stop();
    assert!(!path.exists());
}

/// A copy of the Ruby library without the extension's folders.
fn library_without_extension(dir: &Directory) -> std::path::PathBuf {
    fn copy(from: &Path, to: &Path) {
        fs::create_dir_all(to).expect("a folder can be made");
        for entry in fs::read_dir(from).expect("the library can be read") {
            let entry = entry.expect("the library can be read");
            let target = to.join(entry.file_name());
            let name = entry.file_name().to_string_lossy().into_owned();
            if entry.file_type().expect("a type").is_file() {
                fs::copy(entry.path(), target).expect("a file can be copied");
            } else if !name.starts_with(|first: char| first.is_ascii_digit()) {
                copy(&entry.path(), &target);
            }
        }
    }
    let library = dir.join("lib");
    copy(&ruby_library(), &library);
    library
}

#[test]
fn an_extension_for_another_ruby_is_named() {
    let (application, dir) = (Application::new(HELLO), Directory::new());
    let library = library_without_extension(&dir);
    let serve = || {
        serve(application.path(), &["--listen", "127.0.0.1:0"]).env("HIGHBALL_RUBY_LIB", &library)
    };
    expect_line(&serve().run(), &["extension"]);
    dir.write("lib/highball/3.0/highball.so", "not for this Ruby");
    let version = Program::new("ruby")
        .arg("-e")
        .arg("print RUBY_VERSION")
        .run()
        .stdout;
    let ran = serve().run();
    expect_line(
        &ran,
        &[
            "the extension was built for Ruby 3.0",
            "this is Ruby",
            version.trim(),
        ],
    );
}

/// Writes a program that is this machine's Ruby, and says of itself what `definitions` say.
fn ruby_that_says(dir: &Directory, definitions: &str) -> PathBuf {
    dir.write("says.rb", definitions);
    let says = dir.join("says.rb");
    let program = format!("#!/bin/sh\nexec ruby -W0 -r {} \"$@\"\n", says.display());
    dir.write("ruby", program);
    fs::set_permissions(dir.join("ruby"), Permissions::from_mode(0o755))
        .expect("a program can be made executable");
    dir.join("ruby")
}

#[test]
fn a_ruby_that_nobody_knows_is_told_what_there_is() {
    let (application, dir) = (Application::new(HELLO), Directory::new());
    let built = fs::read_dir(ruby_library().join("highball")).unwrap();
    let mut built: Vec<String> = built
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with(|first: char| first.is_ascii_digit()))
        .collect();
    built.sort();
    let says = |definitions| {
        let ruby = ruby_that_says(&dir, definitions);
        let ruby = ruby.to_str().unwrap();
        serve(
            application.path(),
            &["--listen", "127.0.0.1:0", "--ruby", ruby],
        )
        .run()
    };
    let built = format!("the extension was built for Ruby {};", built.join(", "));
    expect_line(
        &says("RUBY_VERSION = \"9.9.0\""),
        &[&built, "this is Ruby 9.9.0 (", "--ruby PATH"],
    );
    expect_line(
        &says("RUBY_ENGINE, RUBY_ENGINE_VERSION = \"jruby\", \"9.4.8.0\""),
        &["this is jruby 9.4.8.0 (", "needs CRuby"],
    );
}

#[test]
fn an_extension_that_cannot_be_loaded_is_named() {
    let (application, dir) = (Application::new(HELLO), Directory::new());
    let library = library_without_extension(&dir);
    let minor = Program::new("ruby")
        .args(["-e", "print RUBY_VERSION[/\\A\\d+\\.\\d+/]"])
        .run()
        .stdout;
    let path = format!("lib/highball/{minor}/highball.so");
    dir.write(&path, "cut off");
    let ran = serve(application.path(), &["--listen", "127.0.0.1:0"])
        .env("HIGHBALL_RUBY_LIB", &library)
        .run();
    let begin = format!("the extension for Ruby {minor} cannot be loaded: ");
    expect_line(&ran, &[&begin, &path, "build it for this Ruby"]);
}

#[test]
fn a_ruby_that_is_not_there_is_named() {
    let application = Application::new(HELLO);
    let ran = serve(
        application.path(),
        &["--listen", "127.0.0.1:0", "--ruby", "/no/such/ruby"],
    )
    .run();
    expect_line(&ran, &["/no/such/ruby"]);
}

#[test]
fn an_unknown_setting_is_named_with_its_line_and_the_nearest_key() {
    let application = Application::new(HELLO);
    let serve = || serve(application.path(), &["--listen", "127.0.0.1:0"]);
    application
        .dir()
        .write("highball.toml", "threads = 2\n\nmax_body_byte = \"1MiB\"\n");
    expect_line(
        &serve().run(),
        &["highball.toml:3", "max_body_byte", "max_body_bytes"],
    );
    application.dir().write("highball.toml", "threads = 0\n");
    expect_line(&serve().run(), &["highball.toml:1", "threads", "256"]);
    application.dir().write("highball.toml", "threads = = 1\n");
    expect_message(&serve().run(), &["highball.toml:1", "TOML"]);
    application.dir().write("highball.toml", "");
    let ran = serve().env("HIGHBALL_THREAD", "2").run();
    expect_line(&ran, &["HIGHBALL_THREAD", "HIGHBALL_THREADS"]);
    let ran = serve().env("HIGHBALL_BACKLOG", "many").run();
    expect_line(&ran, &["HIGHBALL_BACKLOG", "many"]);
    // All mistakes are shown at once.
    application
        .dir()
        .write("highball.toml", "thread = 1\nbacklogs = 1\n");
    expect_message(&serve().run(), &["highball.toml:1", "highball.toml:2"]);
}

#[test]
fn a_config_file_that_is_named_must_exist() {
    let application = Application::new(HELLO);
    let ran = serve(
        application.path(),
        &["--listen", "127.0.0.1:0", "--config", "absent.toml"],
    )
    .run();
    expect_line(&ran, &["absent.toml"]);
}

#[test]
fn hooks_that_raise_or_are_absent_are_logged() {
    let application = Application::new(HELLO);
    let serve = |hooks: &str| {
        serve(
            application.path(),
            &["--listen", "127.0.0.1:0", "--hooks", hooks],
        )
        .run()
    };
    expect_message(&serve("config/absent.rb"), &["config/absent.rb"]);
    application
        .dir()
        .write("config/broken.rb", "raise \"hook-error-text\"");
    expect_message(
        &serve("config/broken.rb"),
        &["hook-error-text", "config/broken.rb:1"],
    );
}

#[test]
fn threads_started_at_boot_are_named_with_their_place() {
    let application = Application::new(
        "Thread.new { sleep }.name = \"background-poller\"\nrun lambda { |env| Test.text(Thread.list.size.to_s) }",
    );
    let server = Server::application_of(application).start();
    let line = server.log().wait(|line| line.contains("background-poller"));
    assert!(line.contains("config.ru:3"), "{line}");
    server.get("/").expect(200);
    // Where there is none, nothing is said.
    let quiet = Server::app(HELLO).start();
    let log = quiet.stop().log;
    assert!(
        !log.iter()
            .any(|line| line.contains("thread") && line.contains("fork")),
        "{log:?}"
    );
}
