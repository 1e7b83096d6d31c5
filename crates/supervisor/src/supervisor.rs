//! The supervisor itself: carries the pool's decisions out, and brings what happens back to it. Decides
//! nothing; the tasks that wait for processes are in `watch.rs`.

use std::cell::RefCell;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use exchange::control::ToTemplate;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::task::{JoinHandle, spawn_local};
use tokio::time::{Instant, sleep_until, timeout};

use crate::channel::Channel;
use crate::children::Child;
use crate::pool::{Action, Event, Pool, State};
use crate::process::{Process, Role, epoch_seconds};
use crate::template::{BootError, Booted, Plan, Template};
use crate::{Dispatcher, Note};

/// How long the template may take to leave, and the kernel to end what was killed.
const LEAVE: Duration = Duration::from_secs(2);

/// Why the server did not come up.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The application was not loaded.
    #[error(transparent)]
    Boot(#[from] BootError),
    /// Workers were forked but none of one number's became ready.
    #[error(
        "worker {worker} ended {deaths} times before it was ready; the reason is in the log above"
    )]
    Worker {
        /// The worker, from 0.
        worker: u16,
        /// How often.
        deaths: u32,
    },
    /// Workers took too long, for example in an after_fork hook.
    #[error("the workers were not ready within {0:?} (setting `boot_timeout`)")]
    Timeout(Duration),
}

/// The processes of one generation. Dropping it kills them.
pub struct Supervisor {
    shared: Rc<Shared>,
    clock: RefCell<Option<JoinHandle<()>>>,
    since: SystemTime,
}

/// What the tasks share.
pub(crate) struct Shared {
    pub(crate) plan: Plan,
    pub(crate) dispatcher: Rc<dyn Dispatcher>,
    pub(crate) inner: RefCell<Inner>,
    /// Told after each event.
    changed: watch::Sender<()>,
}

/// Never borrowed while the dispatcher is called.
pub(crate) struct Inner {
    pub(crate) pool: Pool,
    pub(crate) children: Vec<Option<Child>>,
    pub(crate) template: Option<TemplateHandle>,
}

/// The template as far as others than its own task know it.
pub(crate) struct TemplateHandle {
    /// Absent while it is being started.
    pub(crate) pid: Option<i32>,
    pub(crate) started: SystemTime,
    pub(crate) kill: Rc<Notify>,
    pub(crate) outbox: mpsc::UnboundedSender<(ToTemplate, Option<OwnedFd>)>,
    pub(crate) task: Option<JoinHandle<()>>,
}

impl Supervisor {
    /// A supervisor that has started nothing yet.
    pub fn new(plan: Plan, dispatcher: Rc<dyn Dispatcher>) -> Self {
        let pool = Pool::new(plan.workers, plan.boot_timeout);
        let children = (0..plan.workers).map(|_| None).collect();
        let inner = Inner {
            pool,
            children,
            template: None,
        };
        let shared = Shared {
            plan,
            dispatcher,
            inner: RefCell::new(inner),
            changed: watch::Sender::new(()),
        };
        Self {
            shared: Rc::new(shared),
            clock: RefCell::new(None),
            since: SystemTime::now(),
        }
    }

    /// Boots the template, forks the workers and waits until all of them are ready. Needs a `LocalRuntime`.
    ///
    /// # Errors
    /// Why the server cannot serve; drop the supervisor then, or the future itself to call it off.
    pub async fn start(&self) -> Result<Booted, StartError> {
        let shared = &self.shared;
        let plan = &shared.plan;
        let mut template = Template::spawn(plan)?;
        let booted = template.boot(plan).await?;
        shared.announce(&booted);
        Rc::clone(shared).adopt(template);
        *self.clock.borrow_mut() = Some(spawn_local(Rc::clone(shared).keep_time()));
        let settled = shared.until(|pool| pool.all_ready() || pool.hopeless().is_some());
        timeout(plan.boot_timeout, settled)
            .await
            .map_err(|_| StartError::Timeout(plan.boot_timeout))?;
        match shared.inner.borrow().pool.hopeless() {
            Some((worker, deaths)) => Err(StartError::Worker { worker, deaths }),
            None => Ok(booted),
        }
    }

    /// Has the workers finish what they hold and leave, kills what is left after `grace` (at once where it is
    /// zero), and ends the template. May be called again with a shorter grace when the first call is dropped.
    pub async fn stop(&self, grace: Duration) {
        let shared = &self.shared;
        if self.clock.borrow().is_none() {
            // The application was never loaded: nothing was started that still runs.
            return;
        }
        if !grace.is_zero() {
            shared.handle(Event::Stop);
            if timeout(grace, shared.until(Pool::no_workers))
                .await
                .is_err()
            {
                shared.dispatcher.note(&Note::Killed { grace });
            } else if timeout(LEAVE, shared.until(Pool::finished)).await.is_ok() {
                return;
            }
        }
        shared.handle(Event::Kill);
        // A process in an uninterruptible sleep is the kernel's to end.
        let _ = timeout(LEAVE, shared.until(Pool::finished)).await;
    }

    /// Kills a worker; it is replaced like any other that died.
    pub fn kill_worker(&self, worker: u16) {
        self.shared.kill_worker(worker);
    }

