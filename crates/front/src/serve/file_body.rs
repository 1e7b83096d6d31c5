//! A file on its way to a client, piece by piece. It is read and closed in threads that may wait for a disk, each piece within
//! a time limit. A body has what the file had when it was opened, and never more.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use rustix::buffer::spare_capacity;
use rustix::io::{pread, retry_on_intr};
use tokio::time::{Sleep, sleep, timeout};

use crate::net::client_io::ClientIo;
use crate::serve::file_threads::{FileThreads, FreeThread, Work};
use crate::serve::page_cache::is_in_memory;

/// How much is read of a file at once, in bytes.
pub const FILE_READ_BYTES: usize = 256 * 1024;
/// How much is sent past hyper at once, in bytes.
const SENDFILE_BYTES: usize = 1024 * 1024;
/// What hyper gets in place of what goes past it. Nothing reads it, so that the system gives it no memory; made at its first
/// use, for as a constant it would lie in the program's file.
static PLACEHOLDER: LazyLock<Bytes> = LazyLock::new(|| vec![0; SENDFILE_BYTES].into());

/// A piece of a file, and what is to be read after it.
#[derive(Debug)]
pub struct Piece {
    /// Its bytes.
    pub bytes: Bytes,
    /// None after the last one.
    pub rest: Option<Rest>,
}

/// An open file, from `at` to `end`; never empty.
#[derive(Debug)]
pub struct Rest {
    /// The file, which other bodies may send too.
    pub file: Arc<File>,
    /// Where the next piece begins.
    pub at: u64,
    /// Where the last one ends.
    pub end: u64,
}

impl Rest {
    /// Reads the next piece. Blocks, and lets go of the file after the last one.
    ///
    /// # Errors
    /// It cannot be read, or has become shorter.
    pub fn read(self) -> io::Result<Piece> {
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

/// A piece of a file as hyper gets it.
#[derive(Debug)]
pub enum Chunk {
    /// These bytes.
    Bytes(Bytes),
    /// So many bytes, which went past hyper.
    Sent(usize),
}

impl Chunk {
    /// How many bytes it has.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Sent(count) => *count,
        }
    }

    /// What hyper gets: the bytes, or as many others.
    pub fn into_bytes(self) -> Bytes {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Sent(count) => PLACEHOLDER.slice(..count),
        }
    }
}

/// A file on its way to a client.
pub struct FileBody {
    /// The socket that takes it past hyper.
    socket: Option<ClientIo>,
    /// Whether the head of its response was flushed or bytes of it were taken.
    begun: bool,
    /// When the first bytes that go past hyper were found in the system's memory, in milliseconds of the coarse clock.
    found_in_memory_ms: Option<u64>,
    /// Whether the last piece went past hyper.
    went_past: bool,
    length: u64,
    /// Bytes that were not taken.
    left: u64,
    /// What was read when it was opened.
    first: Option<Bytes>,
    /// The whole file, where that is in this process's memory too: what does not go past hyper comes from there.
    memory: Option<Bytes>,
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
    /// Returns a body of which the first piece was read; reading each further one may take `limit`.
    pub fn new(piece: Piece, limit: Duration, threads: Rc<FileThreads>) -> Self {
        let rest = piece.rest.as_ref().map_or(0, |rest| rest.end - rest.at);
        let length = piece.bytes.len() as u64 + rest;
        Self {
            socket: None,
            begun: false,
            found_in_memory_ms: None,
            memory: None,
            went_past: false,
            length,
            left: length,
            first: Some(piece.bytes).filter(|bytes| !bytes.is_empty()),
            step: piece.rest.map_or(Step::Ended, Step::Rests),
            clock: None,
            limit,
            threads,
        }
    }

    /// Returns these bytes of an open file as a body; reading each piece of them may take `limit`.
    pub fn of(
        file: Arc<File>,
        bytes: Range<u64>,
        limit: Duration,
        threads: Rc<FileThreads>,
    ) -> Self {
        let (at, end) = (bytes.start, bytes.end);
        let rest = (at < end).then_some(Rest { file, at, end });
        let bytes = Bytes::new();
        Self::new(Piece { bytes, rest }, limit, threads)
    }

    /// Returns a whole file, which is in memory as well, as a body.
    pub fn beside_memory(file: Arc<File>, whole: Bytes, threads: Rc<FileThreads>) -> Self {
        // Nothing of it is read.
        let limit = Duration::ZERO;
        let mut body = Self::of(file, 0..whole.len() as u64, limit, threads);
        body.memory = Some(whole);
        body
    }

    /// Leaves only this part of the body, of which nothing was taken yet.
    pub fn narrow(&mut self, part: Range<u64>) {
        self.length = part.end - part.start;
        self.left = self.length;
        match &mut self.step {
            Step::Rests(rest) => {
                self.first = None;
                (rest.at, rest.end) = (part.start, part.end);
            }
            // All of it was read when it was opened.
            _ => {
                let whole = self.first.take();
                self.first = whole.map(|whole| whole.slice(part.start as usize..part.end as usize));
            }
        }
    }

