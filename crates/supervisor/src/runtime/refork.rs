//! Re-forking: a worker that has served requests forks a new template, and the workers are replaced by ones that are forked
//! from that, and share what requests have made it load. The template before it stays until then, and takes its place again
//! should anything go wrong. It loads no code, and ends no worker otherwise than by replacing it.

use std::rc::Rc;
use std::time::Duration;

use exchange::WorkerId;
use tokio::sync::Notify;
use tokio::task::spawn_local;
use tokio::time::timeout;

use crate::note::TemplateNote;
use crate::rules::fleet::Fleet;
use crate::rules::limits::{Life, RetireReason};
use crate::rules::pool::Event;
use crate::rules::refork::Origin;
use crate::runtime::limit_check::LimitCheck;
use crate::runtime::load::Load;
use crate::runtime::serving::ServingWorker;
use crate::runtime::shared::{Processes, Shared};
use crate::runtime::supervisor::Supervisor;
use crate::runtime::template_task::install_template;

mod donor;
pub(crate) mod due;
mod saving;

/// Between two looks how many requests were served: for the next template, and to compare what the last one has saved.
const REFORK_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// A template that a worker has forked, and that all workers come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reforked {
    /// Its process.
    pub pid: i32,
    /// Where it comes from.
    pub origin: Origin,
}

/// Why all is as it was before. Written for operators.
#[derive(Debug, thiserror::Error)]
pub enum ReforkError {
    /// It cannot begin now.
    #[error("generations or workers are starting or leaving; try again when they have")]
    Busy,
    /// It is not done here.
    #[error("{0}")]
    Refused(String),
    /// It was given up.
    #[error("{0}")]
    Failed(String),
}

/// Has the worker with the most requests fork a new template, and replaces the workers by ones that are forked from it.
/// Returns when that is done; it goes on where the caller stops waiting. Needs a `LocalRuntime`.
///
/// # Errors
/// Why nothing has changed.
pub async fn refork(supervisor: &Supervisor) -> Result<Reforked, ReforkError> {
    let (shared, limits) = (Rc::clone(&supervisor.shared), supervisor.limits.clone());
    let task = spawn_local(run(shared, limits, false));
    let stopped = || Err(ReforkError::Failed("the server is stopping".to_owned()));
    task.await.unwrap_or_else(|_| stopped())
}

/// A new template on its way.
struct Refork {
    shared: Rc<Shared>,
    generation: u32,
    load: Rc<Load>,
    /// What tells the template apart that is there at the beginning.
    old: Rc<Notify>,
    /// The workers that serve then.
    serving: Vec<ServingWorker>,
}

/// Tries it once. Where it is tried `by_itself`, because the setting wants it, a failure is the end of that.
async fn run(
    shared: Rc<Shared>,
    limits: LimitCheck,
    by_itself: bool,
) -> Result<Reforked, ReforkError> {
    let own = Refork::begin(&shared)?;
    let result = match limits.has_room().await {
        true => own.proceed().await,
        false => Err(refused(
            "there is no memory for one worker more (memory_budget)",
        )),
    };
    let reason = match &result {
        Err(error @ (ReforkError::Refused(_) | ReforkError::Failed(_))) => Some(error.to_string()),
        Ok(_) | Err(ReforkError::Busy) => None,
    };
    own.change(|processes| {
        processes.refork.is_running = false;
        match &reason {
            Some(reason) if by_itself => processes.refork.stop(reason),
            Some(_) => {}
            None if result.is_ok() => processes.refork.resume(),
            None => {}
        }
    });
    if let Some(reason) = reason {
        let note = TemplateNote::NotReforked {
            reason,
            is_last: by_itself,
        };
        own.shared.note(own.generation, note);
    }
    result
}

/// Why it is not done with what is loaded so, if it is not.
fn unfit(shared: &Shared, load: &Load) -> Option<&'static str> {
    if load.start.terminal.is_some() || load.start.error_page {
        return Some("not in development, where code changes");
    }
    let has_user = shared.launcher.get().is_some();
    has_user.then_some("not for an application with a user of its own")
}

impl Refork {
    fn begin(shared: &Rc<Shared>) -> Result<Self, ReforkError> {
        let load = shared.serving_load.borrow().clone();
        let load = load.ok_or(ReforkError::Busy)?;
        if let Some(reason) = unfit(shared, &load) {
            return Err(refused(reason));
        }
        let is_debugged = (shared.has_debugger)();
        let mut inner = shared.inner.borrow_mut();
        let serving = inner.serving();
        let generation = inner.only_generation(&serving);
        let calm = !is_debugged && inner.fleet.is_calm();
        let generation = generation.filter(|_| calm).ok_or(ReforkError::Busy)?;
        let processes = inner.processes.get_mut(&generation);
        let processes = processes.filter(|own| !own.refork.is_running && own.older.is_none());
        let processes = processes.ok_or(ReforkError::Busy)?;
        let template = processes.template.as_ref().ok_or(ReforkError::Busy)?;
        let old = Rc::clone(&template.kill);
        processes.refork.is_running = true;
        Ok(Self {
            shared: Rc::clone(shared),
            generation,
            load,
            old,
            serving,
        })
    }

