//! What the way of a request and its response needs of what the request came on. It is the border between what knows the
//! version of HTTP and what does not.

use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::sync::Semaphore;

use crate::failure::Outcome;
use crate::http::incoming::Hijack;
use crate::http::screen::Refusal;
use crate::messages::SubmissionId;
use crate::net::client_io::ClientIo;
use crate::shared_bytes::SharedBytes;

/// What a request came on: a connection of HTTP/1, or a stream of HTTP/2. It has one request at a time.
pub trait ClientSide {
    /// Remembers the request that the dispatcher has, so that the dispatcher hears when the client leaves.
    fn set_submitted(&self, id: Option<SubmissionId>);

    /// Whether the client waits for 100 (Continue) before it sends the body.
    fn expects_continue(&self) -> bool;

    /// The turns of its connection, of which each request takes one until its response begins: so many of one connection may
    /// wait for a worker at once. None where it has no limit of its own.
    fn turns(&self) -> Option<Arc<Semaphore>> {
        None
    }

    /// Why the rest of the request was refused, if it was.
    fn refusal(&self) -> Option<Refusal>;

    /// Whether what was read of the body is being stored: time in which its client is not waited for.
    fn set_storing(&self, storing: bool);

    /// Sends an interim response if that is possible at once.
    fn send_interim(&self, bytes: &[u8]);

    /// Whether the client is known to be unable to read an answer.
    fn is_gone(&self) -> bool;

    /// Notes that the head of the response is there: from now on only what is still to come of its body is a worker's.
    fn responds(&self);

    /// Gives it to the application that takes it over.
    fn hijack(&self, hijack: Hijack);

    /// The socket that takes files past hyper, if it can: not where bytes are encrypted or framed on their way.
    fn file_socket(&self) -> Option<ClientIo> {
        None
    }

    /// Notes that so many bytes more of the response are held until they are sent.
    fn hold(&self, memory: &Arc<SharedBytes>, bytes: usize);

    /// Waits until nothing of the response is held.
    fn poll_sent(&self, cx: &Context<'_>) -> Poll<()>;

    /// Notes that only a reset shows the client that its response is not whole.
    fn needs_reset(&self);

    /// What ended it before its time, other than the client's leaving.
    fn cut_by(&self) -> Option<Outcome>;

    /// Notes that the request has ended, however that came about.
    fn ended(&self);

    /// Whether the front itself asks, for the cache, and no client.
    fn is_front(&self) -> bool {
        false
    }
}
