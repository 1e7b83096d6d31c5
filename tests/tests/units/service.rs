//! The service of one application in the machine, as docs/systemd.md has an operator set it up: units, user, folder,
//! drop-ins. Plays no part of systemd.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;

use test_support::{Application, Client, Process, Program, Ran, Status, TEST_TIMEOUT, until};

pub(crate) const SERVICE: &str = "highball@shop.service";
pub(crate) const SOCKET: &str = "highball@shop.socket";
/// What the `.socket` unit listens on.
pub(crate) const PATH: &str = "/run/highball/shop.sock";
/// Where it listens by default.
const ADDRESS: &str = "127.0.0.1:3000";
/// The link that `ExecStart` names.
pub(crate) const CURRENT: &str = "/srv/shop/current";
const DROP_INS: &str = "/etc/systemd/system/highball@shop.service.d";

/// The service of `shop`, until it is dropped.
pub(crate) struct Service {
    pub(crate) application: Application,
    /// Where its part of the journal begins.
    cursor: String,
}

impl Service {
    /// This application, deployed and not started: one worker with two threads.
    pub(crate) fn of(application: Application) -> Self {
        application
            .dir()
            .write("highball.toml", "workers = 1\nthreads = 2\n");
        deploy(&application);
        let cursor = run(
            "journalctl",
            &["-q", "-n", "1", "-o", "json", "--output-fields=_PID"],
        );
        let line: serde_json::Value = serde_json::from_str(cursor.trim()).expect("one entry");
        let cursor = line["__CURSOR"].as_str().expect("a cursor").to_owned();
        Self {
            application,
            cursor,
        }
    }

    /// What an operator adds with `systemctl edit`.
    pub(crate) fn edit(&self, text: &str) {
        fs::create_dir_all(DROP_INS).expect("root may do that");
        fs::write(Path::new(DROP_INS).join("override.conf"), text).expect("root may do that");
        run("systemctl", &["daemon-reload"]);
    }

    /// Writes the application's file of settings.
    pub(crate) fn settings(&self, text: &str) {
        self.application.dir().write("highball.toml", text);
    }

    /// One of its properties, as `systemctl show` has it.
    #[track_caller]
    pub(crate) fn property(&self, name: &str) -> String {
        run(
            "systemctl",
            &["show", "--property", name, "--value", SERVICE],
        )
        .trim()
        .to_owned()
    }

    /// Whether it is `active`, `activating` and so on.
    #[track_caller]
    pub(crate) fn state(&self) -> String {
        self.property("ActiveState")
    }

    /// The process that systemd takes for the service.
    #[track_caller]
    pub(crate) fn main(&self) -> Process {
        Process(self.property("MainPID").parse().expect("a number"))
    }

    /// A client where the server listens without a socket of systemd's.
    #[track_caller]
    pub(crate) fn connect(&self) -> Client {
        Client::connect(ADDRESS)
    }

    /// Runs `highball COMMAND` about it with the installed program, as root, who names the process.
    #[track_caller]
    pub(crate) fn command(&self, command: &str, more: &[&str]) -> Ran {
        let process = self.main().0.to_string();
        let program = Program::highball([&[command, "--pid", &process][..], more].concat());
        // It starts nothing that would need the files.
        program.patience(2 * TEST_TIMEOUT).run()
    }

    /// What `highball status` tells.
    #[track_caller]
    pub(crate) fn status(&self) -> Status {
        let ran = self.command("status", &["--json"]);
        assert!(ran.status.success(), "{}", ran.output());
        Status(serde_json::from_str(&ran.stdout).expect("JSON"))
    }

    /// Where its control group is.
    #[track_caller]
    pub(crate) fn group(&self) -> PathBuf {
        PathBuf::from(format!("/sys/fs/cgroup{}", self.property("ControlGroup")))
    }

    /// The processes in its control group.
    #[track_caller]
    pub(crate) fn processes(&self) -> Vec<Process> {
        let text = fs::read_to_string(self.group().join("cgroup.procs")).expect("it runs");
        text.lines()
            .map(|line| Process(line.parse().expect("a number")))
            .collect()
    }

