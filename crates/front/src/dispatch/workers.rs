//! What the supervisor says of workers, and what it means for the requests that they hold.
//!
//! It never starts or ends a process.

use std::os::fd::OwnedFd;

use exchange::front::Holder;

use super::{Dispatcher, Inner};
use crate::failure::Failure;
use crate::request::Place;

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
    /// A worker process is being started for this place.
    pub fn worker_starts(&self, worker: u16) {
        self.inner.borrow().exchange.open(worker);
    }

    /// A worker serves.
    pub fn worker_up(&self, worker: u16) {
        let mut inner = self.inner.borrow_mut();
        inner.up[usize::from(worker)] = true;
        self.fill(&mut inner);
    }

    /// Asks a worker to finish what it has and exit.
    pub fn stop_worker(&self, worker: u16) {
        self.inner.borrow().exchange.stop(worker);
    }

    /// A worker is dead: what it had finished is delivered, what it held is run again where that is safe,
    /// and otherwise failed.
    pub fn worker_died(&self, worker: u16) {
        let mut inner = self.inner.borrow_mut();
        inner.up[usize::from(worker)] = false;
        let held = inner.exchange.bury(worker);
        for slot in 0..inner.slots.len() as u16 {
            // Also those of which it had only frames to say, or whose bell it did not live to ring.
            if matches!(inner.exchange.holder(slot), Holder::Done { worker: by, .. } if by == worker)
            {
                self.take(&mut inner, slot);
            }
        }
        for slot in held {
            self.bereave(&mut inner, slot);
        }
        inner.hijacks.worker_died(worker);
        self.fill(&mut inner);
    }

    /// The socket with which a worker's application talks to a connection it took over. It waits for its
    /// announcement in the exchange where that is still to come.
    ///
    /// # Errors
    /// [`NotItsOwn`]: the socket is closed.
    pub fn hijacked(
        &self,
        worker: u16,
        slot: u16,
        sequence: u32,
        socket: OwnedFd,
    ) -> Result<(), NotItsOwn> {
        let mut inner = self.inner.borrow_mut();
        let current = inner.slots.get(usize::from(slot)).and_then(Option::as_ref);
        let current = current.filter(|_| inner.exchange.sequence(slot) == sequence);
        let owner = match (current, inner.hijacks.waiting(slot, sequence)) {
            (Some(_), _) => inner.owner(slot),
            (None, Some(request)) => request.worker.get(),
            // Nobody waits for the connection any more.
            (None, None) => return Ok(()),
        };
        if owner != Some(worker) {
            return Err(NotItsOwn { owner });
        }
        let expected =
            current.is_some_and(|request| !request.abandoned.get() && !request.has_ended());
        inner.hijacks.arrived(slot, sequence, socket, expected);
        Ok(())
    }

    /// A request whose worker died while it held it.
    fn bereave(&self, inner: &mut Inner, slot: u16) {
        let Some(request) = inner.slots[usize::from(slot)].clone() else {
            inner.exchange.release(slot);
            return;
        };
        // What it had said before counts: its response may be whole, or a failure.
        inner.note_holder(slot, inner.exchange.holder(slot), &request);
        self.take_frames(inner, slot, &request);
        let again = request.retries.get() < self.bounds.max_retries;
        if again && request.may_run_again() && !request.has_ended() {
            request.retries.set(request.retries.get() + 1);
            self.again.set(self.again.get() + 1);
            request.forget_response();
            inner.hijacks.slot_ended(slot);
            inner.exchange.reclaim(slot);
            if inner
                .exchange
                .publish(slot, inner.lengths[usize::from(slot)])
            {
                return;
            }
            // No place in the ring: first in the queue is as early as it can be.
            inner.free(slot);
            request.place.set(Place::Queue);
            inner.queue.push_front(request);
            return;
        }
        inner.free(slot);
        request.fail(Failure::WorkerDied);
    }
}
