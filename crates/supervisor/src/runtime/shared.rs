//! What the tasks of a supervisor share: the fleet, and the processes of each generation. Brings events to the fleet and
//! does what it answers; decides nothing.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::SystemTime;

use exchange::control::ToTemplate;
use exchange::dispatcher::Cause;
use exchange::{Dispatcher, WorkerId};
use rustix::process::Signal;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::task::{JoinHandle, spawn_local};
use tokio::time::{Instant, sleep, sleep_until};

use crate::launcher::handle::Launcher;
use crate::note::{Note, WorkerNote};
use crate::rules::budget::{Bound, Budget};
use crate::rules::fleet::{self, Fleet};
use crate::rules::pool::{Action, Event, Pool, TEMPLATE_EXIT_TIMEOUT};
use crate::rules::refork::{Origin, Reforking};
use crate::rules::scale::Scale;
use crate::runtime::channel::Channel;
use crate::runtime::counts::Counts;
use crate::runtime::exits::Exits;
use crate::runtime::load::{Booted, Load, StartError};
use crate::runtime::process_group::ProcessGroup;
use crate::runtime::purges::Purger;
use crate::runtime::worker_process::WorkerProcess;

/// Takes what there is to say of a generation, by its number.
pub(crate) type OnNote = Box<dyn Fn(u32, &Note)>;

/// Returns whether somebody debugs in a worker.
pub(crate) type HasDebugger = Box<dyn Fn() -> bool>;

/// What the tasks share.
pub(crate) struct Shared {
    pub(crate) dispatcher: Rc<dyn Dispatcher>,
    /// Takes what there is to say of a generation, for the log.
    on_note: OnNote,
    pub(crate) has_debugger: HasDebugger,
    /// The generation that the log last said of that it waits for a debugger.
    pub(crate) debugged: Cell<Option<u32>>,
    /// Carries out what workers want the response cache to forget.
    pub(crate) purger: RefCell<Option<Purger>>,
    /// Takes what the application has counted outside of requests.
    pub(crate) counts: Counts,
    /// What starts processes, where they have another user than this one.
    pub(crate) launcher: OnceCell<Rc<Launcher>>,
    pub(crate) inner: RefCell<Inner>,
    /// What the generation that serves was launched with.
    pub(crate) serving_load: RefCell<Option<Rc<Load>>>,
    /// The last generation that was given up, and why.
    pub(crate) given_up: RefCell<Option<(u32, String)>>,
    /// How many workers there shall be, if that is not what the settings say.
    pub(crate) scale: Cell<Scale>,
    /// What memory allows. Never borrowed while anything else is called.
    pub(crate) budget: RefCell<Budget>,
    /// Told after each event.
    changed: watch::Sender<()>,
}

/// Never borrowed while the dispatcher is called.
pub(crate) struct Inner {
    pub(crate) fleet: Fleet,
    pub(crate) processes: BTreeMap<u32, Processes>,
}

/// The processes of one generation, and how it came up.
pub(crate) struct Processes {
    pub(crate) load: Rc<Load>,
    pub(crate) workers: Vec<Option<WorkerProcess>>,
    /// How the workers' processes ended.
    pub(crate) exits: Exits,
    pub(crate) template: Option<TemplateHandle>,
    /// The template whose place another one has taken, until that one has proven itself.
    pub(crate) older: Option<TemplateHandle>,
    /// What has come of re-forking.
    pub(crate) refork: Reforking,
    /// Whether the exchange in `load` is corrupt, so that the next template needs the one that took its place.
    pub(crate) corrupt: bool,
    /// Whether it was alone when it was launched.
    pub(crate) first: bool,
    /// What its template said when it had loaded the application.
    pub(crate) booted: Option<Booted>,
    /// What went wrong, until the caller of the launch is told.
    pub(crate) failure: Option<StartError>,
    /// The caller of its launch, who waits to hear whether it serves.
    pub(crate) verdict: Option<oneshot::Sender<Result<Booted, StartError>>>,
}

/// The template as far as others than its own task know it.
pub(crate) struct TemplateHandle {
    /// Absent while it is being started.
    pub(crate) pid: Option<i32>,
    pub(crate) started: SystemTime,
    pub(crate) kill: Rc<Notify>,
    /// The worker that has forked it, if one has.
    pub(crate) origin: Option<Origin>,
    /// The process group that it is in but does not lead.
    pub(crate) group: Option<ProcessGroup>,
    pub(crate) outbox: mpsc::UnboundedSender<(ToTemplate, Option<OwnedFd>)>,
    pub(crate) task: Option<JoinHandle<()>>,
}

