//! The front's side of the exchange: it fills slots, publishes them, and reads responses out.
//!
//! There is one owner. Whatever decides something (free slots, sequences, cursors, the ready ring's end) is kept
//! here, in the front's own memory; the region is only written to or checked. A word that no sound worker could have
//! written is reported by [`Front::corrupt`]. It never parses what it moves.

mod idle_slots;
mod inspect;

use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};

use crate::board::{PHASE_CLAIMED, PHASE_DONE, PHASE_READY};
use crate::region::{Geometry, Region};
use crate::response::{Kind, Malformed, Reader, put_word};
use crate::sync::Ordering;
pub use inspect::{Corrupt, Word};

/// Where a published request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// In the ready ring: nobody has it yet.
    Nobody,
    /// A worker's thread runs it.
    Running {
        /// The worker.
        worker: u16,
        /// Its thread.
        thread: u16,
    },
    /// A worker's thread has finished it.
    Done {
        /// The worker.
        worker: u16,
        /// Its thread.
        thread: u16,
    },
}

/// What the front itself knows of a slot.
#[derive(Clone, Copy, Default)]
struct Slot {
    sequence: u32,
    taken: u64,
    published: bool,
    /// Length of the request record.
    length: u32,
    /// Position of its entry in the ready ring.
    position: u64,
    /// The seat that was seen to hold the publication.
    seat: Option<u16>,
    abandoned: bool,
    memory: idle_slots::Memory,
}

impl Slot {
    fn reader(self, region: &Region, slot: u16) -> Reader<'_> {
        Reader {
            region,
            slot,
            sequence: self.sequence,
            taken: self.taken,
        }
    }
}

/// The front's side. Not shared: one task owns it.
pub struct Front {
    region: Region,
    bell: OwnedFd,
    tail: u64,
    /// The ready ring's start, as it was seen last.
    head: u64,
    /// What the workers were told: whether requests wait in the queue.
    queued: Cell<bool>,
    slots: Vec<Slot>,
    free: Vec<u16>,
    corrupt: Cell<Option<Corrupt>>,
}

