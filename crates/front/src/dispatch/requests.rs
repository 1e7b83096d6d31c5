//! What edges say of their requests. It never touches a connection.

use std::rc::Rc;
use std::sync::Arc;

use super::lanes::Lane;
use super::pending::Place;
use super::state::SharedState;
use super::turns::PASSES;
use crate::failure::Failure;
use crate::http::request::Request;
use crate::messages::{Admission, Dispatch, Reply, SubmissionId};
use crate::panics;

/// The dispatcher's side to the edges of its own thread.
pub struct Intake {
    state: SharedState,
}

impl Intake {
    /// Returns the intake of this dispatcher.
    pub(super) fn new(state: &SharedState) -> Rc<Self> {
        Rc::new(Self {
            state: Rc::clone(state),
        })
    }

    /// Gives a request to this very generation, past the queue. It is not run again.
    ///
    /// # Errors
    /// The generation has no free slot, or the request does not fit into one.
    pub fn submit_to(
        &self,
        generation: u32,
        request: Arc<Request>,
        reply: Rc<dyn Reply>,
    ) -> Result<SubmissionId, Failure> {
        let _scope = panics::with_what_is_shared();
        let mut state = self.state.borrow_mut();
        state.take_completed(PASSES);
        let request = state.requests.add(request, reply);
        state.put_into(generation, &request)?;
        Ok(request.id)
    }
}

impl Dispatch for Intake {
    fn submit(&self, request: Arc<Request>, reply: Rc<dyn Reply>) -> SubmissionId {
        let _scope = panics::with_what_is_shared();
        let state = &mut *self.state.borrow_mut();
        state.take_completed(PASSES);
        let request = state.requests.add(request, reply);
        let lane = match state.admit(request.request.path()) {
            Ok(lane) => lane,
            Err(failure) => {
                request.fail_quietly(failure, None);
                return request.id;
            }
        };
        let id = request.id;
        request.place.set(Place::Queue);
        request.lane.set(lane);
        state.queue.push(request);
        if lane == Lane::Priority {
            state.generations.make_room_for_priority(&mut state.queue);
        }
        state.fill();
        if let Some(first) = &state.first_request {
            first.notify_one();
        }
        let waiting = state.generations.beyond_threads(state.queue.len());
        state.longest_queue = state.longest_queue.max(waiting);
        id
    }

    fn admits(&self, _application: u16, path: &[u8]) -> Admission {
        let admitted = self.state.borrow().admit(path);
        Admission::Decided(admitted.map(drop))
    }

    fn head_taken(&self, id: SubmissionId) {
        if let Some(request) = self.state.borrow().requests.get(id) {
            request.head_taken.set(true);
        }
    }

    fn consumed(&self, id: SubmissionId) {
        let _scope = panics::with_what_is_shared();
        let state = &mut *self.state.borrow_mut();
        if let Some(request) = state.requests.get(id)
            && let Place::Slot { generation, slot } = request.place.get()
        {
            if let Some(generation) = state.generations.get_mut(generation) {
                state.frames.take_for(generation, slot, &request);
            }
            state.fill();
        }
    }

    fn client_left(&self, id: SubmissionId, certain: bool) {
        let _scope = panics::with_what_is_shared();
        let state = &mut *self.state.borrow_mut();
        let Some(request) = state.requests.get(id) else {
            return;
        };
        match request.place.get() {
            Place::Queue => state.drop_waiting(&request),
            Place::Slot { generation, slot } => {
                let spared = !certain && state.generations.has_idle_thread();
                let Some(generation) = state.generations.get_mut(generation) else {
                    return;
                };
                if !spared && generation.slots.exchange.retract(slot) {
                    generation.free(slot);
                    request.fail(Failure::ClientGone);
                } else if certain {
                    state.frames.give_up(generation, &request, slot);
                }
                state.fill();
            }
            Place::Out => {}
        }
    }

    fn no_more(&self, id: SubmissionId) {
        let _scope = panics::with_what_is_shared();
        if let Some(request) = self.state.borrow().requests.get(id) {
            // As where one is given up: a front that took this for a task it woke would sleep without a doorbell.
            request.reply.forget_waiter();
            request.abandon();
        }
    }

    fn abandon(&self, id: SubmissionId) {
        let _scope = panics::with_what_is_shared();
        let state = &mut *self.state.borrow_mut();
        if let Some(request) = state.requests.get(id) {
            match request.place.get() {
                Place::Queue => state.drop_waiting(&request),
                Place::Slot { generation, slot } => {
                    if let Some(generation) = state.generations.get_mut(generation) {
                        state.frames.give_up(generation, &request, slot);
                    }
                    state.fill();
                }
                Place::Out => {}
            }
        }
        for generation in &mut state.generations.all {
            generation.hijacks.forget(id);
        }
    }

    fn take_completed(&self) {
        let _scope = panics::with_what_is_shared();
        self.state.borrow_mut().take_completed(PASSES);
    }
}
