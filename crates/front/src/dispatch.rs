//! The dispatcher: the application's one queue, and what is in the exchange.
//!
//! It is the only one that moves a request: from the queue into a slot, out of it when a worker is done,
//! back when a worker dies, away when the client leaves or the deadline passes. It never touches a
//! connection, never starts or ends a process, and never waits.
//!
//! Everything runs on the front's one thread; a `RefCell` that is already borrowed would be a bug here,
//! which is why nothing in this file calls out while it holds one, save to wake a task (which only
//! schedules it).

mod arrivals;
mod figures;
mod hijacks;
mod workers;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use exchange::front::Holder;
use exchange::scheduling::monotonic_ns;

use crate::env::Env;
use crate::failure::Failure;
use crate::request::{Place, Request};
use crate::scheduling::Scheduling;
use hijacks::Hijacks;

/// The bounds the dispatcher keeps.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Requests that wait for a thread, in the queue or in slots.
    pub queue_limit: usize,
    /// Bytes of one response in memory before it goes to a file.
    pub response_memory: usize,
    /// Bytes of one response in a file; then the application waits for the client.
    pub response_limit: u64,
    /// How often a safe request is run again after its worker died.
    pub max_retries: u32,
    /// Whether the front's thread gives way to workers while all requests are short.
    pub batch: bool,
}

/// What the application said went wrong, for the log.
pub type ErrorSink = Box<dyn Fn(&Request, &str)>;

struct Inner {
    exchange: exchange::Front,
    queue: VecDeque<Rc<Request>>,
    slots: Vec<Option<Rc<Request>>>,
    lengths: Vec<u32>,
    hijacks: Hijacks,
    /// Which workers serve.
    up: Vec<bool>,
    stopping: bool,
}

/// The dispatcher.
pub struct Dispatcher {
    inner: RefCell<Inner>,
    env: Env,
    bounds: Bounds,
    on_error: ErrorSink,
    scheduling: Scheduling,
    longest_queue: Cell<usize>,
    again: Cell<u64>,
    temporary: Arc<Path>,
    this: Weak<Self>,
}

impl Dispatcher {
    /// A dispatcher over an exchange whose workers are all still to come.
    pub fn new(exchange: exchange::Front, bounds: Bounds, on_error: ErrorSink) -> Rc<Self> {
        let geometry = exchange.geometry();
        let inner = Inner {
            queue: VecDeque::new(),
            slots: vec![None; usize::from(geometry.slots)],
            lengths: vec![0; usize::from(geometry.slots)],
            hijacks: Hijacks::default(),
            up: vec![false; usize::from(geometry.workers)],
            stopping: false,
            exchange,
        };
        Rc::new_cyclic(|this| Self {
            inner: RefCell::new(inner),
            env: Env::new(),
            bounds,
            on_error,
            scheduling: Scheduling::default(),
            longest_queue: Cell::new(0),
            again: Cell::new(0),
            temporary: std::env::temp_dir().into(),
            this: Weak::clone(this),
        })
    }

    // ===== requests =====

    /// Whether a further request would be refused now.
    ///
    /// # Errors
    /// Why it would.
    pub fn admits(&self) -> Result<(), Failure> {
        let inner = self.inner.borrow();
        if inner.stopping {
            return Err(Failure::Stopping);
        }
        if inner.beyond_seats() >= self.bounds.queue_limit {
            return Err(Failure::QueueFull);
        }
        Ok(())
    }

    /// Takes a request into the queue and dispatches what can be. Its response arrives in the request.
    ///
    /// # Errors
    /// The queue is full, or the server stops.
    pub fn submit(&self, request: Rc<Request>) -> Result<(), Failure> {
        self.complete();
        self.admits()?;
        let mut inner = self.inner.borrow_mut();
        request.place.set(Place::Queue);
        inner.queue.push_back(request);
        self.fill(&mut inner);
        self.longest_queue
            .set(self.longest_queue.get().max(inner.beyond_seats()));
        Ok(())
    }

    /// The client left. A request that still waits is dropped; one that runs goes on unwatched.
    ///
    /// `certain` is false for a mere FIN, which a client that only has nothing more to send also gives:
    /// then a request that a worker is about to take is left to it.
    pub fn client_left(&self, request: &Rc<Request>, certain: bool) {
        let mut inner = self.inner.borrow_mut();
        match request.place.get() {
            Place::Queue => self.drop_waiting(&mut inner, request, Failure::ClientGone),
            Place::Slot(slot) => {
                if (certain || !inner.has_idle_seat()) && inner.exchange.retract(slot) {
                    inner.free(slot);
                    request.fail(Failure::ClientGone);
                    self.fill(&mut inner);
                } else if certain {
                    self.give_up(&mut inner, request, slot);
                }
            }
            Place::Out => {}
        }
    }

