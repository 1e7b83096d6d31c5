//! The supervisor itself: carries the fleet's decisions out, and brings what happens back to it. Decides
//! nothing; the tasks that wait for processes are in `watch.rs`.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use exchange::control::ToTemplate;
use exchange::dispatcher::Cause;
use exchange::{Dispatcher, WorkerId};
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::task::{JoinHandle, spawn_local};
use tokio::time::{Instant, sleep_until, timeout};

use crate::Note;
use crate::rules::budget::{Bound, Budget};
use crate::rules::fleet::{self, Fleet, Rules, Stage};
use crate::rules::pool::TEMPLATE_EXIT_TIMEOUT;
use crate::rules::pool::{Action, Event};
use crate::runtime::channel::Channel;
use crate::runtime::exit_status::KILL_TIMEOUT;
use crate::runtime::exits::Exits;
use crate::runtime::launch::StartError;
use crate::runtime::members::{Members, TemplateHandle};
use crate::runtime::template::{Booted, Load};
use crate::runtime::worker_process::Child;

/// The processes of all generations. Dropping it kills them.
pub struct Supervisor {
    pub(crate) shared: Rc<Shared>,
    /// What goes on for as long as it lives.
    tasks: RefCell<Vec<JoinHandle<()>>>,
    pub(crate) since: SystemTime,
    /// Whose turn it is to read memory for a status.
    pub(crate) weighing: Arc<Semaphore>,
}

/// Takes what there is to say of a generation, by its number.
type OnNote = Box<dyn Fn(u32, &Note)>;

/// What the tasks share.
pub(crate) struct Shared {
    pub(crate) dispatcher: Rc<dyn Dispatcher>,
    /// Takes what there is to say of a generation, for the log.
    on_note: OnNote,
    pub(crate) inner: RefCell<Inner>,
    /// What the generation that serves was launched with.
    pub(crate) in_force: RefCell<Option<Rc<Load>>>,
    /// What memory allows. Never borrowed while anything else is called.
    pub(crate) budget: RefCell<Budget>,
    /// Told after each event.
    changed: watch::Sender<()>,
}

/// Never borrowed while the dispatcher is called.
pub(crate) struct Inner {
    pub(crate) fleet: Fleet,
    pub(crate) members: BTreeMap<u32, Members>,
}

impl Inner {
    pub(crate) fn template(&mut self, generation: u32) -> Option<&mut TemplateHandle> {
        self.members.get_mut(&generation)?.template.as_mut()
    }

    /// Where the handle of a worker's present life is.
    pub(crate) fn child(&mut self, generation: u32, worker: u16) -> Option<&mut Option<Child>> {
        let members = self.members.get_mut(&generation)?;
        members.children.get_mut(usize::from(worker))
    }
}

impl Supervisor {
    /// A supervisor that has started nothing yet. `on_note` hears what there is to say of each generation.
    pub fn new(dispatcher: Rc<dyn Dispatcher>, on_note: impl Fn(u32, &Note) + 'static) -> Self {
        let shared = Shared {
            dispatcher,
            on_note: Box::new(on_note),
            inner: RefCell::new(Inner {
                fleet: Fleet::default(),
                members: BTreeMap::new(),
            }),
            in_force: RefCell::default(),
            budget: RefCell::new(Budget::new(Bound::None)),
            changed: watch::Sender::new(()),
        };
        Self {
            shared: Rc::new(shared),
            tasks: RefCell::default(),
            since: SystemTime::now(),
            weighing: Arc::new(Semaphore::new(1)),
        }
    }

    /// Brings a generation up: has its template load the application, forks its workers, waits until they are
    /// ready, and has requests go to it. Another generation serves until then, and finishes what it holds
    /// afterwards. Needs a `LocalRuntime`.
    ///
    /// # Errors
    /// Why it cannot serve. The other generation then serves on; without one, drop the supervisor.
    pub async fn launch(&self, load: Load) -> Result<Booted, StartError> {
        let generation = load.start.generation;
        let scarce = !load.plan.worker_by_worker && self.shared.is_scarce(generation).await;
        let told = self.enlist(load, scarce)?;
        // Without a verdict everything is being torn down.
        told.await.unwrap_or(Err(StartError::CalledOff))
    }

