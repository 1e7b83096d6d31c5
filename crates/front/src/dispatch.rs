//! The dispatcher: the application's one queue, and what is in the exchange.
//!
//! It is the only one that moves a request: from the queue into a slot, out of it when a worker is done,
//! back when a worker dies, away when the client leaves or the deadline passes. It never touches a
//! connection, never starts or ends a process, and never waits.
//!
//! Everything runs on the front's one thread; a `RefCell` that is already borrowed would be a bug here,
//! which is why nothing in this file calls out while it holds one, save to wake a task (which only
//! schedules it).

mod admission;
mod arrivals;
mod corruption;
mod crashes;
mod end;
pub(crate) mod env;
mod figures;
mod generation;
mod hijacks;
mod late;
mod lingering;
mod queue;
mod routing;
mod scheduling;
mod still;
mod supervised;
mod suspects;

use std::cell::{Cell, RefCell};
use std::os::fd::OwnedFd;
use std::rc::{Rc, Weak};
use std::time::{Duration, Instant};

use exchange::front::Holder;
use exchange::scheduling::monotonic_ns;

use crate::dispatch::env::Env;
use crate::dispatch::scheduling::Scheduling;
use crate::failure::Failure;
use crate::http::request::{Place, Request};
use crate::log::AccessLog;
use crate::shared_bytes::SharedBytes;
use crate::spool::SpoolPlace;
use arrivals::Rest;
use generation::Generation;
pub use late::Work;
use queue::Queue;
pub use queue::{Lane, Lanes};
pub use suspects::Death;
use suspects::Suspects;

/// Turns over the completed slots, of all generations, before the front goes back to its tasks.
const PASSES: usize = 32;
/// How often the front takes what has come instead of going to sleep, before it looks at its sockets again.
const PARK_TURNS: usize = 8;

/// The bounds the dispatcher keeps.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Requests that wait for a thread, in the queue or in slots.
    pub queue_limit: usize,
    /// Bytes of one response in memory before it goes to a file.
    pub response_memory: usize,
    /// Bytes of all responses in memory; from there on they go to their files earlier.
    pub response_memory_total: usize,
    /// Bytes of one response in a file; then the application waits for the client.
    pub response_limit: u64,
    /// Bytes of all files of bodies and responses.
    pub spool_limit: u64,
    /// How often a safe request is run again after its worker died.
    pub max_retries: u32,
    /// How long a thread may run on after the deadline of its request.
    pub grace: Duration,
    /// How long a worker may run code between requests while others wait.
    pub between: Duration,
    /// How long the answer to a check of a new generation may take.
    pub check_timeout: Duration,
    /// Whether the front's thread gives way to workers while all requests are short.
    pub batch: bool,
}

struct Inner {
    lanes: Lanes,
    queue: Queue,
    /// Where no worker can serve: when the next one is started.
    outage: Option<Instant>,
    /// At least one, in the order in which they were opened.
    generations: Vec<Generation>,
    stopping: bool,
    /// What the exchanges were told: whether requests wait in the queue.
    queue_told: bool,
}

/// The dispatcher.
pub struct Dispatcher {
    inner: RefCell<Inner>,
    env: Env,
    bounds: Cell<Bounds>,
    log: Rc<AccessLog>,
    scheduling: Scheduling,
    longest_queue: Cell<usize>,
    again: Cell<u64>,
    /// When deadlines were looked at last, in nanoseconds of `CLOCK_MONOTONIC`.
    looked_ns: Cell<u64>,
    suspects: RefCell<Suspects>,
    spools: SpoolPlace,
    response_memory: Rc<SharedBytes>,
    this: Weak<Self>,
}

impl Dispatcher {
    /// A dispatcher over the exchange of the first generation, whose workers are all still to come.
    pub fn new(
        exchange: exchange::Front,
        generation: u32,
        bounds: Bounds,
        lanes: Lanes,
        spools: SpoolPlace,
        log: Rc<AccessLog>,
    ) -> Rc<Self> {
        let mut first = Generation::new(generation, exchange, lanes.shares());
        first.fed = true;
        let inner = Inner {
            queue: Queue::new(lanes.shares()),
            lanes,
            outage: None,
            generations: vec![first],
            stopping: false,
            queue_told: false,
        };
        Rc::new_cyclic(|this| Self {
            inner: RefCell::new(inner),
            env: Env::new(),
            response_memory: SharedBytes::new(bounds.response_memory_total),
            bounds: Cell::new(bounds),
            log,
            scheduling: Scheduling::default(),
            longest_queue: Cell::new(0),
            again: Cell::new(0),
            looked_ns: Cell::new(0),
            suspects: RefCell::default(),
            spools,
            this: Weak::clone(this),
        })
    }

