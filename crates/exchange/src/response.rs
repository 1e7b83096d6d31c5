//! The response ring: frames that a worker writes into its slot and the front reads out.
//!
//! A frame is sixteen bytes (kind, length, and sequence of the claim, each `u32`, little endian; then nothing) and its
//! payload, padded to eight. The word `put` carries the sequence as well: a thread that does not hold the claim can neither
//! make bytes visible nor have them taken for those of another request.
//! A response is any number of [`Kind::Hints`], then [`Kind::Head`], then chunks or one file, then
//! [`Kind::End`]; or [`Kind::Error`] or [`Kind::Hijacked`] where the application went another way. An
//! [`Kind::Error`] after the end is logged, and changes the response no more; a [`Kind::End`] after an error only says what
//! the request cost. This module moves bytes; it
//! gives them no meaning, and checks that no length points outside.

use std::ptr::NonNull;

use crate::coordination::{Claim, PHASE_CLAIMED};
use crate::region::Region;
use crate::sync::{AtomicU32, Ordering};

/// Bytes of a frame before its payload.
const FRAME: usize = 16;
/// What a frame's size is a multiple of.
const UNIT: usize = 8;

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Kind {
    /// Status and fields, see [`Head`].
    Head = 1,
    /// Fields of a 103 (Early Hints) response, coded as a head with status 103.
    Hints = 2,
    /// Bytes of the body.
    Chunk = 3,
    /// The path of a file that is the body; the front sends it.
    File = 4,
    /// The response is complete. Its payload says what it cost, see [`Measures`](crate::measures::Measures); empty where
    /// that was not measured.
    End = 5,
    /// The application failed; text for the log: class and message in the first line, then the backtrace.
    Error = 6,
    /// The worker gives up on a response that has begun. Empty.
    Abort = 7,
    /// The application took the connection: the socket comes by the control message `Hijack`. Empty.
    Hijacked = 8,
    /// An exception of the application, as JSON. Before the end; it changes nothing of the response.
    Exception = 9,
    /// What the application has counted (`Highball.metrics`), as JSON. Before the end; it changes nothing of the response.
    Counts = 10,
}

impl Kind {
    fn of(number: u32) -> Option<Self> {
        use Kind::*;
        [
            Head, Hints, Chunk, File, End, Error, Abort, Hijacked, Exception, Counts,
        ]
        .into_iter()
        .find(|&kind| kind as u32 == number)
    }
}

/// Why a frame could not be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// The frame is larger than the ring; chunks are split, so this is a head or a path.
    #[error("a response head larger than {0} bytes")]
    TooLarge(usize),
    /// No client waits for the response any more: the client left, or the request's time is over.
    #[error("the client is gone")]
    Abandoned,
    /// The ring is full and the caller did not want to wait.
    #[error("the response ring is full")]
    Full,
    /// The writer does not hold the claim any more: the request has ended, or was taken from its worker.
    #[error("the request is not this writer's any more")]
    NotClaimed,
}

/// The worker's end of one slot's ring, for as long as a thread holds the claim.
pub(crate) struct Writer<'a> {
    region: &'a Region,
    claim: Claim,
    thread: u16,
    put: u64,
}

impl<'a> Writer<'a> {
    /// Goes on where `put` bytes have been written under this claim.
    pub(crate) fn resume(region: &'a Region, claim: Claim, thread: u16, put: u64) -> Self {
        Self {
            region,
            claim,
            thread,
            put,
        }
    }

    /// Bytes written so far.
    pub(crate) fn put(&self) -> u64 {
        self.put
    }

    /// Puts a frame made of several parts into the ring, without telling the front.
    ///
    /// # Errors
    /// [`WriteError::Full`] when there is no room now, [`WriteError::TooLarge`] when there never is,
    /// [`WriteError::Abandoned`] when the front reads no more, [`WriteError::NotClaimed`] when the ring may be another request's.
    pub(crate) fn try_frame(&mut self, kind: Kind, parts: &[&[u8]]) -> Result<(), WriteError> {
        if !self.holds_claim() {
            return Err(WriteError::NotClaimed);
        }
        let words = self.region.words(self.claim.slot);
        if words.abandoned.load(Ordering::Relaxed) != 0 {
            return Err(WriteError::Abandoned);
        }
        let length: usize = parts.iter().map(|part| part.len()).sum();
        if length > longest(self.region) {
            return Err(WriteError::TooLarge(longest(self.region)));
        }
        let need = (FRAME + length).next_multiple_of(UNIT);
        if need > self.room() {
            return Err(WriteError::Full);
        }
        let mut head = [0; FRAME];
        head[..4].copy_from_slice(&(kind as u32).to_le_bytes());
        head[4..8].copy_from_slice(&(length as u32).to_le_bytes());
        head[8..12].copy_from_slice(&self.claim.sequence.to_le_bytes());
        let mut at = self.put;
        for part in std::iter::once(&head[..]).chain(parts.iter().copied()) {
            self.copy_in(at, part);
            at += part.len() as u64;
        }
        self.put += need as u64;
        Ok(())
    }