    /// Begins to bring a generation up; what comes is whether it did.
    fn enlist(
        &self,
        load: Load,
        scarce: bool,
    ) -> Result<oneshot::Receiver<Result<Booted, StartError>>, StartError> {
        let shared = &self.shared;
        let generation = load.start.generation;
        let (verdict, told) = oneshot::channel();
        let mut inner = shared.inner.borrow_mut();
        if inner.fleet.stopping() {
            return Err(StartError::CalledOff);
        }
        if !inner.fleet.is_settled() {
            return Err(StartError::Busy);
        }
        let first = inner.fleet.finished();
        let plan = &load.plan;
        let rules = Rules {
            places: plan.workers,
            workers: shared.affordable(plan),
            boot_timeout: plan.boot_timeout,
            drain_timeout: plan.drain_timeout,
            worker_by_worker: plan.worker_by_worker || scarce,
            check: plan.check.is_some(),
        };
        let members = Members {
            children: (0..=plan.workers).map(|_| None).collect(),
            load: Rc::new(load),
            exits: Exits::default(),
            template: None,
            corrupt: false,
            first,
            booted: None,
            failure: None,
            verdict: Some(verdict),
        };
        inner.members.insert(generation, members);
        drop(inner);
        self.keep();
        shared.dispatcher.resize(generation, rules.workers);
        if !first {
            shared.note(generation, &Note::Launched);
        }
        shared.decide(fleet::Event::Launch { generation, rules });
        Ok(told)
    }

    /// Begins what goes on for as long as it lives, unless it goes on already.
    fn keep(&self) {
        let mut tasks = self.tasks.borrow_mut();
        if !tasks.is_empty() {
            return;
        }
        tasks.push(spawn_local(Rc::clone(&self.shared).keep_time()));
        tasks.push(spawn_local(Rc::clone(&self.shared).keep_limits()));
    }

    /// Lets no new generation take over any more: the server is going to stop.
    pub fn call_off(&self) {
        self.shared.decide(fleet::Event::CallOff);
    }

    /// Has the workers finish what they hold and leave, kills what is left after `grace` (at once where it is
    /// zero), and ends the templates. May be called again with a shorter grace when the first call is dropped.
    pub async fn stop(&self, grace: Duration) {
        let shared = &self.shared;
        if !grace.is_zero() {
            shared.decide(fleet::Event::Stop);
            if timeout(grace, shared.until(Fleet::no_workers))
                .await
                .is_err()
            {
                let latest = shared.inner.borrow().fleet.latest();
                shared.note(latest, &Note::Killed { grace });
            } else if timeout(TEMPLATE_EXIT_TIMEOUT, shared.until(Fleet::finished))
                .await
                .is_ok()
            {
                return;
            }
        }
        shared.decide(fleet::Event::Kill);
        // A process in an uninterruptible sleep is the kernel's to end.
        let _ = timeout(KILL_TIMEOUT, shared.until(Fleet::finished)).await;
    }

    /// Kills every process of a generation, one of whose workers wrote into the exchange what no sound worker writes.
    /// The generation that serves starts again with the exchange that took its place.
    pub(crate) fn exchange_corrupt(&self, generation: u32, what: &str) {
        let shared = &self.shared;
        let mut inner = shared.inner.borrow_mut();
        let Some(members) = inner.members.get_mut(&generation) else {
            return;
        };
        members.corrupt = true;
        let fleet = &inner.fleet;
        let serves = |own: &fleet::Generation| own.stage == Stage::Serving && !own.pool.stopping();
        let again =
            fleet.generation(generation).is_some_and(serves) && !fleet.rolls_out(generation);
        drop(inner);
        let what = what.to_owned();
        let note = Note::Corrupt { what, again };
        shared.note(generation, &note);
        shared.decide(fleet::Event::Corrupt { generation });
    }

    /// Kills a worker; it is replaced like any other that died.
    pub fn kill_worker(&self, generation: u32, worker: u16) {
        self.shared.kill_worker(generation, worker);
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        for task in self.tasks.borrow_mut().drain(..) {
            task.abort();
        }
        for members in self.shared.inner.borrow_mut().members.values_mut() {
            members.children.clear();
            if let Some(task) = members.template.take().and_then(|template| template.task) {
                // With the task goes the template, which kills its process group.
                task.abort();
            }
        }
    }
}

impl Shared {
    pub(crate) fn note(&self, generation: u32, note: &Note) {
        (self.on_note)(generation, note);
    }

    /// Tells the fleet what happened in a generation and does what it answers.
    pub(crate) fn handle(self: &Rc<Self>, generation: u32, event: Event) {
        self.decide(fleet::Event::Pool { generation, event });
    }

    /// Tells the fleet what happened and does what it answers.
    pub(crate) fn decide(self: &Rc<Self>, event: fleet::Event) {
        self.decide_at(event, Instant::now().into_std());
    }

    /// The same for something that happened then.
    pub(crate) fn decide_at(self: &Rc<Self>, event: fleet::Event, now: std::time::Instant) {
        let actions = self.inner.borrow_mut().fleet.handle(event, now);
        for action in actions {
            match action {
                fleet::Action::Pool { generation, action } => self.act(generation, action),
                fleet::Action::Feed { generations } => self.dispatcher.route_to(&generations),
                fleet::Action::Outage { until } => self.outage(until.map(Into::into)),
                fleet::Action::Check { generation } => Rc::clone(self).check(generation),
                fleet::Action::Serves { generation } => self.serves(generation),
                fleet::Action::GiveUp { generation, why } => self.give_up(generation, why),
                fleet::Action::Close { generation } => self.close(generation),
            }
        }
        self.changed.send_replace(());
    }

