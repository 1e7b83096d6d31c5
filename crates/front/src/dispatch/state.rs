//! What the dispatcher has, and the step that all others end with: from the queue into free slots.
//!
//! Everything runs on one thread, and nothing here calls out but to say something to an edge, which then answers with
//! nothing. A `RefCell` that is already borrowed would be a bug.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Instant;

use config::Settings;
use tokio::sync::Notify;

use super::crashes::Crashes;
use super::env::Env;
use super::frames::FrameReader;
use super::generation::Generation;
use super::lanes::{Lane, Lanes};
use super::pending::{PendingRequest, Place, Requests};
use super::queue::Queue;
use super::routing::OpenGenerations;
use crate::failure::Failure;
use crate::log::AccessLog;

/// The state that the parts of the dispatcher share.
pub(super) type SharedState = Rc<RefCell<State>>;

/// The state of the dispatcher.
pub(crate) struct State {
    pub(super) settings: Rc<Settings>,
    pub(super) lanes: Lanes,
    pub(super) queue: Queue,
    pub(super) generations: OpenGenerations,
    pub(super) requests: Rc<Requests>,
    pub(super) frames: FrameReader,
    pub(super) crashes: Crashes,
    /// Where no worker can serve: when the next one is started.
    pub(super) outage: Option<Instant>,
    /// Whether no further request is taken.
    pub(super) stopping: bool,
    /// The most requests that waited at once.
    pub(super) longest_queue: usize,
    /// Notified of the next request, while the application is stopped for want of any.
    pub(super) first_request: Option<Rc<Notify>>,
    pub(super) log: Rc<AccessLog>,
    env: Env,
}

impl State {
    /// Returns the state over the exchange of the first generation, whose workers are all still to come.
    pub(super) fn new(
        exchange: exchange::Front,
        generation: u32,
        settings: Rc<Settings>,
        log: Rc<AccessLog>,
        requests: Rc<Requests>,
    ) -> Self {
        let lanes = Lanes::new(&settings);
        let shares = lanes.shares();
        let env = Env::new(&settings);
        Self {
            settings,
            lanes,
            queue: Queue::new(shares),
            generations: OpenGenerations::new(generation, exchange, shares),
            requests,
            frames: FrameReader::new(Rc::clone(&log)),
            crashes: Crashes::default(),
            outage: None,
            stopping: false,
            longest_queue: 0,
            first_request: None,
            log,
            env,
        }
    }

    /// The lane that a request for this path would wait in, if it is taken now.
    ///
    /// # Errors
    /// Why it would be refused.
    pub(super) fn admit(&self, path: &[u8]) -> Result<Lane, Failure> {
        if self.stopping {
            return Err(Failure::Stopping);
        }
        if let Some(until) = self.outage {
            return Err(Failure::NoWorker(seconds(until)));
        }
        let lane = self.lanes.lane(path);
        let waiting = self.queue.waiting(lane);
        let limit = self.settings.queue_limit;
        let full = match lane {
            Lane::Priority => waiting >= limit,
            Lane::Share(rule) if waiting >= self.lanes.share(rule).places => true,
            Lane::Share(_) | Lane::Ordinary => {
                // Those that pass a full queue do not make it fuller for others.
                let passing = self.queue.waiting(Lane::Priority);
                self.generations.beyond_threads(self.queue.len() - passing) >= limit
            }
        };
        match full {
            true => Err(Failure::QueueFull),
            false => Ok(lane),
        }
    }

    /// Fills free slots from the queue, oldest first of those that may run.
    pub(super) fn fill(&mut self) {
        self.fill_slots();
        self.generations.announce_queue(self.queue.len() > 0);
    }

    fn fill_slots(&mut self) {
        while let Some(next) = self.generations.next(&self.queue, &self.lanes) {
            let Some((at, slot)) = self.generations.acquire() else {
                return;
            };
            let Some(request) = self.queue.pop(next) else {
                return;
            };
            match put(&self.env, &mut self.generations.all[at], slot, &request) {
                Ok(true) => {}
                Ok(false) => {
                    self.queue.put_back(request);
                    return;
                }
                Err(failure) => {
                    request.place.set(Place::Out);
                    request.fail(failure);
                }
            }
        }
    }

