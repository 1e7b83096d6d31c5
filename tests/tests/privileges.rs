//! What a server may do, and what it passes on: the user and group that it becomes, capabilities, descriptor limits and
//! ignored signals. The tests that change users need root.

use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use rustix::process::Signal;
use test_support::{Application, Program, Ran, Server, ServerBuilder, binary};

const HELLO: &str = r##"run lambda { |env| Test.text("hello") }"##;
/// The user and group of the tests, which every system has; see [`nobody`].
const NOBODY: u32 = 65534;
/// A body that goes on in a file.
const LARGE: usize = 200 << 10;

/// Answers with the length of the body, or with what its process is.
const WHOAMI: &str = r##"run lambda { |env|
  next Test.text(Test.input(env).bytesize.to_s) if env["REQUEST_METHOD"] == "POST"
  next Test.text(Process.getrlimit(:NOFILE).first.to_s) if env["PATH_INFO"] == "/limit"
  next Test.text(`sh -c 'ulimit -Sn'`) if env["PATH_INFO"] == "/limit-of-a-program"
  next Test.text(`grep -E "SigIgn|Cap(Prm|Eff|Amb)" /proc/self/status`) if env["PATH_INFO"] == "/status"
  ids = [Process.uid, Process.euid, Process.gid, Process.egid, Process.groups.sort]
  Test.text([*ids, *ENV.values_at("HOME", "USER", "LOGNAME")].join(" "))
}"##;

/// The name of the user with this number, and its group's.
fn nobody() -> (String, String) {
    let name = |file: &str| {
        let text = std::fs::read_to_string(file).expect("it is everywhere");
        let fields = text.lines().map(|line| line.split(':').collect::<Vec<_>>());
        let mut found = fields.filter(|fields| fields[2] == NOBODY.to_string());
        found.next().expect("it is everywhere")[0].to_owned()
    };
    (name("/etc/passwd"), name("/etc/group"))
}

/// Gives the application to [`nobody`], its files included.
fn owned_by_nobody(application: &Application) {
    fn give(path: &Path) {
        chown(path, Some(NOBODY), Some(NOBODY)).expect("this test needs root");
        if path.is_dir() {
            let entries = std::fs::read_dir(path).expect("a folder of our own");
            entries.flatten().for_each(|entry| give(&entry.path()));
        }
    }
    give(application.path());
}

/// A copy of the program that other users may run, in the application's folder.
fn copy_of_program(application: &Application) -> PathBuf {
    let path = application.path().join("highball");
    std::fs::copy(binary(), &path).expect("a folder of our own");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).expect("it is ours");
    path
}

const AS_NOBODY: [&str; 4] = [
    "setpriv",
    "--reuid=65534",
    "--regid=65534",
    "--clear-groups",
];

fn posts(server: &Server) {
    let mut client = server.connect();
    assert_eq!(
        client.post("/", "x".repeat(LARGE)).text(),
        LARGE.to_string()
    );
}

/// A set of bits in a process's status.
#[track_caller]
fn field(status: &str, name: &str) -> u64 {
    let mut lines = status.lines().filter_map(|line| line.strip_prefix(name));
    u64::from_str_radix(lines.next().expect(name).trim(), 16).expect("a number")
}

#[test]
fn programs_that_a_worker_starts_ignore_no_signal() {
    let server = Server::app(WHOAMI)
        .under(&["env", "--default-signal"])
        .start();
    let text = server.get("/status").text();
    let ignored = field(&text, "SigIgn:");
    // Signals 32 and 33 are glibc's own, whose posix_spawn has programs ignore them.
    assert_eq!(ignored & !(0b11 << 31), 0, "{text}");
}

#[test]
fn an_interrupt_of_a_worker_ends_no_request() {
    let application = Application::new(
        r##"run lambda { |env| Test.pass("work", Process.pid.to_s); sleep(0.01); Test.text("done") }"##,
    );
    let (mut events, gate) = (application.events(), application.gate("work"));
    let server = Server::application_of(application).start();
    let mut client = server.ask("POST", "/");
    let worker = test_support::Process(events.wait().parse().expect("a process"));
    for _ in 0..3 {
        worker.signal(Signal::INT);
    }
    gate.admit(1);
    assert_eq!(client.response().text(), "done");
    assert!(worker.is_alive());
}

