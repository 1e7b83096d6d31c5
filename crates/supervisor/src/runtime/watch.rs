//! The tasks that wait for processes: one for the template, one for each life of a worker. They bring
//! events to the pool and end with their process.

use std::os::fd::OwnedFd;
use std::pin::pin;
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use exchange::WorkerId;
use exchange::control::{FromTemplate, FromWorker, Received, ToTemplate};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::spawn_local;
use tokio::time::timeout;

use crate::rules::pool::{Event, Pool};
use crate::runtime::channel::Channel;
use crate::runtime::exit_status::KILL_TIMEOUT;
use crate::runtime::launch::StartError;
use crate::runtime::members::TemplateHandle;
use crate::runtime::supervisor::Shared;
use crate::runtime::template::{BootError, Booted, Load, Template};
use crate::runtime::worker_process::{Process, end_of};
use crate::{Ending, Note};

impl Shared {
    /// Starts the template of a generation, and sees it through to its end.
    pub(crate) fn boot(self: Rc<Self>, generation: u32) {
        let kill = Rc::new(Notify::new());
        let (outbox, letters) = mpsc::unbounded_channel();
        let mut inner = self.inner.borrow_mut();
        let Some(members) = inner.members.get_mut(&generation) else {
            return;
        };
        let shared = Rc::clone(&self);
        let stop = Rc::clone(&kill);
        let task = spawn_local(async move {
            let booted = tokio::select! {
                booted = shared.try_boot(generation) => booted,
                () = stop.notified() => Err(BootError::CalledOff),
            };
            match booted {
                Ok(template) => {
                    spawn_local(send_all(template.channel(), letters));
                    shared.handle(generation, Event::Booted);
                    shared.run_template(generation, template, stop).await;
                }
                Err(error) => shared.boot_failed(generation, error),
            }
        });
        members.template = Some(TemplateHandle {
            pid: None,
            started: SystemTime::now(),
            kill,
            outbox,
            task: Some(task),
        });
    }

    /// Has the application loaded: behind what serves, where something does and leaves time for it.
    async fn try_boot(&self, generation: u32) -> Result<Template, BootError> {
        let load = &self.load(generation)?;
        let behind = load.start.behind || self.inner.borrow().fleet.serves();
        let (template, booted) = match self.try_boot_once(generation, load, behind).await {
            Err(BootError::Starved) => {
                self.note(generation, &Note::Starved);
                self.try_boot_once(generation, load, false).await?
            }
            other => other?,
        };
        self.note(generation, &Note::Booted(booted.clone()));
        for sentence in &booted.held {
            let note = Note::Held(sentence.clone());
            self.note(generation, &note);
        }
        if let Some(members) = self.inner.borrow_mut().members.get_mut(&generation) {
            members.booted = Some(booted);
        }
        Ok(template)
    }

    /// What the next template of a generation is told, with an exchange that is in order.
    fn load(&self, generation: u32) -> Result<Rc<Load>, BootError> {
        let inner = self.inner.borrow();
        let members = inner.members.get(&generation);
        let members = members.ok_or(BootError::CalledOff)?;
        let (old, corrupt) = (Rc::clone(&members.load), members.corrupt);
        drop(inner);
        if !corrupt {
            return Ok(old);
        }
        let exchange = self.dispatcher.renewed_exchange(generation);
        let load = Rc::new(Load {
            start: old.start.clone(),
            plan: old.plan.clone(),
            exchange: exchange.map_err(BootError::Exchange)?,
        });
        if let Some(members) = self.inner.borrow_mut().members.get_mut(&generation) {
            members.load = Rc::clone(&load);
            members.corrupt = false;
        }
        let mut in_force = self.in_force.borrow_mut();
        if in_force.as_ref().is_some_and(|own| Rc::ptr_eq(own, &old)) {
            *in_force = Some(Rc::clone(&load));
        }
        Ok(load)
    }

    async fn try_boot_once(
        &self,
        generation: u32,
        load: &Load,
        behind: bool,
    ) -> Result<(Template, Booted), BootError> {
        let mut template = Template::spawn(load)?;
        if let Some(handle) = self.inner.borrow_mut().template(generation) {
            handle.pid = Some(template.pid());
            handle.started = template.started();
        }
        let rules = self.inner.borrow().fleet.rules(generation);
        let within = rules.map_or(load.plan.boot_timeout, |rules| rules.boot_timeout);
        match template.boot(load, behind, within).await {
            Ok(booted) => Ok((template, booted)),
            Err(error) => {
                // Its end takes time as well, for which the front must not stand still.
                template.kill_group();
                template.end(Duration::ZERO).await;
                Err(error)
            }
        }
    }

