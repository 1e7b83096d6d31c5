//! A running `highball dashboard`, and what its pages say. It reads no page further than a test asks.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::Signal;
use test_support::{Client, Process, Server, binary};

/// A running `highball dashboard`; killed when dropped.
#[derive(Debug)]
pub struct Dashboard {
    /// The command.
    pub command: Child,
    /// Host and port.
    pub host: String,
    /// The target with the key.
    pub target: String,
}

impl Dashboard {
    /// Runs the command and waits for the address that it prints.
    #[track_caller]
    pub fn open(server: &Server) -> Self {
        Self::open_in(server.dir())
    }

    /// The same for the server of the application in this folder.
    #[track_caller]
    pub fn open_in(folder: &Path) -> Self {
        let mut command = Command::new(binary())
            .arg("dashboard")
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command starts");
        let stdout = command.stdout.as_mut().expect("stdout is piped");
        let mut line = String::new();
        BufReader::new(stdout)
            .read_line(&mut line)
            .expect("an address");
        let address = line.trim().strip_prefix("http://");
        let address = address.unwrap_or_else(|| panic!("no address: {line:?}"));
        let (host, target) = address.split_once('/').expect("a path");
        Self {
            host: host.to_owned(),
            target: format!("/{target}"),
            command,
        }
    }

    /// The address that it has printed.
    pub fn address(&self) -> String {
        format!("http://{}{}", self.host, self.target)
    }

    /// Sends a request with these further lines of its head.
    pub fn send(&self, method: &str, target: &str, fields: &str) -> test_support::Response {
        let mut client = Client::connect(self.host.as_str());
        let host = &self.host;
        client.send(format!(
            "{method} {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{fields}\r\n"
        ));
        client.response_to(method)
    }

    /// Exchanges the key for the cookie, as a line of a head.
    #[track_caller]
    pub fn enter(&self) -> String {
        let entered = self.send("GET", &self.target, "");
        assert_eq!(entered.expect(303).field("location"), Some("/dashboard"));
        let cookie = entered.field("set-cookie").expect("a cookie");
        assert!(
            cookie.ends_with("; Path=/dashboard; HttpOnly; SameSite=Strict"),
            "{cookie}"
        );
        let pair = cookie.split(';').next().expect("a pair");
        format!("Cookie: {pair}\r\n")
    }

    /// Ends the command as Ctrl-C does.
    pub fn interrupt(&mut self) {
        Process(self.command.id()).signal(Signal::TERM);
        self.command.wait().expect("it ends");
    }
}

impl Drop for Dashboard {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.command.kill();
        let _ = self.command.wait();
    }
}

/// The value of a figure at the top of a page.
#[track_caller]
pub fn figure(page: &str, name: &str) -> String {
    let start = format!("data-figure=\"{name}\">");
    let rest = page.split(&start).nth(1);
    let rest = rest.unwrap_or_else(|| panic!("no {name} in {page}"));
    rest.split('<').next().expect("its end").to_owned()
}
