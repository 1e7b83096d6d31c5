//! A running server: started in its application's folder, its log collected, stopped with its end checked.
//! A server that leaves a process behind fails the test that started it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use rustix::process::Signal;

use crate::PATIENCE;
use crate::application::Application;
use crate::client::Client;
use crate::log::Log;
use crate::process::{Family, Process};
use crate::program::{Program, Ran, binary, clean};
use crate::status::Status;

/// The variable that marks every process of one test's server.
const MARK: &str = "TEST_SERVER";

/// What a server is started with.
#[derive(Debug)]
pub struct ServerBuilder {
    application: Application,
    listen: Vec<String>,
    workers: usize,
    threads: usize,
    settings: Vec<(String, String)>,
    wrapper: Vec<String>,
    folder: Option<PathBuf>,
    program: Option<PathBuf>,
    settings_file: bool,
}

/// A server that is ready, until it is dropped or stopped.
#[derive(Debug)]
pub struct Server {
    /// Taken by a stop alone.
    application: Option<Application>,
    process: Process,
    mark: String,
    log: Log,
    addresses: Vec<String>,
    ended: Receiver<ExitStatus>,
    stopped: bool,
}

/// A server that has ended.
#[derive(Debug)]
pub struct Stopped {
    /// How it ended.
    pub status: ExitStatus,
    /// Everything it wrote.
    pub log: Vec<String>,
    /// Its application's folder, for what may have been left there.
    pub application: Application,
}

impl Server {
    /// A server for what `source` runs, under Rack::Lint: one worker with one thread, one listener on a free port.
    pub fn app(source: &str) -> ServerBuilder {
        Self::application_of(Application::new(source))
    }

    /// The same for an application that the test prepared itself.
    pub fn application_of(application: Application) -> ServerBuilder {
        ServerBuilder {
            application,
            listen: vec!["127.0.0.1:0".to_owned()],
            workers: 1,
            threads: 1,
            settings: Vec::new(),
            wrapper: Vec::new(),
            folder: None,
            program: None,
            settings_file: false,
        }
    }

    /// Opens a connection to the first listener.
    #[track_caller]
    pub fn connect(&self) -> Client {
        Client::connect(self.address())
    }

    /// The first TCP listener.
    ///
    /// # Panics
    /// When there is none.
    pub fn address(&self) -> SocketAddr {
        let tcp = self.tcp_addresses();
        *tcp.first().expect("a TCP listener")
    }

    /// All TCP listeners, in the order of their lines.
    pub fn tcp_addresses(&self) -> Vec<SocketAddr> {
        self.addresses
            .iter()
            .filter_map(|address| address.strip_prefix("http://")?.parse().ok())
            .collect()
    }

    /// Every listener, as the server named it.
    pub fn addresses(&self) -> &[String] {
        &self.addresses
    }

    /// Sends a request without a body over a connection of its own, and waits for nothing.
    #[track_caller]
    pub fn ask(&self, method: &str, target: &str) -> Client {
        let mut client = self.connect();
        client.ask(method, target);
        client
    }

    /// A GET over a connection of its own.
    #[track_caller]
    pub fn get(&self, target: &str) -> crate::Response {
        self.connect().get(target)
    }

    /// The application that it serves.
    pub fn application(&self) -> &Application {
        self.application.as_ref().expect("it was not stopped")
    }

    /// Its folder.
    pub fn dir(&self) -> &Path {
        self.application().path()
    }

    /// Its log.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// The process of the front.
    pub fn process(&self) -> Process {
        self.process
    }

    /// Everything that belongs to it now: front, template, workers and what they started.
    pub fn family(&self) -> Family {
        Family::of(self.process, &self.mark)
    }

    /// Runs another command of the binary in the application's folder.
    #[track_caller]
    pub fn command(&self, arguments: &[&str]) -> Ran {
        Program::highball(arguments).current_dir(self.dir()).run()
    }

    /// What `highball status --json` tells of it.
    ///
    /// # Panics
    /// When the command fails or tells no JSON.
    #[track_caller]
    pub fn status(&self) -> Status {
        let ran = self.command(&["status", "--json"]);
        assert!(ran.status.success(), "status: {}", ran.output());
        match serde_json::from_str(&ran.stdout) {
            Ok(value) => Status(value),
            Err(error) => panic!("status --json: {error}: {}", ran.output()),
        }
    }

    /// Goes on with the process that has taken over from it, and gives back the one that serves no more. How that one
    /// ends can be seen, how the new one does cannot: it is nobody's child here, and its status counts as success.
    pub fn replaced_by(&mut self, process: Process) -> Process {
        let (send, ended) = mpsc::channel();
        thread::spawn(move || {
            while !process.wait_gone(PATIENCE) {}
            // The test may be over.
            let _ = send.send(ExitStatus::default());
        });
        self.ended = ended;
        std::mem::replace(&mut self.process, process)
    }

    /// Stops it with TERM, and checks that nothing of it is left.
    ///
    /// # Panics
    /// When it does not end, or leaves a process behind.
    #[track_caller]
    pub fn stop(self) -> Stopped {
        self.stop_with(Signal::TERM)
    }

    /// Stops it with another signal, and checks that nothing of it is left.
    ///
    /// # Panics
    /// When it does not end, or leaves a process behind.
    #[track_caller]
    pub fn stop_with(self, signal: Signal) -> Stopped {
        let mut family = self.family();
        self.process.signal(signal);
        self.wait(&mut family)
    }

