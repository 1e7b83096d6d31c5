//! One thread of the generator: a poll set, its connections, its share of the load. One request is in flight on a
//! connection; nothing is allocated for a request, only for connections and sessions.

use std::collections::VecDeque;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use anyhow::{Context, Result};
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;

use super::arrivals::{Source, nanoseconds};
use super::rendering::{Multiplexed, Rendered};
use super::slot::{Job, Phase, Slot};
use super::tally::{Failure, Tally, span};
use crate::plan::{End, Mode, Plan};
use crate::tls::Connector;
use multiplexed::Session;

mod conversation;
mod multiplexed;

/// Events taken at once.
const EVENTS: usize = 256;
/// Bytes read at once.
const READ: usize = 64 * 1024;
/// How often connections are looked at for time-outs and rests, in nanoseconds.
const SWEEP: u64 = 20_000_000;
/// A connection that could not be made is tried again after so many nanoseconds: a closed loop without this pause
/// would count its own speed.
const REST: u64 = 10_000_000;
/// The same where a UNIX socket's backlog was full: there is no event to wait for.
const ROOM: u64 = 1_000_000;

/// What all threads of a load share.
#[derive(Debug)]
pub(super) struct Shared<'a> {
    pub(super) plan: &'a Plan,
    pub(super) stop: &'a AtomicBool,
    pub(super) requests: Vec<Rendered>,
    pub(super) login: Option<Rendered>,
    /// The requests of HTTP/2, where it is spoken.
    pub(super) multiplexed: Option<Vec<Multiplexed>>,
    /// Where connections are secured.
    pub(super) tls: Option<Connector>,
    pub(super) threads: usize,
    /// Requests taken up in all, where their number ends the load.
    pub(super) tickets: AtomicU64,
    /// Requests in flight in all threads.
    pub(super) in_flight: AtomicU64,
    /// Whether each request is kept by itself.
    pub(super) each: bool,
}

impl Shared<'_> {
    fn tickets_are_out(&self) -> bool {
        match self.plan.mode {
            Mode::Closed {
                end: End::Requests(all),
                ..
            } => self.tickets.load(Ordering::Relaxed) >= all,
            _ => false,
        }
    }

    /// One request less is in flight.
    fn ended(&self) {
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

/// One thread.
#[derive(Debug)]
pub(super) struct Client<'a> {
    shared: &'a Shared<'a>,
    poll: OwnedFd,
    began: Instant,
    buffer: Box<[u8]>,
    slots: Vec<Slot>,
    most_slots: usize,
    idle: Vec<u32>,
    vacant: Vec<u32>,
    /// Places of a closed loop that are to begin a request.
    again: VecDeque<u32>,
    /// Connections of HTTP/2, none otherwise, and places of each.
    sessions: Vec<Session>,
    streams: usize,
    /// Those that have something to send.
    unsent: Vec<usize>,
    source: Source,
    /// When no more requests begin.
    end: u64,
    /// When nothing more is waited for.
    grace_end: u64,
    /// When the next sweep is due.
    sweep_at: u64,
    sweep_every: u64,
    timeout: u64,
    /// Requests wait for a connection; or when the last that waited found one.
    waiting: bool,
    room_since: u64,
    pub(super) tally: Tally,
}

impl<'a> Client<'a> {
    /// Gets thread `index` ready; nothing is sent.
    pub(super) fn new(
        shared: &'a Shared<'a>,
        index: usize,
        out: std::sync::mpsc::Sender<super::tally::Slice>,
    ) -> Result<Self> {
        let plan = shared.plan;
        let end = plan.length().map_or(u64::MAX, nanoseconds);
        let share = |all: usize| all / shared.threads + usize::from(index < all % shared.threads);
        let connections = share(plan.connections_at_most());
        let mut sessions = Vec::new();
        if plan.streams.is_some() {
            sessions.resize_with(connections, Session::default);
        }
        let timeout = nanoseconds(plan.timeout);
        let sweep_every = (timeout / 10).clamp(ROOM, SWEEP);
        Ok(Self {
            shared,
            poll: epoll::create(epoll::CreateFlags::CLOEXEC).context("create a poll set")?,
            began: Instant::now(),
            buffer: vec![0; READ].into_boxed_slice(),
            slots: Vec::new(),
            most_slots: connections * plan.streams_at_most(),
            idle: Vec::new(),
            vacant: Vec::new(),
            again: VecDeque::new(),
            sessions,
            streams: plan.streams_at_most(),
            unsent: Vec::new(),
            source: Source::of(plan, index, shared.threads),
            end,
            grace_end: end.saturating_add(nanoseconds(plan.grace())),
            sweep_at: sweep_every,
            sweep_every,
            timeout,
            waiting: false,
            room_since: 0,
            tally: Tally::new(plan, index, end, out, shared.each),
        })
    }

