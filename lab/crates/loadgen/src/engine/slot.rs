//! One place for a connection: its socket, the request it carries, the session that outlives its connections.
//! It does not know the schedule.

use std::os::fd::AsFd;

use rustix::event::epoll;

use super::exchange::Exchange;
use super::rendering::Rendered;
use super::stream::Stream;
use super::tally::Times;
use crate::framing::Framer;

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
    /// Its connection; with HTTP/2 several places share one, which is not here.
    pub(super) stream: Option<Stream>,
    /// What was sent on a stream of HTTP/2.
    pub(super) exchange: Option<Exchange>,
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
            stream: None,
            exchange: None,
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
        self.stream = None;
        self.exchange = None;
        self.generation = self.generation.wrapping_add(1);
        self.phase = Phase::Vacant;
        self.calls = 0;
        self.wants_room = false;
    }

    /// Asks the poll set for what the connection waits for, where that has changed. `data` is what its events say.
    pub(super) fn watch(&mut self, poll: impl AsFd, data: epoll::EventData, wants_room: bool) {
        let Some(stream) = self
            .stream
            .as_ref()
            .filter(|_| wants_room != self.wants_room)
        else {
            return;
        };
        let mut flags = epoll::EventFlags::IN;
        flags.set(epoll::EventFlags::OUT, wants_room);
        epoll::modify(poll, stream, data, flags)
            .expect("the socket is in the poll set and its memory is there already");
        self.wants_room = wants_room;
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