    /// Makes what was written visible to the front. The caller then notifies it. False, with nothing changed, where the
    /// ring is another request's.
    pub(crate) fn commit(&self) -> bool {
        let word = &self.region.words(self.claim.slot).put;
        let before = word.load(Ordering::Relaxed);
        let now = put_word(self.claim.sequence, self.put);
        sequence_of(before) == self.claim.sequence
            && (word.compare_exchange(before, now, Ordering::Release, Ordering::Relaxed)).is_ok()
    }

    /// Sleeps until the front has taken something, the response is abandoned or has ended, or `interrupted` is set.
    /// What was written must be committed and notified first. Without the GVL.
    pub(crate) fn wait_for_room(&self, interrupted: &AtomicU32) {
        let room = self.region.room(self.claim.slot);
        room.wait(self.put, self.capacity() as u64, interrupted, || {
            self.holds_claim()
        });
    }

    /// Whether the slot still is this thread's. It changes hands under a living thread only when the front takes its worker
    /// for dead.
    fn holds_claim(&self) -> bool {
        let state = self.region.slot_states().get(self.claim.slot);
        (state.phase, state.thread, state.sequence)
            == (PHASE_CLAIMED, self.thread, self.claim.sequence)
    }

    fn capacity(&self) -> usize {
        self.region.geometry().response_bytes as usize
    }

    fn room(&self) -> usize {
        let words = self.region.words(self.claim.slot);
        let taken = words.taken.load(Ordering::Acquire);
        let filled = (self.put - taken.min(self.put)) as usize;
        self.capacity().saturating_sub(filled)
    }

    fn copy_in(&self, at: u64, bytes: &[u8]) {
        let ring = self.region.response_ring(self.claim.slot);
        let (start, first) = wrap(at, bytes.len(), self.capacity());
        // SAFETY: `wrap` keeps both pieces inside the ring; the front does not read what is not committed.
        unsafe {
            ring.add(start)
                .copy_from_nonoverlapping(NonNull::from(bytes).cast(), first);
            ring.copy_from_nonoverlapping(
                NonNull::from(&bytes[first..]).cast(),
                bytes.len() - first,
            );
        }
    }
}

/// The longest payload that a single frame may have: with its head, half of the ring.
pub(crate) fn longest(region: &Region) -> usize {
    region.geometry().response_bytes as usize / 2 - FRAME
}

/// The word that says how far a claim's writer has come: its sequence, and the low half of the bytes it has put. The ring
/// is shorter than that half can count, so positions are told apart across its wrap.
pub(crate) fn put_word(sequence: u32, put: u64) -> u64 {
    u64::from(sequence) << 32 | u64::from(put as u32)
}

pub(crate) fn sequence_of(put_word: u64) -> u32 {
    (put_word >> 32) as u32
}

/// What a worker wrote makes no sense; the worker is not to be trusted further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a worker wrote a malformed response")]
pub struct Malformed;

/// The front's end of one slot's ring. `sequence` and `taken` are the front's own: its publication, its cursor.
pub(crate) struct Reader<'a> {
    pub(crate) region: &'a Region,
    pub(crate) slot: u16,
    pub(crate) sequence: u32,
    pub(crate) taken: u64,
}

