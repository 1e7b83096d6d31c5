//! Chunks of a response's body in memory: counted by what they occupy and not by what they carry. Small ones are put
//! together, so that a body of single bytes takes little more than its length.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;

use crate::shared_bytes::{Share, SharedBytes};

/// Small chunks are put together up to so many bytes.
const TOGETHER: usize = 16 * 1024;
/// But only once so many wait: a client that keeps up gets them as they came.
const APART: usize = 16;
/// Bytes that a chunk takes in addition to its content: its place in the queue, and what the allocator rounds up.
const OVERHEAD: usize = 64;

/// A queue of bytes.
#[derive(Default)]
pub struct Chunks {
    queue: VecDeque<Vec<u8>>,
    bytes: usize,
    share: Share,
}

impl Chunks {
    /// Bytes of the body that are here.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Whether they are more than one piece.
    pub fn is_in_pieces(&self) -> bool {
        self.queue.len() > 1
    }

    /// The bytes, in pieces and in order.
    pub fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        self.queue.iter().map(Vec::as_slice)
    }

    /// Memory that they occupy, in bytes.
    pub fn held(&self) -> usize {
        self.share.bytes()
    }

    /// Appends a chunk, and counts it in `memory`.
    pub fn push(&mut self, memory: &Arc<SharedBytes>, chunk: Vec<u8>) {
        self.bytes += chunk.len();
        let many = self.queue.len() >= APART;
        let held = match self.queue.back_mut() {
            Some(last) if many && last.len() + chunk.len() <= TOGETHER => {
                let before = last.capacity();
                last.extend_from_slice(&chunk);
                self.share.bytes() + last.capacity() - before
            }
            _ => {
                let held = self.share.bytes() + cost(&chunk);
                self.queue.push_back(chunk);
                held
            }
        };
        self.share.set(memory, held);
    }

    /// The first bytes that are left.
    pub fn pop(&mut self) -> Option<Bytes> {
        let chunk = self.queue.pop_front()?;
        self.bytes -= chunk.len();
        self.share.shrink(cost(&chunk));
        Some(Bytes::from(chunk))
    }

    /// All that is left, in one piece.
    pub fn pop_all(&mut self) -> Option<Bytes> {
        if self.queue.len() <= 1 {
            return self.pop();
        }
        let mut whole = Vec::with_capacity(self.bytes);
        for chunk in self.queue.drain(..) {
            whole.extend_from_slice(&chunk);
        }
        self.clear();
        Some(Bytes::from(whole))
    }

    /// Discards all bytes.
    pub fn clear(&mut self) {
        if self.queue.capacity() > APART {
            self.queue = VecDeque::new();
        }
        // A small queue keeps its memory for the next response.
        self.queue.clear();
        self.bytes = 0;
        self.share.clear();
    }
}

/// The memory that a chunk occupies.
fn cost(chunk: &Vec<u8>) -> usize {
    chunk.capacity() + OVERHEAD
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_bytes_take_little_more_memory_than_their_number() {
        let memory = SharedBytes::new(usize::MAX);
        let mut chunks = Chunks::default();
        for at in 0..1_000_000_u32 {
            chunks.push(&memory, vec![at as u8]);
        }
        assert_eq!(chunks.bytes(), 1_000_000);
        let occupied: usize = chunks.queue.iter().map(Vec::capacity).sum();
        assert!(occupied < 1_100_000, "{occupied}");
        assert!(chunks.queue.len() < 100);
        assert!(chunks.held() >= occupied && memory.held() == chunks.held());
        let mut at = 0_u32;
        while let Some(piece) = chunks.pop() {
            for byte in piece {
                assert_eq!(byte, at as u8);
                at += 1;
            }
        }
        assert_eq!((at, chunks.bytes(), memory.held()), (1_000_000, 0, 0));
    }

    #[test]
    fn large_chunks_are_kept_as_they_came_and_taken_whole_in_order() {
        let memory = SharedBytes::new(usize::MAX);
        let mut chunks = Chunks::default();
        for piece in [vec![1; 100_000], vec![2; 10], vec![3; 100_000]] {
            chunks.push(&memory, piece);
        }
        assert_eq!(chunks.queue.len(), 3);
        assert!(memory.held() >= 200_010);
        let whole = chunks.pop_all().expect("all of it");
        assert_eq!(whole.len(), 200_010);
        assert_eq!((whole[0], whole[100_005], whole[200_009]), (1, 2, 3));
        assert_eq!(memory.held(), 0);
        assert!(chunks.pop_all().is_none());
    }
}