#[test]
fn workers_have_the_descriptor_limit_that_the_server_was_started_with() {
    let limited = ["prlimit", "--nofile=300:4000"];
    let mut server = Server::app(WHOAMI).under(&limited).start();
    let check = |server: &Server| {
        assert_eq!(server.get("/limit").text(), "300");
        assert_eq!(server.get("/limit-of-a-program").text().trim(), "300");
        let limits = std::fs::read_to_string(format!("/proc/{}/limits", server.process().0));
        let limits = limits.expect("it runs");
        let line = limits
            .lines()
            .find(|line| line.starts_with("Max open files"));
        assert!(line.is_some_and(|line| line.contains("4000 ")), "{limits}");
    };
    check(&server);
    assert!(server.command(&["restart"]).status.success());
    check(&server);
    // The successor of an upgrade was started by one that has raised its own.
    assert!(server.command(&["upgrade"]).status.success());
    let new = server.status().processes("front")[0];
    server.replaced_by(new);
    check(&server);
}

/// Has a copy of the program bind low ports by itself, for any user who starts it.
fn capable(program: &Path, capabilities: &str) {
    let ran = Program::new("setcap").arg(capabilities).arg(program).run();
    assert!(
        ran.status.success(),
        "this test needs root: {}",
        ran.output()
    );
}

#[test]
fn a_server_with_cap_net_bind_service_takes_large_bodies() {
    for capabilities in [
        "cap_net_bind_service+ep",
        "cap_net_bind_service,cap_sys_nice+ep",
    ] {
        let application = Application::new(WHOAMI);
        let program = copy_of_program(&application);
        owned_by_nobody(&application);
        capable(&program, capabilities);
        let mut server = Server::application_of(application)
            .program(program)
            .under(&AS_NOBODY)
            .start();
        posts(&server);
        // Everything it was opened with lies behind it, and it has nothing that its workers have not.
        has_no_capabilities(&server);
        // Its successor is given the capability again by the file.
        assert!(as_nobody(&["upgrade"], &server).status.success());
        let new = server.status().processes("front")[0];
        server.replaced_by(new);
        posts(&server);
        has_no_capabilities(&server);
    }
}

/// The kernel keeps them for each thread, the allocator's included.
#[track_caller]
fn has_no_capabilities(server: &Server) {
    let threads = std::fs::read_dir(format!("/proc/{}/task", server.process().0));
    let threads: Vec<_> = threads.expect("it runs").flatten().collect();
    assert!(threads.len() > 1);
    for thread in threads {
        // A thread may have ended meanwhile.
        let Ok(status) = std::fs::read_to_string(thread.path().join("status")) else {
            continue;
        };
        for name in ["CapPrm:", "CapEff:", "CapInh:", "CapAmb:"] {
            assert_eq!(field(&status, name), 0, "{status}");
        }
    }
}

#[test]
fn no_thread_of_a_server_keeps_an_ambient_capability_to_bind_ports() {
    let application = Application::new(HELLO);
    owned_by_nobody(&application);
    let server = Server::application_of(application)
        .under(&[&AS_NOBODY[..], &AMBIENT].concat())
        .start();
    has_no_capabilities(&server);
}

/// Has the program be started with a capability that it was not given by its file.
const AMBIENT: [&str; 2] = [
    "--inh-caps=+net_bind_service",
    "--ambient-caps=+net_bind_service",
];

#[test]
fn an_ambient_capability_to_bind_ports_ends_with_the_binding() {
    let application = Application::new(WHOAMI);
    owned_by_nobody(&application);
    let server = Server::application_of(application)
        .under(&[&AS_NOBODY[..], &AMBIENT].concat())
        .start();
    posts(&server);
    let text = server.get("/status").text();
    assert_eq!(
        field(&text, "CapPrm:") | field(&text, "CapAmb:"),
        0,
        "{text}"
    );
}

