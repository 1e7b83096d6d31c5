//! Bodies that outgrow memory: a queue of bytes that goes on in a file without a name.
//!
//! A request's body is appended and then flushed, so that a worker can open the file. A response's is
//! appended at one end and read at the other, and never touches the disk while the reader keeps up. The front
//! never blocks on the disk: files are made, written, read and closed on tokio's blocking threads, and an appending task
//! waits while one batch is being written and the next is full. Nothing is left behind in any outcome: the
//! file has no name.

mod file;
pub mod place;
#[cfg(test)]
mod tests;

use std::future::poll_fn;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker, ready};

use bytes::Bytes;
use tokio::task::{JoinHandle, spawn_blocking};

use file::LazyFile;
pub use place::SpoolPlace;

use crate::shared_bytes::SharedBytes;

/// A good size for batches: the disk is asked seldom, and little memory is held.
pub const BATCH_BYTES: usize = 256 * 1024;
/// How much is read from the file at once, in bytes.
const READ_BYTES: usize = 64 * 1024;

/// Why a body could not be spooled.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SpoolError {
    /// The file system, or what this user may have of it, is full.
    #[error("no space left for bodies in {}", .0.display())]
    Full(Arc<Path>),
    /// The files of all spools take as much as they may.
    #[error("no space left for bodies: all of them together have reached `spool_max_bytes`")]
    Limit,
    /// Anything else.
    #[error("cannot keep a body in {}: {source}", directory.display())]
    Io {
        /// Where the file was to be.
        directory: Arc<Path>,
        /// What the system said.
        source: Arc<io::Error>,
    },
}

/// How many bytes are written; a batch that is not comes back. One that is must not wait in memory until somebody asks.
type Written = Result<u64, (io::Error, Option<Vec<u8>>)>;

/// A queue of bytes, in memory and beyond that in a file.
///
/// In memory are at most one batch that is being written, one that fills, what one append brings over that,
/// and 64 KiB being read. One task may append while another reads, on the same thread.
#[derive(Debug)]
pub struct Spool {
    file: Arc<LazyFile>,
    batch_bytes: usize,
    /// How much is read from the file at once.
    piece_bytes: usize,
    /// What follows the file's bytes and the batch being written.
    pending: Vec<u8>,
    writing: Option<JoinHandle<Written>>,
    /// The memory of the batch being written.
    writing_bytes: usize,
    reading: Option<JoinHandle<io::Result<Bytes>>>,
    /// Bytes of the file that are written, and those of them that were read.
    written: u64,
    read: u64,
    appended: u64,
    taken: u64,
    /// Appended bytes whose place in the file is free again.
    overwritten: u64,
    failed: Option<SpoolError>,
    /// Whether bytes that the disk does not take wait for their reader in memory.
    patient: bool,
    /// Whether the disk took no more of them.
    stuck: bool,
    /// Who waits for the batch being written.
    waiters: Arc<Waiters>,
    /// What the file takes of what all may take; none where nothing bounds them.
    space: Option<Arc<SharedBytes>>,
}

impl Spool {
    /// An empty spool. A file is made in `directory` once more than `batch_bytes` (256 KiB is a good size)
    /// are in memory.
    pub fn new(directory: Arc<Path>, batch_bytes: usize) -> Self {
        Self::over(LazyFile::new(directory), batch_bytes)
    }

    /// The same, where a disk that takes no more is no failure: what it did not take stays in memory, and there is no room
    /// until all of it was read ([`Spool::is_stuck`]). Then the disk is tried again.
    pub fn patient(directory: Arc<Path>, batch_bytes: usize) -> Self {
        Self {
            patient: true,
            ..Self::new(directory, batch_bytes)
        }
    }

    /// A file counts in this space. Beyond its bound a spool fails, and a patient one is stuck.
    #[must_use]
    pub fn within(mut self, space: &Arc<SharedBytes>) -> Self {
        self.space = Some(Arc::clone(space));
        self
    }

    fn over(file: LazyFile, batch_bytes: usize) -> Self {
        Self {
            file: Arc::new(file),
            batch_bytes: batch_bytes.max(1),
            piece_bytes: READ_BYTES,
            pending: Vec::new(),
            writing: None,
            writing_bytes: 0,
            reading: None,
            written: 0,
            read: 0,
            appended: 0,
            taken: 0,
            overwritten: 0,
            failed: None,
            patient: false,
            stuck: false,
            waiters: Arc::default(),
            space: None,
        }
    }

