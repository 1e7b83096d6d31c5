//! What a service manager and a server tell each other, with the test in the manager's place. The unit files are
//! for `units`.

use std::collections::BTreeMap;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver};
use std::time::Instant;

use test_support::{Application, Client, Directory, Server, ServerBuilder, TEST_TIMEOUT};

const HELLO: &str = r##"run lambda { |env| Test.text("hello") }"##;

/// Where servers say what they are doing.
struct Manager {
    said: Receiver<Said>,
    path: PathBuf,
    _dir: Directory,
}

/// What a server says, by its names.
type Said = BTreeMap<String, String>;

impl Manager {
    fn new() -> Self {
        let dir = Directory::new();
        let path = dir.join("notify");
        let socket = UnixDatagram::bind(&path).expect("a socket");
        let (tell, said) = mpsc::channel();
        // Whatever the test does: the kernel holds a few of them only.
        std::thread::spawn(move || {
            let mut text = [0; 4096];
            while let Ok(length) = socket.recv(&mut text)
                && tell.send(read(&text[..length])).is_ok()
            {}
        });
        Self {
            said,
            path,
            _dir: dir,
        }
    }

    /// Starts a server as a service, watched with this period.
    fn start(&self, builder: ServerBuilder, watchdog_us: Option<u32>) -> Server {
        let socket = format!("NOTIFY_SOCKET={}", self.path.display());
        let period = watchdog_us.map(|period| format!("WATCHDOG_USEC={period}"));
        let mut wrapper = vec!["env", &socket];
        wrapper.extend(period.as_deref());
        builder.under(&wrapper).start()
    }

    #[track_caller]
    fn next(&self) -> Said {
        let said = self.said.recv_timeout(TEST_TIMEOUT);
        said.expect("the server says something")
    }

    /// What is said next that is no word for the watchdog.
    #[track_caller]
    fn next_but_watchdog(&self) -> Said {
        std::iter::repeat_with(|| self.next())
            .find(|said| !said.contains_key("WATCHDOG"))
            .expect("it goes on for ever")
    }
}

fn read(text: &[u8]) -> Said {
    let text = std::str::from_utf8(text).expect("UTF-8");
    let pairs = text
        .lines()
        .map(|line| line.split_once('=').expect("a name"));
    pairs
        .map(|(name, value)| (name.into(), value.into()))
        .collect()
}

#[track_caller]
fn expect(said: &Said, pairs: &[(&str, &str)]) {
    let found: Vec<_> = said
        .iter()
        .map(|(name, value)| (&**name, &**value))
        .collect();
    assert_eq!(found, pairs);
}

const READY: &str = "ready: 1 worker x 1 thread, generation 1";

#[test]
fn the_manager_hears_of_start_reload_and_stop() {
    let manager = Manager::new();
    let server = manager.start(Server::app(HELLO), None);
    expect(&manager.next(), &[("READY", "1"), ("STATUS", READY)]);
    assert!(server.command(&["reload"]).status.success());
    let said = manager.next();
    assert_eq!(said["RELOADING"], "1");
    let since_boot: u64 = said["MONOTONIC_USEC"].parse().unwrap();
    assert!(since_boot > 0);
    expect(&manager.next(), &[("READY", "1"), ("STATUS", READY)]);
    server
        .application()
        .dir()
        .write("highball.toml", "nonsense = 1\n");
    assert!(!server.command(&["reload"]).status.success());
    assert_eq!(manager.next()["RELOADING"], "1");
    expect(&manager.next(), &[("READY", "1"), ("STATUS", READY)]);
    assert!(server.stop().status.success());
    expect(&manager.next(), &[("STOPPING", "1")]);
}

#[test]
fn the_watchdog_is_fed_by_the_fronts_own_loop() {
    let manager = Manager::new();
    let server = manager.start(Server::app(HELLO), Some(200_000));
    expect(&manager.next(), &[("READY", "1"), ("STATUS", READY)]);
    for _ in 0..5 {
        expect(&manager.next(), &[("WATCHDOG", "1")]);
    }
    server.get("/").expect(200);
}