impl Processes {
    /// Has the templates leave: the workers are gone.
    fn dismiss_templates(&mut self) {
        self.dismiss_older();
        let Some(template) = &self.template else {
            return;
        };
        if let Some(group) = &template.group {
            // What the application has started. A template that leads no group could not reach it at its end.
            group.signal(Signal::TERM);
        }
        // Where its task is gone the template's death is on its way.
        let _ = template.outbox.send((ToTemplate::Exit, None));
    }

    /// Has the template leave whose place another one has taken, if there is one.
    pub(crate) fn dismiss_older(&mut self) {
        let Some(older) = self.older.take() else {
            return;
        };
        let _ = older.outbox.send((ToTemplate::Exit, None));
        spawn_local(async move {
            sleep(TEMPLATE_EXIT_TIMEOUT).await;
            // It has ended, or takes too long.
            older.kill.notify_one();
        });
    }
}

impl Inner {
    pub(crate) fn template(&mut self, generation: u32) -> Option<&mut TemplateHandle> {
        self.processes.get_mut(&generation)?.template.as_mut()
    }

    /// Where the handle of a worker's present life is.
    pub(crate) fn worker(&mut self, id: WorkerId) -> Option<&mut Option<WorkerProcess>> {
        let processes = self.processes.get_mut(&id.generation)?;
        processes.workers.get_mut(usize::from(id.worker))
    }

    /// Takes the handle of a worker's present life. Dropping it kills the worker.
    fn take_worker(&mut self, id: WorkerId) -> Option<WorkerProcess> {
        self.worker(id)?.take()
    }
}

impl Shared {
    /// The state of a supervisor that has started nothing yet.
    pub(crate) fn new(
        dispatcher: Rc<dyn Dispatcher>,
        on_note: OnNote,
        has_debugger: HasDebugger,
    ) -> Self {
        Self {
            dispatcher,
            on_note,
            has_debugger,
            debugged: Cell::default(),
            purger: RefCell::default(),
            counts: Counts::default(),
            launcher: OnceCell::default(),
            inner: RefCell::new(Inner {
                fleet: Fleet::default(),
                processes: BTreeMap::new(),
            }),
            serving_load: RefCell::default(),
            given_up: RefCell::default(),
            scale: Cell::default(),
            budget: RefCell::new(Budget::new(Bound::None)),
            changed: watch::Sender::new(()),
        }
    }

    pub(crate) fn note(&self, generation: u32, note: impl Into<Note>) {
        (self.on_note)(generation, &note.into());
    }

    /// The same about a worker.
    pub(crate) fn note_worker(&self, id: WorkerId, note: WorkerNote) {
        let WorkerId { generation, worker } = id;
        let mut inner = self.inner.borrow_mut();
        let process = inner.worker(id);
        let pid = process.and_then(|process| process.as_ref()?.pid);
        drop(inner);
        self.note(generation, Note::Worker { worker, pid, note });
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
                fleet::Action::RouteTo { generations } => self.dispatcher.route_to(&generations),
                fleet::Action::Outage { until } => self.outage(until.map(Into::into)),
                fleet::Action::Check { generation } => Rc::clone(self).check(generation),
                fleet::Action::Serves { generation } => self.serves(generation, true),
                fleet::Action::Shares { generation } => self.serves(generation, false),
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
        let latest = self.inner.borrow().fleet.generations().latest();
        self.note(latest, note);
    }