    async fn proceed(&self) -> Result<Reforked, ReforkError> {
        let finished = |life: Life| self.shared.dispatcher.finished(id(life));
        let (served, before) = (self.served(&self.serving), self.memory().await);
        let lives = self.serving.iter().map(|one| one.life);
        let donor = lives.max_by_key(|life| finished(*life));
        let donor = donor.filter(|life| finished(*life) > 0);
        let donor = donor.ok_or_else(|| refused("no worker has finished a request"))?;
        let channel = self.ask(donor).await?;
        let origin = Origin {
            worker: donor.worker,
            requests: finished(donor),
        };
        let why = RetireReason::Refork {
            finished: origin.requests,
        };
        if !self.is_calm(donor) {
            return Err(ReforkError::Busy);
        }
        self.retire(donor, why);
        let template = self.born(channel, donor).await?;
        let pid = template.pid();
        self.settle(&self.old).await.map_err(ReforkError::Failed)?;
        let (shared, generation) = (&self.shared, self.generation);
        let new = install_template(shared, generation, template, origin);
        let new = new.ok_or(ReforkError::Busy)?;
        self.change(|processes| processes.refork.templates += 1);
        let Origin { worker, requests } = origin;
        let note = TemplateNote::Reforked {
            pid,
            worker,
            requests,
        };
        self.shared.note(self.generation, note);
        if let Err(reason) = self.replace_workers(&new).await {
            // The template before it takes its place.
            new.notify_one();
            return Err(ReforkError::Failed(reason));
        }
        self.change(Processes::dismiss_older);
        self.shared
            .note(self.generation, TemplateNote::Proven { pid });
        self.measure_later(new, served, before);
        Ok(Reforked { pid, origin })
    }

    /// Replaces the workers that come from another template, one after the other. The error says why not.
    async fn replace_workers(&self, new: &Rc<Notify>) -> Result<(), String> {
        let others = self.shared.inner.borrow().serving();
        loop {
            self.settle(new).await?;
            let serving = self.shared.inner.borrow().serving();
            let mut lives = serving.iter().map(|one| one.life);
            // One whose replacement a change of the number of workers has called off is here again.
            let Some(next) = lives.find(|life| others.iter().any(|one| one.life == *life)) else {
                return Ok(());
            };
            self.retire(next, RetireReason::Reforked);
            if self.shared.inner.borrow().fleet.is_calm() {
                return Err(format!("worker {} cannot be replaced", next.worker));
            }
        }
    }

    fn retire(&self, life: Life, why: RetireReason) {
        let worker = life.worker;
        let grace = self
            .shared
            .inner
            .borrow()
            .fleet
            .drain_timeout(self.generation);
        let event = Event::Retire { worker, why, grace };
        self.shared.handle(self.generation, event);
    }

    /// Whether this life of a worker goes on, and nothing comes or goes.
    fn is_calm(&self, life: Life) -> bool {
        let inner = self.shared.inner.borrow();
        let own = inner.fleet.generations().get(self.generation);
        let lives = own.is_some_and(|own| own.pool.workers().life(life.worker) == life.life);
        lives && inner.fleet.is_calm()
    }

    /// How long a worker may take that leaves and whose successor comes.
    fn patience(&self) -> Duration {
        let rules = self.shared.inner.borrow().fleet.rules(self.generation);
        let plan = &self.load.plan;
        let (boot, drain) = rules.map_or((plan.boot_timeout, plan.drain_timeout), |rules| {
            (rules.boot_timeout, rules.drain_timeout)
        });
        // Its successor starts, it finishes its requests, and it forks.
        boot + drain + boot
    }

    /// Waits until every worker serves and none comes or goes. The error says what came between.
    async fn settle(&self, template: &Rc<Notify>) -> Result<(), String> {
        let limit = self.patience();
        let known = self
            .shared
            .until(|fleet| self.standing(template, fleet).is_some());
        let known = timeout(limit, known).await;
        known.map_err(|_| format!("the workers did not serve within {limit:?}"))?;
        let standing = self.standing(template, &self.shared.inner.borrow().fleet);
        standing.unwrap_or(Ok(())).map_err(str::to_owned)
    }

    /// Whether all is well so far; `None`: that is not known yet.
    fn standing(&self, template: &Rc<Notify>, fleet: &Fleet) -> Option<Result<(), &'static str>> {
        let own = fleet.generations().get(self.generation);
        let Some(own) = own.filter(|own| !own.pool.stopping() && fleet.is_settled()) else {
            return Some(Err("a restart or the end came between"));
        };
        if !self.is_in_place(template) {
            return Some(Err("its template ended"));
        }
        if own.pool.workers().hopeless().is_some() {
            return Some(Err(
                "workers that were forked ended at once, again and again",
            ));
        }
        own.pool.is_whole().then_some(Ok(()))
    }

    /// Whether this template is the one that forks.
    fn is_in_place(&self, template: &Rc<Notify>) -> bool {
        let inner = self.shared.inner.borrow();
        let processes = inner.processes.get(&self.generation);
        let own = processes.and_then(|processes| processes.template.as_ref());
        own.is_some_and(|own| Rc::ptr_eq(&own.kill, template))
    }

    fn change(&self, change: impl FnOnce(&mut Processes)) {
        let mut inner = self.shared.inner.borrow_mut();
        inner.processes.get_mut(&self.generation).map(change);
    }
}

fn id(life: Life) -> WorkerId {
    WorkerId::new(life.generation, life.worker)
}

fn refused(text: &str) -> ReforkError {
    ReforkError::Refused(text.to_owned())
}
