//! HAProxy or nginx before the server: connections to it are kept and shared, and nothing is tried again, so that every
//! failure shows.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use test_support::{Directory, Process, TEST_TIMEOUT};

/// A proxy that runs until it is dropped.
#[derive(Debug)]
pub(crate) struct Proxy {
    child: Child,
    socket: PathBuf,
    /// With its configuration and its log.
    dir: Directory,
}

impl Proxy {
    pub(crate) fn haproxy(server: SocketAddr) -> Self {
        let dir = Directory::new();
        let socket = dir.join("haproxy.sock");
        let config = format!(
            "global\n  maxconn 1000\n\
             defaults\n  mode http\n  timeout connect 5s\n  timeout client 90s\n  timeout server 90s\n\
             \x20 retries 0\n  http-reuse always\n\
             frontend clients\n  bind unix@{}\n  default_backend servers\n\
             backend servers\n  server highball {server}\n",
            socket.display()
        );
        let file = dir.write("haproxy.cfg", config);
        let mut command = Command::new("haproxy");
        command.arg("-db").arg("-f").arg(file);
        Self::start(command, dir, socket)
    }

    pub(crate) fn nginx(server: SocketAddr) -> Self {
        let dir = Directory::new();
        let socket = dir.join("nginx.sock");
        let user = if rustix::process::geteuid().is_root() {
            "user root;\n"
        } else {
            ""
        };
        let bodies = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
        let bodies = bodies.map(|name| format!("{name}_temp_path {};\n", dir.join(name).display()));
        let config = format!(
            "{user}daemon off;\nworker_processes 1;\npid {pid};\nerror_log stderr warn;\n\
             events {{ worker_connections 1000; }}\n\
             http {{\n{bodies}access_log off;\n\
             upstream servers {{ server {server}; keepalive 64; }}\n\
             server {{ listen unix:{socket};\n\
             location / {{ proxy_pass http://servers; proxy_http_version 1.1; proxy_set_header Connection \"\";\n\
             proxy_next_upstream off; proxy_read_timeout 90s; }} }} }}\n",
            pid = dir.join("nginx.pid").display(),
            bodies = bodies.concat(),
            socket = socket.display(),
        );
        let file = dir.write("nginx.conf", config);
        let mut command = Command::new("nginx");
        command
            .arg("-p")
            .arg(dir.path())
            .arg("-c")
            .arg(file)
            .args(["-e", "stderr"]);
        Self::start(command, dir, socket)
    }

    #[track_caller]
    fn start(mut command: Command, dir: Directory, socket: PathBuf) -> Self {
        let log = fs::File::create(dir.join("log")).expect("a folder of the test's own");
        let errors = log.try_clone().expect("a file can be shared");
        let spawned = command
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(errors)
            .spawn();
        let child = spawned.unwrap_or_else(|error| {
            panic!(
                "{:?}: {error} (scripts/install test)",
                command.get_program()
            )
        });
        let mut proxy = Self { child, socket, dir };
        let deadline = Instant::now() + TEST_TIMEOUT;
        while UnixStream::connect(&proxy.socket).is_err() {
            let ended = proxy.child.try_wait().expect("a child of ours");
            let late = Instant::now() > deadline;
            assert!(ended.is_none() && !late, "{ended:?}: {}", proxy.log());
            thread::yield_now();
        }
        proxy
    }

    /// Where clients connect.
    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.dir.join("log")).unwrap_or_default()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // Asked and not killed: nginx has a worker, which it ends.
        Process(self.child.id()).signal(rustix::process::Signal::TERM);
        let deadline = Instant::now() + Duration::from_secs(10);
        while matches!(self.child.try_wait(), Ok(None)) {
            if Instant::now() > deadline {
                let _ = self.child.kill();
            }
            thread::yield_now();
        }
        if thread::panicking() {
            eprintln!("--- the proxy's log\n{}\n---", self.log());
        }
    }
}