    /// A number in a file of its control group: the whole of it, or that behind a name.
    #[track_caller]
    pub(crate) fn figure(&self, file: &str, name: &str) -> u64 {
        let text = fs::read_to_string(self.group().join(file)).expect("systemd counts memory");
        let found = text.lines().find_map(|line| line.strip_prefix(name));
        found.expect("the line").trim().parse().expect("a number")
    }

    /// What the journal has of it since the scenario began.
    pub(crate) fn journal(&self) -> String {
        let after = format!("--after-cursor={}", self.cursor);
        run(
            "journalctl",
            &["-q", "-o", "cat", "-u", SERVICE, "-u", SOCKET, &after],
        )
    }

    /// Waits until its journal has this text, and gives that line back.
    #[track_caller]
    pub(crate) fn logged(&self, text: &str) -> String {
        let mut found = None;
        until(text, || {
            let journal = self.journal();
            found = journal
                .lines()
                .find(|line| line.contains(text))
                .map(str::to_owned);
            found.is_some()
        });
        found.expect("it was found")
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- the journal\n{}\n---", self.journal());
        }
        // It may have failed already: what counts is that nothing of it is there afterwards.
        let units = [SERVICE, SOCKET];
        for command in [&["kill", "--signal=KILL"][..], &["stop"], &["reset-failed"]] {
            Program::new("systemctl").args(command).args(units).run();
        }
        if fs::remove_dir_all(DROP_INS).is_ok() {
            Program::new("systemctl").arg("daemon-reload").run();
        }
    }
}

/// Has the link that is served name this application's folder.
pub(crate) fn deploy(application: &Application) {
    run(
        "chown",
        &["-R", "shop:shop", &application.path().display().to_string()],
    );
    let new = format!("{CURRENT}.new");
    symlink(application.path(), &new).expect("root may do that");
    fs::rename(new, CURRENT).expect("root may do that");
}

/// Has systemd do something with the service, which must succeed.
#[track_caller]
pub(crate) fn systemctl(command: &str) {
    run("systemctl", &[command, SERVICE]);
}

/// The same, however it ends.
#[track_caller]
pub(crate) fn try_systemctl(command: &str) -> Ran {
    let program = Program::new("systemctl").args([command, SERVICE]);
    program.patience(2 * TEST_TIMEOUT).run()
}

/// Runs a program that must succeed; its stdout.
#[track_caller]
pub(crate) fn run(program: &str, arguments: &[&str]) -> String {
    let ran = Program::new(program)
        .args(arguments)
        .patience(2 * TEST_TIMEOUT)
        .run();
    assert!(
        ran.status.success(),
        "{program} {arguments:?}: {}",
        ran.output()
    );
    ran.stdout
}

/// A client on the socket of the `.socket` unit.
#[track_caller]
pub(crate) fn connect() -> Client {
    Client::connect_unix(Path::new(PATH))
}

/// Clients of the `.socket` unit that come one after the other. Each has to be answered.
pub(crate) struct Traffic {
    over: Arc<AtomicBool>,
    answered: Arc<AtomicUsize>,
    clients: JoinHandle<()>,
}

impl Traffic {
    pub(crate) fn start() -> Self {
        let (over, answered) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let (ends, count) = (Arc::clone(&over), Arc::clone(&answered));
        let clients = std::thread::spawn(move || {
            while !ends.load(Ordering::Relaxed) {
                connect().patience(2 * TEST_TIMEOUT).get("/").expect(200);
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
        let traffic = Self {
            over,
            answered,
            clients,
        };
        traffic.more();
        traffic
    }

    /// Waits until one more client has come and was answered.
    #[track_caller]
    pub(crate) fn more(&self) {
        // One may be on its way.
        let enough = self.answered.load(Ordering::Relaxed) + 2;
        until("clients are answered", || {
            self.answered.load(Ordering::Relaxed) >= enough || self.clients.is_finished()
        });
    }

    /// Ends it. Returns the number of clients.
    ///
    /// # Panics
    /// When one was not answered.
    #[track_caller]
    pub(crate) fn end(self) -> usize {
        self.over.store(true, Ordering::Relaxed);
        self.clients.join().expect("each client is answered");
        self.answered.load(Ordering::Relaxed)
    }
}
