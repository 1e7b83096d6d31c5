//! What becomes of requests whose worker died, is about to be killed, or damaged its exchange: they are run again where
//! that is safe, and fail otherwise. It never starts or ends a process.

use std::rc::Rc;

use super::frames::{FrameReader, Remaining};
use super::generation::Generation;
use super::pending::PendingRequest;
use super::poison::{Death, PoisonRequests};
use crate::failure::Failure;

/// The deaths of workers, and what they cost.
#[derive(Default)]
pub(super) struct Crashes {
    /// Requests that killed two workers.
    pub(super) poison: PoisonRequests,
    /// How often a request was run again after its worker had died.
    pub(super) retries: u64,
}

impl Crashes {
    /// Ends a request whose worker is dead or about to be killed, or gives it back where it is to be run again, `max_retries`
    /// times at most.
    pub(super) fn requeue_or_fail(
        &mut self,
        generation: &mut Generation,
        slot: u16,
        request: &Rc<PendingRequest>,
        death: Option<&Rc<Death>>,
        max_retries: u32,
    ) -> Option<Rc<PendingRequest>> {
        let again = request.retries.get() < max_retries;
        if again && request.may_run_again() && !request.has_ended() {
            request.retries.set(request.retries.get() + 1);
            *request.killed.borrow_mut() = death.cloned();
            self.retries += 1;
            request.withdraw_response();
            generation.free(slot);
            return Some(Rc::clone(request));
        }
        generation.free(slot);
        let deaths = request.killed.borrow().clone().zip(death.cloned());
        if let (Some(deaths), false, false) = (deaths, generation.cut, request.has_ended()) {
            let (what, by) = (&request.request, request.worker.get());
            self.poison.add(what, by, deaths.into());
        }
        request.fail(match generation.cut {
            true => Failure::Stopped,
            false => Failure::WorkerDied,
        });
        None
    }

    /// A worker is dead: what it had finished is delivered. Returns the requests that are to be run again.
    pub(super) fn reclaim_worker(
        &mut self,
        generation: &mut Generation,
        worker: u16,
        death: &Rc<Death>,
        frames: &FrameReader,
        max_retries: u32,
    ) -> Vec<Rc<PendingRequest>> {
        let held = generation.reclaim_worker(worker);
        for slot in generation.slots.numbers() {
            // Also where it died before it set the completion bit or rang the doorbell.
            if generation.slots.is_done_by(slot, worker) {
                frames.take(generation, slot);
            }
        }
        let mut again = Vec::new();
        for slot in held {
            let Some(request) = generation.slots.request(slot).cloned() else {
                generation.slots.exchange.release(slot);
                continue;
            };
            // What it had written before counts: its response may be whole, or a failure. A turn at a time, which ends: the
            // ring holds so much, and its writer is dead.
            let holder = generation.slots.exchange.publication(slot).holder();
            generation.slots.note_holder(slot, holder, &request);
            while generation.slots.is_sound()
                && frames.take_frames(generation, slot, &request) == Remaining::NextTurn
            {
            }
            again.extend(self.requeue_or_fail(
                generation,
                slot,
                &request,
                Some(death),
                max_retries,
            ));
        }
        generation.hijacks.worker_died(worker);
        again
    }

    /// Takes every request out of a corrupt exchange without reading their responses on. Returns those that are to be run,
    /// or run again.
    pub(super) fn evict(
        &mut self,
        generation: &mut Generation,
        max_retries: u32,
    ) -> Vec<Rc<PendingRequest>> {
        let mut evicted = Vec::new();
        for slot in generation.slots.numbers() {
            let Some(request) = generation.slots.request(slot).cloned() else {
                continue;
            };
            if generation.slots.exchange.retract(slot) {
                generation.free(slot);
                evicted.push(request);
                continue;
            }
            let holder = generation.slots.exchange.publication(slot).holder();
            generation.slots.note_holder(slot, holder, &request);
            let by = request.worker.get();
            let death = by.map(|worker| self.poison.presume_dead(worker));
            evicted.extend(self.requeue_or_fail(
                generation,
                slot,
                &request,
                death.as_ref(),
                max_retries,
            ));
        }
        generation.lose_workers();
        evicted
    }
}
