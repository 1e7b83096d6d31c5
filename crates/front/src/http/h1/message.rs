//! The message that is on a connection of HTTP/1. It decides nothing: it notes, and asks the socket.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::failure::Outcome;
use crate::http::client_side::ClientSide;
use crate::http::incoming::Hijack;
use crate::http::screen::Refusal;
use crate::messages::SubmissionId;
use crate::net::client_io::ClientIo;
use crate::shared_bytes::SharedBytes;

/// The message that is on a connection, or the last one that was.
pub struct Message {
    io: ClientIo,
    /// The request that is with the dispatcher.
    pub submitted: Cell<Option<SubmissionId>>,
    /// How the application has taken the connection, once it has.
    pub hijacked: RefCell<Option<Hijack>>,
    /// Whether it is being answered: from its head until the response's body is dropped.
    pub busy: Cell<bool>,
    /// Whether the response to it is there, but for what may still come of its body.
    pub responds: Cell<bool>,
    /// What ended it before its time, other than the client's leaving.
    pub cut_by: Cell<Option<Outcome>>,
    /// Whether only a reset shows the client that its response is not whole.
    pub needs_reset: Cell<bool>,
}

impl Message {
    /// Returns what a connection begins with.
    pub fn new(io: ClientIo) -> Self {
        Self {
            io,
            submitted: Cell::new(None),
            hijacked: RefCell::new(None),
            busy: Cell::new(false),
            responds: Cell::new(false),
            cut_by: Cell::new(None),
            needs_reset: Cell::new(false),
        }
    }

    /// Begins another one.
    pub fn begin(&self) {
        self.busy.set(true);
        self.responds.set(false);
    }
}

impl ClientSide for Message {
    fn set_submitted(&self, id: Option<SubmissionId>) {
        self.submitted.set(id);
    }

    fn expects_continue(&self) -> bool {
        self.io.head().is_some_and(|head| head.expect_continue)
    }

    fn refusal(&self) -> Option<Refusal> {
        self.io.refusal()
    }

    fn set_storing(&self, storing: bool) {
        self.io.flow().set_storing(storing);
    }

    fn send_interim(&self, bytes: &[u8]) {
        self.io.try_write_between(bytes);
    }

    fn is_gone(&self) -> bool {
        self.io.is_gone()
    }

    fn responds(&self) {
        self.responds.set(true);
    }

    fn hijack(&self, hijack: Hijack) {
        *self.hijacked.borrow_mut() = Some(hijack);
    }

    fn file_socket(&self) -> Option<ClientIo> {
        self.io.takes_files().then(|| self.io.clone())
    }

    fn hold(&self, memory: &Arc<SharedBytes>, bytes: usize) {
        self.io.flow().holds(memory, bytes);
    }

    fn poll_sent(&self, cx: &Context<'_>) -> Poll<()> {
        self.io.flow().poll_sent(cx)
    }

    fn needs_reset(&self) {
        self.needs_reset.set(true);
    }

    fn cut_by(&self) -> Option<Outcome> {
        self.cut_by.get()
    }

    fn ended(&self) {
        self.busy.set(false);
    }
}
