//! The task that watches one life of a worker: takes its messages, and brings its end to the pool.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::pin::pin;
use std::rc::Rc;

use exchange::WorkerId;
use exchange::control::{FromWorker, Received, ToWorker};
use tokio::sync::oneshot;
use tokio::task::{AbortHandle, spawn_local};

use crate::note::WorkerNote;
use crate::rules::pool::Event;
use crate::runtime::channel::Channel;
use crate::runtime::exit_status::ExitStatus;
use crate::runtime::purges::WorkerPurges;
use crate::runtime::shared::Shared;
use crate::runtime::worker_process::{NamedProcess, end_of};

/// One life of a worker, as its task sees it.
struct WorkerTask {
    shared: Rc<Shared>,
    id: WorkerId,
    life: u32,
    channel: Rc<Channel>,
    purges: WorkerPurges,
    /// The claims for which it has got a body, by slot: a worker that asked again and again would fill its socket with
    /// descriptors, of which all of the server's user's processes together may have few on their way.
    bodies: RefCell<BTreeMap<u16, u32>>,
}

impl Shared {
    /// Watches a life of a worker, whose process will be named by `process`.
    pub(super) fn watch_worker(
        self: &Rc<Self>,
        id: WorkerId,
        life: u32,
        channel: Rc<Channel>,
        process: oneshot::Receiver<NamedProcess>,
    ) -> AbortHandle {
        let shared = Rc::clone(self);
        let task = WorkerTask {
            shared,
            id,
            life,
            channel,
            purges: WorkerPurges::default(),
            bodies: RefCell::default(),
        };
        spawn_local(task.run(process)).abort_handle()
    }
}

impl WorkerTask {
    async fn run(self, process: oneshot::Receiver<NamedProcess>) {
        let mut open = true;
        // The end of its control socket is not its end: until then it may write into the exchange.
        let mut ended = pin!(end_of(process));
        loop {
            tokio::select! {
                biased;
                message = self.channel.receive(), if open => match message {
                    Ok(Some(received)) => self.received(received),
                    Ok(None) => open = false,
                    Err(error) => {
                        open = false;
                        self.kill_for(error.to_string());
                    }
                },
                () = &mut ended => break,
            }
        }
        while let Some(received) = self.channel.take() {
            self.received(received);
        }
        self.log_unreported_exit();
        let died = Event::Died {
            worker: self.id.worker,
            life: self.life,
            served: self.shared.dispatcher.has_served(self.id),
        };
        // The worker's handle goes with the event, and with it this task: nothing may follow.
        self.shared.handle(self.id.generation, died);
    }

    fn received(&self, received: Received<FromWorker>) {
        let WorkerId { generation, worker } = self.id;
        let dispatcher = &self.shared.dispatcher;
        match received.message {
            FromWorker::Ready { pid, .. } => {
                self.introduce(pid);
                let life = self.life;
                self.shared
                    .handle(generation, Event::Ready { worker, life });
            }
            FromWorker::Hijack { slot, sequence, .. } => match received.only_fd() {
                Ok(socket) => dispatcher.hijacked(self.id, slot, sequence, socket),
                Err(error) => self.kill_for(error.to_string()),
            },
            FromWorker::Backtrace {
                slot,
                sequence,
                backtrace,
            } => dispatcher.traced(self.id, slot, sequence, &backtrace),
            FromWorker::Body {
                thread,
                slot,
                sequence,
            } => {
                let is_first = self.bodies.borrow().get(&slot) != Some(&sequence);
                let file = is_first
                    .then(|| dispatcher.body(self.id, slot, sequence))
                    .flatten();
                if file.is_some() {
                    self.bodies.borrow_mut().insert(slot, sequence);
                }
                let files: Vec<_> = file.iter().map(AsFd::as_fd).collect();
                let body = ToWorker::Body { thread, sequence };
                // A worker that lets no room in its socket asks for more than it takes.
                let _ = self.channel.try_send(&body, &files);
            }
            FromWorker::Purge { id, what } => {
                let purger = &self.shared.purger;
                self.purges.begin(purger, &self.channel, id, what);
            }
            FromWorker::Inspected { id, text, last } => {
                if let Some(Some(own)) = self.shared.inner.borrow_mut().worker(self.id) {
                    own.inspections.received(id, &text, last);
                }
            }
            FromWorker::Counts { batch } => {
                self.shared.counts.pass_on(generation, Some(worker), &batch)
            }
            FromWorker::Error { message } => {
                let note = WorkerNote::Message(message);
                self.shared.note_worker(self.id, note);
            }
        }
    }

    /// Shows a worker whose process the template has not named yet. For the status only: signals go by pidfd.
    fn introduce(&self, pid: i32) {
        if let Some(Some(own)) = self.shared.inner.borrow_mut().worker(self.id) {
            own.pid.get_or_insert(pid);
        }
    }

    /// Kills the worker, because it did what no worker does.
    fn kill_for(&self, reason: String) {
        let note = WorkerNote::Misbehaved { reason };
        self.shared.note_worker(self.id, note);
        self.shared.kill_worker(self.id);
    }

    /// Logs the end of a worker of which no template reports.
    fn log_unreported_exit(&self) {
        let mut inner = self.shared.inner.borrow_mut();
        let own = inner.worker(self.id);
        let pid = own.and_then(|own| own.as_ref()?.pid);
        let processes = inner.processes.get(&self.id.generation).zip(pid);
        let unreported = processes.filter(|(processes, pid)| !processes.exits.is_reported(*pid));
        let unreported = unreported.map(|(_, pid)| pid);
        drop(inner);
        if let Some(pid) = unreported {
            let status = ExitStatus::Unknown.to_string();
            self.shared.log_exit(self.id, pid, status);
        }
    }
}
