//! When the dispatcher takes what workers have written, and checks deadlines: around the runtime's sleep, and with each
//! tick.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use exchange::Alarm;
use exchange::scheduling::monotonic_ns;

use super::deadlines::{Check, LateWork};
use super::frames::SharedCounts;
use super::generation::Generation;
use super::pending::{PendingRequest, Place};
use super::state::{SharedState, State};
use crate::exceptions::Exceptions;
use crate::failure::Failure;

/// Turns over the completed slots, of all generations, before the front goes back to its tasks.
pub(super) const PASSES: usize = 32;
/// How often the front takes what has come instead of going to sleep, before it looks at its sockets again.
const PARK_TURNS: usize = 8;

/// The turns of one dispatcher.
pub struct Turns {
    state: SharedState,
    /// When deadlines were checked last, nanoseconds of the monotonic clock.
    checked_ns: Cell<u64>,
}

impl Turns {
    /// Returns the turns of this dispatcher.
    pub(super) fn new(state: &SharedState) -> Rc<Self> {
        Rc::new(Self {
            state: Rc::clone(state),
            checked_ns: Cell::new(0),
        })
    }

    /// What the application has raised, as its workers have reported it.
    pub fn exceptions(&self) -> Rc<Exceptions> {
        Rc::clone(self.state.borrow().frames.exceptions())
    }

    /// What the application has counted.
    pub fn counts(&self) -> SharedCounts {
        Rc::clone(self.state.borrow().frames.counts())
    }

    /// Takes what workers have completed. Returns whether it woke a task. What comes as fast as it is taken comes to an end
    /// here after some turns: clients want to be written to as well.
    pub fn take_completed(&self) -> bool {
        self.state.borrow_mut().take_completed(PASSES)
    }

    /// The front is about to sleep: takes what has come, and has workers ring from now on. A front that has woken a task is
    /// not going to sleep, whatever else it took. Where more comes than is taken here it rings itself: other work has its
    /// turn, and then it comes back.
    pub fn park(&self) {
        let mut state = self.state.borrow_mut();
        if state.settings.batch_scheduling {
            state.frames.reschedule();
        }
        for _ in 0..PARK_TURNS {
            if state.generations.park() || state.take_completed(PASSES) {
                return;
            }
        }
        if let Some(generation) = state.generations.all.first() {
            generation.slots.exchange.doorbell().ring();
        }
    }

    /// The front is awake.
    pub fn unpark(&self) {
        for generation in &self.state.borrow().generations.all {
            generation.slots.exchange.completions().unpark();
        }
    }

    /// Ends every request whose deadline has passed: those that wait never reach Ruby, those that run are answered 504 or
    /// cut and go on unwatched. Returns what the supervisor must hear.
    pub fn check_deadlines(&self) -> Vec<Alarm> {
        let now = monotonic_ns();
        let passed = Duration::from_nanos(now.saturating_sub(self.checked_ns.replace(now)));
        let mut alarms = Vec::new();
        let state = &mut *self.state.borrow_mut();
        // Every one is looked at: those that came first need not be late first.
        state.queue.retain(|request| {
            let late = request.is_late(now);
            if late {
                request.place.set(Place::Out);
                request.fail(Failure::ExpiredInQueue);
            }
            !late
        });
        replace_corrupt(state, &mut alarms);
        let check = Check {
            now,
            passed,
            grace: state.settings.request_grace,
            between: state
                .settings
                .request_timeout
                .map(|timeout| timeout + state.settings.request_grace),
        };
        for generation in &mut state.generations.all {
            generation.slots.exchange.give_back_idle(now);
            generation.hijacks.expire(now);
            let Generation {
                deadlines,
                slots,
                workers,
                slow,
                ..
            } = generation;
            slow.check(slots, now, state.settings.slow_request, &mut alarms);
            deadlines.check(slots, workers, check, &mut alarms);
            for slot in generation.slots.numbers() {
                // A worker may have died, or a word been overwritten, between writing a frame and setting its bit.
                if generation.slots.request(slot).is_some()
                    && generation.slots.exchange.publication(slot).has_news()
                {
                    state.frames.take(generation, slot);
                }
                if let Some(request) = generation.slots.request(slot).cloned()
                    && request.is_late(now)
                {
                    let frames = |generation: &mut Generation| {
                        state.frames.give_up(generation, &request, slot);
                    };
                    expire_in_slot(generation, slot, &request, frames, &mut alarms);
                }
            }
        }
        state.generations.forget_closed();
        state.fill();
        state.crashes.poison.log(&state.log, false);
        alarms
    }
}

/// Ends a request in a slot whose deadline has passed.
fn expire_in_slot(
    generation: &mut Generation,
    slot: u16,
    request: &Rc<PendingRequest>,
    give_up: impl FnOnce(&mut Generation),
    alarms: &mut Vec<Alarm>,
) {
    if generation.slots.exchange.retract(slot) {
        generation.free(slot);
        request.fail(Failure::ExpiredInQueue);
        return;
    }
    // Where the application has the connection, the two end it themselves.
    if request.overdue.get() || request.is_hijacked() && !request.is_abandoned() {
        return;
    }
    request.overdue.set(true);
    let run = generation.slots.run(slot);
    if !request.is_abandoned() {
        request.fail(Failure::ExpiredInWorker);
        give_up(generation);
    }
    if let Some(run) = run {
        let work = LateWork::Request {
            request: request.request.clone(),
            by: run.by,
            since_ns: request.times.get().claimed_ns,
        };
        let until = request.deadline_ns();
        generation.deadlines.begin_late(run, work, until);
        alarms.push(Alarm::Late(run));
    }
}

/// Replaces exchanges in which a worker wrote what no sound worker writes: nothing more is read from them. What lay in one
/// is run again where that is safe, and fails otherwise.
fn replace_corrupt(state: &mut State, alarms: &mut Vec<Alarm>) {
    let State {
        generations,
        crashes,
        queue,
        settings,
        ..
    } = state;
    for generation in &mut generations.all {
        let Some(found) = generation.slots.exchange.inspect() else {
            continue;
        };
        if !std::mem::replace(&mut generation.evicted, true) {
            let evicted = crashes.evict(generation, settings.max_retries);
            if !generation.closed {
                alarms.push(Alarm::Corrupt(generation.number, found));
            }
            queue.put_all_back(evicted);
        }
        // Without memory or descriptors for it: with the next check.
        if let Ok(fresh) = generation.slots.exchange.recreate() {
            generation.slots.exchange = fresh;
            generation.evicted = false;
        }
    }
}
