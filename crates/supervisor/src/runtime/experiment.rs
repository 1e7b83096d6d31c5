//! An experiment: a generation with another setting beside the one that serves, with half of its workers, until it is ended or
//! fails. How it comes and goes is that of a rollout worker by worker (`rules/fleet/rollout.rs`). It compares nothing.

use std::rc::Rc;
use std::time::Duration;

use tokio::time::timeout;

use crate::rules::fleet::{self, Fleet, Rules};
use crate::rules::limits::RetireReason;
use crate::rules::pool::Event;
use crate::runtime::load::{Booted, Load, StartError};
use crate::runtime::serving::ServingWorker;
use crate::runtime::supervisor::Supervisor;

/// The least number of workers that has two halves.
const LEAST_WORKERS: u16 = 2;

/// Why an experiment cannot begin. Written for operators.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    /// Something else is on its way.
    #[error("generations or workers are starting or leaving; try again when they have")]
    Busy,
    /// There are no two halves.
    #[error("an experiment needs at least two workers, and there is {0}")]
    TooFewWorkers(u16),
    /// There is no memory for what runs beside.
    #[error("there is no memory for one worker more (memory_budget)")]
    NoMemory,
    /// A fresh worker does not come, or a restart or the end came between.
    #[error("the workers were not replaced by fresh ones within {0:?}")]
    NotRenewed(Duration),
    /// The code may be another one by now.
    #[error(
        "the application's folder is {new} by now, and the workers run what was in {old}: restart first"
    )]
    OtherFolder {
        /// What the generation that serves was loaded from.
        old: String,
        /// What the other one would be loaded from.
        new: String,
    },
    /// Its generation does not serve.
    #[error(transparent)]
    Start(#[from] StartError),
}

/// Replaces all workers by fresh ones, one after the other, so that those of both halves will be of one age. Needs a
/// `LocalRuntime`.
///
/// # Errors
/// Why an experiment cannot begin. Some workers may have been replaced.
pub async fn renew_workers(supervisor: &Supervisor) -> Result<(), ExperimentError> {
    let shared = &supervisor.shared;
    let load = shared.serving_load.borrow().clone();
    let load = load.ok_or(ExperimentError::Busy)?;
    let serving = {
        let inner = shared.inner.borrow();
        let serving = inner.serving();
        let calm = inner.fleet.is_calm() && !(shared.has_debugger)();
        let alone = inner.only_generation(&serving).filter(|_| calm);
        alone.ok_or(ExperimentError::Busy)?;
        serving
    };
    let count = u16::try_from(serving.len()).unwrap_or(u16::MAX);
    if count < LEAST_WORKERS {
        return Err(ExperimentError::TooFewWorkers(count));
    }
    if !supervisor.limits.has_room().await {
        return Err(ExperimentError::NoMemory);
    }
    // A fresh worker starts, and the one before it finishes its requests.
    let limit = load.plan.boot_timeout + load.plan.drain_timeout;
    for ServingWorker { life, .. } in serving {
        calm(supervisor, limit).await?;
        let inner = shared.inner.borrow();
        let own = inner.fleet.generations().get(life.generation);
        let lives = own.is_some_and(|own| own.pool.workers().life(life.worker) == life.life);
        let grace = inner.fleet.drain_timeout(life.generation);
        drop(inner);
        if lives {
            let (worker, why) = (life.worker, RetireReason::Experiment);
            let event = Event::Retire { worker, why, grace };
            shared.handle(life.generation, event);
        }
    }
    calm(supervisor, limit).await
}

/// Waits until all workers serve and none comes or goes.
async fn calm(supervisor: &Supervisor, limit: Duration) -> Result<(), ExperimentError> {
    let calm = timeout(limit, supervisor.shared.until(Fleet::is_calm));
    calm.await.map_err(|_| ExperimentError::NotRenewed(limit))
}

/// Starts a generation with half of the workers beside the one that serves, which has as many fewer then. Returns when both have
/// theirs. It stays until [`end_experiment`], or until it fails, and never takes over. Needs a `LocalRuntime`.
///
/// # Errors
/// Why it does not serve; the other generation serves on, with all workers.
pub async fn launch_beside(supervisor: &Supervisor, load: Load) -> Result<Booted, ExperimentError> {
    let serving = supervisor.shared.serving_load.borrow().clone();
    let old = &serving.ok_or(ExperimentError::Busy)?.start.app;
    if *old != load.start.app {
        return Err(ExperimentError::OtherFolder {
            old: old.clone(),
            new: load.start.app,
        });
    }
    let workers = supervisor.shared.inner.borrow().serving().len();
    let half = u16::try_from(workers / 2).unwrap_or(u16::MAX);
    if half == 0 {
        return Err(ExperimentError::Busy);
    }
    let plan = &load.plan;
    let rules = Rules {
        places: plan.most_workers,
        workers: half,
        boot_timeout: plan.boot_timeout,
        drain_timeout: plan.drain_timeout,
        worker_by_worker: true,
        check: plan.check.is_some(),
        experiment: true,
    };
    let verdict = supervisor.enlist(load, rules)?;
    // Without a verdict everything is being torn down.
    Ok(verdict.await.unwrap_or(Err(StartError::CalledOff))?)
}

/// Whether an experiment goes on.
pub fn is_experimenting(supervisor: &Supervisor) -> bool {
    supervisor
        .shared
        .inner
        .borrow()
        .fleet
        .experiment()
        .is_some()
}

/// Ends the experiment, if there is one: the other generation gets its workers back one by one. Returns at once.
pub fn end_experiment(supervisor: &Supervisor) {
    supervisor.shared.decide(fleet::Event::EndExperiment);
}

/// Waits until the experiment with this generation is over. Returns why, if the supervisor knows.
pub async fn experiment_over(supervisor: &Supervisor, generation: u32) -> Option<String> {
    let shared = Rc::clone(&supervisor.shared);
    shared
        .until(|fleet| fleet.experiment() != Some(generation))
        .await;
    let given_up = shared.given_up.borrow();
    let own = given_up
        .as_ref()
        .filter(|(number, _)| *number == generation);
    own.map(|(_, reason)| reason.clone())
}

/// Waits until all workers are again those of the generation that served before an experiment, for as long as they may take to
/// leave and to start. What does not come back then is on its way, or another change has begun.
pub async fn workers_are_back(supervisor: &Supervisor) {
    let shared = &supervisor.shared;
    let load = shared.serving_load.borrow().clone();
    let limit = load.map(|load| load.plan.boot_timeout + load.plan.drain_timeout);
    let back = shared.until(Fleet::is_calm);
    // The next change says what keeps it waiting.
    let _ = timeout(limit.unwrap_or_default(), back).await;
}
