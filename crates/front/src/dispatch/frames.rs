//! What comes back from a worker, frame by frame, and goes on to the request's edge as messages. What the edge has no room
//! for stays in the worker's ring, where the application waits.
//!
//! It never touches the queue.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use bytes::Bytes;
use exchange::front::Holder;
use exchange::measures::MAX_BYTES;
use exchange::response::Kind;
use exchange::scheduling::monotonic_ns;
use metrics::CustomMetrics;

use super::generation::Generation;
use super::pending::{PendingRequest, ResponseState};
use super::scheduling::Scheduling;
use super::waits::Waits;
use crate::exceptions::Exceptions;
use crate::failure::Failure;
use crate::http::response_head;
use crate::log::{AccessLog, errors};
use crate::messages::{Capacity, ResponseEnd};

/// The most frames of one slot that are taken in one turn.
const TURN_FRAMES: usize = 256;
/// The most bytes of one slot that are taken in one turn, but for the last frame.
const TURN_BYTES: usize = 1024 * 1024;
/// The most reports of exceptions that are read of one request.
const MAX_REPORTS: u8 = 8;

/// The most frames of counts that are read of one request.
const MAX_COUNTS: u8 = 8;

/// What the application of this dispatcher has counted.
pub(crate) type SharedCounts = Rc<RefCell<CustomMetrics>>;

/// What is left of a slot's frames after a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Remaining {
    /// Nothing.
    Nothing,
    /// Frames that must wait for room at the client's side.
    NoRoom,
    /// Perhaps frames for the next turn.
    NextTurn,
}

/// Takes frames out of slots.
pub(super) struct FrameReader {
    log: Rc<AccessLog>,
    exceptions: Rc<Exceptions>,
    counts: SharedCounts,
    scheduling: Scheduling,
    waits: Waits,
}

impl FrameReader {
    /// Returns one that has read nothing.
    pub(super) fn new(log: Rc<AccessLog>) -> Self {
        Self {
            log,
            exceptions: Rc::default(),
            counts: Rc::default(),
            scheduling: Scheduling::default(),
            waits: Waits::default(),
        }
    }

    /// What the application has raised.
    pub(super) fn exceptions(&self) -> &Rc<Exceptions> {
        &self.exceptions
    }

    /// What the application has counted.
    pub(super) fn counts(&self) -> &SharedCounts {
        &self.counts
    }

    /// How long requests have waited.
    pub(super) fn waits(&self) -> &Waits {
        &self.waits
    }

    /// Logs what went wrong with a request.
    pub(super) fn log_error(&self, request: &PendingRequest, text: &str) {
        errors::app_error(&self.log, &request.request, request.worker.get(), text);
    }

    /// Takes the frames of a slot, and the slot itself when its worker is done. Returns whether it woke a task.
    pub(super) fn take(&self, generation: &mut Generation, slot: u16) -> bool {
        if generation.slots.unfinished.contains(&slot) {
            // It has had its turn.
            return false;
        }
        let Some(request) = generation.slots.request(slot).cloned() else {
            return false;
        };
        self.take_for(generation, slot, &request);
        request.reply.wake()
    }

    /// The same for the request in that slot. Wakes no task.
    pub(super) fn take_for(
        &self,
        generation: &mut Generation,
        slot: u16,
        request: &Rc<PendingRequest>,
    ) {
        if !generation.slots.is_sound() {
            return;
        }
        // Before the frames: what is done now has all of them in the ring.
        let holder = generation.slots.exchange.publication(slot).holder();
        generation.slots.note_holder(slot, holder, request);
        let remaining = self.take_frames(generation, slot, request);
        if remaining == Remaining::Nothing
            && let Holder::Done { worker, thread } = holder
        {
            generation.workers.count_finished(worker);
            let run = generation.slots.run_of(slot, worker, thread);
            let times = request.times.get();
            let timeout = request.request.timeout_ns();
            generation
                .deadlines
                .handed_back(run, times.finished_ns, timeout);
            self.scheduling
                .finished(times.finished_ns.saturating_sub(times.claimed_ns));
            self.waits.note(request, times.claimed_ns);
            generation.free(slot);
            // A worker that says nothing of its end has a bug; the client must not wait for it.
            request.fail_quietly(Failure::BadResponse("it has no end"), None);
        }
    }

    /// Goes on with slots of which the last turn left frames. Returns whether it woke a task.
    pub(super) fn take_unfinished(&self, generation: &mut Generation) -> bool {
        let mut woke = false;
        for slot in std::mem::take(&mut generation.slots.unfinished) {
            woke |= self.take(generation, slot);
        }
        woke
    }

    /// Leaves a running request to itself: its slot comes back when its worker is done. One that no worker has goes now.
    pub(super) fn give_up(
        &self,
        generation: &mut Generation,
        request: &Rc<PendingRequest>,
        slot: u16,
    ) {
        if generation.slots.exchange.retract(slot) {
            generation.free(slot);
            return;
        }
        // No task waits any more: a front that took this for a task it woke would sleep without a doorbell.
        request.reply.forget_waiter();
        request.abandon();
        generation.slots.exchange.abandon(slot);
        self.take_for(generation, slot, request);
    }

