//! How front and worker threads coordinate: who holds which slot, which thread is idle, and who must be woken.
//!
//! It is the lock-free core of the exchange, free of memory mapping and data, so that `tests/loom.rs` can
//! try every interleaving of it. It never touches a request or a response.
//!
//! - [`SlotStates`]: who holds which slot, changed by compare-and-swap.
//! - [`ReadyRing`]: the order in which published requests are claimed.
//! - [`ThreadStates`]: what each worker thread does, and the word that it sleeps on.
//! - [`Availability`]: which threads can take a request, and which of them is woken.
//! - [`Completions`]: which slots have news for the front, and whether it sleeps.
//! - [`OutOfBand`]: whose turn it is to work between requests.
//!
//! Each has the words and the steps of one concern. This file has what takes several of them.

mod availability;
mod bitmap;
mod completions;
mod out_of_band;
mod ready_ring;
mod slot_states;
mod thread_states;

pub use availability::Availability;
pub use bitmap::Bitmap;
pub use completions::Completions;
pub use out_of_band::OutOfBand;
pub use ready_ring::ReadyRing;
pub use slot_states::{
    Claim, PHASE_CLAIMED, PHASE_DONE, PHASE_FRONT, PHASE_READY, SlotStates, State,
};
pub use thread_states::ThreadStates;
pub(crate) use thread_states::{YIELD_TIMEOUT_NS, is_thread_word};

use crate::sync::{AtomicU32, Ordering, fence};
use thread_states::{BUSY, LEFT};

/// What a thread found when it looked for work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// A request, now this thread's own.
    Claim(Claim),
    /// Requests wait, but as many idle processes do too: they go first. With the position of the oldest of these requests
    /// in the ready ring.
    Yield(u64),
    /// Nothing waits.
    Nothing,
}

/// The words by which front and workers coordinate: references into the region or, in the model, into vectors.
#[derive(Clone, Copy)]
pub struct Coordination<'a> {
    /// Who holds which slot.
    pub slots: SlotStates<'a>,
    /// Published requests in their order.
    pub ring: ReadyRing<'a>,
    /// What each worker thread does, and which of them can take a request.
    pub availability: Availability<'a>,
    /// Slots that have news for the front.
    pub completions: Completions<'a>,
    /// Whose turn it is to work between requests.
    pub out_of_band: OutOfBand<'a>,
}

