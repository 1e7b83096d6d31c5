//! What the dispatcher has at one moment, for the status. It only reads.

use std::rc::Rc;
use std::sync::Arc;

use exchange::WorkerId;
use exchange::front::Holder;

use super::generation::Generation;
use super::pending::PendingRequest;
use super::state::{State, seconds};
use crate::http::request::Request;
use crate::saturation::Saturation;

/// A request that a worker has.
pub struct RunningRequest {
    /// The worker.
    pub by: WorkerId,
    /// Its thread.
    pub thread: u16,
    /// When the thread claimed it, nanoseconds of the monotonic clock.
    pub since_ns: u64,
    /// What the client asked for.
    pub request: Arc<Request>,
}

/// A thread that is busy with what follows a response.
pub struct FinishingThread {
    /// The worker.
    pub by: WorkerId,
    /// Its thread.
    pub thread: u16,
    /// When it handed the request back, nanoseconds of the monotonic clock.
    pub since_ns: u64,
}

/// The dispatcher at one moment.
pub struct DispatcherStatus {
    /// Requests that wait: in the queue, and in slots that no worker has claimed yet.
    pub waiting: usize,
    /// When the oldest of them arrived, nanoseconds of the monotonic clock.
    pub oldest_ns: Option<u64>,
    /// The most that waited at once.
    pub longest_queue: usize,
    /// How many may wait.
    pub queue_limit: usize,
    /// How much of the threads is in use.
    pub saturation: Saturation,
    /// Slots of all generations.
    pub slots: usize,
    /// Slots without a request.
    pub free_slots: usize,
    /// How often a request was run again after its worker had died.
    pub retries: u64,
    /// Requests that were given up after two workers had died with them.
    pub poison: u64,
    /// Where no worker can serve: the seconds until the next one is started, rounded up.
    pub next_start_s: Option<u32>,
    /// Requests that a worker has.
    pub running: Vec<RunningRequest>,
    /// Threads that are busy with what follows a response.
    pub finishing: Vec<FinishingThread>,
}

impl DispatcherStatus {
    pub(super) fn of(state: &State) -> Self {
        let generations = &state.generations.all;
        let all_slots: usize = generations.iter().map(Generation::slots_in_use).sum();
        let taken: usize = generations.iter().map(|one| one.slots.taken()).sum();
        let unclaimed: Vec<_> = generations.iter().flat_map(unclaimed).collect();
        let waiting = unclaimed.iter().copied().chain(state.queue.firsts());
        let oldest_ns = waiting.filter_map(|request| request.request.arrived_ns());
        let finishing = generations.iter();
        let finishing = finishing.flat_map(|one| one.deadlines.after_response(&one.slots));
        let finishing = finishing.map(|(by, thread, since_ns)| FinishingThread {
            by,
            thread,
            since_ns,
        });
        Self {
            waiting: state.queue.len() + unclaimed.len(),
            oldest_ns: oldest_ns.min(),
            longest_queue: state.longest_queue,
            queue_limit: state.settings.queue_limit,
            saturation: saturation(state),
            slots: all_slots,
            // Workers that leave may have more than there are for those that stay.
            free_slots: all_slots.saturating_sub(taken),
            retries: state.crashes.retries,
            poison: state.crashes.poison.count(),
            next_start_s: state.outage.map(seconds),
            running: generations.iter().flat_map(running).collect(),
            finishing: finishing.collect(),
        }
    }
}

/// How much of the threads is in use. What leaving workers finish does not count, nor do their threads.
pub(super) fn saturation(state: &State) -> Saturation {
    let mut all = Saturation {
        waiting: state.queue.len(),
        ..Saturation::default()
    };
    for one in state.generations.all.iter().filter(|one| one.routable) {
        let unclaimed = unclaimed(one).count();
        let after = one.deadlines.after_response(&one.slots);
        let finishing = after.filter(|(by, _, _)| one.workers.serves(by.worker));
        all = all.and(Saturation {
            busy: one.engaged().saturating_sub(unclaimed) + finishing.count(),
            waiting: unclaimed,
            threads: one.workers.threads_up(),
        });
    }
    all
}

/// Requests in slots that no worker has claimed.
fn unclaimed(generation: &Generation) -> impl Iterator<Item = &Rc<PendingRequest>> {
    let slots = &generation.slots;
    let waits = |&slot: &u16| slots.exchange.publication(slot).holder() == Holder::Unclaimed;
    let requests = |slot: u16| Some((slot, slots.request(slot)?));
    let there = slots.numbers().filter_map(requests);
    there
        .filter(move |(slot, _)| waits(slot))
        .map(|(_, request)| request)
}

fn running(generation: &Generation) -> impl Iterator<Item = RunningRequest> {
    let slots = &generation.slots;
    slots.numbers().filter_map(|slot| {
        let request = slots.request(slot)?;
        let run = slots.run(slot)?;
        Some(RunningRequest {
            by: run.by,
            thread: run.thread,
            since_ns: slots.times(slot).claimed_ns,
            request: Arc::clone(&request.request),
        })
    })
}
