//! How a client sends and takes: when it made progress, how fast it is, and what hyper holds for it. It ends nothing: the
//! connection does.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::pace::Pace;
use crate::clock::Clock;
use crate::shared_bytes::{Share, SharedBytes};

/// How often the kernel is asked, of a client that takes nothing just now, how much it has taken, in milliseconds.
const ASK_UNSENT_INTERVAL_MS: u64 = 500;

/// The flow of one connection. Times are milliseconds of the coarse clock.
pub struct Flow {
    clock: Rc<Clock>,
    /// When the phase last changed or the body made progress.
    progress: Cell<u64>,
    /// Since when the client takes nothing of what is written; 0 while it does.
    write_blocked: Cell<u64>,
    /// Whether everything given to the socket has been written and flushed.
    flushed: Cell<bool>,
    /// Bytes that were read, and that were written.
    received: Cell<u64>,
    written: Cell<u64>,
    /// Whether the last read found nothing.
    read_blocked: Cell<bool>,
    /// Whether what was read is being stored: its client is not waited for then.
    storing: Cell<bool>,
    /// How fast the client sends a body, while one is being read.
    body_pace: Cell<Option<Pace>>,
    /// How fast it takes responses, and how much it had taken at the last check.
    send_pace: Cell<Pace>,
    taken: Cell<u64>,
    /// What hyper holds of responses.
    unsent: RefCell<Share>,
    /// Whether hyper holds bytes that must be sent before what goes past it.
    holds_back: Cell<bool>,
    /// Whether a file follows at once what hyper holds.
    file_follows: Cell<bool>,
    /// Who waits until that is sent.
    waits_for_sent: Cell<Option<Waker>>,
}

impl Flow {
    /// Returns the flow of a connection that is accepted now.
    pub fn new(clock: Rc<Clock>) -> Self {
        Self {
            progress: Cell::new(clock.now_ms()),
            clock,
            write_blocked: Cell::new(0),
            flushed: Cell::new(true),
            received: Cell::new(0),
            written: Cell::new(0),
            read_blocked: Cell::new(false),
            storing: Cell::new(false),
            body_pace: Cell::new(None),
            send_pace: Cell::default(),
            taken: Cell::new(0),
            unsent: RefCell::default(),
            holds_back: Cell::new(false),
            file_follows: Cell::new(false),
            waits_for_sent: Cell::new(None),
        }
    }

    /// The client has made progress with its sending.
    pub fn note_progress(&self) {
        self.progress.set(self.clock.now_ms());
    }

    /// When the client last made progress with its sending.
    pub fn progress_ms(&self) -> u64 {
        self.progress.get()
    }

    /// The time of the coarse clock, in milliseconds.
    pub fn now_ms(&self) -> u64 {
        self.clock.now_ms()
    }

    /// How long ago that was.
    pub fn since_progress(&self) -> Duration {
        Duration::from_millis(self.clock.now_ms().saturating_sub(self.progress.get()))
    }

    /// Since when the client has taken nothing of what is written.
    pub fn write_blocked_since_ms(&self) -> Option<u64> {
        Some(self.write_blocked.get()).filter(|&since| since != 0)
    }

    /// Whether everything that was written is on its way.
    pub fn is_flushed(&self) -> bool {
        self.flushed.get()
    }

    /// The socket was read.
    pub fn note_read(&self, blocked: bool, bytes: usize) {
        self.read_blocked.set(blocked);
        self.received.set(self.received.get() + bytes as u64);
    }

    /// The socket was written to.
    pub fn note_write(&self, result: &Poll<io::Result<usize>>) {
        self.flushed.set(false);
        match result {
            Poll::Pending => self.note_write_blocked(),
            Poll::Ready(written) => {
                self.write_blocked.set(0);
                let count = written.as_ref().map_or(0, |count| *count as u64);
                self.written.set(self.written.get() + count);
            }
        }
    }

