//! The tasks that wait for processes: one for the template, one for each life of a worker. They bring
//! events to the pool and end with their process.

use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::SystemTime;

use exchange::control::{FromTemplate, FromWorker, Received, ToTemplate};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::spawn_local;

use crate::channel::{Channel, Pidfd};
use crate::pool::Event;
use crate::supervisor::{Shared, TemplateHandle};
use crate::template::{BootError, Template};
use crate::{Ending, Note};

impl Shared {
    /// Watches a template that has booted.
    pub(crate) fn adopt(self: Rc<Self>, template: Template) {
        let kill = Rc::new(Notify::new());
        self.enlist(&template, kill.clone());
        let task = spawn_local(Rc::clone(&self).run_template(template, kill));
        self.keep_task(task);
        self.handle(Event::Booted);
    }

    /// Starts a template in place of one that died.
    pub(crate) fn boot_again(self: Rc<Self>) {
        let shared = Rc::clone(&self);
        let kill = Rc::new(Notify::new());
        let (outbox, _) = mpsc::unbounded_channel();
        self.inner.borrow_mut().template = Some(TemplateHandle {
            pid: None,
            started: SystemTime::now(),
            kill: Rc::clone(&kill),
            outbox,
            task: None,
        });
        let task = spawn_local(async move {
            let booted = tokio::select! {
                booted = shared.boot() => booted,
                () = kill.notified() => Err(BootError::CalledOff),
            };
            match booted {
                Ok(template) => {
                    shared.enlist(&template, Rc::clone(&kill));
                    shared.handle(Event::Booted);
                    shared.run_template(template, kill).await;
                }
                Err(error) => {
                    if !matches!(error, BootError::CalledOff) {
                        shared.dispatcher.note(&Note::BootFailed(error));
                    }
                    shared.inner.borrow_mut().template = None;
                    shared.handle(Event::TemplateDied);
                }
            }
        });
        self.keep_task(task);
    }

    async fn boot(&self) -> Result<Template, BootError> {
        let mut template = Template::spawn(&self.plan)?;
        if let Some(handle) = &mut self.inner.borrow_mut().template {
            handle.pid = Some(template.pid());
            handle.started = template.started();
        }
        let booted = template.boot(&self.plan).await?;
        self.announce(&booted);
        Ok(template)
    }

    /// Makes a booted template known, and starts the task that sends what it is told.
    fn enlist(&self, template: &Template, kill: Rc<Notify>) {
        let (outbox, letters) = mpsc::unbounded_channel();
        spawn_local(send_all(template.channel(), letters));
        let mut inner = self.inner.borrow_mut();
        let task = inner.template.take().and_then(|handle| handle.task);
        inner.template = Some(TemplateHandle {
            pid: Some(template.pid()),
            started: template.started(),
            kill,
            outbox,
            task,
        });
    }

    fn keep_task(&self, task: tokio::task::JoinHandle<()>) {
        if let Some(handle) = &mut self.inner.borrow_mut().template {
            handle.task = Some(task);
        }
    }

    /// Takes the template's messages until its end.
    async fn run_template(self: Rc<Self>, mut template: Template, kill: Rc<Notify>) {
        loop {
            tokio::select! {
                biased;
                message = template.next() => match message {
                    Ok(Some(received)) => self.template_says(received),
                    Ok(None) => break,
                    Err(error) => {
                        let reason = error.to_string();
                        self.dispatcher.note(&Note::TemplateMisbehaved { reason });
                        template.kill();
                        break;
                    }
                },
                () = kill.notified() => template.kill(),
            }
        }
        let stopping = self.inner.borrow().pool.stopping();
        if self.inner.borrow().pool.no_workers() {
            template.terminate_group();
        }
        let pid = template.pid();
        let ending = template.end(std::time::Duration::ZERO).await;
        if !stopping {
            let status = ending.to_string();
            self.dispatcher.note(&Note::TemplateEnded { pid, status });
        }
        self.inner.borrow_mut().template = None;
        self.handle(Event::TemplateDied);
    }

