//! What goes over to another server that takes the place of this one: connections on which nothing is under way. Such a
//! connection has no state but its socket, so that its client notices nothing. Carrying the sockets there is the caller's
//! affair.

use std::io;
use std::os::fd::BorrowedFd;

use crate::front::Front;
use crate::http::h1::state::IdleConnection;

impl Front {
    /// Accepts nothing more, and gives every connection away as soon as nothing is under way on it: until none is left.
    /// A connection that `give` fails for with `WouldBlock` is served on until `room` says that it may be tried again.
    ///
    /// # Errors
    /// The others of `give`, and those of `room`. The connections that are left are served on.
    pub async fn give_away(
        &self,
        give: impl Fn(BorrowedFd<'_>, &IdleConnection) -> io::Result<()>,
        room: impl AsyncFn() -> io::Result<()>,
    ) -> io::Result<()> {
        self.acceptors().stop();
        let connections = &self.edge.connections;
        for connection in connections.all() {
            connection.free_buffers_when_idle();
        }
        loop {
            // Before the look, so that nothing between the two is missed.
            let (rested, ended) = (connections.rested.notified(), connections.ended.notified());
            let all = connections.all();
            if all.is_empty() {
                return Ok(());
            }
            for connection in all.iter().filter(|connection| connection.is_hibernating()) {
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
}
