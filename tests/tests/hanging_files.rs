//! File systems that do not answer (NFS, FUSE): files of the application, the file of settings, the application's folder.
//! A small library that is preloaded into the server (`hanging_files/hold.c`) makes calls for such a path wait at a gate.

use std::path::Path;
use std::thread;

use highball_tests::several::{Several, named, settings_file};
use test_support::{Application, Client, Events, Gate, Program, Server, ServerBuilder};

/// The threads that open and read files of the application.
const FILE_THREADS: usize = 8;
/// What a file has.
const CONTENT: &str = "of a file";
/// Answers requests below `/held` with that file, and others with the length of their body.
const SOURCE: &str = r##"class FileBody
      def initialize(path) = @path = path
      def to_path = @path
      def each = yield(File.read(@path))
    end
    run lambda { |env|
      path = env["PATH_INFO"]
      next [200, {}, FileBody.new(File.join(Dir.pwd, path))] if path.start_with?("/held")
      Test.text(Test.input(env).bytesize.to_s)
    }"##;

/// A server for which some calls hang.
struct Held {
    server: Server,
    /// Tells of each call that hangs.
    events: Events,
    /// Lets calls go on.
    gate: Gate,
}

/// Has calls hang in a server of this application for paths that contain `part`, while there is a file `hold` in its folder:
/// the command under which it is started.
fn holding(application: &Application, part: &str) -> Vec<String> {
    let dir = application.dir();
    let library = dir.join("hold.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hanging_files/hold.c");
    let compiler =
        Program::new("cc").args(["-shared", "-fPIC", "-U_FORTIFY_SOURCE", "-Wall", "-o"]);
    let built = compiler.arg(&library).arg(source).arg("-ldl").run();
    assert!(built.status.success(), "{}", built.output());
    let variable = |name: &str, value: &Path| format!("{name}={}", value.display());
    vec![
        "env".to_owned(),
        variable("LD_PRELOAD", &library),
        variable("HOLD_PATH", Path::new(part)),
        variable("HOLD_SWITCH", &dir.join("hold")),
        variable("HOLD_EVENTS", &dir.join("events")),
        variable("HOLD_GATE", &dir.join("gate-hold")),
    ]
}

/// Starts a server in which calls hang for paths that contain `part`, once it is ready.
fn start(part: &str, settings: impl FnOnce(ServerBuilder) -> ServerBuilder) -> Held {
    let application = Application::without_lint(SOURCE);
    application.dir().write("held/file", CONTENT);
    let (events, gate) = (application.events(), application.gate("hold"));
    let variables = holding(&application, part);
    let variables: Vec<&str> = variables.iter().map(String::as_str).collect();
    let server = settings(Server::application_of(application).under(&variables)).start();
    server.application().dir().write("hold", "");
    Held {
        server,
        events,
        gate,
    }
}

impl Held {
    /// Has files opened until all threads for that hang.
    fn occupy(&mut self) -> Vec<Client> {
        let ask = |_| {
            let client = self.server.ask("GET", "/held/file");
            self.events.wait();
            client
        };
        (0..FILE_THREADS).map(ask).collect()
    }

    /// Asserts that other requests are answered, with and without a large body.
    #[track_caller]
    fn expect_service(&self) {
        assert_eq!(self.server.get("/").expect(200).text(), "0");
        let body = vec![b'x'; 1 << 20];
        let response = self.server.connect().post("/", body);
        assert_eq!(response.expect(200).text(), (1 << 20).to_string());
    }

    /// Runs a command of the binary that makes a call hang, and looks after the server meanwhile; whether it succeeded.
    fn command(
        &mut self,
        arguments: &'static [&'static str],
        meanwhile: impl FnOnce(&mut Self),
    ) -> bool {
        let dir = self.server.dir().to_owned();
        let command = thread::spawn(move || Program::highball(arguments).current_dir(dir).run());
        self.events.wait();
        meanwhile(self);
        let ran = command.join().expect("the command ends");
        ran.status.success()
    }
}

#[test]
fn files_that_hang_hold_up_neither_uploads_nor_other_requests() {
    let mut held = start("/held/", |builder| builder.setting("queue_limit", "50"));
    let mut clients = held.occupy();
    // They wait for a thread.
    clients.extend((0..4).map(|_| held.server.ask("GET", "/held/file")));
    held.expect_service();
    held.gate.open();
    for mut client in clients {
        assert_eq!(client.response().expect(200).text(), CONTENT);
    }
}

