//! The new server of an upgrade, as the running server sees it: a process that is booting and then serves, and the channel
//! to it. It decides nothing about the upgrade.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use exchange::control::Error;
use front::log::{AccessLog, Level};
use front::{Front, IdleConnection};
use supervisor::Channel;
use tokio::process::Child;
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::changes::handover::{FromSuccessor, Greeting, HandedOver, ToSuccessor};
use crate::changes::saved_state::{Part, State as GatheredState};
use crate::control::messages::Progress;
use crate::control::queue::{ChangeQueue, ChangeRequest};

/// How long a new server that is ready may take to accept connections.
const ACCEPT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a new server that has failed, or has closed the channel, may take to exit by itself.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);
/// How long the new server may take to accept a request that is passed on to it.
const PASS_ON_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a server that drains passes on what it has counted.
const PASS_ON_COUNTS_INTERVAL: Duration = Duration::from_secs(1);

/// What a new server is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It boots; this server serves.
    Booting,
    /// It serves; this server finishes its requests.
    Serving,
}

/// A new server. Dropping it kills it while it is booting.
pub(crate) struct Successor {
    child: Child,
    pid: i32,
    channel: Channel,
    state: State,
}

impl Successor {
    /// The new server that was started as this process.
    ///
    /// # Errors
    /// It has exited already.
    pub(crate) fn new(child: Child, channel: Channel) -> Result<Self> {
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok());
        Ok(Self {
            pid: pid.context("the new server has exited")?,
            child,
            channel,
            state: State::Booting,
        })
    }

    /// Its process.
    pub(crate) fn pid(&self) -> i32 {
        self.pid
    }

    /// Hands the sockets and the file with frequent paths over, and waits until it is ready to serve. Returns its version of
    /// Highball.
    ///
    /// # Errors
    /// It failed, with its reason where it gave one.
    pub(crate) async fn prepare(
        &mut self,
        greeting: &Greeting,
        frequent_paths: Option<&OwnedFd>,
        sockets: &[(HandedOver, OwnedFd)],
    ) -> Result<String> {
        let sent = async {
            let files: Vec<_> = frequent_paths.map(AsFd::as_fd).into_iter().collect();
            self.channel.send(greeting, &files).await?;
            for (message, fd) in sockets {
                self.channel.send(message, &[fd.as_fd()]).await?;
            }
            Ok(())
        };
        let sent = sent.await;
        match self.answer(sent).await? {
            FromSuccessor::Ready { highball } => Ok(highball),
            _ => bail!("the new server began to serve before it was allowed to"),
        }
    }

    /// Gives it what this server has gathered and not given before. Returns what has arrived; the rest stays here.
    pub(crate) async fn give_state(&self, state: &GatheredState) -> Vec<Part> {
        let mut given = Vec::new();
        for part in state.take() {
            given.extend(self.give(state, part).await);
        }
        given
    }

    /// Gives it what this server counts, until `ended` comes.
    pub(crate) async fn give_counts(
        &self,
        state: &GatheredState,
        mut ended: oneshot::Receiver<()>,
    ) {
        while timeout(PASS_ON_COUNTS_INTERVAL, &mut ended).await.is_err() {
            if let Some(part) = state.take_counts() {
                self.give(state, part).await;
            }
        }
    }

    /// Gives it a part, and returns the part if it has arrived. To be awaited to its end: the part is on its way meanwhile.
    async fn give(&self, state: &GatheredState, part: Part) -> Option<Part> {
        // Writing a large file takes its time.
        let written = spawn_blocking(move || (part.write(), part)).await;
        let (file, part) = written.ok()?;
        let send = async |file: OwnedFd| {
            let (message, files) = (ToSuccessor::State(part.kind()), [file.as_fd()]);
            let sent = timeout(PASS_ON_TIMEOUT, self.channel.send(&message, &files));
            matches!(sent.await, Ok(Ok(())))
        };
        let arrived = match file {
            Ok(file) => send(file).await,
            Err(_) => false,
        };
        if arrived {
            return Some(part);
        }
        state.take_back(part);
        None
    }

    /// Lets it accept connections, and waits until it does.
    ///
    /// # Errors
    /// It failed, with its reason where it gave one, or took too long.
    pub(crate) async fn accept_connections(&mut self) -> Result<()> {
        let accept = async {
            let sent = self.channel.send(&ToSuccessor::Serve, &[]).await;
            match self.answer(sent).await? {
                FromSuccessor::Serving => Ok(()),
                _ => bail!("the new server said twice that it is ready"),
            }
        };
        match tokio::time::timeout(ACCEPT_TIMEOUT, accept).await {
            Ok(accepts) => accepts?,
            Err(_) => bail!(
                "the new server was ready but did not begin to serve within {ACCEPT_TIMEOUT:?}"
            ),
        }
        self.state = State::Serving;
        Ok(())
    }

    /// The answer to what was sent.
    ///
    /// # Errors
    /// The new server failed, with its reason where it gave one. Where the message had no reader, its exit status says more
    /// than the error.
    async fn answer(&mut self, sent: Result<(), Error>) -> Result<FromSuccessor> {
        match sent {
            Ok(()) => {}
            Err(Error::Io(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
                return self.exited().await;
            }
            Err(error) => return Err(error.into()),
        }
        let received = self.channel.receive::<FromSuccessor>().await?;
        match received.map(|received| received.message) {
            Some(FromSuccessor::Failed { reason }) => Err(anyhow!(reason)),
            Some(message) => Ok(message),
            None => self.exited().await,
        }
    }

    /// The error for a new server that closed the channel without a reason. What it printed is where this server prints.
    async fn exited<T>(&mut self) -> Result<T> {
        let status = tokio::time::timeout(EXIT_TIMEOUT, self.child.wait()).await;
        match status {
            Ok(Ok(status)) => bail!(
                "the new server exited before it was ready ({status}); its own messages are in this server's output"
            ),
            _ => bail!("the new server does not take over: it has closed its stdin"),
        }
    }

    /// Kills it, unless it exits by itself.
    pub(crate) async fn end(mut self) {
        if tokio::time::timeout(EXIT_TIMEOUT, self.child.wait())
            .await
            .is_err()
        {
            // It may have exited just now.
            let _ = self.child.kill().await;
        }
    }

    /// Tells it that the service manager listens to it from now on.
    pub(crate) async fn say_named(&self) {
        // A server that has exited will not miss it.
        let _ = self.channel.send(&ToSuccessor::Named, &[]).await;
    }

    /// Gives it the connections of clients, each as soon as it is idle, until none is left.
    ///
    /// # Errors
    /// It accepts none; those that are left are still here.
    pub(crate) async fn give_connections(&self, front: &Front) -> io::Result<()> {
        let give = |socket: BorrowedFd<'_>, kept: &IdleConnection| {
            let message = ToSuccessor::Connection(kept.clone());
            let sent = self.channel.try_send(&message, &[socket]);
            sent.map_err(|error| match error {
                Error::Io(error) => error,
                other => io::Error::other(other),
            })
        };
        front
            .give_away(give, async || self.channel.room().await)
            .await
    }

    /// Waits until it exits.
    pub(crate) async fn wait_exit(&self) {
        // It sends nothing more.
        let _ = self.channel.receive::<FromSuccessor>().await;
    }

    /// Passes on every request for a change that still comes to this server: sends clients to the new server, and tells it
    /// what needs no answer. Never returns.
    pub(crate) async fn pass_on_requests(&self, queue: &ChangeQueue, log: &AccessLog) {
        loop {
            let change = queue.first().await;
            let (silent, commands): (Vec<_>, _) = queue
                .take(&change)
                .into_iter()
                .partition(ChangeRequest::needs_no_answer);
            for request in commands {
                request.reply(&Progress::Moved { pid: self.pid });
            }
            if silent.is_empty() {
                continue;
            }
            let text = format!(
                "a requested {change} could not be passed on to the new server (pid {}); request it again",
                self.pid
            );
            let message = ToSuccessor::Requested(change);
            let sent = self.channel.send(&message, &[]);
            if !matches!(
                tokio::time::timeout(PASS_ON_TIMEOUT, sent).await,
                Ok(Ok(()))
            ) {
                log.event(Level::Warn, &text, &[]);
            }
        }
    }

    /// Leaves the channel open until this process has exited: the kernel closes it then, which tells the new server.
    pub(crate) fn leave_open(self) {
        std::mem::forget(self);
    }
}

impl Drop for Successor {
    fn drop(&mut self) {
        if self.state == State::Booting {
            // It may have exited already. The runtime reaps it.
            let _ = self.child.start_kill();
        }
    }
}
