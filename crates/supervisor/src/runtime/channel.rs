//! Control sockets under tokio: waits for a message or for room, where `exchange::control` would block.
//! Knows no message.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

use exchange::control::{self, Error, Message, Received};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// The supervisor's end of a control socket.
#[derive(Debug)]
pub struct Channel {
    socket: AsyncFd<OwnedFd>,
    /// Whether the other end may be in hostile hands.
    is_foreign: bool,
}

impl Channel {
    /// A channel, and the end for the other process, which may be hostile: no descriptors but pidfds and UNIX sockets are taken
    /// from it.
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn pair() -> io::Result<(Self, OwnedFd)> {
        let (near, far) = control::pair()?;
        Ok((Self::foreign(near)?, far))
    }

    /// A channel over one end of a control socket.
    ///
    /// # Errors
    /// It can't be put on the runtime.
    pub fn new(socket: OwnedFd) -> io::Result<Self> {
        // Every call below is one that does not wait, so the socket may stay in blocking mode.
        let socket = registered(socket, Interest::READABLE | Interest::WRITABLE)?;
        Ok(Self {
            socket,
            is_foreign: false,
        })
    }

    /// The same to a process that may be hostile.
    ///
    /// # Errors
    /// As [`Channel::new`].
    pub(crate) fn foreign(socket: OwnedFd) -> io::Result<Self> {
        let channel = Self::new(socket)?;
        Ok(Self {
            is_foreign: true,
            ..channel
        })
    }

    fn try_receive<M: Message>(&self) -> Result<Option<Received<M>>, Error> {
        match self.is_foreign {
            true => control::try_receive_foreign(self.socket.get_ref()),
            false => control::try_receive(self.socket.get_ref()),
        }
    }

    /// Waits for a message; `None` is the end. Loses nothing when it is dropped.
    ///
    /// # Errors
    /// Those of [`control::receive`].
    pub async fn receive<M: Message>(&self) -> Result<Option<Received<M>>, Error> {
        loop {
            let mut ready = self.socket.readable().await?;
            match self.try_receive() {
                Err(error) if error.would_block() => ready.clear_ready(),
                Err(error) if error.interrupted() => {}
                result => return result,
            }
        }
    }

    /// Takes a message that is there; `None` where there is none, or none that can be read.
    pub(crate) fn take<M: Message>(&self) -> Option<Received<M>> {
        self.try_receive().ok().flatten()
    }

    /// Sends a message, if there is room.
    ///
    /// # Errors
    /// Those of [`control::try_send`].
    pub fn try_send<M: Message>(&self, message: &M, fds: &[BorrowedFd<'_>]) -> Result<(), Error> {
        control::try_send(self.socket.get_ref(), message, fds)
    }

    /// Waits for room where there was none, or for the end. Loses nothing when it is dropped.
    ///
    /// # Errors
    /// The runtime has ended.
    pub async fn room(&self) -> io::Result<()> {
        loop {
            let mut ready = self.socket.writable().await?;
            let mut socket = [PollFd::new(self.socket.get_ref(), PollFlags::OUT)];
            if poll(&mut socket, Some(&Timespec::default()))? > 0 {
                return Ok(());
            }
            ready.clear_ready();
        }
    }

    /// Sends a message, waiting for room.
    ///
    /// # Errors
    /// Those of [`control::send`].
    pub async fn send<M: Message>(&self, message: &M, fds: &[BorrowedFd<'_>]) -> Result<(), Error> {
        loop {
            let mut ready = self.socket.writable().await?;
            match control::try_send(self.socket.get_ref(), message, fds) {
                Err(error) if error.would_block() => ready.clear_ready(),
                result => return result,
            }
        }
    }
}

/// A process to wait for, by its pidfd.
#[derive(Debug)]
pub(crate) struct Pidfd(AsyncFd<Rc<OwnedFd>>);

impl Pidfd {
    pub(crate) fn new(fd: impl Into<Rc<OwnedFd>>) -> io::Result<Self> {
        // A pidfd knows no other readiness.
        registered(fd.into(), Interest::READABLE).map(Self)
    }

    /// The descriptor itself.
    pub(crate) fn descriptor(&self) -> Rc<OwnedFd> {
        Rc::clone(self.0.get_ref())
    }

    /// Waits until the process has ended. Loses nothing when it is dropped.
    pub(crate) async fn ended(&self) {
        // The end stays readable for ever; an error of the poll itself cannot be waited out either.
        let _ = self.0.readable().await;
    }
}

impl AsFd for Pidfd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.get_ref().as_fd()
    }
}

/// A pidfd of a process that is there.
pub(crate) fn open_pidfd(pid: i32) -> Option<OwnedFd> {
    pidfd_open(Pid::from_raw(pid.max(0))?, PidfdFlags::empty()).ok()
}

/// Registers a descriptor with the runtime.
#[expect(
    deprecated,
    reason = "its successor is unsafe, for types that may change their descriptor; an OwnedFd keeps it"
)]
fn registered<T: AsRawFd>(fd: T, interest: Interest) -> io::Result<AsyncFd<T>> {
    AsyncFd::with_interest(fd, interest)
}
