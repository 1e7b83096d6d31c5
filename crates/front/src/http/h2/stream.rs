//! One stream of HTTP/2: what a request came on and its response goes back on. It decides nothing: it notes, and ends
//! what its clocks find too slow.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use config::Settings;
use h2::server::SendResponse;
use http::header::{HeaderName, HeaderValue};
use http::{Response, StatusCode};
use tokio::sync::Semaphore;

use super::clocks::{Download, Upload};
use crate::clock::Clock;
use crate::failure::Outcome;
use crate::http::client_side::ClientSide;
use crate::http::incoming::{Hijack, HijackedBy};
use crate::http::screen::Refusal;
use crate::messages::SubmissionId;
use crate::shared_bytes::SharedBytes;

/// One stream. Times are milliseconds of the coarse clock.
pub(super) struct ClientStream {
    /// The way back.
    pub(super) respond: RefCell<SendResponse<Bytes>>,
    turns: Option<Arc<Semaphore>>,
    /// Whether the client waits for 100 (Continue).
    expects_continue: Cell<bool>,
    refusal: Cell<Option<Refusal>>,
    /// How its body comes.
    pub(super) upload: Upload,
    /// How its response is taken.
    pub(super) download: Download,
    /// Whether the head of the response is there.
    responds: Cell<bool>,
    /// Whether the stream is reset, by the client or by a clock; and what ended it before its time.
    gone: Cell<bool>,
    cut_by: Cell<Option<Outcome>>,
    /// How the application takes it over, once it does.
    pub(super) hijacked: RefCell<Option<Hijack>>,
    /// Whether the application has it.
    pub(super) spliced: Cell<bool>,
    /// The worker whose application has it.
    pub(super) hijacked_by: Cell<HijackedBy>,
    waker: RefCell<Option<Waker>>,
}

impl ClientStream {
    /// Returns a stream whose head has come. Requests that wait for a worker take one of `turns`, if these are limited.
    pub(super) fn new(
        respond: SendResponse<Bytes>,
        clock: &Rc<Clock>,
        turns: Option<Arc<Semaphore>>,
        expects_continue: bool,
    ) -> Self {
        Self {
            respond: RefCell::new(respond),
            turns,
            expects_continue: Cell::new(expects_continue),
            refusal: Cell::new(None),
            upload: Upload::new(clock),
            download: Download::new(clock),
            responds: Cell::new(false),
            gone: Cell::new(false),
            cut_by: Cell::new(None),
            hijacked: RefCell::new(None),
            spliced: Cell::new(false),
            hijacked_by: Cell::default(),
            waker: RefCell::new(None),
        }
    }

    /// Remembers the stream's task.
    pub(super) fn remember(&self, cx: &Context<'_>) {
        let mut waker = self.waker.borrow_mut();
        let known = waker.as_ref();
        if !known.is_some_and(|known| known.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
    }

    fn wake(&self) {
        if let Some(waker) = self.waker.borrow().as_ref() {
            waker.wake_by_ref();
        }
    }

    /// Ends it now, with this outcome.
    pub(super) fn kill(&self, outcome: Outcome) {
        self.gone.set(true);
        self.cut_by.set(Some(outcome));
        self.wake();
    }

    /// Whether it has ended before its time: the client reset it, or a clock ended it. Asks the stream until the head of the
    /// response is sent.
    pub(super) fn is_over(&self, cx: &mut Context<'_>) -> bool {
        if !self.gone.get() && self.respond.borrow_mut().poll_reset(cx).is_ready() {
            self.note_reset();
        }
        self.gone.get()
    }

    /// The client has reset it.
    pub(super) fn note_reset(&self) {
        self.gone.set(true);
        if self.cut_by.get().is_none() {
            self.cut_by.set(Some(Outcome::ClientGone));
        }
    }

    /// Refuses the rest of the request.
    pub(super) fn refuse(&self, refusal: Refusal) {
        if self.refusal.get().is_none() {
            self.refusal.set(Some(refusal));
        }
        self.wake();
    }

    /// The body is to be read: a client that waits for 100 (Continue) gets it.
    pub(super) fn begin_reading(&self) {
        self.upload.set_reading(true);
        if self.expects_continue.replace(false) {
            self.send_informational(StatusCode::CONTINUE, &[]);
        }
    }

    /// Whether a worker may still be needed for it.
    pub(super) fn needs_worker(&self) -> bool {
        !self.responds.get()
    }

    /// Checks the stream's clocks at `now_ms`. `blocked` streams of the connection share its least rate for responses.
    pub(super) fn check_clocks(&self, now_ms: u64, settings: &Settings, blocked: u64) {
        // No clock of the front's is in force on what the application took over.
        if self.spliced.get() {
            return;
        }
        if self.download.is_too_slow(now_ms, settings, blocked) {
            return self.kill(Outcome::Timeout);
        }
        if let Some(reason) = self.upload.check(now_ms, settings) {
            self.refuse(Refusal {
                status: 408,
                reason,
            });
        }
    }

    /// Sends an interim response; one that cannot be sent is left out.
    fn send_informational(&self, status: StatusCode, fields: &[(HeaderName, HeaderValue)]) {
        let mut response = Response::new(());
        *response.status_mut() = status;
        response.headers_mut().extend(fields.iter().cloned());
        let _ = self.respond.borrow_mut().send_informational(response);
    }
}

impl ClientSide for ClientStream {
    /// The stream's own task sees that the client leaves.
    fn set_submitted(&self, _id: Option<SubmissionId>) {}

    fn expects_continue(&self) -> bool {
        self.expects_continue.get()
    }

    fn turns(&self) -> Option<Arc<Semaphore>> {
        self.turns.clone()
    }

    fn refusal(&self) -> Option<Refusal> {
        self.refusal.get()
    }

    fn set_storing(&self, storing: bool) {
        self.upload.set_storing(storing);
    }

    /// `bytes` are a 103 response of HTTP/1.1.
    fn send_interim(&self, bytes: &[u8]) {
        let lines = bytes.split(|&byte| byte == b'\n').skip(1);
        let fields = lines.filter_map(|line| {
            let colon = line.iter().position(|&byte| byte == b':')?;
            let name = HeaderName::from_bytes(&line[..colon]).ok()?;
            let value = HeaderValue::from_bytes(line[colon + 1..].trim_ascii()).ok()?;
            Some((name, value))
        });
        let fields: Vec<_> = fields.collect();
        self.send_informational(StatusCode::EARLY_HINTS, &fields);
    }

    fn is_gone(&self) -> bool {
        self.gone.get()
    }

    fn responds(&self) {
        self.responds.set(true);
    }

    fn hijack(&self, hijack: Hijack) {
        *self.hijacked.borrow_mut() = Some(hijack);
    }

    fn hold(&self, memory: &Arc<SharedBytes>, bytes: usize) {
        self.download.hold(memory, bytes);
    }

    /// The next piece is asked for only once the one before is handed over.
    fn poll_sent(&self, _cx: &Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }

    /// A response that is cut resets its stream in any case.
    fn needs_reset(&self) {}

    fn cut_by(&self) -> Option<Outcome> {
        self.cut_by.get()
    }

    fn ended(&self) {
        self.upload.set_reading(false);
    }
}
