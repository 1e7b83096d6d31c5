//! The dispatcher: the application's one queue, and what is in the exchange.
//!
//! It is the only one that moves a request: from the queue into a slot, out of it when a worker is done,
//! back when a worker dies, away when the client leaves or the deadline passes. It never touches a
//! connection, never starts or ends a process, and never waits.
//!
//! - edges say what they want of it: `requests` ([`Intake`])
//! - the supervisor says which generations and workers there are: `supervised` ([`exchange::Dispatcher`])
//! - the runtime has it take what workers have written, and check deadlines: `turns`
//! - the front ends it: `shutdown`
//! - the application's owner asks whether it is needed: `idle`, and how busy it is: `load`

mod crashes;
mod deadlines;
mod env;
mod frames;
mod generation;
mod hijacks;
mod idle;
mod lanes;
mod load;
mod pending;
mod poison;
mod queue;
mod requests;
mod routing;
mod scheduling;
mod shutdown;
mod slots;
mod slow;
mod state;
mod status;
mod supervised;
mod turns;
mod waits;
mod workers;

use std::cell::RefCell;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use config::Settings;
use exchange::Geometry;

use crate::http::response_store::ResponseStore;
use crate::log::AccessLog;
pub use idle::{Activity, IdleWatch};
pub use load::{Load, LoadWatch};
use pending::Requests;
pub use requests::Intake;
pub use shutdown::DispatcherShutdown;
use state::{SharedState, State};
pub use status::{DispatcherStatus, FinishingThread, RunningRequest};
pub use turns::Turns;
pub use waits::WaitCount;

/// The dispatcher.
pub struct Dispatcher {
    state: SharedState,
    intake: Rc<Intake>,
    turns: Rc<Turns>,
    /// For the answers to the checks of new generations.
    check_store: Rc<ResponseStore>,
}

impl Dispatcher {
    /// Returns the dispatcher of the application with this number, over the exchange of its first generation, whose workers are
    /// all still to come.
    pub fn new(
        application: u16,
        exchange: exchange::Front,
        generation: u32,
        settings: Rc<Settings>,
        log: Rc<AccessLog>,
        check_store: Rc<ResponseStore>,
    ) -> Rc<Self> {
        let requests = Requests::of_application(application);
        let state = State::new(exchange, generation, settings, log, requests);
        let state = Rc::new(RefCell::new(state));
        Rc::new(Self {
            intake: Intake::new(&state),
            turns: Turns::new(&state),
            state,
            check_store,
        })
    }

    /// What edges speak to.
    pub fn intake(&self) -> &Rc<Intake> {
        &self.intake
    }

    /// What the runtime and the clock speak to.
    pub fn turns(&self) -> &Rc<Turns> {
        &self.turns
    }

    /// What speaks to the dispatcher when the server ends.
    pub fn shutdown(&self) -> DispatcherShutdown {
        DispatcherShutdown::new(&self.state)
    }

    /// Puts these settings in force.
    pub fn apply(&self, settings: Rc<Settings>) {
        self.state.borrow_mut().apply(settings);
    }

    /// Makes the exchange of a new generation, of these sizes. The queue does not go to it yet.
    ///
    /// # Errors
    /// No memory or descriptors for it.
    pub fn open(&self, number: u32, geometry: Geometry) -> io::Result<()> {
        let mut state = self.state.borrow_mut();
        let shares = state.lanes.shares();
        state.generations.open(number, geometry, shares)
    }

    /// The dispatcher at this moment.
    pub fn status(&self) -> DispatcherStatus {
        DispatcherStatus::of(&self.state.borrow())
    }

    /// Duplicates of a generation's memory file and of the doorbell of all, for its template; none names the latest.
    ///
    /// # Errors
    /// No descriptors are left, or there is no memory for a region in place of one that is corrupt.
    pub fn files(&self, generation: Option<u32>) -> io::Result<[OwnedFd; 2]> {
        let state = self.state.borrow();
        let mut all = state.generations.all.iter().rev();
        let found = all.find(|one| generation.is_none_or(|number| one.number == number));
        let found = found.ok_or_else(|| io::Error::other("the generation is gone"))?;
        if !found.slots.is_sound() {
            return Err(io::Error::other(
                "the exchange is corrupt and was not replaced yet",
            ));
        }
        let (memory, bell) = found.slots.exchange.files();
        Ok([memory.try_clone_to_owned()?, bell.try_clone_to_owned()?])
    }
}

/// Sets whether chance decides which of two generations gets a request that both have an idle thread for. Otherwise the one with
/// more idle threads gets it.
pub fn share_by_chance(dispatcher: &Dispatcher, by_chance: bool) {
    dispatcher.state.borrow_mut().generations.by_chance = by_chance;
}

/// Sets how many threads of each worker take requests, in place of all. Threads beyond that finish what they have.
pub fn set_active_threads(dispatcher: &Dispatcher, active: u16) {
    let mut state = dispatcher.state.borrow_mut();
    state.generations.set_active_threads(active);
    state.fill();
}