impl Coordination<'_> {
    // ===== the front's side =====

    /// Whether this worker works between requests: a thread of it does, or another one of its process, which has the turn.
    pub fn works_between_requests(&self, worker: u16) -> bool {
        self.availability.threads.has_busy_thread(worker)
            || self.out_of_band.holder() == Some(worker)
    }

    /// Makes a filled slot ready and wakes the best idle thread. `tail` is the front's own copy of the ring's end.
    ///
    /// Returns false, and changes nothing, when the ring has no room. That takes as many retractions
    /// behind a request that no thread claims; the next claim makes room.
    pub fn publish(&self, tail: &mut u64, slot: u16, sequence: u32) -> bool {
        if !self.ring.has_room(*tail) {
            return false;
        }
        let publication = Claim { slot, sequence };
        self.slots.publish(publication);
        self.ring.push(tail, publication);
        self.availability.wake_one();
        true
    }

    /// Forgets a worker that died: its threads are neither idle nor busy, and what they were woken for
    /// goes to others. It changes no slot: see [`SlotStates::get`].
    pub fn reclaim_worker(&self, worker: u16) {
        self.out_of_band.give_turn_back(worker);
        self.availability.forget(worker);
        // The dead may have been about to wake another thread: finish either half of that.
        self.availability.repair();
        self.wake_for_all();
    }

    /// Sets how many threads of each worker are to have no request. Those that have one finish it.
    pub fn set_resting(&self, threads: u16) {
        let resting = self.availability.threads.resting;
        resting.store(threads.into(), Ordering::SeqCst);
        fence(Ordering::SeqCst);
        self.wake_for_all();
    }

    /// Wakes an idle thread for each request that waits, as far as there are any.
    fn wake_for_all(&self) {
        let threads = self.availability.threads.words.len() as u64;
        for _ in 0..self.ring.waiting().min(threads) {
            self.availability.wake_one();
        }
    }

    // ===== the workers' side =====

    /// Looks for work. Call it only while holding the GVL: a claim by a thread that then waits for the
    /// GVL would hold a request that another process could run.
    ///
    /// `left` is the position of the request that the thread has left to others for as long as that may take, and takes
    /// itself now where it still waits: the others could be stopped.
    pub fn find(&self, thread: u16, left: Option<u64>) -> Found {
        let threads = self.availability.threads;
        threads.begin_to_look(thread);
        // Bounded, for a broken worker may have written anything into head and tail. A thread that finds nothing here
        // although something waits does not sleep: it looks again.
        for _ in 0..=self.ring.len() {
            let Some((head, claim)) = self.ring.oldest() else {
                break;
            };
            // A thread that has a request looks again when it is done, and one that waits no more does so too.
            if !self.availability.may_take(thread) {
                break;
            }
            // After the look at the entry: one that is published between the two would be claimed without this question.
            let may_yield = threads.per_worker > 1 && left != Some(head);
            if may_yield && (self.availability).should_yield(thread, || self.ring.waiting()) {
                self.availability.set_free(thread);
                return Found::Yield(head);
            }
            let claimed = self.slots.claim(claim, thread);
            self.ring.step_over(head);
            if claimed {
                threads.set(thread, BUSY);
                self.availability.set_taken(thread);
                self.pass_on();
                return Found::Claim(claim);
            }
        }
        self.availability.set_free(thread);
        Found::Nothing
    }

    /// Parks the thread until it is woken. Without the GVL. `yielded` is for how many nanoseconds more it leaves requests
    /// to others, where [`Coordination::find`] said so; `interrupted` is raised by the code that wants the thread back
    /// before it calls `ThreadStates::wake`.
    pub fn wait(&self, thread: u16, yielded: Option<u64>, interrupted: &AtomicU32) {
        let threads = self.availability.threads;
        let worker = threads.worker_of(usize::from(thread));
        self.availability.begin_park(thread);
        if yielded.is_some() {
            // The idle process this thread yields to may not have been woken for the request. Never one that is busy: its
            // thread, which may have yielded as well, would take the request.
            self.availability.wake_idle_process();
        }
        // After the thread has said that it is idle: another one may have come to its end meanwhile.
        let nothing = self.ring.waiting() == 0 || !self.availability.may_take(thread);
        let stay = (yielded.is_some() || nothing)
            && !threads.is_stopped(worker)
            && interrupted.load(Ordering::SeqCst) == 0;
        if stay {
            threads.sleep(thread, yielded);
        }
        self.availability.end_park(thread);
    }

    /// Says that the request of a thread of this worker only waits from now on: another thread takes one meanwhile, where
    /// one rests.
    pub fn begin_io(&self, thread: u16) {
        let threads = self.availability.threads;
        let worker = usize::from(threads.worker_of(usize::from(thread)));
        threads.io_bound[worker].fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if self.ring.waiting() > 0 {
            self.availability.wake_one();
        }
    }

    /// Says that the request of [`Coordination::begin_io`] has ended.
    pub fn end_io(&self, thread: u16) {
        let threads = self.availability.threads;
        let worker = usize::from(threads.worker_of(usize::from(thread)));
        threads.io_bound[worker].fetch_sub(1, Ordering::SeqCst);
    }

    /// Says that the thread looks for no request any more. What it was woken for goes to others: while it
    /// counted as looking, no other thread may have been woken.
    pub fn leave(&self, thread: u16) {
        self.availability.threads.set(thread, LEFT);
        self.availability.set_taken(thread);
        self.pass_on();
    }

    /// Runs after a claim: the thread that was woken for the next request may have lost that to this thread, or left it
    /// to others. Wakes one more thread where fewer are on their way than requests wait.
    fn pass_on(&self) {
        let (waiting, available) = (self.ring.waiting(), self.availability);
        if waiting > 0
            && available.idle.any()
            && available.coming(self.out_of_band.holder()) < waiting
        {
            available.wake_one();
        }
    }

    /// Takes the turn to work between requests. False unless no request waits, no other thread of this worker has a
    /// request or is about to claim one, no other worker has the turn, and (of several workers) another one is idle and
    /// can take requests meanwhile: a worker that works between requests is woken for none. Call it only while holding
    /// the GVL, from a thread that has no request: `caller` is its index, and none where it is no worker thread.
    /// [`Coordination::end_out_of_band`] gives the turn back.
    #[must_use]
    pub fn begin_out_of_band(&self, worker: u16, caller: Option<u16>) -> bool {
        let available = self.availability;
        if self.anyone_waits() || !available.others_are_parked(worker, caller) {
            return false;
        }
        if !self.out_of_band.take_turn(worker) {
            return false;
        }
        available.hide(worker);
        fence(Ordering::SeqCst);
        let several = !self.out_of_band.is_single_worker();
        if self.anyone_waits()
            || !available.others_are_parked(worker, caller)
            || several && !available.idle.any()
        {
            self.end_out_of_band(worker);
            return false;
        }
        true
    }

    /// Gives the turn back: the worker's other threads can be woken again, and are for what came meanwhile.
    pub fn end_out_of_band(&self, worker: u16) {
        self.availability.show(worker);
        self.out_of_band.give_turn_back(worker);
        fence(Ordering::SeqCst);
        self.wake_for_all();
    }

    fn anyone_waits(&self) -> bool {
        self.ring.waiting() > 0 || self.out_of_band.queue_waits()
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
