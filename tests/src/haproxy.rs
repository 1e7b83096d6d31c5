//! Debian's HAProxy before a server of a test, with a socket and a configuration of the test's own, and what it hears of the
//! server's agent.

use std::fs;
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};

use rustix::process::Signal;
use test_support::{Directory, Process, Server};

/// The address of agent checks.
///
/// # Panics
/// When the server has none.
pub fn agent(server: &Server) -> String {
    let line = server.log().wait(|line| line.contains("agent checks"));
    let (_, rest) = line.split_once("answered on ").expect("an address");
    rest.split(' ').next().expect("a word").to_owned()
}

/// What an agent check hears.
///
/// # Panics
/// When nobody listens there.
pub fn check(address: &str) -> String {
    let mut text = String::new();
    let mut socket = TcpStream::connect(address).expect("it listens");
    socket.read_to_string(&mut text).expect("a line");
    text
}

/// A running HAProxy, ended when it is dropped.
#[derive(Debug)]
pub struct HaProxy(Child);

impl HaProxy {
    /// Starts one with this configuration, in which `fd@0` is the listener: the kernel has chosen a port that is free. Its log is
    /// in the directory.
    ///
    /// # Panics
    /// When the program is missing.
    pub fn start(dir: &Directory, configuration: String, listener: TcpListener) -> Self {
        dir.write("haproxy.cfg", configuration);
        let log = || fs::File::create(dir.join("log")).expect("a folder of the test's own");
        let child = Command::new("/usr/sbin/haproxy")
            .args(["-db", "-f"])
            .arg(dir.join("haproxy.cfg"))
            .stdin(Stdio::from(OwnedFd::from(listener)))
            .stdout(log())
            .stderr(log())
            .spawn()
            .unwrap_or_else(|error| panic!("haproxy: {error} (scripts/install test)"));
        Self(child)
    }
}

impl Drop for HaProxy {
    fn drop(&mut self) {
        Process(self.0.id()).signal(Signal::TERM);
        let _ = self.0.wait();
    }
}
