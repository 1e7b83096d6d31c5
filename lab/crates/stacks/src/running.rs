//! One running stack: its start until it answers, its process tree, and its stop until nothing is left. Dropping it
//! kills what remains; so does the end of the lab, by the stack's keeper.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, kill_process};

use super::definition::{Definition, StopSignal};
use super::keeper::kept::Kept;
use super::rendering::Filling;
use super::{Deployment, Presence, ports};
use crate::process_tree::ProcessTree;
use loadgen::page;
use loadgen::plan::{Target, Tls, Trust};

mod boot;
mod certificate;
mod log;
mod placement;
mod restart;

pub use restart::Restarted;

/// Time between two checks of a server that starts or stops.
const POLL: Duration = Duration::from_millis(10);
/// How long other processes of a stack may take to end after those that were started: Passenger checks its pool every ten
/// seconds only.
const DESCENDANTS_TIMEOUT: Duration = Duration::from_secs(20);

/// How a process ended that crashed, as the standard library says it. SIGKILL is no crash: somebody sent it, or the kernel for
/// lack of memory.
const CRASHES: [&str; 5] = ["(SIGABRT)", "(SIGBUS)", "(SIGFPE)", "(SIGILL)", "(SIGSEGV)"];

/// A stack that answers.
#[derive(Debug)]
pub struct Running {
    /// How a first attempt to start it failed, where a process of it crashed.
    pub crashed_start: Option<String>,
    /// From the start of the first process to the first good answer.
    pub boot: Duration,
    /// Status and body of that answer.
    pub first: (u16, Vec<u8>),
    /// Whether a process was found crashed.
    crashed: bool,
    target: Target,
    tree: ProcessTree,
    scratch: PathBuf,
    started: Vec<Started>,
    /// The command that restarts it; empty where there is none.
    restart: Vec<String>,
    /// `None` for a server that was started elsewhere.
    kept: Option<Box<Kept>>,
}

/// One process that was started.
#[derive(Debug)]
struct Started {
    /// For people: `thin 2`.
    name: String,
    pid: i32,
    /// Processes with the same rank were started together.
    rank: usize,
    signal: StopSignal,
    stop_timeout: Duration,
}

/// How a stack went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stopped {
    /// Processes that were left when the time for the stop was over, and were killed.
    pub left_behind: usize,
}

impl Definition {
    /// Starts it and waits until the deployment's page is answered with 200.
    ///
    /// # Errors
    /// Something is not installed, a port is in use, a process ends early, or nothing answers in time; with what was
    /// waited for and the end of the logs.
    pub fn start(&self, deployment: &Deployment) -> Result<Running> {
        let context = || format!("stack {}", self.id);
        match &self.url {
            Some(url) => Running::elsewhere(url, deployment).with_context(context),
            None => Running::start(self, deployment).with_context(context),
        }
    }
}

impl Running {
    /// Starts a stack; once more where a process of it crashes, because some do that once in hundreds of starts, and a
    /// comparison consists of hundreds.
    fn start(definition: &Definition, deployment: &Deployment) -> Result<Self> {
        let (mut running, mut up) = Self::attempt(definition, deployment)?;
        if let Err(error) = &up
            && running.crashed
        {
            let crashed_start = Some(format!("{error:#}"));
            // Nothing is left of it before the next one comes.
            drop(running);
            (running, up) = Self::attempt(definition, deployment)?;
            running.crashed_start = crashed_start;
        }
        up.map_err(|error| running.with_logs(error))?;
        Ok(running)
    }

    /// Starts a stack, and waits until it answers or has failed.
    fn attempt(definition: &Definition, deployment: &Deployment) -> Result<(Self, Result<()>)> {
        if let Presence::Missing { reason, install } = definition.presence_of(&deployment.highball)
        {
            let install =
                install.map_or_else(String::new, |command| format!("; {command} installs it"));
            bail!("{reason}{install}");
        }
        let scratch = &deployment.scratch;
        fs::create_dir_all(scratch).with_context(|| format!("can't make {}", scratch.display()))?;
        let scratch = scratch.canonicalize()?;
        let run = placement::run_folder()?;
        let values = definition.values(deployment, &scratch, run.path())?;
        // Its keeper removes it too, should the lab be killed.
        let environment = placement::environment(deployment, run.path());
        let kept = Kept::new(run, &deployment.cores, &environment)?;
        let filling = Filling::new();
        for (name, content) in definition.rendered_files(&filling, &values)? {
            let path = scratch.join(name);
            fs::write(&path, content).with_context(|| format!("can't write {}", path.display()))?;
        }
        if definition.tls {
            certificate::write(&scratch)?;
        }
        let (last, place) = definition.entry(&values);
        let target = match (last.on_socket, place.port.parse()) {
            (false, Ok(port)) => {
                let address = SocketAddr::from(([127, 0, 0, 1], port));
                match definition.tls {
                    true => Target::Tls(address, own_certificate()),
                    false => Target::Tcp(address),
                }
            }
            _ => Target::Unix(PathBuf::from(&place.socket)),
        };
        let mut running = Self {
            crashed_start: None,
            crashed: false,
            boot: Duration::ZERO,
            first: (0, Vec::new()),
            target,
            tree: ProcessTree::below(kept.pid()),
            scratch,
            started: Vec::new(),
            restart: definition.restart_command(&filling, &deployment.highball)?,
            kept: Some(Box::new(kept)),
        };
        let up = running.bring_up(definition, &values, &filling, deployment);
        Ok((running, up))
    }

