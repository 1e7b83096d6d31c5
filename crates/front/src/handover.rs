//! What goes over to another server that takes the place of this one: the sockets that it accepts from, and connections
//! on which nothing is under way. Such a connection has no state but its socket, so that its client notices nothing.
//! Who carries the sockets there is the caller's affair.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::rc::Rc;

use serde::{Deserialize, Serialize};
use tokio::net::{TcpStream, UnixStream};

use crate::Front;
use crate::net::listener::Accepted;

/// What is known of an idle connection beside its socket.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Kept {
    /// The address of the listener that it came from; a UNIX socket's has none.
    pub(crate) listener: Option<SocketAddr>,
    /// Whether a request was answered on it.
    pub(crate) answered: bool,
}

impl Front {
    /// Duplicates of the sockets that it accepts from, in the order in which they came.
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn listeners(&self) -> io::Result<Vec<OwnedFd>> {
        let accepting = self.accepting.borrow();
        let sockets = accepting.iter().map(|one| one.acceptor.duplicate());
        sockets.collect()
    }

    /// Leaves the files of UNIX sockets where they are when the listeners end: another process accepts from them.
    pub fn leave_socket_files(&self) {
        for accepting in self.accepting.borrow().iter() {
            accepting.acceptor.leave_file();
        }
    }

    /// Accepts nothing more, and gives every connection away as soon as nothing is under way on it: until none is left.
    /// A connection that `give` fails for with `WouldBlock` is served on until `room` says that it may be tried again.
    ///
    /// # Errors
    /// The others of `give`, and those of `room`. The connections that are left are served on.
    pub async fn give_away(
        &self,
        give: impl Fn(BorrowedFd<'_>, &Kept) -> io::Result<()>,
        room: impl AsyncFn() -> io::Result<()>,
    ) -> io::Result<()> {
        self.stop_accepting();
        for connection in self.connections.borrow().values() {
            connection.rest_early();
        }
        loop {
            // Before the look, so that nothing between the two is missed.
            let (rested, ended) = (self.service.rested.notified(), self.ended.notified());
            let all: Vec<_> = self.connections.borrow().values().cloned().collect();
            if all.is_empty() {
                return Ok(());
            }
            for connection in all.iter().filter(|connection| connection.is_asleep()) {
                while let Err(error) = connection.give(&give) {
                    match error.kind() {
                        io::ErrorKind::WouldBlock => room().await?,
                        _ => return Err(error),
                    }
                }
            }
            drop(all);
            tokio::select! {
                () = rested => {}
                () = ended => {}
            }
        }
    }

    /// Serves a connection that another server gave away, once there is room for it, and comes back when there may be
    /// descriptors for another one. One that comes while this server stops is closed, as every idle one is, when what
    /// has come on it is answered.
    ///
    /// # Errors
    /// It can't be served: its client has left.
    pub async fn take_over(self: &Rc<Self>, socket: OwnedFd, kept: &Kept) -> io::Result<()> {
        self.room(|| true).await;
        let accepted = match kept.listener {
            Some(local) => {
                let stream = TcpStream::from_std(socket.into())?;
                let peer = stream.peer_addr()?;
                Accepted::Tcp(stream, peer, local)
            }
            None => Accepted::Unix(UnixStream::from_std(socket.into())?),
        };
        let settings = self.settings();
        let (stream, peer) = accepted.known(&settings.trusted_proxies);
        // The other server let it in; here it counts as far as there is room.
        let limit = settings.max_connections_per_address;
        let counted = self.addresses.count(&peer, limit).ok().flatten();
        self.open(stream, peer, counted, kept.answered).await;
        Ok(())
    }
}
