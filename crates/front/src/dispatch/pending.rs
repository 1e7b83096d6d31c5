//! The dispatcher's half of a request: where it is, its deadline, and how often it was run. It knows no connection.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::sync::Arc;

use exchange::WorkerId;
use slab::Slab;

use super::lanes::Lane;
use super::poison::Death;
use crate::failure::Failure;
use crate::http::request::Request;
use crate::messages::{Reply, RunTimes, SubmissionId};

/// Where a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In the queue.
    Queue,
    /// In a slot of a generation's exchange.
    Slot { generation: u32, slot: u16 },
    /// The dispatcher has no more to do with it.
    Out,
}

/// How far a response is, as far as the dispatcher must know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResponseState {
    /// More of it may come.
    Open,
    /// It is whole, cut or failed.
    Ended,
    /// The application took the connection over.
    Hijacked,
}

/// One request, from its submission until the dispatcher lets go of it.
pub(super) struct PendingRequest {
    pub(super) id: SubmissionId,
    /// What the client asked for.
    pub(super) request: Arc<Request>,
    /// Where its response goes.
    pub(super) reply: Rc<dyn Reply>,
    pub(super) place: Cell<Place>,
    /// Where it waits.
    pub(super) lane: Cell<Lane>,
    /// How often it was run again.
    pub(super) retries: Cell<u32>,
    /// The death of the worker that had it before it was run again.
    pub(super) killed: RefCell<Option<Rc<Death>>>,
    /// The worker that has it or had it last.
    pub(super) worker: Cell<Option<WorkerId>>,
    pub(super) times: Cell<RunTimes>,
    /// Whether the head of its response has come.
    pub(super) had_head: Cell<bool>,
    state: Cell<ResponseState>,
    /// How many exceptions were reported of it.
    pub(super) reports: Cell<u8>,
    /// How many frames of counts came with it.
    pub(super) counts: Cell<u8>,
    /// Whether its edge has begun to use the response.
    pub(super) head_taken: Cell<bool>,
    /// Whether no client wants the response any more.
    abandoned: Cell<bool>,
    /// When it must be done or, once its response has begun, go on: nanoseconds of the monotonic clock.
    deadline_ns: Cell<u64>,
    /// Whether its deadline is to be moved on: something of the response came since the last check, or the last who
    /// wanted it left.
    moved: Cell<bool>,
    /// Whether a thread had it at its deadline.
    pub(super) overdue: Cell<bool>,
    requests: Rc<Requests>,
}

/// All requests that the dispatcher has, by their ids.
pub(super) struct Requests {
    /// The number of their application.
    application: u16,
    all: RefCell<Slab<Weak<PendingRequest>>>,
    count: Cell<u64>,
}

impl Requests {
    /// Returns those of the application with this number: none yet.
    pub(super) fn of_application(application: u16) -> Rc<Self> {
        Rc::new(Self {
            application,
            all: RefCell::default(),
            count: Cell::new(0),
        })
    }

    /// Takes a request in.
    pub(super) fn add(
        self: &Rc<Self>,
        request: Arc<Request>,
        reply: Rc<dyn Reply>,
    ) -> Rc<PendingRequest> {
        let mut all = self.all.borrow_mut();
        let entry = all.vacant_entry();
        self.count.set(self.count.get() + 1);
        let id = SubmissionId {
            application: self.application,
            index: entry.key(),
            sequence: self.count.get(),
        };
        let pending = Rc::new(PendingRequest {
            id,
            deadline_ns: Cell::new(request.deadline_ns()),
            request,
            reply,
            place: Cell::new(Place::Out),
            lane: Cell::default(),
            retries: Cell::new(0),
            killed: RefCell::new(None),
            worker: Cell::new(None),
            times: Cell::default(),
            had_head: Cell::new(false),
            reports: Cell::new(0),
            counts: Cell::new(0),
            state: Cell::new(ResponseState::Open),
            head_taken: Cell::new(false),
            abandoned: Cell::new(false),
            moved: Cell::new(false),
            overdue: Cell::new(false),
            requests: Rc::clone(self),
        });
        entry.insert(Rc::downgrade(&pending));
        pending
    }

    /// Number of requests that were taken in since the start.
    pub(super) fn count(&self) -> u64 {
        self.count.get()
    }