    /// Gives a request to this very generation, past the queue. It is not run again.
    ///
    /// # Errors
    /// It has no free slot, or the request does not fit into one.
    pub(super) fn put_into(
        &mut self,
        number: u32,
        request: &Rc<PendingRequest>,
    ) -> Result<(), Failure> {
        let generation = self.generations.get_mut(number).ok_or(Failure::Stopping)?;
        let slot = generation
            .slots
            .exchange
            .acquire()
            .ok_or(Failure::QueueFull)?;
        request.retries.set(self.settings.max_retries);
        match put(&self.env, generation, slot, request)? {
            true => Ok(()),
            false => Err(Failure::QueueFull),
        }
    }

    /// Takes what workers have completed, of all generations, for so many passes. Returns whether it woke a task.
    pub(super) fn take_completed(&mut self, passes: usize) -> bool {
        let (mut woke, mut went_on) = (false, false);
        for generation in &mut self.generations.all {
            if !generation.slots.unfinished.is_empty() {
                went_on = true;
                woke |= self.frames.take_unfinished(generation);
            }
        }
        if went_on {
            // Slots may have come back, also where the tasks that wait are another thread's.
            self.fill();
        }
        let mut at = 0;
        for _ in 0..passes {
            let Some(generation) = self.generations.all.get_mut(at) else {
                break;
            };
            match take_pass(&self.frames, generation) {
                None => at += 1,
                Some(woken) => {
                    woke |= woken;
                    self.fill();
                }
            }
        }
        woke
    }

    /// Puts these settings in force. Requests that wait go into the lanes as they are now, and stay also where they would not
    /// be let in any more.
    pub(super) fn apply(&mut self, settings: Rc<Settings>) {
        let lanes = Lanes::new(&settings);
        self.env = Env::new(&settings);
        self.settings = settings;
        let mut waiting: Vec<_> = self.queue.drain().collect();
        waiting.sort_by_key(|request| request.request.arrived_ns());
        self.queue = Queue::new(lanes.shares());
        for request in waiting {
            request.lane.set(lanes.lane(request.request.path()));
            self.queue.push(request);
        }
        for generation in &mut self.generations.all {
            generation.slots.sort_into(&lanes);
        }
        self.lanes = lanes;
        self.fill();
    }

    /// Fails all requests of the queue.
    pub(super) fn fail_queue(&mut self, failure: Failure) {
        for request in self.queue.drain() {
            request.place.set(Place::Out);
            request.fail(failure);
        }
    }

    /// Takes a request out of the queue, for its client has left.
    pub(super) fn drop_waiting(&mut self, request: &Rc<PendingRequest>) {
        self.queue.remove(request);
        request.place.set(Place::Out);
        request.fail(Failure::ClientGone);
    }
}

/// Puts a request into a slot that was acquired for it. False when the ready ring has no place just now;
/// then the slot is free again, as where it fails.
fn put(
    env: &Env,
    generation: &mut Generation,
    slot: u16,
    request: &Rc<PendingRequest>,
) -> Result<bool, Failure> {
    let exchange = &mut generation.slots.exchange;
    let Ok(length) = env.write_record(&request.request, exchange.request_area(slot)) else {
        exchange.release(slot);
        return Err(Failure::NotStored("its head does not fit into a slot"));
    };
    if !exchange.publish(slot, length) {
        exchange.release(slot);
        return Ok(false);
    }
    generation.slots.keep(slot, request);
    Ok(true)
}

/// Takes the slots that are complete now. Returns whether it woke a task; none where nothing was complete.
fn take_pass(frames: &FrameReader, generation: &mut Generation) -> Option<bool> {
    if !generation.slots.is_sound() {
        return None;
    }
    let mut slots = [0_u16; 64];
    let mut count = 0;
    generation.slots.exchange.completions().take(|slot| {
        if count < slots.len() {
            slots[count] = slot;
        }
        count += 1;
    });
    if count == 0 {
        return None;
    }
    let mut woke = false;
    if count > slots.len() {
        // More at once than fit here: look at every slot.
        for slot in generation.slots.numbers() {
            woke |= frames.take(generation, slot);
        }
    } else {
        for &slot in &slots[..count] {
            woke |= frames.take(generation, slot);
        }
    }
    Some(woke)
}

/// The seconds until then, rounded up: at least one, also where an attempt is under way.
pub(super) fn seconds(until: Instant) -> u32 {
    let left = until.saturating_duration_since(Instant::now());
    (left.as_secs_f64().ceil() as u32).max(1)
}
