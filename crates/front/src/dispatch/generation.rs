//! What the dispatcher has of one generation: its slots, its workers, and what is open of both. It never touches the queue:
//! `routing` decides which generation a request goes to.

use std::rc::Rc;

use super::deadlines::Deadlines;
use super::hijacks::Hijacks;
use super::lanes::Lane;
use super::pending::PendingRequest;
use super::slots::Slots;
use super::slow::SlowRuns;
use super::workers::Workers;

/// One generation.
pub(super) struct Generation {
    pub(super) number: u32,
    pub(super) slots: Slots,
    pub(super) workers: Workers,
    pub(super) hijacks: Hijacks,
    pub(super) deadlines: Deadlines,
    pub(super) slow: SlowRuns,
    /// Whether requests go from the queue to it.
    pub(super) routable: bool,
    /// Whether its exchange is corrupt and was cleared; a fresh one is still to be made.
    pub(super) evicted: bool,
    /// Whether its workers are killed, whatever they run.
    pub(super) cut: bool,
    /// Whether all its processes are gone; it goes once no client waits for what they left in it.
    pub(super) closed: bool,
}

impl Generation {
    /// Returns a generation that the queue does not go to yet, where there are so many shares.
    pub(super) fn new(number: u32, exchange: exchange::Front, shares: usize) -> Self {
        let geometry = exchange.geometry();
        let (places, threads) = (geometry.max_workers(), geometry.threads);
        Self {
            number,
            slots: Slots::new(number, exchange, shares),
            workers: Workers::new(places, threads, geometry.workers),
            hijacks: Hijacks::default(),
            deadlines: Deadlines::new(places, threads),
            slow: SlowRuns::default(),
            routable: false,
            evicted: false,
            cut: false,
            closed: false,
        }
    }

    /// Number of slots for the workers that shall serve: one to run and one to follow it for each thread. The others are for
    /// workers that may be added.
    pub(super) fn slots_in_use(&self) -> usize {
        let slots = self.slots.numbers().len();
        slots.min(2 * self.workers.target_threads().max(1))
    }

    /// Number of slots that are taken, without those that leaving workers have: these do not count against the threads that
    /// serve.
    pub(super) fn engaged(&self) -> usize {
        let taken = self.slots.taken();
        match self.workers.any_leaving() {
            false => taken,
            true => {
                taken
                    - self
                        .slots
                        .running(|by| self.workers.is_leaving(by), |_| true)
            }
        }
    }

    /// Number of requests of a share in slots, counted in the same way.
    pub(super) fn engaged_by_share(&self, rule: usize) -> usize {
        let taken = self.slots.taken_by_share(rule);
        let of_rule = |request: &PendingRequest| request.lane.get() == Lane::Share(rule);
        match self.workers.any_leaving() {
            false => taken,
            true => {
                taken
                    - self
                        .slots
                        .running(|by| self.workers.is_leaving(by), of_rule)
            }
        }
    }

    /// Whether fewer requests run than there are threads that serve.
    pub(super) fn has_idle_thread(&self) -> bool {
        let running = self.slots.running(|by| self.workers.serves(by), |_| true);
        running < self.workers.threads_up()
    }

    /// Whether a request that a worker died with lies in a slot, and has not begun to answer.
    pub(super) fn tries_poison_suspect(&self) -> bool {
        let mut all = self.slots.requests();
        all.any(|request| request.is_poison_suspect() && !request.had_head.get())
    }

    /// Gives a slot back, and the request that was in it.
    pub(super) fn free(&mut self, slot: u16) -> Option<Rc<PendingRequest>> {
        self.hijacks.slot_ended(slot);
        self.slots.free(slot)
    }

    /// A process is being started for this worker.
    pub(super) fn worker_starts(&mut self, worker: u16) {
        self.slots
            .exchange
            .coordination()
            .availability
            .threads
            .clear_stop(worker);
        self.workers.starts(worker);
        self.deadlines.worker_starts(worker);
    }

    /// The worker is to finish what it has and exit, from `now_ns` of the monotonic clock on.
    pub(super) fn stop_worker(&mut self, worker: u16, now_ns: u64) {
        self.workers.leaves(worker, now_ns);
        self.slots
            .exchange
            .coordination()
            .availability
            .threads
            .stop_worker(worker);
    }

    /// Sets how many threads of each worker take requests.
    pub(super) fn set_active_threads(&mut self, active: u16) {
        self.workers.set_active_threads(active);
        self.slots.exchange.set_active_threads(active);
    }

    /// Its processes are to be killed: none of its workers serves.
    pub(super) fn lose_workers(&mut self) {
        for worker in 0..self.slots.exchange.geometry().max_workers() {
            self.workers.set_away(worker);
            self.deadlines.forget_post_response_work(worker);
            self.hijacks.worker_died(worker);
        }
    }

    /// The worker is dead. Returns the slots that it held, in no order.
    pub(super) fn reclaim_worker(&mut self, worker: u16) -> Vec<u16> {
        self.workers.set_away(worker);
        self.deadlines.forget_post_response_work(worker);
        self.slots.exchange.reclaim_worker(worker)
    }

    /// Whether the worker has come to the end of a request since it was started.
    pub(super) fn has_served(&self, worker: u16) -> bool {
        // It may have died before anybody took what it wrote last.
        let mut slots = self.slots.numbers();
        self.workers.finished(worker) > 0 || slots.any(|slot| self.slots.is_done_by(slot, worker))
    }
}
