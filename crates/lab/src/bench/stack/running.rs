//! One running server: its start until it answers, its process tree, and its stop until nothing is left.
//! Dropping it kills what remains, and the kernel ends it when this process dies.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal};

use super::{Announcement, Deployment, ENVIRONMENT, Launch, Stack};
use crate::bench::http::{self, Response};
use crate::process_tree::{ProcessTree, own_children};

/// Redmine needs some ten seconds of CPU to boot; a shared machine makes that longer.
const BOOT_TIMEOUT: Duration = Duration::from_secs(120);
const STOP_TIMEOUT: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(10);

/// A server that answers.
#[derive(Debug)]
pub struct Running {
    child: Child,
    /// All of its processes.
    pub tree: ProcessTree,
    /// Where it listens.
    pub address: SocketAddr,
    /// From the start of the process to the first good answer.
    pub boot: Duration,
    /// The first good answer.
    pub first: Response,
    log: PathBuf,
}

/// How a server went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stopped {
    /// Processes that were left when the time for the stop was over, and were killed.
    pub left_behind: usize,
}

/// Variables that would change what a command line says.
const UNWANTED: [&str; 9] = [
    "BUNDLE_GEMFILE",
    "MALLOC_ARENA_MAX",
    "PORT",
    "PUMA_MAX_THREADS",
    "RAILS_MAX_THREADS",
    "REDMINE_INSTANCE",
    "RUBYOPT",
    "WEB_CONCURRENCY",
    "X_DEBIAN_SITEID",
];

impl Running {
    /// Starts `stack` and waits until `path` is answered with 200.
    ///
    /// # Errors
    /// When it cannot be started, ends early, or does not answer in two minutes; with the end of its log.
    pub fn start(stack: Stack, deployment: &Deployment, path: &str) -> Result<Self> {
        let port = free_port()?;
        let deployment = Deployment {
            port: port.to_string(),
            ..deployment.clone()
        };
        let launch = stack.launch(&deployment);
        launch.write_files()?;
        let log = Path::new(&deployment.scratch).join("server.log");
        let output = File::create(&log).with_context(|| format!("creating {}", log.display()))?;
        let earlier_children = own_children();
        let begin = Instant::now();
        let child = spawn(&launch, &deployment.app, output)?;
        let tree = ProcessTree::adopting(child.id() as i32, earlier_children);
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let first = Response {
            status: 0,
            body: Vec::new(),
            keep_alive: false,
        };
        let mut running = Self {
            child,
            tree,
            address,
            boot: Duration::ZERO,
            first,
            log,
        };
        running
            .wait_until_it_answers(launch.announcement, path, begin)
            .with_context(|| format!("starting {stack}"))?;
        Ok(running)
    }

    /// The root's pid: Highball's front.
    pub fn root(&self) -> i32 {
        self.child.id() as i32
    }

    /// Asks for a graceful stop, waits for every process, and kills what is left.
    pub fn stop(mut self) -> Stopped {
        if let Some(pid) = Pid::from_raw(self.root()) {
            // Where it has ended by itself there is nothing to ask.
            let _ = rustix::process::kill_process(pid, Signal::TERM);
        }
        let deadline = Instant::now() + STOP_TIMEOUT;
        while Instant::now() < deadline {
            // Looked at first, for that reaps orphans: Passenger waits until its watchdog's zombie is gone.
            let empty = self.tree.members().is_empty();
            let ended = matches!(self.child.try_wait(), Ok(Some(_)) | Err(_));
            if ended && empty {
                return Stopped { left_behind: 0 };
            }
            thread::sleep(POLL);
        }
        Stopped {
            left_behind: self.tree.kill(),
        }
    }

    fn wait_until_it_answers(
        &mut self,
        announcement: Announcement,
        path: &str,
        begin: Instant,
    ) -> Result<()> {
        let mut announced = announcement == Announcement::GivenPort;
        loop {
            if let Some(status) = self.child.try_wait()? {
                bail!("it ended at once ({status}):\n{}", self.end_of_log());
            }
            if !announced && let Some(address) = announced_address(&fs::read_to_string(&self.log)?)
            {
                self.address = address;
                announced = true;
            }
            if announced
                && let Ok(response) = http::get(self.address, path, Duration::from_secs(20))
                && response.status == 200
            {
                self.boot = begin.elapsed();
                self.first = response;
                return Ok(());
            }
            if begin.elapsed() > BOOT_TIMEOUT {
                bail!(
                    "no answer with 200 to GET {path} in {} s:\n{}",
                    BOOT_TIMEOUT.as_secs(),
                    self.end_of_log()
                );
            }
            thread::sleep(POLL);
        }
    }

    fn end_of_log(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.tree.kill();
        let _ = self.child.wait();
    }
}

/// The server leads a session of its own, and gets TERM when the thread that started it ends.
fn spawn(launch: &Launch, app: &str, output: File) -> Result<Child> {
    let mut command = Command::new("setsid");
    command
        .args(["setpriv", "--pdeathsig", "TERM", "--"])
        .args(&launch.command)
        .current_dir(app);
    command
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output);
    for name in UNWANTED {
        command.env_remove(name);
    }
    command
        .envs(ENVIRONMENT)
        .envs(launch.environment.iter().cloned());
    command
        .spawn()
        .context("cannot run setsid and setpriv (package util-linux)")
}

/// A port that was free a moment ago, outside those handed out before by this process.
fn free_port() -> Result<u16> {
    static GIVEN: std::sync::Mutex<BTreeSet<u16>> = std::sync::Mutex::new(BTreeSet::new());
    let mut given = GIVEN.lock().expect("no holder panics");
    for _ in 0..100 {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        if given.insert(port) {
            return Ok(port);
        }
    }
    bail!("no free port on 127.0.0.1")
}

/// Highball's address, once it has said both where it listens and that it is ready.
fn announced_address(output: &str) -> Option<SocketAddr> {
    let listening = output
        .lines()
        .find_map(|line| line.strip_prefix("listening on http://"))?;
    output.lines().find(|line| line.starts_with("ready:"))?;
    listening.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_counts_once_the_server_is_ready() {
        assert_eq!(
            announced_address("listening on http://127.0.0.1:4711\n"),
            None
        );
        let ready = "listening on http://127.0.0.1:4711\nready: 2 workers x 1 threads, generation 1, pid 9\n";
        assert_eq!(
            announced_address(ready),
            Some(([127, 0, 0, 1], 4711).into())
        );
        assert_eq!(announced_address("ready: x\n"), None);
    }

    #[test]
    fn a_command_that_ends_gives_the_end_of_its_log() {
        let scratch = tempfile::tempdir().unwrap();
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        let program = scratch.path().join("failing");
        fs::write(&program, "#!/bin/sh\necho no such application\nexit 3\n").unwrap();
        fs::set_permissions(
            &program,
            std::os::unix::fs::PermissionsExt::from_mode(0o755),
        )
        .unwrap();
        let deployment = Deployment {
            app: text(scratch.path()),
            highball: text(&program),
            scratch: text(scratch.path()),
            port: String::new(),
            workers: 1,
        };
        let error = format!(
            "{:#}",
            Running::start(Stack::Highball, &deployment, "/").unwrap_err()
        );
        assert!(
            error.contains("exit status: 3") && error.contains("no such application"),
            "{error}"
        );
    }
}
