//! What is known of one client's connection, and what may be asked of it from outside its task. It never drives hyper and
//! never looks at what a request says.

use std::cell::{Cell, OnceCell, RefCell};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use config::Settings;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::{Deserialize, Serialize};

use crate::failure::Outcome;
use crate::http::h1::message::Message;
use crate::http::h2::streams::{Streams, Verdict};
use crate::http::incoming::{HijackedBy, IncomingResponse};
use crate::http::request::Peer;
use crate::http::response_store::ResponseStore;
use crate::http::screen::{Phase, Refusal};
use crate::net::client_io::ClientIo;

/// An idle connection gives its buffers back after this long, in milliseconds.
const HIBERNATE_AFTER_MS: u64 = 250;

/// How long a connection that cannot be given to another server waits for one more request. A client that is told on a
/// response that it is the last one loses nothing; one whose idle connection is closed may be sending just then.
const LAST_REQUEST_WAIT: Duration = Duration::from_secs(2);

/// How long after it was accepted a connection on which nothing has come is waited for when the server stops, and so a
/// handshake: its client has just connected, and is sending its first request. One that has been silent for longer was opened
/// for later.
pub(crate) const FIRST_REQUEST_WAIT: Duration = Duration::from_millis(500);

/// What another server needs to know of an idle connection, in addition to its socket.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct IdleConnection {
    /// The address of the listener that it came from; a UNIX socket's has none.
    pub(crate) listener: Option<SocketAddr>,
    /// Whether a request was answered on it.
    pub(crate) answered: bool,
    /// Whom its PROXY header spoke of.
    pub(crate) proxied: Option<ProxiedClient>,
}

/// The client that a PROXY header spoke of.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ProxiedClient {
    pub(crate) address: String,
    pub(crate) port: u16,
    /// Whether its X-Forwarded-* fields are believed.
    pub(crate) trusted: bool,
}

/// The state of one connection.
pub struct ConnectionState {
    /// Both ends of the connection.
    pub peer: Arc<Peer>,
    /// The socket.
    pub io: ClientIo,
    /// The message on it.
    pub message: Rc<Message>,
    /// Its streams, once it speaks HTTP/2.
    pub http2: OnceCell<Rc<Streams>>,
    /// Whether the next message is to be its last one.
    pub stopping: Cell<bool>,
    /// Whether it must end now.
    pub killed: Cell<bool>,
    /// Whether the application has it.
    pub spliced: Cell<bool>,
    /// The worker whose application has it.
    pub hijacked_by: Cell<HijackedBy>,
    /// Whether it is to be closed as soon as it is idle.
    pub close_when_idle: Cell<bool>,
    /// Whether it is to give its buffers back, for it was idle for a while.
    pub free_buffers: Cell<bool>,
    /// Whether it is to give its buffers back as soon as it is idle, for then it is given away.
    pub free_buffers_when_idle: Cell<bool>,
    /// Whether it is idle without buffers: then it need not be checked often.
    pub hibernating: Cell<bool>,
    /// Whether a request has been answered: then the keep-alive time-out counts, not the header's.
    pub answered: Cell<bool>,
    /// The last response, for the next request to use again.
    response: RefCell<Option<Rc<IncomingResponse>>>,
    waker: RefCell<Option<Waker>>,
}

impl ConnectionState {
    /// Returns the state of an accepted socket; `answered` says whether another server answered a request on it before.
    pub fn new(peer: Peer, io: ClientIo, answered: bool) -> Self {
        Self {
            peer: Arc::new(peer),
            message: Rc::new(Message::new(io.clone())),
            io,
            http2: OnceCell::new(),
            stopping: Cell::new(false),
            killed: Cell::new(false),
            spliced: Cell::new(false),
            hijacked_by: Cell::default(),
            close_when_idle: Cell::new(false),
            free_buffers: Cell::new(false),
            free_buffers_when_idle: Cell::new(false),
            hibernating: Cell::new(true),
            answered: Cell::new(answered),
            response: RefCell::new(None),
            waker: RefCell::new(None),
        }
    }

    /// Returns an empty response for the next request: the last one, if it has no other owner.
    pub fn next_response(&self, store: &Rc<ResponseStore>) -> Rc<IncomingResponse> {
        let mut last = self.response.borrow_mut();
        if let Some(last) = &mut *last
            && let Some(response) = Rc::get_mut(last)
        {
            response.reset();
            return Rc::clone(last);
        }
        let next = Rc::new(IncomingResponse::new(store));
        *last = Some(Rc::clone(&next));
        next
    }

    /// Gives back the memory that an idle connection does not need.
    pub fn release_buffers(&self) {
        self.io.release_buffers();
        self.response.take();
    }

    /// Lets what has come be answered, and nothing more come; of a client that has just connected, its first request.
    pub fn stop(self: &Rc<Self>) {
        let left = match self.answered.get() || self.http2.get().is_some() {
            true => Duration::ZERO,
            false => FIRST_REQUEST_WAIT.saturating_sub(self.io.flow().since_progress()),
        };
        self.stop_after(left);
    }