    fn act(self: &Rc<Self>, generation: u32, action: Action) {
        let id = |worker| WorkerId::new(generation, worker);
        match action {
            Action::SpawnTemplate => self.start_template(generation),
            Action::KillTemplate => {
                let stopping = self.pool_is(generation, Pool::stopping);
                if let Some(own) = self.inner.borrow_mut().processes.get_mut(&generation) {
                    // While the pool serves the one before it takes its place.
                    let older = own.older.take_if(|_| stopping);
                    let killed = older.iter().chain(&own.template);
                    killed.for_each(|template| template.kill.notify_one());
                }
            }
            Action::DismissTemplate => {
                if let Some(own) = self.inner.borrow_mut().processes.get_mut(&generation) {
                    own.dismiss_templates();
                }
            }
            Action::Fork { worker, life } => self.fork(id(worker), life),
            Action::Abandon { worker } => {
                let process = self.inner.borrow_mut().take_worker(id(worker));
                drop(process);
            }
            Action::Kill { worker } => self.kill_worker(id(worker)),
            Action::Up { worker } => self.dispatcher.worker_up(id(worker)),
            Action::Reclaim { worker } => {
                let cause = self.take_dead(id(worker));
                self.dispatcher.worker_died(id(worker), cause);
            }
            Action::StopWorker { worker } => self.stop_worker(id(worker)),
            Action::Stalled { .. }
            | Action::SuccessorStarted { .. }
            | Action::Retiring { .. }
            | Action::Delayed { .. } => {
                let drain_timeout = self.inner.borrow().fleet.drain_timeout(generation);
                if let Some((worker, note)) = WorkerNote::of(action, drain_timeout) {
                    self.note_worker(id(worker), note);
                }
            }
        }
    }

    fn fork(self: &Rc<Self>, id: WorkerId, life: u32) {
        let WorkerId { generation, worker } = id;
        self.dispatcher.worker_starts(id);
        let (channel, far) = match Channel::pair() {
            Ok(pair) => pair,
            Err(error) => {
                let reason = error.to_string();
                self.note_worker(id, WorkerNote::NotForked { reason });
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
        let (name, process) = oneshot::channel();
        let channel = Rc::new(channel);
        let task = self.watch_worker(id, life, Rc::clone(&channel), process);
        if let Some(own) = self.inner.borrow_mut().worker(id) {
            *own = Some(WorkerProcess::new(
                channel,
                name,
                task,
                self.launcher.get().cloned(),
            ));
        }
        self.tell_template(generation, ToTemplate::Fork { worker }, Some(far));
    }

    fn tell_template(&self, generation: u32, message: ToTemplate, fd: Option<OwnedFd>) {
        if let Some(template) = self.inner.borrow_mut().template(generation) {
            // Where its task is gone the template's death is on its way.
            let _ = template.outbox.send((message, fd));
        }
    }

    /// Lets go of a worker that is gone. Returns how it ended.
    fn take_dead(&self, id: WorkerId) -> Cause {
        let mut inner = self.inner.borrow_mut();
        let pid = inner.take_worker(id).and_then(|process| process.pid);
        let processes = inner.processes.get_mut(&id.generation);
        let unknown = || Exits::default().died(id.worker, None);
        processes.map_or_else(unknown, |processes| processes.exits.died(id.worker, pid))
    }

    pub(crate) fn kill_worker(&self, id: WorkerId) {
        if let Some(process) = self.inner.borrow_mut().worker(id) {
            process.iter_mut().for_each(WorkerProcess::kill);
        }
    }

    fn stop_worker(&self, id: WorkerId) {
        let mut inner = self.inner.borrow_mut();
        let process = inner.worker(id);
        let pid = process.and_then(|process| process.as_ref()?.pid);
        if let Some((processes, pid)) = inner.processes.get_mut(&id.generation).zip(pid) {
            processes.exits.leaves(pid);
        }
        drop(inner);
        self.dispatcher.stop_worker(id);
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
    pub(crate) async fn keep_time(self: Rc<Self>) {
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

    /// Whether something holds of a generation's pool; everything holds of one that is gone.
    pub(crate) fn pool_is(&self, generation: u32, holds: impl Fn(&Pool) -> bool) -> bool {
        let inner = self.inner.borrow();
        let own = inner.fleet.generations().get(generation);
        own.is_none_or(|own| holds(&own.pool))
    }

    /// Logs the end of a worker, unless all of them leave.
    pub(crate) fn log_exit(&self, id: WorkerId, pid: i32, status: String) {
        let WorkerId { generation, worker } = id;
        let mut inner = self.inner.borrow_mut();
        let processes = inner.processes.get_mut(&generation);
        let requested = processes.is_some_and(|processes| processes.exits.forget_leaving(pid));
        drop(inner);
        let note = match requested {
            true => WorkerNote::Exited { status },
            false => WorkerNote::Ended { status },
        };
        let pid = Some(pid);
        if !self.pool_is(generation, Pool::stopping) {
            self.note(generation, Note::Worker { worker, pid, note });
        }
    }
}
