//! Connections that carry several requests at a time: HTTP/2 (RFC 9113). Each connection has the places
//! `index * streams` and those after it. It decides no more than [`super::conversation`] where requests come from.

use std::future::Future as _;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use h2::client::{Builder, Connection, SendRequest};
use rustix::event::epoll;

use super::super::exchange::{Exchange, Step};
use super::super::slot::Phase;
use super::super::stream::{Opened, Stream, Traffic};
use super::super::tally::{Failure, span};
use super::{Client, ROOM, event_data};

/// What a server may send of one response, and of all, before the generator takes it: those of Chromium.
const STREAM_WINDOW: u32 = 6 * 1024 * 1024;
const CONNECTION_WINDOW: u32 = 15 * 1024 * 1024;

/// A connection of HTTP/2.
#[derive(Debug, Default)]
pub(super) struct Session {
    state: State,
    /// Counts connections, as that of a place does.
    generation: u32,
    /// When the connection was first tried.
    tried: u64,
    traffic: Rc<Traffic>,
    /// Whether requests were handed to it that have not left.
    pub(super) unsent: bool,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Closed,
    Establishing(Stream),
    Open(SendRequest<Bytes>, Connection<Stream, Bytes>),
    /// The server takes no more requests on it (GOAWAY).
    Leaving(Connection<Stream, Bytes>),
}

impl Client<'_> {
    /// Hands the request of `place` to its connection, which is made where there is none.
    pub(super) fn submit(&mut self, place: u32, now: u64) {
        let index = place as usize / self.streams;
        let session = &mut self.sessions[index];
        let slot = &mut self.slots[place as usize];
        slot.phase = Phase::Connecting;
        let (Some(job), Some(requests)) = (slot.job, &self.shared.multiplexed) else {
            return;
        };
        match &mut session.state {
            State::Open(send, _) => {
                let request = &requests[job.kind];
                // A clone, since each may wait for one stream only.
                let sent = send
                    .clone()
                    .send_request(request.head.clone(), request.body.is_empty());
                let Ok((head, mut stream)) = sent else {
                    session.leave();
                    return session.mark(index, &mut self.unsent);
                };
                if !request.body.is_empty() {
                    // Where it fails the response says why.
                    let _ = stream.send_data(request.body.clone(), true);
                }
                slot.phase = Phase::Busy;
                slot.sent = now;
                slot.exchange = Some(Exchange::new(head));
                self.tally.sent += 1;
                session.mark(index, &mut self.unsent);
            }
            State::Establishing(_) | State::Leaving(_) => {}
            State::Closed => {
                let opened = Stream::open(&self.shared.plan.target, self.shared.tls.as_ref());
                let stream = match opened {
                    Ok(Opened::Stream(stream)) => stream,
                    Ok(Opened::NoRoom) => {
                        slot.phase = Phase::Resting(now + ROOM);
                        self.sweep_at = self.sweep_at.min(now + ROOM);
                        return;
                    }
                    Err(failure) => return self.fail(place, failure, now),
                };
                session.generation = session.generation.wrapping_add(1);
                session.tried = now;
                let interest = epoll::EventFlags::OUT | epoll::EventFlags::IN;
                let data = event_data(index as u32, session.generation);
                if epoll::add(&self.poll, &stream, data, interest | epoll::EventFlags::ET).is_err()
                {
                    return self.fail(place, Failure::NoDescriptor, now);
                }
                session.traffic = stream.traffic();
                session.state = State::Establishing(stream);
                // A UNIX socket is connected already, and the event of that may be over.
                session.mark(index, &mut self.unsent);
            }
        }
    }

    /// Goes on with a connection: what came is read, what is ready leaves, and what ended is answered.
    pub(super) fn drive(&mut self, index: usize, now: u64) {
        let context = &mut Context::from_waker(Waker::noop());
        self.sessions[index].unsent = false;
        let places = index * self.streams..((index + 1) * self.streams).min(self.slots.len());
        match self.sessions[index].establish(context) {
            Ok(None) => {}
            Ok(Some(false)) => return,
            Ok(Some(true)) => {
                let took = span(self.sessions[index].tried, now);
                self.tally.connect.record(took);
                for place in places.clone() {
                    if self.slots[place].phase == Phase::Connecting {
                        self.submit(place as u32, now);
                    }
                }
            }
            Err(failure) => {
                self.sessions[index].close();
                for place in places {
                    if self.slots[place].phase == Phase::Connecting {
                        self.fail(place as u32, failure, now);
                    }
                }
                return;
            }
        }
        loop {
            let over = self.sessions[index].poll(context);
            let traffic = &self.sessions[index].traffic;
            self.tally.bytes.received += traffic.received.take();
            self.tally.bytes.sent += traffic.sent.take();
            let mut busy = false;
            for place in places.clone() {
                let slot = &mut self.slots[place];
                let Some(exchange) = &mut slot.exchange else {
                    continue;
                };
                let waited = !exchange.begun();
                let step = exchange.step(context);
                if waited && exchange.begun() {
                    slot.first = now;
                }
                match step {
                    Step::More => busy = true,
                    Step::Whole(response) => self.conclude(place as u32, &response, true, now),
                    Step::Refused => {
                        slot.exchange = None;
                        slot.phase = Phase::Connecting;
                        self.sessions[index].leave();
                    }
                    Step::Failed(failure) => self.fail(place as u32, failure, now),
                }
                busy |= self.slots[place].phase == Phase::Busy;
            }
            let session = &mut self.sessions[index];
            if matches!(session.state, State::Closed | State::Establishing(_)) {
                return;
            }
            if over || (!busy && matches!(session.state, State::Leaving(_))) {
                session.close();
                // Those that the server refused, or that waited for the others to end.
                for place in places {
                    if self.slots[place].phase == Phase::Connecting {
                        self.submit(place as u32, now);
                    }
                }
                return;
            }
            if !session.unsent {
                return;
            }
        }
    }
}

