//! A running server: started in its application's folder, its log collected, stopped with its end checked.
//! A server that leaves a process behind fails the test that started it.

pub(crate) mod builder;

use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use rustix::process::Signal;

use crate::TEST_TIMEOUT;
use crate::application::Application;
use crate::client::Client;
use crate::log::Log;
use crate::process::{Family, Process};
use crate::program::{Program, Ran};
use crate::server::builder::ServerBuilder;
use crate::status::Status;

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
        ServerBuilder::new(application)
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

    /// The first listener with TLS.
    ///
    /// # Panics
    /// When there is none.
    pub fn tls_address(&self) -> SocketAddr {
        let address = |name: &String| name.strip_prefix("https://")?.parse().ok();
        let found = self.addresses.iter().find_map(address);
        found.expect("a listener with TLS")
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
    /// ends can be seen, how the new one does cannot: it is no child of the test, and its status counts as success.
    pub fn replaced_by(&mut self, process: Process) -> Process {
        let (send, ended) = mpsc::channel();
        thread::spawn(move || {
            while !process.wait_gone(TEST_TIMEOUT) {}
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
        let Ok(status) = self.ended.recv_timeout(2 * TEST_TIMEOUT) else {
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
