//! The dispatcher: the application's one queue, and what is in the exchange.
//!
//! It is the only one that moves a request: from the queue into a slot, out of it when a worker is done,
//! back when a worker dies, away when the client leaves or the deadline passes. It never touches a
//! connection, never starts or ends a process, and never waits.
//!
//! Everything runs on the front's one thread; a `RefCell` that is already borrowed would be a bug here,
//! which is why nothing in this file calls out while it holds one, save to wake a task (which only
//! schedules it).

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use exchange::front::Holder;
use exchange::response::Kind;
use exchange::scheduling::monotonic_ns;

use crate::env::Env;
use crate::failure::Failure;
use crate::request::{Arrived, End, Place, Request};
use crate::response_head;
use crate::spool::Spool;

/// The bounds the dispatcher keeps.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Requests in the queue.
    pub queue_limit: usize,
    /// Bytes of one response in memory before it goes to a file.
    pub response_memory: usize,
    /// Bytes of one response in a file.
    pub response_limit: u64,
    /// How often a safe request is run again after its worker died.
    pub max_retries: u32,
}

/// What the application said went wrong, for the log.
pub type ErrorSink = Box<dyn Fn(&Request, &str)>;

struct Inner {
    exchange: exchange::Front,
    queue: VecDeque<Rc<Request>>,
    slots: Vec<Option<Rc<Request>>>,
    lengths: Vec<u32>,
    /// Requests whose application took the connection, until the socket comes by control message.
    hijacks: HashMap<(u16, u32), Rc<Request>>,
    /// Sockets that came before the frame that announces them.
    sockets: HashMap<(u16, u32), OwnedFd>,
    up: Vec<bool>,
    stopping: bool,
}

