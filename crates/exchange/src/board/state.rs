//! A slot's state word: phase, owner and publication in one, so that one compare-and-swap changes hands.

/// The slot belongs to the front: free, or being filled.
pub const PHASE_FRONT: u64 = 0;
/// Published; any worker may claim it, the front may retract it.
pub const PHASE_READY: u64 = 1;
/// A seat works on it.
pub const PHASE_CLAIMED: u64 = 2;
/// The seat has finished; the front takes it back.
pub const PHASE_DONE: u64 = 3;

/// A slot's state, taken apart. Layout of the word: phase in bits 0..8, seat in 16..32, sequence in 32..64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// One of the `PHASE_*` constants; anything else was written by a broken worker.
    pub phase: u64,
    /// The seat that holds the slot, when claimed or done.
    pub seat: u16,
    /// The publication this belongs to; the front counts it up at each publish.
    pub sequence: u32,
}

impl State {
    /// The state as the word that is compared and swapped.
    pub fn word(self) -> u64 {
        self.phase | u64::from(self.seat) << 16 | u64::from(self.sequence) << 32
    }

    /// The state in a word.
    pub fn of(word: u64) -> Self {
        Self {
            phase: word & 0xff,
            seat: (word >> 16) as u16,
            sequence: (word >> 32) as u32,
        }
    }
}
