//! What the supervisor says of workers, and what it means for the requests that they hold.
//!
//! It never starts or ends a process.

use std::os::fd::OwnedFd;
use std::rc::Rc;

use exchange::front::Holder;
use exchange::scheduling::monotonic_ns;

use super::generation::Generation;
use super::{Death, Dispatcher, Inner, Rest, Work};
use crate::failure::Failure;
use crate::request::{Place, Request, WorkerId};

/// A worker sent a socket for a request that is not its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a socket for the connection of a request that {}", match .owner {
    Some(worker) => format!("worker {worker} has"),
    None => "no worker has".to_owned(),
})]
pub struct NotItsOwn {
    /// The worker that has the request.
    pub owner: Option<u16>,
}

impl Dispatcher {
    /// So many workers shall serve at once in a generation, be they there or not.
    pub fn resize(&self, generation: u32, workers: u16) {
        if let Some(generation) = self.inner.borrow_mut().generation(generation) {
            generation.resize(workers);
        }
    }

    /// A worker process is being started for this place.
    pub fn worker_starts(&self, generation: u32, worker: u16) {
        if let Some(generation) = self.inner.borrow_mut().generation(generation) {
            generation.worker_starts(worker);
        }
    }

    /// How many requests the worker has finished since it was started.
    pub fn finished(&self, generation: u32, worker: u16) -> u64 {
        let mut inner = self.inner.borrow_mut();
        let generation = inner.generation(generation);
        generation.map_or(0, |generation| generation.finished(worker))
    }

    /// Whether the worker has come to the end of a request since it was started.
    pub fn has_served(&self, generation: u32, worker: u16) -> bool {
        let mut inner = self.inner.borrow_mut();
        let generation = inner.generation(generation);
        generation.is_some_and(|generation| generation.has_served(worker))
    }

    /// A worker serves.
    pub fn worker_up(&self, generation: u32, worker: u16) {
        let mut inner = self.inner.borrow_mut();
        if let Some(generation) = inner.generation(generation) {
            generation.worker_up(worker);
        }
        self.fill(&mut inner);
    }

    /// Asks a worker to finish what it has and exit.
    pub fn stop_worker(&self, generation: u32, worker: u16) {
        let mut inner = self.inner.borrow_mut();
        if let Some(generation) = inner.generation(generation) {
            generation.stop_worker(worker);
        }
        inner.recall_for_others();
        self.fill(&mut inner);
    }

    /// A worker is dead: what it had finished is delivered, what it held is run again where that is safe,
    /// and otherwise failed. Returns what it was late with and never said where.
    pub fn worker_died(&self, generation: u32, worker: u16) -> Vec<Work> {
        let death = self
            .suspects
            .borrow_mut()
            .died(WorkerId { generation, worker });
        let mut inner = self.inner.borrow_mut();
        let Inner {
            queue, generations, ..
        } = &mut *inner;
        let mut generations = generations.iter_mut();
        let Some(generation) = generations.find(|one| one.number == generation) else {
            return Vec::new();
        };
        let untold = generation.forget_lates(worker);
        let held = generation.bury(worker);
        for slot in generation.slot_numbers() {
            // Also those of which it had only frames to say, or whose bell it did not live to ring.
            if matches!(generation.exchange.holder(slot), Holder::Done { worker: by, .. } if by == worker)
            {
                self.take(generation, slot);
            }
        }
        let orphans = held
            .into_iter()
            .filter_map(|slot| self.bereave(generation, slot, &death));
        let mut orphans: Vec<_> = orphans.collect();
        orphans.sort_by_key(|request| request.arrival().map(|arrival| arrival.ns));
        for request in orphans.into_iter().rev() {
            queue.put_back(request);
        }
        generation.hijacks.worker_died(worker);
        inner.recall_for_others();
        self.fill(&mut inner);
        drop(inner);
        self.name_suspects(monotonic_ns());
        untold
    }

    /// It is known how a worker ended, which died before or dies right after.
    pub fn worker_ended(&self, worker: WorkerId, how: &str) {
        self.suspects.borrow_mut().ended(worker, how);
        self.name_suspects(monotonic_ns());
    }

    /// Has the log name the requests that killed two workers, where nothing more is to be waited for.
    pub(super) fn name_suspects(&self, now: u64) {
        let ready = self.suspects.borrow_mut().ready(now);
        for (request, text) in ready {
            (self.on_error)(&request, &text);
        }
    }

    /// The socket with which a worker's application talks to a connection it took over. It waits for its
    /// announcement in the exchange where that is still to come.
    ///
    /// # Errors
    /// `NotItsOwn`: the socket is closed.
    pub fn hijacked(
        &self,
        by: WorkerId,
        slot: u16,
        sequence: u32,
        socket: OwnedFd,
    ) -> Result<(), NotItsOwn> {
        let mut inner = self.inner.borrow_mut();
        let Some(generation) = inner.generation(by.generation) else {
            return Ok(());
        };
        let current = generation.request(slot);
        let current = current.filter(|_| generation.exchange.sequence(slot) == sequence);
        let owner = match (current, generation.hijacks.waiting(slot, sequence)) {
            (Some(_), _) => generation.owner(slot),
            (None, Some(request)) => request.worker.get().map(|by| by.worker),
            // Nobody waits for the connection any more.
            (None, None) => return Ok(()),
        };
        if owner != Some(by.worker) {
            return Err(NotItsOwn { owner });
        }
        let expected =
            current.is_some_and(|request| !request.is_abandoned() && !request.has_ended());
        generation.hijacks.arrived(slot, sequence, socket, expected);
        Ok(())
    }

    /// A request whose worker died while it held it. Given back where it is to be run again.
    fn bereave(
        &self,
        generation: &mut Generation,
        slot: u16,
        death: &Rc<Death>,
    ) -> Option<Rc<Request>> {
        let Some(request) = generation.request(slot).cloned() else {
            generation.exchange.release(slot);
            return None;
        };
        // What it had said before counts: its response may be whole, or a failure. A turn at a time, which ends: the
        // ring holds so much and nobody fills it any more.
        let holder = generation.exchange.holder(slot);
        generation.note_holder(slot, holder, &request);
        while generation.is_sound()
            && self.take_frames(generation, slot, &request) == Rest::NextTurn
        {}
        self.run_again_or_fail(generation, slot, &request, Some(death))
    }

    /// Ends a request whose worker is dead or about to be killed, or gives it back where it is to be run again.
    pub(super) fn run_again_or_fail(
        &self,
        generation: &mut Generation,
        slot: u16,
        request: &Rc<Request>,
        death: Option<&Rc<Death>>,
    ) -> Option<Rc<Request>> {
        let again = request.retries.get() < self.bounds.get().max_retries;
        if again && request.may_run_again() && !request.has_ended() {
            request.retries.set(request.retries.get() + 1);
            *request.killed.borrow_mut() = death.cloned();
            self.again.set(self.again.get() + 1);
            request.forget_response();
            generation.free(slot);
            request.place.set(Place::Queue);
            return Some(Rc::clone(request));
        }
        generation.free(slot);
        let deaths = request.killed.borrow().clone().zip(death.cloned());
        if let (Some(deaths), false, false) = (deaths, generation.cut, request.has_ended()) {
            let mut suspects = self.suspects.borrow_mut();
            suspects.suspect(request, deaths.into(), monotonic_ns());
        }
        request.fail(match generation.cut {
            true => Failure::Stopped,
            false => Failure::WorkerDied,
        });
        None
    }
}
