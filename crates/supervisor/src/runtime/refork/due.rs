//! Re-forking by itself, by the setting `refork`: looks how many requests the workers have served, and forks a template when the
//! next one is due. It ends at the first failure, which the status then has.

use std::rc::Rc;

use tokio::time::sleep;

use super::{REFORK_CHECK_INTERVAL, id, run, unfit};
use crate::rules::refork::due_after;
use crate::runtime::limit_check::LimitCheck;
use crate::runtime::serving::ServingWorker;
use crate::runtime::shared::Shared;

/// Forks a new template whenever a worker of this generation has served enough requests for the next one, until it is gone.
pub(crate) async fn refork_when_due(shared: Rc<Shared>, limits: LimitCheck, generation: u32) {
    if stop_where_unfit(&shared, generation) {
        return;
    }
    loop {
        sleep(REFORK_CHECK_INTERVAL).await;
        match is_due(&shared, generation) {
            Some(true) => drop(run(Rc::clone(&shared), limits.clone(), true).await),
            Some(false) => {}
            None => return,
        }
    }
}

/// Has the status say where no template can ever be forked from a worker of this generation. Returns whether that is so.
fn stop_where_unfit(shared: &Shared, generation: u32) -> bool {
    let mut inner = shared.inner.borrow_mut();
    let processes = inner.processes.get_mut(&generation);
    let Some(processes) = processes else {
        return true;
    };
    let reason = unfit(shared, &processes.load);
    if let Some(reason) = reason {
        processes.refork.stop(reason);
    }
    reason.is_some()
}

/// Whether the next template is due; `None`: there will be none any more.
fn is_due(shared: &Shared, generation: u32) -> Option<bool> {
    let inner = shared.inner.borrow();
    let processes = inner.processes.get(&generation)?;
    let own = &processes.refork;
    let due = due_after(&processes.load.plan.refork, own.templates)?;
    let finished = |one: &ServingWorker| {
        let own = one.life.generation == generation;
        own && shared.dispatcher.finished(id(one.life)) >= due
    };
    let is_free = !own.is_running && own.stopped().is_none() && inner.fleet.is_calm();
    Some(is_free && inner.serving().iter().any(finished))
}
