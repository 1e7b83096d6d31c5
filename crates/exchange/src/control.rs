//! The control messages between the supervisor, the template and the workers (`messages.rs`): their encoding, and their
//! transport with file descriptors. They report starts and ends of processes and never carry request data (the
//! exchange does). This file decides nothing.
//!
//! One message is one datagram of a `SOCK_SEQPACKET` socket pair: JSON of at most [`LIMIT`] bytes,
//! file descriptors with it (`SCM_RIGHTS`). The end of a socket means that the peer process died.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

mod foreign;
mod messages;
mod shorten;

pub use messages::{
    ExceptionRules, FromTemplate, FromWorker, Inspect, ProfileMode, PublicFolder, Purge, Purged,
    RuntimeOption, Start, ToTemplate, ToWorker,
};

/// Longest message in bytes.
pub const LIMIT: usize = 64 * 1024;

/// Most file descriptors in one message.
pub const MAX_FDS: usize = 4;

/// Why a control message could not be sent or received.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The system call failed. `WouldBlock`: nothing to do now; `Interrupted`: a signal came.
    #[error("control socket: {0}")]
    Io(#[from] io::Error),
    /// The message exceeds [`LIMIT`] and has nothing that may be shortened.
    #[error("control message of {0} bytes is longer than {LIMIT}")]
    TooLong(usize),
    /// More than [`MAX_FDS`] file descriptors.
    #[error("control message with more than {MAX_FDS} file descriptors")]
    TooManyFds,
    /// What arrived is no message of this file.
    #[error("malformed control message: {0}")]
    Malformed(String),
}