    /// How many bytes were appended in all.
    #[expect(
        clippy::len_without_is_empty,
        reason = "a body's length, not a collection's"
    )]
    pub fn len(&self) -> u64 {
        self.appended
    }

    /// How many bytes were appended and not read.
    pub fn unread(&self) -> u64 {
        self.appended - self.taken
    }

    /// From now on reads at most so many bytes from the file at once, and 64 KiB at most.
    pub fn read_pieces_of(&mut self, bytes: usize) {
        self.piece_bytes = bytes.clamp(1, READ_BYTES);
    }

    /// The memory that it holds, in bytes.
    pub fn held(&self) -> usize {
        self.pending.capacity() + self.writing_bytes
    }

    /// Writes out what has not been read by then, though it is less than a batch, and waits for that.
    ///
    /// # Errors
    /// As [`Spool::poll_ready`].
    pub fn poll_settled(&mut self, context: &mut Context<'_>) -> Poll<Result<(), SpoolError>> {
        loop {
            ready!(self.poll_written(context))?;
            if self.pending.is_empty() || self.stuck {
                return Poll::Ready(Ok(()));
            }
            self.write_pending();
        }
    }

    /// How far the file reaches, once all that was appended is in it. It shrinks to nothing when all that was
    /// appended is read.
    pub fn extent(&self) -> u64 {
        self.appended - self.overwritten
    }

    /// Whether nothing may be pushed until all that was appended is read, for the disk takes no more.
    pub fn is_stuck(&self) -> bool {
        self.stuck && self.unread() > 0
    }

    /// Waits until [`Spool::push`] may be called. Called with a waker that does nothing, it keeps the wake-ups of
    /// other waiters.
    ///
    /// # Errors
    /// When the file cannot be made or written; then at every later call of anything too.
    pub fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), SpoolError>> {
        self.check()?;
        if self.pending.len() < self.batch_bytes {
            return Poll::Ready(Ok(()));
        }
        ready!(self.poll_written(context))?;
        if !self.stuck {
            self.write_pending();
        }
        Poll::Ready(self.check())
    }

    /// Appends bytes without waiting. What is pushed before [`Spool::poll_ready`] has answered stays in memory.
    pub fn push(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
        self.appended += bytes.len() as u64;
        let idle = self.writing.is_none() && self.failed.is_none() && !self.stuck;
        if self.pending.len() >= self.batch_bytes && idle {
            self.write_pending();
        }
    }

    /// Waits for room, then appends. Dropped before it is done, it has appended nothing.
    ///
    /// # Errors
    /// As [`Spool::poll_ready`].
    pub async fn append(&mut self, bytes: impl AsRef<[u8]>) -> Result<(), SpoolError> {
        poll_fn(|context| self.poll_ready(context)).await?;
        self.push(bytes.as_ref());
        Ok(())
    }

    /// The next bytes, in the order in which they were appended; `None` when all that was appended is read.
    /// No task is woken when more is appended.
    ///
    /// # Errors
    /// When the file cannot be made, written or read.
    pub fn poll_read(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, SpoolError>> {
        loop {
            self.check()?;
            if let Some(reading) = &mut self.reading {
                let bytes = ready!(Pin::new(reading).poll(context));
                self.reading = None;
                let bytes = self.keep_failure(joined(bytes))?;
                self.read += bytes.len() as u64;
                return Poll::Ready(Ok(Some(self.take(bytes))));
            }
            if self.read < self.written {
                self.start_reading();
            } else if self.writing.is_some() {
                ready!(self.poll_written(context))?;
            } else {
                // Everything in the file was read: write over it next time.
                self.written = 0;
                self.read = 0;
                self.overwritten = self.taken;
                if self.pending.is_empty() {
                    self.stuck = false;
                    return Poll::Ready(Ok(None));
                }
                let bytes = Bytes::from(std::mem::take(&mut self.pending));
                let bytes = self.take(bytes);
                self.overwritten = self.taken;
                return Poll::Ready(Ok(Some(bytes)));
            }
        }
    }

    /// Writes out everything, for somebody else to read. To be called once, at the end, and only where
    /// nothing was read here: what was read need not be in the file.
    ///
    /// # Errors
    /// As [`Spool::poll_ready`].
    pub async fn flush(&mut self) -> Result<(), SpoolError> {
        poll_fn(|context| self.poll_written(context)).await?;
        // Also when nothing is pending: there must be a file.
        self.write_pending();
        poll_fn(|context| self.poll_written(context)).await
    }

    /// The file's number among this process's descriptors: another process of the same user can open
    /// `/proc/<pid>/fd/<number>`, for reading from the start, while this spool lives.
    ///
    /// # Panics
    /// Before [`Spool::flush`] is done.
    pub fn raw_fd(&self) -> RawFd {
        self.file.made().as_raw_fd()
    }

    fn check(&self) -> Result<(), SpoolError> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    fn take(&mut self, bytes: Bytes) -> Bytes {
        self.taken += bytes.len() as u64;
        bytes
    }

    /// Starts writing what is pending; nothing may be being written.
    fn write_pending(&mut self) {
        debug_assert!(self.writing.is_none());
        if !self.take_space() {
            return;
        }
        let batch = std::mem::take(&mut self.pending);
        self.writing_bytes = batch.capacity();
        let (file, at) = (self.file.clone(), self.written);
        self.writing = Some(spawn_blocking(move || {
            match file.get().and_then(|file| file.write_all_at(&batch, at)) {
                Ok(()) => Ok(batch.len() as u64),
                Err(error) => Err((error, Some(batch))),
            }
        }));
    }

    /// Takes the space that the file needs for what is pending. Where there is none it says so once for all.
    fn take_space(&mut self) -> bool {
        let Some(space) = &self.space else {
            return true;
        };
        let end = self.written + self.pending.len() as u64;
        let end = usize::try_from(end).unwrap_or(usize::MAX);
        let granted = self.file.take_space(space, end);
        if !granted && self.patient {
            self.stuck = true;
        } else if !granted {
            self.failed = Some(SpoolError::Limit);
        }
        granted
    }

    /// Waits until nothing is being written.
    fn poll_written(&mut self, context: &mut Context<'_>) -> Poll<Result<(), SpoolError>> {
        if let Some(writing) = &mut self.writing {
            self.waiters.add(context.waker());
            let waker = Waker::from(Arc::clone(&self.waiters));
            let written = ready!(Pin::new(writing).poll(&mut Context::from_waker(&waker)));
            self.writing = None;
            self.writing_bytes = 0;
            match written.unwrap_or_else(|error| Err((io::Error::other(error), None))) {
                Ok(bytes) => self.written += bytes,
                Err((_, Some(mut batch))) if self.patient => {
                    batch.append(&mut self.pending);
                    self.pending = batch;
                    self.stuck = true;
                }
                Err((error, _)) => self.keep_failure(Err(error))?,
            }
        }
        Poll::Ready(self.check())
    }

    fn start_reading(&mut self) {
        let piece = self.piece_bytes;
        let (file, at) = (self.file.clone(), self.read);
        let bytes = usize::try_from(self.written - self.read).map_or(piece, |left| left.min(piece));
        self.reading = Some(spawn_blocking(move || {
            let mut buffer = vec![0; bytes];
            file.get()?.read_exact_at(&mut buffer, at)?;
            Ok(Bytes::from(buffer))
        }));
    }

    fn keep_failure<T>(&mut self, result: io::Result<T>) -> Result<T, SpoolError> {
        result.map_err(|error| {
            let error = self.file.explain(error);
            self.failed = Some(error.clone());
            error
        })
    }
}

/// All who wait for one thing: a task's end wakes only the waker that polled it last, but one who reads and
/// one who appends may wait for the same write.
#[derive(Debug, Default)]
struct Waiters(Mutex<Vec<Waker>>);

impl Waiters {
    fn add(&self, waker: &Waker) {
        let mut wakers = self.wakers();
        if !wakers.iter().any(|known| known.will_wake(waker)) {
            wakers.push(waker.clone());
        }
    }

    fn wakers(&self) -> MutexGuard<'_, Vec<Waker>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for Waiters {
    fn wake(self: Arc<Self>) {
        let wakers = std::mem::take(&mut *self.wakers());
        for waker in wakers {
            waker.wake();
        }
    }
}

/// A blocking task ends early only when it panics or the runtime ends.
fn joined<T>(result: Result<io::Result<T>, tokio::task::JoinError>) -> io::Result<T> {
    result.unwrap_or_else(|error| Err(io::Error::other(error)))
}
