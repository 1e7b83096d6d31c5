//! The task of one template, from its start to its end: has it load the application, takes its messages, and makes events
//! for the pool.

use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use exchange::WorkerId;
use exchange::control::{FromTemplate, Received, ToTemplate};
use tokio::sync::{Notify, mpsc};
use tokio::task::spawn_local;
use tokio::time::timeout;

use crate::note::{TemplateNote, WorkerNote};
use crate::rules::pool::{Event, Pool};
use crate::rules::refork::Origin;
use crate::runtime::channel::{Channel, open_pidfd};
use crate::runtime::exit_status::{ExitStatus, KILL_TIMEOUT};
use crate::runtime::load::{BootError, Booted, Load, StartError};
use crate::runtime::shared::{Processes, Shared, TemplateHandle};
use crate::runtime::template_process::TemplateProcess;

/// A template of a generation, as its task sees it.
struct TemplateTask {
    shared: Rc<Shared>,
    generation: u32,
    /// Notified when the template is to be killed.
    kill: Rc<Notify>,
}

impl Shared {
    /// Starts the template of a generation, and a task that watches it until its end.
    pub(super) fn start_template(self: &Rc<Self>, generation: u32) {
        let kill = Rc::new(Notify::new());
        let (outbox, messages) = mpsc::unbounded_channel();
        let mut inner = self.inner.borrow_mut();
        let Some(processes) = inner.processes.get_mut(&generation) else {
            return;
        };
        let task = TemplateTask {
            shared: Rc::clone(self),
            generation,
            kill: Rc::clone(&kill),
        };
        processes.template = Some(TemplateHandle {
            pid: None,
            started: SystemTime::now(),
            kill,
            origin: None,
            group: None,
            outbox,
            task: Some(spawn_local(task.run(messages))),
        });
    }
}

/// Has a template that a worker has forked take the place of the one that is there, which stays: it forks nothing more,
/// and takes its place again should the new one end. A task watches the new one until its end. Returns what kills it,
/// and tells it apart; nothing where the generation is gone, and then the template is killed.
pub(super) fn install_template(
    shared: &Rc<Shared>,
    generation: u32,
    template: TemplateProcess,
    origin: Origin,
) -> Option<Rc<Notify>> {
    let kill = Rc::new(Notify::new());
    let (outbox, messages) = mpsc::unbounded_channel();
    let mut inner = shared.inner.borrow_mut();
    let processes = inner.processes.get_mut(&generation)?;
    let task = TemplateTask {
        shared: Rc::clone(shared),
        generation,
        kill: Rc::clone(&kill),
    };
    let (pid, started) = (template.pid(), template.started());
    let group = template.group();
    spawn_local(send_all(template.channel(), messages));
    processes.older = processes.template.replace(TemplateHandle {
        pid: Some(pid),
        started,
        kill: Rc::clone(&kill),
        origin: Some(origin),
        group,
        outbox,
        task: Some(spawn_local(async move { task.serve(template).await })),
    });
    Some(kill)
}

/// What the end of a template means.
enum Vacancy {
    /// There is none.
    Empty,
    /// The one before it is back in its place.
    Filled,
    /// Another one has taken its place before.
    None,
}

impl TemplateTask {
    async fn run(self, messages: mpsc::UnboundedReceiver<(ToTemplate, Option<OwnedFd>)>) {
        let booted = tokio::select! {
            booted = self.boot() => booted,
            () = self.kill.notified() => Err(BootError::CalledOff),
        };
        match booted {
            Ok(template) => {
                spawn_local(send_all(template.channel(), messages));
                self.shared.handle(self.generation, Event::Booted);
                self.serve(template).await;
            }
            Err(error) => self.boot_failed(error),
        }
    }

    /// Has the application loaded: at a low priority where something serves and leaves time for it.
    async fn boot(&self) -> Result<TemplateProcess, BootError> {
        let load = &self.load()?;
        let low_priority =
            load.start.low_priority || self.shared.inner.borrow().fleet.generations().serve();
        let (template, booted) = match self.try_boot(load, low_priority).await {
            Err(BootError::Starved) => {
                self.shared.note(self.generation, TemplateNote::Starved);
                self.try_boot(load, false).await?
            }
            other => other?,
        };
        self.shared.note(
            self.generation,
            TemplateNote::Booted(Box::new(booted.clone())),
        );
        for sentence in &booted.held {
            let note = TemplateNote::Held(sentence.clone());
            self.shared.note(self.generation, note);
        }
        self.change(|processes| processes.booted = Some(booted));
        Ok(template)
    }

