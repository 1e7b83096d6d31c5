//! The end of a worker or of the server, as far as requests go: what is in time, and what becomes of that which is not
//! waited for. It never decides when.

use std::rc::Rc;
use std::time::{Duration, Instant};

use exchange::scheduling::monotonic_ns;

use super::Dispatcher;
use super::generation::Generation;
use crate::failure::Failure;
use crate::http::request::{Place, Request};

impl Dispatcher {
    /// Until when, at the latest, what workers run is in time; none where nothing is.
    pub fn last_deadline(&self) -> Option<Instant> {
        let inner = self.inner.borrow();
        let all = inner.generations.iter();
        all.filter_map(|one| last_deadline(one, |_| true)).max()
    }

    /// Whether a response that somebody waits for is still to come, or to come whole, from a worker.
    pub fn is_awaited(&self) -> bool {
        let inner = self.inner.borrow();
        let mut slots = inner
            .generations
            .iter()
            .flat_map(|one| &one.slots)
            .flatten();
        inner.queue.len() > 0
            || slots.any(|request| !request.is_abandoned() && !request.has_ended())
    }

    /// Cuts responses that are not whole when their deadline has passed. Those that have not begun end by themselves.
    pub fn cut_late(&self) {
        let now = monotonic_ns();
        let mut inner = self.inner.borrow_mut();
        for generation in &mut inner.generations {
            for slot in generation.slot_numbers() {
                let request = generation.request(slot).cloned();
                let cut = |request: &Rc<Request>| {
                    let begun = request.arrived.borrow().had_head && !request.has_ended();
                    begun && request.first_deadline_ns() <= now && !request.is_abandoned()
                };
                if let Some(request) = request.filter(cut) {
                    request.fail(Failure::Stopped);
                    self.give_up(generation, &request, slot);
                }
            }
        }
    }

    /// No further request is taken.
    pub fn stop(&self) {
        self.inner.borrow_mut().stopping = true;
    }

    /// Everything that is still here fails: the server ends now. What never ran may be sent again, what a thread has may
    /// have had an effect. Returns how many of the latter were in time.
    pub fn fail_all(&self) -> usize {
        self.name_suspects(true);
        let now = monotonic_ns();
        let mut inner = self.inner.borrow_mut();
        for request in inner.queue.drain() {
            request.place.set(Place::Out);
            request.fail(Failure::Stopping);
        }
        drop(inner);
        // What workers have said by now they have said.
        self.complete();
        let mut inner = self.inner.borrow_mut();
        let mut cut = 0;
        for generation in &mut inner.generations {
            for slot in generation.slot_numbers() {
                let Some(request) = generation.request(slot).cloned() else {
                    continue;
                };
                if generation.exchange.retract(slot) {
                    generation.free(slot);
                    request.fail(Failure::Stopping);
                    continue;
                }
                cut += usize::from(!request.is_abandoned() && is_in_time(&request, now));
                request.fail(Failure::Stopped);
            }
            generation.hijacks.fail_all(Failure::Stopped);
        }
        cut
    }
}

/// The last deadline that is still to come of what these workers of a generation run.
pub(super) fn last_deadline(generation: &Generation, of: impl Fn(u16) -> bool) -> Option<Instant> {
    let now = monotonic_ns();
    let own = generation
        .slot_numbers()
        .filter(|&slot| generation.runner(slot).is_some_and(&of))
        .filter_map(|slot| generation.request(slot));
    let in_time = own.filter(|request| is_in_time(request, now));
    let last = in_time.map(|request| request.first_deadline_ns()).max()?;
    Some(Instant::now() + Duration::from_nanos(last - now))
}

/// Whether it is not over, and the deadline that it had at first still to come at `now` of the monotonic clock: a response
/// that has begun and goes on for ever must not hold up an end.
pub(super) fn is_in_time(request: &Request, now: u64) -> bool {
    !request.has_ended() && request.first_deadline_ns() > now
}