    /// Nobody wants the response any more (the connection is gone or the time over).
    pub fn abandon(&self, request: &Rc<Request>) {
        let mut inner = self.inner.borrow_mut();
        match request.place.get() {
            Place::Queue => self.drop_waiting(&mut inner, request, Failure::ClientGone),
            Place::Slot(slot) => self.give_up(&mut inner, request, slot),
            Place::Out => {}
        }
        inner.hijacks.forget(request);
    }

    /// Drops every request whose deadline has passed: those that wait never reach Ruby, those that run
    /// are answered 504 and go on unwatched.
    pub fn expire(&self) {
        let now = monotonic_ns();
        let mut inner = self.inner.borrow_mut();
        // All have the same time, so those that came first are late first.
        while inner.queue.front().is_some_and(|first| first.is_late(now)) {
            let Some(request) = inner.queue.pop_front() else {
                break;
            };
            request.place.set(Place::Out);
            request.fail(Failure::ExpiredInQueue);
        }
        for slot in 0..inner.slots.len() as u16 {
            let Some(request) = inner.slots[usize::from(slot)].clone() else {
                continue;
            };
            if !request.is_late(now) || request.abandoned.get() {
                continue;
            }
            if inner.exchange.retract(slot) {
                inner.free(slot);
                request.fail(Failure::ExpiredInQueue);
            } else if !request.arrived.borrow().had_head {
                request.fail(Failure::ExpiredInWorker);
                self.give_up(&mut inner, &request, slot);
            }
        }
        self.fill(&mut inner);
    }

    /// Moves what has arrived for `request` on: the connection has taken some and there is room again. Wakes
    /// nobody: the caller looks for itself.
    pub fn resume(&self, request: &Rc<Request>) {
        if let Place::Slot(slot) = request.place.get() {
            let mut inner = self.inner.borrow_mut();
            self.take_for(&mut inner, slot, request);
            self.fill(&mut inner);
        }
    }

    // ===== the exchange =====

    /// Takes what workers have completed. True when it woke a task.
    pub fn complete(&self) -> bool {
        let mut inner = self.inner.borrow_mut();
        let mut slots = [0_u16; 64];
        let mut woke = false;
        loop {
            let mut count = 0;
            inner.exchange.completed(|slot| {
                if count < slots.len() {
                    slots[count] = slot;
                }
                count += 1;
            });
            if count == 0 {
                return woke;
            }
            if count > slots.len() {
                // More at once than fit here: look at every slot.
                for slot in 0..inner.slots.len() as u16 {
                    woke |= self.take(&mut inner, slot);
                }
            } else {
                for &slot in &slots[..count] {
                    woke |= self.take(&mut inner, slot);
                }
            }
            self.fill(&mut inner);
        }
    }

    /// The front is about to sleep: takes what has come, and says to the workers that from now on they
    /// must ring. A front that has woken a task is not going to sleep, whatever else it drained.
    pub fn park(&self) {
        self.reschedule();
        loop {
            if self.inner.borrow().exchange.park() || self.complete() {
                return;
            }
        }
    }

    /// The front is awake.
    pub fn unpark(&self) {
        self.inner.borrow().exchange.unpark();
    }

    // ===== the end =====

    /// No further request is taken.
    pub fn stop(&self) {
        self.inner.borrow_mut().stopping = true;
    }

    /// Everything that is still here fails: the server ends now.
    pub fn fail_all(&self, failure: Failure) {
        let mut inner = self.inner.borrow_mut();
        for request in std::mem::take(&mut inner.queue) {
            request.place.set(Place::Out);
            request.fail(failure);
        }
        for request in inner.slots.iter().flatten() {
            request.fail(failure);
        }
        inner.hijacks.fail_all(failure);
    }

    // ===== inside =====

    /// Fills free slots from the queue, oldest first.
    fn fill(&self, inner: &mut Inner) {
        while !inner.queue.is_empty() {
            let Some(slot) = inner.exchange.acquire() else {
                return;
            };
            let Some(request) = inner.queue.pop_front() else {
                return;
            };
            let written = request.write_record(&self.env, inner.exchange.request_area(slot));
            match written {
                Ok(length) if inner.exchange.publish(slot, length) => {
                    request.place.set(Place::Slot(slot));
                    inner.lengths[usize::from(slot)] = length;
                    inner.slots[usize::from(slot)] = Some(request);
                }
                Ok(_) => {
                    inner.exchange.release(slot);
                    inner.queue.push_front(request);
                    return;
                }
                Err(_) => {
                    inner.exchange.release(slot);
                    request.place.set(Place::Out);
                    request.fail(Failure::NotStored("its head does not fit into a slot"));
                }
            }
        }
    }

