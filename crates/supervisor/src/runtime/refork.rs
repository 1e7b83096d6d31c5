//! Re-forking: a worker that has served requests forks a new template, and the workers are replaced by ones that are forked
//! from that, and share what requests have made it load. The template before it stays until then, and takes its place again
//! should anything go wrong. It loads no code, and ends no worker otherwise than by replacing it.

use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::time::Duration;

use exchange::WorkerId;
use exchange::control::{FromTemplate, ToWorker};
use tokio::sync::Notify;
use tokio::task::spawn_local;
use tokio::time::{sleep, timeout};

use crate::note::TemplateNote;
use crate::rules::fleet::Fleet;
use crate::rules::limits::{Life, RetireReason};
use crate::rules::pool::Event;
use crate::rules::refork::{Origin, due_after};
use crate::runtime::channel::{Channel, open_pidfd};
use crate::runtime::limit_check::LimitCheck;
use crate::runtime::load::Load;
use crate::runtime::serving::ServingWorker;
use crate::runtime::shared::{Processes, Shared};
use crate::runtime::supervisor::Supervisor;
use crate::runtime::template_process::TemplateProcess;
use crate::runtime::template_task::install_template;

mod saving;

/// How long a worker may take to say whether it will fork a template.
const DONOR_ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

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
    let task = spawn_local(run(shared, limits));
    let stopped = || Err(ReforkError::Failed("the server is stopping".to_owned()));
    task.await.unwrap_or_else(|_| stopped())
}

/// Forks a new template whenever a worker of this generation has served enough requests for the next one, until it is gone.
pub(crate) async fn refork_when_due(shared: Rc<Shared>, limits: LimitCheck, generation: u32) {
    loop {
        sleep(REFORK_CHECK_INTERVAL).await;
        match is_due(&shared, generation) {
            Some(true) => drop(run(Rc::clone(&shared), limits.clone()).await),
            Some(false) => {}
            None => return,
        }
    }
}

/// Whether the next template is due; `None`: there will be none any more.
fn is_due(shared: &Shared, generation: u32) -> Option<bool> {
    let inner = shared.inner.borrow();
    let processes = inner.processes.get(&generation)?;
    let own = &processes.refork;
    let due = due_after(&processes.load.plan.refork, own.templates).filter(|_| !own.is_over)?;
    let finished = |one: &ServingWorker| {
        let own = one.life.generation == generation;
        own && shared.dispatcher.finished(id(one.life)) >= due
    };
    let is_free = !own.is_running && inner.fleet.is_calm();
    Some(is_free && inner.serving().iter().any(finished))
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

async fn run(shared: Rc<Shared>, limits: LimitCheck) -> Result<Reforked, ReforkError> {
    let own = Refork::begin(&shared)?;
    let result = match limits.has_room().await {
        true => own.proceed().await,
        false => Err(refused(
            "there is no memory for one worker more (memory_budget)",
        )),
    };
    own.change(|processes| {
        processes.refork.is_running = false;
        if !matches!(result, Ok(_) | Err(ReforkError::Busy)) {
            processes.refork.is_over = true;
        }
    });
    if let Err(error @ (ReforkError::Refused(_) | ReforkError::Failed(_))) = &result {
        let reason = error.to_string();
        own.shared
            .note(own.generation, TemplateNote::NotReforked { reason });
    }
    result
}

impl Refork {
    fn begin(shared: &Rc<Shared>) -> Result<Self, ReforkError> {
        let load = shared.serving_load.borrow().clone();
        let load = load.ok_or(ReforkError::Busy)?;
        if load.start.terminal.is_some() || load.start.error_page {
            return Err(refused("not in development, where code changes"));
        }
        if shared.launcher.get().is_some() {
            return Err(refused("not for an application with a user of its own"));
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
        let template = self.born(channel).await.map_err(ReforkError::Failed)?;
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

    /// Asks a worker to fork a template when it leaves. Returns the supervisor's end of that template's control socket.
    async fn ask(&self, donor: Life) -> Result<Channel, ReforkError> {
        let failed = |text: &str| ReforkError::Failed(format!("worker {} {text}", donor.worker));
        let pair = Channel::pair();
        let (channel, far) = pair.map_err(|error| ReforkError::Failed(error.to_string()))?;
        self.send(donor, far)
            .ok_or_else(|| failed("takes no messages"))?;
        let answer = timeout(DONOR_ANSWER_TIMEOUT, channel.receive()).await;
        match answer.map(|answer| answer.ok().flatten().map(|received| received.message)) {
            Ok(Some(FromTemplate::Donor { lost })) => {
                for sentence in lost {
                    self.shared
                        .note(self.generation, TemplateNote::Held(sentence));
                }
                Ok(channel)
            }
            Ok(Some(FromTemplate::BootFailed { message, .. })) => {
                Err(ReforkError::Refused(message))
            }
            Ok(_) => Err(failed("cannot fork a template")),
            Err(_) => Err(failed(&format!(
                "did not answer within {} s",
                DONOR_ANSWER_TIMEOUT.as_secs()
            ))),
        }
    }

    fn send(&self, donor: Life, far: OwnedFd) -> Option<()> {
        let mut inner = self.shared.inner.borrow_mut();
        let worker = inner.worker(id(donor))?.as_ref()?;
        worker
            .send_with(&ToWorker::Refork, far.as_fd())
            .then_some(())
    }

    /// The template that the worker forks when it leaves. It is killed should it not say in time that it can fork.
    async fn born(&self, channel: Channel) -> Result<TemplateProcess, String> {
        let channel = Rc::new(channel);
        let limit = self.patience();
        let born = timeout(limit, self.introduced(&channel)).await;
        born.unwrap_or_else(|_| Err(format!("no template was forked within {limit:?}")))
    }

    async fn introduced(&self, channel: &Rc<Channel>) -> Result<TemplateProcess, String> {
        // The first is said by the worker, the second by the template: in either order.
        let (mut process, mut has_booted) = (None, false);
        loop {
            let received = channel.receive().await;
            let received = received.map_err(|error| error.to_string())?;
            let received = received.ok_or("the worker or its template ended too early")?;
            match received.message {
                FromTemplate::Forked { pid, .. } => {
                    let pidfd = received.fds.into_iter().next();
                    let pidfd = pidfd.or_else(|| open_pidfd(pid));
                    let pidfd = pidfd.ok_or("the template ended at once")?;
                    let own = TemplateProcess::of_worker(pid, pidfd, Rc::clone(channel));
                    process = Some(own.map_err(|error| error.to_string())?);
                }
                FromTemplate::Booted { .. } => has_booted = true,
                FromTemplate::BootFailed { message, .. } => return Err(message),
                FromTemplate::Counts { batch } => {
                    self.shared.counts.pass_on(self.generation, None, &batch);
                }
                other => return Err(format!("no template sends {other:?}")),
            }
            if let Some(process) = process.take_if(|_| has_booted) {
                return Ok(process);
            }
        }
    }

    /// Replaces the workers that come from another template, one after the other. The error says why not.
    async fn replace_workers(&self, new: &Rc<Notify>) -> Result<(), String> {
        let serving = self.shared.inner.borrow().serving();
        for ServingWorker { life, .. } in serving {
            self.settle(new).await?;
            if self.is_calm(life) {
                self.retire(life, RetireReason::Reforked);
            }
        }
        self.settle(new).await
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