    /// Reads these parts of a body of which nothing was taken yet. They are small.
    ///
    /// # Errors
    /// They cannot be read, or not in time.
    pub async fn read_parts(mut self, parts: Vec<Range<u64>>) -> io::Result<Parts> {
        let Step::Rests(rest) = std::mem::replace(&mut self.step, Step::Ended) else {
            let whole = self.first.take().unwrap_or_default();
            let part = |part: Range<u64>| {
                let bytes = whole.slice(part.start as usize..part.end as usize);
                (part, bytes)
            };
            return Ok(parts.into_iter().map(part).collect());
        };
        let read = self.threads.run(move || read_parts(&rest.file, parts));
        let read = timeout(self.limit, read).await;
        read.map_err(|_| io::ErrorKind::TimedOut)??
    }

    /// Sends what is in the memory of the system past hyper, where the socket takes it.
    #[must_use]
    pub fn past_hyper(mut self, socket: Option<ClientIo>) -> Self {
        self.socket = socket;
        self
    }

    /// Sends nothing past hyper: its bytes are changed on their way.
    pub fn keep_in_hyper(&mut self) {
        self.socket = None;
    }

    /// Whether the last piece went past hyper.
    pub fn went_past_hyper(&self) -> bool {
        self.went_past
    }

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
    pub fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Chunk>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        let chunk = match self.first.take() {
            Some(bytes) => Ok(Chunk::Bytes(bytes)),
            None => match ready!(self.poll_send(context)) {
                Some(sent) => sent.map(Chunk::Sent),
                None => match self.take_memory() {
                    Some(bytes) => Ok(Chunk::Bytes(bytes)),
                    None => ready!(self.poll_in_time(context)).map(Chunk::Bytes),
                },
            },
        };
        if let (Ok(Chunk::Bytes(_)), Some(socket)) = (&chunk, &self.socket) {
            // They go through hyper, and nothing may overtake them.
            socket.flow().expect_flush();
            self.begun = true;
        }
        if let Ok(chunk) = &chunk {
            self.went_past = matches!(chunk, Chunk::Sent(_));
            self.left -= chunk.bytes() as u64;
        }
        Poll::Ready(Some(chunk))
    }

    /// Sends the next bytes past hyper. None: they must be read, for they are not in memory or cannot be sent so.
    fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<usize>>> {
        let (Some(socket), Step::Rests(rest)) = (&self.socket, &mut self.step) else {
            return Poll::Ready(None);
        };
        let left = usize::try_from(rest.end - rest.at).unwrap_or(usize::MAX);
        let count = left.min(SENDFILE_BYTES);
        if !std::mem::replace(&mut self.begun, true) {
            // hyper has the head, and sends it when this waits.
            socket.flow().expect_flush();
            if is_in_memory(&rest.file, rest.at, count as u64) {
                self.found_in_memory_ms = Some(socket.flow().now_ms());
                socket.flow().expect_file();
            }
        }
        ready!(socket.flow().poll_flushed(context));
        // The client may have kept the head waiting.
        let found_ms = self.found_in_memory_ms.take();
        let found = found_ms.is_some_and(|at| at == socket.flow().now_ms());
        if !found && !is_in_memory(&rest.file, rest.at, count as u64) {
            return Poll::Ready(None);
        }
        let sent = match ready!(socket.poll_send_file(context, rest.file.as_fd(), rest.at, count)) {
            // A file system that takes no part in it.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                self.socket = None;
                return Poll::Ready(None);
            }
            Err(error) => return Poll::Ready(Some(Err(error))),
            Ok(sent) => sent,
        };
        rest.at += sent as u64;
        if rest.at == rest.end
            && let Step::Rests(rest) = std::mem::replace(&mut self.step, Step::Ended)
        {
            self.threads.close_later(rest.file);
        }
        Poll::Ready(Some(Ok(sent)))
    }

    /// What is left of a file that is in memory.
    fn take_memory(&mut self) -> Option<Bytes> {
        let whole = self.memory.take()?;
        let Step::Rests(rest) = std::mem::replace(&mut self.step, Step::Ended) else {
            return None;
        };
        self.threads.close_later(rest.file);
        Some(whole.slice(rest.at as usize..rest.end as usize))
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
            self.threads.close_later(rest.file);
        }
    }
}

/// Parts of a file with their bytes.
pub type Parts = Vec<(Range<u64>, Bytes)>;

/// Reads these parts of a file, which are small. Blocks.
///
/// # Errors
/// It cannot be read, or has become shorter.
pub fn read_parts(file: &File, parts: Vec<Range<u64>>) -> io::Result<Parts> {
    let read = |part: Range<u64>| {
        let mut bytes = vec![0; (part.end - part.start) as usize];
        file.read_exact_at(&mut bytes, part.start)?;
        Ok((part, bytes.into()))
    };
    parts.into_iter().map(read).collect()
}
