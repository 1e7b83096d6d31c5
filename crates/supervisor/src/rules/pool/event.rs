//! What goes into the pool (events) and what comes out of it (actions).

use std::time::{Duration, Instant};

use crate::rules::limits::RetireReason;
use exchange::Stall;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The template has loaded the application and can fork.
    Booted,
    /// The template ended, or could not be started.
    TemplateDied,
    /// The template ended, and another one that can fork has taken its place.
    FellBack,
    /// The template forked the worker that [`Action::Fork`] asked for.
    Forked { worker: u16 },
    /// The threads of this life of the worker serve requests.
    Ready { worker: u16, life: u32 },
    /// This life of the worker ended; `served` says whether it ever came to the end of a request.
    Died {
        worker: u16,
        life: u32,
        served: bool,
    },
    /// The worker stalls: it leaves, killed at `until`, and is replaced. Comes again with an earlier `until` where nothing
    /// is left that is worth waiting for.
    Stalled {
        worker: u16,
        stall: Stall,
        until: Instant,
    },
    /// There is memory for a successor in addition to a stalled worker: it is forked before that one's death. Nothing happens where
    /// the spare number is taken: the successor comes after the death.
    StartSuccessor { worker: u16 },
    /// The time of a worker that leaves is up, or soon will be, but requests that it runs are unexpired until then: it has
    /// until then.
    Prolong { worker: u16, until: Instant },
    /// The worker is to go, and its successor is to be ready before it does; it has `grace` to finish what it holds.
    /// Nothing happens where the pool is not whole: ask again.
    Retire {
        worker: u16,
        why: RetireReason,
        grace: Duration,
    },
    /// The worker leaves, killed at `until`, and only when it is gone another one comes. Nothing happens where the pool is
    /// not whole.
    ReplaceAfterExit { worker: u16, until: Instant },
    /// There shall be this many workers: others are forked, or finish what they hold, killed at `until`; first of all
    /// the one that `leaves`.
    Resize {
        limit: u16,
        leaves: Option<u16>,
        until: Instant,
    },
    /// A worker wrote into the exchange what no sound worker writes: every process that has it is killed, and others come
    /// with a fresh one.
    Corrupt,
    /// Stop for good: workers finish what they hold, killed at `until`.
    Stop { until: Option<Instant> },
    /// Stop for good, at once.
    Kill,
    /// A moment of [`super::Pool::next`] came.
    Tick,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Start a template.
    SpawnTemplate,
    /// Kill the template.
    KillTemplate,
    /// Tell the template to leave: every worker is gone.
    DismissTemplate,
    /// Have the template fork this life of a worker.
    Fork { worker: u16, life: u32 },
    /// Close the control socket of a worker that no template will ever name, so that it leaves if it exists.
    Abandon { worker: u16 },
    /// Kill a worker, now or as soon as its process is known.
    Kill { worker: u16 },
    /// Let the dispatcher use the worker.
    Up { worker: u16 },
    /// Let the dispatcher take back what the worker held: its process is gone.
    Reclaim { worker: u16 },
    /// Let the worker's threads finish and leave.
    StopWorker { worker: u16 },
    /// Worth a line in the log: the worker is to go, `successor` is forked first.
    Retiring {
        worker: u16,
        successor: u16,
        why: RetireReason,
    },
    /// Worth a line in the log: the worker leaves because it stalls.
    Stalled { worker: u16, stall: Stall },
    /// Worth a line in the log: `successor` is forked while the stalled worker is still there.
    SuccessorStarted { worker: u16, successor: u16 },
    /// Worth a line in the log: the worker keeps dying without having been of use, its next fork waits.
    Delayed {
        worker: u16,
        deaths: u32,
        delay: Duration,
    },
}
