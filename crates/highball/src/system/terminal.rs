//! The terminal that the server was started in, which a debugger in a worker reads from. It knows its path, the modes that it
//! had at the start, and whether a debugger is open. It reads nothing from it.

use std::fs::File;
use std::io::{self, stdin};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::getpgrp;
use rustix::termios::{OptionalActions, Termios, isatty, tcgetattr, tcgetpgrp, tcsetattr, ttyname};

/// The terminal of this process's stdin.
#[derive(Debug)]
pub(crate) struct Terminal {
    path: PathBuf,
    /// The modes that it had at the start.
    modes: Termios,
    /// An open file of its own: a lock belongs to an open file, and workers open theirs.
    file: File,
}

impl Terminal {
    /// Returns the terminal of stdin; `None` if stdin is none, or if it cannot be opened again by its path.
    pub(crate) fn of_stdin() -> Option<Self> {
        if !isatty(stdin()) {
            return None;
        }
        Self::open().ok()
    }

    fn open() -> io::Result<Self> {
        let path = ttyname(stdin(), Vec::new())?;
        let path = PathBuf::from(path.to_string_lossy().into_owned());
        Ok(Self {
            modes: tcgetattr(stdin())?,
            file: File::open(&path)?,
            path,
        })
    }

    /// Its path, such as `/dev/pts/3`.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether a debugger of a worker uses it. The worker holds the file's lock (flock(2)) meanwhile, which the kernel
    /// releases when the process ends (`gem/lib/highball/debugger.rb`).
    pub(crate) fn has_debugger(&self) -> bool {
        match flock(&self.file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {
                let _ = flock(&self.file, FlockOperation::Unlock);
                false
            }
            Err(error) => error == Errno::WOULDBLOCK,
        }
    }

    /// Gives it the modes of the start: a process that was killed at a debugger's prompt leaves it without echo. Does nothing
    /// while a debugger is open or another job has the terminal.
    pub(crate) fn restore(&self) {
        // In the background the kernel would stop this process (SIGTTOU).
        if !self.has_debugger() && tcgetpgrp(stdin()) == Ok(getpgrp()) {
            let _ = tcsetattr(stdin(), OptionalActions::Now, &self.modes);
        }
    }
}
