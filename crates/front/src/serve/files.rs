//! Files that the application names, as response bodies. They may lie anywhere, also on a file system that does not
//! answer, or be no files at all by now; so they are opened, read and closed in threads of their own, each within a time
//! limit. A body has what the file had when it was opened, and never more.

use std::cell::Cell;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use rustix::buffer::spare_capacity;
use rustix::fs::OFlags;
use rustix::io::{pread, retry_on_intr};
use tokio::time::{Sleep, sleep, timeout};

use crate::net::descriptors;
use crate::serve::file_threads::{FileThreads, FreeThread, Work};

/// Threads that open, read and close these files.
const FILE_THREADS: usize = 8;
/// How much is read of a file at once, in bytes.
const FILE_READ_BYTES: usize = 256 * 1024;

/// Why a file cannot be sent.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// So many wait for a thread already.
    #[error("{0} files wait to be opened already (setting `queue_limit`)")]
    TooManyWait(usize),
    /// It took longer than this.
    #[error("it was not opened within {0:?} (setting `file_timeout`, or the request's deadline)")]
    Timeout(Duration),
    /// It has fewer bytes than the response declares.
    #[error("it is shorter than its content-length")]
    TooShort,
    /// It can't be opened or read, is not a regular file, or takes a descriptor of the reserve.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Opens files that the application names.
#[derive(Debug)]
pub struct ApplicationFiles {
    threads: Rc<FileThreads>,
    /// Files that wait for a thread to be opened.
    waiting: Cell<usize>,
}

/// The limits of one file.
#[derive(Clone, Copy, Debug)]
pub struct FileLimits {
    /// How long opening it may take.
    pub open: Duration,
    /// How long reading a piece of it may take.
    pub read: Duration,
    /// How many others may wait for a thread before it.
    pub waiting: usize,
}

impl ApplicationFiles {
    /// With threads of their own, none of which has started.
    ///
    /// # Errors
    /// As [`FileThreads::new`].
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            threads: Rc::new(FileThreads::new("highball-files", FILE_THREADS)?),
            waiting: Cell::new(0),
        })
    }

    /// Opens a regular file, of which the first `declared` bytes are the body, or all that it has, and reads its first piece.
    ///
    /// # Errors
    /// It cannot be sent.
    pub async fn open(
        &self,
        path: &Path,
        declared: Option<u64>,
        limits: FileLimits,
    ) -> Result<FileBody, FileError> {
        let path = path.to_owned();
        let opened = async {
            let thread = self.free_thread(limits.waiting).await?;
            let work = self.threads.begin(thread, move || open(&path, declared));
            work.await?
        };
        let opened = timeout(limits.open, opened).await;
        let piece = opened.map_err(|_| FileError::Timeout(limits.open))??;
        let rest = piece.rest.as_ref().map_or(0, |rest| rest.end - rest.at);
        let length = piece.bytes.len() as u64 + rest;
        Ok(FileBody {
            length,
            left: length,
            first: Some(piece.bytes),
            step: piece.rest.map_or(Step::Ended, Step::Rests),
            clock: None,
            limit: limits.read,
            threads: Rc::clone(&self.threads),
        })
    }

    async fn free_thread(&self, most: usize) -> Result<FreeThread, FileError> {
        if let Some(thread) = self.threads.try_free() {
            return Ok(thread);
        }
        if self.waiting.get() >= most {
            return Err(FileError::TooManyWait(most));
        }
        let _waiting = Waiting::new(&self.waiting);
        Ok(self.threads.free().await)
    }
}

/// One more that waits, until it is dropped.
struct Waiting<'a>(&'a Cell<usize>);

