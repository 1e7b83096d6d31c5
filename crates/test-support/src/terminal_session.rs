//! A command in a terminal of its own, as a person has it: what it shows is read, and keys are pressed. `script` (bsdutils)
//! makes the pseudo-terminal, and stands for the window. A command that leaves a process behind fails the test.

use std::io::Write;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use rustix::process::Signal;

use crate::log::Log;
use crate::process::{Family, Process};
use crate::program::{binary, clean};
use crate::{TEST_TIMEOUT, workspace};

/// The variable that marks every process of one terminal.
const MARK: &str = "TEST_TERMINAL";
/// How long what a command started may live on after it.
const GONE_TIMEOUT: Duration = Duration::from_secs(5);

/// A terminal, and the command that runs in it.
#[derive(Debug)]
pub struct TerminalSession {
    script: Process,
    mark: String,
    keys: ChildStdin,
    shown: Log,
    ended: Receiver<ExitStatus>,
    stopped: bool,
    /// The program of a window that was closed; empty until then.
    left: Family,
}

impl TerminalSession {
    /// Runs the binary under test with these arguments in this folder. They must not have quotes.
    ///
    /// # Panics
    /// When it cannot be started.
    #[track_caller]
    pub fn highball(folder: &Path, arguments: &[&str]) -> Self {
        let quoted: Vec<String> = arguments.iter().map(|one| format!("'{one}'")).collect();
        // The session's first process must be the program itself: it gets the signals of the terminal.
        let line = format!("exec '{}' {}", binary().display(), quoted.join(" "));
        Self::of(folder, &line)
    }

    /// Runs a line of `sh` in this folder, with the environment of programs under test.
    ///
    /// # Panics
    /// When it cannot be started.
    #[track_caller]
    pub fn of(folder: &Path, line: &str) -> Self {
        let mut command = script(line, folder);
        clean(&mut command);
        Self::start(command, folder)
    }

    /// Runs a command in a folder, with this environment alone.
    ///
    /// # Panics
    /// When it cannot be started.
    #[track_caller]
    pub fn run(command: &str, folder: &Path, environment: &[(String, String)]) -> Self {
        Self::shell(&format!("exec {command}"), folder, environment)
    }

    /// Runs a shell with this line, which ends after it.
    ///
    /// # Panics
    /// When it cannot be started.
    #[track_caller]
    pub fn shell(line: &str, folder: &Path, environment: &[(String, String)]) -> Self {
        let mut command = script(line, folder);
        command.env_clear().envs(environment.iter().cloned());
        Self::start(command, folder)
    }

    fn start(mut command: Command, folder: &Path) -> Self {
        let mark = format!("{}-{}", std::process::id(), folder.display());
        let mut child = command
            .env("SHELL", "/bin/sh")
            .env(MARK, &mark)
            .spawn()
            .expect("script of the package bsdutils");
        let shown = Log::default();
        shown.follow(child.stdout.take().expect("stdout is piped"));
        let keys = child.stdin.take().expect("stdin is piped");
        let script = Process(child.id());
        Self {
            script,
            mark: format!("{MARK}={mark}"),
            keys,
            shown,
            ended: wait_in_thread(child),
            stopped: false,
            left: Family::default(),
        }
    }

    /// What the terminal has shown so far, line by line; lines end with a carriage return.
    pub fn log(&self) -> &Log {
        &self.shown
    }

    /// Waits until the terminal shows this text in a line, and gives that line back.
    ///
    /// # Panics
    /// When it does not in time.
    #[track_caller]
    pub fn wait(&self, text: &str) -> String {
        self.shown.wait(|line| line.contains(text))
    }

    /// Waits until the server has told where it listens and that it serves. Gives back the address.
    ///
    /// # Panics
    /// When it does not in time.
    #[track_caller]
    pub fn wait_serving(&self) -> String {
        let line = self.wait("listening on http://");
        self.wait("ready: ");
        let (_, address) = line.split_once("http://").expect("it holds that");
        address.trim_end().to_owned()
    }

