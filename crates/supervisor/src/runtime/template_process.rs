//! The template's process: starting it, booting the application in it, and its end. Decides nothing about
//! workers, and leaves no process behind when it is dropped.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::thread;
use std::time::{Duration, SystemTime};

use exchange::control::{FromTemplate, Received, Start, ToTemplate};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, getpgid, getpgrp, kill_process_group,
    pidfd_open, pidfd_send_signal, waitid,
};

use crate::launcher::handle::Launcher;
use crate::launcher::messages::GroupSignal;
use crate::launcher::program::Program;
use crate::rules::pool::TEMPLATE_EXIT_TIMEOUT;
use crate::runtime::channel::{Channel, Pidfd};
use crate::runtime::exit_status::{ExitStatus, KILL_TIMEOUT};
use crate::runtime::load::{BootError, Booted, Load, Plan};
use crate::runtime::orphans::Own;
use crate::runtime::process_group::ProcessGroup;
use crate::runtime::runtime_options;

/// A running template. Dropping it kills it and every process of its process group that is left.
#[derive(Debug)]
pub struct TemplateProcess {
    pid: Pid,
    pidfd: Pidfd,
    channel: Rc<Channel>,
    started: SystemTime,
    /// By now, or by the one that it was left to.
    reaped: bool,
    parent: Parent,
}

/// Whose child a template is: only that process can signal and reap it.
#[derive(Debug)]
enum Parent {
    /// This process, which keeps [`crate::orphans::reap`] from reaping it.
    Front { _own: Own },
    /// The launcher of the application's user, which knows it by this number.
    Launcher(Rc<Launcher>, u32),
    /// A worker that has ended since, or soon will; whoever adopts orphans reaps it.
    Worker,
}

impl TemplateProcess {
    /// Starts the interpreter, by the `launcher` of the application's user where it has one of its own; needs a tokio runtime.
    ///
    /// # Errors
    /// [`BootError::Spawn`].
    pub async fn spawn(load: &Load, launcher: Option<&Rc<Launcher>>) -> Result<Self, BootError> {
        let spawned = Self::try_spawn(&load.plan, &load.start, launcher).await;
        spawned.map_err(|reason| BootError::Spawn {
            ruby: load.plan.ruby.clone(),
            app: load.start.app.clone(),
            user: launcher.map_or_else(String::new, |one| format!(" as user {}", one.user())),
            reason,
        })
    }

    async fn try_spawn(
        plan: &Plan,
        start: &Start,
        launcher: Option<&Rc<Launcher>>,
    ) -> io::Result<Self> {
        let (channel, far) = Channel::pair()?;
        let program = interpreter(plan, start)?;
        let (pid, pidfd, parent) = match launcher {
            None => start_here(&program, far)?,
            Some(launcher) => {
                let started = launcher.start(program, far).await?;
                let pid = Pid::from_raw(started.pid).ok_or(io::ErrorKind::InvalidData)?;
                let parent = Parent::Launcher(Rc::clone(launcher), started.id);
                (pid, started.pidfd, parent)
            }
        };
        Ok(Self {
            pid,
            pidfd: Pidfd::new(pidfd)?,
            channel: Rc::new(channel),
            started: SystemTime::now(),
            reaped: false,
            parent,
        })
    }

