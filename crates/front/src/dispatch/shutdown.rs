//! The end of the server, as far as requests go: what is within its deadline, and what becomes of requests that are not
//! waited for. It never decides when.

use std::rc::Rc;
use std::time::{Duration, Instant};

use exchange::WorkerId;
use exchange::scheduling::monotonic_ns;

use super::generation::Generation;
use super::pending::PendingRequest;
use super::state::SharedState;
use super::turns::PASSES;
use crate::failure::Failure;

/// The end of one dispatcher.
pub struct DispatcherShutdown {
    state: SharedState,
}

impl DispatcherShutdown {
    /// Returns the end of this dispatcher.
    pub(super) fn new(state: &SharedState) -> Self {
        Self {
            state: Rc::clone(state),
        }
    }

    /// The workers that leave and have done so for at least this time.
    pub fn leaving_for(&self, time: Duration) -> Vec<WorkerId> {
        let before_ns = monotonic_ns().saturating_sub(time.as_nanos() as u64);
        let state = self.state.borrow();
        let all = state.generations.all.iter();
        let some = all.filter(|one| one.workers.any_leaving());
        some.flat_map(|one| {
            let workers = one.workers.leaving_since(before_ns);
            workers.map(|worker| WorkerId::new(one.number, worker))
        })
        .collect()
    }

    /// The latest deadline of what workers run; none where nothing is within its deadline.
    pub fn last_deadline(&self) -> Option<Instant> {
        let state = self.state.borrow();
        let all = state.generations.all.iter();
        all.filter_map(|one| last_deadline(one, |_| true)).max()
    }

    /// Whether a response that somebody waits for is still to come, or to come whole, from a worker.
    pub fn is_awaited(&self) -> bool {
        let state = self.state.borrow();
        let all = state.generations.all.iter();
        let mut requests = all.flat_map(|one| one.slots.requests());
        state.queue.len() > 0
            || requests.any(|request| !request.is_abandoned() && !request.has_ended())
    }

    /// Cuts responses that are not whole when their deadline has passed, and requests without a deadline. Those that have
    /// not begun end by themselves at theirs.
    pub fn cut_late(&self) {
        let now = monotonic_ns();
        let state = &mut *self.state.borrow_mut();
        for generation in &mut state.generations.all {
            for slot in generation.slots.numbers() {
                let cut = |request: &Rc<PendingRequest>| {
                    let late = match request.request.has_deadline() {
                        true => request.had_head.get() && request.request.deadline_ns() <= now,
                        false => true,
                    };
                    late && !request.has_ended() && !request.is_abandoned()
                };
                if let Some(request) = generation.slots.request(slot).cloned().filter(cut) {
                    request.fail(Failure::Stopped);
                    state.frames.give_up(generation, &request, slot);
                }
            }
        }
    }

    /// Takes no further request.
    pub fn stop(&self) {
        self.state.borrow_mut().stopping = true;
    }

    /// Logs requests that killed two workers, even if it is not known yet how these ended: the server may be gone before
    /// that.
    pub fn log_poison(&self) {
        let state = &mut *self.state.borrow_mut();
        state.crashes.poison.log(&state.log, true);
    }

    /// Fails everything that is still here: the server ends now. What never ran may be sent again, what a thread has may
    /// have had an effect. Returns the number of the latter that were within their deadline.
    pub fn fail_all(&self) -> usize {
        let now = monotonic_ns();
        let state = &mut *self.state.borrow_mut();
        state.fail_queue(Failure::Stopping);
        // What workers have written by now counts.
        state.take_completed(PASSES);
        let mut cut = 0;
        for generation in &mut state.generations.all {
            for slot in generation.slots.numbers() {
                let Some(request) = generation.slots.request(slot).cloned() else {
                    continue;
                };
                if generation.slots.exchange.retract(slot) {
                    generation.free(slot);
                    request.fail(Failure::Stopping);
                    continue;
                }
                let lost = !request.is_abandoned() && request.is_within_first_deadline(now);
                cut += usize::from(lost);
                request.fail(Failure::Stopped);
            }
            generation.hijacks.fail_all(Failure::Stopped);
        }
        cut
    }
}

/// The latest deadline that is still to come of what these workers of a generation run.
pub(super) fn last_deadline(generation: &Generation, of: impl Fn(u16) -> bool) -> Option<Instant> {
    let now = monotonic_ns();
    let slots = &generation.slots;
    let runs = |&slot: &u16| slots.runner(slot).is_some_and(&of);
    let own = slots.numbers().filter(runs);
    let own = own.filter_map(|slot| slots.request(slot));
    let in_time = own.filter(|request| request.is_within_first_deadline(now));
    let last = in_time.map(|request| request.request.deadline_ns()).max()?;
    Some(Instant::now() + Duration::from_nanos(last - now))
}