    fn template_says(self: &Rc<Self>, received: Received<FromTemplate>) {
        match received.message {
            FromTemplate::Forked { worker, pid } => {
                let pidfd = received.fds.into_iter().next();
                // Without one: the worker is not reaped before its own pidfd tells the template of its end.
                let pidfd = pidfd.or_else(|| open_pidfd(pid));
                let mut inner = self.inner.borrow_mut();
                let child = inner.children.get_mut(usize::from(worker));
                if let (Some(Some(child)), Some(pidfd)) = (child, pidfd) {
                    child.forked(pid, pidfd);
                }
                drop(inner);
                self.handle(Event::Forked { worker });
            }
            FromTemplate::Exited {
                worker,
                pid,
                status,
            } => {
                if !self.inner.borrow().pool.stopping() {
                    self.dispatcher.note(&Note::WorkerEnded {
                        worker,
                        pid,
                        status,
                    });
                }
            }
            FromTemplate::Booted { .. } | FromTemplate::BootFailed { .. } => {
                let reason = "it booted twice".to_owned();
                self.dispatcher.note(&Note::TemplateMisbehaved { reason });
            }
        }
    }

    /// Watches one life of a worker.
    pub(crate) async fn watch(
        self: Rc<Self>,
        worker: u16,
        life: u32,
        channel: Channel,
        mut process: oneshot::Receiver<OwnedFd>,
    ) {
        let mut open = true;
        let mut pidfd: Option<Pidfd> = None;
        loop {
            let ended = async {
                match &pidfd {
                    Some(pidfd) => pidfd.ended().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                message = channel.receive(), if open => match message {
                    Ok(Some(received)) => self.worker_says(worker, life, received),
                    Ok(None) => open = false,
                    Err(error) => {
                        open = false;
                        self.misbehaved(worker, error.to_string());
                    }
                },
                () = ended => break,
                fd = &mut process, if pidfd.is_none() => match fd.map(Pidfd::new) {
                    Ok(Ok(fd)) => pidfd = Some(fd),
                    // It cannot be watched, so it must not live; see `Child::forked`.
                    Ok(Err(_)) | Err(_) => {
                        self.kill_worker(worker);
                        break;
                    }
                },
            }
        }
        while let Some(received) = channel.take() {
            self.worker_says(worker, life, received);
        }
        self.note_orphan(worker);
        // The child goes with the event, and with it this task: nothing may follow.
        self.handle(Event::Died { worker, life });
    }

    /// Logs the end of a worker that has no template to tell of it.
    fn note_orphan(&self, worker: u16) {
        let inner = self.inner.borrow();
        let child = inner.children[usize::from(worker)].as_ref();
        let pid = child.and_then(|child| child.pid);
        let quiet = inner.pool.stopping() || inner.pool.template_up();
        drop(inner);
        if let (Some(pid), false) = (pid, quiet) {
            let status = Ending::Unknown.to_string();
            self.dispatcher.note(&Note::WorkerEnded {
                worker,
                pid,
                status,
            });
        }
    }

    fn worker_says(self: &Rc<Self>, worker: u16, life: u32, received: Received<FromWorker>) {
        match received.message {
            FromWorker::Ready { pid, .. } => {
                self.introduce(worker, pid);
                self.handle(Event::Ready { worker, life });
            }
            FromWorker::Hijack { slot, sequence, .. } => match received.only_fd() {
                Ok(socket) => self.dispatcher.hijacked(worker, slot, sequence, socket),
                Err(error) => self.misbehaved(worker, error.to_string()),
            },
            FromWorker::Error { message } => {
                self.dispatcher.note(&Note::Worker { worker, message });
            }
        }
    }

    /// Shows a worker whose process the template has not told yet. For the status only: signals go by pidfd.
    fn introduce(&self, worker: u16, pid: i32) {
        if let Some(child) = &mut self.inner.borrow_mut().children[usize::from(worker)] {
            child.pid.get_or_insert(pid);
        }
    }

    fn misbehaved(&self, worker: u16, reason: String) {
        self.dispatcher.note(&Note::Misbehaved { worker, reason });
        self.kill_worker(worker);
    }
}

fn open_pidfd(pid: i32) -> Option<OwnedFd> {
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
