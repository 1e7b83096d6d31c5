//! A slot's state word: phase, owner and publication in one, so that one compare-and-swap changes hands. A process that
//! dies between two steps leaves nothing half done.

use crate::sync::{AtomicU64, Line, Ordering};

/// The slot belongs to the front: free, or being filled.
pub const PHASE_FRONT: u64 = 0;
/// Published; any worker may claim it, the front may retract it.
pub const PHASE_READY: u64 = 1;
/// A thread works on it.
pub const PHASE_CLAIMED: u64 = 2;
/// The thread has finished; the front takes it back.
pub const PHASE_DONE: u64 = 3;

/// One publication of a slot: what the front publishes, and what a thread claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Index of the slot.
    pub slot: u16,
    /// Its publication.
    pub sequence: u32,
}

/// A slot's state, taken apart. Layout of the word: phase in bits 0..8, thread in 16..32, sequence in 32..64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// One of the `PHASE_*` constants; anything else was written by a broken worker.
    pub phase: u64,
    /// Index of the thread that holds the slot, when claimed or done.
    pub thread: u16,
    /// The publication this belongs to; the front counts it up at each publish.
    pub sequence: u32,
}

impl State {
    /// The state as the word that is compared and swapped.
    pub fn word(self) -> u64 {
        self.phase | u64::from(self.thread) << 16 | u64::from(self.sequence) << 32
    }

    /// The state in a word.
    pub fn of(word: u64) -> Self {
        Self {
            phase: word & 0xff,
            thread: (word >> 16) as u16,
            sequence: (word >> 32) as u32,
        }
    }
}

/// The state words of all slots.
#[derive(Clone, Copy)]
pub struct SlotStates<'a> {
    /// One word for each slot.
    pub words: &'a [Line<AtomicU64>],
}

impl SlotStates<'_> {
    /// The state of a slot, as it is now.
    pub fn get(self, slot: u16) -> State {
        State::of(self.words[usize::from(slot)].load(Ordering::Acquire))
    }

    /// Makes a filled slot ready. The front's side.
    pub(super) fn publish(self, publication: Claim) {
        let ready = word(PHASE_READY, 0, publication.sequence);
        self.words[usize::from(publication.slot)].store(ready, Ordering::Release);
    }

    /// Takes back a request that no thread has claimed. False when one has. The front's side.
    pub fn retract(self, slot: u16, sequence: u32) -> bool {
        let ready = word(PHASE_READY, 0, sequence);
        let front = word(PHASE_FRONT, 0, sequence);
        self.words[usize::from(slot)]
            .compare_exchange(ready, front, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    /// Gives the slot back to the front, whatever it held. The front's side.
    pub fn take_back(self, slot: u16, sequence: u32) {
        let front = word(PHASE_FRONT, 0, sequence);
        self.words[usize::from(slot)].store(front, Ordering::Release);
    }

    /// Claims a published request for a thread. False when it cannot be claimed, also where there is no such slot. A
    /// worker's side.
    pub(super) fn claim(self, claim: Claim, thread: u16) -> bool {
        let Some(state) = self.words.get(usize::from(claim.slot)) else {
            return false;
        };
        let ready = word(PHASE_READY, 0, claim.sequence);
        let claimed = word(PHASE_CLAIMED, thread, claim.sequence);
        state
            .compare_exchange(ready, claimed, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    /// Marks the request as finished; the caller notifies the front afterwards. False, with nothing changed, where the
    /// thread does not hold it any more. A worker's side.
    pub fn finish(self, claim: Claim, thread: u16) -> bool {
        let claimed = word(PHASE_CLAIMED, thread, claim.sequence);
        let done = word(PHASE_DONE, thread, claim.sequence);
        self.words[usize::from(claim.slot)]
            .compare_exchange(claimed, done, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }
}

fn word(phase: u64, thread: u16, sequence: u32) -> u64 {
    let state = State {
        phase,
        thread,
        sequence,
    };
    state.word()
}