    /// The request of this id, if the dispatcher still has it.
    pub(super) fn get(&self, id: SubmissionId) -> Option<Rc<PendingRequest>> {
        let found = self.all.borrow().get(id.index)?.upgrade()?;
        (found.id == id).then_some(found)
    }
}

impl Drop for PendingRequest {
    fn drop(&mut self) {
        self.requests.all.borrow_mut().try_remove(self.id.index);
    }
}

impl PendingRequest {
    /// Its deadline, nanoseconds of the monotonic clock.
    pub(super) fn deadline_ns(&self) -> u64 {
        self.deadline_ns.get()
    }

    /// Whether its deadline has passed at `now`, nanoseconds of the monotonic clock.
    pub(super) fn is_late(&self, now: u64) -> bool {
        self.deadline_ns() <= now
    }

    /// Something of its response has come.
    pub(super) fn note_progress(&self) {
        self.moved.set(true);
    }

    /// Whether something of its response came since this was last asked.
    pub(super) fn take_progress(&self) -> bool {
        self.moved.take()
    }

    /// Gives it its whole time again, from `now` on, nanoseconds of the monotonic clock.
    pub(super) fn extend(&self, now: u64) {
        let timeout = self.request.timeout_ns();
        self.deadline_ns.set(now.saturating_add(timeout));
    }

    /// Whether no client wants the response any more.
    pub(super) fn is_abandoned(&self) -> bool {
        self.abandoned.get()
    }

    /// No client wants the response any more. A thread that has begun it has its time once more to notice.
    pub(super) fn abandon(&self) {
        if !self.abandoned.replace(true) {
            self.note_progress();
        }
    }

    /// Whether it may be run a second time: a safe method (RFC 9110 section 9.2.1) of which nothing has been sent.
    pub(super) fn may_run_again(&self) -> bool {
        self.request.is_safe() && !self.head_taken.get() && !self.is_abandoned()
    }

    /// Whether a worker died with it.
    pub(super) fn is_poison_suspect(&self) -> bool {
        self.killed.borrow().is_some()
    }

    /// Whether the application has begun to answer, or has taken the connection over.
    pub(super) fn has_begun(&self) -> bool {
        self.had_head.get() || self.is_hijacked()
    }

    /// Whether the end of its response is known.
    pub(super) fn has_ended(&self) -> bool {
        self.state.get() != ResponseState::Open
    }

    /// Whether the application has taken the connection over.
    pub(super) fn is_hijacked(&self) -> bool {
        self.state.get() == ResponseState::Hijacked
    }

    /// Records the end of its response. Returns whether it was open.
    pub(super) fn end(&self, state: ResponseState) -> bool {
        let open = !self.has_ended();
        if open {
            self.state.set(state);
        }
        open
    }

    /// Whether it is unfinished, and the deadline that it had at first still to come at `now` of the monotonic clock: a
    /// response that has begun and goes on for ever must not hold up a stop.
    pub(super) fn is_within_first_deadline(&self, now: u64) -> bool {
        !self.has_ended() && self.request.has_deadline() && self.request.deadline_ns() > now
    }

    /// Records who has it, and since when.
    pub(super) fn note_worker(&self, by: WorkerId, times: RunTimes) {
        if self.worker.replace(Some(by)) != Some(by) || self.times.replace(times) != times {
            self.times.set(times);
            self.reply.claimed(by, times);
        }
    }

    /// Forgets what a worker had answered, before the request is run again in what is left of its first time.
    pub(super) fn withdraw_response(&self) {
        self.had_head.set(false);
        self.deadline_ns.set(self.request.deadline_ns());
        self.reply.withdraw();
    }

    /// Ends it without an answer of the application, unless it has ended already. Wakes no task.
    pub(super) fn fail_quietly(&self, failure: Failure, error: Option<String>) {
        if self.end(ResponseState::Ended) {
            self.reply.fail(failure, error);
        }
    }

    /// The same, and wakes the task that waits.
    pub(super) fn fail(&self, failure: Failure) {
        self.fail_quietly(failure, None);
        self.reply.wake();
    }

    /// Ends it where its application took the connection over but the socket for it will not come.
    pub(super) fn lose_hijack(&self, failure: Failure) {
        self.state.set(ResponseState::Ended);
        self.reply.fail(failure, None);
        self.reply.wake();
    }
}