    fn boot_failed(self: &Rc<Self>, generation: u32, error: BootError) {
        let mut inner = self.inner.borrow_mut();
        if let Some(members) = inner.members.get_mut(&generation) {
            members.template = None;
        }
        let awaited = inner.fleet.rolls_out(generation);
        drop(inner);
        match error {
            BootError::CalledOff => {}
            // Whoever waits for the generation is told.
            error if awaited => self.fail(generation, StartError::Boot(error)),
            error => {
                let reason = error.to_string();
                self.note(generation, &Note::BootFailed { reason });
            }
        }
        self.handle(generation, Event::TemplateDied);
    }

    /// Takes the template's messages until its end.
    async fn run_template(
        self: &Rc<Self>,
        generation: u32,
        mut template: Template,
        kill: Rc<Notify>,
    ) {
        let mut patience = Duration::MAX;
        loop {
            tokio::select! {
                biased;
                message = timeout(patience, template.next()) => match message.unwrap_or(Ok(None)) {
                    Ok(Some(received)) => self.template_says(generation, received),
                    Ok(None) => break,
                    Err(error) => {
                        let reason = error.to_string();
                        let note = Note::TemplateMisbehaved { reason };
                        self.note(generation, &note);
                        template.kill();
                        break;
                    }
                },
                () = kill.notified() => {
                    template.kill();
                    // What it had to say it has said.
                    patience = KILL_TIMEOUT;
                }
            }
        }
        let awaited = self.inner.borrow().fleet.rolls_out(generation);
        let quiet = self.is_corrupt(generation) || self.of_pool(generation, Pool::stopping);
        if self.of_pool(generation, |pool| pool.workers().are_gone()) {
            template.terminate_group();
        }
        let pid = template.pid();
        let ending = template.end(Duration::ZERO).await;
        if awaited {
            self.fail(generation, StartError::Template(ending));
        } else if !quiet {
            let status = ending.to_string();
            let note = Note::TemplateEnded { pid, status };
            self.note(generation, &note);
        }
        if let Some(members) = self.inner.borrow_mut().members.get_mut(&generation) {
            members.template = None;
            members.exits.template_gone();
        }
        self.handle(generation, Event::TemplateDied);
    }

    /// Whether the generation's next template needs a fresh exchange, which has been said in the log.
    fn is_corrupt(&self, generation: u32) -> bool {
        let inner = self.inner.borrow();
        let members = inner.members.get(&generation);
        members.is_some_and(|members| members.corrupt)
    }

    fn template_says(self: &Rc<Self>, generation: u32, received: Received<FromTemplate>) {
        match received.message {
            FromTemplate::Forked { worker, pid } => {
                let pidfd = received.fds.into_iter().next();
                // Without one: the worker is not reaped before its own pidfd tells the template of its end.
                let pidfd = pidfd.or_else(|| open_pidfd(pid));
                let mut inner = self.inner.borrow_mut();
                if let Some(Some(child)) = inner.child(generation, worker) {
                    child.forked(pid, pidfd);
                }
                if let Some(members) = inner.members.get_mut(&generation) {
                    members.exits.forked(pid);
                }
                drop(inner);
                self.handle(generation, Event::Forked { worker });
            }
            FromTemplate::NotForked { worker, reason } => {
                self.not_forked((generation, worker), reason);
            }
            FromTemplate::Exited {
                worker,
                pid,
                status,
            } => {
                if let Some(members) = self.inner.borrow_mut().members.get_mut(&generation) {
                    members.exits.reported(pid, &status);
                }
                self.note_end((generation, worker), pid, status);
            }
            FromTemplate::Booted { .. } | FromTemplate::BootFailed { .. } => {
                let reason = "it booted twice".to_owned();
                let note = Note::TemplateMisbehaved { reason };
                self.note(generation, &note);
            }
        }
    }

    /// The template goes on without having forked a worker: as good as that one's death.
    fn not_forked(self: &Rc<Self>, (generation, worker): (u32, u16), reason: String) {
        let mut inner = self.inner.borrow_mut();
        let asked = matches!(inner.child(generation, worker), Some(Some(_)));
        let own = inner.fleet.generation(generation).filter(|_| asked);
        let life = own.map(|own| own.pool.workers().life(worker));
        drop(inner);
        let Some(life) = life else { return };
        let note = Note::ForkFailed { worker, reason };
        self.note(generation, &note);
        let served = self
            .dispatcher
            .has_served(WorkerId::new(generation, worker));
        let died = Event::Died {
            worker,
            life,
            served,
        };
        self.handle(generation, died);
    }

