//! One client's connection, from accept to close.
//!
//! It drives hyper, keeps the connection's clocks (through the front's sweeper), answers what the screen
//! refuses, notices a client that leaves while its request waits, and hands the socket to an application that
//! takes it over. It never looks at what a request says.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;

use crate::failure::Outcome;
use crate::handover::Kept;
use crate::http::request::{Peer, Request};
use crate::http::screen::{Limits, Phase, Refusal, Screen};
use crate::http::service::{Exchanged, Service};
use crate::net::client_io::{ClientIo, ClientState};
use crate::net::stream::Stream;

/// An idle connection gives its buffers back after this long.
const HIBERNATE_AFTER_MS: u64 = 250;

/// What the sweeper and the front see of a connection.
pub struct Connection {
    pub(super) exchanged: Rc<Exchanged>,
    pub(super) service: Rc<Service>,
    waker: RefCell<Option<Waker>>,
    pub(super) killed: Cell<bool>,
    /// Whether the application has it.
    pub(super) spliced: Cell<bool>,
    /// Whether it is to be closed as soon as it is idle.
    leaves: Cell<bool>,
    rests: Cell<bool>,
    /// Whether it is to give its buffers back as soon as it is idle, for then it is given away.
    rests_early: Cell<bool>,
    /// Whether it is idle without buffers: then the sweeper need not look often.
    asleep: Cell<bool>,
    /// Whether a request has been answered: then the keep-alive time-out counts, not the header's.
    answered: Cell<bool>,
}

enum Ending {
    /// hyper is done: the connection closes.
    Closed,
    /// The screen or a clock refused the message.
    Refused(Refusal),
    /// The application has the connection.
    Hijacked(Rc<Request>),
    /// Nothing happens on it: its buffers can go.
    Rests,
    /// It must go at once.
    Killed,
    /// The same, and the client must see that its response is not whole.
    Cut,
}

impl Connection {
    /// A connection over an accepted socket; `answered` says whether another server answered a request on it before.
    pub fn new(
        service: Rc<Service>,
        stream: Stream,
        peer: Peer,
        clock: Rc<crate::clock::Clock>,
        answered: bool,
    ) -> Self {
        let settings = service.settings.get();
        let limits = Limits {
            max_target_bytes: settings.max_target_bytes,
            max_header_count: settings.max_header_count,
            max_header_bytes: settings.max_header_bytes,
            max_field_bytes: settings.max_field_bytes,
            max_body_bytes: settings.max_body_bytes,
        };
        let io = ClientIo::new(stream, Screen::new(limits), clock);
        let exchanged = Exchanged {
            current: RefCell::new(None),
            hijacked: RefCell::new(None),
            busy: Cell::new(false),
            responds: Cell::new(false),
            stopping: Cell::new(false),
            cut_by: Cell::new(None),
            needs_reset: Cell::new(false),
            peer: Rc::new(peer),
            io,
        };
        Self {
            exchanged: Rc::new(exchanged),
            service,
            waker: RefCell::new(None),
            killed: Cell::new(false),
            spliced: Cell::new(false),
            leaves: Cell::new(false),
            rests: Cell::new(false),
            rests_early: Cell::new(false),
            asleep: Cell::new(true),
            answered: Cell::new(answered),
        }
    }

    /// Serves the connection until it ends.
    pub async fn serve(self: Rc<Self>) {
        while self.rest().await {
            self.service.awake.borrow_mut().push(Rc::downgrade(&self));
            // Each in a box of its own: a connection that rests holds none of them.
            match Box::pin(self.drive()).await {
                Ending::Rests => {}
                Ending::Refused(refusal) => return Box::pin(self.refuse(refusal)).await,
                Ending::Hijacked(request) => return Box::pin(self.splice(&request)).await,
                Ending::Closed => return Box::pin(self.close()).await,
                Ending::Killed => return,
                Ending::Cut => return self.exchanged.io.reset_on_close(),
            }
        }
    }

    /// Lets what has come be answered, and nothing more come.
    pub fn stop(&self) {
        self.exchanged.stopping.set(true);
        self.leaves.set(true);
        self.wake();
    }

