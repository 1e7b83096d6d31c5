//! The front's side of the exchange: it fills slots, publishes them, and reads responses out.
//!
//! There is one owner. Whatever decides something (free slots, sequences, cursors, the ready ring's end) is kept
//! here, in the front's own memory; the region is only written to or checked. A word that no sound worker could have
//! written is reported by [`Front::corrupt`]. It never parses what it moves.

mod idle_memory;
mod inspect;
mod publication;
mod slot;

use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use crate::coordination::{Completions, Coordination};
use crate::doorbell::Doorbell;
use crate::region::{Geometry, Region};
use crate::response::{Kind, Malformed, put_word};
use crate::sync::Ordering;
use idle_memory::IdleMemory;
pub use inspect::{Corrupt, Word};
use inspect::{Findings, Inspection};
pub use publication::{Holder, Publication};
use slot::Slot;

/// The front's side. Not shared: one task owns it.
pub struct Front {
    region: Region,
    doorbell: Doorbell,
    /// The ready ring's end.
    tail: u64,
    /// The ready ring's start, as it was seen last.
    head: u64,
    /// What the workers were told: whether requests wait in the queue.
    queue_waits: Cell<bool>,
    /// The same: whether a single worker is to serve.
    single_worker: Cell<bool>,
    /// The same: how many threads of each of them are to have no request.
    resting: Cell<u16>,
    /// What the front itself knows of each slot.
    slots: Vec<Slot>,
    /// Free slots; the last one is taken first.
    free: Vec<u16>,
    memory: IdleMemory,
    findings: Findings,
}

impl Front {
    /// Makes a region with a doorbell of its own.
    ///
    /// # Errors
    /// A geometry out of bounds, or no memory or descriptors.
    pub fn new(geometry: Geometry) -> io::Result<Self> {
        Self::with_doorbell(geometry, Doorbell::new()?)
    }

    /// Makes a region whose workers ring this doorbell, which may be that of another region too.
    ///
    /// # Errors
    /// A geometry out of bounds, or no memory or descriptors.
    pub fn with_doorbell(geometry: Geometry, doorbell: Doorbell) -> io::Result<Self> {
        let region = Region::create(geometry)?;
        let count = region.geometry().slots;
        let front = Self {
            region,
            doorbell,
            tail: 0,
            head: 0,
            queue_waits: Cell::new(false),
            single_worker: Cell::new(false),
            resting: Cell::new(0),
            slots: vec![Slot::default(); usize::from(count)],
            // The lowest slots are used first, so that a quiet server touches little memory.
            free: (0..count).rev().collect(),
            memory: IdleMemory::new(count),
            findings: Findings::default(),
        };
        front.set_single_worker(geometry.workers == 1);
        Ok(front)
    }

    /// Makes a fresh region of the same sizes, for workers that are still to come. Its publications continue those of
    /// this one, so that no message about an old one is taken for a new one.
    ///
    /// # Errors
    /// No memory or descriptors.
    pub fn recreate(&self) -> io::Result<Self> {
        let mut fresh = Self::with_doorbell(self.geometry(), self.doorbell.try_clone()?)?;
        for (number, (slot, old)) in (0..).zip(fresh.slots.iter_mut().zip(&self.slots)) {
            slot.sequence = old.sequence;
            fresh.region.slot_states().take_back(number, old.sequence);
        }
        fresh.set_queue_waits(self.queue_waits.get());
        fresh.set_single_worker(self.single_worker.get());
        fresh.set_active_threads(self.geometry().threads - self.resting.get());
        Ok(fresh)
    }

    /// The doorbell, by which the front's sleep ends.
    pub fn doorbell(&self) -> &Doorbell {
        &self.doorbell
    }

    /// The memory file and the doorbell, for the workers.
    pub fn files(&self) -> (BorrowedFd<'_>, BorrowedFd<'_>) {
        (self.region.file(), self.doorbell.as_fd())
    }

    /// The sizes of the region.
    pub fn geometry(&self) -> Geometry {
        self.region.geometry()
    }

    /// Number of free slots.
    pub fn free_slots(&self) -> usize {
        self.free.len()
    }

    /// Takes a free slot, or none.
    ///
    /// The one that was given back last comes first: those that a burst needed stay unused, and their memory is given
    /// back.
    pub fn acquire(&mut self) -> Option<u16> {
        let slot = self.free.pop()?;
        self.memory.set_used(slot);
        Some(slot)
    }

    /// The request area of a slot that the front holds.
    pub fn request_area(&mut self, slot: u16) -> &mut [u8] {
        debug_assert!(!self.slots[usize::from(slot)].published);
        let length = self.region.geometry().request_bytes as usize;
        // SAFETY: inside the slot; the front holds it, so no worker has business there, and `&mut self`
        // keeps the front itself from a second view.
        unsafe { std::slice::from_raw_parts_mut(self.region.request_area(slot).as_ptr(), length) }
    }

    /// Publishes a slot whose request record is `length` bytes long.
    ///
    /// False when the ready ring has no room just now: keep the slot and try after the next completion. False also
    /// where the region is corrupt.
    pub fn publish(&mut self, slot: u16, length: u32) -> bool {
        let inspection = Inspection::new(&self.region, &self.findings);
        inspection.ring(self.tail, &mut self.head);
        if self.corrupt().is_some() {
            return false;
        }
        let own = &mut self.slots[usize::from(slot)];
        let words = self.region.words(slot);
        let sequence = own.sequence.wrapping_add(1);
        words.request_len.store(length, Ordering::Relaxed);
        words.taken.store(0, Ordering::Relaxed);
        words.put.store(put_word(sequence, 0), Ordering::Relaxed);
        words.abandoned.store(0, Ordering::Relaxed);
        words.room_wanted.store(0, Ordering::Relaxed);
        words.claimed_at.store(0, Ordering::Relaxed);
        words.finished_at.store(0, Ordering::Relaxed);
        let position = self.tail;
        let coordination = self.region.coordination();
        if !coordination.publish(&mut self.tail, slot, sequence) {
            return false;
        }
        *own = Slot {
            sequence,
            published: true,
            length,
            position,
            ..Slot::default()
        };
        true
    }

