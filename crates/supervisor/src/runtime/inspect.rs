//! Asks a worker how it is, for an operator. It reads no answer and changes nothing.

use exchange::WorkerId;
use exchange::control::Inspect;
use tokio::time::{Instant, timeout_at};

use crate::runtime::inspections::{Answer, InspectError, time_for};
use crate::runtime::supervisor::Supervisor;

/// Asks a worker and waits for its answer, which may be any text: the worker runs other people's code.
///
/// # Errors
/// [`InspectError`]
pub async fn inspect(supervisor: &Supervisor, worker: WorkerId, what: Inspect) -> Answer {
    let now = Instant::now();
    let answer = {
        let mut inner = supervisor.shared.inner.borrow_mut();
        let Some(Some(process)) = inner.worker(worker) else {
            return Err(InspectError::NoWorker);
        };
        let (message, answer) = process.inspections.begin(what, now)?;
        if !process.send(&message) {
            process.inspections.cancel();
            return Err(InspectError::Full);
        }
        answer
    };
    match timeout_at(now + time_for(what), answer).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(_)) => Err(InspectError::Ended),
        Err(_) => Err(InspectError::Silent),
    }
}
