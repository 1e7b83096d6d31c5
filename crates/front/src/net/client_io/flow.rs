//! How fast a client sends and takes, and what hyper holds for it. It ends nothing: the connection does.

use std::rc::Rc;
use std::task::{Context, Poll};

use super::ClientIo;
use super::pace::Pace;
use crate::http::screen::Phase;
use crate::shared_bytes::SharedBytes;

/// How often the kernel is asked, of a client that takes nothing just now, how much it has taken.
const LOOK_AT_SENT_MS: u64 = 500;

impl ClientIo {
    /// What has been read is being stored from now on, or no more: time in which its client is not waited for.
    pub fn stores(&self, storing: bool) {
        self.inner.borrow_mut().storing = storing;
    }

    /// Whether the client sends a body at fewer than `rate` bytes a second. Asked at every sweep.
    pub fn sends_too_slowly(&self, rate: Option<u64>) -> bool {
        let inner = &mut *self.inner.borrow_mut();
        let (now, received) = (self.clock.now_ms(), inner.received);
        let (Phase::Body, Some(rate)) = (inner.screen.phase(), rate) else {
            inner.body_pace = None;
            return false;
        };
        let waited_for = inner.read_blocked && !inner.storing;
        let pace = inner
            .body_pace
            .get_or_insert_with(|| Pace::at(now, received));
        pace.is_slow(now, waited_for, received, rate)
    }

    /// Whether the client takes a response at fewer than `rate` bytes a second. Asked at every sweep. What its kernel has
    /// taken since is progress, also where our own is not ready for more.
    pub fn takes_too_slowly(&self, rate: Option<u64>) -> bool {
        let inner = &mut *self.inner.borrow_mut();
        let now = self.clock.now_ms();
        let waited_for = self.write_blocked.get() != 0;
        if waited_for && now.saturating_sub(inner.send_pace.looked_ms()) < LOOK_AT_SENT_MS {
            return false;
        }
        if waited_for && let Ok(unsent) = exchange::sockets::unsent(&inner.stream) {
            let taken = inner.written.saturating_sub(unsent);
            if taken > inner.taken {
                inner.taken = taken;
                self.write_blocked.set(now.max(1));
            }
        }
        let taken = inner.taken;
        let slow = rate.is_some_and(|rate| inner.send_pace.is_slow(now, waited_for, taken, rate));
        slow && waited_for
    }

    /// hyper holds so many bytes more of a response, until all that it holds is sent.
    pub fn holds(&self, memory: &Rc<SharedBytes>, bytes: usize) {
        let unsent = &mut self.inner.borrow_mut().unsent;
        unsent.set(memory, unsent.bytes() + bytes);
    }

    /// Waits until hyper holds nothing of a response.
    pub fn poll_sent(&self, cx: &Context<'_>) -> Poll<()> {
        let inner = &mut *self.inner.borrow_mut();
        if inner.unsent.bytes() == 0 {
            return Poll::Ready(());
        }
        inner.waits_for_sent = Some(cx.waker().clone());
        Poll::Pending
    }
}
