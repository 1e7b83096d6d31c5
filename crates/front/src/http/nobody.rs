//! A request that no client waits for: a stored response is validated while clients get it. Nothing is sent.

use std::sync::Arc;
use std::task::{Context, Poll};

use crate::failure::Outcome;
use crate::http::client_side::ClientSide;
use crate::http::incoming::Hijack;
use crate::http::screen::Refusal;
use crate::messages::SubmissionId;
use crate::shared_bytes::SharedBytes;

/// Nobody.
pub struct Nobody;

impl ClientSide for Nobody {
    fn set_submitted(&self, _id: Option<SubmissionId>) {}

    fn expects_continue(&self) -> bool {
        false
    }

    fn refusal(&self) -> Option<Refusal> {
        None
    }

    fn set_storing(&self, _storing: bool) {}

    fn send_interim(&self, _bytes: &[u8]) {}

    fn is_gone(&self) -> bool {
        false
    }

    fn responds(&self) {}

    /// Dropping the response closes the application's socket.
    fn hijack(&self, _hijack: Hijack) {}

    fn hold(&self, _memory: &Arc<SharedBytes>, _bytes: usize) {}

    fn poll_sent(&self, _cx: &Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }

    fn needs_reset(&self) {}

    fn cut_by(&self) -> Option<Outcome> {
        None
    }

    fn ended(&self) {}

    fn is_front(&self) -> bool {
        true
    }
}