impl<'a> Waiting<'a> {
    fn new(count: &'a Cell<usize>) -> Self {
        count.set(count.get() + 1);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// A piece of a file, and what is to be read after it.
#[derive(Debug)]
struct Piece {
    bytes: Bytes,
    rest: Option<Rest>,
}

/// An open file, from `at` to `end`; never empty.
#[derive(Debug)]
struct Rest {
    file: File,
    at: u64,
    end: u64,
}

/// Opens the file and reads its first piece. Blocks.
fn open(path: &Path, declared: Option<u64>) -> Result<Piece, FileError> {
    // What is no file by now must not hold the thread up (a FIFO without a writer) nor become this process's terminal.
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path)?;
    let file = descriptors::keep_reserve(file)?;
    let facts = file.metadata()?;
    if !facts.is_file() {
        let kind = io::ErrorKind::InvalidInput;
        return Err(io::Error::new(kind, "not a regular file").into());
    }
    let end = declared.unwrap_or(facts.len());
    if end > facts.len() {
        return Err(FileError::TooShort);
    }
    if end == 0 {
        let (bytes, rest) = (Bytes::new(), None);
        return Ok(Piece { bytes, rest });
    }
    Ok(Rest { file, at: 0, end }.read()?)
}

impl Rest {
    /// Reads the next piece. Blocks, and closes the file after the last one. A file that has become shorter is an error.
    fn read(self) -> io::Result<Piece> {
        let Self { file, at, end } = self;
        let left = usize::try_from(end - at).unwrap_or(usize::MAX);
        let count = left.min(FILE_READ_BYTES);
        let mut bytes = Vec::with_capacity(count);
        retry_on_intr(|| pread(&file, spare_capacity(&mut bytes), at))?;
        // There may be more room than was asked for, and more in the file by now.
        bytes.truncate(count);
        if bytes.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let at = at + bytes.len() as u64;
        let rest = (at < end).then_some(Self { file, at, end });
        let bytes = Bytes::from(bytes);
        Ok(Piece { bytes, rest })
    }
}

/// A file on its way to a client.
pub struct FileBody {
    length: u64,
    /// Bytes that were not taken.
    left: u64,
    /// What was read when it was opened.
    first: Option<Bytes>,
    step: Step,
    /// Runs while a piece is being read.
    clock: Option<Pin<Box<Sleep>>>,
    /// How long that may take.
    limit: Duration,
    threads: Rc<FileThreads>,
}

enum Step {
    Rests(Rest),
    /// Waits for a thread.
    Waits(Rest, Pin<Box<dyn Future<Output = FreeThread>>>),
    Reads(Work<io::Result<Piece>>),
    Ended,
}

impl FileBody {
    /// The length of the whole body.
    pub fn bytes(&self) -> u64 {
        self.length
    }

    /// Bytes that were not taken yet.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// The next piece. A file that has become shorter is an error, and so is one that is not read in time: the client must
    /// see the cut.
    pub fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        let bytes = match self.first.take() {
            Some(bytes) => Ok(bytes),
            None => ready!(self.poll_in_time(context)),
        };
        if let Ok(bytes) = &bytes {
            self.left -= bytes.len() as u64;
        }
        Poll::Ready(Some(bytes))
    }

    fn poll_in_time(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        if let Poll::Ready(bytes) = self.poll_read(context) {
            self.clock = None;
            return Poll::Ready(bytes);
        }
        let limit = self.limit;
        let clock = self.clock.get_or_insert_with(|| Box::pin(sleep(limit)));
        ready!(clock.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }

    fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        loop {
            self.step = match std::mem::replace(&mut self.step, Step::Ended) {
                Step::Rests(rest) => match self.threads.try_free() {
                    Some(thread) => self.begin(thread, rest),
                    None => Step::Waits(rest, Box::pin(self.threads.free())),
                },
                Step::Waits(rest, mut free) => match free.as_mut().poll(context) {
                    Poll::Ready(thread) => self.begin(thread, rest),
                    Poll::Pending => {
                        self.step = Step::Waits(rest, free);
                        return Poll::Pending;
                    }
                },
                Step::Reads(mut work) => match Pin::new(&mut work).poll(context) {
                    Poll::Ready(read) => {
                        let piece = read.flatten()?;
                        self.step = piece.rest.map_or(Step::Ended, Step::Rests);
                        return Poll::Ready(Ok(piece.bytes));
                    }
                    Poll::Pending => {
                        self.step = Step::Reads(work);
                        return Poll::Pending;
                    }
                },
                Step::Ended => return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
            };
        }
    }

    fn begin(&self, thread: FreeThread, rest: Rest) -> Step {
        Step::Reads(self.threads.begin(thread, move || rest.read()))
    }
}

impl Drop for FileBody {
    fn drop(&mut self) {
        if let Step::Rests(rest) | Step::Waits(rest, _) =
            std::mem::replace(&mut self.step, Step::Ended)
        {
            self.threads.drop_later(rest);
        }
    }
}

#[cfg(test)]
mod tests;