    /// Takes back a published request that no worker has claimed; the slot is the front's again.
    pub fn retract(&mut self, slot: u16) -> bool {
        let own = &mut self.slots[usize::from(slot)];
        if own.published && self.region.slot_states().retract(slot, own.sequence) {
            own.published = false;
            return true;
        }
        false
    }

    /// What is known of a slot's latest publication.
    pub fn publication(&self, slot: u16) -> Publication<'_> {
        Publication {
            region: &self.region,
            findings: &self.findings,
            number: slot,
            own: self.slots[usize::from(slot)],
        }
    }

    /// Takes the next frame of a published request; its payload is appended to `into`.
    ///
    /// # Errors
    /// [`Malformed`]: the worker that holds the slot is broken.
    pub fn frame(&mut self, slot: u16, into: &mut Vec<u8>) -> Result<Option<Kind>, Malformed> {
        let own = &mut self.slots[usize::from(slot)];
        if !own.published {
            return Ok(None);
        }
        let mut reader = own.reader(&self.region, slot);
        let frame = reader.frame(into);
        own.taken = reader.taken;
        if frame.is_err() {
            let put = self.region.words(slot).put.load(Ordering::Relaxed);
            self.findings.report(Word::Frame, Some(slot), put);
        }
        frame
    }

    /// Tells the worker that no client waits for the rest of a response; it ends early.
    pub fn abandon(&mut self, slot: u16) {
        self.slots[usize::from(slot)].abandoned = true;
        self.region.words(slot).abandoned.store(1, Ordering::SeqCst);
        self.region.room(slot).wake();
    }

    /// Makes a slot free. It must be done, retracted, or its worker dead.
    pub fn release(&mut self, slot: u16) {
        let own = &mut self.slots[usize::from(slot)];
        own.published = false;
        self.region.slot_states().take_back(slot, own.sequence);
        self.free.push(slot);
    }

    /// Says whether requests wait that have no slot yet. Only needed when that changes.
    pub fn set_queue_waits(&self, waits: bool) {
        self.queue_waits.set(waits);
        self.region.out_of_band().set_queue_waits(waits);
    }

    /// Says whether a single worker is to serve, which then works between requests although no other one is idle.
    pub fn set_single_worker(&self, single: bool) {
        self.single_worker.set(single);
        self.region.out_of_band().set_single_worker(single);
    }

    /// Sets how many threads of each worker take requests: at least one, at most all. Those beyond finish what they have.
    pub fn set_active_threads(&self, active: u16) {
        let threads = self.geometry().threads;
        let resting = threads - active.clamp(1, threads);
        self.resting.set(resting);
        self.region.coordination().set_resting(resting);
    }

    /// Wakes one more idle thread where requests wait: the thread that was woken for them may be stopped. Repairs what a dead
    /// or broken worker left of the idle bits.
    pub fn wake_another(&self) {
        if self.region.ready_ring().waiting() > 0 {
            let available = self.region.availability();
            available.repair();
            available.wake_one();
        }
    }

    /// Forgets a dead worker and returns the slots that it held, in no order. They stay published: read
    /// what it had written, then [`Front::release`] them.
    pub fn reclaim_worker(&self, worker: u16) -> Vec<u16> {
        self.region.coordination().reclaim_worker(worker);
        (0..self.slots.len() as u16)
            .filter(
                |&slot| matches!(self.publication(slot).holder(), Holder::Running { worker: holder, .. } if holder == worker),
            )
            .collect()
    }

    /// What the worker threads do, which worker is to stop, and whose turn it is to work between requests.
    pub fn coordination(&self) -> Coordination<'_> {
        self.region.coordination()
    }

    /// Which slots have news, and whether the front sleeps.
    pub fn completions(&self) -> Completions<'_> {
        self.region.completions()
    }

    /// Gives memory back to the system of slots that have been free for a while at `now`, in nanoseconds of the
    /// monotonic clock; of some in one call, for it takes some microseconds each.
    pub fn give_back_idle(&mut self, now: u64) {
        self.memory.give_back(&self.free, &self.region, now);
    }

    /// The word that was found wrong first, if any was.
    pub fn corrupt(&self) -> Option<Corrupt> {
        self.findings.first()
    }

    /// Looks at every word on which workers and front agree. Its cost grows with slots and worker threads: for a look
    /// in a while, not for each request.
    pub fn inspect(&mut self) -> Option<Corrupt> {
        // Only the front reads it: a worker that wrote at random could have filled it, and it would ring no more.
        self.doorbell.clear();
        let inspection = Inspection::new(&self.region, &self.findings);
        // Before the states: what the head has passed by now was claimed before.
        inspection.ring(self.tail, &mut self.head);
        for (number, own) in (0..).zip(&mut self.slots) {
            inspection.slot(number, own, self.head);
        }
        inspection.header();
        inspection.threads(self.resting.get());
        inspection.out_of_band(self.queue_waits.get(), self.single_worker.get());
        self.corrupt()
    }
}
