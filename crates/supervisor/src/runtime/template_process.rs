//! The template's process: starting it, booting the application in it, and its end. Decides nothing about
//! workers, and leaves no process behind when it is dropped.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::thread;
use std::time::{Duration, SystemTime};

use exchange::control::{FromTemplate, Received, Start, ToTemplate};
use rustix::process::{
    Pid, PidfdFlags, Resource, Rlimit, Signal, WaitId, WaitIdOptions, getrlimit,
    kill_process_group, pidfd_open, pidfd_send_signal, prlimit, waitid,
};

use crate::rules::pool::TEMPLATE_EXIT_TIMEOUT;
use crate::runtime::channel::{Channel, Pidfd};
use crate::runtime::exit_status::{ExitStatus, KILL_TIMEOUT};
use crate::runtime::load::{BootError, Booted, Load, Plan};
use crate::runtime::orphans::Own;

/// A running template. Dropping it kills it and every process of its process group that is left.
#[derive(Debug)]
pub struct TemplateProcess {
    pid: Pid,
    pidfd: Pidfd,
    channel: Rc<Channel>,
    started: SystemTime,
    /// By now, or by the thread that it was left to.
    reaped: bool,
    /// Keeps [`crate::orphans::reap`] from reaping it.
    _own: Own,
}

impl TemplateProcess {
    /// Starts the interpreter; needs a tokio runtime.
    ///
    /// # Errors
    /// [`BootError::Spawn`].
    pub fn spawn(load: &Load) -> Result<Self, BootError> {
        Self::try_spawn(&load.plan, &load.start).map_err(|reason| BootError::Spawn {
            ruby: load.plan.ruby.clone(),
            app: load.start.app.clone(),
            reason,
        })
    }

    fn try_spawn(plan: &Plan, start: &Start) -> io::Result<Self> {
        let (channel, far) = Channel::pair()?;
        let mut command = Command::new(&plan.ruby);
        command
            .arg("-I")
            .arg(&plan.library)
            .arg(plan.library.join("highball/template.rb"))
            .current_dir(&start.app)
            .env("RACK_ENV", &start.environment)
            .env("RAILS_ENV", &start.environment)
            .stdin(Stdio::from(far));
        if start.terminal.is_none() {
            // Ctrl-C in a terminal is for the front alone. A debugger reads from the terminal, which only the job in the
            // foreground may: then it is the server's own group, and what the application starts is not killed with it.
            command.process_group(0);
        }
        for name in &plan.own_variables {
            command.env_remove(name);
        }
        for (name, value) in &plan.variables {
            command.env(name, value);
        }
        if std::env::var_os("MALLOC_ARENA_MAX").is_none() {
            // Threads of one worker share arenas: less memory.
            command.env("MALLOC_ARENA_MAX", "2");
        }
        let child = command.spawn()?;
        let pid = Pid::from_child(&child);
        let own = Own::new(pid);
        limit_descriptors(pid, plan.descriptors);
        // Only this process reaps it, so the number cannot be another process's.
        let pidfd = Pidfd::new(pidfd_open(pid, PidfdFlags::empty())?)?;
        Ok(Self {
            pid,
            pidfd,
            channel: Rc::new(channel),
            started: SystemTime::now(),
            reaped: false,
            _own: own,
        })
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
        let start = ToTemplate::Start(Start {
            low_priority,
            ..load.start.clone()
        });
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
            }) => Ok(Booted {
                pid: self.pid(),
                ruby,
                rack,
                seconds,
                held,
                gems,
                filter_parameters,
                public_folder,
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
        if !self.reaped {
            let _ = pidfd_send_signal(&self.pidfd, Signal::KILL);
        }
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
        if !self.ended_within(patience).await {
            self.kill();
            if !self.ended_within(KILL_TIMEOUT).await {
                self.leave_to_reaper();
                return ExitStatus::Unknown;
            }
        }
        self.reap()
    }

    async fn ended_within(&self, limit: Duration) -> bool {
        let ended = tokio::time::timeout(limit, self.pidfd.ended());
        ended.await.is_ok()
    }

    /// Kills it and, where it has a process group of its own, what it started.
    pub(crate) fn kill_group(&self) {
        self.kill();
        if !self.reaped {
            let _ = kill_process_group(self.pid, Signal::KILL);
        }
    }

    /// Asks the processes that the application started itself to end. Only before the template is reaped:
    /// afterwards the number of its group may be another's.
    pub(crate) fn terminate_group(&self) {
        if !self.reaped {
            let _ = kill_process_group(self.pid, Signal::TERM);
        }
    }

    fn reap(&mut self) -> ExitStatus {
        self.reaped = true;
        reap(self.pidfd.as_fd())
    }

    /// Has another thread reap what was killed: the kernel may take its time, above all where the process waits for a disk,
    /// and this thread is the front's. With no thread or descriptor to be had it has to wait itself.
    fn leave_to_reaper(&mut self) {
        let waits = self.pidfd.as_fd().try_clone_to_owned().and_then(|pidfd| {
            let wait = move || reap(pidfd.as_fd());
            thread::Builder::new().name("reaper".to_owned()).spawn(wait)
        });
        self.reaped = true;
        if waits.is_err() {
            self.reap();
        }
    }
}

/// Sets the soft limit of a template, before it is told to load anything.
fn limit_descriptors(pid: Pid, soft: Option<u64>) {
    let Some(soft) = soft else { return };
    let limit = Rlimit {
        current: Some(soft),
        maximum: getrlimit(Resource::Nofile).maximum,
    };
    // Where the kernel refuses it has more of them.
    let _ = prlimit(Some(pid), Resource::Nofile, limit);
}

/// Waits for the end of a child, and takes its status from the kernel.
fn reap(pidfd: BorrowedFd<'_>) -> ExitStatus {
    let status = waitid(WaitId::PidFd(pidfd), WaitIdOptions::EXITED);
    status
        .ok()
        .flatten()
        .map_or(ExitStatus::Unknown, ExitStatus::from)
}

impl Drop for TemplateProcess {
    fn drop(&mut self) {
        if !self.reaped {
            self.kill_group();
            self.leave_to_reaper();
        }
    }
}
