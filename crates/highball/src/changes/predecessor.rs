//! An upgrade, in the new server: receives what the running server hands over, tells it when this one is ready, and takes
//! over its idle connections until it has exited. The running server's side is `upgrade.rs`.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use exchange::control;
use front::log::{AccessLog, Level, Value};
use front::{Front, Listener};
use supervisor::Channel;
use tokio::sync::{mpsc, oneshot};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::changes::handover::{
    FromSuccessor, Greeting, HandedOver, PartKind, ToSuccessor, VARIABLE, VERSION,
};
use crate::changes::saved_state::{Part, State};
use crate::control::directory::ControlDirectory;
use crate::control::operators::OperatorSockets;
use crate::control::queue::{ChangeQueue, ChangeRequest, Requester};
use crate::sockets::Inherited;
use crate::system::privileges::User;

/// How long the old server may go on answering operators: two that do so at once show different counts.
const OPERATORS_TIMEOUT: Duration = Duration::from_secs(5);

/// What a running server handed over to this one.
#[derive(Debug)]
pub(crate) struct Handover {
    /// The server's own description.
    pub(crate) greeting: Greeting,
    /// The listeners for clients.
    pub(crate) listeners: Vec<Inherited>,
    /// The listeners for operators.
    pub(crate) operators: OperatorSockets,
    /// The control sockets.
    pub(crate) control: ControlSockets,
    /// The sockets to launchers.
    pub(crate) launchers: Vec<OwnedFd>,
    /// A file with the frequent paths, if there are any.
    frequent_paths: Option<OwnedFd>,
    socket: OwnedFd,
}

/// Receives what a running server hands over, where this process was started for that. Blocks.
///
/// # Errors
/// It cannot be read; the server gets the reason.
pub(crate) fn receive() -> Result<Option<Handover>> {
    if std::env::var_os(VARIABLE).is_none() {
        return Ok(None);
    }
    // Stdin itself stays open: a socket whose other end no process will hold.
    let socket = io::stdin().as_fd().try_clone_to_owned();
    let socket = socket.context("cannot reach the running server")?;
    match read(&socket) {
        Ok(received) => Ok(Some(Handover {
            greeting: received.greeting,
            listeners: received.listeners,
            operators: received.operators,
            control: received.control,
            launchers: received.launchers,
            frequent_paths: received.frequent_paths,
            socket,
        })),
        Err(error) => {
            refuse(&socket, &error);
            Err(error)
        }
    }
}

/// Control sockets by their names in the directory.
pub(crate) type Names = BTreeMap<String, OwnedFd>;

/// What arrives before anything is answered.
#[derive(Debug, Default)]
struct Received {
    greeting: Greeting,
    listeners: Vec<Inherited>,
    operators: OperatorSockets,
    control: ControlSockets,
    launchers: Vec<OwnedFd>,
    frequent_paths: Option<OwnedFd>,
}

/// The control sockets that were handed over.
#[derive(Debug, Default)]
pub(crate) struct ControlSockets {
    /// The sockets that the running server shares.
    pub(crate) names: Names,
    /// The directory that they are in, if there is one.
    pub(crate) directory: Option<ControlDirectory>,
}

fn read(socket: &OwnedFd) -> Result<Received> {
    let ended = || anyhow!("the running server exited before it had handed over its sockets");
    let greeting = control::receive::<Greeting>(socket).with_context(|| {
        format!("{VARIABLE} is set, but stdin is no socket of a server that is being upgraded")
    })?;
    let greeting = greeting.ok_or_else(ended)?;
    let frequent_paths = greeting.fds.into_iter().next();
    let greeting = greeting.message;
    if greeting.version != VERSION {
        bail!(
            "the running server (highball {}) uses version {} of the handover, and this one (highball {}) only version \
             {VERSION}: stop the running server and start this one instead",
            greeting.highball,
            greeting.version,
            env!("CARGO_PKG_VERSION")
        );
    }
    let mut all = Received::default();
    for _ in 0..greeting.sockets {
        let received = control::receive::<HandedOver>(socket)
            .context("cannot read what the running server hands over")?;
        let received = received.ok_or_else(ended)?;
        match received.message.clone() {
            HandedOver::Control(name) => drop(all.control.names.insert(name, received.only_fd()?)),
            HandedOver::ControlDirectory(path) => {
                let directory = ControlDirectory::adopt(
                    received.only_fd()?,
                    path,
                    Some(User::of_this_process().uid),
                );
                let directory = directory.context("cannot take the control sockets over")?;
                all.control.directory = Some(directory);
            }
            HandedOver::Operators(address) => {
                drop(all.operators.insert(address, received.only_fd()?));
            }
            HandedOver::Listener(origin) => {
                let listener = Listener::adopt(received.only_fd()?);
                let listener = listener.context("cannot take a socket over")?;
                all.listeners.push(Inherited { listener, origin });
            }
            HandedOver::Launcher => all.launchers.push(received.only_fd()?),
        }
    }
    Ok(Received {
        greeting,
        frequent_paths,
        ..all
    })
}

