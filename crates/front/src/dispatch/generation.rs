//! What the dispatcher has of one generation: its exchange, and which request lies in which slot.
//!
//! It never touches the queue: which generation a request goes to is decided in `feed.rs`.

use std::rc::Rc;

use exchange::front::Holder;

use super::Lane;
use super::hijacks::Hijacks;
use crate::request::{Place, Request, WorkerId};

/// One generation's exchange and what lies in it.
pub(super) struct Generation {
    pub(super) number: u32,
    pub(super) exchange: exchange::Front,
    pub(super) slots: Vec<Option<Rc<Request>>>,
    pub(super) lengths: Vec<u32>,
    pub(super) hijacks: Hijacks,
    /// By the number of a share: how many of its requests lie in slots.
    pub(super) held: Vec<usize>,
    /// Which workers serve.
    pub(super) up: Vec<bool>,
    /// Which of them have had a request.
    served: Vec<bool>,
    /// Whether requests go from the queue to it.
    pub(super) fed: bool,
    /// Whether all its processes are gone; it goes once nobody waits for what they left in it.
    pub(super) closed: bool,
}

impl Generation {
    /// A generation that the queue does not go to yet, where there are so many shares.
    pub(super) fn new(number: u32, exchange: exchange::Front, shares: usize) -> Self {
        let geometry = exchange.geometry();
        Self {
            number,
            slots: vec![None; usize::from(geometry.slots)],
            lengths: vec![0; usize::from(geometry.slots)],
            hijacks: Hijacks::default(),
            held: vec![0; shares],
            up: vec![false; usize::from(geometry.workers)],
            served: vec![false; usize::from(geometry.workers)],
            fed: false,
            closed: false,
            exchange,
        }
    }

    /// All its slots, by number.
    pub(super) fn slot_numbers(&self) -> std::ops::Range<u16> {
        0..self.slots.len() as u16
    }

    /// The request in a slot.
    pub(super) fn request(&self, slot: u16) -> Option<&Rc<Request>> {
        self.slots.get(usize::from(slot)).and_then(Option::as_ref)
    }

    /// Slots that are taken.
    pub(super) fn taken(&self) -> usize {
        self.slots.len() - self.exchange.free_slots()
    }

    /// Threads of all its workers, be they there or not.
    pub(super) fn seats(&self) -> usize {
        let geometry = self.exchange.geometry();
        usize::from(geometry.workers) * usize::from(geometry.threads)
    }

    /// Threads of the workers that serve.
    pub(super) fn seats_up(&self) -> usize {
        let up = self.up.iter().filter(|&&up| up).count();
        up * usize::from(self.exchange.geometry().threads)
    }

    /// Requests that threads have now.
    pub(super) fn running(&self) -> usize {
        let runs = |&slot: &u16| {
            self.request(slot).is_some()
                && matches!(self.exchange.holder(slot), Holder::Seat { .. })
        };
        self.slot_numbers().filter(runs).count()
    }

    /// Keeps the request that was put into a slot.
    pub(super) fn keep(&mut self, slot: u16, request: &Rc<Request>) {
        request.place.set(Place::Slot {
            generation: self.number,
            slot,
        });
        if let Lane::Share(rule) = request.lane.get() {
            self.held[rule] += 1;
        }
        self.slots[usize::from(slot)] = Some(Rc::clone(request));
    }

    /// Gives a slot back, and the request that was in it.
    pub(super) fn free(&mut self, slot: u16) -> Option<Rc<Request>> {
        let request = self.slots[usize::from(slot)].take();
        if let Some(request) = &request {
            request.place.set(Place::Out);
            if let Lane::Share(rule) = request.lane.get() {
                self.held[rule] -= 1;
            }
        }
        self.hijacks.slot_ended(slot);
        self.exchange.release(slot);
        request
    }

    /// The worker that has or had the request in this slot.
    pub(super) fn owner(&self, slot: u16) -> Option<u16> {
        match self.exchange.holder(slot) {
            Holder::Seat { worker, .. } | Holder::Done { worker, .. } => Some(worker),
            Holder::Nobody => None,
        }
    }

    /// A process is being started for this worker.
    pub(super) fn worker_starts(&mut self, worker: u16) {
        self.exchange.open(worker);
        self.served[usize::from(worker)] = false;
    }

    /// Whether the worker has had a request since it was started.
    pub(super) fn has_served(&self, worker: u16) -> bool {
        let mut slots = self.slot_numbers();
        self.served[usize::from(worker)] || slots.any(|slot| self.owner(slot) == Some(worker))
    }

    /// Remembers who has the request, and since when.
    pub(super) fn note_holder(&mut self, slot: u16, holder: Holder, request: &Request) {
        if let Holder::Seat { worker, .. } | Holder::Done { worker, .. } = holder {
            self.served[usize::from(worker)] = true;
            let generation = self.number;
            request.worker.set(Some(WorkerId { generation, worker }));
            request.times.set(self.exchange.times(slot));
        }
    }
}
