//! What the dispatcher has of one generation: its exchange, and which request lies in which slot.
//!
//! It never touches the queue: which generation a request goes to is decided in `feed.rs`.

use std::collections::BTreeSet;
use std::rc::Rc;

use exchange::WorkerId;
use exchange::front::Holder;

use super::hijacks::Hijacks;
use super::late::Lates;
use super::lingering::Lingering;
use super::still::Watch;
use super::{Lane, Lanes};
use crate::http::request::{Place, Request};

/// A worker, as far as requests go.
#[derive(Clone, Copy, Default)]
struct Worker {
    standing: Standing,
    /// Requests that its present life has finished.
    finished: u64,
    /// Whether it moves.
    watch: Watch,
}

/// What a worker is for.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Standing {
    /// Nothing: it is not there, or not ready yet.
    #[default]
    Away,
    /// It serves.
    Up,
    /// It finishes what it has.
    Leaving,
}

/// One generation's exchange and what lies in it.
pub(super) struct Generation {
    pub(super) number: u32,
    pub(super) exchange: exchange::Front,
    pub(super) slots: Vec<Option<Rc<Request>>>,
    pub(super) hijacks: Hijacks,
    pub(super) lates: Lates,
    pub(super) lingering: Lingering,
    /// By the number of a share: how many of its requests lie in slots.
    held: Vec<usize>,
    /// The workers, by their places.
    workers: Vec<Worker>,
    /// How many of them shall serve at once, be they there or not.
    size: u16,
    /// How many of them were told to leave and are still there. Almost always none.
    leaving: u16,
    /// Slots that may have more frames than one turn takes.
    pub(super) unfinished: BTreeSet<u16>,
    /// Whether requests go from the queue to it.
    pub(super) fed: bool,
    /// Whether its region is corrupt and was cleared; a fresh one is still to be made.
    pub(super) evicted: bool,
    /// Whether its workers are killed, whatever they run.
    pub(super) cut: bool,
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
            hijacks: Hijacks::default(),
            lates: Lates::default(),
            lingering: vec![
                None;
                usize::from(geometry.max_workers()) * usize::from(geometry.threads)
            ],
            held: vec![0; shares],
            workers: vec![Worker::default(); usize::from(geometry.max_workers())],
            size: geometry.workers,
            leaving: 0,
            unfinished: BTreeSet::new(),
            evicted: false,
            fed: false,
            cut: false,
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

    /// Slots that are taken, those aside that workers have who take nothing more: the seats that serve have nothing
    /// to do with these.
    pub(super) fn engaged(&self) -> usize {
        match self.leaving {
            0 => self.taken(),
            _ => self.taken() - self.held_by(Standing::Leaving),
        }
    }

    /// Requests that workers of this standing run.
    fn held_by(&self, standing: Standing) -> usize {
        self.count_held(standing, |_| true)
    }

    /// Those of them that are `wanted`.
    fn count_held(&self, standing: Standing, wanted: impl Fn(&Request) -> bool) -> usize {
        let held = |&slot: &u16| match self.exchange.publication(slot).holder() {
            Holder::Running { worker, .. } => {
                self.request(slot).is_some_and(|request| wanted(request))
                    && self.standing(worker) == standing
            }
            Holder::Done { .. } | Holder::Nobody => false,
        };
        self.slot_numbers().filter(held).count()
    }

    /// Requests of a share in slots, counted as in [`Generation::engaged`].
    pub(super) fn engaged_of(&self, rule: usize) -> usize {
        let of_rule = |request: &Request| request.lane.get() == Lane::Share(rule);
        match self.leaving {
            0 => self.held[rule],
            _ => self.held[rule] - self.count_held(Standing::Leaving, of_rule),
        }
    }

    fn standing(&self, worker: u16) -> Standing {
        let worker = self.workers.get(usize::from(worker));
        worker.map_or(Standing::Away, |worker| worker.standing)
    }

    /// What a worker is for from now on.
    fn stands(&mut self, worker: u16, standing: Standing) {
        let worker = &mut self.workers[usize::from(worker)];
        self.leaving -= u16::from(worker.standing == Standing::Leaving);
        self.leaving += u16::from(standing == Standing::Leaving);
        worker.standing = standing;
    }

    /// The number of a thread's seat.
    pub(super) fn seat(&self, worker: u16, thread: u16) -> usize {
        usize::from(worker) * usize::from(self.exchange.geometry().threads) + usize::from(thread)
    }

    /// Threads of as many workers as shall serve at once, be they there or not.
    pub(super) fn seats(&self) -> usize {
        usize::from(self.size) * usize::from(self.exchange.geometry().threads)
    }

    /// So many workers shall serve at once.
    pub(super) fn resize(&mut self, workers: u16) {
        self.size = workers.min(self.exchange.geometry().workers);
    }