    fn elsewhere(url: &str, deployment: &Deployment) -> Result<Self> {
        if url.is_empty() {
            bail!("it has no address: give one with --url NAME=http://host:port");
        }
        let target = Target::Tcp(ports::parse_url(url)?);
        let first = page::get(&target, &deployment.path, boot::FIRST_ANSWER_TIMEOUT)
            .with_context(|| format!("no answer to GET {} from {url}", deployment.path))?;
        if first.status != 200 {
            bail!(
                "{} and not 200 to GET {} from {url}",
                first.status,
                deployment.path
            );
        }
        Ok(Self {
            crashed_start: None,
            crashed: false,
            boot: Duration::ZERO,
            first: (first.status, first.body),
            target,
            // No process has this number.
            tree: ProcessTree::rooted(-1),
            scratch: deployment.scratch.clone(),
            started: Vec::new(),
            restart: Vec::new(),
            kept: None,
        })
    }

    /// Where it listens.
    pub fn target(&self) -> Target {
        self.target.clone()
    }

    /// The process that clients talk to; `None` for a server that was started elsewhere.
    pub fn entry(&self) -> Option<i32> {
        self.started.last().map(|one| one.pid)
    }

    /// All of its processes; none for a server that was started elsewhere.
    pub fn tree(&mut self) -> &mut ProcessTree {
        &mut self.tree
    }

    /// Whether every process that was started still runs.
    ///
    /// # Errors
    /// One has ended: which, how, and the end of the logs.
    pub fn still_up(&mut self) -> Result<()> {
        self.all_run().map_err(|error| self.with_logs(error))
    }

    /// The end of every log in the scratch folder.
    pub fn log_end(&self) -> String {
        log::ends(&self.scratch)
    }

    /// Asks every process to end, those that clients talk to first, waits for them, and kills what is left.
    pub fn stop(mut self) -> Stopped {
        while let Some(rank) = self.started.last().map(|last| last.rank) {
            let first = self.started.partition_point(|one| one.rank < rank);
            let group = self.started.split_off(first);
            for one in &group {
                self.ask_to_end(one);
            }
            let timeout = group
                .iter()
                .map(|one| one.stop_timeout)
                .max()
                .unwrap_or_default();
            let deadline = Instant::now() + timeout;
            while group.iter().any(|one| self.runs(one)) && Instant::now() < deadline {
                thread::sleep(POLL);
            }
        }
        let deadline = Instant::now() + DESCENDANTS_TIMEOUT;
        while !self.tree.members().is_empty() && Instant::now() < deadline {
            thread::sleep(POLL);
        }
        Stopped {
            left_behind: self.tree.members().len(),
        }
    }

    fn all_run(&mut self) -> Result<()> {
        let Some(kept) = &mut self.kept else {
            return Ok(());
        };
        for one in &self.started {
            if let Some(how) = kept.end_of(one.pid) {
                self.crashed = CRASHES.iter().any(|signal| how.contains(signal));
                bail!("{} ended ({how})", one.name);
            }
        }
        Ok(())
    }

    fn runs(&mut self, one: &Started) -> bool {
        self.kept
            .as_mut()
            .is_some_and(|kept| kept.end_of(one.pid).is_none())
    }

    fn ask_to_end(&mut self, one: &Started) {
        // The number of an ended process may belong to another one by now.
        if let Some(pid) = Pid::from_raw(one.pid).filter(|_| self.runs(one)) {
            // It may end at this very moment.
            let _ = kill_process(pid, one.signal.into());
        }
    }

    fn with_logs(&self, error: anyhow::Error) -> anyhow::Error {
        let logs = self.log_end();
        if logs.is_empty() {
            error
        } else {
            anyhow::anyhow!("{error:#}\n{logs}")
        }
    }
}

/// TLS with a certificate that the lab has made itself.
fn own_certificate() -> Tls {
    Tls {
        name: "localhost".to_owned(),
        trust: Trust::Any,
        resumption: true,
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The keeper kills what is left, then ends itself.
        drop(self.kept.take());
    }
}