    /// A template that a worker has forked, a process of the server's own user.
    ///
    /// # Errors
    /// There is no such process, or it can't be put on the runtime.
    pub(crate) fn of_worker(pid: i32, pidfd: OwnedFd, channel: Rc<Channel>) -> io::Result<Self> {
        let pid = Pid::from_raw(pid.max(0)).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Self {
            pid,
            pidfd: Pidfd::new(pidfd)?,
            channel,
            started: SystemTime::now(),
            reaped: false,
            parent: Parent::Worker,
        })
    }

    /// The process group that it is in but does not lead; none where that is this process's own.
    pub(crate) fn group(&self) -> Option<ProcessGroup> {
        let number = match &self.parent {
            Parent::Worker => getpgid(Some(self.pid)).ok()?,
            Parent::Front { .. } | Parent::Launcher(..) => return None,
        };
        let pidfd = self.pidfd.descriptor();
        (number != getpgrp()).then_some(ProcessGroup { number, pidfd })
    }

    /// Has the application loaded within so long, at [low priority](Start::low_priority) or not.
    ///
    /// # Errors
    /// Why it was not; the process is to be dropped then. [`BootError::Starved`] only at a low priority.
    pub async fn boot(
        &mut self,
        load: &Load,
        low_priority: bool,
        within: Duration,
    ) -> Result<Booted, BootError> {
        let start = ToTemplate::Start(Box::new(Start {
            low_priority,
            ..load.start.clone()
        }));
        let exchange = load.exchange.each_ref().map(AsFd::as_fd);
        let answer = async {
            // Where it has ended already, how it ended says more than the broken pipe.
            if let Err(error) = self.channel.send(&start, &exchange).await
                && !matches!(&error, exchange::control::Error::Io(error)
                    if error.kind() == io::ErrorKind::BrokenPipe)
            {
                return Err(error);
            }
            self.next().await
        };
        let answer = tokio::time::timeout(within, answer)
            .await
            .map_err(|_| self.too_late(within, low_priority))??;
        match answer.map(|received| received.message) {
            Some(FromTemplate::Booted {
                pid: _,
                ruby,
                rack,
                seconds,
                held,
                gems,
                filter_parameters,
                public_folder,
                runtime,
            }) => Ok(Booted {
                pid: self.pid(),
                ruby,
                rack,
                seconds,
                held,
                gems,
                filter_parameters,
                public_folder,
                runtime: runtime_options::checked(runtime),
            }),
            Some(FromTemplate::BootFailed {
                class,
                message,
                backtrace,
            }) => {
                self.end(TEMPLATE_EXIT_TIMEOUT).await;
                Err(BootError::Raised {
                    class,
                    message,
                    backtrace,
                })
            }
            Some(other) => Err(BootError::Control(exchange::control::Error::Malformed(
                format!("no answer to the start: {other:?}"),
            ))),
            None => Err(BootError::Ended(self.end(TEMPLATE_EXIT_TIMEOUT).await)),
        }
    }

    /// What it means that it has not loaded in time.
    fn too_late(&self, limit: Duration, low_priority: bool) -> BootError {
        // Its main thread waits for a core and for nothing else.
        let is_runnable = || proc::stat(self.pid()).is_some_and(|stat| stat.state == 'R');
        if low_priority && is_runnable() {
            // At normal priority it might have loaded in time.
            BootError::Starved
        } else {
            BootError::Timeout(limit)
        }
    }

    /// The next message; `None` once the process has ended and everything it sent was taken.
    pub(crate) async fn next(
        &self,
    ) -> Result<Option<Received<FromTemplate>>, exchange::control::Error> {
        tokio::select! {
            biased;
            received = self.channel.receive() => match received? {
                Some(received) => Ok(Some(received)),
                None => {
                    // It can tell nothing more; whether it goes on is no matter.
                    self.ended_within(TEMPLATE_EXIT_TIMEOUT).await;
                    Ok(None)
                }
            },
            () = self.pidfd.ended() => Ok(self.channel.take()),
            // Nobody could end it later.
            () = self.launcher_ended() => Ok(None),
        }
    }

    async fn launcher_ended(&self) {
        match &self.parent {
            Parent::Front { .. } | Parent::Worker => std::future::pending().await,
            Parent::Launcher(launcher, _) => drop(launcher.ended().await),
        }
    }

    /// Its process.
    pub fn pid(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    pub(crate) fn started(&self) -> SystemTime {
        self.started
    }

    pub(crate) fn channel(&self) -> Rc<Channel> {
        Rc::clone(&self.channel)
    }

    /// Kills the template alone; its workers go on.
    pub(crate) fn kill(&self) {
        self.signal(GroupSignal::Kill);
    }

    fn signal(&self, signal: GroupSignal) {
        if self.reaped {
            return;
        }
        // It may have ended. Its number is its own until it is reaped.
        let _ = match (&self.parent, signal) {
            (Parent::Launcher(launcher, id), signal) => {
                launcher.signal(*id, signal);
                Ok(())
            }
            (Parent::Front { .. }, GroupSignal::Kill) => {
                pidfd_send_signal(&self.pidfd, Signal::KILL)
            }
            (Parent::Front { .. }, GroupSignal::KillGroup) => {
                let _ = pidfd_send_signal(&self.pidfd, Signal::KILL);
                kill_process_group(self.pid, Signal::KILL)
            }
            (Parent::Front { .. }, GroupSignal::TerminateGroup) => {
                kill_process_group(self.pid, Signal::TERM)
            }
            // Its group is the workers', see `ProcessGroup`.
            (Parent::Worker, GroupSignal::TerminateGroup) => Ok(()),
            (Parent::Worker, GroupSignal::Kill | GroupSignal::KillGroup) => {
                pidfd_send_signal(&self.pidfd, Signal::KILL)
            }
        };
    }

    /// Has the template leave, for a boot that was only a check.
    pub async fn leave(mut self) {
        if self.channel.send(&ToTemplate::Exit, &[]).await.is_ok() {
            self.ended_within(TEMPLATE_EXIT_TIMEOUT).await;
        }
        self.terminate_group();
        self.end(Duration::ZERO).await;
    }

    /// Waits for its end, kills it after `patience`, and reaps it. One that the kernel does not end in time is left to it;
    /// its workers go on.
    pub(crate) async fn end(&mut self, patience: Duration) -> ExitStatus {
        if let Parent::Launcher(launcher, _) = &self.parent
            && launcher.has_ended()
        {
            // It ends at the end of its control socket.
            self.reaped = true;
            return ExitStatus::Unknown;
        }
        if !self.ended_within(patience).await {
            self.kill();
            if !self.ended_within(KILL_TIMEOUT).await {
                self.leave_to_reaper();
                return ExitStatus::Unknown;
            }
        }
        self.reap().await
    }

    async fn ended_within(&self, limit: Duration) -> bool {
        let ended = tokio::time::timeout(limit, self.pidfd.ended());
        ended.await.is_ok()
    }

    /// Kills it and, where it has a process group of its own, what it started.
    pub(crate) fn kill_group(&self) {
        self.signal(GroupSignal::KillGroup);
    }

    /// Asks the processes that the application started itself to end. Only before the template is reaped:
    /// afterwards the number of its group may be another's.
    pub(crate) fn terminate_group(&self) {
        self.signal(GroupSignal::TerminateGroup);
    }

    async fn reap(&mut self) -> ExitStatus {
        self.reaped = true;
        match &self.parent {
            // Where this process is the first of its namespace it may be the parent by now.
            Parent::Front { .. } | Parent::Worker => reap(self.pidfd.as_fd()),
            Parent::Launcher(launcher, id) => {
                let status = tokio::time::timeout(KILL_TIMEOUT, launcher.reap(*id)).await;
                status
                    .ok()
                    .and_then(Result::ok)
                    .unwrap_or(ExitStatus::Unknown)
            }
        }
    }

    /// Has another thread reap what was killed: the kernel may take its time, above all where the process waits for a disk,
    /// and this thread is the front's. With no thread or descriptor to be had it has to wait itself.
    fn leave_to_reaper(&mut self) {
        self.reaped = true;
        match &self.parent {
            Parent::Launcher(launcher, id) => return drop(launcher.reap(*id)),
            Parent::Worker => return,
            Parent::Front { .. } => {}
        }
        let waits = self.pidfd.as_fd().try_clone_to_owned().and_then(|pidfd| {
            let wait = move || reap(pidfd.as_fd());
            thread::Builder::new().name("reaper".to_owned()).spawn(wait)
        });
        if waits.is_err() {
            reap(self.pidfd.as_fd());
        }
    }
}

