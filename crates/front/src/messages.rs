//! What edges and the dispatcher say to each other. An edge owns connections, the dispatcher owns the queue and the
//! exchange, and neither reads the other's state.
//!
//! On one thread a message is a call of these traits. Between threads [`crate::remote`] carries it, with the same traits
//! at both ends.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use exchange::WorkerId;
use tokio::sync::oneshot;

use crate::failure::Failure;
use crate::http::request::Request;
use crate::http::response_head::ResponseHead;

/// A submitted request, as the dispatcher knows it. An id is never used twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SubmissionId {
    /// The number of the application that it is for.
    pub(crate) application: u16,
    /// Where to find it. Only the dispatcher that gave the id knows what that means.
    pub(crate) index: usize,
    /// Number of requests before it.
    pub(crate) sequence: u64,
}

/// When a worker had a request, nanoseconds of the monotonic clock; 0: not yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunTimes {
    /// When a thread claimed it.
    pub claimed_ns: u64,
    /// When the application was done with it.
    pub finished_ns: u64,
}

/// Whether an edge can take more of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capacity {
    /// It can.
    Available,
    /// Not before it has said [`Dispatch::consumed`].
    Full,
    /// It could not store what came and discards the rest: the client's response is cut.
    Failed,
}

/// How a response ended. With [`Reply::end`] the dispatcher says only the first two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseEnd {
    /// Whole.
    Complete,
    /// Cut after its head.
    Aborted {
        /// Whether it was cut because its deadline had passed.
        late: bool,
    },
    /// Replaced by a failure before its head was used.
    Failed(Failure),
    /// The application took the connection over.
    Hijacked,
}

/// The dispatcher's answer to [`Dispatch::admits`].
#[derive(Debug)]
pub enum Admission {
    /// It is known at once.
    Decided(Result<(), Failure>),
    /// It comes from another thread.
    Asked(oneshot::Receiver<Result<(), Failure>>),
}

/// From an edge to the dispatcher. A message about a request that the dispatcher has dropped has no effect.
pub trait Dispatch {
    /// Puts a request, which has arrived whole, into the queue. All that becomes of it, refusals too, comes through
    /// `reply`.
    fn submit(&self, request: Arc<Request>, reply: Rc<dyn Reply>) -> SubmissionId;

    /// Asks whether a request for `path` of the application with this number would be taken now.
    fn admits(&self, application: u16, path: &[u8]) -> Admission;

    /// The edge has begun to use the response: the request cannot be run again.
    fn head_taken(&self, id: SubmissionId);

    /// There is room for more of the response. On one thread the edge gets it before this returns, and is not woken.
    fn consumed(&self, id: SubmissionId);

    /// The client left while its request waits or runs. A request that waits is dropped, one that runs goes on unwatched.
    /// `certain` is false for a mere FIN, which a client that only has nothing more to send also gives: then a request that
    /// a worker is about to take is left to it.
    fn client_left(&self, id: SubmissionId, certain: bool);

    /// The client has all that it was promised, or wants no body. The worker learns of it only when it writes more.
    fn no_more(&self, id: SubmissionId);

    /// No client wants the response any more. A request that waits is dropped, one that runs goes on unwatched.
    fn abandon(&self, id: SubmissionId);

    /// Takes what workers have written. The runtime does so before it sleeps; an edge that is busy with uploads alone would
    /// not get there.
    fn take_completed(&self);
}

/// From the dispatcher to the edge that has the request. No task is woken before [`Reply::wake`].
pub trait Reply {
    /// This worker has the request, or had it last.
    fn claimed(&self, by: WorkerId, times: RunTimes);

    /// Early hints, ready to be sent.
    fn hints(&self, bytes: Vec<u8>);

    /// The head.
    fn head(&self, head: ResponseHead);

    /// Returns whether more of the body may come.
    fn capacity(self: Rc<Self>) -> Capacity;

    /// A piece of the body.
    fn data(&self, bytes: Vec<u8>);

    /// The body is this file.
    fn file(&self, path: PathBuf);

    /// What the request cost its worker: the payload of an end, see [`exchange::measures`]. It may come after a failure.
    fn measured(&self, payload: Vec<u8>);

    /// The application's response is over.
    fn end(self: Rc<Self>, end: ResponseEnd);

    /// The response ends without the application's: with this failure, or cut where the edge uses its head already.
    /// `error` is what the application said, with its backtrace.
    fn fail(&self, failure: Failure, error: Option<String>);

    /// The application took the connection over and talks to it through this socket.
    fn hijacked(&self, socket: OwnedFd);

    /// The request is run again: what came so far is void.
    fn withdraw(&self);

    /// Wakes the task that waits for the response. Returns whether one of this thread did.
    fn wake(&self) -> bool;

    /// Forgets the task that waits: it is gone, or looks for itself.
    fn forget_waiter(&self);
}
