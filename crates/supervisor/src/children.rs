//! The workers as processes: pid, pidfd and control socket of each one's present life. Kills them when it
//! is dropped; decides nothing.

use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::time::SystemTime;

use exchange::control::ToWorker;
use rustix::process::{Signal, pidfd_send_signal};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

use crate::channel::Channel;

/// One life of a worker.
#[derive(Debug)]
pub(crate) struct Child {
    /// For people. Absent until the template or the worker has told it.
    pub(crate) pid: Option<i32>,
    pub(crate) started: SystemTime,
    pidfd: Option<OwnedFd>,
    /// Where the task that watches it waits for its pidfd.
    watcher: Option<oneshot::Sender<OwnedFd>>,
    /// To be killed as soon as its process is known.
    doomed: bool,
    /// Its control socket.
    channel: Rc<Channel>,
    task: AbortHandle,
}

impl Child {
    /// A worker that the template is asked to fork, watched by `task`.
    pub(crate) fn new(
        channel: Rc<Channel>,
        watcher: oneshot::Sender<OwnedFd>,
        task: AbortHandle,
    ) -> Self {
        Self {
            pid: None,
            started: SystemTime::now(),
            pidfd: None,
            watcher: Some(watcher),
            doomed: false,
            channel,
            task,
        }
    }

    /// Its process is known.
    pub(crate) fn forked(&mut self, pid: i32, pidfd: OwnedFd) {
        self.pid = Some(pid);
        self.started = SystemTime::now();
        let copy = pidfd.try_clone();
        self.pidfd = Some(pidfd);
        if let (Some(watcher), Ok(copy)) = (self.watcher.take(), copy) {
            // The watcher is gone only when the worker was abandoned.
            let _ = watcher.send(copy);
        } else {
            // Out of descriptors: what cannot be watched must not live. The watcher sees the end of the
            // channel and takes it for the worker's.
            self.kill();
        }
        if self.doomed {
            self.kill();
        }
    }

    /// Tells it something, if it takes messages: one that stands still need not hear of more than its socket holds.
    pub(crate) fn tell(&self, message: &ToWorker) {
        let _ = self.channel.try_send(message, &[]);
    }

    /// Kills it, now or as soon as its process is known.
    pub(crate) fn kill(&mut self) {
        self.doomed = true;
        if let Some(pidfd) = &self.pidfd {
            // It may be gone already.
            let _ = pidfd_send_signal(pidfd.as_fd(), Signal::KILL);
        }
    }
}

impl Drop for Child {
    /// Closes its control socket, at whose end it leaves by itself, and kills it where that is possible.
    fn drop(&mut self) {
        self.task.abort();
        self.kill();
    }
}