    /// Watches one life of a worker.
    pub(crate) async fn watch(
        self: Rc<Self>,
        generation: u32,
        worker: u16,
        life: u32,
        channel: Rc<Channel>,
        process: oneshot::Receiver<Process>,
    ) {
        let id = (generation, worker);
        let mut open = true;
        // The end of its control socket is not its end: until then it may write into the exchange.
        let mut ended = pin!(end_of(process));
        loop {
            tokio::select! {
                biased;
                message = channel.receive(), if open => match message {
                    Ok(Some(received)) => self.worker_says(id, life, received),
                    Ok(None) => open = false,
                    Err(error) => {
                        open = false;
                        self.misbehaved(id, error.to_string());
                    }
                },
                () = &mut ended => break,
            }
        }
        while let Some(received) = channel.take() {
            self.worker_says(id, life, received);
        }
        self.note_orphan(id);
        let died = Event::Died {
            worker,
            life,
            served: self
                .dispatcher
                .has_served(WorkerId::new(generation, worker)),
        };
        // The child goes with the event, and with it this task: nothing may follow.
        self.handle(generation, died);
    }

    /// Logs the end of a worker that has no template to tell of it.
    fn note_orphan(&self, (generation, worker): (u32, u16)) {
        let mut inner = self.inner.borrow_mut();
        let child = inner.child(generation, worker);
        let pid = child.and_then(|child| child.as_ref()?.pid);
        drop(inner);
        let mut inner = self.inner.borrow_mut();
        let members = inner.members.get_mut(&generation).zip(pid);
        let told = members.is_none_or(|(members, pid)| members.exits.is_reported(pid));
        drop(inner);
        if let (Some(pid), false) = (pid, told) {
            self.note_end((generation, worker), pid, Ending::Unknown.to_string());
        }
    }

    /// Whether something holds of a generation's processes; everything holds of one that is gone.
    fn of_pool(&self, generation: u32, holds: impl Fn(&Pool) -> bool) -> bool {
        let inner = self.inner.borrow();
        let own = inner.fleet.generation(generation);
        own.is_none_or(|own| holds(&own.pool))
    }

    /// Logs the end of a worker, unless all of them leave.
    fn note_end(&self, (generation, worker): (u32, u16), pid: i32, status: String) {
        let mut inner = self.inner.borrow_mut();
        let members = inner.members.get_mut(&generation);
        let told = members.is_some_and(|members| members.exits.has_left(pid));
        drop(inner);
        let note = match told {
            true => Note::WorkerLeft {
                worker,
                pid,
                status,
            },
            false => Note::WorkerEnded {
                worker,
                pid,
                status,
            },
        };
        if !self.of_pool(generation, Pool::stopping) {
            self.note(generation, &note);
        }
    }

    fn worker_says(
        self: &Rc<Self>,
        (generation, worker): (u32, u16),
        life: u32,
        received: Received<FromWorker>,
    ) {
        match received.message {
            FromWorker::Ready { pid, .. } => {
                self.introduce(generation, worker, pid);
                self.handle(generation, Event::Ready { worker, life });
            }
            FromWorker::Hijack { slot, sequence, .. } => match received.only_fd() {
                Ok(socket) => self.dispatcher.hijacked(
                    WorkerId::new(generation, worker),
                    slot,
                    sequence,
                    socket,
                ),
                Err(error) => self.misbehaved((generation, worker), error.to_string()),
            },
            FromWorker::Backtrace {
                slot,
                sequence,
                backtrace,
            } => self.dispatcher.traced(
                WorkerId::new(generation, worker),
                slot,
                sequence,
                &backtrace,
            ),
            FromWorker::Error { message } => {
                let note = Note::Worker { worker, message };
                self.note(generation, &note);
            }
        }
    }

    /// Shows a worker whose process the template has not told yet. For the status only: signals go by pidfd.
    fn introduce(&self, generation: u32, worker: u16, pid: i32) {
        if let Some(Some(child)) = self.inner.borrow_mut().child(generation, worker) {
            child.pid.get_or_insert(pid);
        }
    }

    fn misbehaved(&self, (generation, worker): (u32, u16), reason: String) {
        let note = Note::Misbehaved { worker, reason };
        self.note(generation, &note);
        self.kill_worker(generation, worker);
    }
}

pub(crate) fn open_pidfd(pid: i32) -> Option<OwnedFd> {
    pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()
}

/// Sends what the template is told, in order; ends with the template or with its handle.
async fn send_all(
    channel: Rc<Channel>,
    mut letters: mpsc::UnboundedReceiver<(ToTemplate, Option<OwnedFd>)>,
) {
    use std::os::fd::AsFd;
    while let Some((message, fd)) = letters.recv().await {
        let fds: Vec<_> = fd.iter().map(AsFd::as_fd).collect();
        if channel.send(&message, &fds).await.is_err() {
            // Its end is seen by the task that watches it.
            return;
        }
    }
}
