//! The thread that writes the log out. The front never waits for the output, only for the lock around a copy.

use std::fmt;
use std::io::{self, ErrorKind, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::output::Output;
use crate::panics;

/// How much may wait for the output, in bytes.
pub(super) const MAX_WAITING_BYTES: usize = 4 * 1024 * 1024;
/// A buffer that grew beyond this is given back once it is empty.
const KEPT_BYTES: usize = 256 * 1024;
/// How long the end of the log waits for an output that does not take more.
const FINISH_TIMEOUT: Duration = Duration::from_secs(2);
/// How often an output that is set to non-blocking (it may be shared) is tried again.
const RETRY_INTERVAL: Duration = Duration::from_millis(5);
/// How often the line that counts dropped lines is tried again, while nothing else is to be written.
const NOTICE_INTERVAL: Duration = Duration::from_millis(100);

/// What the thread itself has to log.
pub(super) enum Notice {
    /// So many lines were dropped.
    Dropped(u64),
    /// The file could not be opened again.
    NotReopened(io::Error),
}

pub(super) struct Writer {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// There is something to write, or the end has come.
    work: Condvar,
    /// The thread has ended.
    finished: Condvar,
}

#[derive(Default)]
struct State {
    /// Filled by the owner, emptied by the thread.
    waiting: Vec<u8>,
    /// Bytes that the thread is writing.
    writing: usize,
    /// Dropped lines that no line of the output counts yet.
    dropped: u64,
    /// Whether the file is to be opened again.
    reopen: bool,
    finish: bool,
    finished: bool,
}

impl Writer {
    /// A thread that writes to `output`. `notice` appends the line of a notice.
    pub(super) fn start(
        output: Output,
        notice: impl Fn(Notice, &mut Vec<u8>) + Send + 'static,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let its_own = shared.clone();
        thread::Builder::new()
            .name("highball-log".to_owned())
            .spawn(move || {
                // A server without a log would be worse than none.
                panics::guard_thread();
                its_own.run(Lines::new(output), notice);
            })?;
        Ok(Self { shared })
    }

    /// Takes all of `bytes`, which are `lines` lines, or, where they are too many, drops and counts them.
    pub(super) fn offer(&self, bytes: &[u8], lines: u64) {
        let mut state = self.shared.lock();
        if !state.has_room_for(bytes.len()) {
            state.dropped += lines;
            return;
        }
        state.waiting.extend_from_slice(bytes);
        drop(state);
        self.shared.work.notify_one();
    }

    /// Has the thread open its file again.
    pub(super) fn reopen(&self) {
        self.shared.lock().reopen = true;
        self.shared.work.notify_one();
    }

    /// Ends the thread once everything is written; gives up on an output that is stuck.
    pub(super) fn finish(&self) {
        let mut state = self.shared.lock();
        state.finish = true;
        self.shared.work.notify_one();
        // A stuck thread ends with the process.
        let _ = self
            .shared
            .finished
            .wait_timeout_while(state, FINISH_TIMEOUT, |state| !state.finished);
    }
}

impl fmt::Debug for Writer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Writer").finish_non_exhaustive()
    }
}

impl State {
    fn has_room_for(&self, bytes: usize) -> bool {
        self.waiting.len() + self.writing + bytes <= MAX_WAITING_BYTES
    }
}