    /// The client takes nothing of what is written.
    pub fn note_write_blocked(&self) {
        if self.write_blocked.get() == 0 {
            self.write_blocked.set(self.clock.now_ms().max(1));
        }
    }

    /// Neither hyper nor TLS holds anything of a response any more.
    pub fn note_flush(&self) {
        self.file_follows.set(false);
        if self.holds_back.replace(false)
            && let Some(waker) = self.waits_for_sent.take()
        {
            waker.wake();
        }
        if self.flushed.replace(true) {
            return;
        }
        self.write_blocked.set(0);
        // Where it idles from here, it does so since now.
        self.note_progress();
        self.unsent.borrow_mut().clear();
        if let Some(waker) = self.waits_for_sent.take() {
            waker.wake();
        }
    }

    /// Whether what was read is being stored: time in which its client is not waited for.
    pub fn set_storing(&self, storing: bool) {
        self.storing.set(storing);
    }

    /// Whether the client sends a body at fewer than `rate` bytes a second. To be asked with every check of clocks.
    pub fn sends_too_slowly(&self, in_body: bool, rate: Option<u64>) -> bool {
        let (now, received) = (self.clock.now_ms(), self.received.get());
        let (true, Some(rate)) = (in_body, rate) else {
            self.body_pace.set(None);
            return false;
        };
        let waited_for = self.read_blocked.get() && !self.storing.get();
        let mut pace = self
            .body_pace
            .get()
            .unwrap_or_else(|| Pace::at(now, received));
        let slow = pace.is_slow(now, waited_for, received, rate);
        self.body_pace.set(Some(pace));
        slow
    }

    /// Whether the client takes a response at fewer than `rate` bytes a second; `unsent` is what its kernel has not taken.
    pub fn takes_too_slowly(
        &self,
        rate: Option<u64>,
        unsent: impl FnOnce() -> Option<u64>,
    ) -> bool {
        let now = self.clock.now_ms();
        let waited_for = self.write_blocked.get() != 0;
        let mut pace = self.send_pace.get();
        if waited_for && now.saturating_sub(pace.looked_ms()) < ASK_UNSENT_INTERVAL_MS {
            return false;
        }
        if waited_for && let Some(unsent) = unsent() {
            let taken = self.written.get().saturating_sub(unsent);
            if taken > self.taken.get() {
                self.taken.set(taken);
                self.write_blocked.set(now.max(1));
            }
        }
        let taken = self.taken.get();
        let slow = rate.is_some_and(|rate| pace.is_slow(now, waited_for, taken, rate));
        self.send_pace.set(pace);
        slow && waited_for
    }

    /// hyper gets bytes that must be sent before what goes past it.
    pub fn expect_flush(&self) {
        self.holds_back.set(true);
    }

    /// A file follows at once what hyper holds: the kernel may send both in one packet.
    pub fn expect_file(&self) {
        self.file_follows.set(true);
    }

    /// Whether a file follows at once what hyper writes now.
    pub fn file_follows(&self) -> bool {
        self.file_follows.get()
    }

    /// Waits until they are sent.
    pub fn poll_flushed(&self, cx: &Context<'_>) -> Poll<()> {
        if !self.holds_back.get() {
            return Poll::Ready(());
        }
        self.waits_for_sent.set(Some(cx.waker().clone()));
        Poll::Pending
    }

    /// hyper holds so many bytes more of a response, until all that it holds is sent.
    pub fn holds(&self, memory: &Arc<SharedBytes>, bytes: usize) {
        let mut unsent = self.unsent.borrow_mut();
        let held = unsent.bytes() + bytes;
        unsent.set(memory, held);
    }

    /// Waits until hyper holds nothing of a response.
    pub fn poll_sent(&self, cx: &Context<'_>) -> Poll<()> {
        if self.unsent.borrow().bytes() == 0 {
            return Poll::Ready(());
        }
        self.waits_for_sent.set(Some(cx.waker().clone()));
        Poll::Pending
    }
}