impl Session {
    /// Whether `generation` is that of its connection.
    pub(super) fn is(&self, generation: u32) -> bool {
        self.generation == generation
    }

    /// Whether a request can be handed to it.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.state, State::Open(..))
    }

    /// Notes in `unsent` that number `index` has something to send.
    pub(super) fn mark(&mut self, index: usize, unsent: &mut Vec<usize>) {
        if !std::mem::replace(&mut self.unsent, true) {
            unsent.push(index);
        }
    }

    /// Ends the connection.
    pub(super) fn close(&mut self) {
        self.state = State::Closed;
        self.generation = self.generation.wrapping_add(1);
        self.unsent = false;
    }

    /// Ends a connection that is not made yet.
    pub(super) fn give_up_establishing(&mut self) {
        if matches!(self.state, State::Establishing(_)) {
            self.close();
        }
    }

    /// Sends no more requests on it.
    fn leave(&mut self) {
        self.state = match std::mem::take(&mut self.state) {
            State::Open(_, connection) => State::Leaving(connection),
            state => state,
        };
    }

    /// Goes on with making the connection; says whether it is made now, and nothing where it was.
    fn establish(&mut self, context: &mut Context<'_>) -> Result<Option<bool>, Failure> {
        let State::Establishing(stream) = &mut self.state else {
            return Ok(None);
        };
        if !stream.establish()? {
            return Ok(Some(false));
        }
        if !stream.speaks_http_2() {
            return Err(Failure::Invalid);
        }
        let State::Establishing(stream) = std::mem::take(&mut self.state) else {
            return Ok(None);
        };
        let mut builder = Builder::new();
        builder
            .enable_push(false)
            .initial_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW);
        // It only writes its preface, for which a new socket has room.
        match pin!(builder.handshake(stream)).poll(context) {
            Poll::Ready(Ok((send, connection))) => {
                self.state = State::Open(send, connection);
                Ok(Some(true))
            }
            _ => Err(Failure::Reset),
        }
    }

    /// Reads and writes what it can; says whether the connection is over.
    fn poll(&mut self, context: &mut Context<'_>) -> bool {
        self.unsent = false;
        match &mut self.state {
            State::Open(_, connection) | State::Leaving(connection) => {
                Pin::new(connection).poll(context).is_ready()
            }
            State::Closed | State::Establishing(_) => true,
        }
    }
}