    /// Every process of the server: the front, the template, the workers.
    pub fn processes(&self) -> Vec<Process> {
        let inner = self.shared.inner.borrow();
        let generation = Some(self.shared.plan.start.generation);
        let row = |pid: i32, role, worker, generation, state: &str, started| Process {
            pid,
            role,
            worker,
            generation,
            state: state.to_owned(),
            started: epoch_seconds(started),
        };
        let own = rustix::process::getpid().as_raw_nonzero().get();
        let mut rows = vec![row(own, Role::Front, None, None, "ready", self.since)];
        if let Some(template) = &inner.template
            && let Some(pid) = template.pid
        {
            let state = match inner.pool.template_up() {
                true => "ready",
                false => "booting",
            };
            let (role, started) = (Role::Template, template.started);
            rows.push(row(pid, role, None, generation, state, started));
        }
        for (number, child) in (0..).zip(&inner.children) {
            if let Some(child) = child
                && let Some(pid) = child.pid
            {
                let state = match inner.pool.state(number) {
                    State::Ready { .. } => "ready",
                    State::Stopping { .. } | State::Gone => "stopping",
                    _ => "starting",
                };
                let (role, worker) = (Role::Worker, Some(number));
                rows.push(row(pid, role, worker, generation, state, child.started));
            }
        }
        rows
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        if let Some(clock) = self.clock.borrow_mut().take() {
            clock.abort();
        }
        let mut inner = self.shared.inner.borrow_mut();
        inner.children.clear();
        if let Some(task) = inner.template.take().and_then(|template| template.task) {
            // With the task goes the template, which kills its process group.
            task.abort();
        }
    }
}

impl Shared {
    /// Tells the pool what happened and does what it answers.
    pub(crate) fn handle(self: &Rc<Self>, event: Event) {
        let actions = {
            let mut inner = self.inner.borrow_mut();
            inner.pool.handle(event, Instant::now().into_std())
        };
        for action in actions {
            self.act(action);
        }
        self.changed.send_replace(());
    }

    fn act(self: &Rc<Self>, action: Action) {
        match action {
            Action::SpawnTemplate => Rc::clone(self).boot_again(),
            Action::KillTemplate => {
                if let Some(template) = &self.inner.borrow().template {
                    template.kill.notify_one();
                }
            }
            Action::DismissTemplate => self.tell_template(ToTemplate::Exit, None),
            Action::Fork { worker, life } => self.fork(worker, life),
            Action::Abandon { worker } => drop(self.take_child(worker)),
            Action::Kill { worker } => self.kill_worker(worker),
            Action::Up { worker } => self.dispatcher.worker_up(worker),
            Action::Down { worker } => {
                drop(self.take_child(worker));
                self.dispatcher.worker_died(worker);
            }
            Action::StopWorker { worker } => self.dispatcher.stop_worker(worker),
            Action::Delayed {
                worker,
                deaths,
                delay,
            } => self.dispatcher.note(&Note::Delayed {
                worker,
                deaths,
                delay,
            }),
        }
    }

    fn fork(self: &Rc<Self>, worker: u16, life: u32) {
        self.dispatcher.prepare(worker);
        let (channel, far) = match Channel::pair() {
            Ok(pair) => pair,
            Err(error) => {
                let reason = error.to_string();
                self.dispatcher.note(&Note::ForkFailed { worker, reason });
                // As an event of its own, for this one is still being handled.
                let shared = Rc::clone(self);
                spawn_local(async move { shared.handle(Event::Died { worker, life }) });
                return;
            }
        };
        let (watcher, pidfd) = oneshot::channel();
        let task = spawn_local(Rc::clone(self).watch(worker, life, channel, pidfd));
        let child = Child::new(watcher, task.abort_handle());
        self.inner.borrow_mut().children[usize::from(worker)] = Some(child);
        self.tell_template(ToTemplate::Fork { worker }, Some(far));
    }

    fn tell_template(&self, message: ToTemplate, fd: Option<OwnedFd>) {
        if let Some(template) = &self.inner.borrow().template {
            // Where its task is gone the template's death is on its way.
            let _ = template.outbox.send((message, fd));
        }
    }

    fn take_child(&self, worker: u16) -> Option<Child> {
        self.inner.borrow_mut().children[usize::from(worker)].take()
    }

    pub(crate) fn kill_worker(&self, worker: u16) {
        let mut inner = self.inner.borrow_mut();
        if let Some(child) = inner.children.get_mut(usize::from(worker)) {
            child.iter_mut().for_each(Child::kill);
        }
    }

    /// Waits until `reached` holds of the pool.
    async fn until(&self, reached: impl Fn(&Pool) -> bool) {
        let mut changes = self.changed.subscribe();
        while !reached(&self.inner.borrow().pool) {
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    /// Brings the pool each moment that it asks for.
    async fn keep_time(self: Rc<Self>) {
        let mut changes = self.changed.subscribe();
        loop {
            let next = self.inner.borrow().pool.next();
            let moment = async {
                match next {
                    Some(next) => sleep_until(next.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                changed = changes.changed() => {
                    if changed.is_err() {
                        return;
                    }
                }
                () = moment => self.handle(Event::Tick),
            }
        }
    }

    /// Logs what a boot brought to light.
    pub(crate) fn announce(&self, booted: &Booted) {
        self.dispatcher.note(&Note::Booted(booted.clone()));
        for sentence in &booted.held {
            self.dispatcher.note(&Note::Held(sentence.clone()));
        }
    }
}
