//! How a server hands over to its successor: the messages of both, and the successor's side. The successor is started
//! with one end of a control socket as its stdin. The server says who it is and gives its sockets; the successor says
//! when it could serve, waits for the word, and says when it does. Until that word nothing has changed for anybody.
//! Afterwards it is given what clients keep open and what the server is still asked for, and sees by the end of the socket
//! that the server is gone.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use exchange::control::{self, Message};
use front::{Front, Kept, Listener};
use serde::{Deserialize, Serialize};
use supervisor::Channel;
use tokio::sync::{mpsc, oneshot};

use crate::control::directory::ControlDirectory;
use crate::control::queue::{Change, ChangeQueue, ChangeRequest, Requester};
use crate::sockets::{Inherited, Origin};
use crate::system::privileges::User;

/// Set where this process is to take over from a running server.
pub(crate) const VARIABLE: &str = "HIGHBALL_HANDOVER";

/// The version of these messages. The first one is read by every version: a JSON object with this number.
pub(crate) const VERSION: u32 = 1;

/// The first message: who hands over.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Greeting {
    /// That of all messages that follow.
    pub(crate) version: u32,
    /// The version of Highball.
    pub(crate) highball: String,
    /// The process.
    pub(crate) pid: i32,
    /// The number of the latest generation.
    pub(crate) generation: u32,
    /// How many messages [`HandedOver`] follow.
    pub(crate) sockets: usize,
    /// How many workers there is memory for beside the server's own; `None` for all.
    pub(crate) workers: Option<u16>,
    /// The soft limit of descriptors that the first server was started with, before it raised its own.
    pub(crate) descriptors: Option<u64>,
}

/// A socket that is handed over; beside it its descriptor.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum HandedOver {
    /// Clients come from it.
    Listener(Origin),
    /// Questions come from it, under this name in the directory of control sockets.
    Control(String),
    /// That directory.
    ControlDirectory(PathBuf),
}

/// What the successor says.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum FromSuccessor {
    /// It could serve, if it is told to.
    Ready {
        /// Its version of Highball.
        highball: String,
    },
    /// It will not serve, and ends.
    Failed {
        /// Why.
        reason: String,
    },
    /// It accepts connections.
    Serving,
}

/// What it is told once it is ready, in this order.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum ToSuccessor {
    /// Accept connections.
    Serve,
    /// The service manager listens to the successor from now on.
    Named,
    /// An idle connection of a client; beside it its descriptor. Any number of them, as of the next.
    Connection(Kept),
    /// Somebody who waits for no answer has asked the server for this.
    Asked(Change),
}

impl Message for Greeting {}
impl Message for HandedOver {}
impl Message for ToSuccessor {}

impl Message for FromSuccessor {
    fn shorten(&mut self, budget: usize) {
        if let Self::Failed { reason } = self {
            reason.truncate(reason.floor_char_boundary(budget));
        }
    }
}

/// What a running server handed over to this process.
#[derive(Debug)]
pub(crate) struct Handover {
    /// The server's own words.
    pub(crate) greeting: Greeting,
    /// Where clients come from.
    pub(crate) listeners: Vec<Inherited>,
    /// Where questions come from.
    pub(crate) control: Control,
    socket: OwnedFd,
}

/// Takes what a running server hands over, where this process was started for that. Waits for it.
///
/// # Errors
/// It cannot be understood; the server is told so.
pub(crate) fn receive() -> Result<Option<Handover>> {
    if std::env::var_os(VARIABLE).is_none() {
        return Ok(None);
    }
    // Stdin itself stays what it is: a socket at whose other end nobody will be.
    let socket = io::stdin().as_fd().try_clone_to_owned();
    let socket = socket.context("cannot reach the running server")?;
    match read(&socket) {
        Ok((greeting, listeners, control)) => Ok(Some(Handover {
            greeting,
            listeners,
            control,
            socket,
        })),
        Err(error) => {
            refuse(&socket, &error);
            Err(error)
        }
    }
}

/// Sockets by their names in the directory.
pub(crate) type Names = BTreeMap<String, OwnedFd>;
type Read = (Greeting, Vec<Inherited>, Control);

/// Where questions come from.
#[derive(Debug, Default)]
pub(crate) struct Control {
    /// The sockets that the running server shares.
    pub(crate) names: Names,
    /// The directory that they are in, if there is one.
    pub(crate) directory: Option<ControlDirectory>,
}

fn read(socket: &OwnedFd) -> Result<Read> {
    let ended = || anyhow!("the running server has ended before it handed over");
    let greeting = control::receive::<Greeting>(socket)
        .with_context(|| format!("{VARIABLE} is set, but no server hands over on stdin"))?;
    let greeting = greeting.ok_or_else(ended)?.message;
    if greeting.version != VERSION {
        bail!(
            "the running server (highball {}) hands over in version {}, and this one (highball {}) understands version \
             {VERSION} alone: stop the running one and start this one instead",
            greeting.highball,
            greeting.version,
            env!("CARGO_PKG_VERSION")
        );
    }
    let (mut listeners, mut control_sockets) = (Vec::new(), Control::default());
    for _ in 0..greeting.sockets {
        let handed =
            control::receive::<HandedOver>(socket).context("cannot read what is handed over")?;
        let handed = handed.ok_or_else(ended)?;
        match handed.message.clone() {
            HandedOver::Control(name) => {
                drop(control_sockets.names.insert(name, handed.only_fd()?))
            }
            HandedOver::ControlDirectory(path) => {
                let directory = ControlDirectory::adopt(
                    handed.only_fd()?,
                    path,
                    Some(User::of_this_process().uid),
                );
                let directory = directory.context("cannot take the control sockets over")?;
                control_sockets.directory = Some(directory);
            }
            HandedOver::Listener(origin) => {
                let listener = Listener::adopt(handed.only_fd()?);
                let listener = listener.context("cannot take a socket over")?;
                listeners.push(Inherited { listener, origin });
            }
        }
    }
    Ok((greeting, listeners, control_sockets))
}

