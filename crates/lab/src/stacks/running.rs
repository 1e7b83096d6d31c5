//! One running stack: its start until it answers, its process tree, and its stop until nothing is left. Dropping it
//! kills what remains; so does the end of the lab, by the stack's keeper.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Seek as _, SeekFrom, Write};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::definition::{Definition, ProcessTemplate, StopSignal};
use super::keeper::kept::{Kept, Start};
use super::rendering::{Filling, Place, Values};
use super::{Deployment, Presence, ports};
use crate::bench::http::{self, Response, ResponseReader};
use crate::load::plan::Target;
use crate::process_tree::ProcessTree;

/// Between two looks at a server that starts or stops.
const POLL: Duration = Duration::from_millis(10);
/// What is left of a stack after its processes ended may take so long to follow.
const AFTERMATH: Duration = Duration::from_secs(5);
/// One request of a server that boots may take this long.
const ANSWER: Duration = Duration::from_secs(20);
/// Lines of each log that are told.
const LOG_LINES: usize = 15;
/// They are looked for in so many bytes.
const LOG_BYTES: u64 = 16 * 1024;

/// A stack that answers.
#[derive(Debug)]
pub struct Running {
    /// From the start of the first process to the first good answer.
    pub boot: Duration,
    /// Status and body of that answer.
    pub first: (u16, Vec<u8>),
    target: Target,
    tree: ProcessTree,
    scratch: PathBuf,
    started: Vec<Started>,
    /// `None` for a server that was started elsewhere.
    kept: Option<Kept>,
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
    patience: Duration,
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
    fn start(definition: &Definition, deployment: &Deployment) -> Result<Self> {
        if let Presence::Missing { reason, install } = definition.presence_of(&deployment.highball)
        {
            let install =
                install.map_or_else(String::new, |command| format!("; {command} installs it"));
            bail!("{reason}{install}");
        }
        let scratch = &deployment.scratch;
        fs::create_dir_all(scratch).with_context(|| format!("can't make {}", scratch.display()))?;
        let scratch = scratch.canonicalize()?;
        let run = run_folder()?;
        let values = definition.values(deployment, &scratch, run.path())?;
        let kept = Kept::new(run.path(), &deployment.cores, &environment(deployment))?;
        // From now on its keeper removes it, also when the lab is killed.
        let _ = run.keep();
        let filling = Filling::new();
        for (name, content) in definition.rendered_files(&filling, &values)? {
            let path = scratch.join(name);
            fs::write(&path, content).with_context(|| format!("can't write {}", path.display()))?;
        }
        let (last, place) = definition.entry(&values);
        let target = match (last.on_socket, place.port.parse()) {
            (false, Ok(port)) => Target::Tcp(SocketAddr::from(([127, 0, 0, 1], port))),
            _ => Target::Unix(PathBuf::from(&place.socket)),
        };
        let begin = Instant::now();
        let mut running = Self {
            boot: Duration::ZERO,
            first: (0, Vec::new()),
            target,
            tree: ProcessTree::below(kept.pid()),
            scratch,
            started: Vec::new(),
            kept: Some(kept),
        };
        let deadline = begin + deployment.boot_timeout;
        let up = running.bring_up(definition, &values, &filling, deployment, deadline);
        up.map_err(|error| running.with_logs(error))?;
        running.boot = begin.elapsed();
        Ok(running)
    }

    fn elsewhere(url: &str, deployment: &Deployment) -> Result<Self> {
        if url.is_empty() {
            bail!("it has no address: give one with --url NAME=http://host:port");
        }
        let target = Target::Tcp(ports::parse_url(url)?);
        let first = get(&target, &deployment.path)
            .with_context(|| format!("no answer to GET {} from {url}", deployment.path))?;
        if first.status != 200 {
            bail!(
                "{} and not 200 to GET {} from {url}",
                first.status,
                deployment.path
            );
        }
        Ok(Self {
            boot: Duration::ZERO,
            first: (first.status, first.body),
            target,
            // No process has this number.
            tree: ProcessTree::rooted(-1),
            scratch: deployment.scratch.clone(),
            started: Vec::new(),
            kept: None,
        })
    }

