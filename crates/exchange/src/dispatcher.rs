//! What the supervisor and the dispatcher tell each other about generations and workers. It holds no state and no
//! request: the supervisor calls [`Dispatcher`], and hears [`Alarm`]s.

use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::time::Instant;

use crate::front::Corrupt;

/// A worker, among those of all generations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WorkerId {
    /// Number of its generation.
    pub generation: u32,
    /// Its number in that generation.
    pub worker: u16,
}

impl WorkerId {
    /// Worker `worker` of `generation`.
    pub const fn new(generation: u32, worker: u16) -> Self {
        Self { generation, worker }
    }
}

/// What the supervisor needs of the dispatcher. No method may wait; any may be called within another task's turn, so none
/// may hold a borrow across an await.
pub trait Dispatcher {
    /// Sets how many workers of the generation are to serve: at most as many as it has places for, fewer where memory is
    /// short.
    fn resize(&self, generation: u32, workers: u16);

    /// Prepares the worker's place in the exchange: its process is about to be forked.
    fn worker_starts(&self, worker: WorkerId);

    /// The worker's threads serve requests from now on.
    fn worker_up(&self, worker: WorkerId);

    /// Asks the worker's threads to finish what they run and exit.
    fn stop_worker(&self, worker: WorkerId);

    /// The worker's process is gone: takes back what it held, before a replacement is forked. How the process ended may be
    /// known only later.
    fn worker_died(&self, worker: WorkerId, cause: Cause);

    /// Number of requests that the worker's present process has finished.
    fn finished(&self, worker: WorkerId) -> u64;

    /// Whether the worker's present process has come to the end of a request.
    fn has_served(&self, worker: WorkerId) -> bool;

    /// The latest deadline of the requests that the worker runs, without those whose deadline has passed.
    fn deadline(&self, worker: WorkerId) -> Option<Instant>;

    /// Takes the socket by which the application of this worker took over the connection of the request in `slot`, claimed
    /// as `sequence`.
    fn hijacked(&self, worker: WorkerId, slot: u32, sequence: u64, socket: OwnedFd);

    /// Opens the body of the request in `slot`, for reading from its start, if this worker has claimed it as `sequence` and the
    /// body lies in a file.
    fn body(&self, worker: WorkerId, slot: u16, sequence: u32) -> Option<OwnedFd>;

    /// Takes the worker's answer to [`Alarm::Late`] or [`Alarm::Slow`]: where the thread is that runs the request in `slot`, claimed as
    /// `sequence`. Without a line where it does not run that request any more.
    fn traced(&self, worker: WorkerId, slot: u16, sequence: u32, backtrace: &[String]);

    /// Routes requests to these generations from now on, and to no other.
    fn route_to(&self, generations: &[u32]);

    /// Duplicates of the memory file and the doorbell of a generation whose exchange was corrupt, after it was replaced.
    ///
    /// # Errors
    /// No memory or descriptors for it so far.
    fn renewed_exchange(&self, generation: u32) -> io::Result<[OwnedFd; 2]>;

    /// The generation's workers are about to be killed. Returns how many requests before their deadline that loses.
    fn cut(&self, generation: u32) -> usize;

    /// Forgets a generation of which no process is left.
    fn close(&self, generation: u32);

    /// No worker can serve, and none is started before this moment; `None`: one serves again. Repeated when an attempt to
    /// start one has failed.
    fn outage(&self, until: Option<Instant>);

    /// Requests `path` from a worker of this generation, past the queue. Any status from 200 to 299 passes; otherwise says
    /// what was answered instead.
    fn check(&self, generation: u32, path: String) -> ReadyCheck;
}

/// How a process ended, for example `signal 9 (KILL)`; `None` where that is unknown. Resolves within a bounded time.
pub type Cause = Pin<Box<dyn Future<Output = Option<String>>>>;

/// The end of a check: nothing, or why the generation does not pass.
pub type ReadyCheck = Pin<Box<dyn Future<Output = Result<(), String>>>>;

/// A request in the hands of a worker thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The worker.
    pub by: WorkerId,
    /// Its thread.
    pub thread: u16,
    /// The slot.
    pub slot: u16,
    /// The slot's publication, by which the thread claimed it.
    pub sequence: u32,
}

/// In what a worker stalls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stall {
    /// One of its threads runs a request past its deadline and the grace.
    LateRequest,
    /// One of its threads was woken and does not come: its process is stopped, or something holds the GVL.
    Unresponsive,
    /// It runs code between requests for longer than a request may take, while requests wait.
    BusyBetweenRequests,
}

/// What the supervisor must hear from the dispatcher, each once, but for samples of slow requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alarm {
    /// A thread still runs a request past its deadline, or what follows a response. [`Dispatcher::traced`] expects where it is.
    Late(Run),
    /// A thread runs a slow request, of which a sample is wanted. [`Dispatcher::traced`] expects where it is.
    Slow(Run),
    /// The worker stalls: it is to take nothing more; its other threads may finish.
    Stalled(WorkerId, Stall),
    /// Everything that the stalled worker still runs is late: it need not be waited for.
    OnlyLateWork(WorkerId),
    /// No sound worker wrote what was found in the generation's exchange. The dispatcher has replaced it; the generation's
    /// processes still have the old one and must end.
    Corrupt(u32, Corrupt),
}