impl Shared {
    /// Nothing panics while it holds the lock, so what a poisoned one guards is sound.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, mut output: Lines, notice: impl Fn(Notice, &mut Vec<u8>)) {
        let mut batch = Vec::new();
        while self.take(&mut batch) {
            let is_asked = || self.lock().reopen;
            let take_asked = || std::mem::take(&mut self.lock().reopen);
            // First of all: what was logged after the request must not go into the old file.
            let mut not_reopened = if take_asked() {
                output.reopen().err()
            } else {
                None
            };
            let mut written = output.write(&batch, &is_asked);
            if take_asked() {
                not_reopened = output.reopen().err();
                // What the old file did not take, from the line on that it took in part.
                written = start_of_line(&batch, written);
                written += output.write(&batch[written..], &is_asked);
            }
            let mut state = self.lock();
            state.writing = 0;
            state.dropped += count(&batch[written..]);
            let uncounted = state.dropped;
            drop(state);
            batch.clear();
            batch.shrink_to(KEPT_BYTES);
            if let Some(error) = not_reopened {
                notice(Notice::NotReopened(error), &mut batch);
                output.write(&batch, &is_asked);
                batch.clear();
            }
            if uncounted > 0 {
                notice(Notice::Dropped(uncounted), &mut batch);
                // Counted only when it is written: a disk that is full takes this line no more than others.
                if output.write(&batch, &is_asked) == batch.len() {
                    self.lock().dropped -= uncounted;
                }
                batch.clear();
            }
        }
        self.lock().finished = true;
        self.finished.notify_all();
    }

    /// Waits for work and swaps it with the empty `batch`, which may stay empty while dropped lines are to be counted;
    /// false at the end.
    fn take(&self, batch: &mut Vec<u8>) -> bool {
        let idle = |state: &mut State| state.waiting.is_empty() && !state.finish && !state.reopen;
        let mut state = self.lock();
        state = if state.dropped == 0 {
            self.work
                .wait_while(state, idle)
                .unwrap_or_else(PoisonError::into_inner)
        } else {
            self.work
                .wait_timeout_while(state, NOTICE_INTERVAL, idle)
                .unwrap_or_else(PoisonError::into_inner)
                .0
        };
        std::mem::swap(&mut state.waiting, batch);
        state.writing = batch.len();
        !batch.is_empty() || !state.finish
    }
}

/// An output that takes whole lines, as far as that is in its power.
struct Lines {
    output: Output,
    /// Whether it ends within a line, for it took only a part of what it was given.
    torn: bool,
}

impl Lines {
    const fn new(output: Output) -> Self {
        let torn = false;
        Self { output, torn }
    }

    /// Opens its file again.
    fn reopen(&mut self) -> io::Result<()> {
        self.output.reopen()?;
        self.torn = false;
        Ok(())
    }

    /// Writes what it can, and returns how many bytes that is. A full disk may have room again for the next batch, so an
    /// error is not the end. Waits for an output that is set to non-blocking until `gives_up`.
    fn write(&mut self, bytes: &[u8], gives_up: &dyn Fn() -> bool) -> usize {
        if bytes.is_empty() {
            return 0;
        }
        // The part of a line that is there must not become the beginning of another one.
        if self.torn && self.write_some(b"\n", gives_up) == 0 {
            return 0;
        }
        let written = self.write_some(bytes, gives_up);
        self.torn = bytes[..written].last().is_some_and(|&byte| byte != b'\n');
        written
    }

    /// Whole lines from the beginning of `bytes`, as many as may be written at once.
    fn first<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        let Some(within) = bytes.get(..self.output.most_bytes) else {
            return bytes;
        };
        let last_end = within.iter().rposition(|&byte| byte == b'\n');
        let first_end = || bytes.iter().position(|&byte| byte == b'\n');
        last_end
            .or_else(first_end)
            .map_or(bytes, |end| &bytes[..=end])
    }

    /// How many bytes the output took before it failed.
    fn write_some(&mut self, bytes: &[u8], gives_up: &dyn Fn() -> bool) -> usize {
        let mut at = 0;
        while at < bytes.len() {
            let piece = self.first(&bytes[at..]);
            match self.output.write(piece) {
                Ok(0) => break,
                Ok(written) => at += written,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock && !gives_up() => {
                    thread::sleep(RETRY_INTERVAL);
                }
                Err(_) => break,
            }
        }
        // An output that buffers is not ours; what its flush loses cannot be counted.
        let _ = self.output.flush();
        at
    }
}

/// Where the line begins that holds the byte before `at`, unless that ends it; then `at`.
fn start_of_line(bytes: &[u8], at: usize) -> usize {
    let last_end = bytes[..at].iter().rposition(|&byte| byte == b'\n');
    last_end.map_or(0, |end| end + 1)
}

fn count(lines: &[u8]) -> u64 {
    lines.iter().filter(|&&byte| byte == b'\n').count() as u64
}
