//! The thread that writes the log out. Whoever offers it lines never waits for the output, only for the lock
//! around a copy.

use std::fmt;
use std::io::{self, ErrorKind, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// How much may wait for the output, in bytes.
pub(super) const MAX_WAITING_BYTES: usize = 4 * 1024 * 1024;
/// A buffer that grew beyond this is given back once it is empty.
const KEPT_BYTES: usize = 256 * 1024;
/// How long the end of the log waits for an output that does not take more.
const FINISH_TIMEOUT: Duration = Duration::from_secs(2);
/// How often an output that is set to non-blocking (it may be shared) is tried again.
const RETRY_INTERVAL: Duration = Duration::from_millis(5);

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
    /// Lines that the output refused.
    lost: u64,
    finish: bool,
    finished: bool,
}

impl Writer {
    pub(super) fn start(output: impl Write + Send + 'static) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let its_own = shared.clone();
        thread::Builder::new()
            .name("highball-log".to_owned())
            .spawn(move || its_own.run(output))?;
        Ok(Self { shared })
    }

    /// Takes all of `lines` or, where they are too many, none.
    pub(super) fn offer(&self, lines: &[u8]) -> bool {
        let mut state = self.shared.lock();
        if !state.has_room_for(lines.len()) {
            return false;
        }
        state.waiting.extend_from_slice(lines);
        drop(state);
        self.shared.work.notify_one();
        true
    }

    pub(super) fn has_room_for(&self, bytes: usize) -> bool {
        self.shared.lock().has_room_for(bytes)
    }

    /// How many lines the output refused since the last call.
    pub(super) fn take_lost(&self) -> u64 {
        std::mem::take(&mut self.shared.lock().lost)
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

    fn run(&self, mut output: impl Write) {
        let mut batch = Vec::new();
        while self.take(&mut batch) {
            let lost = write(&mut output, &batch);
            let mut state = self.lock();
            state.writing = 0;
            state.lost += lost;
            drop(state);
            batch.clear();
            batch.shrink_to(KEPT_BYTES);
        }
        self.lock().finished = true;
        self.finished.notify_all();
    }

    /// Waits for work and swaps it with the empty `batch`; false at the end.
    fn take(&self, batch: &mut Vec<u8>) -> bool {
        let idle = |state: &mut State| state.waiting.is_empty() && !state.finish;
        let mut state = self
            .work
            .wait_while(self.lock(), idle)
            .unwrap_or_else(PoisonError::into_inner);
        std::mem::swap(&mut state.waiting, batch);
        state.writing = batch.len();
        !batch.is_empty()
    }
}

/// Writes what it can; gives the number of lines that were refused. A full disk may have room again for the
/// next batch, so an error is not the end.
fn write(output: &mut impl Write, mut bytes: &[u8]) -> u64 {
    while !bytes.is_empty() {
        match output.write(bytes) {
            Ok(0) => break,
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(RETRY_INTERVAL),
            Err(_) => break,
        }
    }
    // An output that buffers is not ours; what its flush loses cannot be counted.
    let _ = output.flush();
    bytes.iter().filter(|&&byte| byte == b'\n').count() as u64
}
