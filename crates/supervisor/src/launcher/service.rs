//! What a launcher does, in its own process: starts programs, signals them, reaps them and reads their memory, as its servers
//! ask. It decides nothing, runs no Ruby, and ends with its last server; what a server has started ends with that one.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;

use exchange::control::{self, Received};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, getgid, getpid, getuid, kill_process,
    kill_process_group, pidfd_open, pidfd_send_signal, waitid,
};
use tokio::runtime::{Builder, LocalOptions};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::{JoinSet, spawn_blocking, spawn_local};

use crate::launcher::messages::{FromLauncher, GroupSignal, ToLauncher, VERSION};
use crate::launcher::program::Program;
use crate::runtime::channel::{Channel, Pidfd};
use crate::runtime::exit_status::ExitStatus;

/// The most servers that a launcher serves: a running one and the one that replaces it, with some room for those that
/// have failed and are not gone yet.
const MAX_SERVERS: usize = 8;
/// Signals that people and service managers send to all processes of a server: its launchers end with it, and not before.
const IGNORED: [SignalKind; 4] = [
    SignalKind::hangup(),
    SignalKind::interrupt(),
    SignalKind::quit(),
    SignalKind::terminate(),
];

/// Serves the server at the other end of `socket`, and those that it connects, until the last of them is gone. Call it in a
/// process of its own, which has no rights but those of its user.
///
/// # Errors
/// There are no descriptors for a runtime.
pub fn serve(socket: OwnedFd) -> io::Result<()> {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build_local(LocalOptions::default())?;
    let result = runtime.block_on(serve_all(socket));
    // A thread that reads memory may wait for the kernel.
    runtime.shutdown_background();
    result
}

/// Tells the server at the other end that this process cannot be a launcher. The server may be gone.
pub fn refuse(socket: &OwnedFd, reason: String) {
    let _ = control::try_send(socket, &FromLauncher::Failed { reason }, &[]);
}

async fn serve_all(first: OwnedFd) -> io::Result<()> {
    // Handlers, for what is ignored by name would be ignored by the programs that are started too.
    let _handlers: Vec<_> = IGNORED.into_iter().map(signal).collect::<Result<_, _>>()?;
    let (connect, mut connected) = mpsc::unbounded_channel();
    let measuring = Arc::new(Semaphore::new(1));
    let client = |socket| Client::new(socket, connect.clone(), Arc::clone(&measuring));
    let mut clients = JoinSet::new();
    clients.spawn_local(client(first)?.run());
    loop {
        tokio::select! {
            // A server that is replaced may connect the next one and end at once.
            biased;
            Some(socket) = connected.recv() => {
                if clients.len() < MAX_SERVERS && let Ok(client) = client(socket) {
                    clients.spawn_local(client.run());
                }
            }
            _ = clients.join_next() => {
                if clients.is_empty() && connected.is_empty() {
                    return Ok(());
                }
            }
        }
    }
}

/// A server.
struct Client {
    channel: Rc<Channel>,
    /// Processes that it has started and not had reaped.
    processes: RefCell<HashMap<u32, Process>>,
    /// Takes the sockets of further servers.
    connect: mpsc::UnboundedSender<OwnedFd>,
    /// Held by the thread that reads memory.
    measuring: Arc<Semaphore>,
}

/// A process that was started, and has not been reaped.
struct Process {
    pid: Pid,
    pidfd: OwnedFd,
}

impl Client {
    fn new(
        socket: OwnedFd,
        connect: mpsc::UnboundedSender<OwnedFd>,
        measuring: Arc<Semaphore>,
    ) -> io::Result<Self> {
        Ok(Self {
            channel: Rc::new(Channel::new(socket)?),
            processes: RefCell::default(),
            connect,
            measuring,
        })
    }

    async fn run(self) {
        let hello = FromLauncher::Hello {
            version: VERSION,
            pid: getpid().as_raw_nonzero().get(),
            uid: getuid().as_raw(),
            gid: getgid().as_raw(),
        };
        if self.channel.send(&hello, &[]).await.is_ok() {
            self.answer_all().await;
        }
        for (_, process) in self.processes.take() {
            process.signal(GroupSignal::KillGroup);
            // For another server this process may go on.
            spawn_local(process.reap());
        }
    }

    async fn answer_all(&self) {
        loop {
            match self.channel.receive::<ToLauncher>().await {
                Ok(Some(received)) => {
                    if let Some(answer) = self.act_on(received)
                        && self.send(&answer).await.is_err()
                    {
                        return;
                    }
                }
                // What is no message may be that of a newer server.
                Err(control::Error::Malformed(_)) => {}
                Ok(None) | Err(_) => return,
            }
        }
    }