/// Tells the running server why this process does not take over.
pub(crate) fn refuse(socket: &OwnedFd, error: &anyhow::Error) {
    let reason = format!("{error:#}");
    // A server that is gone need not know.
    let _ = control::try_send(socket, &FromSuccessor::Failed { reason }, &[]);
}

impl Handover {
    /// Where [`refuse`] reaches the server, for as long as it is wanted.
    ///
    /// # Errors
    /// No descriptors are left.
    pub(crate) fn reply(&self) -> io::Result<OwnedFd> {
        self.socket.try_clone()
    }

    /// Where questions come from, and the server that is to be replaced, on the runtime.
    ///
    /// # Errors
    /// It can't be put there.
    pub(crate) fn into_parts(self) -> io::Result<(Control, Predecessor)> {
        let predecessor = Predecessor {
            greeting: self.greeting,
            channel: Channel::new(self.socket)?,
        };
        Ok((self.control, predecessor))
    }
}

/// The server that this one is to replace.
#[derive(Debug)]
pub(crate) struct Predecessor {
    pub(crate) greeting: Greeting,
    channel: Channel,
}

impl Predecessor {
    /// Waits for its next word, or for its end. It says nothing while this one comes up: there a word is as good.
    pub(crate) async fn speaks(&self) {
        let _ = self.channel.receive::<ToSuccessor>().await;
    }

    /// Takes over what its clients keep open, and what it is asked for, until it is gone. Drops `named` when the service manager listens to this
    /// server, and `gone` in the end.
    pub(crate) async fn follow(
        self,
        front: Rc<Front>,
        queue: Rc<ChangeQueue>,
        named: oneshot::Sender<()>,
        gone: mpsc::Receiver<()>,
    ) {
        let _gone = gone;
        self.speaks().await;
        drop(named);
        loop {
            let told = match self.channel.receive::<ToSuccessor>().await {
                Ok(Some(told)) => told,
                _ => return,
            };
            match told.message.clone() {
                ToSuccessor::Connection(kept) => {
                    // What came without its descriptor is closed: there are none left.
                    if let Ok(socket) = told.only_fd() {
                        // Its client may have left meanwhile.
                        let _ = front.take_over(socket, &kept).await;
                    }
                }
                ToSuccessor::Asked(change) => {
                    let requester = Requester::Predecessor;
                    queue.push(ChangeRequest { change, requester });
                }
                ToSuccessor::Serve | ToSuccessor::Named => {}
            }
        }
    }

    /// Says that this server could serve, and waits until it is to.
    ///
    /// # Errors
    /// The server has ended, or says something else.
    pub(crate) async fn agree(&self) -> Result<()> {
        let highball = env!("CARGO_PKG_VERSION").to_owned();
        self.channel
            .send(&FromSuccessor::Ready { highball }, &[])
            .await?;
        let told = self.channel.receive::<ToSuccessor>().await?;
        match told.map(|told| told.message) {
            Some(ToSuccessor::Serve) => Ok(()),
            _ => bail!("the running server has ended, or does not want to be replaced"),
        }
    }

    /// Says that this server accepts connections.
    ///
    /// # Errors
    /// The server has ended.
    pub(crate) async fn serving(&self) -> Result<()> {
        Ok(self.channel.send(&FromSuccessor::Serving, &[]).await?)
    }
}

/// The end of the server that was replaced, where there was one.
#[derive(Clone, Debug)]
pub(crate) struct PredecessorExit(mpsc::Sender<()>);

impl PredecessorExit {
    /// Comes when the other half is dropped.
    pub(crate) fn new() -> (Self, mpsc::Receiver<()>) {
        let (here, there) = mpsc::channel(1);
        (Self(here), there)
    }

    /// Whether it is still to come.
    pub(crate) fn is_awaited(&self) -> bool {
        !self.0.is_closed()
    }

    /// Waits for it, for `limit` at most: a server that stands still holds nobody up.
    pub(crate) async fn wait(&self, limit: Duration) {
        // Whoever waits goes on either way.
        let _ = tokio::time::timeout(limit, self.0.closed()).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handover_of_another_version_is_refused_in_words() {
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
            text.contains("highball 9.9.9) hands over in version 2"),
            "{text}"
        );
        refuse(&successor, &error);
        let said = control::try_receive::<FromSuccessor>(&server)
            .unwrap()
            .unwrap();
        assert!(matches!(said.message, FromSuccessor::Failed { reason } if reason == text));
    }

    #[test]
    fn the_first_message_may_have_any_other_fields() {
        let greeting: Greeting = control::decode(br#"{"version":7,"colour":"red"}"#).unwrap();
        assert_eq!((greeting.version, greeting.pid), (7, 0));
    }

    #[test]
    fn a_server_that_ends_within_its_handover_is_an_error() {
        let (server, successor) = control::pair().unwrap();
        let greeting = Greeting {
            version: VERSION,
            sockets: 1,
            ..Greeting::default()
        };
        control::send(&server, &greeting, &[]).unwrap();
        drop(server);
        let error = read(&successor).unwrap_err().to_string();
        assert!(error.contains("has ended before it handed over"), "{error}");
    }
}
