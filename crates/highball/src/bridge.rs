//! Between the supervisor and the front: hands on what one tells the other. Decides nothing.

use std::os::fd::OwnedFd;
use std::rc::Rc;

use front::access_log::{AccessLog, Level};
use front::{Front, WorkerId};
use supervisor::{Dispatcher, Note};

use crate::application::FIRST_GENERATION;

/// The front as the supervisor sees it.
pub(crate) struct Bridge {
    pub(crate) front: Rc<Front>,
    pub(crate) log: Rc<AccessLog>,
}

impl Dispatcher for Bridge {
    fn prepare(&self, worker: u16) {
        self.front.worker_starts(FIRST_GENERATION, worker);
    }

    fn worker_up(&self, worker: u16) {
        self.front.worker_up(FIRST_GENERATION, worker);
    }

    fn worker_died(&self, worker: u16) {
        self.front.worker_died(FIRST_GENERATION, worker);
    }

    fn stop_worker(&self, worker: u16) {
        self.front.stop_worker(FIRST_GENERATION, worker);
    }

    fn hijacked(&self, worker: u16, slot: u32, sequence: u64, socket: OwnedFd) {
        let by = WorkerId {
            generation: FIRST_GENERATION,
            worker,
        };
        self.front.hijacked(by, slot, sequence, socket);
    }

    fn note(&self, note: &Note) {
        let level = match note.is_warning() {
            true => Level::Warn,
            false => Level::Info,
        };
        self.log.event(level, &note.to_string(), &[]);
    }
}
