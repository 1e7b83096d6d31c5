//! The workers' side of the exchange: a worker process, and each of its threads.
//!
//! A thread claims requests, lends their records out, and writes responses. It never decides whether a request
//! is run again, and it knows nothing of Ruby: the extension does.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use crate::coordination::{Claim, Found, YIELD_TIMEOUT_NS};
use crate::doorbell::Doorbell;
use crate::region::Region;
use crate::response::{self, Kind, WriteError, Writer};
use crate::scheduling::monotonic_ns;
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// A worker process, which its threads share.
pub struct Worker {
    region: Region,
    doorbell: Doorbell,
    index: u16,
}

impl Worker {
    /// Joins the exchange as worker `index`. `doorbell` is the front's eventfd.
    ///
    /// # Errors
    /// The region has no such worker.
    pub fn new(region: Region, doorbell: OwnedFd, index: u16) -> io::Result<Arc<Self>> {
        let max_workers = region.geometry().max_workers();
        if index >= max_workers {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("worker {index} of at most {max_workers}"),
            ));
        }
        Ok(Arc::new(Self {
            region,
            doorbell: doorbell.into(),
            index,
        }))
    }

    /// Keeps the exchange from every process that this one forks from now on: it is the worker's alone.
    ///
    /// # Errors
    /// Those of madvise(2).
    pub fn keep_from_children(&self) -> io::Result<()> {
        self.region.keep_from_children()
    }

    /// The descriptors by which this worker reaches the exchange: those of its memory and of the front's doorbell.
    pub fn descriptors(&self) -> [RawFd; 2] {
        [
            self.region.file().as_raw_fd(),
            self.doorbell.as_fd().as_raw_fd(),
        ]
    }

    /// Whether this worker should finish what it has and exit.
    pub fn stopping(&self) -> bool {
        let stops = self.region.thread_states().stops;
        stops[usize::from(self.index)].load(Ordering::Acquire) != 0
    }

    /// Asks this worker itself to finish what it has and exit.
    pub fn stop(&self) {
        self.region.thread_states().stop_worker(self.index);
    }

    /// Takes the turn for work between requests, where no thread of this worker has a request; see
    /// [`crate::coordination::Coordination::begin_out_of_band`]. Call it only while holding the GVL, from no worker thread.
    #[must_use]
    pub fn begin_out_of_band(&self) -> bool {
        self.try_out_of_band(None)
    }

    /// Gives that turn back.
    pub fn end_out_of_band(&self) {
        self.region.coordination().end_out_of_band(self.index);
    }

    fn try_out_of_band(&self, caller: Option<u16>) -> bool {
        let coordination = self.region.coordination();
        !self.stopping() && coordination.begin_out_of_band(self.index, caller)
    }

    /// One of this worker's threads, by its number from 0.
    ///
    /// # Panics
    /// When the exchange has no such thread.
    pub fn thread(self: &Arc<Self>, number: u16) -> WorkerThread {
        assert!(number < self.region.geometry().threads, "thread {number}");
        let index = self.index * self.region.geometry().threads + number;
        WorkerThread {
            worker: Arc::clone(self),
            index,
            left: AtomicU64::new(0),
            left_until: AtomicU64::new(0),
        }
    }
}

/// One thread of a worker.
pub struct WorkerThread {
    worker: Arc<Worker>,
    /// Its index among the threads of all workers.
    index: u16,
    /// The request that it leaves to others, by its position in the ready ring. Written by the thread itself alone.
    left: AtomicU64,
    /// Until when it leaves that request to others, on the clock of [`monotonic_ns`]; 0 where it left none when it last
    /// looked. A wake-up does not end it, nor does its end concern another request: one of either would go to a busy
    /// process although another is idle. Written by the thread itself alone.
    left_until: AtomicU64,
}

/// Ends one wait from outside. Each wait has its own: several threads may wait for room in one response.
#[derive(Default)]
pub struct Interrupt(AtomicU32);

/// A request that a thread has claimed and how far its response has come. Plain data: it may be lost by a
/// `longjmp` without harm.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    /// What was claimed.
    pub claim: Claim,
    /// Bytes put into the response ring.
    pub put: u64,
}

impl WorkerThread {
    /// Looks for a request; call it only while holding the GVL (see [`crate::coordination::Coordination::find`]).
    pub fn claim(&self) -> Option<Job> {
        let coordination = self.worker.region.coordination();
        let left = self.left.load(Ordering::Relaxed);
        let until = self.left_until.load(Ordering::Relaxed);
        let long_enough = until != 0 && monotonic_ns() >= until;
        let found = coordination.find(self.index, long_enough.then_some(left));
        match found {
            Found::Yield(request) if until != 0 && request == left => {}
            Found::Yield(request) => {
                self.left.store(request, Ordering::Relaxed);
                let until = monotonic_ns() + YIELD_TIMEOUT_NS;
                self.left_until.store(until, Ordering::Relaxed);
            }
            Found::Claim(_) | Found::Nothing => self.left_until.store(0, Ordering::Relaxed),
        }
        let Found::Claim(claim) = found else {
            return None;
        };
        self.worker
            .region
            .words(claim.slot)
            .claimed_at
            .store(monotonic_ns(), Ordering::Relaxed);
        Some(Job { claim, put: 0 })
    }

