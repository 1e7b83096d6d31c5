//! The number of workers in place: more are forked from the template that is there, and those that are too many finish what
//! they have. It restarts no worker, and loads no code.

use std::time::Duration;

use tokio::time::timeout;

use crate::rules::fleet::{self, Fleet, Stage};
use crate::rules::scale::Scale;
use crate::runtime::supervisor::Supervisor;

/// How many workers there are and shall be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkerCount {
    /// As many as are wanted: by an operator, by load, or by the settings.
    pub wanted: u16,
    /// As many as memory allows of them.
    pub allowed: u16,
    /// As many as serve.
    pub ready: u16,
}

/// Why the number of workers cannot change now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a generation of workers is starting or draining; try again when it is done")]
pub struct ScaleBusy;

/// Sets how many workers there shall be. It holds for generations to come too. Nothing happens now.
pub fn set_scale(supervisor: &Supervisor, scale: Scale) {
    let shared = &supervisor.shared;
    let before = shared.scale.replace(scale);
    let load = shared.serving_load.borrow().clone();
    if let Some(load) = load {
        let (before, wanted) = (load.plan.wanted(before), load.plan.wanted(scale));
        shared.budget.borrow_mut().scale(before, wanted);
    }
}

/// How many workers there shall be, if that is not what the settings say.
pub fn scale_of(supervisor: &Supervisor) -> Scale {
    supervisor.shared.scale.get()
}

/// Whether all workers serve that there shall be, and nothing is on its way, neither a generation nor a worker.
pub fn is_calm(supervisor: &Supervisor) -> bool {
    supervisor.shared.inner.borrow().fleet.is_calm()
}

/// Sets how many workers there shall be, and waits until as many serve as memory allows, for at most `limit`. Workers that are
/// too many are not waited for. Without a generation that serves, the next one starts with that number.
///
/// # Errors
/// A generation is on its way in or out: nothing has changed.
pub async fn scale(
    supervisor: &Supervisor,
    to: Scale,
    limit: Duration,
) -> Result<WorkerCount, ScaleBusy> {
    let shared = &supervisor.shared;
    let (settled, serving) = {
        let inner = shared.inner.borrow();
        let fleet = &inner.fleet;
        (fleet.is_settled(), serving(fleet))
    };
    let load = shared.serving_load.borrow().clone();
    let Some((number, load)) = serving.zip(load) else {
        set_scale(supervisor, to);
        return Ok(worker_count(supervisor));
    };
    if !settled {
        return Err(ScaleBusy);
    }
    set_scale(supervisor, to);
    let allowed = supervisor.limits.affordable(&load.plan);
    let leaves = None;
    shared.dispatcher.resize(number, allowed);
    shared.decide(fleet::Event::Resize {
        workers: allowed,
        leaves,
    });
    let are_ready = |fleet: &Fleet| {
        let all = fleet.generations();
        let own = all.get(number).filter(|one| one.stage == Stage::Serving);
        own.is_none_or(|own| own.pool.workers().ready() >= own.pool.workers().limit())
    };
    // The caller compares what is ready with what is wanted.
    let _ = timeout(limit, shared.until(are_ready)).await;
    Ok(worker_count(supervisor))
}

/// How many workers there are and shall be, of the generation that serves.
pub fn worker_count(supervisor: &Supervisor) -> WorkerCount {
    let shared = &supervisor.shared;
    let load = shared.serving_load.borrow().clone();
    let Some(load) = load else {
        return WorkerCount::default();
    };
    let inner = shared.inner.borrow();
    let number = serving(&inner.fleet);
    let own = number.and_then(|number| inner.fleet.generations().get(number));
    WorkerCount {
        wanted: load.plan.wanted(shared.scale.get()),
        allowed: supervisor.limits.affordable(&load.plan),
        ready: own.map_or(0, |own| own.pool.workers().ready()),
    }
}

/// The generation that serves.
fn serving(fleet: &Fleet) -> Option<u32> {
    let mut all = fleet.generations().iter();
    let serving = all.find(|one| one.stage == Stage::Serving);
    serving.map(|one| one.number)
}