    /// Where it listens.
    pub fn target(&self) -> Target {
        self.target.clone()
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
        let entries = fs::read_dir(&self.scratch).into_iter().flatten().flatten();
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "log"));
        paths.sort();
        let ends = paths.iter().filter_map(|path| {
            let end = end_of_file(path).ok()?;
            let name = path.file_name()?.to_string_lossy();
            (!end.is_empty()).then(|| format!("--- end of {name}\n{end}"))
        });
        ends.collect::<Vec<_>>().join("\n")
    }

    /// Asks every process to end, those that clients talk to first, waits for them, and kills what is left.
    pub fn stop(mut self) -> Stopped {
        let ranks = self.started.last().map_or(0, |last| last.rank + 1);
        for rank in (0..ranks).rev() {
            let pids: Vec<i32> = self
                .started
                .iter()
                .filter(|one| one.rank == rank)
                .map(|one| one.pid)
                .collect();
            let patience = self
                .started
                .iter()
                .filter(|one| one.rank == rank)
                .map(|one| one.patience)
                .max();
            for one in self.started.iter().filter(|one| one.rank == rank) {
                signal(one.pid, one.signal);
            }
            let deadline = Instant::now() + patience.unwrap_or_default();
            while pids.iter().any(|pid| self.end_of(*pid).is_none()) && Instant::now() < deadline {
                thread::sleep(POLL);
            }
        }
        let deadline = Instant::now() + AFTERMATH;
        while !self.tree.members().is_empty() && Instant::now() < deadline {
            thread::sleep(POLL);
        }
        Stopped {
            left_behind: self.tree.members().len(),
        }
    }

    fn bring_up(
        &mut self,
        definition: &Definition,
        values: &Values,
        filling: &Filling,
        deployment: &Deployment,
        deadline: Instant,
    ) -> Result<()> {
        for (rank, process) in definition.processes.iter().enumerate() {
            if let Some(port) = process.port.filter(|port| !ports::is_free(*port)) {
                bail!(
                    "port {port} of 127.0.0.1, which {} needs, is in use by another program",
                    process.name
                );
            }
            let places = &values.process[&process.name];
            for place in places {
                let name = if process.each_worker {
                    format!("{} {}", process.name, place.number)
                } else {
                    process.name.clone()
                };
                let rendered = filling.process(definition, process, values, place)?;
                let kept = self
                    .kept
                    .as_mut()
                    .expect("what is started here has a keeper");
                let pid = kept.start(Start {
                    command: rendered.command,
                    environment: rendered.environment,
                    directory: Path::new(&rendered.directory),
                    log: self.scratch.join(format!("{}.log", name.replace(' ', "."))),
                })?;
                let (signal, patience) = (process.stop, process.stop_patience());
                self.started.push(Started {
                    name,
                    pid,
                    rank,
                    signal,
                    patience,
                });
            }
            for place in places {
                self.wait_until_ready(process, place, values.workers, deadline)?;
            }
        }
        self.wait_until_it_answers(&deployment.path, deadline)
    }

    /// Waits until the process listens at `place`, and its log says what it is to say.
    fn wait_until_ready(
        &mut self,
        process: &ProcessTemplate,
        place: &Place,
        workers: usize,
        deadline: Instant,
    ) -> Result<()> {
        let where_ = if process.on_socket {
            place.socket.clone()
        } else {
            format!("127.0.0.1:{}", place.port)
        };
        let name = if process.each_worker {
            format!("{} {}", process.name, place.number)
        } else {
            process.name.clone()
        };
        let listens = || match place.port.parse() {
            Ok(port) if !process.on_socket => ports::somebody_listens(port),
            _ => ports::somebody_listens_at(Path::new(&place.socket)),
        };
        self.wait(deadline, &format!("{name} to listen on {where_}"), |_| {
            listens()
        })?;
        let Some(ready) = &process.ready else {
            return Ok(());
        };
        let times = if ready.each_worker { workers } else { 1 };
        let log = self.scratch.join(format!("{}.log", name.replace(' ', ".")));
        let what = format!(
            "{:?} in the log of {name}{}",
            ready.text,
            if times > 1 {
                format!(", {times} times")
            } else {
                String::new()
            }
        );
        self.wait(deadline, &what, |_| {
            fs::read(&log).is_ok_and(|text| {
                String::from_utf8_lossy(&text).matches(&ready.text).count() >= times
            })
        })
    }

    fn wait_until_it_answers(&mut self, path: &str, deadline: Instant) -> Result<()> {
        let mut last = String::new();
        let waited = self.wait(
            deadline,
            &format!("an answer with 200 to GET {path}"),
            |running| {
                match get(&running.target, path) {
                    Ok(response) if response.status == 200 => {
                        running.first = (response.status, response.body);
                        return true;
                    }
                    Ok(response) => {
                        last = format!("the last answer had status {}", response.status)
                    }
                    Err(error) => last = format!("{error:#}"),
                }
                false
            },
        );
        if last.is_empty() {
            waited
        } else {
            waited.with_context(|| last)
        }
    }

    /// Looks again and again until `done`, a process ends, or the time is over.
    fn wait(
        &mut self,
        deadline: Instant,
        what: &str,
        mut done: impl FnMut(&mut Self) -> bool,
    ) -> Result<()> {
        let begin = Instant::now();
        loop {
            if done(self) {
                return self.all_run();
            }
            self.all_run()
                .with_context(|| format!("waited for {what}"))?;
            if Instant::now() > deadline {
                bail!(
                    "waited for {what}: nothing in {:.0} s",
                    begin.elapsed().as_secs_f64()
                );
            }
            thread::sleep(POLL);
        }
    }

    fn all_run(&mut self) -> Result<()> {
        let Some(kept) = &mut self.kept else {
            return Ok(());
        };
        for one in &self.started {
            if let Some(how) = kept.end_of(one.pid) {
                bail!("{} ended ({how})", one.name);
            }
        }
        Ok(())
    }

    fn end_of(&mut self, pid: i32) -> Option<String> {
        self.kept.as_mut()?.end_of(pid).map(str::to_owned)
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

impl Drop for Running {
    fn drop(&mut self) {
        // The keeper kills what is left, then ends itself.
        drop(self.kept.take());
    }
}

impl Definition {
    /// Paths and ports for one start.
    fn values(&self, deployment: &Deployment, scratch: &Path, run: &Path) -> Result<Values> {
        let (workers, threads) = self.size(deployment.workers, deployment.threads);
        let text = |path: &Path| path.display().to_string();
        let app = &deployment.app;
        let app = app
            .canonicalize()
            .with_context(|| format!("the application {}", app.display()))?;
        let mut process = BTreeMap::new();
        for template in &self.processes {
            let count = if template.each_worker { workers } else { 1 };
            let mut places = Vec::new();
            for number in 1..=count {
                let port = template.port.map_or_else(ports::free, Ok)?;
                places.push(Place {
                    number: number.to_string(),
                    port: port.to_string(),
                    socket: text(&run.join(format!("{}.{number}", template.name))),
                });
            }
            process.insert(template.name.clone(), places);
        }
        let environment = deployment.environment.get("RACK_ENV");
        Ok(Values {
            app: text(&app),
            scratch: text(scratch),
            run: text(run),
            workers,
            threads,
            environment: environment.map_or_else(|| "production".to_owned(), Clone::clone),
            user: told("id", &["-un"])?,
            group: told("id", &["-gn"])?,
            program: self.program_paths(&deployment.highball),
            process,
        })
    }

    /// The process that clients talk to, and where.
    fn entry<'a>(&'a self, values: &'a Values) -> (&'a ProcessTemplate, &'a Place) {
        let last = self
            .processes
            .last()
            .expect("checked when the file was read");
        (last, &values.process[&last.name][0])
    }
}

