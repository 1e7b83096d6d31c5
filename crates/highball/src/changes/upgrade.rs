//! An upgrade, the running server's side: starts its successor, gives it the sockets, and lets it accept once it could
//! serve; then it gets the connections too. One that fails, or takes too long, is killed, and all is as before. What a
//! successor does is `handover.rs`.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use exchange::control::Error;
use front::log::{AccessLog, Level};
use front::{Front, Kept};
use supervisor::Channel;
use tokio::process::{Child, Command};
use tokio::runtime::Handle;

use crate::changes::Changes;
use crate::changes::handover::{
    FromSuccessor, Greeting, HandedOver, ToSuccessor, VARIABLE, VERSION,
};
use crate::control::messages::Answer;
use crate::control::queue::{ChangeQueue, ChangeRequest};
use crate::system::privileges::User;
use crate::system::program::own_pid;
use crate::system::{systemd, trusted_file};

/// How long a successor that could serve may take to accept.
const ACCEPT: Duration = Duration::from_secs(10);
/// How long one that has failed, or has closed its control socket, may take to end by itself.
const FAILURE_ENDS: Duration = Duration::from_secs(2);
/// How long one that serves may take to make room for what is passed on to it.
const PASS_ON: Duration = Duration::from_secs(10);

/// A server that is to take over. Dropping it kills it, unless it serves.
struct Successor {
    child: Child,
    channel: Channel,
    serves: bool,
}

/// The server that has taken over, for as long as this one finishes what it holds.
pub(crate) struct Heir {
    successor: Successor,
    pid: i32,
}

impl Heir {
    /// Gives it the connections of clients, each as soon as nothing is under way on it, until none is left.
    ///
    /// # Errors
    /// It takes none; those that are left are here.
    pub(crate) async fn endow(&self, front: &Front) -> io::Result<()> {
        let give = |socket: BorrowedFd<'_>, kept: &Kept| {
            let sent = self
                .successor
                .channel
                .try_send(&ToSuccessor::Connection(kept.clone()), &[socket]);
            sent.map_err(|error| match error {
                Error::Io(error) => error,
                other => io::Error::other(other),
            })
        };
        front
            .give_away(give, async || self.successor.channel.room().await)
            .await
    }

    /// Waits for its end.
    pub(crate) async fn gone(&self) {
        // It says nothing more.
        let _ = self.successor.channel.receive::<FromSuccessor>().await;
    }

    /// Passes on whatever this server is still asked for, as long as it is there: commands are sent to the heir, and
    /// what nobody waits for is told to it.
    pub(crate) async fn pass_on(&self, queue: &ChangeQueue, log: &AccessLog) {
        loop {
            let change = queue.first().await;
            let (silent, commands): (Vec<_>, _) = queue
                .take(&change)
                .into_iter()
                .partition(ChangeRequest::needs_no_answer);
            for ask in commands {
                ask.reply(&Answer::Moved { pid: self.pid });
            }
            if silent.is_empty() {
                continue;
            }
            let text = format!("{change} could not be passed on to the new server");
            let told = ToSuccessor::Asked(change);
            let told = self.successor.channel.send(&told, &[]);
            if !matches!(tokio::time::timeout(PASS_ON, told).await, Ok(Ok(()))) {
                log.event(Level::Warn, &text, &[]);
            }
        }
    }

    /// Has the kernel tell it when this process is gone, and nobody before: it waits for that.
    pub(crate) fn leave(self) {
        std::mem::forget(self);
    }
}

impl Changes {
    /// Has another program take over. There is an heir when it has: then this server is to end.
    pub(crate) async fn upgrade(&self, binary: Option<&Path>) -> (Answer, Option<Heir>) {
        let began = Instant::now();
        let highball = env!("CARGO_PKG_VERSION").to_owned();
        match self.replace(binary).await {
            Ok((pid, new, heir)) => {
                let text = format!("highball {new} (pid {pid}) has taken over");
                self.log.event(Level::Info, &text, &[]);
                let seconds = began.elapsed().as_secs_f64();
                let answer = Answer::Upgraded {
                    pid,
                    highball: new,
                    before: own_pid(),
                    highball_before: highball,
                    seconds,
                };
                (answer, Some(heir))
            }
            Err(error) => {
                let reason = format!("{error:#}");
                let text = format!("the upgrade failed, this server keeps serving: {reason}");
                self.log.event(Level::Warn, &text, &[]);
                let pid = own_pid();
                let answer = Answer::NotUpgraded {
                    pid,
                    highball,
                    reason,
                };
                (answer, None)
            }
        }
    }

