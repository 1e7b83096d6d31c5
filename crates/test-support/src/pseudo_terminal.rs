//! A real pseudo-terminal for a program under test. It interprets nothing that is written to it.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use rustix::fs::OFlags;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Termios, Winsize, tcgetattr, tcsetwinsize};

/// A terminal: what a program writes to its one end can be read at the other.
#[derive(Debug)]
pub struct PseudoTerminal {
    ours: OwnedFd,
    /// The file of the other end.
    path: PathBuf,
}

impl PseudoTerminal {
    /// Opens a terminal of so many columns, and 24 rows.
    ///
    /// # Errors
    /// The system has none left.
    pub fn new(columns: u16) -> io::Result<Self> {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        grantpt(&ours)?;
        unlockpt(&ours)?;
        let name = ptsname(&ours, Vec::new())?;
        let path = OsStr::from_bytes(name.to_bytes()).into();
        let terminal = Self { ours, path };
        terminal.resize(columns)?;
        Ok(terminal)
    }

    /// Changes its width.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn resize(&self, columns: u16) -> io::Result<()> {
        self.set_size(24, columns)
    }

    /// Changes both sizes.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn set_size(&self, rows: u16, columns: u16) -> io::Result<()> {
        let size = Winsize {
            ws_row: rows,
            ws_col: columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        Ok(tcsetwinsize(&self.ours, size)?)
    }

    /// Opens the end for a program.
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn program_end(&self) -> io::Result<OwnedFd> {
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        options.custom_flags(OFlags::NOCTTY.bits() as i32);
        Ok(options.open(&self.path)?.into())
    }

    /// Returns its modes: echo, raw input and the like.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn modes(&self) -> io::Result<Termios> {
        Ok(tcgetattr(&self.ours)?)
    }

    /// Returns a reader of all that programs write. It ends when no program has their end any more.
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn reader(&self) -> io::Result<File> {
        Ok(self.ours.try_clone()?.into())
    }
}
