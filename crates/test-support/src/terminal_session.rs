//! The server in a terminal of its own: `script` (util-linux) makes the pseudo-terminal, and stands for the window in which a
//! person would have started it. It passes on what the server prints and what a test types.

use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::TEST_TIMEOUT;
use crate::log::Log;
use crate::process::{Family, Process};
use crate::program::{binary, clean};

/// No environment has it: only descendants are looked for.
const UNUSED_MARK: &str = "TEST_TERMINAL=none";

/// A server, or another command of the program, in a terminal.
#[derive(Debug)]
pub struct TerminalSession {
    /// `script`, which has the other side of the terminal.
    window: Child,
    /// The program of a window that was closed; empty until then.
    left: Family,
    log: Log,
}

impl TerminalSession {
    /// Runs the binary under test with these arguments in this folder. They must not have quotes.
    ///
    /// # Panics
    /// When `script` cannot be started.
    #[track_caller]
    pub fn highball(dir: &Path, arguments: &[&str]) -> Self {
        let quoted: Vec<String> = arguments.iter().map(|one| format!("'{one}'")).collect();
        // The session's first process must be the program itself: it gets the signals of the terminal.
        let line = format!("exec '{}' {}", binary().display(), quoted.join(" "));
        let mut command = Command::new("env");
        command.args([
            "--default-signal=HUP",
            "SHELL=/bin/sh",
            "script",
            "-qefc",
            &line,
        ]);
        clean(&mut command);
        let mut window = command
            .arg("/dev/null")
            .current_dir(dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("script (util-linux) runs");
        let log = Log::default();
        log.follow(window.stdout.take().expect("stdout is piped"));
        Self {
            window,
            left: Family::default(),
            log,
        }
    }

    /// What was printed; each line ends with a carriage return.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// The program in the terminal.
    ///
    /// # Panics
    /// When it does not run.
    pub fn process(&self) -> Process {
        let children = Process(self.window.id()).children();
        *children.first().expect("the program runs")
    }

    /// Types these keys: `\x03` is Ctrl-C.
    ///
    /// # Panics
    /// When the terminal is closed.
    pub fn press(&mut self, keys: &str) {
        let stdin = self.window.stdin.as_mut().expect("stdin is piped");
        stdin
            .write_all(keys.as_bytes())
            .expect("the terminal is open");
    }

    /// Closes the terminal, as a person closes a window: the kernel sends HUP.
    pub fn close(&mut self) {
        self.left = Family::of(self.process(), UNUSED_MARK);
        self.window.kill().expect("the terminal is open");
        self.window.wait().expect("it is a child of the test");
    }

    /// Waits until the program has ended by itself, and returns its exit status.
    ///
    /// # Panics
    /// When it does not end.
    pub fn wait_end(&mut self) -> Option<i32> {
        let window = Process(self.window.id());
        assert!(
            window.wait_gone(TEST_TIMEOUT),
            "it did not end:\n{}",
            self.log.text()
        );
        self.window
            .wait()
            .expect("it is a child of the test")
            .code()
    }
}

impl Drop for TerminalSession {
    fn drop(&mut self) {
        let window = Process(self.window.id());
        // Workers and template of a server that was killed end by themselves.
        let left = self.left.wait_gone(Duration::ZERO);
        let programs = window.children().into_iter().chain(left);
        programs.for_each(Process::kill);
        window.kill();
        // It may have been waited for.
        let _ = self.window.wait();
    }
}
