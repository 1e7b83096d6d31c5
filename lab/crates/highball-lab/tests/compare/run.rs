//! One run of `highball compare` in a process of its own: started, followed, signalled, and looked after for what it
//! left.

#![allow(clippy::unwrap_used, reason = "it is a part of tests")]

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use test_support::{Directory, Family, Process};

/// How long what was started may take to be gone.
const EXIT_TIMEOUT: Duration = Duration::from_secs(60);

/// A run, before, while and after it runs.
pub(crate) struct Lab {
    command: Command,
    /// Where its results go.
    pub(crate) output: PathBuf,
    /// In the environment of everything that it starts.
    mark: String,
    child: Option<Child>,
    stderr: Option<BufReader<ChildStderr>>,
    text: String,
    /// What runs while it is signalled.
    family: Option<Family>,
}

/// How it ended.
pub(crate) struct Ended {
    /// Its exit code; `None` after a signal.
    pub(crate) code: Option<i32>,
    /// Its stdout.
    pub(crate) stdout: String,
    /// Its stderr.
    pub(crate) text: String,
}

impl Lab {
    /// With the application in `folder/app`, short loads, and these flags.
    pub(crate) fn new(folder: &Directory, flags: &[&str]) -> Self {
        let app = folder.join("app");
        let short = [
            "--app",
            app.to_str().unwrap(),
            "--duration",
            "1s",
            "--warm-up",
            "1s",
        ];
        let words: Vec<&str> = short.iter().chain(flags).copied().collect();
        Self::with(folder, &words)
    }

    /// With these flags alone; results go to `folder/results` unless they say otherwise.
    pub(crate) fn with(folder: &Directory, flags: &[&str]) -> Self {
        let output = folder.join("results");
        let mark = format!("LAB_UNDER_TEST={}", folder.path().display());
        let mut command = Command::new(test_support::lab_binary());
        command
            .arg("compare")
            .args(flags)
            .current_dir(folder.path());
        if !flags.contains(&"--resume") && !flags.contains(&"--report") {
            command.arg("--output").arg(&output);
        }
        let (name, value) = mark.split_once('=').unwrap();
        command
            .env(name, value)
            .env("HIGHBALL_LAB", test_support::workspace().join("lab"))
            .env("HIGHBALL_RUBY_LIB", test_support::ruby_library())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Self {
            command,
            output,
            mark,
            child: None,
            stderr: None,
            text: String::new(),
            family: None,
        }
    }

    /// A variable of its environment.
    pub(crate) fn env(&mut self, name: &str, value: &str) {
        self.command.env(name, value);
    }

    /// No file of it may become longer: as on a full disk, writing fails (setrlimit(2)).
    pub(crate) fn limit_files_to(&mut self, bytes: u64) {
        // The signal that comes with it is ignored here, so that the write itself fails, and the shell's unit is 512 bytes.
        let script = format!("trap '' XFSZ; ulimit -f {}; exec \"$@\"", bytes / 512);
        let mut limited = Command::new("sh");
        limited
            .args(["-c", &script, "sh"])
            .arg(self.command.get_program())
            .args(self.command.get_args());
        for (name, value) in self.command.get_envs() {
            limited.env(name, value.unwrap());
        }
        limited.current_dir(self.command.get_current_dir().unwrap());
        limited
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        self.command = limited;
    }

    /// Starts it and waits for its end.
    pub(crate) fn run(&mut self) -> Ended {
        self.start();
        self.end()
    }

    /// Starts it.
    pub(crate) fn start(&mut self) {
        let mut child = self.command.spawn().unwrap();
        self.stderr = child.stderr.take().map(BufReader::new);
        self.child = Some(child);
    }

    /// Waits until it tells a line that begins so.
    pub(crate) fn wait_for(&mut self, beginning: &str) {
        let stderr = self.stderr.as_mut().unwrap();
        loop {
            let mut line = String::new();
            let count = stderr.read_line(&mut line).unwrap();
            self.text.push_str(&line);
            assert!(
                count > 0,
                "it ended without a line {beginning:?}:\n{}",
                self.text
            );
            if line.starts_with(beginning) {
                return;
            }
        }
    }

    /// Sends it a signal.
    pub(crate) fn signal(&mut self, signal: Signal) {
        let pid = self.child.as_ref().unwrap().id();
        self.family = Some(Family::of(Process(pid), &self.mark));
        kill_process(Pid::from_raw(pid as i32).unwrap(), signal).unwrap();
    }

    /// Waits for its end.
    pub(crate) fn end(&mut self) -> Ended {
        let mut child = self.child.take().unwrap();
        // It writes to stdout last, and less than a pipe holds.
        self.stderr
            .take()
            .unwrap()
            .read_to_string(&mut self.text)
            .unwrap();
        let mut stdout = String::new();
        child
            .stdout
            .take()
            .unwrap()
            .read_to_string(&mut stdout)
            .unwrap();
        let status = child.wait().unwrap();
        Ended {
            code: status.code(),
            stdout,
            text: std::mem::take(&mut self.text),
        }
    }

    /// Asserts that no process is left of it, those that it started included.
    pub(crate) fn assert_nothing_is_left(&mut self) {
        // No process has this number: what counts is the mark.
        let mut family = Family::of(Process(u32::MAX), &self.mark);
        // Programs that change their title lose their environment: those were found by descent.
        family.join(self.family.take().unwrap_or_default());
        let left = family.wait_gone(EXIT_TIMEOUT);
        assert!(left.is_empty(), "{left:?} are left");
    }
}

/// The names of the trials' files.
pub(crate) fn trials_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder.join("trials")).unwrap().flatten();
    entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}
