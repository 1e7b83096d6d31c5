//! One place for a connection: its socket, the request it carries, the session that outlives its connections.
//! It knows neither epoll nor the schedule.

use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, send, socket_with,
    sockopt,
};

use super::rendering::Rendered;
use super::tally::{Failure, Times};
use crate::framing::Framer;
use crate::plan::Target;

/// What the place is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// No connection, nothing to do.
    Vacant,
    /// No connection; tries again at this time, with its request where it has one.
    Resting(u64),
    /// The connection is being made.
    Connecting,
    /// The login was sent.
    LoggingIn,
    /// A connection with nothing in flight, at this place among the idle ones.
    Idle(usize),
    /// A request was sent.
    Busy,
}

/// The request that a place carries.
#[derive(Debug, Clone, Copy)]
pub(super) struct Job {
    pub(super) kind: usize,
    /// Nanoseconds from the start at which it should leave.
    pub(super) due: u64,
    /// When it was taken up.
    pub(super) taken: u64,
}

/// A place for a connection.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) socket: Option<OwnedFd>,
    /// Counts connections, so that an event of a closed one is not taken for one of the next.
    pub(super) generation: u32,
    pub(super) phase: Phase,
    pub(super) job: Option<Job>,
    /// When the connection was first tried.
    pub(super) tried: u64,
    /// Bytes of the request that have left.
    pub(super) written: usize,
    /// Whether the poll set was asked for room to write.
    pub(super) wants_room: bool,
    pub(super) sent: u64,
    pub(super) first: u64,
    pub(super) framer: Framer,
    /// Requests that the connection carried.
    pub(super) calls: u32,
    /// The requests with this session's cookies, after its login.
    pub(super) session: Option<Box<[Rendered]>>,
}

impl Slot {
    pub(super) fn new() -> Self {
        Self {
            socket: None,
            generation: 0,
            phase: Phase::Vacant,
            job: None,
            tried: 0,
            written: 0,
            wants_room: false,
            sent: 0,
            first: 0,
            framer: Framer::new(),
            calls: 0,
            session: None,
        }
    }

    /// Ends the connection.
    pub(super) fn close(&mut self) {
        self.socket = None;
        self.generation = self.generation.wrapping_add(1);
        self.phase = Phase::Vacant;
        self.calls = 0;
        self.wants_room = false;
    }

    /// The times of its request, which ended now.
    pub(super) fn times(&self, job: Job, now: u64) -> Times {
        Times {
            due: job.due,
            sent: self.sent,
            first: self.first,
            ended: now,
        }
    }
}

/// Sends what it can of `bytes`; says how much went.
pub(super) fn write(socket: impl AsFd, bytes: &[u8]) -> Result<usize, Failure> {
    match send(socket, bytes, SendFlags::NOSIGNAL) {
        Ok(count) => Ok(count),
        Err(Errno::AGAIN | Errno::INTR) => Ok(0),
        Err(error) => Err(of_transfer(error)),
    }
}

/// Opens a socket and begins to connect it.
pub(super) fn open(target: &Target) -> Result<(OwnedFd, Connecting), Failure> {
    let family = match target {
        Target::Tcp(address) if address.is_ipv4() => AddressFamily::INET,
        Target::Tcp(_) => AddressFamily::INET6,
        Target::Unix(_) => AddressFamily::UNIX,
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(family, SocketType::STREAM, flags, None).map_err(of_connect)?;
    let begun = match target {
        Target::Tcp(address) => {
            // A small request must not wait for the acknowledgement of the one before.
            sockopt::set_tcp_nodelay(&socket, true).map_err(of_connect)?;
            connect(&socket, address)
        }
        Target::Unix(path) => connect(
            &socket,
            &SocketAddrUnix::new(path.as_path()).map_err(of_connect)?,
        ),
    };
    match begun {
        Ok(()) => Ok((socket, Connecting::Done)),
        Err(Errno::INPROGRESS | Errno::INTR) => Ok((socket, Connecting::Begun)),
        // A UNIX socket whose backlog is full says so instead of queueing (unix(7)).
        Err(Errno::AGAIN) if family == AddressFamily::UNIX => Ok((socket, Connecting::NoRoom)),
        Err(error) => Err(of_connect(error)),
    }
}

/// How far connecting came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Connecting {
    /// It is made.
    Done,
    /// An event will tell.
    Begun,
    /// There is no room in the server's backlog yet.
    NoRoom,
}

/// What became of a connection that was being made.
pub(super) fn connected(socket: impl AsFd) -> Result<(), Failure> {
    match sockopt::socket_error(socket) {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) | Err(error) => Err(of_connect(error)),
    }
}

fn of_connect(error: Errno) -> Failure {
    match error {
        Errno::ADDRNOTAVAIL => Failure::NoAddress,
        Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM => Failure::NoDescriptor,
        Errno::TIMEDOUT => Failure::ConnectTimeout,
        Errno::CONNRESET => Failure::Reset,
        _ => Failure::ConnectRefused,
    }
}

/// What an error of sending or receiving means.
pub(super) fn of_transfer(error: Errno) -> Failure {
    match error {
        Errno::PIPE => Failure::Closed,
        Errno::TIMEDOUT => Failure::Timeout,
        _ => Failure::Reset,
    }
}
