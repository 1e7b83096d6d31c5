//! The lab's end of a keeper: orders to it, reports from it. Dropping it ends the keeper and all that it keeps.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::thread;

use anyhow::{Context as _, Result, bail};
use tempfile::TempDir;

use super::{Order, Report, program};

/// A keeper and its reports.
#[derive(Debug)]
pub(crate) struct Kept {
    keeper: Child,
    orders: Option<ChildStdin>,
    reports: Receiver<Report>,
    /// How processes ended, by number.
    ended: BTreeMap<i32, String>,
    /// Removed when this is dropped, should the keeper not have come to it.
    _run: TempDir,
}

/// What a keeper is to start.
#[derive(Debug)]
pub(crate) struct Start<'a> {
    /// Program and arguments.
    pub(crate) command: Vec<String>,
    /// Variables of its own.
    pub(crate) environment: BTreeMap<String, String>,
    /// Where it runs.
    pub(crate) directory: &'a Path,
    /// Where its output goes.
    pub(crate) log: PathBuf,
}

const GONE: &str = "its keeper is gone";

/// Variables that would override command lines.
const UNWANTED: [&str; 16] = [
    "BUNDLE_GEMFILE",
    "LD_PRELOAD",
    "MALLOC_ARENA_MAX",
    "MALLOC_CONF",
    "PIDFILE",
    "PORT",
    "PUMA_MAX_THREADS",
    "PUMA_MIN_THREADS",
    "RAILS_MAX_THREADS",
    "RAILS_MIN_THREADS",
    "REDMINE_INSTANCE",
    "RUBYOPT",
    "RUBY_YJIT_ENABLE",
    "UNICORN_FD",
    "WEB_CONCURRENCY",
    "X_DEBIAN_SITEID",
];

/// Keeps from `command` those of this process's variables, `names`, that would change what it does.
pub(crate) fn remove_unwanted_variables(
    command: &mut Command,
    names: impl Iterator<Item = OsString>,
) {
    // Settings of Highball are for the server that a person starts; its Ruby files are where they are.
    let settings = names.filter(|name| {
        let name = name.to_string_lossy();
        name.starts_with("HIGHBALL_") && name != "HIGHBALL_RUBY_LIB"
    });
    settings.chain(UNWANTED.map(Into::into)).for_each(|name| {
        command.env_remove(name);
    });
}

impl Kept {
    /// Starts a keeper that binds everything to `cores`, gives it `environment`, and removes `run` at the end.
    ///
    /// # Errors
    /// It can't be started.
    pub(crate) fn new(
        run: TempDir,
        cores: &[usize],
        environment: &BTreeMap<String, String>,
    ) -> Result<Self> {
        let (program, arguments) = program()?;
        let mut command = Command::new(&program);
        command
            .args(arguments)
            .arg(run.path())
            .args(cores.iter().map(usize::to_string));
        remove_unwanted_variables(&mut command, std::env::vars_os().map(|(name, _)| name));
        let mut keeper = command
            .envs(environment)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Ctrl-C in a terminal is for the lab alone.
            .process_group(0)
            .spawn()
            .with_context(|| format!("can't run {}", program.display()))?;
        let (send, reports) = mpsc::channel();
        let lines = BufReader::new(keeper.stdout.take().expect("its stdout is piped"));
        thread::spawn(move || {
            for line in lines.lines().map_while(std::io::Result::ok) {
                // What it does not understand can only be the message of a panic.
                if let Ok(report) = serde_json::from_str(&line)
                    && send.send(report).is_err()
                {
                    return;
                }
            }
        });
        Ok(Self {
            orders: keeper.stdin.take(),
            keeper,
            reports,
            ended: BTreeMap::new(),
            _run: run,
        })
    }

    /// The keeper's own number: everything below it is the stack.
    pub(crate) fn pid(&self) -> i32 {
        self.keeper.id() as i32
    }

    /// Starts a process and gives its number.
    ///
    /// # Errors
    /// It can't be started, or the keeper is gone.
    pub(crate) fn start(&mut self, start: Start<'_>) -> Result<i32> {
        let order = Order {
            command: start.command,
            environment: start.environment,
            directory: start.directory.to_owned(),
            log: start.log,
        };
        let mut line = serde_json::to_vec(&order)?;
        line.push(b'\n');
        let orders = self
            .orders
            .as_mut()
            .expect("it is closed when this is dropped only");
        orders.write_all(&line).context(GONE)?;
        loop {
            match self.reports.recv().context(GONE)? {
                Report::Started { pid } => {
                    // Numbers come round again.
                    self.ended.remove(&pid);
                    return Ok(pid);
                }
                Report::Refused { reason } => bail!(reason),
                Report::Ended { pid, how } => {
                    self.ended.insert(pid, how);
                }
            }
        }
    }

    /// How the process ended, if it did. Nothing is known of it any more once the keeper is gone, which counts as its end.
    pub(crate) fn end_of(&mut self, pid: i32) -> Option<&str> {
        let gone = loop {
            match self.reports.try_recv() {
                Ok(Report::Ended { pid, how }) => drop(self.ended.insert(pid, how)),
                Ok(Report::Started { .. } | Report::Refused { .. }) => {}
                Err(error) => break error == TryRecvError::Disconnected,
            }
        };
        let ended = self.ended.get(&pid).map(String::as_str);
        ended.or(gone.then_some(GONE))
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        // At the end of its stdin it kills what is left.
        drop(self.orders.take());
        let _ = self.keeper.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_the_lab_do_not_reach_what_it_starts() {
        let mut command = Command::new("true");
        let names = ["HIGHBALL_WORKERS", "HIGHBALL_RUBY_LIB", "PATH"];
        remove_unwanted_variables(&mut command, names.map(Into::into).into_iter());
        let removed = |name: &str| {
            let mut changed = command.get_envs();
            changed.any(|(variable, value)| variable == name && value.is_none())
        };
        let expected = [true, false, false, true];
        let names = [names[0], names[1], names[2], "RUBYOPT"];
        assert_eq!(names.map(removed), expected);
    }
}