    /// Threads of the workers that serve.
    pub(super) fn seats_up(&self) -> usize {
        let up = self.workers.iter();
        let up = up.filter(|worker| worker.standing == Standing::Up).count();
        up * usize::from(self.exchange.geometry().threads)
    }

    /// Whether the worker serves.
    pub(super) fn serves(&self, worker: u16) -> bool {
        self.standing(worker) == Standing::Up
    }

    /// What was seen of a worker.
    pub(super) fn watch(&mut self, worker: u16) -> &mut Watch {
        &mut self.workers[usize::from(worker)].watch
    }

    /// Requests that these threads have now.
    pub(super) fn running(&self) -> usize {
        self.held_by(Standing::Up)
    }

    /// Whether a request that a worker died with lies in a slot, and has not begun to answer.
    pub(super) fn tries_a_suspect(&self) -> bool {
        let mut all = self.slots.iter().flatten();
        all.any(|request| request.is_suspect() && !request.arrived.borrow().had_head)
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

    /// Other lanes are in force: what lies in slots goes into them.
    pub(super) fn sort_into(&mut self, lanes: &Lanes) {
        self.held = vec![0; lanes.shares()];
        for request in self.slots.iter().flatten() {
            let lane = lanes.of(request.path());
            request.lane.set(lane);
            if let Lane::Share(rule) = lane {
                self.held[rule] += 1;
            }
        }
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
        self.unfinished.remove(&slot);
        self.hijacks.slot_ended(slot);
        self.exchange.release(slot);
        request
    }

    /// The worker that has or had the request in this slot.
    pub(super) fn owner(&self, slot: u16) -> Option<u16> {
        match self.exchange.publication(slot).holder() {
            Holder::Running { worker, .. } | Holder::Done { worker, .. } => Some(worker),
            Holder::Nobody => None,
        }
    }

    /// The worker one of whose threads has the request in this slot.
    pub(super) fn runner(&self, slot: u16) -> Option<u16> {
        match self.exchange.publication(slot).holder() {
            Holder::Running { worker, .. } => Some(worker),
            Holder::Done { .. } | Holder::Nobody => None,
        }
    }

    /// A process is being started for this worker.
    pub(super) fn worker_starts(&mut self, worker: u16) {
        self.exchange.threads().clear_stop(worker);
        self.stands(worker, Standing::Away);
        let worker = &mut self.workers[usize::from(worker)];
        (worker.finished, worker.watch) = (0, Watch::default());
    }

    /// It serves.
    pub(super) fn worker_up(&mut self, worker: u16) {
        self.stands(worker, Standing::Up);
    }

    /// It is to finish what it has and exit.
    pub(super) fn stop_worker(&mut self, worker: u16) {
        self.stands(worker, Standing::Leaving);
        self.exchange.threads().stop_worker(worker);
    }

    /// Whether its region may be read and written.
    pub(super) fn is_sound(&self) -> bool {
        self.exchange.corrupt().is_none()
    }

    /// Its processes are to be killed: none of its workers serves.
    pub(super) fn lose_workers(&mut self) {
        for worker in 0..self.exchange.geometry().max_workers() {
            self.stands(worker, Standing::Away);
            self.forget_lingering(worker);
            self.hijacks.worker_died(worker);
        }
    }

    /// It is dead. Slots that it held, in no order.
    pub(super) fn bury(&mut self, worker: u16) -> Vec<u16> {
        self.stands(worker, Standing::Away);
        self.forget_lingering(worker);
        self.exchange.reclaim_worker(worker)
    }

    /// Requests that the worker has finished since it was started.
    pub(super) fn finished(&self, worker: u16) -> u64 {
        self.workers[usize::from(worker)].finished
    }

    /// Whether the worker has come to the end of a request since it was started.
    pub(super) fn has_served(&self, worker: u16) -> bool {
        // It may have died before anybody looked at what it said last.
        let done = |slot| matches!(self.exchange.publication(slot).holder(), Holder::Done { worker: by, .. } if by == worker);
        self.finished(worker) > 0 || self.slot_numbers().any(done)
    }

    /// A worker has finished a request.
    pub(super) fn count(&mut self, worker: u16) {
        // One that its region names has a place here: the exchange has checked it.
        self.workers[usize::from(worker)].finished += 1;
    }

    /// Remembers who has the request, and since when.
    pub(super) fn note_holder(&self, slot: u16, holder: Holder, request: &Request) {
        if let Holder::Running { worker, .. } | Holder::Done { worker, .. } = holder {
            let generation = self.number;
            request.worker.set(Some(WorkerId { generation, worker }));
            request.times.set(self.exchange.publication(slot).times());
        }
    }
}
