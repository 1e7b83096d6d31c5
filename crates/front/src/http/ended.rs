//! All that is known of a request that has ended. It tells nobody: `log_request` in `access_log.rs` does.

use std::time::Duration;

use exchange::WorkerId;
use exchange::measures::Measures;
use exchange::scheduling::monotonic_ns;
use http::StatusCode;

use crate::failure::Outcome;
use crate::http::transaction::Transaction;

/// What was sent of a response; none of anything where there was none.
#[derive(Clone, Copy, Default)]
pub struct Sent {
    /// Its status.
    pub status: Option<StatusCode>,
    /// Bytes of its body.
    pub bytes: u64,
    /// How the body was compressed, if it was.
    pub encoding: Option<&'static str>,
    /// When the last of it was handed over, on the clock of [`monotonic_ns`]; 0: now.
    pub at_ns: u64,
}

/// A request that has ended.
pub struct Ended<'a> {
    /// The request and its response.
    pub transaction: &'a Transaction,
    /// What was sent.
    pub sent: Sent,
    /// How it ended.
    pub outcome: Outcome,
    /// The worker that ran it, or ran it last.
    pub worker: Option<WorkerId>,
    /// From its whole arrival to now; none where it did not arrive whole.
    pub whole: Option<Duration>,
    /// From its whole arrival to the start of the application.
    pub queue: Option<Duration>,
    /// From the start of the application to its last byte.
    pub app: Option<Duration>,
    /// What it cost its worker; none where nothing ran it, or where it was not measured.
    pub measures: Option<Measures<'a>>,
}

impl<'a> Ended<'a> {
    /// Returns what is known now of a request that has its outcome. `measures` is the payload of [`exchange::measures`].
    pub(super) fn new(
        transaction: &'a Transaction,
        sent: Sent,
        outcome: Outcome,
        measures: &'a [u8],
    ) -> Self {
        let (worker, times) = transaction.response.run();
        let now = match sent.at_ns {
            0 => monotonic_ns(),
            at => at,
        };
        let since = |from: u64, to: u64| Duration::from_nanos(to.saturating_sub(from));
        let arrived = transaction.request.arrived_ns();
        let claimed = Some(times.claimed_ns).filter(|&at| at != 0);
        let finished = match times.finished_ns {
            0 => now,
            finished => finished,
        };
        let queue = claimed.zip(arrived);
        Self {
            transaction,
            sent,
            outcome,
            worker,
            whole: arrived.map(|arrived| since(arrived, now)),
            queue: queue.map(|(claimed, arrived)| since(arrived, claimed)),
            app: claimed.map(|claimed| since(claimed, finished)),
            measures: Measures::parse(measures),
        }
    }
}
