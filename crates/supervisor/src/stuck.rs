//! Workers that hang: those whose requests run past their deadline are asked where their threads are, and replaced where
//! these do not come to an end; so are those that come for no request. Which ones that are is the front's to say.

use std::rc::Rc;
use std::time::Duration;

use exchange::control::ToWorker;
use tokio::task::spawn_local;
use tokio::time::Instant;

use crate::pool::Event;
use crate::supervisor::Supervisor;

/// In what a worker hangs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hang {
    /// In a request, past its deadline and the grace.
    Late,
    /// It was woken for a request and has not come.
    Called,
    /// In code between requests, while requests wait.
    Between,
}

impl Supervisor {
    /// Asks a worker where one of its threads is, if that still runs the request in `slot`, claimed as `sequence`.
    /// [`crate::Dispatcher::traced`] hears the answer. A worker that stands still gives none.
    pub fn trace(&self, generation: u32, worker: u16, thread: u16, slot: u16, sequence: u32) {
        let mut inner = self.shared.inner.borrow_mut();
        if let Some(Some(child)) = inner.child(generation, worker) {
            child.tell(&ToWorker::Backtrace {
                thread,
                slot,
                sequence,
            });
        }
    }

    /// Replaces a worker one of whose threads does not come to an end. The others may finish what they run, for as long
    /// as those of any worker that leaves; its successor does not wait for that where there is a place and memory.
    pub fn replace_stuck(&self, generation: u32, worker: u16, hang: Hang) {
        let time = self.shared.drain_timeout(generation);
        self.stuck(generation, worker, hang, time);
        let shared = Rc::clone(&self.shared);
        spawn_local(async move {
            if shared.has_room().await {
                shared.handle(generation, Event::Follow { worker });
            }
        });
    }

    /// Ends such a worker at once: nothing that it still runs is worth waiting for.
    pub fn end_stuck(&self, generation: u32, worker: u16) {
        self.stuck(generation, worker, Hang::Late, Duration::ZERO);
    }

    fn stuck(&self, generation: u32, worker: u16, hang: Hang, time: Duration) {
        let until = Instant::now().into_std() + time;
        let stuck = Event::Stuck {
            worker,
            hang,
            until,
        };
        self.shared.handle(generation, stuck);
    }
}