/// A new folder with a short path, since a socket's path has 107 bytes at most (unix(7)), which servers that run as
/// another user can enter.
fn run_folder() -> Result<TempDir> {
    let folder = tempfile::Builder::new().prefix("highball-").tempdir();
    let folder = folder.context("can't make a temporary folder")?;
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755))?;
    Ok(folder)
}

fn environment(deployment: &Deployment) -> BTreeMap<String, String> {
    let mut environment = BTreeMap::from(
        ["RACK_ENV", "RAILS_ENV"].map(|name| (name.to_owned(), "production".to_owned())),
    );
    environment.extend(deployment.environment.clone());
    environment
}

fn told(program: &str, arguments: &[&str]) -> Result<String> {
    let output = std::process::Command::new(program).args(arguments).output();
    let output = output.with_context(|| format!("can't run {program}"))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn signal(pid: i32, signal: StopSignal) {
    let signal = match signal {
        StopSignal::Term => Signal::TERM,
        StopSignal::Quit => Signal::QUIT,
        StopSignal::Int => Signal::INT,
    };
    if let Some(pid) = Pid::from_raw(pid) {
        // Where it has ended by itself there is nothing to ask.
        let _ = kill_process(pid, signal);
    }
}

/// The last lines that are not blank.
fn end_of_file(path: &Path) -> std::io::Result<String> {
    let mut file = File::open(path)?;
    // A log of requests can be large.
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LOG_BYTES)))?;
    let mut end = Vec::new();
    file.read_to_end(&mut end)?;
    let end = String::from_utf8_lossy(&end);
    let lines: Vec<&str> = end.lines().filter(|line| !line.trim().is_empty()).collect();
    Ok(lines[lines.len().saturating_sub(LOG_LINES)..].join("\n"))
}

/// One GET on a connection of its own.
fn get(target: &Target, path: &str) -> Result<Response> {
    match target {
        Target::Tcp(address) => http::get(*address, path, ANSWER),
        Target::Unix(socket) => {
            let mut stream = UnixStream::connect(socket)?;
            stream.set_read_timeout(Some(ANSWER))?;
            stream
                .write_all(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes())?;
            let mut reader = ResponseReader::default();
            let mut buffer = [0; 16 * 1024];
            loop {
                match stream.read(&mut buffer)? {
                    0 => return reader.closed(),
                    count => {
                        if let Some(response) = reader.feed(&buffer[..count])? {
                            return Ok(response);
                        }
                    }
                }
            }
        }
    }
}
