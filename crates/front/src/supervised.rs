//! What the supervisor tells the front: of generations, of workers, of connections that applications took
//! over; and who tells it of late requests and of workers that stand still. It hands it on to the dispatcher, and decides nothing.

use std::fmt::Display;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Instant;

use config::Settings;

use crate::access_log::Level;
use crate::request::WorkerId;
use crate::{Alarm, Front, check, error_log};

impl Front {
    /// Has `tell` hear of requests past their deadline and of workers that stand still. The first one that is given stays.
    pub fn on_alarm(&self, tell: impl Fn(Alarm) + 'static) {
        let _ = self.alarmed.set(Box::new(tell));
    }

    /// Makes the exchange of a new generation, as large as these settings want it. No request goes to it before
    /// [`Front::feed`] says so.
    ///
    /// # Errors
    /// No memory or descriptors for it.
    pub fn open_generation(&self, generation: u32, settings: &Settings) -> io::Result<()> {
        let geometry = crate::geometry(settings);
        self.service.dispatcher.open(generation, geometry)
    }

    /// Duplicates of the latest generation's memory file and of its doorbell, for a template.
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn exchange_files(&self) -> io::Result<(OwnedFd, OwnedFd)> {
        self.service.dispatcher.files(None)
    }

    /// The same of a generation whose region was replaced.
    ///
    /// # Errors
    /// No descriptors or memory are left for a fresh region.
    pub fn renewed_exchange(&self, generation: u32) -> io::Result<(OwnedFd, OwnedFd)> {
        self.service.dispatcher.files(Some(generation))
    }

    /// From now on requests go to these generations and to no other.
    pub fn feed(&self, generations: &[u32]) {
        self.service.dispatcher.feed(generations);
    }

    /// No worker can serve, nor is one started before this moment; `None`: one serves again.
    pub fn outage(&self, until: Option<Instant>) {
        self.service.dispatcher.outage(until);
    }

    /// All processes of a generation are gone, and none will come.
    pub fn close_generation(&self, generation: u32) {
        self.service.dispatcher.close(generation);
    }

    /// So many workers shall serve at once in a generation: as many threads hold requests that do not count as waiting.
    pub fn resize(&self, generation: u32, workers: u16) {
        self.service.dispatcher.resize(generation, workers);
    }

    /// A process is being started for this worker.
    pub fn worker_starts(&self, generation: u32, worker: u16) {
        let dispatcher = &self.service.dispatcher;
        dispatcher.worker_starts(generation, worker);
    }

    /// A worker serves.
    pub fn worker_up(&self, generation: u32, worker: u16) {
        self.service.dispatcher.worker_up(generation, worker);
    }

    /// How many requests the worker has finished since it was started.
    pub fn finished(&self, generation: u32, worker: u16) -> u64 {
        self.service.dispatcher.finished(generation, worker)
    }

    /// Whether the worker has come to the end of a request since it was started.
    pub fn has_served(&self, generation: u32, worker: u16) -> bool {
        self.service.dispatcher.has_served(generation, worker)
    }

    /// A worker is dead.
    pub fn worker_died(&self, generation: u32, worker: u16) {
        let untold = self.service.dispatcher.worker_died(generation, worker);
        for work in untold {
            error_log::late(&self.service.log, &work, None);
        }
    }

    /// It is known how a worker ended, which died before or dies right after.
    pub fn worker_ended(&self, generation: u32, worker: u16, how: &str) {
        let worker = WorkerId { generation, worker };
        self.service.dispatcher.worker_ended(worker, how);
    }

    /// Until when, at the latest, what the worker runs is in time; none where nothing is.
    pub fn deadline(&self, generation: u32, worker: u16) -> Option<Instant> {
        self.service.dispatcher.deadline(generation, worker)
    }

    /// The workers of a generation are about to be killed, whatever they run. Returns how many requests that are in time
    /// are lost with them.
    pub fn cut(&self, generation: u32) -> usize {
        self.service.dispatcher.cut(generation)
    }

    /// Asks a worker to finish what it has and exit.
    pub fn stop_worker(&self, generation: u32, worker: u16) {
        self.service.dispatcher.stop_worker(generation, worker);
    }

    /// A worker has said where the thread is that runs a late request; no line where it runs it no more.
    pub fn traced(&self, by: WorkerId, slot: u16, sequence: u32, backtrace: &[String]) {
        let work = self.service.dispatcher.traced(by, slot, sequence);
        if let (Some(work), false) = (work, backtrace.is_empty()) {
            let backtrace = backtrace.join("\n");
            error_log::late(&self.service.log, &work, Some(&backtrace));
        }
    }

    /// The application of a worker took a connection over.
    pub fn hijacked(&self, by: WorkerId, slot: u32, sequence: u64, socket: OwnedFd) {
        let (Ok(slot), Ok(sequence)) = (u16::try_from(slot), u32::try_from(sequence)) else {
            return;
        };
        let dispatcher = &self.service.dispatcher;
        if let Err(error) = dispatcher.hijacked(by, slot, sequence, socket) {
            let text = format!("worker {} sent {error}; it is refused", by.worker);
            let generation: [(&str, &dyn Display); 1] = [("generation", &by.generation)];
            self.service.log.event(Level::Error, &text, &generation);
        }
    }

    /// Has a worker of this generation answer a GET of `path`, past the queue; good is any status of 200 to 299.
    ///
    /// # Errors
    /// What it answered instead, or why it did not.
    pub async fn check(&self, generation: u32, path: &str) -> Result<(), String> {
        check::run(&self.service, generation, path).await
    }
}