    async fn send(&self, answer: &FromLauncher) -> Result<(), control::Error> {
        let pidfd = match answer {
            FromLauncher::Started { id, .. } => {
                let processes = self.processes.borrow();
                let process = processes.get(id);
                process.and_then(|process| process.pidfd.try_clone().ok())
            }
            _ => None,
        };
        let fds: Vec<_> = pidfd.iter().map(AsFd::as_fd).collect();
        self.channel.send(answer, &fds).await
    }

    /// Does what is asked. Returns the answer, if it is there at once.
    fn act_on(&self, received: Received<ToLauncher>) -> Option<FromLauncher> {
        let fd = received.fds.into_iter().next();
        match received.message {
            ToLauncher::Start { id, program } => return Some(self.start(id, &program, fd)),
            ToLauncher::Signal { id, signal } => {
                if let Some(process) = self.processes.borrow().get(&id) {
                    process.signal(signal);
                }
            }
            ToLauncher::Reap { id } => self.reap(id),
            ToLauncher::Kill { pid } => kill(pid, fd),
            ToLauncher::Measure { id, pids } => self.measure(id, pids),
            ToLauncher::Connect => {
                // The task that serves them ends last.
                let _ = fd.map(|socket| self.connect.send(socket));
            }
        }
        None
    }

    fn start(&self, id: u32, program: &Program, stdin: Option<OwnedFd>) -> FromLauncher {
        match start(program, stdin) {
            Ok(process) => {
                let pid = process.pid.as_raw_nonzero().get();
                self.processes.borrow_mut().insert(id, process);
                FromLauncher::Started { id, pid }
            }
            Err(error) => FromLauncher::NotStarted {
                id,
                reason: error.to_string(),
            },
        }
    }

    fn reap(&self, id: u32) {
        let process = self.processes.borrow_mut().remove(&id);
        let channel = Rc::clone(&self.channel);
        spawn_local(async move {
            let status = match process {
                Some(process) => process.reap().await,
                None => ExitStatus::Unknown,
            };
            // The server may be gone.
            let _ = channel.send(&FromLauncher::Ended { id, status }, &[]).await;
        });
    }

    fn measure(&self, id: u32, pids: Vec<i32>) {
        let (channel, measuring) = (Rc::clone(&self.channel), Arc::clone(&self.measuring));
        spawn_local(async move {
            // One at a time: where the kernel does not answer, another call leaves no further thread behind.
            let Ok(turn) = measuring.acquire_owned().await else {
                return;
            };
            let measured = spawn_blocking(move || {
                let figures = pids.into_iter().filter_map(figures_of).collect();
                drop(turn);
                figures
            });
            let figures = measured.await.unwrap_or_default();
            let answer = FromLauncher::Measured { id, figures };
            let _ = channel.send(&answer, &[]).await;
        });
    }
}

fn start(program: &Program, stdin: Option<OwnedFd>) -> io::Result<Process> {
    let stdin = stdin.ok_or_else(|| io::Error::other("no descriptors are left"))?;
    let mut child = program.start(stdin)?;
    let pid = Pid::from_child(&child);
    match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(pidfd) => Ok(Process { pid, pidfd }),
        Err(error) => {
            // What could not be watched must not live.
            let _ = child.kill();
            let _ = child.wait();
            Err(error.into())
        }
    }
}

impl Process {
    fn signal(&self, signal: GroupSignal) {
        if signal != GroupSignal::TerminateGroup {
            // It may have ended.
            let _ = pidfd_send_signal(&self.pidfd, Signal::KILL);
        }
        // Its number is its own until it is reaped.
        let _ = match signal {
            GroupSignal::Kill => Ok(()),
            GroupSignal::KillGroup => kill_process_group(self.pid, Signal::KILL),
            GroupSignal::TerminateGroup => kill_process_group(self.pid, Signal::TERM),
        };
    }

    /// Waits for its end, and reaps it.
    async fn reap(self) -> ExitStatus {
        if let Ok(fd) = self.pidfd.try_clone()
            && let Ok(pidfd) = Pidfd::new(fd)
        {
            pidfd.ended().await;
        }
        let status = waitid(WaitId::PidFd(self.pidfd.as_fd()), WaitIdOptions::EXITED);
        let status = status.ok().flatten();
        status.map_or(ExitStatus::Unknown, ExitStatus::from)
    }
}

/// Kills a process that another one has started.
fn kill(pid: i32, pidfd: Option<OwnedFd>) {
    // It may have ended.
    let _ = match (pidfd, Pid::from_raw(pid.max(0))) {
        (Some(pidfd), _) => pidfd_send_signal(pidfd, Signal::KILL),
        (None, Some(pid)) => kill_process(pid, Signal::KILL),
        (None, None) => Ok(()),
    };
}

fn figures_of(pid: i32) -> Option<(i32, [u64; 6])> {
    let memory = proc::memory_of(pid)?;
    let figures = [
        memory.rss,
        memory.pss,
        memory.private_clean,
        memory.private_dirty,
        memory.private_huge,
        memory.swap_pss,
    ];
    Some((pid, figures))
}