    /// Where bodies go that outgrow memory.
    pub(crate) fn spools(&self) -> &SpoolPlace {
        &self.spools
    }

    /// The memory that responses hold.
    pub(crate) fn response_memory(&self) -> &Rc<SharedBytes> {
        &self.response_memory
    }

    // ===== requests =====

    /// Takes a request into the queue and dispatches what can be. Its response arrives in the request.
    ///
    /// # Errors
    /// The queue is full, no worker can serve, or the server stops.
    pub fn submit(&self, request: Rc<Request>) -> Result<(), Failure> {
        self.complete();
        let lane = self.admits(request.path())?;
        let mut inner = self.inner.borrow_mut();
        request.place.set(Place::Queue);
        request.lane.set(lane);
        inner.queue.push(request);
        if lane == Lane::Priority {
            inner.let_pass();
        }
        self.fill(&mut inner);
        let waiting = inner.beyond_seats(inner.queue.len());
        self.longest_queue
            .set(self.longest_queue.get().max(waiting));
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
            Place::Slot { generation, slot } => {
                let spared = !certain && inner.has_idle_seat();
                let Some(generation) = inner.generation(generation) else {
                    return;
                };
                if !spared && generation.exchange.retract(slot) {
                    generation.free(slot);
                    request.fail(Failure::ClientGone);
                } else if certain {
                    self.give_up(generation, request, slot);
                }
                self.fill(&mut inner);
            }
            Place::Out => {}
        }
    }

    /// Nobody wants the response any more (the connection is gone or the time over).
    pub fn abandon(&self, request: &Rc<Request>) {
        let mut inner = self.inner.borrow_mut();
        match request.place.get() {
            Place::Queue => self.drop_waiting(&mut inner, request, Failure::ClientGone),
            Place::Slot { generation, slot } => {
                if let Some(generation) = inner.generation(generation) {
                    self.give_up(generation, request, slot);
                }
                self.fill(&mut inner);
            }
            Place::Out => {}
        }
        for generation in &mut inner.generations {
            generation.hijacks.forget(request);
        }
    }

    /// Moves what has arrived for `request` on: the connection has taken some and there is room again. Wakes
    /// nobody: the caller looks for itself.
    pub fn resume(&self, request: &Rc<Request>) {
        if let Place::Slot { generation, slot } = request.place.get() {
            let mut inner = self.inner.borrow_mut();
            if let Some(generation) = inner.generation(generation) {
                self.take_for(generation, slot, request);
            }
            self.fill(&mut inner);
        }
    }

    // ===== the exchange =====

    /// Takes what workers have completed. True when it woke a task. What comes as fast as it is taken comes to an end
    /// here after some turns: clients want to be written to as well.
    pub fn complete(&self) -> bool {
        let mut inner = self.inner.borrow_mut();
        let mut slots = [0_u16; 64];
        let mut woke = self.take_unfinished(&mut inner);
        let mut at = 0;
        for _ in 0..PASSES {
            let Some(generation) = inner.generations.get_mut(at) else {
                break;
            };
            if !generation.is_sound() {
                at += 1;
                continue;
            }
            let mut count = 0;
            generation.exchange.completions().take(|slot| {
                if count < slots.len() {
                    slots[count] = slot;
                }
                count += 1;
            });
            if count == 0 {
                at += 1;
                continue;
            }
            if count > slots.len() {
                // More at once than fit here: look at every slot.
                for slot in generation.slot_numbers() {
                    woke |= self.take(generation, slot);
                }
            } else {
                for &slot in &slots[..count] {
                    woke |= self.take(generation, slot);
                }
            }
            self.fill(&mut inner);
        }
        woke
    }

    /// The front is about to sleep: takes what has come, and says to the workers that from now on they
    /// must ring. A front that has woken a task is not going to sleep, whatever else it drained. Where more comes than
    /// is taken here it rings itself: other work has its turn, and then it comes back.
    pub fn park(&self) {
        self.reschedule();
        for _ in 0..PARK_TURNS {
            if self.inner.borrow().park() || self.complete() {
                return;
            }
        }
        if let Some(generation) = self.inner.borrow().generations.first() {
            generation.exchange.doorbell().ring();
        }
    }

    /// The front is awake.
    pub fn unpark(&self) {
        for generation in &self.inner.borrow().generations {
            generation.exchange.completions().unpark();
        }
    }

    // ===== inside =====

    /// Goes on with slots of which the last turn left frames. True when it woke a task.
    fn take_unfinished(&self, inner: &mut Inner) -> bool {
        let mut woke = false;
        for generation in &mut inner.generations {
            for slot in std::mem::take(&mut generation.unfinished) {
                woke |= self.take(generation, slot);
            }
        }
        if woke {
            self.fill(inner);
        }
        woke
    }

    /// Takes the frames of a slot, and the slot itself when its worker is done. True when it woke a task.
    fn take(&self, generation: &mut Generation, slot: u16) -> bool {
        if generation.unfinished.contains(&slot) {
            // It has had its turn.
            return false;
        }
        let Some(request) = generation.request(slot).cloned() else {
            return false;
        };
        self.take_for(generation, slot, &request);
        request.wake()
    }

    /// The same for the request in that slot, waking nobody.
    fn take_for(&self, generation: &mut Generation, slot: u16, request: &Rc<Request>) {
        if !generation.is_sound() {
            return;
        }
        // Before the frames: what is done now has all of them in the ring.
        let holder = generation.exchange.publication(slot).holder();
        generation.note_holder(slot, holder, request);
        let rest = self.take_frames(generation, slot, request);
        if rest == Rest::Nothing
            && let Holder::Done { worker, thread } = holder
        {
            generation.count(worker);
            generation.handed_back(slot, (worker, thread), request);
            let (claimed, finished) = request.times.get();
            self.scheduling.finished(finished.saturating_sub(claimed));
            generation.free(slot);
            // A worker that says nothing of its end has a bug; the client must not wait for it.
            let no_end = Failure::BadResponse("it has no end");
            request.arrived.borrow_mut().fail(no_end);
        }
    }

    fn drop_waiting(&self, inner: &mut Inner, request: &Rc<Request>, failure: Failure) {
        inner.queue.remove(request);
        request.place.set(Place::Out);
        request.fail(failure);
    }

    /// Lets the kernel schedule this thread as fits what the application does.
    fn reschedule(&self) {
        if self.bounds.get().batch
            && let Some(policy) = self.scheduling.decide(monotonic_ns())
        {
            // A sandbox may forbid it. The template has then said so in the log, and all works without.
            let _ = policy.apply();
        }
    }

    /// Leaves a running request to itself: its slot comes back when its worker is done.
    fn give_up(&self, generation: &mut Generation, request: &Rc<Request>, slot: u16) {
        if generation.exchange.retract(slot) {
            generation.free(slot);
            return;
        }
        // Nobody waits any more: a front that took this for a task it woke would sleep without a doorbell.
        request.forget_waiter();
        request.abandon();
        generation.exchange.abandon(slot);
        self.take_for(generation, slot, request);
    }

    /// Duplicates of a generation's memory file and of the doorbell of all, for its template; none names the latest.
    ///
    /// # Errors
    /// No descriptors are left, or there is no memory for a region in place of one that is corrupt.
    pub fn files(&self, generation: Option<u32>) -> std::io::Result<[OwnedFd; 2]> {
        let inner = self.inner.borrow();
        let mut all = inner.generations.iter().rev();
        let found = all.find(|one| generation.is_none_or(|number| one.number == number));
        let found = found.ok_or_else(|| std::io::Error::other("no such generation is left"))?;
        if !found.is_sound() {
            return Err(std::io::Error::other("no exchange could be made yet"));
        }
        let (memory, bell) = found.exchange.files();
        Ok([memory.try_clone_to_owned()?, bell.try_clone_to_owned()?])
    }
}

impl Inner {
    /// Says to the workers of all generations that they must ring; false when there is news already.
    fn park(&self) -> bool {
        let mut sound = self.generations.iter().filter(|one| one.is_sound());
        sound.all(|generation| {
            generation.unfinished.is_empty() && generation.exchange.completions().park()
        })
    }

    /// Requests beyond those that the seats can run at once, where so many wait in the queue.
    fn beyond_seats(&self, queued: usize) -> usize {
        let taken = self.fed().map(Generation::engaged).sum::<usize>();
        // Two generations share the seats of one.
        let seats = self.fed().map(Generation::seats).max().unwrap_or(0);
        (taken + queued).saturating_sub(seats)
    }

    /// Whether fewer requests run than there are threads to run them.
    fn has_idle_seat(&self) -> bool {
        self.fed()
            .any(|generation| generation.running() < generation.seats_up())
    }
}
