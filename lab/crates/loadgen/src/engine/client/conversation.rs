//! What happens on one connection: made, logged in, a request out, its response in, and the end of each. Where
//! the next request comes from is not decided here.

use std::sync::atomic::Ordering;

use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

use super::super::rendering::{self, Cookies, Rendered};
use super::super::slot::{self, Connecting, Phase, Slot};
use super::super::tally::{Failure, span};
use super::{Client, REST, ROOM, Shared, Source};
use crate::framing::{Ending, Response, Step};
use crate::outcome::Sample;
use crate::plan::ConnectionUse;

impl Client<'_> {
    pub(super) fn connect(&mut self, place: u32, now: u64) {
        let slot = &mut self.slots[place as usize];
        slot.generation = slot.generation.wrapping_add(1);
        let (socket, connecting) = match slot::open(&self.shared.plan.target) {
            Ok(opened) => opened,
            Err(failure) => return self.fail(place, failure, now),
        };
        if connecting == Connecting::NoRoom {
            slot.phase = Phase::Resting(now + ROOM);
            self.sweep_at = self.sweep_at.min(now + ROOM);
            return;
        }
        let done = connecting == Connecting::Done;
        let interest = if done {
            epoll::EventFlags::IN
        } else {
            epoll::EventFlags::OUT
        };
        let data = event_data(place, slot.generation);
        let added = epoll::add(&self.poll, &socket, data, interest);
        slot.socket = Some(socket);
        slot.phase = Phase::Connecting;
        if added.is_err() {
            self.fail(place, Failure::NoDescriptor, now);
        } else if done {
            self.connected(place, now);
        }
    }

    fn connected(&mut self, place: u32, now: u64) {
        let slot = &self.slots[place as usize];
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
        let Some(socket) = &slot.socket else {
            return;
        };
        let bytes = &rendered(self.shared, slot).bytes;
        let length = bytes.len();
        let count = match slot::write(socket, &bytes[slot.written..]) {
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
        let wants_room = slot.written < length;
        if wants_room != slot.wants_room {
            self.interest(place, wants_room);
        }
    }

    fn interest(&mut self, place: u32, wants_room: bool) {
        let slot = &mut self.slots[place as usize];
        slot.wants_room = wants_room;
        let mut flags = epoll::EventFlags::IN;
        flags.set(epoll::EventFlags::OUT, wants_room);
        if let Some(socket) = &slot.socket {
            epoll::modify(
                &self.poll,
                socket,
                event_data(place, slot.generation),
                flags,
            )
            .expect("the socket is in the poll set and its memory is there already");
        }
    }

    pub(super) fn handle(
        &mut self,
        place: u32,
        generation: u32,
        flags: epoll::EventFlags,
        now: u64,
    ) {
        let slot = &self.slots[place as usize];
        if slot.generation != generation {
            return;
        }
        let Some(socket) = &slot.socket else {
            return;
        };
        match slot.phase {
            Phase::Connecting => match slot::connected(socket) {
                Ok(()) => {
                    self.interest(place, false);
                    self.connected(place, now);
                }
                Err(failure) => self.fail(place, failure, now),
            },
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
        let Some(socket) = &slot.socket else {
            return;
        };
        let count = match recv(socket, &mut self.buffer[..], RecvFlags::empty()) {
            Ok((count, _)) => count,
            Err(Errno::AGAIN | Errno::INTR) => return,
            Err(error) => return self.fail(place, slot::of_transfer(error), now),
        };
        if slot.phase == Phase::Busy {
            self.tally.bytes.received += count as u64;
        }
        if !slot.framer.begun() {
            slot.first = now;
        }
        if count == 0 {
            return match slot.framer.end() {
                Ending::Whole(response) => self.answered(place, &response, now),
                Ending::Nothing => self.fail(place, Failure::Closed, now),
                Ending::Short => self.fail(place, Failure::ShortBody, now),
            };
        }
        match slot.framer.feed(&self.buffer[..count]) {
            Ok(Step::More) => {}
            Ok(Step::Whole(response, used)) if used == count => {
                self.answered(place, &response, now)
            }
            // Bytes after the response belong to no request: its length was wrong.
            Ok(Step::Whole(..)) | Err(_) => self.fail(place, Failure::Invalid, now),
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
        if !stays {
            slot.close();
        }
        self.tally.whole(job.kind, times, response, good, expected);
        self.ended(now);
        match self.source {
            Source::Closed(_) => self.begin_next(place, now),
            Source::Open { .. } => self.release(place, now),
        }
    }

    pub(super) fn fail(&mut self, place: u32, failure: Failure, now: u64) {
        let slot = &mut self.slots[place as usize];
        slot.close();
        let Some(job) = slot.job.take() else {
            return;
        };
        let times = slot.times(job, now);
        self.tally.failed(job.kind, times, failure);
        self.ended(now);
        let unconnected = matches!(
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

    fn ended(&mut self, now: u64) {
        self.count(now);
        self.busy -= 1;
        self.shared.in_flight.fetch_sub(1, Ordering::Relaxed);
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

fn event_data(place: u32, generation: u32) -> epoll::EventData {
    epoll::EventData::new_u64(u64::from(generation) << 32 | u64::from(place))
}