impl Error {
    /// Whether the call would have had to wait.
    pub fn would_block(&self) -> bool {
        matches!(self, Error::Io(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Whether a signal ended the call.
    pub fn interrupted(&self) -> bool {
        matches!(self, Error::Io(error) if error.kind() == io::ErrorKind::Interrupted)
    }
}

/// A message of this file.
pub trait Message: Serialize + DeserializeOwned + Clone {
    /// Cuts the texts that may be cut to about `budget` bytes in all, with a note of what is
    /// missing. Messages that must arrive whole keep the default, which cuts nothing.
    fn shorten(&mut self, budget: usize) {
        let _ = budget;
    }
}

/// The bytes of a message: at most [`LIMIT`], where need be by [`Message::shorten`].
///
/// # Errors
///
/// [`Error::TooLong`] where shortening does not suffice.
pub fn encode<M: Message>(message: &M) -> Result<Vec<u8>, Error> {
    let whole = to_bytes(message)?;
    if whole.len() <= LIMIT {
        return Ok(whole);
    }
    // A byte takes up to six in JSON, so what fits is found by trying.
    let mut budget = LIMIT;
    while budget >= LIMIT / 16 {
        let mut short = message.clone();
        short.shorten(budget);
        let bytes = to_bytes(&short)?;
        if bytes.len() <= LIMIT {
            return Ok(bytes);
        }
        budget /= 2;
    }
    Err(Error::TooLong(whole.len()))
}

fn to_bytes<M: Message>(message: &M) -> Result<Vec<u8>, Error> {
    serde_json::to_vec(message).map_err(|error| Error::Malformed(error.to_string()))
}

/// The message that the bytes of one datagram hold.
///
/// # Errors
///
/// [`Error::Malformed`] for anything else than one message of type `M`.
pub fn decode<M: Message>(bytes: &[u8]) -> Result<M, Error> {
    serde_json::from_slice(bytes).map_err(|error| Error::Malformed(error.to_string()))
}

/// A message as it arrived, with its file descriptors (closed on exec).
#[derive(Debug)]
pub struct Received<M> {
    /// The message.
    pub message: M,
    /// Its file descriptors, in the order sent: fewer than were sent where this process may open no more.
    pub fds: Vec<OwnedFd>,
}

impl<M> Received<M> {
    /// The only file descriptor of a message that has exactly one.
    ///
    /// # Errors
    ///
    /// [`Error::Malformed`] for none or several.
    pub fn only_fd(mut self) -> Result<OwnedFd, Error> {
        match (self.fds.pop(), self.fds.is_empty()) {
            (Some(fd), true) => Ok(fd),
            _ => Err(Error::Malformed("one file descriptor expected".into())),
        }
    }
}

/// A new control socket: both ends blocking and closed on exec.
///
/// # Errors
///
/// Those of socketpair(2), such as too many open files.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(rustix::net::socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )?)
}

/// Sends a message and waits for room where there is none.
///
/// # Errors
///
/// [`Error::Io`] with `BrokenPipe` where the peer is gone, and those of [`encode`].
pub fn send<M: Message>(
    socket: impl AsFd,
    message: &M,
    fds: &[BorrowedFd<'_>],
) -> Result<(), Error> {
    send_bytes(socket.as_fd(), &encode(message)?, fds, SendFlags::empty())
}

/// Sends a message, or fails with `WouldBlock` where there is no room.
///
/// # Errors
///
/// Those of [`send`], and `WouldBlock`.
pub fn try_send<M: Message>(
    socket: impl AsFd,
    message: &M,
    fds: &[BorrowedFd<'_>],
) -> Result<(), Error> {
    send_bytes(socket.as_fd(), &encode(message)?, fds, SendFlags::DONTWAIT)
}

fn send_bytes(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    fds: &[BorrowedFd<'_>],
    flags: SendFlags,
) -> Result<(), Error> {
    if fds.len() > MAX_FDS {
        return Err(Error::TooManyFds);
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    loop {
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
            return Err(Error::TooManyFds);
        }
        let flags = flags | SendFlags::NOSIGNAL;
        match rustix::net::sendmsg(socket, &[IoSlice::new(bytes)], &mut control, flags) {
            // A datagram goes whole or not at all.
            Ok(_) => return Ok(()),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(Error::Io(error.into())),
        }
    }
}

/// Waits for a message. `None` is the end: the peer closed its side or died.
///
/// A signal ends the wait with `Interrupted`, so that a Ruby thread can look at its interrupts.
///
/// # Errors
///
/// [`Error::Malformed`] where the bytes are no message; [`Error::Io`] otherwise.
pub fn receive<M: Message>(socket: impl AsFd) -> Result<Option<Received<M>>, Error> {
    receive_with(socket.as_fd(), RecvFlags::empty(), Ok)
}

/// Takes a message that is there, or fails with `WouldBlock`. `None` is the end.
///
/// # Errors
///
/// Those of [`receive`], and `WouldBlock`.
pub fn try_receive<M: Message>(socket: impl AsFd) -> Result<Option<Received<M>>, Error> {
    receive_with(socket.as_fd(), RecvFlags::DONTWAIT, Ok)
}

/// The same from a process that may be hostile: of descriptors it takes pidfds and UNIX sockets alone.
///
/// # Errors
///
/// Those of [`try_receive`], and [`Error::Malformed`] where another descriptor came.
pub fn try_receive_foreign<M: Message>(socket: impl AsFd) -> Result<Option<Received<M>>, Error> {
    receive_with(socket.as_fd(), RecvFlags::DONTWAIT, foreign::check)
}

fn receive_with<M: Message>(
    socket: BorrowedFd<'_>,
    flags: RecvFlags,
    check: fn(Vec<OwnedFd>) -> Result<Vec<OwnedFd>, Error>,
) -> Result<Option<Received<M>>, Error> {
    let mut bytes = vec![0; LIMIT];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        let result = rustix::net::recvmsg(
            socket,
            &mut [IoSliceMut::new(&mut bytes)],
            &mut control,
            flags | RecvFlags::CMSG_CLOEXEC,
        );
        match result {
            Ok(received) => break received,
            // The peer ended with a message of ours unread. The kernel says so once, before it gives what
            // the peer had sent.
            Err(rustix::io::Errno::CONNRESET) => {}
            Err(error) => return Err(Error::Io(error.into())),
        }
    };
    let fds: Vec<OwnedFd> = control
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(fds) => Some(fds),
            _ => None,
        })
        .flatten()
        .collect();
    let fds = check(fds)?;
    if received.bytes == 0 {
        return Ok(None);
    }
    if received.flags.contains(ReturnFlags::TRUNC) {
        return Err(Error::Malformed(format!("longer than {LIMIT} bytes")));
    }
    let message = decode(&bytes[..received.bytes])?;
    Ok(Some(Received { message, fds }))
}

#[cfg(test)]
mod tests;
