//! Whether an application has anything to do, and the first request for one that is stopped because it had nothing to do.
//!
//! It starts and ends no process: the owner of the application does that with what it learns here.

use std::rc::Rc;

use tokio::sync::Notify;

use super::Dispatcher;
use super::generation::Generation;
use super::state::SharedState;

/// What a dispatcher has to do at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Activity {
    /// Number of requests since the start: one more says that something happened in between.
    pub requests: u64,
    /// Whether a request waits or runs, or a thread is busy with anything else.
    pub is_busy: bool,
}

/// The application's owner, who asks its dispatcher whether there is anything to do.
pub struct IdleWatch {
    state: SharedState,
}

impl IdleWatch {
    /// Returns a watch over this dispatcher.
    pub fn of(dispatcher: &Dispatcher) -> Self {
        let state = Rc::clone(&dispatcher.state);
        Self { state }
    }

    /// What there is to do now.
    pub fn activity(&self) -> Activity {
        let state = self.state.borrow();
        let mut generations = state.generations.all.iter();
        Activity {
            requests: state.requests.count(),
            is_busy: state.queue.len() > 0 || generations.any(is_busy),
        }
    }

    /// From now on [`IdleWatch::request_waits`] hears of requests.
    pub fn listen_for_requests(&self) {
        self.state.borrow_mut().first_request = Some(Rc::default());
    }

    /// Waits for a request, where [`IdleWatch::listen_for_requests`] was called before; then it listens no more.
    pub async fn request_waits(&self) {
        let first: Option<Rc<Notify>> = self.state.borrow().first_request.clone();
        if let Some(first) = first {
            first.notified().await;
            self.state.borrow_mut().first_request = None;
        }
    }
}

/// Whether a request is in a slot, or a thread of a worker that serves does anything but wait for one: what follows a
/// response, and work between requests.
fn is_busy(generation: &Generation) -> bool {
    let threads = generation
        .slots
        .exchange
        .coordination()
        .availability
        .threads;
    let workers = 0..generation.slots.exchange.geometry().max_workers();
    let mut serving = workers.filter(|worker| generation.workers.serves(*worker));
    let in_slots = generation.slots.taken() > 0 || generation.hijacks.any_waiting();
    in_slots || serving.any(|worker| threads.has_busy_thread(worker))
}
