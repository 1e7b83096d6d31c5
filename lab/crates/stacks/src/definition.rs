//! A stack as its file describes it: programs, generated files, processes. Data and its checks; nothing is started
//! here.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, bail};
use rustix::process::Signal;
use serde::Deserialize;

use super::program::Program;
use crate::toml_file;

/// One file of `lab/stacks`; `lab/stacks/README.md` explains every key.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// As on the command line: `nginx+thin`.
    pub id: String,
    /// Other names for the same.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// For people; a template.
    pub name: String,
    /// What it is, in a sentence.
    pub about: String,
    /// A remark for readers of its figures; may be empty.
    #[serde(default)]
    pub note: String,
    /// Ruby processes of a stack that has no choice.
    pub workers: Option<usize>,
    /// Threads of each process of a stack that has no choice.
    pub threads: Option<usize>,
    /// Whether clients speak TLS with it; the lab makes its certificate.
    #[serde(default)]
    pub(super) tls: bool,
    /// Where it listens when the lab does not start it: `http://host:port`. Empty where `--url` must name it.
    pub url: Option<String>,
    /// What must be installed.
    #[serde(default, rename = "program")]
    pub(super) programs: Vec<Program>,
    /// What is written before anything starts.
    #[serde(default, rename = "file")]
    pub(super) files: Vec<FileTemplate>,
    /// What is started, in this order, each once the one before is up; clients talk to the last.
    #[serde(default, rename = "process")]
    pub(super) processes: Vec<ProcessTemplate>,
    /// A command that loads the application again without a break; templates, of which `program` is known. The number of
    /// the process that clients talk to is its last argument.
    #[serde(default)]
    pub(super) restart: Vec<String>,
    /// Where it was read from, for messages.
    #[serde(skip)]
    pub(super) source: PathBuf,
}

/// A generated file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileTemplate {
    /// Its name in the scratch folder.
    pub(super) path: String,
    /// A template.
    pub(super) content: String,
}

/// A process, or a cluster of the same.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ProcessTemplate {
    /// Unique in the stack; also the name of its log.
    pub(super) name: String,
    /// Program and arguments, each a template.
    pub(super) command: Vec<String>,
    /// Variables in addition to those of the deployment; values are templates.
    #[serde(default)]
    pub(super) environment: BTreeMap<String, String>,
    /// A template; the application's folder unless given.
    pub(super) directory: Option<String>,
    /// Whether there is one for each worker.
    #[serde(default)]
    pub(super) each_worker: bool,
    /// Whether it listens on a UNIX socket and not on a port.
    #[serde(default)]
    pub(super) on_socket: bool,
    /// A port that can't be chosen.
    pub(super) port: Option<u16>,
    /// What its log must say before it counts as up; it must listen too.
    pub(super) ready: Option<ReadyLine>,
    /// Part of the command line of its workers, where they come only once it is asked for something: the stack is up
    /// when there are as many as it is to have.
    pub(super) workers_title: Option<String>,
    /// The signal that ends it.
    #[serde(default)]
    pub(super) stop: StopSignal,
    /// How long it may take to end, in seconds; then it is killed.
    #[serde(default = "default_stop_seconds")]
    stop_seconds: u64,
}

/// A text in a log that means readiness.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadyLine {
    /// Part of a line.
    pub(super) text: String,
    /// Whether it comes once for each worker.
    #[serde(default)]
    pub(super) each_worker: bool,
}

/// How a process is asked to end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub(super) enum StopSignal {
    /// SIGTERM.
    #[default]
    Term,
    /// SIGQUIT.
    Quit,
    /// SIGINT.
    Int,
}

fn default_stop_seconds() -> u64 {
    20
}

impl From<StopSignal> for Signal {
    fn from(signal: StopSignal) -> Self {
        match signal {
            StopSignal::Term => Self::TERM,
            StopSignal::Quit => Self::QUIT,
            StopSignal::Int => Self::INT,
        }
    }
}