    /// Brings the successor up and has it serve; its process, its version, and what it is from then on.
    async fn replace(&self, binary: Option<&Path>) -> Result<(i32, String, Heir)> {
        if rustix::process::getpid().is_init() {
            bail!(
                "this server is the first process of its container (pid 1), and the container would end with it: start \
                 another container with the new highball instead"
            );
        }
        let room = self.room_beside().await?;
        let mut successor = self.start(binary).await?;
        self.supervisor.set_other_server(true);
        let (pid, highball) = match self.have_serve(&mut successor, room).await {
            Ok(serves) => serves,
            Err(error) => {
                successor.end().await;
                self.supervisor.set_other_server(false);
                return Err(error);
            }
        };
        self.front.leave_socket_files();
        self.control.release_shared();
        // Before the successor hears that it is alone, for only the service's main process is listened to.
        self.manager.replaced_by(pid).await;
        // One that is gone already will not miss it.
        let _ = successor.channel.send(&ToSuccessor::Named, &[]).await;
        Ok((pid, highball, Heir { successor, pid }))
    }

    /// The workers that there is memory for beside this server's; `None` for all.
    async fn room_beside(&self) -> Result<Option<u16>> {
        let room = self.supervisor.room_for_other_server().await;
        room.map_err(|held| {
            anyhow!(
                "there is no memory for a second server beside this one: {held}; stop this one and start the new one instead"
            )
        })
    }

    /// Brings the successor up and has it accept; its process and its version.
    async fn have_serve(
        &self,
        successor: &mut Successor,
        room: Option<u16>,
    ) -> Result<(i32, String)> {
        let pid = successor.child.id().and_then(|pid| i32::try_from(pid).ok());
        let pid = pid.context("the new server has ended")?;
        // As long as a start may take: twice for the load, behind this server and then beside it, and once for the workers.
        let limit = 3 * self.front.settings().boot_timeout;
        let highball = match tokio::time::timeout(limit, self.bring_up(successor, room)).await {
            Ok(ready) => ready?,
            Err(_) => {
                bail!("the new server was not ready within {limit:?} (three times `boot_timeout`)")
            }
        };
        let serves = tokio::time::timeout(ACCEPT, successor.take_over()).await;
        serves.map_err(|_| anyhow!("the new server was ready but did not begin to serve"))??;
        successor.serves = true;
        Ok((pid, highball))
    }

    /// Gives the successor everything, and waits until it could serve; its version.
    async fn bring_up(&self, successor: &mut Successor, room: Option<u16>) -> Result<String> {
        let listeners = self.front.listeners().context("cannot duplicate sockets")?;
        let listeners = self.origins.iter().cloned().zip(listeners);
        let listeners = listeners.map(|(origin, fd)| (HandedOver::Listener(origin), fd));
        let control = self
            .control
            .duplicate_shared()
            .context("cannot duplicate sockets")?;
        let control = control
            .into_iter()
            .map(|(name, fd)| (HandedOver::Control(name), fd));
        let directory = self.control.directory().map(|directory| {
            let fd = directory.as_fd().try_clone_to_owned();
            fd.map(|fd| {
                (
                    HandedOver::ControlDirectory(directory.path().to_owned()),
                    fd,
                )
            })
        });
        let directory = directory
            .transpose()
            .context("cannot duplicate a directory")?;
        let sockets: Vec<_> = directory
            .into_iter()
            .chain(listeners)
            .chain(control)
            .collect();
        let greeting = Greeting {
            version: VERSION,
            highball: env!("CARGO_PKG_VERSION").to_owned(),
            pid: own_pid(),
            generation: self.latest,
            sockets: sockets.len(),
            workers: room,
            descriptors: self.application.given.descriptors,
        };
        let given = async {
            successor.channel.send(&greeting, &[]).await?;
            for (handed, fd) in &sockets {
                successor.channel.send(handed, &[fd.as_fd()]).await?;
            }
            Ok(())
        };
        match has_reader(given.await)? {
            true => successor.ready().await,
            false => successor.ended().await,
        }
    }
}

