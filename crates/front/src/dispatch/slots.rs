//! The slots of one generation's exchange, and which request lies in which. It decides nothing.

use std::collections::BTreeSet;
use std::ops::Range;
use std::rc::Rc;

use exchange::front::Holder;
use exchange::{Run, WorkerId};

use super::lanes::{Lane, Lanes};
use super::pending::{PendingRequest, Place};
use crate::messages::RunTimes;

/// One generation's exchange and the requests in it.
pub(super) struct Slots {
    generation: u32,
    pub(super) exchange: exchange::Front,
    requests: Vec<Option<Rc<PendingRequest>>>,
    /// By the number of a share: how many of its requests lie in slots.
    of_share: Vec<usize>,
    /// Slots that may have more frames than one turn takes.
    pub(super) unfinished: BTreeSet<u16>,
}

impl Slots {
    /// Returns empty slots, where there are so many shares.
    pub(super) fn new(generation: u32, exchange: exchange::Front, shares: usize) -> Self {
        Self {
            generation,
            requests: vec![None; usize::from(exchange.geometry().slots)],
            of_share: vec![0; shares],
            unfinished: BTreeSet::new(),
            exchange,
        }
    }

    /// The number of their generation.
    pub(super) fn generation(&self) -> u32 {
        self.generation
    }

    /// The numbers of all slots.
    pub(super) fn numbers(&self) -> Range<u16> {
        0..self.requests.len() as u16
    }

    /// The request in a slot.
    pub(super) fn request(&self, slot: u16) -> Option<&Rc<PendingRequest>> {
        self.requests
            .get(usize::from(slot))
            .and_then(Option::as_ref)
    }

    /// All requests in slots.
    pub(super) fn requests(&self) -> impl Iterator<Item = &Rc<PendingRequest>> {
        self.requests.iter().flatten()
    }

    /// Number of slots that are taken.
    pub(super) fn taken(&self) -> usize {
        self.requests.len() - self.exchange.free_slots()
    }

    /// Number of requests of a share in slots.
    pub(super) fn taken_by_share(&self, rule: usize) -> usize {
        self.of_share[rule]
    }

    /// Number of requests that threads of these workers run, of those that are `wanted`.
    pub(super) fn running(
        &self,
        of: impl Fn(u16) -> bool,
        wanted: impl Fn(&PendingRequest) -> bool,
    ) -> usize {
        let runs = |&slot: &u16| {
            let request = self.request(slot);
            self.runner(slot).is_some_and(&of) && request.is_some_and(|request| wanted(request))
        };
        self.numbers().filter(runs).count()
    }

    /// Keeps the request that was put into a slot.
    pub(super) fn keep(&mut self, slot: u16, request: &Rc<PendingRequest>) {
        let generation = self.generation;
        request.place.set(Place::Slot { generation, slot });
        if let Lane::Share(rule) = request.lane.get() {
            self.of_share[rule] += 1;
        }
        self.requests[usize::from(slot)] = Some(Rc::clone(request));
    }

    /// Gives a slot back, and the request that was in it.
    pub(super) fn free(&mut self, slot: u16) -> Option<Rc<PendingRequest>> {
        let request = self.requests[usize::from(slot)].take();
        if let Some(request) = &request {
            request.place.set(Place::Out);
            if let Lane::Share(rule) = request.lane.get() {
                self.of_share[rule] -= 1;
            }
        }
        self.unfinished.remove(&slot);
        self.exchange.release(slot);
        request
    }

    /// Sorts the requests into other lanes.
    pub(super) fn sort_into(&mut self, lanes: &Lanes) {
        self.of_share = vec![0; lanes.shares()];
        for request in self.requests.iter().flatten() {
            let lane = lanes.lane(request.request.path());
            request.lane.set(lane);
            if let Lane::Share(rule) = lane {
                self.of_share[rule] += 1;
            }
        }
    }

    /// The worker that has or had the request in this slot.
    pub(super) fn owner(&self, slot: u16) -> Option<u16> {
        match self.exchange.publication(slot).holder() {
            Holder::Running { worker, .. } | Holder::Done { worker, .. } => Some(worker),
            Holder::Unclaimed => None,
        }
    }

    /// The worker one of whose threads has the request in this slot.
    pub(super) fn runner(&self, slot: u16) -> Option<u16> {
        match self.exchange.publication(slot).holder() {
            Holder::Running { worker, .. } => Some(worker),
            Holder::Done { .. } | Holder::Unclaimed => None,
        }
    }

    /// Whether this worker was done with the request in this slot.
    pub(super) fn is_done_by(&self, slot: u16, worker: u16) -> bool {
        matches!(self.exchange.publication(slot).holder(), Holder::Done { worker: by, .. } if by == worker)
    }

    /// Who runs the request in this slot.
    pub(super) fn run(&self, slot: u16) -> Option<Run> {
        match self.exchange.publication(slot).holder() {
            Holder::Running { worker, thread } => Some(self.run_of(slot, worker, thread)),
            Holder::Done { .. } | Holder::Unclaimed => None,
        }
    }

    /// The present publication of this slot, in the hands of this thread.
    pub(super) fn run_of(&self, slot: u16, worker: u16, thread: u16) -> Run {
        let generation = self.generation;
        Run {
            by: WorkerId { generation, worker },
            thread,
            slot,
            sequence: self.exchange.publication(slot).sequence(),
        }
    }

    /// When the request in this slot was claimed and done.
    pub(super) fn times(&self, slot: u16) -> RunTimes {
        let (claimed_ns, finished_ns) = self.exchange.publication(slot).times();
        RunTimes {
            claimed_ns,
            finished_ns,
        }
    }

    /// Records who has the request, and since when.
    pub(super) fn note_holder(&self, slot: u16, holder: Holder, request: &PendingRequest) {
        if let Holder::Running { worker, .. } | Holder::Done { worker, .. } = holder {
            let generation = self.generation;
            request.note_worker(WorkerId { generation, worker }, self.times(slot));
        }
    }

    /// Whether the exchange may be read and written.
    pub(super) fn is_sound(&self) -> bool {
        self.exchange.corrupt().is_none()
    }
}