    /// The program in the terminal.
    ///
    /// # Panics
    /// When it does not run.
    pub fn process(&self) -> Process {
        let children = self.script.children();
        *children.first().expect("the program runs")
    }

    /// Closes the terminal, as a person closes a window: the kernel sends HUP.
    ///
    /// # Panics
    /// When it is closed already.
    pub fn close(&mut self) {
        let family = self.family();
        self.script.kill();
        self.ended
            .recv_timeout(TEST_TIMEOUT)
            .expect("script has ended");
        self.stopped = true;
        self.left = family;
    }

    /// Presses keys; `\x03` is Ctrl-C.
    ///
    /// # Panics
    /// When the terminal is gone.
    pub fn press(&mut self, keys: &str) {
        self.keys
            .write_all(keys.as_bytes())
            .expect("the terminal is there");
        self.keys.flush().expect("the terminal is there");
    }

    /// Waits until the command has ended, and checks that nothing of it is left.
    ///
    /// # Panics
    /// When it does not end in time, or leaves a process behind.
    #[track_caller]
    pub fn wait_end(mut self) -> (ExitStatus, Vec<String>) {
        let family = self.family();
        let Ok(status) = self.ended.recv_timeout(TEST_TIMEOUT) else {
            panic!("the command did not end:\n{}", self.shown.text());
        };
        self.stopped = true;
        let left = family.wait_gone(GONE_TIMEOUT);
        left.iter().for_each(|process| process.kill());
        assert!(
            left.is_empty(),
            "processes left behind: {left:?}\n{}",
            self.shown.text()
        );
        self.shown.wait_closed();
        (status, self.shown.lines())
    }

    /// Presses Ctrl-C, and checks that the command ends with success and leaves nothing behind. Returns what was shown.
    ///
    /// # Panics
    /// When it does not.
    #[track_caller]
    pub fn interrupt(mut self) -> Vec<String> {
        self.press("\x03");
        let (status, shown) = self.wait_end();
        assert!(status.success(), "{status}\n{}", shown.join("\n"));
        shown
    }

    /// Waits until the command has ended, and leaves alone what it has put into the background.
    ///
    /// # Panics
    /// When it does not end in time.
    #[track_caller]
    pub fn wait_detached(mut self) -> ExitStatus {
        let Ok(status) = self.ended.recv_timeout(TEST_TIMEOUT) else {
            panic!("the command did not end:\n{}", self.shown.text());
        };
        self.stopped = true;
        status
    }

    /// Keeps what was shown as `target/artifacts/NAME.txt`.
    ///
    /// # Panics
    /// When it cannot be written.
    pub fn keep(name: &str, shown: &[String]) {
        let artifacts = workspace().join("target/artifacts");
        std::fs::create_dir_all(&artifacts).expect("the folder can be made");
        let path = artifacts.join(format!("{name}.txt"));
        std::fs::write(path, shown.join("\n")).expect("the file can be written");
    }

    fn family(&self) -> Family {
        Family::of(self.script, &self.mark)
    }
}

impl Drop for TerminalSession {
    fn drop(&mut self) {
        if self.stopped {
            let left = self.left.wait_gone(Duration::ZERO);
            return left.iter().for_each(|process| process.kill());
        }
        let family = self.family();
        for process in family
            .members()
            .into_iter()
            .filter(|one| *one != self.script)
        {
            process.signal(Signal::TERM);
        }
        let left = family.wait_gone(Duration::from_secs(10));
        left.iter().for_each(|process| process.kill());
        if thread::panicking() {
            eprintln!("--- the terminal\n{}\n---", self.shown.text());
        }
    }
}

fn script(line: &str, folder: &Path) -> Command {
    let mut command = Command::new("env");
    command
        .arg("--default-signal=HUP")
        .args(["script", "--quiet", "--flush", "--return", "--command"])
        .arg(line)
        .arg("/dev/null")
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    command
}

fn wait_in_thread(mut child: Child) -> Receiver<ExitStatus> {
    let (send, ended) = mpsc::channel();
    thread::spawn(move || send.send(child.wait().expect("a child of ours")));
    ended
}