    /// The `Load` for the next template of a generation, with a sound exchange.
    fn load(&self) -> Result<Rc<Load>, BootError> {
        let inner = self.shared.inner.borrow();
        let processes = inner.processes.get(&self.generation);
        let processes = processes.ok_or(BootError::CalledOff)?;
        let (old, corrupt) = (Rc::clone(&processes.load), processes.corrupt);
        drop(inner);
        if !corrupt {
            return Ok(old);
        }
        let exchange = self.shared.dispatcher.renewed_exchange(self.generation);
        let load = Rc::new(Load {
            start: old.start.clone(),
            plan: old.plan.clone(),
            exchange: exchange.map_err(BootError::Exchange)?,
        });
        self.change(|processes| {
            processes.load = Rc::clone(&load);
            processes.corrupt = false;
        });
        let mut in_force = self.shared.serving_load.borrow_mut();
        if in_force.as_ref().is_some_and(|own| Rc::ptr_eq(own, &old)) {
            *in_force = Some(Rc::clone(&load));
        }
        Ok(load)
    }

    async fn try_boot(
        &self,
        load: &Load,
        low_priority: bool,
    ) -> Result<(TemplateProcess, Booted), BootError> {
        let mut template = TemplateProcess::spawn(load, self.shared.launcher.get()).await?;
        if let Some(handle) = self.shared.inner.borrow_mut().template(self.generation) {
            handle.pid = Some(template.pid());
            handle.started = template.started();
        }
        let rules = self.shared.inner.borrow().fleet.rules(self.generation);
        let within = rules.map_or(load.plan.boot_timeout, |rules| rules.boot_timeout);
        match template.boot(load, low_priority, within).await {
            Ok(booted) => Ok((template, booted)),
            Err(error) => {
                // Its end takes time as well, and the front must not block meanwhile.
                template.kill_group();
                template.end(Duration::ZERO).await;
                Err(error)
            }
        }
    }

    fn boot_failed(&self, error: BootError) {
        self.change(|processes| processes.template = None);
        let awaited = self.shared.inner.borrow().fleet.rolls_out(self.generation);
        match error {
            BootError::CalledOff => {}
            // The caller of the launch gets it.
            error if awaited => {
                self.change(|processes| processes.failure = Some(StartError::Boot(error)))
            }
            error => {
                let reason = error.to_string();
                self.shared
                    .note(self.generation, TemplateNote::BootFailed { reason });
            }
        }
        self.shared.handle(self.generation, Event::TemplateDied);
    }

    /// Takes the template's messages until its end.
    async fn serve(&self, mut template: TemplateProcess) {
        let mut kill_timeout = Duration::MAX;
        loop {
            tokio::select! {
                biased;
                message = timeout(kill_timeout, template.next()) => match message.unwrap_or(Ok(None)) {
                    Ok(Some(received)) => self.received(template.pid(), received),
                    Ok(None) => break,
                    Err(error) => {
                        let reason = error.to_string();
                        let note = TemplateNote::Misbehaved { reason };
                        self.shared.note(self.generation, note);
                        template.kill();
                        break;
                    }
                },
                () = self.kill.notified() => {
                    template.kill();
                    // What it had to say it has said.
                    kill_timeout = KILL_TIMEOUT;
                }
            }
        }
        let awaited = self.shared.inner.borrow().fleet.rolls_out(self.generation);
        let quiet = self.is_corrupt() || self.shared.pool_is(self.generation, Pool::stopping);
        if self
            .shared
            .pool_is(self.generation, |pool| pool.workers().are_gone())
        {
            template.terminate_group();
        }
        let pid = template.pid();
        let ending = template.end(Duration::ZERO).await;
        let (vacancy, unreported) = self.vacate(pid);
        let status = ending.to_string();
        match vacancy {
            Vacancy::Empty if awaited => {
                self.change(|processes| processes.failure = Some(StartError::Template(ending)));
            }
            Vacancy::Empty if !quiet => {
                let note = TemplateNote::Ended { pid, status };
                self.shared.note(self.generation, note);
            }
            Vacancy::Filled if !quiet => {
                let note = TemplateNote::FellBack { pid, status };
                self.shared.note(self.generation, note);
            }
            _ => {}
        }
        for (worker, pid) in unreported {
            let status = ExitStatus::Unknown.to_string();
            self.shared.log_exit(self.id(worker), pid, status);
        }
        match vacancy {
            Vacancy::Empty => self.shared.handle(self.generation, Event::TemplateDied),
            Vacancy::Filled => self.shared.handle(self.generation, Event::FellBack),
            Vacancy::None => {}
        }
    }