/// The dispatcher.
pub struct Dispatcher {
    inner: RefCell<Inner>,
    env: Env,
    bounds: Bounds,
    on_error: ErrorSink,
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
            hijacks: HashMap::new(),
            sockets: HashMap::new(),
            up: vec![false; usize::from(geometry.workers)],
            stopping: false,
            exchange,
        };
        Rc::new_cyclic(|this| Self {
            inner: RefCell::new(inner),
            env: Env::new(),
            bounds,
            on_error,
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
        if inner.queue.len() >= self.bounds.queue_limit {
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
        inner.queue.push_back(request);
        self.fill(&mut inner);
        self.longest_queue
            .set(self.longest_queue.get().max(inner.queue.len()));
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
    }

    /// Drops every request whose deadline has passed: those that wait never reach Ruby, those that run
    /// are answered 504 and go on unwatched.
    pub fn expire(&self) {
        let now = monotonic_ns();
        let mut inner = self.inner.borrow_mut();
        let late: Vec<_> = inner
            .queue
            .iter()
            .filter(|request| request.is_late(now))
            .cloned()
            .collect();
        for request in late {
            self.drop_waiting(&mut inner, &request, Failure::ExpiredInQueue);
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

    /// Moves what has arrived for `request` on: the connection has taken some and there is room again.
    pub fn resume(&self, request: &Rc<Request>) {
        if let Place::Slot(slot) = request.place.get() {
            let mut inner = self.inner.borrow_mut();
            self.take(&mut inner, slot);
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

    // ===== workers =====

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
        self.fill(&mut inner);
    }

    /// The socket with which a worker's application talks to a connection it took over.
    ///
    /// Returns the request, once both the socket and its announcement are here.
    pub fn hijacked(&self, slot: u16, sequence: u32, socket: OwnedFd) {
        let mut inner = self.inner.borrow_mut();
        match inner.hijacks.remove(&(slot, sequence)) {
            Some(request) => {
                *request.socket.borrow_mut() = Some(socket);
                request.wake();
            }
            None => drop(inner.sockets.insert((slot, sequence), socket)),
        }
    }

    /// No further request is taken.
    pub fn stop(&self) {
        self.inner.borrow_mut().stopping = true;
    }

    /// Everything that is still here fails: the server ends now.
    pub fn fail_all(&self, failure: Failure) {
        let mut inner = self.inner.borrow_mut();
        let waiting = std::mem::take(&mut inner.queue);
        for request in waiting.iter().chain(inner.slots.iter().flatten()) {
            request.fail(failure);
        }
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
        // Before the frames: what is done now has all of them in the ring.
        let holder = inner.exchange.holder(slot);
        if let Holder::Seat { worker, .. } | Holder::Done { worker, .. } = holder {
            request.worker.set(Some(worker));
        }
        let drained = self.take_frames(inner, slot, &request);
        if drained && matches!(holder, Holder::Done { .. }) {
            request.times.set(inner.exchange.times(slot));
            request.place.set(Place::Out);
            inner.free(slot);
            // A worker that says nothing of its end has a bug; the client must not wait for it.
            request.fail(Failure::BadResponse("it has no end"));
        }
        request.wake()
    }

    /// True when the ring is empty, false when what is left must wait for room.
    fn take_frames(&self, inner: &mut Inner, slot: u16, request: &Rc<Request>) -> bool {
        let mut arrived = request.arrived.borrow_mut();
        let arrived = &mut *arrived;
        loop {
            if !request.abandoned.get() && !self.has_room(request, arrived) {
                return false;
            }
            let mut payload = Vec::new();
            match inner.exchange.frame(slot, &mut payload) {
                Ok(None) => return true,
                Ok(Some(kind)) if request.abandoned.get() && kind != Kind::Error => {}
                Ok(Some(kind)) => self.take_frame(inner, slot, request, arrived, kind, payload),
                Err(_) => {
                    arrived
                        .end
                        .get_or_insert(End::Failed(Failure::BadResponse("malformed frames")));
                    request.abandoned.set(true);
                    inner.exchange.abandon(slot);
                    return true;
                }
            }
        }
    }

    /// Whether more of the response can be taken. Where the disk is behind, a task waits for it and
    /// goes on from there.
    fn has_room(&self, request: &Rc<Request>, arrived: &mut Arrived) -> bool {
        let Some(spool) = &mut arrived.spool else {
            return true;
        };
        match spool.poll_ready(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(())) => return true,
            Poll::Ready(Err(_)) => {
                // Frames are taken and thrown away from here; the client sees the cut.
                arrived.end.get_or_insert(End::Aborted);
                return true;
            }
            Poll::Pending => {}
        }
        if let Some(this) = self
            .this
            .upgrade()
            .filter(|_| !request.waits_for_disk.replace(true))
        {
            let request = Rc::clone(request);
            tokio::task::spawn_local(async move {
                let ready = poll_fn(|cx| match &mut request.arrived.borrow_mut().spool {
                    Some(spool) => spool.poll_ready(cx),
                    None => Poll::Ready(Ok(())),
                });
                drop(ready.await);
                request.waits_for_disk.set(false);
                this.resume(&request);
                request.wake();
            });
        }
        false
    }

    fn take_frame(
        &self,
        inner: &mut Inner,
        slot: u16,
        request: &Rc<Request>,
        arrived: &mut Arrived,
        kind: Kind,
        payload: Vec<u8>,
    ) {
        match kind {
            Kind::Hints => arrived.hints.extend(response_head::early_hints(&payload)),
            Kind::Head => match response_head::parse(Bytes::from(payload)) {
                Ok(head) => {
                    arrived.had_head = true;
                    arrived.head = Some(head);
                }
                Err(reason) => {
                    (self.on_error)(request, &format!("InvalidResponse: {reason}"));
                    arrived
                        .end
                        .get_or_insert(End::Failed(Failure::BadResponse(reason)));
                }
            },
            Kind::Chunk => self.take_chunk(arrived, Bytes::from(payload)),
            Kind::File => {
                use std::os::unix::ffi::OsStringExt;
                arrived.file = Some(std::ffi::OsString::from_vec(payload).into());
            }
            Kind::End => drop(arrived.end.get_or_insert(End::Complete)),
            Kind::Abort => drop(arrived.end.get_or_insert(End::Aborted)),
            Kind::Error => {
                (self.on_error)(request, &String::from_utf8_lossy(&payload));
                let failed = if arrived.had_head {
                    End::Aborted
                } else {
                    End::Failed(Failure::AppError)
                };
                arrived.end.get_or_insert(failed);
            }
            Kind::Hijacked => {
                arrived.end.get_or_insert(End::Hijacked);
                let key = (slot, inner.exchange.sequence(slot));
                match inner.sockets.remove(&key) {
                    Some(socket) => *request.socket.borrow_mut() = Some(socket),
                    None => drop(inner.hijacks.insert(key, Rc::clone(request))),
                }
            }
        }
    }

    fn take_chunk(&self, arrived: &mut Arrived, chunk: Bytes) {
        if chunk.is_empty() || arrived.end.is_some() {
            return;
        }
        if let Some(spool) = &mut arrived.spool {
            if spool.unread() + chunk.len() as u64 > self.bounds.response_limit {
                arrived.end = Some(End::Aborted);
            } else {
                spool.push(&chunk);
            }
        } else if arrived.buffered + chunk.len() > self.bounds.response_memory {
            let mut spool = Spool::new(Arc::clone(&self.temporary), crate::spool::BATCH_BYTES);
            spool.push(&chunk);
            arrived.spool = Some(spool);
        } else {
            arrived.buffered += chunk.len();
            arrived.chunks.push_back(chunk);
        }
    }

    /// A request whose worker died while it held it.
    fn bereave(&self, inner: &mut Inner, slot: u16) {
        let Some(request) = inner.slots[usize::from(slot)].clone() else {
            inner.exchange.release(slot);
            return;
        };
        let again = request.retries.get() < self.bounds.max_retries;
        if again && request.may_run_again() && !request.has_ended() {
            request.retries.set(request.retries.get() + 1);
            self.again.set(self.again.get() + 1);
            request.forget_response();
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
        request.place.set(Place::Out);
        inner.free(slot);
        request.fail(Failure::WorkerDied);
    }

    fn drop_waiting(&self, inner: &mut Inner, request: &Rc<Request>, failure: Failure) {
        inner.queue.retain(|other| !Rc::ptr_eq(other, request));
        request.place.set(Place::Out);
        request.fail(failure);
    }

    /// Leaves a running request to itself: its slot comes back when its worker is done.
    fn give_up(&self, inner: &mut Inner, request: &Rc<Request>, slot: u16) {
        if inner.exchange.retract(slot) {
            request.place.set(Place::Out);
            inner.free(slot);
            self.fill(inner);
            return;
        }
        request.abandoned.set(true);
        inner.exchange.abandon(slot);
        self.take(inner, slot);
        self.fill(inner);
    }

    /// Requests that wait: in the queue, and in slots that no worker has taken yet.
    pub fn waiting(&self) -> usize {
        let inner = self.inner.borrow();
        let ready = (0..inner.slots.len() as u16)
            .filter(|&slot| inner.slots[usize::from(slot)].is_some())
            .filter(|&slot| inner.exchange.holder(slot) == Holder::Nobody);
        inner.queue.len() + ready.count()
    }

    /// How often a request was run again after its worker had died.
    pub fn run_again(&self) -> u64 {
        self.again.get()
    }

    /// The longest the queue has been.
    pub fn longest_queue(&self) -> usize {
        self.longest_queue.get()
    }

    /// The queue's bound.
    pub fn queue_limit(&self) -> usize {
        self.bounds.queue_limit
    }

    /// Slots in all and slots that nobody holds.
    pub fn slots(&self) -> (usize, usize) {
        let inner = self.inner.borrow();
        (inner.slots.len(), inner.exchange.free_slots())
    }

    /// Calls `each` for every request that a worker has: worker, thread, claimed at (monotonic ns).
    pub fn running(&self, mut each: impl FnMut(u16, u16, u64, &Request)) {
        let inner = self.inner.borrow();
        for (slot, request) in inner.slots.iter().enumerate() {
            let Some(request) = request else { continue };
            if let Holder::Seat { worker, thread } = inner.exchange.holder(slot as u16) {
                each(worker, thread, inner.exchange.times(slot as u16).0, request);
            }
        }
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
        self.exchange.release(slot);
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