#[test]
fn a_file_that_is_not_opened_in_time_is_a_504_and_a_stop_still_ends() {
    let mut held = start("/held/", |builder| builder.setting("file_timeout", "100ms"));
    let clients = held.occupy();
    let waiting = held.server.ask("GET", "/held/file");
    for mut client in clients.into_iter().chain([waiting]) {
        let response = client.response();
        response.expect(504);
        assert_eq!(response.field("retry-after"), None);
    }
    let path = held.server.dir().join("held/file").display().to_string();
    held.server
        .log()
        .wait(|line| line.contains(&path) && line.contains("file_timeout"));
    held.expect_service();
    // The threads hang on.
    assert!(held.server.stop().status.success());
}

#[test]
fn files_beyond_those_that_may_wait_for_a_thread_are_a_503_at_once() {
    let mut held = start("/held/", |builder| builder.setting("queue_limit", "1"));
    let mut clients = held.occupy();
    clients.push(held.server.ask("GET", "/held/file"));
    // Answered after that one has begun to wait: there is one thread.
    held.expect_service();
    held.server.get("/held/file").expect(503);
    held.gate.open();
    for mut client in clients {
        assert_eq!(client.response().expect(200).text(), CONTENT);
    }
}

#[test]
fn a_file_of_settings_that_hangs_at_a_reload_holds_no_request_up() {
    let mut held = start("highball.toml", |builder| {
        builder.settings_file("workers = 1\nthreads = 1\n")
    });
    let reloaded = held.command(&["reload"], |held| {
        held.expect_service();
        held.gate.open();
    });
    assert!(reloaded, "{}", held.server.log().text());
}

#[test]
fn a_folder_that_hangs_at_a_restart_holds_no_request_up() {
    let mut held = start("/highball-test-", |builder| builder);
    let restarted = held.command(&["restart"], |held| {
        held.expect_service();
        held.gate.open();
    });
    assert!(restarted, "{}", held.server.log().text());
}

#[test]
fn a_folder_that_hangs_at_an_upgrade_holds_no_request_up() {
    // The new server is started where this one was.
    let folder = std::env::current_dir().expect("there is one");
    let mut held = start(folder.to_str().expect("plain"), |builder| builder);
    let upgraded = held.command(&["upgrade", "--binary", "/bin/false"], |held| {
        held.expect_service();
        held.gate.open();
    });
    // That is no server.
    assert!(!upgraded);
    held.expect_service();
}

#[test]
fn a_folder_that_does_not_answer_in_time_changes_nothing() {
    let file = "workers = 1\nthreads = 1\n";
    let mut held = start("/highball-test-", |builder| builder.settings_file(file));
    let dir = held.server.application().dir();
    std::fs::remove_file(dir.join("hold")).expect("the switch is there");
    dir.write("highball.toml", format!("{file}boot_timeout = \"100ms\"\n"));
    assert!(held.server.command(&["reload"]).status.success());
    held.server.application().dir().write("hold", "");
    assert!(!held.command(&["restart"], |_| {}));
    let log = held.server.log();
    log.wait(|line| line.contains("boot_timeout") && line.contains("the new generation failed"));
    held.expect_service();
    assert!(held.server.stop().status.success());
}

#[test]
fn a_folder_of_one_application_that_hangs_holds_up_no_other() {
    let applications = ["stuck", "sound"].map(|name| Application::new(&named(name)));
    let tables = [
        ("stuck", "hosts = [\"stuck.test\"]"),
        ("sound", "hosts = [\"sound.test\"]"),
    ];
    let folder = Application::new("");
    let part = applications[0].path().display().to_string();
    let variables = holding(&folder, &part);
    folder.dir().write("hold", "");
    let (_events, gate) = (folder.events(), folder.gate("hold"));
    let variables: Vec<&str> = variables.iter().map(String::as_str).collect();
    let server = Server::application_of(folder)
        .under(&variables)
        .settings_file(&settings_file(&applications, &tables))
        .start();
    let several = Several {
        server,
        applications: applications.into(),
    };
    several.get("sound.test", "/").expect(200);
    let log = several.server.log();
    log.wait(|line| line.contains("application=stuck") && line.contains("did not answer"));
    let file = settings_file(&several.applications, &tables) + "queue_limit = 9\n";
    let dir = several.server.application().dir();
    dir.write("highball.toml", file);
    let ran = several.server.command(&["reload"]);
    assert!(
        ran.stdout.contains("sound: queue_limit: 256 -> 9"),
        "{}",
        ran.output()
    );
    let ran = several
        .server
        .command(&["restart", "--application", "sound"]);
    assert!(ran.status.success(), "{}", ran.output());
    let mut waiting = several.ask("stuck.test", "/");
    several.get("sound.test", "/").expect(200);
    std::fs::remove_file(dir.join("hold")).expect("the switch is there");
    gate.open();
    waiting.response().expect(200);
}