    /// Lets nothing more come after the next message, and waits for that a little: its client may be sending it.
    pub fn stop_soon(self: &Rc<Self>) {
        self.stop_after(LAST_REQUEST_WAIT);
    }

    /// Lets nothing more come after the next message, and waits for so long for that.
    fn stop_after(self: &Rc<Self>, wait: Duration) {
        self.stopping.set(true);
        if wait.is_zero() {
            return self.close_when_idle();
        }
        let state = Rc::downgrade(self);
        tokio::task::spawn_local(async move {
            tokio::time::sleep(wait).await;
            if let Some(state) = state.upgrade() {
                state.close_when_idle();
            }
        });
    }

    fn close_when_idle(&self) {
        self.close_when_idle.set(true);
        self.wake();
    }

    /// Has it give its buffers back as soon as it is idle, each time: then it can be given away.
    pub fn free_buffers_when_idle(&self) {
        self.free_buffers_when_idle.set(true);
        self.wake();
    }

    /// Gives its socket away if it is idle without buffers, and lets go of it. Otherwise nothing happens.
    ///
    /// # Errors
    /// Those of `give`; it is served on.
    pub fn give(
        &self,
        give: impl Fn(BorrowedFd<'_>, &IdleConnection) -> io::Result<()>,
    ) -> io::Result<()> {
        // That of HTTP/2 has a state that only its own server knows: it ends with a GOAWAY.
        if self.killed.get() || !self.hibernating.get() || self.http2.get().is_some() {
            return Ok(());
        }
        // A UNIX socket's has a name instead.
        let host = self.peer.local_host.parse::<IpAddr>().ok();
        let idle = IdleConnection {
            listener: host.map(|ip| SocketAddr::new(ip, self.peer.local_port)),
            answered: self.answered.get(),
            proxied: self.peer.proxied.then(|| ProxiedClient {
                address: self.peer.address.clone(),
                port: self.peer.port,
                trusted: self.peer.trusted,
            }),
        };
        self.io.with_stream(|stream| give(stream.as_fd(), &idle))?;
        // The socket is closed here, and not shut down.
        self.killed.set(true);
        self.wake();
        Ok(())
    }

    /// Ends it now. `outcome` is that of a request which is still on it.
    pub fn kill(&self, outcome: Outcome) {
        self.message.cut_by.set(Some(outcome));
        if let Some(streams) = self.http2.get() {
            streams.cut(outcome);
        }
        self.killed.set(true);
        self.wake();
    }

    /// Whether it is idle without buffers.
    pub fn is_hibernating(&self) -> bool {
        self.hibernating.get()
    }

    /// Whether it can be given to another server now: it is idle without buffers, and has no session that only this one knows.
    pub(crate) fn is_giveable(&self) -> bool {
        let is_own = self.peer.tls.is_some() || self.http2.get().is_some();
        self.is_hibernating() && !is_own && !self.killed.get()
    }

    /// Whether a request was answered on it, and since when nothing has happened on it: milliseconds of the coarse clock.
    pub fn idle_since(&self) -> (bool, u64) {
        match self.http2.get() {
            Some(streams) => streams.idle_since(),
            None => (self.answered.get(), self.io.flow().progress_ms()),
        }
    }

    /// Whether something on it is or may become a worker's: all but a response that is being sent. (What of its body is
    /// still to come the dispatcher knows.)
    pub fn may_need_worker(&self) -> bool {
        match self.http2.get() {
            Some(streams) => streams.may_need_worker(),
            None => !(self.message.busy.get() && self.message.responds.get()),
        }
    }

    /// How much of it applications of `chosen` workers have taken over: itself, or streams of it.
    pub fn count_hijacked(&self, chosen: &dyn Fn(HijackedBy) -> bool) -> usize {
        match self.http2.get() {
            Some(streams) => streams.count_hijacked(chosen),
            None => usize::from(self.spliced.get() && chosen(self.hijacked_by.get())),
        }
    }

    /// Ends what applications of `chosen` workers have taken over. Returns how much that was.
    pub fn close_hijacked(&self, chosen: &dyn Fn(HijackedBy) -> bool) -> u64 {
        if let Some(streams) = self.http2.get() {
            return streams.close_hijacked(chosen);
        }
        let hijacked = self.spliced.get() && !self.killed.get();
        if !hijacked || !chosen(self.hijacked_by.get()) {
            return 0;
        }
        self.kill(Outcome::Aborted);
        1
    }

    /// Whether a message is on it.
    pub fn is_busy(&self) -> bool {
        self.message.busy.get() || !self.io.flow().is_flushed() || !self.io.is_idle()
    }

    /// Whether the client has sent something or has left: asked of the kernel, for the runtime hears of it later.
    pub fn has_news(&self) -> bool {
        self.io.with_stream(|stream| {
            let mut socket = [PollFd::new(stream, PollFlags::IN)];
            let news = poll(&mut socket, Some(&Timespec::default()));
            stream.holds_input() || news.is_ok_and(|ready| ready > 0)
        })
    }

    /// Checks the connection's clocks at `now_ms` of the coarse clock. `crowded`: newcomers find no place.
    pub fn check_clocks(&self, now_ms: u64, settings: &Settings, crowded: bool) {
        if let Some(streams) = self.http2.get() {
            return match streams.check_clocks(now_ms, settings) {
                Verdict::Sound => {}
                Verdict::Wake => self.wake(),
                Verdict::Kill(outcome) => self.kill(outcome),
            };
        }
        let (io, flow) = (&self.io, self.io.flow());
        let late =
            |since: u64, limit: Duration| now_ms.saturating_sub(since) > limit.as_millis() as u64;
        // First, for it notes what the client has taken.
        if io.takes_too_slowly(settings.min_send_rate)
            || flow
                .write_blocked_since_ms()
                .is_some_and(|since| late(since, settings.send_timeout))
        {
            return self.kill(Outcome::Timeout);
        }
        let answering = self.message.busy.get() || !flow.is_flushed();
        let phase = io.phase();
        if flow.sends_too_slowly(phase == Phase::Body, settings.min_body_rate) {
            return self.time_out("the body came too slowly");
        }
        let since = flow.progress_ms();
        match phase {
            phase if answering && phase != Phase::Body => {}
            Phase::Head if late(since, settings.header_timeout) => {
                self.time_out("the head took too long");
            }
            Phase::Body if late(since, settings.body_timeout) => {
                self.time_out("the body made no progress");
            }
            Phase::Idle | Phase::Complete => {
                let limit = if self.answered.get() {
                    settings.keep_alive_timeout
                } else {
                    settings.header_timeout
                };
                if late(since, limit) {
                    self.kill(Outcome::Timeout);
                } else if !self.free_buffers.get()
                    && (crowded || now_ms.saturating_sub(since) > HIBERNATE_AFTER_MS)
                {
                    self.free_buffers.set(true);
                    self.wake();
                }
            }
            _ => {}
        }
    }

    fn time_out(&self, reason: &'static str) {
        self.io.refuse(Refusal {
            status: 408,
            reason,
        });
        self.wake();
    }

    /// Wakes the connection's task.
    pub fn wake(&self) {
        if let Some(waker) = self.waker.borrow().as_ref() {
            waker.wake_by_ref();
        }
    }

    /// Remembers the connection's task.
    pub fn remember(&self, cx: &Context<'_>) {
        let mut waker = self.waker.borrow_mut();
        if !waker
            .as_ref()
            .is_some_and(|known| known.will_wake(cx.waker()))
        {
            *waker = Some(cx.waker().clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::UnixStream;
    use tokio::task::LocalSet;

    use super::*;
    use crate::clock::Clock;
    use crate::http::screen::{Limits, Screen};
    use crate::net::stream::Stream;

    /// A connection that was accepted just now, and the client's end of it.
    fn accepted(clock: &Rc<Clock>) -> (Rc<ConnectionState>, UnixStream) {
        let (socket, client) = UnixStream::pair().unwrap();
        let limits = Limits {
            max_target_bytes: 100,
            max_header_count: 10,
            max_header_bytes: 1000,
            max_field_bytes: 100,
            max_body_bytes: 1000,
        };
        let peer = Peer {
            address: "127.0.0.1".to_owned(),
            port: 0,
            local_host: "localhost".to_owned(),
            local_port: 80,
            trusted: false,
            tls: None,
            proxied: false,
        };
        let io = ClientIo::new(Stream::Unix(socket), Screen::new(limits), Rc::clone(clock));
        (Rc::new(ConnectionState::new(peer, io, false)), client)
    }

    #[tokio::test(start_paused = true)]
    async fn a_stop_waits_for_the_first_request_of_a_new_connection() {
        let test = async {
            let (state, _client) = accepted(&Rc::new(Clock::new()));
            state.stop();
            tokio::time::sleep(FIRST_REQUEST_WAIT - Duration::from_millis(1)).await;
            assert!(state.stopping.get() && !state.close_when_idle.get());
            tokio::time::sleep(Duration::from_millis(2)).await;
            assert!(state.close_when_idle.get());
        };
        LocalSet::new().run_until(test).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_stop_closes_at_once_what_was_answered_or_has_long_been_silent() {
        let clock = Rc::new(Clock::new());
        let (answered, _client) = accepted(&clock);
        answered.answered.set(true);
        let (silent, _client) = accepted(&clock);
        test_support::until("the clock has gone on", || {
            clock.tick();
            clock.now_ms() > 1 + FIRST_REQUEST_WAIT.as_millis() as u64
        });
        for state in [answered, silent] {
            state.stop();
            assert!(state.close_when_idle.get());
        }
    }
}
