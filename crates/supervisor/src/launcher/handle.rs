//! A launcher as its server sees it: asks it, and takes its answers within bounds. A process that its user controls may have
//! taken its place in every way but its socket, so no answer makes this process signal anything.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::Child;
use std::rc::Rc;
use std::time::Duration;

use exchange::control::{self, Received};
use proc::Memory;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Pid;
use tokio::sync::{Mutex, mpsc, oneshot, watch};
use tokio::task::{spawn_blocking, spawn_local};
use tokio::time::timeout;

use crate::launcher::messages::{FromLauncher, GroupSignal, ToLauncher, VERSION};
use crate::launcher::program::Program;
use crate::runtime::channel::Channel;
use crate::runtime::exit_status::ExitStatus;
use crate::runtime::orphans::Own;

/// How long a launcher may take for its first message, and to start a program.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// How long reading the memory of processes may take.
const MEASURE_TIMEOUT: Duration = Duration::from_secs(5);
/// Messages that wait for a launcher, which takes them at once unless it was stopped. One that lets more of them wait is given
/// up.
const MAX_WAITING: usize = 1024;
/// Processes in one question for their memory: the answer must fit into a message.
const MAX_MEASURED: usize = 128;
/// No process holds more, in bytes; whatever a launcher says, sums of figures stay numbers.
const MAX_FIGURE: u64 = 1 << 48;

/// A launcher that has introduced itself, and is not asked yet.
#[derive(Debug)]
pub struct Introduced {
    /// Its user.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// Its process.
    pub pid: i32,
    socket: OwnedFd,
    child: Option<Child>,
}

impl Introduced {
    /// Waits for the first message on the socket to a launcher. `child` is its process, where this process has started it.
    /// Blocks.
    ///
    /// # Errors
    /// It is not there in time, has failed, or speaks another version.
    pub fn await_first(socket: OwnedFd, child: Option<Child>) -> io::Result<Self> {
        let other = |text: String| Err(io::Error::other(text));
        let mut fds = [PollFd::new(&socket, PollFlags::IN)];
        let limit = Timespec::try_from(ANSWER_TIMEOUT).unwrap_or_default();
        if poll(&mut fds, Some(&limit))? == 0 {
            return other(format!("it did not answer within {ANSWER_TIMEOUT:?}"));
        }
        let first = control::try_receive::<FromLauncher>(&socket).map_err(io::Error::other)?;
        match first.map(|first| first.message) {
            Some(FromLauncher::Hello {
                version,
                pid,
                uid,
                gid,
            }) if version == VERSION => Ok(Self {
                uid,
                gid,
                pid,
                socket,
                child,
            }),
            Some(FromLauncher::Hello { version, .. }) => other(format!(
                "it is of another version of highball (messages {version}, here {VERSION}): stop the server and start it again \
                 as root"
            )),
            Some(FromLauncher::Failed { reason }) => other(reason),
            Some(_) => other("it answered something else".to_owned()),
            None => other("it has ended".to_owned()),
        }
    }

    /// The launcher as others ask it. Needs a `LocalRuntime`. `user` names its user.
    ///
    /// # Errors
    /// The socket cannot be put on the runtime.
    pub fn begin(self, user: String) -> io::Result<Rc<Launcher>> {
        let channel = Rc::new(Channel::foreign(self.socket)?);
        let (outbox, messages) = mpsc::channel(MAX_WAITING);
        let (ended, _) = watch::channel(None);
        let launcher = Rc::new(Launcher {
            user,
            outbox,
            waiting: RefCell::default(),
            measuring: Mutex::default(),
            ended,
        });
        spawn_local(send_all(Rc::clone(&channel), messages));
        let own = self
            .child
            .map(|child| (Own::new(Pid::from_child(&child)), child));
        spawn_local(Rc::clone(&launcher).receive_all(channel, own));
        Ok(launcher)
    }
}

/// A launcher.
pub struct Launcher {
    user: String,
    outbox: mpsc::Sender<(ToLauncher, Option<OwnedFd>)>,
    waiting: RefCell<Waiting>,
    /// Held by the one who has it read memory.
    measuring: Mutex<()>,
    /// Why it is there no more.
    ended: watch::Sender<Option<String>>,
}