    /// Has it give its buffers back as soon as it is idle, each time: then it can be given away.
    pub fn rest_early(&self) {
        self.rests_early.set(true);
        self.wake();
    }

    /// Gives its socket away if it is idle without buffers, and lets go of it. Otherwise nothing happens.
    ///
    /// # Errors
    /// Those of `give`; it is served on.
    pub fn give(
        &self,
        give: impl Fn(BorrowedFd<'_>, &Kept) -> std::io::Result<()>,
    ) -> std::io::Result<()> {
        if self.killed.get() || !self.asleep.get() {
            return Ok(());
        }
        let peer = &self.exchanged.peer;
        // A UNIX socket's has a name instead.
        let host = peer.local_host.parse::<IpAddr>().ok();
        let kept = Kept {
            listener: host.map(|ip| SocketAddr::new(ip, peer.local_port)),
            answered: self.answered.get(),
        };
        self.exchanged
            .io
            .with_socket(|socket| give(socket, &kept))?;
        // The socket is closed here, and not shut down.
        self.killed.set(true);
        self.wake();
        Ok(())
    }

    /// Ends it now. `outcome` is that of a request which is still on it.
    pub fn kill(&self, outcome: Outcome) {
        self.exchanged.cut_by.set(Some(outcome));
        self.killed.set(true);
        self.wake();
    }

    /// Whether it is idle without buffers.
    pub fn is_asleep(&self) -> bool {
        self.asleep.get()
    }

    /// Whether a request was answered on it, and since when nothing has happened on it: milliseconds of the coarse clock.
    pub fn idle_since(&self) -> (bool, u64) {
        (self.answered.get(), self.exchanged.io.progress_ms())
    }

    /// Whether something on it is or may become a worker's: all but a response that is being sent. (What of its body is
    /// still to come the dispatcher knows.)
    pub fn may_need_worker(&self) -> bool {
        !(self.exchanged.busy.get() && self.exchanged.responds.get())
    }

    /// Whether the application has taken it over.
    pub fn is_spliced(&self) -> bool {
        self.spliced.get()
    }

    /// Whether a message is on it.
    pub fn is_busy(&self) -> bool {
        let (exchanged, io) = (&self.exchanged, &self.exchanged.io);
        exchanged.busy.get() || !io.is_flushed() || !io.is_idle()
    }

    /// Checks the connection's clocks. Called by the sweeper.
    pub fn sweep(&self, now_ms: u64) {
        let (settings, io) = (self.service.settings.get(), &self.exchanged.io);
        let late =
            |since: u64, limit: Duration| now_ms.saturating_sub(since) > limit.as_millis() as u64;
        // First, for it notes what the client has taken.
        if io.takes_too_slowly(settings.min_send_rate)
            || io
                .write_blocked_since_ms()
                .is_some_and(|since| late(since, settings.send_timeout))
        {
            return self.kill(Outcome::Timeout);
        }
        let answering = self.exchanged.busy.get() || !io.is_flushed();
        if io.sends_too_slowly(settings.min_body_rate) {
            return self.time_out("the body came too slowly");
        }
        match io.phase() {
            phase if answering && phase != Phase::Body => {}
            Phase::Head if late(io.progress_ms(), settings.header_timeout) => {
                self.time_out("the head took too long");
            }
            Phase::Body if late(io.progress_ms(), settings.body_timeout) => {
                self.time_out("the body made no progress");
            }
            Phase::Idle | Phase::Complete => {
                let limit = if self.answered.get() {
                    settings.keep_alive_timeout
                } else {
                    settings.header_timeout
                };
                if late(io.progress_ms(), limit) {
                    self.kill(Outcome::Timeout);
                } else if !self.rests.get()
                    && (self.service.is_crowded.get()
                        || now_ms.saturating_sub(io.progress_ms()) > HIBERNATE_AFTER_MS)
                {
                    self.rests.set(true);
                    self.wake();
                }
            }
            _ => {}
        }
    }

    fn time_out(&self, reason: &'static str) {
        self.exchanged.io.refuse(Refusal {
            status: 408,
            reason,
        });
        self.wake();
    }

    fn wake(&self) {
        if let Some(waker) = self.waker.borrow().as_ref() {
            waker.wake_by_ref();
        }
    }

    /// Runs hyper until something ends it.
    async fn drive(self: &Rc<Self>) -> Ending {
        let service = service_fn(|message| {
            let connection = Rc::clone(self);
            async move {
                let response = Rc::clone(&connection.service)
                    .answer(Rc::clone(&connection.exchanged), message)
                    .await;
                connection.answered.set(true);
                response
            }
        });
        let settings = self.service.settings.get();
        let limits = self.exchanged.io.limits();
        let mut builder = http1::Builder::new();
        builder
            .half_close(true)
            .keep_alive(!settings.keep_alive_timeout.is_zero())
            .header_read_timeout(None)
            .max_headers(limits.max_header_count + 1)
            .max_buf_size(limits.max_header_bytes + limits.max_target_bytes + 8192);
        let connection = builder.serve_connection(self.exchanged.io.clone(), service);
        let mut connection = Box::pin(connection);
        poll_fn(|cx| {
            self.remember(cx);
            // The runtime asks workers for news only when it is about to sleep; a front that is busy with
            // uploads alone would not get there.
            self.service.dispatcher.complete();
            if self.killed.get() {
                return Poll::Ready(if self.is_busy() {
                    Ending::Cut
                } else {
                    Ending::Killed
                });
            }
            if connection.as_mut().poll(cx).is_ready() {
                return Poll::Ready(self.ending());
            }
            if let Some(request) = self.exchanged.hijacked.borrow_mut().take() {
                return Poll::Ready(Ending::Hijacked(request));
            }
            let idle = || !self.is_busy();
            if self.leaves.get() && idle() && !self.has_news() {
                return Poll::Ready(Ending::Killed);
            }
            if (self.rests.replace(false) || self.rests_early.get()) && idle() {
                return Poll::Ready(Ending::Rests);
            }
            self.watch_client(cx);
            Poll::Pending
        })
        .await
    }

    /// What remains to be done after hyper, whatever it says itself.
    fn ending(&self) -> Ending {
        match self.unanswered_refusal() {
            Some(refusal) => Ending::Refused(refusal),
            None if self.exchanged.needs_reset.get() => Ending::Cut,
            None => Ending::Closed,
        }
    }

    /// A refusal that hyper knows nothing of: of a head that it never saw. In a body the service answers.
    fn unanswered_refusal(&self) -> Option<Refusal> {
        let in_head = matches!(self.exchanged.io.phase(), Phase::Idle | Phase::Head);
        self.exchanged.io.refusal().filter(|_| in_head)
    }

    /// While a request is with the dispatcher, hyper does not read: look whether its client leaves.
    fn watch_client(&self, cx: &mut Context<'_>) {
        let current = self.exchanged.current.borrow().clone();
        let Some(request) = current else { return };
        match self.exchanged.io.poll_client(cx) {
            ClientState::Here => {}
            ClientState::HalfClosed => self.service.dispatcher.client_left(&request, false),
            ClientState::Gone => {
                self.service.dispatcher.client_left(&request, true);
                self.killed.set(true);
                cx.waker().wake_by_ref();
            }
        }
    }

    pub(super) fn remember(&self, cx: &Context<'_>) {
        let mut waker = self.waker.borrow_mut();
        if !waker
            .as_ref()
            .is_some_and(|known| known.will_wake(cx.waker()))
        {
            *waker = Some(cx.waker().clone());
        }
    }

    /// Holds an idle connection, as a new one is too, without hyper and its buffers. False when it must end.
    async fn rest(self: &Rc<Self>) -> bool {
        self.asleep.set(true);
        self.exchanged.io.release_buffers();
        let idle = self.service.idle.add(self);
        if self.rests_early.get() {
            self.service.rested.notify_waiters();
        }
        let readable = poll_fn(|cx| {
            self.remember(cx);
            let io = &self.exchanged.io;
            if self.killed.get() {
                return Poll::Ready(false);
            }
            match io.poll_readable(cx) {
                Poll::Ready(()) => Poll::Ready(true),
                Poll::Pending if self.leaves.get() && !self.has_news() => Poll::Ready(false),
                Poll::Pending => Poll::Pending,
            }
        })
        .await;
        drop(idle);
        self.rests.set(false);
        self.asleep.set(!readable);
        readable
    }
}