impl ProcessTemplate {
    /// What the one with this number is called: `thin 2`, or `nginx` where there is one alone.
    pub(super) fn title(&self, number: &str) -> String {
        if self.each_worker {
            format!("{} {number}", self.name)
        } else {
            self.name.clone()
        }
    }

    /// Its log's file name.
    pub(super) fn log(&self, number: &str) -> String {
        format!("{}.log", self.title(number).replace(' ', "."))
    }

    /// How long it may take to end.
    pub(super) fn stop_timeout(&self) -> Duration {
        Duration::from_secs(self.stop_seconds)
    }
}

impl Definition {
    /// Reads the file at `path`.
    ///
    /// # Errors
    /// It can't be read, holds an unknown key, contradicts itself, or has a template that can't be filled in.
    pub fn read(path: &Path) -> Result<Self> {
        let mut definition: Self = toml_file::read(path)?;
        path.clone_into(&mut definition.source);
        definition.check()?;
        Ok(definition)
    }

    /// A server that was started elsewhere: `url` is `http://host:port`.
    ///
    /// # Errors
    /// The URL is none of that form.
    pub fn external(id: &str, url: &str) -> Result<Self> {
        let definition = Self {
            id: id.to_owned(),
            aliases: Vec::new(),
            name: format!("{id} (started elsewhere)"),
            about: format!("A server that answers at {url} and that the lab does not start."),
            note: "Not started by the lab: its CPU, its memory and its number of processes are unknown, and it is not \
                   fresh in each trial."
                .to_owned(),
            workers: None,
            threads: None,
            tls: false,
            url: Some(url.to_owned()),
            programs: Vec::new(),
            files: Vec::new(),
            restart: Vec::new(),
            processes: Vec::new(),
            source: PathBuf::from(format!("the stack {id}")),
        };
        super::ports::parse_url(url)?;
        definition.check()?;
        Ok(definition)
    }

    /// Whether the lab does not start it.
    pub fn is_external(&self) -> bool {
        self.url.is_some()
    }

    fn check(&self) -> Result<()> {
        let file = self.source.display();
        let is_name = |text: &str| {
            !text.is_empty()
                && text
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || "-_+.".contains(c))
        };
        for id in self.aliases.iter().chain([&self.id]) {
            if !is_name(id) {
                bail!("{file}: id {id:?} may hold letters, digits, - _ + and . only");
            }
        }
        if self.is_external() != self.processes.is_empty() {
            bail!("{file}: give either url or one [[process]] or more");
        }
        for (index, process) in self.processes.iter().enumerate() {
            let name = &process.name;
            if name.is_empty() || !name.chars().all(|c| c.is_ascii_lowercase() || c == '_') {
                bail!(
                    "{file}: the name of process {name:?} may hold small letters and _ only, for templates use it"
                );
            }
            if self.processes[..index]
                .iter()
                .any(|other| other.name == *name)
            {
                bail!("{file}: two processes are named {name}");
            }
            if process.command.is_empty() {
                bail!("{file}: the command of process {name} is empty");
            }
            let is_last = index + 1 == self.processes.len();
            if is_last && process.each_worker {
                bail!(
                    "{file}: clients talk to the last process, so {name} can't be one for each worker"
                );
            }
            if process.port.is_some() && (process.on_socket || process.each_worker) {
                bail!(
                    "{file}: process {name} has a port of its own, so it is a single one and on no socket"
                );
            }
        }
        if self.tls && self.processes.last().is_none_or(|last| last.on_socket) {
            bail!("{file}: with tls the last process listens on a port");
        }
        for template in &self.files {
            if template.path.contains('/') || template.path.starts_with('.') {
                bail!(
                    "{file}: the file {} must lie in the scratch folder itself",
                    template.path
                );
            }
        }
        // Fills in every template once, with names in the places of paths and ports.
        self.describe_as(2, 1).map(drop)
    }
}