/// Runs a command about a server as [`nobody`], without any of the server's variables.
fn as_nobody(arguments: &[&str], server: &Server) -> Ran {
    let program = Program::new(AS_NOBODY[0])
        .args(&AS_NOBODY[1..])
        .arg(binary());
    program.args(arguments).current_dir(server.dir()).run()
}

/// A server that root starts, and that becomes [`nobody`].
fn dropped(application: Application) -> ServerBuilder {
    owned_by_nobody(&application);
    Server::application_of(application).setting("user", &nobody().0)
}

/// What [`WHOAMI`] answers in a server of [`nobody`].
fn expected() -> String {
    let passwd = std::fs::read_to_string("/etc/passwd").expect("it is everywhere");
    let name = nobody().0;
    let line = passwd
        .lines()
        .find(|line| line.starts_with(&format!("{name}:")));
    let home = line
        .expect("its line")
        .split(':')
        .nth(5)
        .expect("a home")
        .to_owned();
    format!("{NOBODY} {NOBODY} {NOBODY} {NOBODY} {NOBODY} {home} {name} {name}")
}

#[test]
fn a_server_becomes_the_user_of_its_settings_with_its_workers() {
    let mut server = dropped(Application::new(WHOAMI)).start();
    let check = |server: &Server| {
        assert_eq!(server.get("/").text(), expected());
        let front = std::fs::read_to_string(format!("/proc/{}/status", server.process().0));
        let front = front.expect("it runs");
        for name in ["Uid:", "Gid:"] {
            let line = front
                .lines()
                .find(|line| line.starts_with(name))
                .expect(name);
            let ids: Vec<_> = line.split_whitespace().skip(1).collect();
            assert_eq!(ids, vec![NOBODY.to_string(); 4], "of all kinds: {front}");
        }
        // Every thread of it, not only the first.
        for thread in
            std::fs::read_dir(format!("/proc/{}/task", server.process().0)).expect("it runs")
        {
            assert_eq!(
                thread.expect("a thread").metadata().expect("it runs").uid(),
                NOBODY
            );
        }
        posts(server);
    };
    check(&server);
    assert!(server.command(&["restart"]).status.success());
    check(&server);
    // Its own user reaches it as well, and what it has needs no root.
    let ran = as_nobody(&["upgrade"], &server);
    assert!(ran.status.success(), "{}", ran.output());
    let new = server.status().processes("front")[0];
    server.replaced_by(new);
    check(&server);
    assert!(as_nobody(&["stop"], &server).status.success());
    assert!(server.wait_end().status.success());
}

#[test]
fn what_root_alone_may_open_is_opened_before_the_user_changes() {
    // A folder that the user cannot write to, and a port of root's.
    let run = test_support::Directory::new();
    let socket = run.join("app.sock");
    let unix = format!("unix:{}", socket.display());
    let port = low_port();
    let builder = dropped(Application::new(WHOAMI)).listen([&port, &unix]);
    let server = builder.start();
    assert_eq!(server.get("/").text(), expected());
    let facts = std::fs::metadata(&socket).expect("it is there");
    assert_eq!(
        (facts.uid(), facts.gid(), facts.mode() & 0o7777),
        (NOBODY, NOBODY, 0o600)
    );
    let mut client = test_support::Client::connect_unix(&socket);
    assert_eq!(client.get("/").text(), expected());
}

/// An address with a free port below 1024. Port 0 is none that root alone may bind.
fn low_port() -> String {
    let first = std::process::id() % 400;
    let ports = (0..400).map(|at| 600 + (first + at) % 400);
    let mut free = ports.map(|port| format!("127.0.0.1:{port}"));
    free.find(|address| std::net::TcpListener::bind(address).is_ok())
        .expect("a free port")
}

#[test]
fn a_group_of_the_settings_takes_the_place_of_the_users() {
    let server = dropped(Application::new(WHOAMI))
        .setting("group", "0")
        .start();
    let ids = format!("{NOBODY} {NOBODY} 0 0 0 ");
    assert!(server.get("/").text().starts_with(&ids));
}

