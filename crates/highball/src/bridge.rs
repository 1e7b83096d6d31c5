//! Between the supervisor and the front: hands on what one tells the other, in both directions. Decides nothing.

use std::fmt::Display;
use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Instant;

use front::access_log::{AccessLog, Level};
use front::{Alarm, Front, Still, WorkerId};
use supervisor::{Dispatcher, Hang, Note, Supervisor};

/// The front as the supervisor sees it.
pub(crate) struct Bridge {
    pub(crate) front: Rc<Front>,
    pub(crate) log: Rc<AccessLog>,
}

/// Tells the supervisor of requests past their deadline and of workers that stand still.
pub(crate) fn alarm(supervisor: &Supervisor, alarm: Alarm) {
    match alarm {
        Alarm::Late(run) => {
            let WorkerId { generation, worker } = run.by;
            supervisor.trace(generation, worker, run.thread, run.slot, run.sequence);
        }
        Alarm::Stuck(WorkerId { generation, worker }) => {
            supervisor.replace_stuck(generation, worker, Hang::Late);
        }
        Alarm::Still(WorkerId { generation, worker }, still) => {
            let hang = match still {
                Still::Called => Hang::Called,
                Still::Between => Hang::Between,
            };
            supervisor.replace_stuck(generation, worker, hang);
        }
        Alarm::Corrupt(generation, found) => {
            supervisor.exchange_corrupt(generation, &found.to_string());
        }
        Alarm::Spent(WorkerId { generation, worker }) => supervisor.end_stuck(generation, worker),
    }
}

impl Dispatcher for Bridge {
    fn resize(&self, generation: u32, workers: u16) {
        self.front.resize(generation, workers);
    }

    fn prepare(&self, generation: u32, worker: u16) {
        self.front.worker_starts(generation, worker);
    }

    fn worker_up(&self, generation: u32, worker: u16) {
        self.front.worker_up(generation, worker);
    }

    fn exchange(&self, generation: u32) -> io::Result<[OwnedFd; 2]> {
        let (memory, doorbell) = self.front.renewed_exchange(generation)?;
        Ok([memory, doorbell])
    }

    fn finished(&self, generation: u32, worker: u16) -> u64 {
        self.front.finished(generation, worker)
    }

    fn has_served(&self, generation: u32, worker: u16) -> bool {
        self.front.has_served(generation, worker)
    }

    fn worker_died(&self, generation: u32, worker: u16) {
        self.front.worker_died(generation, worker);
    }

    fn worker_ended(&self, generation: u32, worker: u16, how: &str) {
        self.front.worker_ended(generation, worker, how);
    }

    fn deadline(&self, generation: u32, worker: u16) -> Option<Instant> {
        self.front.deadline(generation, worker)
    }

    fn cut(&self, generation: u32) -> usize {
        self.front.cut(generation)
    }

    fn stop_worker(&self, generation: u32, worker: u16) {
        self.front.stop_worker(generation, worker);
    }

    fn hijacked(&self, generation: u32, worker: u16, slot: u32, sequence: u64, socket: OwnedFd) {
        let by = WorkerId { generation, worker };
        self.front.hijacked(by, slot, sequence, socket);
    }

    fn traced(&self, generation: u32, worker: u16, slot: u16, sequence: u32, backtrace: &[String]) {
        let by = WorkerId { generation, worker };
        self.front.traced(by, slot, sequence, backtrace);
    }

    fn feed(&self, generations: &[u32]) {
        self.front.feed(generations);
    }

    fn outage(&self, until: Option<Instant>) {
        self.front.outage(until);
    }

    fn check(
        &self,
        generation: u32,
        path: String,
    ) -> Pin<Box<dyn Future<Output = Result<(), String>>>> {
        let front = Rc::clone(&self.front);
        Box::pin(async move { front.check(generation, &path).await })
    }

    fn close(&self, generation: u32) {
        self.front.close_generation(generation);
    }

    fn note(&self, generation: u32, note: &Note) {
        let level = match note.is_warning() {
            true => Level::Warn,
            false => Level::Info,
        };
        let fields: [(&str, &dyn Display); 1] = [("generation", &generation)];
        self.log.event(level, &note.to_string(), &fields);
    }
}
