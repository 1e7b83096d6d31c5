//! `rackup` with Highball: in the background, on a UNIX socket, with its options, and as the server that it finds by itself.

use std::fs;
use std::path::Path;

use highball_tests::background::Background;
use highball_tests::bundle;
use test_support::{Client, Directory, Program, TerminalSession, workspace};

const HELLO: &str = "run ->(_) { [200, {}, [\"hello\"]] }";

/// A folder `app` with this rackup file.
fn application(config_ru: &str) -> Directory {
    let root = Directory::new();
    root.write("app/config.ru", config_ru);
    root
}

/// A command in the application's folder, in a terminal; the gem's files are found as those of an installed gem.
fn in_terminal(root: &Directory, line: &str) -> TerminalSession {
    TerminalSession::run(line, &root.join("app"), &environment_of(root.path()))
}

fn environment_of(home: &Path) -> Vec<(String, String)> {
    let mut environment = bundle::environment(home);
    let library = test_support::ruby_library().display().to_string();
    environment.push(("RUBYLIB".to_owned(), library));
    environment
}

/// Since Rack 3 the command is in a gem of its own.
fn gems_of_rackup() -> &'static [&'static str] {
    let look = Program::new("ruby").args(["-e", "gem 'rackup'"]).run();
    match look.status.success() {
        true => &["rack", "rackup"],
        false => &["rack"],
    }
}

#[test]
fn rackup_in_the_background_serves_and_watches_its_own_folder() {
    let root = application("run ->(_) { [200, {}, [Dir.pwd]] }");
    let folder = root.join("app").canonicalize().expect("it exists");
    let pid_file = root.join("server.pid");
    let line = format!(
        "rackup -s highball -D -o 127.0.0.1 -p 0 -P {}",
        pid_file.display()
    );
    for environment in ["development", "production"] {
        // A shell that has ended would have hung up on what is not in the background so far.
        let line = format!("{line} -E {environment}; echo ended $?; read key");
        let mut shell = TerminalSession::shell(&line, &folder, &environment_of(root.path()));
        shell.wait("ended 0");
        let server = Background::wait(&folder);
        shell.press("\n");
        assert!(shell.wait_detached().success());
        fs::create_dir_all(folder.join("tmp")).expect("the folder can be made");
        fs::write(folder.join("tmp/restart.txt"), "").expect("the file can be written");
        server.wait_generation(2);
        let mut client = Client::connect(&*server.address);
        assert_eq!(client.get("/").text(), folder.display().to_string());
        let number = fs::read_to_string(&pid_file).expect("the file with the number");
        assert_eq!(number.trim(), server.process.0.to_string());
        server.stop();
        assert!(!pid_file.exists());
        fs::remove_dir_all(folder.join("tmp")).expect("it is ours");
    }
}

#[test]
fn rackup_listens_on_a_unix_socket() {
    let root = application(HELLO);
    let socket = root.join("a.sock");
    let rackup = in_terminal(
        &root,
        &format!("rackup -s highball -o unix:{}", socket.display()),
    );
    rackup.wait("ready: ");
    assert_eq!(Client::connect_unix(&socket).get("/").text(), "hello");
    rackup.interrupt();
    assert!(!socket.exists());
}

#[test]
fn options_of_rackup_are_settings_and_a_wrong_one_gets_a_suggestion() {
    let root = application("run ->(env) { [200, {}, [env[\"rack.multithread\"].to_s]] }");
    let line = "rackup -s highball -o 127.0.0.1 -p 0 -O workers=1 -O Threads=1 -O drain_timeout=1s";
    let rackup = in_terminal(&root, line);
    let address = rackup.wait_serving();
    rackup.wait("ready: 1 worker x 1 thread");
    assert_eq!(Client::connect(&*address).get("/").text(), "false");
    rackup.interrupt();

    let (status, shown) = in_terminal(&root, "rackup -s highball -O wokers=1").wait_end();
    let shown = shown.join("\n");
    assert!(!status.success(), "{shown}");
    assert!(
        shown.contains("--wokers") && shown.contains("--workers"),
        "{shown}"
    );
}

#[test]
fn an_environment_that_rackup_assumes_is_no_named_one() {
    let root = application("run ->(env) { [200, {}, [env['PATH_INFO']]] }");
    let settings = root.join("app/highball.toml");
    fs::write(settings, "environment = \"test\"\n").expect("it can be written");
    for (flags, named) in [("", "test"), ("-E development", "development")] {
        let line = format!("rackup -s highball -o 127.0.0.1 -p 0 {flags}");
        let rackup = in_terminal(&root, &line);
        rackup.wait(&format!("{named})"));
        rackup.wait_serving();
        rackup.interrupt();
    }
}

#[test]
fn libraries_that_rackup_is_given_are_loaded_in_the_workers() {
    let root = application("run ->(_) { [200, {}, [GREETING]] }");
    root.write("my lib/greeting.rb", "GREETING = \"hello\"");
    let line = "rackup -s highball -o 127.0.0.1 -p 0 -I '../my lib' -r greeting";
    let rackup = in_terminal(&root, line);
    let address = rackup.wait_serving();
    assert_eq!(Client::connect(&*address).get("/").text(), "hello");
    rackup.interrupt();
}

#[test]
fn rackup_finds_highball_as_the_only_server_of_the_bundle() {
    let source = "require \"bundler\"\nBundler.require\nrun ->(_) { [200, {}, [ENV.keys.grep(/HANDLER/).join]] }";
    let root = application(source);
    bundle::write_gemfile(&root, "app", gems_of_rackup());
    let environment = bundle::environment(root.path());
    let line = "bundle exec rackup -o 127.0.0.1 -p 0";
    let rackup = TerminalSession::run(line, &root.join("app"), &environment);
    let address = rackup.wait_serving();
    // What the application starts finds the servers of its own bundle.
    assert_eq!(Client::connect(&*address).get("/").text(), "");
    rackup.interrupt();
}

#[test]
fn rackup_2_finds_highball_under_rack_3() {
    let root = application("run ->(_) { [200, {}, [Rack.release]] }");
    let rack_3 = workspace().join("target/rack-3/lib");
    assert!(
        rack_3.join("rackup.rb").exists(),
        "run scripts/rack-3 first"
    );
    let mut environment = environment_of(root.path());
    let (_, libraries) = environment.last_mut().expect("RUBYLIB");
    *libraries = format!("{}:{libraries}", rack_3.display());
    let program = "ruby -r rackup -e Rackup::Server.start --";
    let line = format!("{program} -s highball -o 127.0.0.1 -p 0 -O workers=1");
    let rackup = TerminalSession::run(&line, &root.join("app"), &environment);
    let address = rackup.wait_serving();
    let release = Client::connect(&*address).get("/").text();
    assert!(release.starts_with("3."), "{release}");
    rackup.interrupt();
}
