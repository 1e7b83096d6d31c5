//! The response ring: frames that a worker writes into its slot and the front reads out.
//!
//! A frame is eight bytes (kind `u32`, length `u32`, little endian) and its payload, padded to eight.
//! A response is any number of [`Kind::Hints`], then [`Kind::Head`], then chunks or one file, then
//! [`Kind::End`]; or [`Kind::Error`] or [`Kind::Hijacked`] where the application went another way. This module moves bytes; it
//! gives them no meaning, and checks that no length points outside.

use std::ptr::NonNull;

use crate::region::Region;
use crate::sync::{AtomicU32, Ordering, fence};

const FRAME: usize = 8;

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
    /// The response is complete. Empty.
    End = 5,
    /// The application failed; text for the log: class and message in the first line, then the backtrace.
    Error = 6,
    /// The worker gives up on a response that has begun. Empty.
    Abort = 7,
    /// The application took the connection: the socket comes by the control message `Hijack`. Empty.
    Hijacked = 8,
}

impl Kind {
    fn of(number: u32) -> Option<Self> {
        use Kind::*;
        [Head, Hints, Chunk, File, End, Error, Abort, Hijacked]
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
    /// Nobody wants the response any more: the client left, or the request's time is over.
    #[error("the client is gone")]
    Abandoned,
    /// The ring is full and the caller did not want to wait.
    #[error("the response ring is full")]
    Full,
}

/// The worker's end of one slot's ring.
pub struct Writer<'a> {
    region: &'a Region,
    slot: u16,
    put: u64,
}

impl<'a> Writer<'a> {
    pub(crate) fn new(region: &'a Region, slot: u16) -> Self {
        Self {
            region,
            slot,
            put: 0,
        }
    }

    /// Goes on where `put` bytes have been written. For callers that can't keep the writer itself.
    pub(crate) fn resume(region: &'a Region, slot: u16, put: u64) -> Self {
        Self { region, slot, put }
    }

    /// Bytes written so far.
    pub fn put(&self) -> u64 {
        self.put
    }

    /// The longest payload that a single frame may have.
    pub fn longest(&self) -> usize {
        self.capacity() / 2 - FRAME
    }

    /// Puts a frame made of several parts into the ring, without telling the front.
    ///
    /// # Errors
    /// [`WriteError::Full`] when there is no room now, [`WriteError::TooLarge`] when there never is,
    /// [`WriteError::Abandoned`] when nobody reads.
    pub fn try_frame(&mut self, kind: Kind, parts: &[&[u8]]) -> Result<(), WriteError> {
        let words = self.region.words(self.slot);
        if words.abandoned.load(Ordering::Relaxed) != 0 {
            return Err(WriteError::Abandoned);
        }
        let length: usize = parts.iter().map(|part| part.len()).sum();
        if length > self.longest() {
            return Err(WriteError::TooLarge(self.longest()));
        }
        let need = (FRAME + length).next_multiple_of(FRAME);
        if need > self.room() {
            return Err(WriteError::Full);
        }
        let mut head = [0; FRAME];
        head[..4].copy_from_slice(&(kind as u32).to_le_bytes());
        head[4..].copy_from_slice(&(length as u32).to_le_bytes());
        let mut at = self.put;
        for part in std::iter::once(&head[..]).chain(parts.iter().copied()) {
            self.copy_in(at, part);
            at += part.len() as u64;
        }
        self.put += need as u64;
        Ok(())
    }

    /// Makes what was written visible to the front. The caller then notifies it.
    pub fn commit(&self) {
        self.region
            .words(self.slot)
            .put
            .store(self.put, Ordering::Release);
    }

    /// Sleeps until the front has taken something, the response is abandoned, or `interrupted` is set.
    /// What was written must be committed and notified first. Without the GVL.
    pub fn wait_for_room(&self, interrupted: &AtomicU32) {
        let words = self.region.words(self.slot);
        let seen = words.room.load(Ordering::SeqCst);
        words.wants_room.store(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let free = words.taken.load(Ordering::SeqCst) == self.put;
        if !free
            && self.room() < self.capacity() / 2
            && words.abandoned.load(Ordering::SeqCst) == 0
            && interrupted.load(Ordering::SeqCst) == 0
        {
            words.room.wait(seen);
        }
    }

    fn capacity(&self) -> usize {
        self.region.geometry().response_bytes as usize
    }

    fn room(&self) -> usize {
        let taken = self.region.words(self.slot).taken.load(Ordering::Acquire);
        self.capacity() - (self.put - taken.min(self.put)) as usize
    }

    fn copy_in(&self, at: u64, bytes: &[u8]) {
        let ring = self.region.response_ring(self.slot);
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

/// What a worker wrote makes no sense; the worker is not to be trusted further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a worker wrote a malformed response")]
pub struct Malformed;

/// The front's end of one slot's ring. `taken` is the front's own cursor.
pub(crate) struct Reader<'a> {
    pub(crate) region: &'a Region,
    pub(crate) slot: u16,
    pub(crate) taken: u64,
}

impl Reader<'_> {
    /// Takes the next frame: its kind, and its payload appended to `into`.
    pub(crate) fn frame(&mut self, into: &mut Vec<u8>) -> Result<Option<Kind>, Malformed> {
        let words = self.region.words(self.slot);
        let capacity = self.region.geometry().response_bytes as usize;
        let put = words.put.load(Ordering::Acquire);
        let filled = usize::try_from(put.wrapping_sub(self.taken)).map_err(|_| Malformed)?;
        if filled > capacity {
            return Err(Malformed);
        }
        if filled < FRAME {
            return Ok(None);
        }
        let mut head = [0; FRAME];
        self.copy_out(self.taken, head.as_mut_ptr(), FRAME);
        let kind =
            Kind::of(u32::from_le_bytes([head[0], head[1], head[2], head[3]])).ok_or(Malformed)?;
        let length = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
        let need = (FRAME + length).next_multiple_of(FRAME);
        if need > filled {
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
        words.taken.store(self.taken, Ordering::Release);
        fence(Ordering::SeqCst);
        if words.wants_room.load(Ordering::Relaxed) != 0 {
            wake_writer(self.region, self.slot);
        }
        Ok(Some(kind))
    }

    fn copy_out(&self, at: u64, into: *mut u8, length: usize) {
        let ring = self.region.response_ring(self.slot);
        let (start, first) = wrap(at, length, self.region.geometry().response_bytes as usize);
        // SAFETY: `wrap` keeps both pieces inside the ring and the caller has room for `length` bytes. A
        // hostile worker may write meanwhile: then the bytes are garbage, and they are checked as such.
        unsafe {
            std::ptr::copy_nonoverlapping(ring.add(start).as_ptr(), into, first);
            std::ptr::copy_nonoverlapping(ring.as_ptr(), into.add(first), length - first);
        }
    }
}

/// Wakes a worker that waits for room in its ring.
pub(crate) fn wake_writer(region: &Region, slot: u16) {
    let words = region.words(slot);
    words.wants_room.store(0, Ordering::SeqCst);
    words.room.fetch_add(1, Ordering::SeqCst);
    words.room.wake();
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