fn serve(application: &Application, arguments: &[&str]) -> Program {
    let serve = ["serve", "--listen", "127.0.0.1:0", "--workers", "1"];
    Program::highball(serve)
        .args(arguments)
        .arg(application.path())
}

#[test]
fn who_is_not_root_cannot_become_another_user() {
    let application = Application::new(HELLO);
    owned_by_nobody(&application);
    let ran = Program::new(AS_NOBODY[0])
        .args(&AS_NOBODY[1..])
        .arg(binary())
        .args(["serve", "--listen", "127.0.0.1:0", "--user", "root"])
        .arg(application.path())
        .run();
    assert_eq!(ran.status.code(), Some(1), "{}", ran.output());
    let expect = "cannot become user root (0) with group 0 (settings user and group): this server was started as uid";
    assert!(ran.stderr.contains(expect), "{}", ran.output());
}

#[test]
fn users_and_groups_that_are_not_there_are_named() {
    let application = Application::new(HELLO);
    for (setting, what) in [
        ("user", "user"),
        ("group", "group"),
        ("unix-socket-group", "group"),
    ] {
        let ran = serve(&application, &[&format!("--{setting}"), "no-such-name"]).run();
        assert_eq!(ran.status.code(), Some(1), "{}", ran.output());
        let setting = setting.replace('-', "_");
        let expect = format!("there is no {what} \"no-such-name\" (setting {setting})");
        assert!(ran.stderr.contains(&expect), "{}", ran.output());
    }
}

#[test]
fn an_application_that_runs_as_root_in_production_is_warned_about() {
    let start = |environment: &str, user: Option<&str>| {
        // The warning comes first.
        let application = Application::new("raise");
        let user = user.map(|user| ["--user", user]);
        let arguments = [
            &["--environment", environment][..],
            user.as_ref().map_or(&[], |user| user),
        ];
        let ran = serve(&application, &arguments.concat()).run();
        ran.stdout
            .contains("the application runs as root: set user")
    };
    assert!(start("production", None));
    assert!(!start("production", Some("root")));
    assert!(!start("test", None));
}

#[test]
fn the_file_of_a_unix_socket_has_the_mode_and_group_of_its_settings() {
    for umask in ["000", "077"] {
        let with = |settings: &[(&str, &str)]| {
            let shell = format!("umask {umask}; exec \"$@\"");
            let mut builder = Server::app(HELLO)
                .listen(["unix:a.sock"])
                .under(&["sh", "-c", &shell, "sh"]);
            for (name, value) in settings {
                builder = builder.setting(name, value);
            }
            let server = builder.start();
            let facts = std::fs::metadata(server.dir().join("a.sock")).expect("it is there");
            (facts.mode() & 0o7777, facts.gid())
        };
        let group = nobody().1;
        assert_eq!(with(&[]), (0o600, 0));
        assert_eq!(with(&[("unix_socket_group", &group)]), (0o660, NOBODY));
        assert_eq!(with(&[("unix_socket_mode", "0666")]), (0o666, 0));
        let both = [("unix_socket_mode", "620"), ("unix_socket_group", &*group)];
        assert_eq!(with(&both), (0o620, NOBODY));
    }
}

#[test]
fn a_socket_cannot_be_given_to_a_group_of_others() {
    let application = Application::new(HELLO);
    owned_by_nobody(&application);
    let ran = Program::new(AS_NOBODY[0])
        .args(&AS_NOBODY[1..])
        .arg(binary())
        .args([
            "serve",
            "--listen",
            "unix:a.sock",
            "--unix-socket-group",
            "0",
        ])
        .arg(application.path())
        .run();
    assert_eq!(ran.status.code(), Some(1), "{}", ran.output());
    for part in [
        "its file cannot be given to group 0",
        "(setting `unix_socket_group`)",
    ] {
        assert!(ran.stderr.contains(part), "{}", ran.output());
    }
    assert!(!application.path().join("a.sock").exists());
}
