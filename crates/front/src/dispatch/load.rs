//! How long requests wait for a thread, and how many threads are in use: what the number of workers is decided from. It decides
//! nothing, and counts nothing while nobody asks.

use std::rc::Rc;
use std::time::Duration;

use exchange::front::Holder;
use exchange::scheduling::monotonic_ns;

use super::Dispatcher;
use super::generation::Generation;
use super::pending::PendingRequest;
use super::state::SharedState;
use super::status::saturation;
use super::waits::{WaitCount, Waits};
use crate::saturation::Saturation;

/// The load of an application since the last look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Requests that a thread has claimed since then; each counts once.
    pub claimed: WaitCount,
    /// Requests that wait now.
    pub waiting: WaitCount,
    /// How much of the threads is in use now.
    pub saturation: Saturation,
}

/// The application's owner, who looks at the load now and then. Dropping it ends the counting.
pub struct LoadWatch {
    state: SharedState,
}

impl LoadWatch {
    /// Returns a watch over this dispatcher, for which a wait is long beyond `long`. There is one at a time.
    pub fn of(dispatcher: &Dispatcher, long: Duration) -> Self {
        let state = Rc::clone(&dispatcher.state);
        state.borrow().frames.waits().begin(long);
        Self { state }
    }

    /// The load since the last look.
    pub fn look(&self) -> Load {
        let state = self.state.borrow();
        let (waits, now_ns) = (state.frames.waits(), monotonic_ns());
        let is_late = |one: &PendingRequest| waits.is_late(one, now_ns);
        let (queued, late) = state.queue.count(is_late);
        let mut waiting = WaitCount {
            all: queued as u64,
            late: late as u64,
        };
        for one in state.generations.all.iter().filter(|one| one.routable) {
            note_slots(one, waits, &mut waiting, now_ns);
        }
        let load = Load {
            claimed: waits.claimed.take(),
            waiting,
            saturation: saturation(&state),
        };
        waits.since_ns.set(now_ns);
        load
    }
}

impl Drop for LoadWatch {
    fn drop(&mut self) {
        self.state.borrow().frames.waits().since_ns.set(0);
    }
}

/// Counts requests in slots: those that run, and those that no thread has claimed.
fn note_slots(generation: &Generation, waits: &Waits, waiting: &mut WaitCount, now_ns: u64) {
    let slots = &generation.slots;
    for slot in slots.numbers() {
        let Some(request) = slots.request(slot) else {
            continue;
        };
        match slots.exchange.publication(slot).holder() {
            Holder::Unclaimed => waiting.add(waits.is_late(request, now_ns)),
            Holder::Running { .. } => waits.note(request, slots.times(slot).claimed_ns),
            // It is counted when its slot is taken.
            Holder::Done { .. } => {}
        }
    }
}
