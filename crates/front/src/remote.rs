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
use std::sync::atomic::{AtomicU64, Ordering};

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
    Admits(u16, Vec<u8>, oneshot::Sender<Result<(), Failure>>),
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
    Measured(Vec<u8>),
    End(ResponseEnd),
    Fail(Failure, Option<String>),
    Hijacked(OwnedFd),
    Withdraw,
    /// The dispatcher has let go of the request: nothing more comes.
    Released,
}

/// What came for one request between two wake-ups: its edge takes all of it or nothing.
type Turn = (Key, Vec<ToEdge>);

/// What has passed between one edge and the dispatcher. Each number has one thread that writes it.
#[derive(Debug, Default)]
pub struct Traffic {
    /// Messages to the dispatcher.
    pub to_dispatcher: AtomicU64,
    /// How often the dispatcher's task was woken for them.
    pub dispatcher_turns: AtomicU64,
    /// Messages to the edge; those for one request that are sent together are one.
    pub to_edge: AtomicU64,
    /// How often the edge's task was woken for them.
    pub edge_turns: AtomicU64,
}

impl Traffic {
    /// Counts messages that came together.
    fn count(messages: &AtomicU64, turns: &AtomicU64, came: usize) {
        let add = |counter: &AtomicU64, more| {
            counter.store(counter.load(Ordering::Relaxed) + more, Ordering::Relaxed);
        };
        add(messages, came as u64);
        add(turns, 1);
    }
}

/// Returns both ends of a connection between an edge and the dispatcher.
pub fn connect() -> (EdgeEnd, DispatcherEnd) {
    let (to_dispatcher, from_edge) = unbounded_channel();
    let (to_edge, from_dispatcher) = unbounded_channel();
    let traffic = Arc::new(Traffic::default());
    let edge = EdgeEnd {
        sender: to_dispatcher,
        receiver: from_dispatcher,
        traffic: Arc::clone(&traffic),
    };
    let dispatcher = DispatcherEnd {
        sender: to_edge,
        receiver: from_edge,
        traffic,
    };
    (edge, dispatcher)
}