/// Tells the running server why this process does not take over.
pub(crate) fn refuse(socket: &OwnedFd, error: &anyhow::Error) {
    let reason = format!("{error:#}");
    // A server that has exited need not know.
    let _ = control::try_send(socket, &FromSuccessor::Failed { reason }, &[]);
}

impl Handover {
    /// Duplicates the socket, for [`refuse`].
    ///
    /// # Errors
    /// No descriptors are left.
    pub(crate) fn reply(&self) -> io::Result<OwnedFd> {
        self.socket.try_clone()
    }

    /// The control sockets, and the running server. Needs a runtime.
    ///
    /// # Errors
    /// The socket cannot be registered with the runtime.
    pub(crate) fn into_parts(self) -> io::Result<(ControlSockets, Predecessor)> {
        let predecessor = Predecessor {
            greeting: self.greeting,
            frequent_paths: RefCell::new(self.frequent_paths),
            channel: Channel::new(self.socket)?,
        };
        Ok((self.control, predecessor))
    }
}

/// The running server that this one is to replace.
#[derive(Debug)]
pub(crate) struct Predecessor {
    pub(crate) greeting: Greeting,
    frequent_paths: RefCell<Option<OwnedFd>>,
    channel: Channel,
}

impl Predecessor {
    /// Waits for its next message, or for its exit. While this server starts it sends nothing, so either is its exit.
    pub(crate) async fn wait_message(&self) {
        let _ = self.channel.receive::<ToSuccessor>().await;
    }

    /// Takes over idle connections, requests for changes and counts until it has exited. Calls `alone` when it answers no
    /// operator any more, drops `named` when the service manager listens to this server, and `exit` at the end.
    pub(crate) async fn follow(
        self,
        front: Rc<Front>,
        queue: Rc<ChangeQueue>,
        gathered: Gathered,
        alone: impl FnOnce(),
        named: oneshot::Sender<()>,
        exit: mpsc::Receiver<()>,
    ) {
        let _exit = exit;
        {
            let mut message = pin!(self.wait_message());
            let waited = timeout(OPERATORS_TIMEOUT, &mut message).await;
            alone();
            if waited.is_err() {
                message.await;
            }
        }
        drop(named);
        loop {
            let received = match self.channel.receive::<ToSuccessor>().await {
                Ok(Some(received)) => received,
                _ => return,
            };
            match received.message.clone() {
                ToSuccessor::Connection(kept) => {
                    // Without a descriptor (none are left) the connection is closed.
                    if let Ok(socket) = received.only_fd() {
                        // Its client may have left.
                        let _ = front.acceptors().take_over(socket, &kept).await;
                    }
                }
                ToSuccessor::Requested(change) => {
                    let requester = Requester::Predecessor;
                    queue.push(ChangeRequest { change, requester });
                }
                ToSuccessor::State(kind) => gathered.take(kind, received.only_fd()).await,
                ToSuccessor::Serve | ToSuccessor::Named => {}
            }
        }
    }

    /// Takes the frequent paths, which the first generation of this server requests. Call it once, before that is loaded.
    pub(crate) async fn take_frequent_paths(&self, gathered: &Gathered) {
        if let Some(file) = self.frequent_paths.take() {
            gathered.take(PartKind::FrequentPaths, Ok(file)).await;
        }
    }