impl Changes {
    /// Starts a program as this one was started: the file that somebody has named, where nobody but this server's user
    /// and root can have put it there, else the one that the server itself was started from.
    async fn start(&self, named: Option<&Path>) -> Result<Successor> {
        let this = &self.program;
        let limit = self.front.settings().boot_timeout;
        let program = named.unwrap_or(&this.path);
        let file = match named.map(Path::to_owned) {
            Some(named) => {
                let check = move || trusted_file::check(&named, User::of_this_process().uid);
                self.housekeeping
                    .look(program.display(), limit, check)
                    .await?
            }
            None => program.to_owned(),
        };
        let (channel, far) = Channel::pair().context("cannot make a socket")?;
        let mut command = Command::new(file);
        command
            // By the name that it has, which may be a link: the next upgrade follows it again.
            .arg0(program)
            .args(&this.arguments)
            .env(VARIABLE, "stdin")
            .stdin(Stdio::from(far));
        // What it inherits comes over the socket, and the watchdog is to watch it instead of this process.
        let kept = ["NOTIFY_SOCKET", "WATCHDOG_USEC"];
        for name in systemd::VARIABLES {
            if !kept.contains(&name) {
                command.env_remove(name);
            }
        }
        let (folder, runtime) = (this.folder.clone(), Handle::current());
        let spawn = self.housekeeping.look(program.display(), limit, move || {
            // A link that leads there may lead elsewhere by now.
            if folder.is_dir() {
                command.current_dir(&folder).env("PWD", &folder);
            }
            // The child is for the runtime that waits for it.
            let _runtime = runtime.enter();
            Ok(command.spawn()?)
        });
        let child = spawn.await;
        let child = child.with_context(|| format!("cannot run {}", program.display()))?;
        Ok(Successor {
            child,
            channel,
            serves: false,
        })
    }
}

impl Successor {
    async fn ready(&mut self) -> Result<String> {
        let said = self.channel.receive::<FromSuccessor>().await?;
        match said.map(|said| said.message) {
            Some(FromSuccessor::Ready { highball }) => Ok(highball),
            Some(FromSuccessor::Failed { reason }) => Err(anyhow!(reason)),
            Some(FromSuccessor::Serving) => {
                bail!("the new server began to serve before it was told to")
            }
            None => self.ended().await,
        }
    }

    /// It ended without a word; what it wrote itself is where this server's output is.
    async fn ended<T>(&mut self) -> Result<T> {
        let status = tokio::time::timeout(FAILURE_ENDS, self.child.wait()).await;
        match status {
            Ok(Ok(status)) => bail!(
                "the new server ended before it was ready ({status}); what it said is in the server's output"
            ),
            _ => bail!("the new server does not take over: it has closed its stdin"),
        }
    }

    /// Has it accept connections.
    async fn take_over(&mut self) -> Result<()> {
        let sent = self.channel.send(&ToSuccessor::Serve, &[]).await;
        if !has_reader(sent)? {
            return self.ended().await;
        }
        let said = self.channel.receive::<FromSuccessor>().await?;
        match said.map(|said| said.message) {
            Some(FromSuccessor::Serving) => Ok(()),
            Some(FromSuccessor::Failed { reason }) => Err(anyhow!(reason)),
            Some(FromSuccessor::Ready { .. }) => {
                bail!("the new server said twice that it is ready")
            }
            None => self.ended().await,
        }
    }

    /// Ends it; one that has failed may do so itself.
    async fn end(mut self) {
        if tokio::time::timeout(FAILURE_ENDS, self.child.wait())
            .await
            .is_err()
        {
            // It may have ended just now.
            let _ = self.child.kill().await;
        }
    }
}

/// Whether what was sent has a reader: where it has none, how the process ended says more than that.
fn has_reader(sent: std::result::Result<(), Error>) -> Result<bool> {
    match sent {
        Ok(()) => Ok(true),
        Err(Error::Io(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error.into()),
    }
}

impl Drop for Successor {
    fn drop(&mut self) {
        if !self.serves {
            // It may have ended already. The runtime reaps it.
            let _ = self.child.start_kill();
        }
    }
}