#[test]
fn after_an_upgrade_the_new_process_is_the_service() {
    let manager = Manager::new();
    let mut server = manager.start(Server::app(HELLO), Some(200_000));
    expect(&manager.next(), &[("READY", "1"), ("STATUS", READY)]);
    let ran = server.command(&["upgrade"]);
    assert!(ran.status.success(), "{}", ran.output());
    let new = server.status().processes("front")[0];
    let pid = new.0.to_string();
    expect(&manager.next_but_watchdog(), &[("MAINPID", &pid)]);
    let second = READY.replace("generation 1", "generation 2");
    expect(
        &manager.next_but_watchdog(),
        &[("READY", "1"), ("STATUS", &second)],
    );
    let old = server.replaced_by(new);
    assert!(old.wait_gone(TEST_TIMEOUT));
    for _ in 0..5 {
        expect(&manager.next(), &[("WATCHDOG", "1")]);
    }
    server.stop();
    expect(&manager.next_but_watchdog(), &[("STOPPING", "1")]);
}

#[test]
fn the_application_does_not_hear_of_the_manager() {
    let manager = Manager::new();
    let source = r##"run lambda { |env|
        Test.text(ENV.keys.grep(/\A(NOTIFY|WATCHDOG|LISTEN|HIGHBALL_HANDOVER)/).join(","))
    }"##;
    let mut server = manager.start(Server::app(source), Some(5_000_000));
    assert_eq!(server.get("/").text(), "");
    assert!(server.command(&["upgrade"]).status.success());
    server.replaced_by(server.status().processes("front")[0]);
    assert_eq!(server.get("/").text(), "");
}

#[test]
fn without_a_manager_that_listens_the_server_serves() {
    let server = Server::app(HELLO)
        .under(&[
            "env",
            "NOTIFY_SOCKET=@highball-test-nobody",
            "WATCHDOG_USEC=100000",
        ])
        .start();
    server.get("/").expect(200);
    assert!(server.stop().status.success());
}

/// Starts a server through systemd-socket-activate, which opens these sockets and starts it with the first connection.
fn activated(builder: ServerBuilder, sockets: &[&str], path: &Path) -> Server {
    // It hands no variables on but these.
    let mut wrapper = vec!["systemd-socket-activate"];
    for name in ["TEST_SERVER", "HIGHBALL_RUBY_LIB"] {
        wrapper.extend(["--setenv", name]);
    }
    for socket in sockets {
        wrapper.extend(["--listen", socket]);
    }
    let names = ["--fdname=web:local", "--fdname=web"][usize::from(sockets.len() == 1)];
    wrapper.push(names);
    std::thread::scope(|scope| {
        // It waits in the backlog until the server is up, and is answered then.
        let first = scope.spawn(|| {
            let deadline = Instant::now() + TEST_TIMEOUT;
            while UnixStream::connect(path).is_err() {
                assert!(Instant::now() < deadline, "nobody listens");
                std::thread::yield_now();
            }
        });
        let server = builder.under(&wrapper).start();
        first.join().expect("it was heard");
        server
    })
}

#[test]
fn sockets_of_the_manager_take_the_place_of_what_would_be_bound() {
    let application = Application::new(HELLO);
    let path = application.path().join("web.sock");
    let socket = path.display().to_string();
    let other = application.path().join("local.sock");
    let setting = format!("unix:{socket}");
    let builder = Server::application_of(application).listen([&*setting, "127.0.0.1:0"]);
    let sockets = [&*socket, &*other.display().to_string()];
    let mut server = activated(builder, &sockets, &path);
    let lines = server.log().lines();
    let line = |part: &str| lines.iter().any(|line| line.contains(part));
    assert!(
        line(&format!("listening on {setting} (socket \"web\")")),
        "{lines:?}"
    );
    let none = "local.sock (socket \"local\", not in the settings)";
    assert!(line(none), "{lines:?}");
    let check = |server: &Server| {
        for path in [&path, &other] {
            Client::connect_unix(path).get("/").expect(200);
        }
        server.get("/").expect(200);
    };
    check(&server);
    // They go over to another server, and are known to it as what they are.
    let ran = server.command(&["upgrade"]);
    assert!(ran.status.success(), "{}", ran.output());
    let new = server.status().processes("front")[0];
    let old = server.replaced_by(new);
    assert!(old.wait_gone(TEST_TIMEOUT));
    check(&server);
    server
        .log()
        .wait_after(lines.len(), |line| line.contains(none));
    // The files are the manager's.
    let stopped = server.stop();
    assert!(stopped.status.success() && path.exists() && other.exists());
}

#[test]
fn without_a_word_on_where_to_listen_the_managers_sockets_are_all() {
    let application = Application::new(HELLO);
    let path = application.path().join("web.sock");
    let socket = path.display().to_string();
    let builder = Server::application_of(application).listen::<&str>([]);
    let server = activated(builder, &[&socket], &path);
    assert_eq!(server.addresses(), [format!("unix:{socket}")]);
    Client::connect_unix(&path).get("/").expect(200);
}