    /// Takes as many frames of a slot as one turn has; the rest is for the next one.
    pub(super) fn take_frames(
        &self,
        generation: &mut Generation,
        slot: u16,
        request: &Rc<PendingRequest>,
    ) -> Remaining {
        let remaining = self.take_turn(generation, slot, request);
        match remaining {
            Remaining::NextTurn => drop(generation.slots.unfinished.insert(slot)),
            _ => drop(generation.slots.unfinished.remove(&slot)),
        }
        remaining
    }

    fn take_turn(
        &self,
        generation: &mut Generation,
        slot: u16,
        request: &Rc<PendingRequest>,
    ) -> Remaining {
        let (mut notified, mut bytes) = (false, 0);
        for _ in 0..TURN_FRAMES {
            if !request.is_abandoned() && !has_room(request) {
                return Remaining::NoRoom;
            }
            if bytes > TURN_BYTES {
                break;
            }
            let mut payload = Vec::new();
            let frame = generation.slots.exchange.frame(slot, &mut payload);
            bytes += payload.len();
            match frame {
                Ok(None) => return Remaining::Nothing,
                Ok(Some(Kind::Chunk)) if request.is_abandoned() => {
                    // Not before: a worker whose response lacks only its end need not stop early.
                    if !std::mem::replace(&mut notified, true) {
                        generation.slots.exchange.abandon(slot);
                    }
                }
                Ok(Some(kind)) if request.is_abandoned() && !outlives_client(kind) => {}
                Ok(Some(kind)) => self.take_frame(generation, slot, request, kind, payload),
                Err(_) => {
                    request.fail_quietly(Failure::BadResponse("malformed frames"), None);
                    request.abandon();
                    generation.slots.exchange.abandon(slot);
                    return Remaining::Nothing;
                }
            }
        }
        Remaining::NextTurn
    }

    fn take_frame(
        &self,
        generation: &mut Generation,
        slot: u16,
        request: &Rc<PendingRequest>,
        kind: Kind,
        payload: Vec<u8>,
    ) {
        request.note_progress();
        let reply = &request.reply;
        match kind {
            Kind::Hints => {
                if let Some(hints) = response_head::early_hints(&payload) {
                    reply.hints(hints);
                }
            }
            Kind::Head => match response_head::parse(Bytes::from(payload)) {
                Ok(head) => {
                    request.had_head.set(true);
                    reply.head(head);
                }
                Err(reason) => {
                    self.log_error(request, &format!("InvalidResponse: {reason}"));
                    request.fail_quietly(Failure::BadResponse(reason), None);
                }
            },
            Kind::Chunk => {
                if !request.has_ended() {
                    reply.data(payload);
                }
            }
            Kind::File => {
                use std::os::unix::ffi::OsStringExt;
                reply.file(std::ffi::OsString::from_vec(payload).into());
            }
            Kind::End => {
                // No worker of ours writes more: it is not kept.
                if (1..=MAX_BYTES).contains(&payload.len()) {
                    reply.measured(payload);
                }
                if request.end(ResponseState::Ended) {
                    Rc::clone(reply).end(ResponseEnd::Complete);
                }
            }
            Kind::Abort => {
                if request.end(ResponseState::Ended) {
                    Rc::clone(reply).end(ResponseEnd::Aborted { late: false });
                }
            }
            Kind::Error => {
                let text = String::from_utf8_lossy(&payload).into_owned();
                self.log_error(request, &text);
                request.fail_quietly(Failure::AppError, Some(text));
            }
            Kind::Exception => {
                if count_up(&request.reports, MAX_REPORTS) {
                    let by = request.worker.get();
                    self.exceptions.take_in(&request.request, by, &payload);
                }
            }
            Kind::Counts => {
                if let Some(by) = request.worker.get()
                    && count_up(&request.counts, MAX_COUNTS)
                {
                    let source = (by.generation, Some(by.worker));
                    self.counts.borrow_mut().take_in(source, &payload);
                }
            }
            Kind::Hijacked => {
                if request.end(ResponseState::Hijacked) {
                    let sequence = generation.slots.exchange.publication(slot).sequence();
                    generation.hijacks.announced(slot, sequence, request);
                }
            }
        }
    }

    /// Lets the kernel schedule this thread as fits what the application does.
    pub(super) fn reschedule(&self) {
        if let Some(policy) = self.scheduling.decide(monotonic_ns()) {
            // A sandbox may forbid it. The template has then said so in the log, and all works without.
            let _ = policy.apply();
        }
    }
}

/// Whether a frame matters although no client wants the response: errors are logged, an end says what the request cost, and
/// what was counted was counted.
fn outlives_client(kind: Kind) -> bool {
    use Kind::{Counts, End, Error, Exception};
    matches!(kind, Error | Exception | Counts | End)
}

/// Counts one more, up to `most`. False where there were as many.
fn count_up(count: &Cell<u8>, most: u8) -> bool {
    let counted = count.get() < most;
    count.set(count.get() + u8::from(counted));
    counted
}

/// Whether more of the response can be taken.
fn has_room(request: &PendingRequest) -> bool {
    match Rc::clone(&request.reply).capacity() {
        Capacity::Available => true,
        Capacity::Full => false,
        Capacity::Failed => {
            // Frames are taken and discarded from here.
            request.end(ResponseState::Ended);
            true
        }
    }
}