    /// Tells the dispatcher that no worker can serve before then, or that one can again.
    fn outage(&self, until: Option<Instant>) {
        self.dispatcher.outage(until.map(Instant::into_std));
        let note = match until {
            Some(until) => Note::Outage {
                delay: until.saturating_duration_since(Instant::now()),
            },
            None => Note::OutageOver,
        };
        let latest = self.inner.borrow().fleet.latest();
        self.note(latest, &note);
    }

    fn act(self: &Rc<Self>, generation: u32, action: Action) {
        match action {
            Action::SpawnTemplate => Rc::clone(self).boot(generation),
            Action::KillTemplate => {
                if let Some(template) = self.inner.borrow_mut().template(generation) {
                    template.kill.notify_one();
                }
            }
            Action::DismissTemplate => self.tell_template(generation, ToTemplate::Exit, None),
            Action::Fork { worker, life } => self.fork(generation, worker, life),
            Action::Abandon { worker } => drop(self.take_child(generation, worker)),
            Action::Kill { worker } => self.kill_worker(generation, worker),
            Action::Up { worker } => self.dispatcher.worker_up(WorkerId::new(generation, worker)),
            Action::Reclaim { worker } => {
                let cause = self.take_dead(generation, worker);
                self.dispatcher
                    .worker_died(WorkerId::new(generation, worker), cause);
            }
            Action::StopWorker { worker } => self.stop_worker(generation, worker),
            Action::Stalled { .. }
            | Action::SuccessorStarted { .. }
            | Action::Retiring { .. }
            | Action::Delayed { .. } => {
                if let Some(note) = Note::of(action, self.drain_timeout(generation)) {
                    self.note(generation, &note);
                }
            }
        }
    }

    fn fork(self: &Rc<Self>, generation: u32, worker: u16, life: u32) {
        self.dispatcher
            .worker_starts(WorkerId::new(generation, worker));
        let (channel, far) = match Channel::pair() {
            Ok(pair) => pair,
            Err(error) => {
                let reason = error.to_string();
                let note = Note::ForkFailed { worker, reason };
                self.note(generation, &note);
                // As an event of its own, for this one is still being handled.
                let shared = Rc::clone(self);
                let died = Event::Died {
                    worker,
                    life,
                    served: false,
                };
                spawn_local(async move { shared.handle(generation, died) });
                return;
            }
        };
        let (watcher, pidfd) = oneshot::channel();
        let channel = Rc::new(channel);
        let watch = Rc::clone(self).watch(generation, worker, life, Rc::clone(&channel), pidfd);
        let child = Child::new(channel, watcher, spawn_local(watch).abort_handle());
        if let Some(place) = self.inner.borrow_mut().child(generation, worker) {
            *place = Some(child);
        }
        self.tell_template(generation, ToTemplate::Fork { worker }, Some(far));
    }

    fn tell_template(&self, generation: u32, message: ToTemplate, fd: Option<OwnedFd>) {
        if let Some(template) = self.inner.borrow_mut().template(generation) {
            // Where its task is gone the template's death is on its way.
            let _ = template.outbox.send((message, fd));
        }
    }

    fn take_child(&self, generation: u32, worker: u16) -> Option<Child> {
        self.inner.borrow_mut().child(generation, worker)?.take()
    }

    /// Lets go of a worker that is gone. Returns how it ended.
    fn take_dead(&self, generation: u32, worker: u16) -> Cause {
        let child = self.take_child(generation, worker);
        let pid = child.and_then(|child| child.pid);
        let mut inner = self.inner.borrow_mut();
        let members = inner.members.get_mut(&generation);
        members.map_or_else(
            || Exits::default().died(None),
            |members| members.exits.died(pid),
        )
    }

    pub(crate) fn kill_worker(&self, generation: u32, worker: u16) {
        if let Some(child) = self.inner.borrow_mut().child(generation, worker) {
            child.iter_mut().for_each(Child::kill);
        }
    }

    fn stop_worker(&self, generation: u32, worker: u16) {
        let mut inner = self.inner.borrow_mut();
        if let Some(members) = inner.members.get_mut(&generation) {
            let child = members.children.get(usize::from(worker));
            let pid = child.and_then(|child| child.as_ref()?.pid);
            pid.into_iter().for_each(|pid| members.exits.leaves(pid));
        }
        drop(inner);
        self.dispatcher
            .stop_worker(WorkerId::new(generation, worker));
    }

    /// Waits until `reached` holds of the fleet.
    pub(crate) async fn until(&self, reached: impl Fn(&Fleet) -> bool) {
        let mut changes = self.changed.subscribe();
        while !reached(&self.inner.borrow().fleet) {
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    /// Brings the fleet each moment that it asks for.
    async fn keep_time(self: Rc<Self>) {
        let mut changes = self.changed.subscribe();
        loop {
            let next = self.inner.borrow().fleet.next();
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
                () = moment => self.tick(),
            }
        }
    }
}
