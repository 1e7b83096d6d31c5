//! Messages between an edge and the dispatcher where these run on different threads, behind the same traits as calls on one
//! thread. Channels of tokio carry them: what is sent while the other thread is busy costs it one wake-up.
//!
//! No channel has a limit of its own. Towards the dispatcher a request has a few messages at most, and an edge has as many
//! requests as connections; towards the edge a response has `WINDOW_BYTES` at most on the way.
//!
//! It decides nothing about requests.

mod dispatcher;
mod edge;

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use exchange::WorkerId;
use tokio::sync::mpsc::unbounded_channel;
use tokio::sync::oneshot;

use crate::failure::Failure;
use crate::http::request::Request;
use crate::http::response_head::ResponseHead;
use crate::messages::{ResponseEnd, RunTimes};
pub use dispatcher::DispatcherEnd;
pub use edge::EdgeEnd;

/// Bytes of one response's body and of its early hints that are on their way to its edge at most, but for the last piece.
const WINDOW_BYTES: usize = 256 * 1024;
/// Items that are taken from a channel at once.
const BATCH: usize = 64;

/// A request among those of its edge.
type Key = u64;

enum ToDispatcher {
    Submit(Key, Arc<Request>),
    Admits(Vec<u8>, oneshot::Sender<Result<(), Failure>>),
    HeadTaken(Key),
    Consumed(Key, usize),
    ClientLeft(Key, bool),
    NoMore(Key),
    Abandon(Key),
}

enum ToEdge {
    Claimed(WorkerId, RunTimes),
    Hints(Vec<u8>),
    Head(ResponseHead),
    Data(Vec<u8>),
    File(PathBuf),
    End(ResponseEnd),
    Fail(Failure, Option<String>),
    Hijacked(OwnedFd),
    Withdraw,
    /// The dispatcher has let go of the request: nothing more comes.
    Released,
}

/// What came for one request between two wake-ups: its edge takes all of it or nothing.
type Turn = (Key, Vec<ToEdge>);

/// Returns both ends of a connection between an edge and the dispatcher.
pub fn connect() -> (EdgeEnd, DispatcherEnd) {
    let (to_dispatcher, from_edge) = unbounded_channel();
    let (to_edge, from_dispatcher) = unbounded_channel();
    let edge = EdgeEnd {
        sender: to_dispatcher,
        receiver: from_dispatcher,
    };
    let dispatcher = DispatcherEnd {
        sender: to_edge,
        receiver: from_edge,
    };
    (edge, dispatcher)
}
