//! FIFOs between a test and its application: events that the application tells, gates at which it waits.
//! Both ends are files, so they work across forks and from any worker.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};

use crate::TEST_TIMEOUT;

/// Lines that the application writes with `Test.tell`, in their order.
#[derive(Debug)]
pub struct Events {
    fifo: File,
    buffer: Vec<u8>,
}

impl Events {
    pub(crate) fn create(path: &Path) -> Self {
        Self {
            fifo: create(path),
            buffer: Vec::new(),
        }
    }

    /// Waits for the next event.
    ///
    /// # Panics
    /// When none comes within [`TEST_TIMEOUT`].
    #[track_caller]
    pub fn wait(&mut self) -> String {
        match self.wait_within(TEST_TIMEOUT) {
            Some(event) => event,
            None => panic!("no event of the application within {TEST_TIMEOUT:?}"),
        }
    }

    /// Waits for the next event until `patience` is over.
    pub fn wait_within(&mut self, patience: Duration) -> Option<String> {
        let deadline = Instant::now() + patience;
        loop {
            if let Some(line) = self.take_line() {
                return Some(line);
            }
            if !readable(&self.fifo, deadline) {
                return None;
            }
            self.fill();
        }
    }

    /// The next `count` events.
    ///
    /// # Panics
    /// When they do not come within [`TEST_TIMEOUT`] each.
    #[track_caller]
    pub fn take(&mut self, count: usize) -> Vec<String> {
        let mut events = Vec::with_capacity(count);
        for _ in 0..count {
            events.push(self.wait());
        }
        events
    }

    /// The events that were not read yet. Waits for nothing: call it when the application has finished.
    pub fn rest(&mut self) -> Vec<String> {
        while readable(&self.fifo, Instant::now()) {
            self.fill();
        }
        std::iter::from_fn(|| self.take_line()).collect()
    }

    fn fill(&mut self) {
        let mut piece = [0; 4096];
        let count = self.fifo.read(&mut piece).expect("a FIFO can be read");
        self.buffer.extend_from_slice(&piece[..count]);
    }

    fn take_line(&mut self) -> Option<String> {
        let end = self.buffer.iter().position(|&byte| byte == b'\n')?;
        let line: Vec<u8> = self.buffer.drain(..=end).collect();
        Some(String::from_utf8_lossy(&line[..end]).into_owned())
    }
}

/// A place where the application waits with `Test.pass`; the test admits as many as it wants.
#[derive(Debug)]
pub struct Gate {
    fifo: File,
}

impl Gate {
    pub(crate) fn create(path: &Path) -> Self {
        Self { fifo: create(path) }
    }

    /// Lets `count` of those who wait pass, or of those who come later.
    ///
    /// # Panics
    /// When more than a pipe's buffer are admitted at once.
    pub fn admit(&self, count: usize) {
        let mut fifo = &self.fifo;
        fifo.write_all(&vec![b'.'; count])
            .expect("the gate takes that many");
    }

    /// Lets everyone pass from now on, as far as any test goes.
    pub fn open(&self) {
        self.admit(16_384);
    }
}

/// Makes a FIFO and opens it at both ends, so that neither side ever waits for the other to open it, and
/// what was written stays while no process reads.
fn create(path: &Path) -> File {
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a FIFO can be made");
    OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(OFlags::NONBLOCK.bits() as i32)
        .open(path)
        .expect("a FIFO can be opened at both ends")
}

/// Waits until there is something to read; false at the deadline.
fn readable(file: &File, deadline: Instant) -> bool {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).expect("a test's patience is short");
        let mut fds = [PollFd::new(file, PollFlags::IN)];
        match poll(&mut fds, Some(&timeout)) {
            Ok(0) => return false,
            Ok(_) => return true,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => panic!("poll: {error}"),
        }
    }
}
