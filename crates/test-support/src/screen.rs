//! A program that draws on a whole terminal: a pseudo-terminal of its own, and an emulator that knows what a person sees
//! in it. It does not know what the program means.

use std::fs::File;
use std::io::{Read, Write};
use std::num::NonZero;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::Instant;

use rustix::termios::Termios;
use vt100::{Color, Parser};

use crate::process::Process;
use crate::program::{binary, clean};
use crate::{PseudoTerminal, TEST_TIMEOUT};

/// A terminal and the program that runs in it. Dropping it kills the program.
pub struct Screen {
    terminal: PseudoTerminal,
    child: Child,
    keys: File,
    seen: Arc<(Mutex<Seen>, Condvar)>,
    before: Termios,
}

struct Seen {
    emulator: Parser,
    closed: bool,
}

impl Screen {
    /// Runs the binary under test with these arguments and variables, in a terminal of so many rows and columns.
    ///
    /// # Panics
    /// When it cannot be started.
    #[track_caller]
    pub fn highball(
        folder: &Path,
        arguments: &[&str],
        (rows, columns): (u16, u16),
        variables: &[(&str, &str)],
    ) -> Self {
        let terminal = PseudoTerminal::new(columns).expect("a terminal");
        terminal.set_size(rows, columns).expect("a size");
        let before = terminal.modes().expect("its modes");
        let end = || terminal.program_end().expect("the program's end");
        // The program gets the keys and the signals of the terminal.
        let mut command = Command::new("setsid");
        command.arg("--ctty").arg(binary()).args(arguments);
        clean(&mut command);
        command.env("TERM", "xterm-256color").env("NO_COLOR", "");
        command.envs(variables.iter().copied()).current_dir(folder);
        command.stdin(end()).stdout(end()).stderr(end());
        let child = command.spawn().expect("setsid of the package util-linux");
        drop(command);
        let seen = Seen {
            emulator: Parser::new(size(rows), size(columns), 0),
            closed: false,
        };
        let seen = Arc::new((Mutex::new(seen), Condvar::new()));
        let output = terminal.reader().expect("the reader's end");
        let keys = terminal.reader().expect("the end of keys");
        follow(output, Arc::clone(&seen));
        Self {
            terminal,
            child,
            keys,
            seen,
            before,
        }
    }

    /// What a person sees, a line for each row.
    pub fn text(&self) -> String {
        self.seen().emulator.screen().contents()
    }

    /// Waits until a person sees what `wanted` accepts, and gives it back.
    ///
    /// # Panics
    /// When it does not come in time, or the program ends before it.
    #[track_caller]
    pub fn wait(&self, what: &str, wanted: impl Fn(&str) -> bool) -> String {
        let deadline = Instant::now() + TEST_TIMEOUT;
        let mut seen = self.seen();
        loop {
            let text = seen.emulator.screen().contents();
            if wanted(&text) {
                return text;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(
                !seen.closed && !left.is_zero(),
                "not on the screen: {what}\n{text}"
            );
            seen = (self.seen.1)
                .wait_timeout(seen, left)
                .expect("no reader panics")
                .0;
        }
    }

    /// Waits until a person sees this text.
    ///
    /// # Panics
    /// As [`Screen::wait`].
    #[track_caller]
    pub fn wait_text(&self, text: &str) -> String {
        self.wait(text, |screen| screen.contains(text))
    }

    /// Presses keys; `\x03` is Ctrl-C.
    ///
    /// # Panics
    /// When the terminal is gone.
    pub fn press(&mut self, keys: &str) {
        let written = self.keys.write_all(keys.as_bytes());
        written.expect("the terminal is there");
    }

    /// Changes the size of the window.
    ///
    /// # Panics
    /// When the kernel refuses.
    pub fn resize(&self, rows: u16, columns: u16) {
        let mut seen = self.seen();
        let screen = seen.emulator.screen_mut();
        screen.set_size(size(rows), size(columns));
        self.terminal.set_size(rows, columns).expect("a size");
    }

    /// Whether something is shown in another colour than the terminal's own.
    pub fn has_colours(&self) -> bool {
        let seen = self.seen();
        let screen = seen.emulator.screen();
        let (rows, columns) = screen.size();
        let cells = (0..rows.get())
            .flat_map(|row| (0..columns.get()).filter_map(move |column| screen.cell(row, column)));
        let is_coloured = |cell: &vt100::Cell| {
            cell.fgcolor() != Color::Default || cell.bgcolor() != Color::Default
        };
        cells.into_iter().any(is_coloured)
    }

    /// The program.
    pub fn process(&self) -> Process {
        Process(self.child.id())
    }

    /// Waits until the program has ended, and checks that it has left the terminal as it was: the screen, the cursor and the
    /// modes. Returns how it ended, and what is on the screen.
    ///
    /// # Panics
    /// When it does not end in time, or has left something behind.
    #[track_caller]
    pub fn wait_restored(mut self) -> (ExitStatus, String) {
        let text = {
            let (seen, timeout) = (self.seen.1)
                .wait_timeout_while(self.seen(), TEST_TIMEOUT, |seen| !seen.closed)
                .expect("no reader panics");
            let screen = seen.emulator.screen();
            let text = screen.contents();
            assert!(!timeout.timed_out(), "it did not end:\n{text}");
            assert!(!screen.alternate_screen(), "the alternate screen is left");
            assert!(!screen.hide_cursor(), "the cursor is hidden");
            text
        };
        let modes = |modes: &Termios| {
            let input = (modes.input_modes, modes.local_modes);
            (input, modes.output_modes, modes.control_modes)
        };
        let now = self.terminal.modes().expect("its modes");
        assert_eq!(modes(&now), modes(&self.before), "the modes differ");
        (self.child.wait().expect("a child of ours"), text)
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.0.lock().expect("no reader panics")
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // It has ended, or nobody waits for it any more.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Shows the emulator what the program writes, until no process has the terminal open.
fn follow(mut output: File, seen: Arc<(Mutex<Seen>, Condvar)>) {
    thread::spawn(move || {
        let mut bytes = [0; 4096];
        loop {
            // A terminal that no program has open is an error (EIO).
            let read = output.read(&mut bytes).unwrap_or(0);
            let mut state = seen.0.lock().expect("no reader panics");
            state.emulator.process(&bytes[..read]);
            state.closed = read == 0;
            seen.1.notify_all();
            if read == 0 {
                return;
            }
        }
    });
}

fn size(number: u16) -> NonZero<u16> {
    NonZero::new(number).expect("a terminal has rows and columns")
}