    /// Carries out this thread's share of the load, which began at `began`. Returns how long it went on, and whether
    /// it came to its end.
    pub(super) fn run(&mut self, began: Instant) -> Result<(u64, bool)> {
        self.began = began;
        if matches!(self.source, Source::Closed(_)) {
            self.slots.resize_with(self.most_slots, Slot::new);
            self.again = (0..self.most_slots as u32).collect();
        }
        let mut events = [const { MaybeUninit::<epoll::Event>::uninit() }; EVENTS];
        let mut now = self.now();
        loop {
            self.tally.advance(now);
            if now >= self.sweep_at {
                self.sweep(now);
            }
            self.resume();
            self.depart(now);
            now = self.now();
            while let Some(index) = self.unsent.pop() {
                if self.sessions[index].unsent {
                    self.drive(index, now);
                }
            }
            if self.shared.stop.load(Ordering::Relaxed) {
                self.tally.count(now);
                self.tally.finish();
                return Ok((now, false));
            }
            if now >= self.grace_end || self.is_done(now) {
                self.give_up(now);
                return Ok((now, true));
            }
            let timeout = self.patience(now);
            let timeout = Timespec {
                tv_sec: (timeout / 1_000_000_000) as i64,
                tv_nsec: (timeout % 1_000_000_000) as i64,
            };
            let ready = match epoll::wait(&self.poll, &mut events, Some(&timeout)) {
                Ok((ready, _)) => ready,
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error).context("wait for connections"),
            };
            for event in ready.iter() {
                let (data, flags) = (event.data.u64(), event.flags);
                now = self.now();
                self.depart(now);
                self.handle(data as u32, (data >> 32) as u32, flags, now);
            }
            now = self.now();
        }
    }

    fn now(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }

    /// How long the thread may sleep.
    fn patience(&self, now: u64) -> u64 {
        let mut until = self.tally.flush_at().min(self.sweep_at);
        match &self.source {
            Source::Open {
                next: Some(next), ..
            } if !self.waiting => until = until.min(next.at),
            Source::Closed(_) if !self.again.is_empty() => until = now,
            _ => {}
        }
        until.saturating_sub(now)
    }

    fn is_done(&self, now: u64) -> bool {
        let over = match &self.source {
            Source::Open { next, .. } => next.is_none(),
            Source::Closed(_) => now >= self.end || self.shared.tickets_are_out(),
        };
        over && self.tally.is_at_rest()
    }

    /// Sends what is due of an open loop's schedule.
    fn depart(&mut self, now: u64) {
        loop {
            let Source::Open {
                next: Some(arrival),
                ..
            } = &self.source
            else {
                return;
            };
            if arrival.at > now {
                self.waiting = false;
                return;
            }
            let arrival = *arrival;
            let place = match self.idle.pop().or_else(|| self.vacant.pop()) {
                Some(place) => place,
                None if self.slots.len() < self.most_slots => {
                    self.slots.push(Slot::new());
                    (self.slots.len() - 1) as u32
                }
                None => {
                    self.waiting = true;
                    return;
                }
            };
            match &mut self.source {
                Source::Open { share, next } => *next = share.next(),
                Source::Closed(_) => return,
            }
            let due = if self.waiting && arrival.at < self.room_since {
                self.tally.pool_wait.record(span(arrival.at, now));
                self.room_since
            } else {
                arrival.at
            };
            self.tally.lag.record(span(due, now));
            self.begin(
                place,
                Job {
                    kind: arrival.kind,
                    due: arrival.at,
                    taken: now,
                },
            );
        }
    }

    /// Begins what a closed loop's places are ready for.
    fn resume(&mut self) {
        // What fails at once comes back into the queue and is left for the next round.
        for _ in 0..self.again.len() {
            if let Some(place) = self.again.pop_front() {
                let now = self.now();
                self.begin_next(place, now);
            }
        }
    }

    /// Begins the next request of a closed loop, unless it is over.
    fn begin_next(&mut self, place: u32, now: u64) {
        let Source::Closed(draw) = &mut self.source else {
            return;
        };
        let counted = matches!(
            self.shared.plan.mode,
            Mode::Closed { end: End::Requests(all), .. }
                if self.shared.tickets.fetch_add(1, Ordering::Relaxed) >= all
        );
        if counted || now >= self.end {
            self.slots[place as usize].close();
            return;
        }
        let kind = draw.next();
        self.begin(
            place,
            Job {
                kind,
                due: now,
                taken: now,
            },
        );
    }

    fn begin(&mut self, place: u32, job: Job) {
        self.tally.begin(job.taken);
        let in_flight = self.shared.in_flight.fetch_add(1, Ordering::Relaxed) + 1;
        self.tally.peak = self.tally.peak.max(in_flight);
        let slot = &mut self.slots[place as usize];
        slot.job = Some(job);
        slot.sent = job.taken;
        slot.tried = job.taken;
        if slot.stream.is_some() {
            self.prepare(place, Phase::Busy);
            self.transmit(place, job.taken);
        } else {
            self.connect(place, job.taken);
        }
    }

    /// Gives a place of an open loop back.
    fn release(&mut self, place: u32, now: u64) {
        let slot = &mut self.slots[place as usize];
        let session = self.sessions.get(place as usize / self.streams);
        if slot.stream.is_some() || session.is_some_and(Session::is_open) {
            slot.phase = Phase::Idle(self.idle.len());
            self.idle.push(place);
        } else {
            self.vacant.push(place);
        }
        if self.waiting {
            self.room_since = now;
        }
    }

    /// Ends what took too long, and wakes what rested.
    fn sweep(&mut self, now: u64) {
        self.sweep_at = now + self.sweep_every;
        for place in 0..self.slots.len() as u32 {
            let slot = &self.slots[place as usize];
            let overdue = slot.job.is_some_and(|job| now >= job.taken + self.timeout);
            match slot.phase {
                Phase::Connecting | Phase::Resting(_) if overdue => {
                    self.fail(place, Failure::ConnectTimeout, now);
                }
                Phase::LoggingIn | Phase::Busy if overdue => {
                    self.fail(place, Failure::Timeout, now)
                }
                Phase::Resting(until) if until > now => self.sweep_at = self.sweep_at.min(until),
                Phase::Resting(_) if slot.job.is_some() => self.connect(place, now),
                Phase::Resting(_) => {
                    self.slots[place as usize].phase = Phase::Vacant;
                    self.again.push_back(place);
                }
                _ => {}
            }
        }
    }

    /// Counts what was not answered, sent or not.
    fn give_up(&mut self, now: u64) {
        for place in 0..self.slots.len() as u32 {
            if self.slots[place as usize].job.is_some() {
                self.fail(place, Failure::Unanswered, now);
            }
        }
        while let Source::Open { share, next } = &mut self.source {
            let Some(arrival) = std::mem::replace(next, share.next()) else {
                break;
            };
            let times = super::tally::Times {
                due: arrival.at,
                sent: now,
                first: now,
                ended: now,
            };
            self.tally.failed(arrival.kind, times, Failure::Unanswered);
        }
        self.tally.finish();
    }
}

fn event_data(place: u32, generation: u32) -> epoll::EventData {
    epoll::EventData::new_u64(u64::from(generation) << 32 | u64::from(place))
}