/// The interpreter as the program of a template.
fn interpreter(plan: &Plan, start: &Start) -> io::Result<Program> {
    let text = |path: &std::path::Path| {
        let text = path.to_str().map(str::to_owned);
        text.ok_or_else(|| io::Error::other(format!("the path {} is not in UTF-8", path.display())))
    };
    let template = plan.library.join("highball/template.rb");
    let environment = ["RACK_ENV", "RAILS_ENV"];
    let environment = environment.map(|name| (name.to_owned(), start.environment.clone()));
    Ok(Program {
        path: plan.ruby.clone(),
        arguments: vec!["-I".to_owned(), text(&plan.library)?, text(&template)?],
        folder: start.app.clone(),
        removed: plan.own_variables.clone(),
        variables: environment
            .into_iter()
            .chain(plan.variables.clone())
            .collect(),
        // Ctrl-C in a terminal is for the front alone. A debugger reads from the terminal, which only the job in the
        // foreground may: then it is the server's own group, and what the application starts is not killed with it.
        own_group: start.terminal.is_none(),
        descriptors: plan.descriptors,
    })
}

/// Starts a program as a child of this process.
fn start_here(program: &Program, stdin: OwnedFd) -> io::Result<(Pid, OwnedFd, Parent)> {
    let child = program.start(stdin)?;
    let pid = Pid::from_child(&child);
    let own = Own::new(pid);
    // Only this process reaps it, so the number cannot be another process's.
    let pidfd = pidfd_open(pid, PidfdFlags::empty())?;
    Ok((pid, pidfd, Parent::Front { _own: own }))
}

/// Waits for the end of a child, and takes its status from the kernel.
fn reap(pidfd: BorrowedFd<'_>) -> ExitStatus {
    let ended = waitid(WaitId::PidFd(pidfd), WaitIdOptions::EXITED);
    let status = ended.ok().flatten();
    status.map_or(ExitStatus::Unknown, ExitStatus::from)
}

impl Drop for TemplateProcess {
    fn drop(&mut self) {
        if !self.reaped {
            self.kill_group();
            self.leave_to_reaper();
        }
    }
}