    /// Takes the frames of a slot, and the slot itself when its worker is done. True when it woke a task.
    fn take(&self, inner: &mut Inner, slot: u16) -> bool {
        let Some(request) = inner.slots[usize::from(slot)].clone() else {
            return false;
        };
        self.take_for(inner, slot, &request);
        request.wake()
    }

    /// The same for the request in that slot, waking nobody.
    fn take_for(&self, inner: &mut Inner, slot: u16, request: &Rc<Request>) {
        // Before the frames: what is done now has all of them in the ring.
        let holder = inner.exchange.holder(slot);
        inner.note_holder(slot, holder, request);
        let drained = self.take_frames(inner, slot, request);
        if drained && matches!(holder, Holder::Done { .. }) {
            let (claimed, finished) = request.times.get();
            self.scheduling.finished(finished.saturating_sub(claimed));
            inner.free(slot);
            // A worker that says nothing of its end has a bug; the client must not wait for it.
            let no_end = Failure::BadResponse("it has no end");
            request.arrived.borrow_mut().fail(no_end);
        }
    }

    fn drop_waiting(&self, inner: &mut Inner, request: &Rc<Request>, failure: Failure) {
        inner.queue.retain(|other| !Rc::ptr_eq(other, request));
        request.place.set(Place::Out);
        request.fail(failure);
    }

    /// Lets the kernel schedule this thread as fits what the application does.
    fn reschedule(&self) {
        if self.bounds.batch
            && let Some(policy) = self.scheduling.decide(monotonic_ns())
        {
            // A sandbox may forbid it. The template has then said so in the log, and all works without.
            let _ = policy.apply();
        }
    }

    /// Leaves a running request to itself: its slot comes back when its worker is done.
    fn give_up(&self, inner: &mut Inner, request: &Rc<Request>, slot: u16) {
        if inner.exchange.retract(slot) {
            inner.free(slot);
            self.fill(inner);
            return;
        }
        // Nobody waits any more: a front that took this for a task it woke would sleep without a doorbell.
        request.forget_waiter();
        request.abandoned.set(true);
        inner.exchange.abandon(slot);
        self.take_for(inner, slot, request);
        self.fill(inner);
    }

    /// Duplicates of the exchange's memory file and doorbell, for a template.
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn files(&self) -> std::io::Result<(OwnedFd, OwnedFd)> {
        let inner = self.inner.borrow();
        let (memory, bell) = inner.exchange.files();
        Ok((memory.try_clone_to_owned()?, bell.try_clone_to_owned()?))
    }
}

impl Inner {
    fn free(&mut self, slot: u16) {
        if let Some(request) = self.slots[usize::from(slot)].take() {
            request.place.set(Place::Out);
        }
        self.hijacks.slot_ended(slot);
        self.exchange.release(slot);
    }

    /// The worker that has or had the request in this slot.
    fn owner(&self, slot: u16) -> Option<u16> {
        match self.exchange.holder(slot) {
            Holder::Seat { worker, .. } | Holder::Done { worker, .. } => Some(worker),
            Holder::Nobody => None,
        }
    }

    /// Remembers who has the request, and since when.
    fn note_holder(&self, slot: u16, holder: Holder, request: &Request) {
        if let Holder::Seat { worker, .. } | Holder::Done { worker, .. } = holder {
            request.worker.set(Some(worker));
            request.times.set(self.exchange.times(slot));
        }
    }

    /// Requests beyond those that the seats can run at once: they wait for a thread.
    fn beyond_seats(&self) -> usize {
        let geometry = self.exchange.geometry();
        let seats = usize::from(geometry.workers) * usize::from(geometry.threads);
        let taken = self.slots.len() - self.exchange.free_slots();
        (taken + self.queue.len()).saturating_sub(seats)
    }

    /// Whether fewer requests run than there are threads to run them.
    fn has_idle_seat(&self) -> bool {
        let threads = usize::from(self.exchange.geometry().threads);
        let seats = self.up.iter().filter(|&&up| up).count() * threads;
        let running = (0..self.slots.len() as u16)
            .filter(|&slot| self.slots[usize::from(slot)].is_some())
            .filter(|&slot| matches!(self.exchange.holder(slot), Holder::Seat { .. }));
        running.count() < seats
    }
}
