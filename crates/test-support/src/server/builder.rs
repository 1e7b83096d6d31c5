//! How a server is started: its settings, and the wait until it is ready.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use super::Server;
use crate::application::Application;
use crate::log::Log;
use crate::process::Process;
use crate::program::{binary, clean};
use crate::pseudo_terminal::PseudoTerminal;

/// The variable that marks every process of one test's server.
const MARK: &str = "TEST_SERVER";

/// What a server is started with.
#[derive(Debug)]
pub struct ServerBuilder {
    application: Application,
    listen: Vec<String>,
    workers: usize,
    threads: String,
    settings: Vec<(String, String)>,
    wrapper: Vec<String>,
    folder: Option<PathBuf>,
    program: Option<PathBuf>,
    settings_file: bool,
    variables: Vec<(String, String)>,
    terminal: Option<(OwnedFd, File)>,
    environment: Option<String>,
}

impl ServerBuilder {
    pub(super) fn new(application: Application) -> Self {
        Self {
            application,
            listen: vec!["127.0.0.1:0".to_owned()],
            workers: 1,
            threads: "1".to_owned(),
            settings: Vec::new(),
            wrapper: Vec::new(),
            folder: None,
            program: None,
            settings_file: false,
            variables: Vec::new(),
            terminal: None,
            environment: Some("staging".to_owned()),
        }
    }

    /// The number of workers.
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers;
        self
    }

    /// The number of threads in each, or a range of it.
    #[must_use]
    pub fn threads(mut self, threads: impl ToString) -> Self {
        self.threads = threads.to_string();
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

    /// Runs it in this environment; `None` names none. Without this call it is `staging`, whose defaults are those of
    /// production.
    #[must_use]
    pub fn environment(mut self, environment: Option<&str>) -> Self {
        self.environment = environment.map(str::to_owned);
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

    /// A variable of its environment.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Starts it in this terminal: its log has what is written there.
    ///
    /// # Panics
    /// When no descriptors are left.
    #[must_use]
    pub fn terminal(mut self, terminal: &PseudoTerminal) -> Self {
        let end = terminal.program_end().expect("a descriptor");
        let reader = terminal.reader().expect("a descriptor");
        self.terminal = Some((end, reader));
        self
    }

    /// The application, for its events and gates: they are made before it starts.
    pub fn application(&self) -> &Application {
        &self.application
    }

    /// Starts it and waits until it is ready.
    ///
    /// # Panics
    /// When it does not become ready within [`TEST_TIMEOUT`](crate::TEST_TIMEOUT), with its log.
    #[track_caller]
    pub fn start(mut self) -> Server {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let mark = format!("{}-{number}", std::process::id());
        let mut child = self.spawn(&mark);
        let log = Log::default();
        if let Some((_, reader)) = self.terminal.take() {
            log.follow(reader);
        }
        let stdout = child.stdout.take().map(OwnedFd::from);
        let stderr = child.stderr.take().map(OwnedFd::from);
        for output in [stdout, stderr].into_iter().flatten() {
            log.follow(File::from(output));
        }
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
            .map(|(_, rest)| {
                rest.split(['"', ' ', '\r'])
                    .next()
                    .unwrap_or(rest)
                    .to_owned()
            })
            .collect();
        // A service manager may have given it more.
        let (found, wanted) = (server.addresses.len(), self.listen.len());
        assert!(found >= wanted, "one line for each listener");
        server
    }

    fn spawn(&self, mark: &str) -> Child {
        // The parent of the tests may ignore HUP (nohup does), and a server keeps that.
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
                .args(["--threads", &self.threads]);
        }
        if let Some(environment) = &self.environment {
            command.args(["--environment", environment]);
        }
        for (name, value) in &self.settings {
            command.arg(format!("--{}", name.replace('_', "-")));
            command.arg(value);
        }
        let output = || match &self.terminal {
            None => Stdio::piped(),
            Some((end, _)) => end.try_clone().expect("a descriptor").into(),
        };
        let variables = self.variables.iter();
        command
            .envs(variables.map(|(name, value)| (name, value)))
            .env(MARK, mark)
            .stdin(Stdio::null())
            .stdout(output())
            .stderr(output())
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", binary().display()))
    }
}