impl Reader<'_> {
    /// Bytes that were made visible and not taken yet, as the worker says. None under another claim's sequence.
    pub(crate) fn filled(&self) -> usize {
        let put = self.region.words(self.slot).put.load(Ordering::Acquire);
        match sequence_of(put) == self.sequence {
            true => (put as u32).wrapping_sub(self.taken as u32) as usize,
            false => 0,
        }
    }

    /// Takes the next frame: its kind, and its payload appended to `into`.
    pub(crate) fn frame(&mut self, into: &mut Vec<u8>) -> Result<Option<Kind>, Malformed> {
        let filled = self.filled();
        if filled > self.region.geometry().response_bytes as usize {
            return Err(Malformed);
        }
        if filled < FRAME {
            return Ok(None);
        }
        let mut head = [0; FRAME];
        self.copy_out(self.taken, head.as_mut_ptr(), FRAME);
        let number =
            |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let kind = Kind::of(number(0)).ok_or(Malformed)?;
        let length = number(4) as usize;
        let need = (FRAME + length).next_multiple_of(UNIT);
        if need > filled || number(8) != self.sequence {
            return Err(Malformed);
        }
        into.reserve(length);
        self.copy_out(
            self.taken + FRAME as u64,
            into.spare_capacity_mut().as_mut_ptr().cast(),
            length,
        );
        // SAFETY: reserved and filled just above.
        unsafe { into.set_len(into.len() + length) };
        self.taken += need as u64;
        self.region.room(self.slot).took(self.taken);
        Ok(Some(kind))
    }

    fn copy_out(&self, at: u64, into: *mut u8, length: usize) {
        let ring = self.region.response_ring(self.slot);
        let (start, first) = wrap(at, length, self.region.geometry().response_bytes as usize);
        // SAFETY: `wrap` keeps both pieces inside the ring and the caller has room for `length` bytes. A
        // hostile worker may write meanwhile: then the bytes are garbage, and they are checked as such.
        unsafe {
            std::ptr::copy_nonoverlapping(ring.add(start).as_ptr(), into, first);
            if first < length {
                std::ptr::copy_nonoverlapping(ring.as_ptr(), into.add(first), length - first);
            }
        }
    }
}

/// Where `length` bytes from position `at` lie: the start, and how many come before the ring's end.
fn wrap(at: u64, length: usize, capacity: usize) -> (usize, usize) {
    let start = (at % capacity as u64) as usize;
    (start, length.min(capacity - start))
}

/// A head's payload under construction, and the reader of one.
///
/// Layout: status `u16`, count of fields `u16`; a field is name length `u16`, two bytes of nothing, value length `u32`, name, value.
#[derive(Default)]
pub struct Head {
    bytes: Vec<u8>,
}

impl Head {
    /// Begins a head, keeping the memory of the one before.
    pub fn begin(&mut self, status: u16) {
        self.bytes.clear();
        self.bytes.extend_from_slice(&status.to_le_bytes());
        self.bytes.extend_from_slice(&[0; 2]);
    }

    /// Adds a field.
    pub fn field(&mut self, name: &[u8], value: &[u8]) {
        self.bytes
            .extend_from_slice(&(name.len() as u16).to_le_bytes());
        self.bytes.extend_from_slice(&[0; 2]);
        self.bytes
            .extend_from_slice(&(value.len() as u32).to_le_bytes());
        self.bytes.extend_from_slice(name);
        self.bytes.extend_from_slice(value);
        let count = u16::from_le_bytes([self.bytes[2], self.bytes[3]]).saturating_add(1);
        self.bytes[2..4].copy_from_slice(&count.to_le_bytes());
    }

    /// The payload.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Reads a head's payload: its status and its fields as ranges into `payload`.
    ///
    /// # Errors
    /// [`Malformed`] when a length points outside.
    pub fn parse(
        payload: &[u8],
        mut each: impl FnMut(std::ops::Range<usize>, std::ops::Range<usize>),
    ) -> Result<u16, Malformed> {
        let number = |at: usize| {
            payload
                .get(at..at + 2)
                .map(|b| u16::from_le_bytes([b[0], b[1]]))
                .ok_or(Malformed)
        };
        let (status, count) = (number(0)?, number(2)?);
        let mut at = 4;
        for _ in 0..count {
            let name = usize::from(number(at)?);
            let value = usize::from(number(at + 4)?) | usize::from(number(at + 6)?) << 16;
            let name = at + 8..at + 8 + name;
            let value = name.end..name.end + value;
            at = value.end;
            if at > payload.len() {
                return Err(Malformed);
            }
            each(name, value);
        }
        Ok(status)
    }
}

#[cfg(test)]
mod tests;
