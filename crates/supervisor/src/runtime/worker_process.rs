//! The workers as processes: pid, pidfd and control socket of each one's present life. Kills them when it
//! is dropped; decides nothing.

use std::future::pending;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use exchange::control::ToWorker;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal, test_kill_process,
};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tokio::time::sleep;

use crate::launcher::handle::Launcher;
use crate::runtime::channel::{Channel, Pidfd};
use crate::runtime::inspections::Inspections;

/// Between two polls of a process that has no pidfd.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A worker's process, once its template has named it.
#[derive(Debug)]
pub(crate) struct NamedProcess {
    pid: i32,
    /// Absent where this process could open no more descriptors.
    pidfd: Option<Rc<OwnedFd>>,
}

impl NamedProcess {
    /// Waits until the kernel has ended it.
    pub(crate) async fn ended(self) {
        if let Some(Ok(pidfd)) = self.pidfd.clone().map(Pidfd::new) {
            return pidfd.ended().await;
        }
        while !self.has_ended() {
            sleep(POLL_INTERVAL).await;
        }
    }

    /// Whether the kernel has ended it. Without a descriptor one is asked for again; where there is none, it has ended
    /// when its template, or who came after that, has reaped it.
    fn has_ended(&self) -> bool {
        let Some(pid) = Pid::from_raw(self.pid.max(0)) else {
            return true;
        };
        let opened = match &self.pidfd {
            Some(pidfd) => Ok(Rc::clone(pidfd)),
            None => pidfd_open(pid, PidfdFlags::empty()).map(Rc::new),
        };
        match opened {
            Ok(pidfd) => {
                let mut fds = [PollFd::new(&pidfd, PollFlags::IN)];
                poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
            }
            Err(Errno::SRCH) => true,
            Err(_) => test_kill_process(pid) == Err(Errno::SRCH),
        }
    }
}

/// Waits until the kernel has ended the process that will be named.
pub(crate) async fn end_of(process: oneshot::Receiver<NamedProcess>) {
    match process.await {
        Ok(process) => process.ended().await,
        // Its handle is gone, and takes the task that waits here along.
        Err(_) => pending().await,
    }
}

/// One life of a worker.
#[derive(Debug)]
pub(crate) struct WorkerProcess {
    /// For status and log. Absent until the template or the worker has named it.
    pub(crate) pid: Option<i32>,
    pub(crate) started: SystemTime,
    /// Private memory in bytes, soon after it became ready.
    pub(crate) first_memory: Option<u64>,
    pidfd: Option<Rc<OwnedFd>>,
    /// Where the task that watches it waits for its process.
    watcher: Option<oneshot::Sender<NamedProcess>>,
    /// To be killed as soon as its process is known.
    doomed: bool,
    /// What signals it, where it has another user than this process. Its template could name any process in its place, which
    /// this one must not signal.
    launcher: Option<Rc<Launcher>>,
    /// Its control socket.
    channel: Rc<Channel>,
    /// What operators asked of it.
    pub(crate) inspections: Inspections,
    task: AbortHandle,
}

impl WorkerProcess {
    /// A worker that the template is asked to fork, watched by `task`.
    pub(crate) fn new(
        channel: Rc<Channel>,
        watcher: oneshot::Sender<NamedProcess>,
        task: AbortHandle,
        launcher: Option<Rc<Launcher>>,
    ) -> Self {
        Self {
            pid: None,
            started: SystemTime::now(),
            first_memory: None,
            pidfd: None,
            watcher: Some(watcher),
            doomed: false,
            launcher,
            channel,
            inspections: Inspections::default(),
            task,
        }
    }

    /// Its template has named its process.
    pub(crate) fn forked(&mut self, pid: i32, pidfd: Option<OwnedFd>) {
        self.pid = Some(pid);
        self.started = SystemTime::now();
        self.pidfd = pidfd.map(Rc::new);
        if self.pidfd.is_none() {
            // Out of descriptors: what could not be killed later must not live. The number is still its own: its
            // template names it before it looks whether it has ended.
            match (&self.launcher, Pid::from_raw(pid.max(0))) {
                (Some(launcher), _) => launcher.kill(pid, None),
                (None, Some(pid)) => drop(kill_process(pid, Signal::KILL)),
                (None, None) => {}
            }
        }
        if let Some(watcher) = self.watcher.take() {
            let pidfd = self.pidfd.clone();
            // The watcher is gone only when the worker was abandoned.
            let _ = watcher.send(NamedProcess { pid, pidfd });
        }
        if self.doomed {
            self.kill();
        }
    }

    /// Sends it a message. Returns whether there was room in its socket: a stopped worker reads none.
    pub(crate) fn send(&self, message: &ToWorker) -> bool {
        self.channel.try_send(message, &[]).is_ok()
    }

    /// The same with a descriptor.
    pub(crate) fn send_with(&self, message: &ToWorker, fd: BorrowedFd<'_>) -> bool {
        self.channel.try_send(message, &[fd]).is_ok()
    }

    /// Kills it, now or as soon as its process is known.
    pub(crate) fn kill(&mut self) {
        self.doomed = true;
        let (Some(pidfd), Some(pid)) = (&self.pidfd, self.pid) else {
            return;
        };
        match &self.launcher {
            Some(launcher) => launcher.kill(pid, pidfd.try_clone().ok()),
            // It may be gone already.
            None => drop(pidfd_send_signal(pidfd.as_fd(), Signal::KILL)),
        }
    }
}

impl Drop for WorkerProcess {
    /// Closes its control socket, at whose end it leaves by itself, and kills it where that is possible.
    fn drop(&mut self) {
        self.task.abort();
        self.kill();
    }
}
