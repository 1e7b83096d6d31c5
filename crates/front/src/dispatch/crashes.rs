//! What becomes of requests whose worker died.
//!
//! It never starts or ends a process.

use std::rc::Rc;

use super::generation::Generation;
use super::{Death, Dispatcher, Rest};
use crate::failure::Failure;
use crate::http::request::{Place, Request};
use crate::log::errors;

impl Dispatcher {
    /// Has the log name the requests that killed two workers: all of them, or those for which it is known how the workers
    /// ended.
    pub(super) fn name_suspects(&self, all: bool) {
        let ready = self.suspects.borrow_mut().ready(all);
        for (request, text) in ready {
            errors::app_error(&self.log, &request, &text);
        }
    }

    /// A request whose worker died while it held it. Given back where it is to be run again.
    pub(super) fn bereave(
        &self,
        generation: &mut Generation,
        slot: u16,
        death: &Rc<Death>,
    ) -> Option<Rc<Request>> {
        let Some(request) = generation.request(slot).cloned() else {
            generation.exchange.release(slot);
            return None;
        };
        // What it had said before counts: its response may be whole, or a failure. A turn at a time, which ends: the
        // ring holds so much and nobody fills it any more.
        let holder = generation.exchange.publication(slot).holder();
        generation.note_holder(slot, holder, &request);
        while generation.is_sound()
            && self.take_frames(generation, slot, &request) == Rest::NextTurn
        {}
        self.run_again_or_fail(generation, slot, &request, Some(death))
    }

    /// Ends a request whose worker is dead or about to be killed, or gives it back where it is to be run again.
    pub(super) fn run_again_or_fail(
        &self,
        generation: &mut Generation,
        slot: u16,
        request: &Rc<Request>,
        death: Option<&Rc<Death>>,
    ) -> Option<Rc<Request>> {
        let again = request.retries.get() < self.bounds.get().max_retries;
        if again && request.may_run_again() && !request.has_ended() {
            request.retries.set(request.retries.get() + 1);
            *request.killed.borrow_mut() = death.cloned();
            self.again.set(self.again.get() + 1);
            request.forget_response();
            generation.free(slot);
            request.place.set(Place::Queue);
            return Some(Rc::clone(request));
        }
        generation.free(slot);
        let deaths = request.killed.borrow().clone().zip(death.cloned());
        if let (Some(deaths), false, false) = (deaths, generation.cut, request.has_ended()) {
            let mut suspects = self.suspects.borrow_mut();
            suspects.suspect(request, deaths.into());
        }
        request.fail(match generation.cut {
            true => Failure::Stopped,
            false => Failure::WorkerDied,
        });
        None
    }
}
