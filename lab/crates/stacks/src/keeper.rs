//! The keeper of one stack, or of the commands that make an application ready: a process of its own that starts their
//! processes, adopts whatever they leave behind, and kills all of them once the lab is gone, however it went. It never
//! decides what is started.
//!
//! It is the reaper of its descendants (`PR_SET_CHILD_SUBREAPER`), so that a server can daemonize and still not get
//! away. The lab holds the other end of its stdin: orders come in as lines of JSON, and the end of file, which the
//! kernel brings about also when the lab is killed, means that all must end. Reports go out on stdout, as lines of JSON.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead as _, Write as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use anyhow::{Context as _, Result};
use rustix::process::{WaitId, WaitIdOptions, WaitOptions, wait, waitid};
use rustix::thread::{CpuSet, sched_setaffinity};
use serde::{Deserialize, Serialize};

use crate::process_tree::{ProcessTree, become_reaper};

pub(crate) mod kept;

/// The program of the lab.
const LAB: &str = "highball-lab";
/// The program that is a keeper and nothing else, for tests.
const KEEPER: &str = "highball-keeper";
/// Its hidden command that is the keeper.
pub const COMMAND: &str = "keep-stack";

/// A process to start.
#[derive(Debug, Serialize, Deserialize)]
struct Order {
    /// Program and arguments.
    command: Vec<String>,
    /// Variables in addition to the keeper's own.
    environment: BTreeMap<String, String>,
    /// Where it runs.
    directory: PathBuf,
    /// Where its output goes.
    log: PathBuf,
}

/// A message of the keeper.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Report {
    /// The last order's process runs.
    Started {
        /// Its number.
        pid: i32,
    },
    /// The last order's process could not be started.
    Refused {
        /// Why.
        reason: String,
    },
    /// A process that was ordered has ended, or an orphan has.
    Ended {
        /// Its number.
        pid: i32,
        /// How: `exit status: 1`.
        how: String,
    },
}

/// The keeper's command line.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub struct Arguments {
    /// A folder that is removed at the end.
    run: PathBuf,
    /// Cores that everything is bound to.
    cores: Vec<usize>,
}

/// Whether there may be children to wait for. Held while a child is started, so that its end is not reaped before its number is known.
type Children = Arc<(Mutex<bool>, Condvar)>;

/// Keeps a stack until stdin ends, then kills what is left of it.
///
/// # Errors
/// The kernel refuses to make this process a reaper or to bind it to the cores.
pub fn keep(arguments: &Arguments) -> Result<()> {
    become_reaper()?;
    if !arguments.cores.is_empty() {
        let mut set = CpuSet::new();
        arguments.cores.iter().for_each(|core| set.set(*core));
        sched_setaffinity(None, &set)
            .with_context(|| format!("can't bind the stack to the cores {:?}", arguments.cores))?;
    }
    let children = Children::default();
    let reaped = Arc::clone(&children);
    thread::spawn(move || reap(&reaped));
    for line in std::io::stdin().lock().lines() {
        // A line that is no order was cut off by the lab's end; the next read ends the loop.
        let Some(order) = line
            .ok()
            .and_then(|line| serde_json::from_str::<Order>(&line).ok())
        else {
            continue;
        };
        let (running, signal) = &*children;
        let mut running = running.lock().expect("no holder panics");
        match spawn(&order) {
            Ok(pid) => {
                *running = true;
                signal.notify_one();
                report(&Report::Started { pid });
            }
            Err(error) => report(&Report::Refused {
                reason: format!("{error:#}"),
            }),
        }
    }
    ProcessTree::below(std::process::id() as i32).kill();
    // A failure can't be reported any more; the folder is a temporary one.
    let _ = fs::remove_dir_all(&arguments.run);
    Ok(())
}