    /// Waits for its end, which something else caused, and checks that nothing of it is left.
    ///
    /// # Panics
    /// When it does not end, or leaves a process behind.
    #[track_caller]
    pub fn wait_end(self) -> Stopped {
        let mut family = self.family();
        self.wait(&mut family)
    }

    #[track_caller]
    fn wait(mut self, family: &mut Family) -> Stopped {
        // Longer than the drain's default, which a stop may use up.
        let Ok(status) = self.ended.recv_timeout(2 * PATIENCE) else {
            panic!("the server did not end:\n{}", self.log.text());
        };
        self.stopped = true;
        family.join(Family::of(self.process, &self.mark));
        let left = family.wait_gone(Duration::from_secs(5));
        if !left.is_empty() {
            left.iter().for_each(|process| process.kill());
            panic!("processes left behind: {left:?}\n{}", self.log.text());
        }
        self.log.wait_closed();
        Stopped {
            status,
            log: self.log.lines(),
            application: self.application.take().expect("it was not stopped"),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.stopped {
            return;
        }
        let mut family = self.family();
        self.process.signal(Signal::TERM);
        let ended = self.ended.recv_timeout(Duration::from_secs(10)).is_ok();
        if !ended {
            self.process.kill();
        }
        family.join(Family::of(self.process, &self.mark));
        let left = family.wait_gone(Duration::from_secs(5));
        left.iter().for_each(|process| process.kill());
        if thread::panicking() {
            eprintln!("--- the server's log\n{}\n---", self.log.text());
            return;
        }
        assert!(ended, "TERM did not end the server:\n{}", self.log.text());
        assert!(
            left.is_empty(),
            "processes left behind: {left:?}\n{}",
            self.log.text()
        );
    }
}

impl ServerBuilder {
    /// The number of workers.
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers;
        self
    }

    /// The number of threads in each.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// A setting by its name in the file.
    #[must_use]
    pub fn setting(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Listens on these addresses instead of a free port of 127.0.0.1.
    #[must_use]
    pub fn listen<A: AsRef<str>>(mut self, addresses: impl IntoIterator<Item = A>) -> Self {
        self.listen = addresses
            .into_iter()
            .map(|address| address.as_ref().to_owned())
            .collect();
        self
    }

    /// Starts it by this name of the binary under test, such as a link.
    #[must_use]
    pub fn program(mut self, program: PathBuf) -> Self {
        self.program = Some(program);
        self
    }

    /// Writes the file of settings, which then says how many workers and threads there are.
    #[must_use]
    pub fn settings_file(mut self, text: &str) -> Self {
        self.application.dir().write("highball.toml", text);
        self.settings_file = true;
        self
    }

    /// Serves this folder instead of the application's own.
    #[must_use]
    pub fn folder(mut self, folder: PathBuf) -> Self {
        self.folder = Some(folder);
        self
    }

    /// Starts it through another program, such as `nohup`: this one's arguments come first.
    #[must_use]
    pub fn under(mut self, wrapper: &[&str]) -> Self {
        self.wrapper = wrapper.iter().map(|&part| part.to_owned()).collect();
        self
    }

    /// The application, for its events and gates: they are made before it starts.
    pub fn application(&self) -> &Application {
        &self.application
    }

    /// Starts it and waits until it is ready.
    ///
    /// # Panics
    /// When it does not become ready within [`PATIENCE`], with its log.
    #[track_caller]
    pub fn start(self) -> Server {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let mark = format!("{}-{number}", std::process::id());
        let mut child = self.spawn(&mark);
        let log = Log::default();
        log.follow(child.stdout.take().expect("stdout is piped"));
        log.follow(child.stderr.take().expect("stderr is piped"));
        let process = Process(child.id());
        let (send, ended) = mpsc::channel();
        thread::spawn(move || send.send(child.wait().expect("a child of ours")));
        let mut server = Server {
            application: Some(self.application),
            process,
            mark: format!("{MARK}={mark}"),
            log,
            addresses: Vec::new(),
            ended,
            stopped: false,
        };
        server.log.wait(|line| line.contains("ready: "));
        server.addresses = server
            .log
            .lines()
            .iter()
            .filter_map(|line| line.split_once("listening on "))
            .map(|(_, rest)| rest.split(['"', ' ']).next().unwrap_or(rest).to_owned())
            .collect();
        // A service manager may have given it more.
        let (found, wanted) = (server.addresses.len(), self.listen.len());
        assert!(found >= wanted, "one line for each listener");
        server
    }

    fn spawn(&self, mark: &str) -> Child {
        // Whoever runs the tests may ignore HUP (nohup does), and a server keeps that.
        let mut command = Command::new("env");
        command.arg("--default-signal=HUP");
        command
            .args(&self.wrapper)
            .arg(self.program.clone().unwrap_or_else(binary));
        let own = || self.application.path().to_owned();
        command
            .arg("serve")
            .arg(self.folder.clone().unwrap_or_else(own));
        clean(&mut command);
        for address in &self.listen {
            command.args(["--listen", address]);
        }
        if !self.settings_file {
            command
                .args(["--workers", &self.workers.to_string()])
                .args(["--threads", &self.threads.to_string()]);
        }
        command.args(["--environment", "test"]);
        for (name, value) in &self.settings {
            command.arg(format!("--{}", name.replace('_', "-")));
            command.arg(value);
        }
        command
            .env(MARK, mark)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", binary().display()))
    }
}