    /// Lets go of a template that is gone. Returns number and process id of the workers of which nobody reports any more.
    fn vacate(&self, pid: i32) -> (Vacancy, Vec<(u16, i32)>) {
        let mut result = (Vacancy::None, Vec::new());
        self.change(|processes| {
            let is_own = |own: &TemplateHandle| Rc::ptr_eq(&own.kill, &self.kill);
            if processes.template.as_ref().is_some_and(is_own) {
                processes.template = processes.older.take();
                result.0 = match processes.template {
                    Some(_) => Vacancy::Filled,
                    None => Vacancy::Empty,
                };
            } else {
                processes.older.take_if(|older| is_own(older));
            }
            result.1 = processes.exits.template_gone(pid);
        });
        result
    }

    /// Whether the generation's next template needs a fresh exchange, which has been said in the log.
    fn is_corrupt(&self) -> bool {
        let inner = self.shared.inner.borrow();
        let processes = inner.processes.get(&self.generation);
        processes.is_some_and(|processes| processes.corrupt)
    }

    fn received(&self, template: i32, received: Received<FromTemplate>) {
        match received.message {
            FromTemplate::Forked { worker, pid } => {
                let pidfd = received.fds.into_iter().next();
                // Without one: the worker is not reaped before its own pidfd tells the template of its end.
                let pidfd = pidfd.or_else(|| open_pidfd(pid));
                let mut inner = self.shared.inner.borrow_mut();
                if let Some(Some(own)) = inner.worker(self.id(worker)) {
                    own.forked(pid, pidfd);
                }
                drop(inner);
                self.change(|processes| processes.exits.forked(template, pid));
                self.shared
                    .handle(self.generation, Event::Forked { worker });
            }
            FromTemplate::NotForked { worker, reason } => {
                self.not_forked(worker, reason);
            }
            FromTemplate::Exited {
                worker,
                pid,
                status,
            } => {
                self.change(|processes| processes.exits.reported(pid, &status));
                self.shared.log_exit(self.id(worker), pid, status);
            }
            FromTemplate::Counts { batch } => {
                self.shared.counts.pass_on(self.generation, None, &batch);
            }
            // Of a template that a worker forks: after that one's own message, where that comes first.
            FromTemplate::Donor { .. } => {}
            FromTemplate::Booted { .. } | FromTemplate::BootFailed { .. } => {
                let reason = "it booted twice".to_owned();
                let note = TemplateNote::Misbehaved { reason };
                self.shared.note(self.generation, note);
            }
        }
    }

    /// The template goes on without having forked a worker: as good as that one's death.
    fn not_forked(&self, worker: u16, reason: String) {
        let mut inner = self.shared.inner.borrow_mut();
        let asked = matches!(inner.worker(self.id(worker)), Some(Some(_)));
        let own = inner
            .fleet
            .generations()
            .get(self.generation)
            .filter(|_| asked);
        let life = own.map(|own| own.pool.workers().life(worker));
        drop(inner);
        let Some(life) = life else { return };
        let note = WorkerNote::NotForked { reason };
        self.shared.note_worker(self.id(worker), note);
        let served = self.shared.dispatcher.has_served(self.id(worker));
        let died = Event::Died {
            worker,
            life,
            served,
        };
        self.shared.handle(self.generation, died);
    }

    fn change(&self, change: impl FnOnce(&mut Processes)) {
        let mut inner = self.shared.inner.borrow_mut();
        inner.processes.get_mut(&self.generation).map(change);
    }

    fn id(&self, worker: u16) -> WorkerId {
        WorkerId::new(self.generation, worker)
    }
}

/// Sends messages to the template, in order; ends with the template or with its handle.
async fn send_all(
    channel: Rc<Channel>,
    mut messages: mpsc::UnboundedReceiver<(ToTemplate, Option<OwnedFd>)>,
) {
    while let Some((message, fd)) = messages.recv().await {
        let fds: Vec<_> = fd.iter().map(AsFd::as_fd).collect();
        if channel.send(&message, &fds).await.is_err() {
            // Its end is seen by the task that watches it.
            return;
        }
    }
}