fn spawn(order: &Order) -> Result<i32> {
    let [program, arguments @ ..] = order.command.as_slice() else {
        anyhow::bail!("the command is empty");
    };
    let log = File::options().create(true).append(true).open(&order.log);
    let log = log.with_context(|| format!("can't write {}", order.log.display()))?;
    let child = Command::new(program)
        .args(arguments)
        .envs(&order.environment)
        .current_dir(&order.directory)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        // A server that signals its whole group must not hit the keeper.
        .process_group(0)
        .spawn()
        .with_context(|| format!("can't run {program} in {}", order.directory.display()))?;
    Ok(child.id() as i32)
}

/// Reaps children as they end: Passenger takes a zombie for a running process.
fn reap((running, signal): &(Mutex<bool>, Condvar)) {
    loop {
        let waiting = running.lock().expect("no holder panics");
        drop(
            signal
                .wait_while(waiting, |running| !*running)
                .expect("no holder panics"),
        );
        // Looks only; the end is taken under the lock.
        let _ = waitid(WaitId::All, WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
        let mut running = running.lock().expect("no holder panics");
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => {
                    let how = ExitStatus::from_raw(status.as_raw()).to_string();
                    report(&Report::Ended {
                        pid: pid.as_raw_nonzero().get(),
                        how,
                    });
                }
                Ok(None) => break,
                Err(_) => {
                    *running = false;
                    break;
                }
            }
        }
    }
}

/// Writes one line to stdout. If the lab is gone, the end of stdin ends the keeper.
fn report(report: &Report) {
    let mut line = serde_json::to_vec(report).expect("a report is plain data");
    line.push(b'\n');
    let _ = std::io::stdout().lock().write_all(&line);
}

/// The program that can be a keeper, and its first arguments: the lab's own, or the keeper that was built with a test.
fn program() -> Result<(PathBuf, Vec<&'static str>)> {
    let exe = std::env::current_exe().context("can't find the path of this program")?;
    program_for(&exe)
}

fn program_for(exe: &Path) -> Result<(PathBuf, Vec<&'static str>)> {
    if exe.file_name().is_some_and(|name| name == LAB) {
        return Ok((exe.to_owned(), vec![COMMAND]));
    }
    // target/debug/deps/a_test, or target/debug/another-program.
    let folders = || exe.ancestors().skip(1).take(2);
    let find = |name: &str| {
        let paths = folders().map(|folder| folder.join(name));
        paths.into_iter().find(|path| path.is_file())
    };
    let built = |path: &PathBuf| path.metadata().and_then(|file| file.modified()).ok();
    let keeper = find(KEEPER).map(|path| (path, Vec::new()));
    let lab = find(LAB).map(|path| (path, vec![COMMAND]));
    // cargo builds one of them with a test; the other may be of an earlier day.
    let newest = lab
        .into_iter()
        .chain(keeper)
        .max_by_key(|(path, _)| built(path));
    newest.with_context(|| {
        format!(
            "neither {KEEPER} nor {LAB} is next to {}: build one first",
            exe.display()
        )
    })
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;

    #[test]
    fn the_keeper_is_the_program_that_was_built_last() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let exe = path("deps/a_test");
        let error = program_for(&exe).unwrap_err().to_string();
        assert!(error.contains("build one first"), "{error}");

        let build = |name: &str, age: u64| {
            let file = File::create(path(name)).unwrap();
            let moment = SystemTime::now() - Duration::from_secs(age);
            file.set_modified(moment).unwrap();
        };
        build(KEEPER, 100);
        assert_eq!(program_for(&exe).unwrap(), (path(KEEPER), Vec::new()));
        build(LAB, 50);
        assert_eq!(program_for(&exe).unwrap(), (path(LAB), vec![COMMAND]));
        build(KEEPER, 0);
        assert_eq!(program_for(&exe).unwrap(), (path(KEEPER), Vec::new()));
        let lab = program_for(&path(LAB)).unwrap();
        assert_eq!(lab, (path(LAB), vec![COMMAND]));
    }
}
