//! The end of a generation that nobody needs. Whether anybody does is the caller's decision, as far as requests go.

use tokio::time::Instant;

use crate::rules::fleet;
use crate::runtime::supervisor::Supervisor;

/// Ends the generation that serves, without another one: requests wait until the next launch. Returns false, and does
/// nothing, while a generation or a worker is on its way in or out, or a person debugs in a worker or waits for its profile
/// or backtraces.
pub fn stop_serving(supervisor: &Supervisor) -> bool {
    let shared = &supervisor.shared;
    if is_attended(supervisor) || !shared.inner.borrow().fleet.is_calm() {
        return false;
    }
    shared.decide(fleet::Event::StopServing);
    true
}

/// Whether a person debugs in a worker, or waits for the profile or the backtraces of one: then none is to end that need not.
pub fn is_attended(supervisor: &Supervisor) -> bool {
    let shared = &supervisor.shared;
    let (inner, now) = (shared.inner.borrow(), Instant::now());
    let mut workers = inner
        .processes
        .values()
        .flat_map(|one| &one.workers)
        .flatten();
    workers.any(|worker| worker.inspections.are_open(now)) || (shared.has_debugger)()
}