    /// Sleeps until there may be a request, or until [`WorkerThread::interrupt`], or until the worker is stopped.
    /// Without the GVL.
    pub fn wait(&self, interrupt: &Interrupt) {
        let yielded = match self.left_until.load(Ordering::Relaxed) {
            0 => None,
            until => Some(until.saturating_sub(monotonic_ns())),
        };
        let coordination = self.worker.region.coordination();
        coordination.wait(self.index, yielded, &interrupt.0);
    }

    /// Says that this thread's request only waits from now on, so that another thread takes one meanwhile, where one rests.
    pub fn begin_io(&self) {
        self.worker.region.coordination().begin_io(self.index);
    }

    /// Says that the request of [`WorkerThread::begin_io`] has ended.
    pub fn end_io(&self) {
        self.worker.region.coordination().end_io(self.index);
    }

    /// Takes the turn for work between requests, where no worker waits for it; see
    /// [`crate::coordination::Coordination::begin_out_of_band`]. Call it only while holding the GVL and no request.
    #[must_use]
    pub fn begin_out_of_band(&self) -> bool {
        self.worker.try_out_of_band(Some(self.index))
    }

    /// Gives that turn back.
    pub fn end_out_of_band(&self) {
        self.worker.end_out_of_band();
    }

    /// Says that this thread claims nothing any more. Call it only while holding the GVL.
    pub fn leave(&self) {
        self.worker.region.coordination().leave(self.index);
    }

    /// Ends a [`WorkerThread::wait`], or with a job a [`WorkerThread::wait_for_room`], now or about to begin. Async-signal-safe.
    pub fn interrupt(&self, interrupt: &Interrupt, job: Option<&Job>) {
        interrupt.0.store(1, Ordering::SeqCst);
        match job {
            None => drop(self.worker.region.thread_states().wake(self.index)),
            Some(job) => self.worker.region.room(job.claim.slot).wake(),
        }
    }

    /// The worker that this thread belongs to.
    pub fn worker(&self) -> &Arc<Worker> {
        &self.worker
    }

    /// The thread's number in its worker, from 0.
    pub fn number(&self) -> u16 {
        self.index % self.worker.region.geometry().threads
    }

    /// The request record of a job.
    pub fn record(&self, job: &Job) -> &[u8] {
        let region = &self.worker.region;
        let length = region
            .words(job.claim.slot)
            .request_len
            .load(Ordering::Acquire);
        let length = length.min(region.geometry().request_bytes) as usize;
        // SAFETY: inside the slot's request area, which the front does not write while the slot is claimed.
        unsafe { std::slice::from_raw_parts(region.request_area(job.claim.slot).as_ptr(), length) }
    }

    /// Puts a frame into the ring. It is not visible until [`WorkerThread::flush`] or [`WorkerThread::finish`].
    ///
    /// # Errors
    /// [`WriteError::Full`] when there is no room now, [`WriteError::TooLarge`] when there never is,
    /// [`WriteError::Abandoned`] when the front reads no more, [`WriteError::NotClaimed`] when the thread has lost the request.
    pub fn try_frame(&self, job: &mut Job, kind: Kind, parts: &[&[u8]]) -> Result<(), WriteError> {
        let mut writer = self.writer(job);
        writer.try_frame(kind, parts)?;
        job.put = writer.put();
        Ok(())
    }

    /// The longest payload of one frame.
    pub fn longest(&self) -> usize {
        response::longest(&self.worker.region)
    }

    /// Makes the frames that were put visible to the front, and wakes it where it sleeps.
    pub fn flush(&self, job: &Job) {
        if self.writer(job).commit() {
            self.notify(job.claim.slot);
        }
    }

    /// Sleeps until the ring has room. What was put must have been flushed. Without the GVL.
    pub fn wait_for_room(&self, job: &Job, interrupt: &Interrupt) {
        self.writer(job).wait_for_room(&interrupt.0);
    }

    /// Whether no client waits for the response any more.
    pub fn abandoned(&self, job: &Job) -> bool {
        self.worker
            .region
            .words(job.claim.slot)
            .abandoned
            .load(Ordering::Relaxed)
            != 0
    }

    /// Hands the slot back: the response is complete, whatever is in the ring. Does nothing where the thread has lost
    /// the request.
    pub fn finish(&self, job: &Job) {
        let words = self.worker.region.words(job.claim.slot);
        if !self.writer(job).commit() {
            return;
        }
        words.finished_at.store(monotonic_ns(), Ordering::Relaxed);
        if self
            .worker
            .region
            .slot_states()
            .finish(job.claim, self.index)
        {
            // Another thread may wait for room, and can write nothing more now.
            self.worker.region.room(job.claim.slot).wake_wanting();
            self.notify(job.claim.slot);
        }
    }

    /// The ring's writer, where the job stands; the job itself can't keep it and stay plain data.
    fn writer(&self, job: &Job) -> Writer<'_> {
        Writer::resume(&self.worker.region, job.claim, self.index, job.put)
    }

    fn notify(&self, slot: u16) {
        if self.worker.region.completions().notify(slot) {
            self.worker.doorbell.ring();
        }
    }
}
