//! Where the log goes: stdout, a file that can be opened again, or a stream. It formats nothing.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::termios::{isatty, tcgetwinsize};

use super::text::Style;

/// What a pipe takes in one piece, even if other processes write to it (pipe(7)), in bytes.
const PIPE_BUF: usize = 4096;
/// The mode of a new log file, before the umask: paths and addresses are not for every user.
const FILE_MODE: u32 = 0o640;
/// Columns of a terminal that does not say how many it has.
const USUAL_COLUMNS: u16 = 80;

/// An output of the log.
pub(super) struct Output {
    stream: Box<dyn Write + Send>,
    /// The file that the stream writes to, if it can be opened again.
    path: Option<PathBuf>,
    /// How much is written at once, in bytes.
    pub(super) most_bytes: usize,
}

impl Output {
    /// Returns an output that writes to a stream.
    pub(super) fn stream(stream: impl Write + Send + 'static) -> Self {
        Self {
            stream: Box::new(stream),
            path: None,
            most_bytes: usize::MAX,
        }
    }

    /// Returns an output that appends to a file.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub(super) fn file(path: PathBuf) -> io::Result<Self> {
        Ok(Self {
            path: Some(path.clone()),
            ..Self::of(open(&path)?)
        })
    }

    /// Returns stdout, and the terminal that it is.
    ///
    /// # Errors
    /// It cannot be duplicated.
    pub(super) fn stdout() -> io::Result<(Self, Option<Terminal>)> {
        let stdout = io::stdout().as_fd().try_clone_to_owned()?;
        let terminal = isatty(&stdout).then(|| Terminal::new(&stdout));
        Ok((Self::of(stdout.into()), terminal.transpose()?))
    }

    fn of(file: File) -> Self {
        // Workers write to the same stdout, and so does the next binary in an upgrade: lines must not get mixed up.
        let kind = file.metadata().map(|metadata| metadata.file_type());
        let is_pipe = kind.is_ok_and(|kind| kind.is_fifo());
        Self {
            most_bytes: if is_pipe { PIPE_BUF } else { usize::MAX },
            ..Self::stream(file)
        }
    }

    /// Opens its file again; without one it does nothing.
    ///
    /// # Errors
    /// The file cannot be opened: the one that was open stays.
    pub(super) fn reopen(&mut self) -> io::Result<()> {
        if let Some(path) = self.path.take() {
            let opened = Self::file(path.clone());
            self.path = Some(path);
            *self = opened?;
        }
        Ok(())
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// Opens a log file. A pipe without a reader is an error, and no wait.
fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).create(true).mode(FILE_MODE);
    options.custom_flags((OFlags::NONBLOCK | OFlags::NOCTTY).bits() as i32);
    let opened = options.open(path);
    opened.map_err(|error| {
        let text = format!("cannot open the log file {}: {error}", path.display());
        io::Error::new(error.kind(), text)
    })
}

/// The terminal that the log is written to.
#[derive(Debug)]
pub(super) struct Terminal {
    file: OwnedFd,
    colours: bool,
}

impl Terminal {
    fn new(file: &OwnedFd) -> io::Result<Self> {
        let (no_color, term) = (std::env::var_os("NO_COLOR"), std::env::var_os("TERM"));
        Ok(Self {
            file: file.try_clone()?,
            colours: has_colours(no_color.as_deref(), term.as_deref()),
        })
    }

    /// How lines look in it now: its width may change.
    pub(super) fn style(&self) -> Style {
        let columns = tcgetwinsize(&self.file).map(|size| size.ws_col);
        let columns = columns.ok().filter(|&columns| columns > 0);
        Style {
            width: Some(usize::from(columns.unwrap_or(USUAL_COLUMNS))),
            colours: self.colours,
        }
    }
}

/// Whether a terminal is written to in colours, by the values of `NO_COLOR` (no-color.org) and `TERM`.
pub fn has_colours(no_color: Option<&OsStr>, term: Option<&OsStr>) -> bool {
    no_color.is_none_or(OsStr::is_empty) && term.is_some_and(|term| term != "dumb")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_for_terminals_that_show_them_and_people_who_want_them() {
        let check = |no_color: Option<&str>, term: Option<&str>, expected| {
            let found = has_colours(no_color.map(OsStr::new), term.map(OsStr::new));
            assert_eq!(found, expected, "{no_color:?} {term:?}");
        };
        check(None, Some("xterm-256color"), true);
        check(Some(""), Some("xterm"), true);
        check(Some("1"), Some("xterm"), false);
        check(Some("0"), Some("xterm"), false);
        check(None, Some("dumb"), false);
        check(None, None, false);
    }

    #[test]
    fn a_file_is_opened_again_after_it_was_renamed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut output = Output::file(path.clone()).unwrap();
        output.write_all(b"first\n").unwrap();
        std::fs::rename(&path, folder.path().join("log.1")).unwrap();
        output.write_all(b"second\n").unwrap();
        output.reopen().unwrap();
        output.write_all(b"third\n").unwrap();
        let read = |name| std::fs::read_to_string(folder.path().join(name)).unwrap();
        assert_eq!(read("log.1"), "first\nsecond\n");
        assert_eq!(read("log"), "third\n");
    }

    #[test]
    fn a_file_that_cannot_be_opened_again_leaves_the_old_one() {
        let folder = tempfile::tempdir().unwrap();
        let (path, kept) = (folder.path().join("log"), folder.path().join("kept"));
        let mut output = Output::file(path.clone()).unwrap();
        std::fs::rename(&path, &kept).unwrap();
        std::fs::create_dir(&path).unwrap();
        let error = output.reopen().unwrap_err().to_string();
        assert!(error.contains("cannot open the log file /"), "{error}");
        output.write_all(b"on\n").unwrap();
        assert_eq!(std::fs::read_to_string(kept).unwrap(), "on\n");
        // And once it can be opened, it is.
        std::fs::remove_dir(&path).unwrap();
        output.reopen().unwrap();
        assert!(path.is_file());
    }
}