impl Front {
    /// Makes a region and its doorbell.
    ///
    /// # Errors
    /// A geometry out of bounds, or no memory or descriptors.
    pub fn new(geometry: Geometry) -> io::Result<Self> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Self::with_bell(geometry, bell)
    }

    /// Makes another region, whose workers ring the same doorbell.
    ///
    /// # Errors
    /// No memory or descriptors.
    pub fn beside(&self, geometry: Geometry) -> io::Result<Self> {
        Self::with_bell(geometry, self.bell.try_clone()?)
    }

    /// Makes a fresh region of the same sizes, for workers that are still to come. Its publications continue those of
    /// this one, so that no message about an old one is taken for a new one.
    ///
    /// # Errors
    /// No memory or descriptors.
    pub fn recreate(&self) -> io::Result<Self> {
        let mut fresh = self.beside(self.geometry())?;
        for (number, (slot, old)) in (0..).zip(fresh.slots.iter_mut().zip(&self.slots)) {
            slot.sequence = old.sequence;
            fresh.region.board().take_back(number, old.sequence);
        }
        fresh.tell_queue(self.queued.get());
        Ok(fresh)
    }

    fn with_bell(geometry: Geometry, bell: OwnedFd) -> io::Result<Self> {
        let region = Region::create(geometry)?;
        let count = region.geometry().slots;
        // The lowest slots are used first, so that a quiet server touches little memory.
        let free = (0..count).rev().collect();
        Ok(Self {
            region,
            bell,
            tail: 0,
            head: 0,
            queued: Cell::new(false),
            slots: vec![Slot::default(); usize::from(count)],
            free,
            corrupt: Cell::new(None),
        })
    }

    /// The memory file and the doorbell, for the workers.
    pub fn files(&self) -> (BorrowedFd<'_>, BorrowedFd<'_>) {
        (self.region.file(), self.bell.as_fd())
    }

    /// The sizes of the region.
    pub fn geometry(&self) -> Geometry {
        self.region.geometry()
    }

    /// Slots that nobody holds.
    pub fn free_slots(&self) -> usize {
        self.free.len()
    }

    /// Takes a free slot, or none.
    ///
    /// The one that was given back last comes first: those that a burst needed stay unused, and their memory is given
    /// back.
    pub fn acquire(&mut self) -> Option<u16> {
        let slot = self.free.pop()?;
        self.slots[usize::from(slot)].memory = idle_slots::Memory::Used;
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
    /// False when the ready ring has no place just now: keep the slot and try after the next completion. False also
    /// where the region is corrupt.
    pub fn publish(&mut self, slot: u16, length: u32) -> bool {
        self.inspect_ring();
        if self.corrupt.get().is_some() {
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
        if !self.region.board().publish(&mut self.tail, slot, sequence) {
            return false;
        }
        *own = Slot {
            sequence,
            published: true,
            length,
            position,
            memory: own.memory,
            ..Slot::default()
        };
        true
    }

    /// Takes back a published request that no worker has claimed; the slot is the front's again.
    pub fn retract(&mut self, slot: u16) -> bool {
        let own = &mut self.slots[usize::from(slot)];
        if own.published && self.region.board().retract(slot, own.sequence) {
            own.published = false;
            return true;
        }
        false
    }

    /// Who holds a published request. A state that no sound worker could have written counts as nobody's, and makes
    /// the region corrupt.
    pub fn holder(&self, slot: u16) -> Holder {
        let own = self.slots[usize::from(slot)];
        let state = self.region.board().state(slot);
        let geometry = self.region.geometry();
        let (worker, thread) = (state.seat / geometry.threads, state.seat % geometry.threads);
        if !own.published {
            return Holder::Nobody;
        }
        if state.sequence == own.sequence && worker < geometry.max_workers() {
            match state.phase {
                PHASE_CLAIMED => return Holder::Running { worker, thread },
                PHASE_DONE => return Holder::Done { worker, thread },
                PHASE_READY => return Holder::Nobody,
                _ => {}
            }
        }
        self.report(Word::State, Some(slot), state.word());
        Holder::Nobody
    }

    /// The slot's current publication.
    pub fn sequence(&self, slot: u16) -> u32 {
        self.slots[usize::from(slot)].sequence
    }

    /// When the slot's request was claimed and when it was finished: nanoseconds of `CLOCK_MONOTONIC`, 0
    /// for not yet.
    pub fn times(&self, slot: u16) -> (u64, u64) {
        let words = self.region.words(slot);
        (
            words.claimed_at.load(Ordering::Relaxed),
            words.finished_at.load(Ordering::Relaxed),
        )
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
            self.report(Word::Frame, Some(slot), put);
        }
        frame
    }

    /// Whether frames of a published request are there that were not taken.
    pub fn has_frames(&self, slot: u16) -> bool {
        let own = self.slots[usize::from(slot)];
        own.published && own.reader(&self.region, slot).filled() > 0
    }

    /// Whether a published request was finished, or has frames that were not taken.
    pub fn has_news(&self, slot: u16) -> bool {
        matches!(self.holder(slot), Holder::Done { .. }) || self.has_frames(slot)
    }

    /// Whether this thread of a worker has not looked for work since its last request.
    pub fn is_away(&self, worker: u16, thread: u16) -> bool {
        let board = self.region.board();
        board.is_away(worker * board.threads + thread)
    }

    /// Tells the worker that nobody wants the rest of a response; it ends early.
    pub fn abandon(&mut self, slot: u16) {
        self.slots[usize::from(slot)].abandoned = true;
        self.region.words(slot).abandoned.store(1, Ordering::SeqCst);
        self.region.room(slot).wake();
    }

    /// Makes a slot free. It must be done, retracted, or its worker dead.
    pub fn release(&mut self, slot: u16) {
        let own = &mut self.slots[usize::from(slot)];
        own.published = false;
        self.region.board().take_back(slot, own.sequence);
        self.free.push(slot);
    }

    /// Calls `each` for every slot that has news, once.
    pub fn completed(&self, mut each: impl FnMut(u16)) {
        let board = self.region.board();
        for word in 0..board.completed.len() {
            let mut bits = board.take_completed(word);
            while bits != 0 {
                let slot = word * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                if slot < self.slots.len() {
                    each(slot as u16);
                }
            }
        }
    }

    /// Says that the front is about to sleep until the doorbell; false when it must not. See
    /// [`crate::board::Board::park`].
    pub fn park(&self) -> bool {
        self.region.board().park()
    }

    /// Says that the front is awake.
    pub fn unpark(&self) {
        self.region.board().unpark();
    }

    /// Says whether requests wait that have no slot yet. Only needed when that changes.
    pub fn tell_queue(&self, waits: bool) {
        self.queued.set(waits);
        self.region.board().tell_queue(waits);
    }

    /// Rings the front's own doorbell, so that it does not sleep: it has more to do than it took in one turn.
    pub fn ring(&self) {
        // A full eventfd (EAGAIN) has rung already.
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }

    /// Wakes one more idle seat, where nobody has come for a request in time, and repairs what a dead or broken worker
    /// left of the idle bits.
    pub fn nudge(&self) {
        self.region.board().nudge();
    }

    /// Whether a thread of the worker was woken and has not come.
    pub fn is_called(&self, worker: u16) -> bool {
        self.region.board().is_called(worker)
    }

    /// Whether a thread of the worker neither waits for a request nor looks for one.
    pub fn is_at_work(&self, worker: u16) -> bool {
        self.region.board().is_at_work(worker)
    }

    /// Prepares a worker's place for a new process.
    pub fn open(&self, worker: u16) {
        self.region.board().stops[usize::from(worker)].store(0, Ordering::SeqCst);
    }

    /// Asks a worker to finish what it has and exit.
    pub fn stop(&self, worker: u16) {
        self.region.board().stop(worker);
    }

    /// Forgets a dead worker and returns the slots that it held, in no order. They stay published: read
    /// what it had written, then [`Front::release`] them.
    pub fn reclaim_worker(&self, worker: u16) -> Vec<u16> {
        self.region.board().reclaim_worker(worker);
        (0..self.slots.len() as u16)
            .filter(
                |&slot| matches!(self.holder(slot), Holder::Running { worker: holder, .. } if holder == worker),
            )
            .collect()
    }
}