/// Those who wait for answers, by the number that names their question.
#[derive(Default)]
struct Waiting {
    last: u32,
    starts: HashMap<u32, oneshot::Sender<Result<Started, String>>>,
    ends: HashMap<u32, oneshot::Sender<ExitStatus>>,
    figures: HashMap<u32, oneshot::Sender<HashMap<i32, Memory>>>,
}

/// A process that a launcher has started. It stays the launcher's until it is reaped.
pub(crate) struct Started {
    pub(crate) id: u32,
    pub(crate) pid: i32,
    /// Only to be waited for.
    pub(crate) pidfd: OwnedFd,
}

impl fmt::Debug for Launcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Launcher({})", self.user)
    }
}

impl Launcher {
    /// The name of its user.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// Whether it is there no more.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.borrow().is_some()
    }

    /// Waits until it is there no more. Returns why. Loses nothing when it is dropped.
    pub async fn ended(&self) -> String {
        let mut ended = self.ended.subscribe();
        let reason = ended.wait_for(Option::is_some).await;
        reason.ok().and_then(|one| one.clone()).unwrap_or_default()
    }

    /// Makes a socket to it for another server, which is to replace this one.
    ///
    /// # Errors
    /// It is there no more, or no descriptors are left.
    pub fn connect(&self) -> io::Result<OwnedFd> {
        self.check()?;
        let (near, far) = control::pair()?;
        self.post(ToLauncher::Connect, Some(far));
        Ok(near)
    }

    /// Starts a program with this stdin.
    ///
    /// # Errors
    /// It cannot be run, or the launcher is there no more, or takes too long.
    pub(crate) async fn start(&self, program: Program, stdin: OwnedFd) -> io::Result<Started> {
        self.check()?;
        let (answer, answered) = oneshot::channel();
        let id = self.next(|waiting, id| drop(waiting.starts.insert(id, answer)));
        let start = ToLauncher::Start { id, program };
        // One that is too long, for its variables, would never be sent.
        control::encode(&start).map_err(io::Error::other)?;
        self.post(start, Some(stdin));
        let answered = timeout(ANSWER_TIMEOUT, answered).await;
        self.waiting.borrow_mut().starts.remove(&id);
        match answered {
            Ok(Ok(started)) => started.map_err(io::Error::other),
            Ok(Err(_)) => {
                self.check()?;
                Err(io::Error::other("the launcher has ended"))
            }
            Err(_) => {
                // It may still start it.
                self.post(
                    ToLauncher::Signal {
                        id,
                        signal: GroupSignal::KillGroup,
                    },
                    None,
                );
                self.post(ToLauncher::Reap { id }, None);
                let text = format!("the launcher did not answer within {ANSWER_TIMEOUT:?}");
                Err(io::Error::other(text))
            }
        }
    }

    /// Signals a process that it has started.
    pub(crate) fn signal(&self, id: u32, signal: GroupSignal) {
        self.post(ToLauncher::Signal { id, signal }, None);
    }

    /// Has it reap a process that it has started, once that has ended. Returns how it ended, if the launcher says so before it is
    /// gone itself.
    pub(crate) fn reap(&self, id: u32) -> oneshot::Receiver<ExitStatus> {
        let (answer, answered) = oneshot::channel();
        if self.check().is_ok() {
            self.waiting.borrow_mut().ends.insert(id, answer);
            self.post(ToLauncher::Reap { id }, None);
        }
        answered
    }

    /// Kills a process of its user.
    pub(crate) fn kill(&self, pid: i32, pidfd: Option<OwnedFd>) {
        self.post(ToLauncher::Kill { pid }, pidfd);
    }

    /// Reads the memory of processes of its user. Those that are gone, or that it does not tell of in time, are missing.
    pub(crate) async fn measure(&self, pids: &[i32]) -> HashMap<i32, Memory> {
        let mut all = HashMap::new();
        for pids in pids.chunks(MAX_MEASURED) {
            let _turn = self.measuring.lock().await;
            if self.check().is_err() {
                return all;
            }
            let (answer, answered) = oneshot::channel();
            let id = self.next(|waiting, id| drop(waiting.figures.insert(id, answer)));
            let pids = pids.to_vec();
            self.post(ToLauncher::Measure { id, pids }, None);
            let answered = timeout(MEASURE_TIMEOUT, answered).await;
            self.waiting.borrow_mut().figures.remove(&id);
            match answered {
                Ok(Ok(figures)) => all.extend(figures),
                _ => return all,
            }
        }
        all
    }

    /// Remembers a question, and returns the number that names it.
    fn next(&self, remember: impl FnOnce(&mut Waiting, u32)) -> u32 {
        let mut waiting = self.waiting.borrow_mut();
        waiting.last = waiting.last.wrapping_add(1);
        let id = waiting.last;
        remember(&mut waiting, id);
        id
    }

    fn post(&self, message: ToLauncher, fd: Option<OwnedFd>) {
        if let Err(mpsc::error::TrySendError::Full(_)) = self.outbox.try_send((message, fd)) {
            self.end("it takes no messages".to_owned());
        }
    }

    /// # Errors
    /// It is there no more.
    fn check(&self) -> io::Result<()> {
        match &*self.ended.borrow() {
            None => Ok(()),
            Some(reason) => Err(io::Error::other(format!(
                "the launcher of user {} is there no more ({reason}), and only a server that is started as root can start \
                 another: stop the server and start it again",
                self.user
            ))),
        }
    }

    fn end(&self, reason: String) {
        self.ended.send_if_modified(|ended| {
            let first = ended.is_none();
            if first {
                *ended = Some(reason);
            }
            first
        });
        let waiting = std::mem::take(&mut *self.waiting.borrow_mut());
        drop(waiting);
    }

    async fn receive_all(self: Rc<Self>, channel: Rc<Channel>, child: Option<(Own, Child)>) {
        let mut given_up = self.ended.subscribe();
        let reason = loop {
            let received = tokio::select! {
                received = channel.receive::<FromLauncher>() => received,
                _ = given_up.wait_for(Option::is_some) => break String::new(),
            };
            match received {
                Ok(Some(received)) => self.received(received),
                Ok(None) => break "it has ended".to_owned(),
                Err(error) => break error.to_string(),
            }
        };
        drop(channel);
        let Some((own, mut child)) = child else {
            return self.end(reason);
        };
        if reason != "it has ended" {
            self.end(reason);
        }
        let status = spawn_blocking(move || child.wait()).await;
        drop(own);
        let status = status.ok().and_then(Result::ok);
        self.end(status.map_or_else(|| "it has ended".to_owned(), |status| status.to_string()));
    }

    fn received(&self, received: Received<FromLauncher>) {
        let fd = received.fds.into_iter().next();
        let mut waiting = self.waiting.borrow_mut();
        match received.message {
            FromLauncher::Started { id, pid } => {
                let Some(answer) = waiting.starts.remove(&id) else {
                    return;
                };
                let started = match fd.filter(|_| pid > 0) {
                    Some(pidfd) => Ok(Started { id, pid, pidfd }),
                    None => Err("no descriptors are left".to_owned()),
                };
                let _ = answer.send(started);
            }
            FromLauncher::NotStarted { id, reason } => {
                if let Some(answer) = waiting.starts.remove(&id) {
                    let _ = answer.send(Err(reason));
                }
            }
            FromLauncher::Ended { id, status } => {
                if let Some(answer) = waiting.ends.remove(&id) {
                    let _ = answer.send(status);
                }
            }
            FromLauncher::Measured { id, figures } => {
                if let Some(answer) = waiting.figures.remove(&id) {
                    let _ = answer.send(figures.into_iter().map(memory).collect());
                }
            }
            FromLauncher::Hello { .. } | FromLauncher::Failed { .. } => {}
        }
    }
}

fn memory((pid, figures): (i32, [u64; 6])) -> (i32, Memory) {
    let [rss, pss, clean, dirty, huge, swap] = figures.map(|figure| figure.min(MAX_FIGURE));
    let memory = Memory {
        rss,
        pss,
        private_clean: clean,
        private_dirty: dirty,
        private_huge: huge,
        swap_pss: swap,
    };
    (pid, memory)
}

/// Sends messages to a launcher, in order; ends with the launcher or with its handle.
async fn send_all(
    channel: Rc<Channel>,
    mut messages: mpsc::Receiver<(ToLauncher, Option<OwnedFd>)>,
) {
    while let Some((message, fd)) = messages.recv().await {
        let fds: Vec<_> = fd.iter().map(AsFd::as_fd).collect();
        if channel.send(&message, &fds).await.is_err() {
            // Its end is seen by the task that takes its messages.
            return;
        }
    }
}
