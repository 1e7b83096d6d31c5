//! What happens on one connection: made, logged in, a request out, its response in, and the end of each. Where
//! the next request comes from is not decided here.

use rustix::event::epoll;

use super::super::rendering::{self, Cookies, Rendered};
use super::super::slot::{Phase, Slot};
use super::super::stream::{Opened, Received, Stream};
use super::super::tally::{Failure, span};
use super::{Client, REST, ROOM, Shared, Source, event_data};
use crate::framing::{Ending, Malformed, Response, Step};
use crate::outcome::Sample;
use crate::plan::ConnectionUse;

impl Client<'_> {
    pub(super) fn connect(&mut self, place: u32, now: u64) {
        if self.shared.multiplexed.is_some() {
            return self.submit(place, now);
        }
        let slot = &mut self.slots[place as usize];
        slot.generation = slot.generation.wrapping_add(1);
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
        let done = stream.is_connected();
        slot.wants_room = !done;
        let interest = match done {
            true => epoll::EventFlags::IN,
            false => epoll::EventFlags::OUT,
        };
        let data = event_data(place, slot.generation);
        let added = epoll::add(&self.poll, &stream, data, interest);
        slot.stream = Some(stream);
        slot.phase = Phase::Connecting;
        if added.is_err() {
            self.fail(place, Failure::NoDescriptor, now);
        } else if done {
            self.establish(place, now);
        }
    }

    /// Goes on with making the connection, and sends the first request once it is made.
    fn establish(&mut self, place: u32, now: u64) {
        let slot = &mut self.slots[place as usize];
        let Some(stream) = &mut slot.stream else {
            return;
        };
        let done = match stream.establish() {
            Ok(done) => done,
            Err(failure) => return self.fail(place, failure, now),
        };
        let wants_room = stream.wants_room();
        slot.watch(&self.poll, event_data(place, slot.generation), wants_room);
        if !done {
            return;
        }
        self.tally.connect.record(span(slot.tried, now));
        let login = self.shared.login.is_some() && slot.session.is_none();
        self.prepare(place, if login { Phase::LoggingIn } else { Phase::Busy });
        self.transmit(place, now);
    }

    /// Gets a place ready to send its login or its request from the first byte on.
    pub(super) fn prepare(&mut self, place: u32, phase: Phase) {
        let slot = &mut self.slots[place as usize];
        slot.phase = phase;
        slot.written = 0;
        let rendered = rendered(self.shared, slot);
        slot.framer.expect(
            rendered.is_head,
            phase == Phase::LoggingIn || self.tally.sample.is_none(),
        );
    }

    /// Sends what has not left yet.
    pub(super) fn transmit(&mut self, place: u32, now: u64) {
        let slot = &mut self.slots[place as usize];
        let Some(mut stream) = slot.stream.take() else {
            return;
        };
        let bytes = &rendered(self.shared, slot).bytes;
        let length = bytes.len();
        let written = stream.write(&bytes[slot.written..]);
        let wants_room = stream.wants_room();
        slot.stream = Some(stream);
        let count = match written {
            Ok(count) => count,
            Err(failure) => return self.fail(place, failure, now),
        };
        if slot.phase == Phase::Busy {
            if slot.written == 0 {
                slot.sent = now;
                self.tally.sent += 1;
            }
            self.tally.bytes.sent += count as u64;
        }
        slot.written += count;
        let data = event_data(place, slot.generation);
        slot.watch(&self.poll, data, wants_room || slot.written < length);
    }

    pub(super) fn handle(
        &mut self,
        place: u32,
        generation: u32,
        flags: epoll::EventFlags,
        now: u64,
    ) {
        if let Some(session) = self.sessions.get(place as usize) {
            if session.is(generation) {
                self.drive(place as usize, now);
            }
            return;
        }
        let slot = &self.slots[place as usize];
        if slot.generation != generation || slot.stream.is_none() {
            return;
        }
        match slot.phase {
            Phase::Connecting => self.establish(place, now),
            Phase::LoggingIn | Phase::Busy => {
                let readable =
                    epoll::EventFlags::IN | epoll::EventFlags::HUP | epoll::EventFlags::ERR;
                // A response may come before its request has left whole; then nothing more of it need leave.
                if flags.intersects(readable) {
                    self.receive(place, now);
                }
                let slot = &self.slots[place as usize];
                if slot.generation == generation && slot.wants_room {
                    self.transmit(place, now);
                }
            }
            Phase::Idle(position) => self.drop_idle(place, position),
            Phase::Vacant | Phase::Resting(_) => {}
        }
    }

    /// The server closed an idle connection, or sent something without a request.
    fn drop_idle(&mut self, place: u32, position: usize) {
        self.idle.swap_remove(position);
        if let Some(moved) = self.idle.get(position) {
            self.slots[*moved as usize].phase = Phase::Idle(position);
        }
        self.slots[place as usize].close();
        self.vacant.push(place);
    }

    fn receive(&mut self, place: u32, now: u64) {
        let slot = &mut self.slots[place as usize];
        let Some(stream) = &mut slot.stream else {
            return;
        };
        let (framer, mut count, mut step) = (&mut slot.framer, 0, Ok(Step::More));
        let begun = framer.begun();
        let received = stream.receive(&mut self.buffer, &mut |bytes| {
            count += bytes.len();
            step = match step {
                Ok(Step::More) => match framer.feed(bytes) {
                    // Bytes after the response belong to no request: its length was wrong.
                    Ok(Step::Whole(_, used)) if used < bytes.len() => Err(Malformed),
                    step => step,
                },
                _ => Err(Malformed),
            };
        });
        if slot.phase == Phase::Busy {
            self.tally.bytes.received += count as u64;
        }
        if !begun {
            slot.first = now;
        }
        match (step, received) {
            (Ok(Step::Whole(response, _)), Ok(_)) => self.answered(place, &response, now),
            (Ok(Step::More), Ok(Received::Open)) => {}
            (Ok(Step::More), Ok(Received::End)) => match slot.framer.end() {
                Ending::Whole(response) => self.answered(place, &response, now),
                Ending::Nothing => self.fail(place, Failure::Closed, now),
                Ending::Short => self.fail(place, Failure::ShortBody, now),
            },
            (Err(Malformed), _) => self.fail(place, Failure::Invalid, now),
            (_, Err(failure)) => self.fail(place, failure, now),
        }
    }

    fn answered(&mut self, place: u32, response: &Response, now: u64) {
        let slot = &mut self.slots[place as usize];
        let Some(mut job) = slot.job else {
            return;
        };
        let whole = slot.written == rendered(self.shared, slot).bytes.len();
        let stays = response.keep_alive && whole;
        if slot.phase == Phase::LoggingIn {
            if response.status >= 400 {
                return self.fail(place, Failure::Unexpected, now);
            }
            let mut cookies = Cookies::default();
            slot.framer.fields(|name, value| {
                if name.eq_ignore_ascii_case("set-cookie") {
                    cookies.set(value);
                }
            });
            slot.session = Some(rendering::requests(self.shared.plan, &cookies).into());
            if matches!(self.source, Source::Closed(_)) {
                // The login is not counted; only now can the first request leave.
                let login = now.min(self.end).saturating_sub(job.taken);
                self.tally.in_flight -= i128::from(login);
                (job.due, job.taken) = (now, now);
                slot.job = Some(job);
            }
            if stays {
                self.prepare(place, Phase::Busy);
                return self.transmit(place, now);
            }
            slot.close();
            slot.tried = now;
            return self.connect(place, now);
        }
        self.conclude(place, response, stays, now);
    }

    /// Ends the request of `place`, which has its whole response, and begins the next.
    pub(super) fn conclude(&mut self, place: u32, response: &Response, stays: bool, now: u64) {
        let slot = &mut self.slots[place as usize];
        let Some(job) = slot.job else {
            return;
        };
        slot.calls += 1;
        let stays = stays
            && match self.shared.plan.connections {
                ConnectionUse::KeepAlive => true,
                ConnectionUse::PerRequest => false,
                ConnectionUse::Calls(most) => slot.calls < most,
            };
        let is_head = self.shared.requests[job.kind].is_head;
        let expected = self.shared.plan.requests[job.kind].expected;
        let expected = expected.is_none_or(|expected| {
            let length = expected.length.filter(|_| !is_head);
            expected.status == response.status
                && length.is_none_or(|length| length == response.body)
        });
        let good = expected && (200..400).contains(&response.status);
        if good && self.tally.sample.is_none() {
            self.tally.sample = Some(sample(slot, response));
        }
        let times = slot.times(job, now);
        slot.job = None;
        slot.exchange = None;
        if !stays {
            slot.close();
            if let Some(session) = self.sessions.get_mut(place as usize / self.streams) {
                session.close();
            }
        }
        self.tally.whole(job.kind, times, response, good, expected);
        self.tally.end(now);
        self.shared.ended();
        match self.source {
            Source::Closed(_) => self.begin_next(place, now),
            Source::Open { .. } => self.release(place, now),
        }
    }

    pub(super) fn fail(&mut self, place: u32, failure: Failure, now: u64) {
        let slot = &mut self.slots[place as usize];
        let unconnected = matches!(slot.phase, Phase::Connecting | Phase::Resting(_));
        slot.close();
        let index = place as usize / self.streams;
        if let Some(session) = self.sessions.get_mut(index) {
            session.give_up_establishing();
            // A stream that was given up is reset.
            session.mark(index, &mut self.unsent);
        }
        let Some(job) = slot.job.take() else {
            return;
        };
        let times = slot.times(job, now);
        self.tally.failed(job.kind, times, failure);
        self.tally.end(now);
        self.shared.ended();
        let unconnected = unconnected
            || matches!(
                failure,
                Failure::ConnectRefused
                    | Failure::ConnectTimeout
                    | Failure::NoAddress
                    | Failure::NoDescriptor
            );
        match self.source {
            Source::Closed(_) if unconnected => {
                self.slots[place as usize].phase = Phase::Resting(now + REST);
                self.sweep_at = self.sweep_at.min(now + REST);
            }
            Source::Closed(_) => self.again.push_back(place),
            Source::Open { .. } => self.release(place, now),
        }
    }
}

/// What the place sends now.
fn rendered<'s>(shared: &'s Shared<'_>, slot: &'s Slot) -> &'s Rendered {
    let kind = slot.job.map_or(0, |job| job.kind);
    match (slot.phase, &shared.login, &slot.session) {
        (Phase::LoggingIn, Some(login), _) => login,
        (_, _, Some(session)) => &session[kind],
        _ => &shared.requests[kind],
    }
}

fn sample(slot: &Slot, response: &Response) -> Sample {
    if let Some(exchange) = &slot.exchange {
        return exchange.sample(response.body);
    }
    let mut server = String::new();
    slot.framer.fields(|name, value| {
        if name.eq_ignore_ascii_case("server") {
            server = String::from_utf8_lossy(value).into_owned();
        }
    });
    Sample {
        server,
        length: response.body,
    }
}
