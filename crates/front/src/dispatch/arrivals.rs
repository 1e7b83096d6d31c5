//! What comes back from a worker, frame by frame, into its request: bounded in memory, beyond that on disk,
//! beyond that in the worker's ring, where the application waits.
//!
//! It never moves a request and never frees a slot.

use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use exchange::response::Kind;

use super::Dispatcher;
use super::generation::Generation;
use crate::failure::Failure;
use crate::http::request::{Arrived, End, Request};
use crate::http::response_head;
use crate::log::errors;
use crate::shared_bytes::ALWAYS_HELD;
use crate::spool::{BATCH_BYTES, Spool};

/// The most frames of one slot that are taken in one turn.
const TURN_FRAMES: usize = 256;
/// The most bytes of one slot that are taken in one turn, but for the last frame.
const TURN_BYTES: usize = 1024 * 1024;

/// What is left of a slot's frames after a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    /// Nothing.
    Nothing,
    /// Frames that must wait for room at the client's side.
    NoRoom,
    /// Perhaps frames for the next turn.
    NextTurn,
}

impl Dispatcher {
    /// Takes as many frames of a slot as one turn has; the rest is for the next one.
    pub(super) fn take_frames(
        &self,
        generation: &mut Generation,
        slot: u16,
        request: &Rc<Request>,
    ) -> Rest {
        let rest = self.take_turn(generation, slot, request);
        match rest {
            Rest::NextTurn => drop(generation.unfinished.insert(slot)),
            _ => drop(generation.unfinished.remove(&slot)),
        }
        rest
    }

    fn take_turn(&self, generation: &mut Generation, slot: u16, request: &Rc<Request>) -> Rest {
        let mut arrived = request.arrived.borrow_mut();
        let arrived = &mut *arrived;
        let (mut told, mut bytes) = (false, 0);
        for _ in 0..TURN_FRAMES {
            if !request.is_abandoned() && !self.has_room(request, arrived) {
                return Rest::NoRoom;
            }
            if bytes > TURN_BYTES {
                break;
            }
            let mut payload = Vec::new();
            let frame = generation.exchange.frame(slot, &mut payload);
            bytes += payload.len();
            match frame {
                Ok(None) => return Rest::Nothing,
                Ok(Some(Kind::Chunk)) if request.is_abandoned() => {
                    // Told only now: a worker whose response is whole but for its end may end in peace.
                    if !std::mem::replace(&mut told, true) {
                        generation.exchange.abandon(slot);
                    }
                }
                Ok(Some(kind)) if request.is_abandoned() && kind != Kind::Error => {}
                Ok(Some(kind)) => {
                    self.take_frame(generation, slot, request, arrived, kind, payload)
                }
                Err(_) => {
                    arrived.fail(Failure::BadResponse("malformed frames"));
                    request.abandon();
                    generation.exchange.abandon(slot);
                    return Rest::Nothing;
                }
            }
        }
        Rest::NextTurn
    }

    /// Whether more of the response can be taken. Where the file has reached its bound, or the disk is full, the
    /// connection goes on once it has read all of it; where the disk is behind, a task waits for it and goes on from there.
    fn has_room(&self, request: &Rc<Request>, arrived: &mut Arrived) -> bool {
        let Some(spool) = &mut arrived.spool else {
            return true;
        };
        if spool.extent() >= self.bounds.get().response_limit || spool.is_stuck() {
            return false;
        }
        match spool.poll_ready(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(())) => return true,
            Poll::Ready(Err(_)) => {
                // Frames are taken and thrown away from here; the client sees the cut.
                arrived.end.get_or_insert(End::Aborted);
                return true;
            }
            Poll::Pending => {}
        }
        if let Some(this) = self
            .this
            .upgrade()
            .filter(|_| !request.waits_for_disk.replace(true))
        {
            let request = Rc::clone(request);
            tokio::task::spawn_local(async move {
                let ready = poll_fn(|cx| match &mut request.arrived.borrow_mut().spool {
                    Some(spool) => spool.poll_ready(cx),
                    None => Poll::Ready(Ok(())),
                });
                drop(ready.await);
                request.waits_for_disk.set(false);
                this.resume(&request);
                request.wake();
            });
        }
        false
    }

    fn take_frame(
        &self,
        generation: &mut Generation,
        slot: u16,
        request: &Rc<Request>,
        arrived: &mut Arrived,
        kind: Kind,
        payload: Vec<u8>,
    ) {
        request.moves();
        match kind {
            Kind::Hints => arrived.hint(response_head::early_hints(&payload)),
            Kind::Head => match response_head::parse(Bytes::from(payload)) {
                Ok(head) => {
                    arrived.had_head = true;
                    arrived.head = Some(head);
                }
                Err(reason) => {
                    errors::app_error(&self.log, request, &format!("InvalidResponse: {reason}"));
                    arrived.fail(Failure::BadResponse(reason));
                }
            },
            Kind::Chunk => self.take_chunk(arrived, payload),
            Kind::File => {
                use std::os::unix::ffi::OsStringExt;
                arrived.file = Some(std::ffi::OsString::from_vec(payload).into());
            }
            Kind::End => {
                arrived.end.get_or_insert(End::Complete);
                self.settle(request, arrived);
            }
            Kind::Abort => drop(arrived.end.get_or_insert(End::Aborted)),
            Kind::Error => {
                let text = String::from_utf8_lossy(&payload).into_owned();
                errors::app_error(&self.log, request, &text);
                arrived.fail(Failure::AppError);
                arrived.error = Some(text);
            }
            Kind::Hijacked => {
                arrived.end.get_or_insert(End::Hijacked);
                let sequence = generation.exchange.publication(slot).sequence();
                generation.hijacks.announced(slot, sequence, request);
            }
        }
    }

    fn take_chunk(&self, arrived: &mut Arrived, chunk: Vec<u8>) {
        if chunk.is_empty() || arrived.end.is_some() {
            return;
        }
        let memory = &self.response_memory;
        let mut limit = self.bounds.get().response_memory;
        if memory.is_short() {
            limit = limit.min(ALWAYS_HELD);
        }
        if arrived.spool.is_none() && arrived.chunks.held() + chunk.len() <= limit {
            return arrived.chunks.push(memory, chunk);
        }
        let directory = || Arc::clone(&self.spools.directory);
        let new = || Spool::patient(directory(), BATCH_BYTES).within(&self.spools);
        arrived.spool.get_or_insert_with(new).push(&chunk);
        arrived.weigh_spool(memory);
    }

    /// No more of the response comes. Where memory is short what of its spool is not in the file yet goes there.
    fn settle(&self, request: &Rc<Request>, arrived: &Arrived) {
        if arrived.spool.is_none() || !self.response_memory.is_short() {
            return;
        }
        let (request, memory) = (Rc::clone(request), Rc::clone(&self.response_memory));
        tokio::task::spawn_local(poll_fn(move |cx| {
            let mut arrived = request.arrived.borrow_mut();
            let settled = match &mut arrived.spool {
                // Its reader hears of a failure.
                Some(spool) => spool.poll_settled(cx).map(drop),
                None => Poll::Ready(()),
            };
            arrived.weigh_spool(&memory);
            settled
        }));
    }
}