    /// Tells it that this server is ready, takes what it has gathered, and waits until this server may serve.
    ///
    /// # Errors
    /// It has exited, or sends something else.
    pub(crate) async fn wait_turn(&self, gathered: &Gathered) -> Result<()> {
        let highball = env!("CARGO_PKG_VERSION").to_owned();
        self.channel
            .send(&FromSuccessor::Ready { highball }, &[])
            .await?;
        loop {
            let received = self.channel.receive::<ToSuccessor>().await?;
            match received {
                Some(one) if matches!(one.message, ToSuccessor::Serve) => return Ok(()),
                Some(one) => match one.message {
                    ToSuccessor::State(kind) => gathered.take(kind, one.only_fd()).await,
                    _ => bail!("the running server sent something else than what it has gathered"),
                },
                None => bail!("the running server has exited, or has given the upgrade up"),
            }
        }
    }

    /// Tells it that this server accepts connections.
    ///
    /// # Errors
    /// It has exited.
    pub(crate) async fn say_serving(&self) -> Result<()> {
        Ok(self.channel.send(&FromSuccessor::Serving, &[]).await?)
    }
}

/// Where this server puts what the server before it has gathered.
pub(crate) struct Gathered {
    pub(crate) state: Rc<State>,
    pub(crate) log: Rc<AccessLog>,
}

impl Gathered {
    /// Takes a part. One that cannot be read begins empty here: no reason not to serve.
    async fn take(&self, kind: PartKind, file: Result<OwnedFd, control::Error>) {
        if let Err(error) = self.try_take(kind, file).await {
            let text = "a part of what the old server has gathered was not taken over: it begins empty in this server";
            let (part, reason) = (format!("{kind:?}"), format!("{error:#}"));
            let fields = [
                ("part", Value::Text(&part)),
                ("reason", Value::Text(&reason)),
            ];
            self.log.event(Level::Warn, text, &fields);
        }
    }

    async fn try_take(&self, kind: PartKind, file: Result<OwnedFd, control::Error>) -> Result<()> {
        let file = file?;
        // A large file takes its time, and clients wait for the front's thread.
        match spawn_blocking(move || Part::read(kind, file)).await?? {
            Some(part) => self.state.add(part),
            None => Ok(()),
        }
    }
}

/// The exit of the server that this one has replaced, if there was one.
#[derive(Clone, Debug)]
pub(crate) struct PredecessorExit(mpsc::Sender<()>);

impl PredecessorExit {
    /// The exit, and its other half: it has come when that is dropped.
    pub(crate) fn new() -> (Self, mpsc::Receiver<()>) {
        let (here, there) = mpsc::channel(1);
        (Self(here), there)
    }

    /// Whether that server is still there.
    pub(crate) fn is_awaited(&self) -> bool {
        !self.0.is_closed()
    }

    /// Waits for the exit, for at most `limit`: a server that hangs holds nothing up.
    pub(crate) async fn wait(&self, limit: Duration) {
        // The caller continues either way.
        let _ = tokio::time::timeout(limit, self.0.closed()).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handover_of_another_version_is_refused_with_a_reason() {
        let (server, successor) = control::pair().unwrap();
        let greeting = Greeting {
            version: VERSION + 1,
            highball: "9.9.9".into(),
            ..Greeting::default()
        };
        control::send(&server, &greeting, &[]).unwrap();
        let error = read(&successor).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("highball 9.9.9) uses version 2 of the handover"),
            "{text}"
        );
        refuse(&successor, &error);
        let sent = control::try_receive::<FromSuccessor>(&server)
            .unwrap()
            .unwrap();
        assert!(matches!(sent.message, FromSuccessor::Failed { reason } if reason == text));
    }

    #[test]
    fn a_server_that_exits_during_its_handover_is_an_error() {
        let (server, successor) = control::pair().unwrap();
        let greeting = Greeting {
            version: VERSION,
            sockets: 1,
            ..Greeting::default()
        };
        control::send(&server, &greeting, &[]).unwrap();
        drop(server);
        let error = read(&successor).unwrap_err().to_string();
        assert!(
            error.contains("exited before it had handed over"),
            "{error}"
        );
    }
}
