//! The ready ring: in which order published requests are claimed, first in, first out.
//!
//! Its entries are hints. What counts is the slot's state: an entry whose slot cannot be claimed is stale and is
//! stepped over. (A textbook ring for several producers and consumers wedges when a process dies between its claim and
//! its publish.)

use super::slot_states::Claim;
use crate::sync::{AtomicU64, Line, Ordering};

/// The words of the ready ring.
#[derive(Clone, Copy)]
pub struct ReadyRing<'a> {
    /// Entries `sequence << 32 | slot`; a power of two long.
    pub entries: &'a [AtomicU64],
    /// Next position to claim; moved by the thread that steps over an entry.
    pub head: &'a Line<AtomicU64>,
    /// Next position to publish; written by the front only.
    pub tail: &'a Line<AtomicU64>,
}

impl ReadyRing<'_> {
    /// Whether an entry can be pushed at `tail`.
    pub(super) fn has_room(self, tail: u64) -> bool {
        tail.wrapping_sub(self.head.load(Ordering::Acquire)) < self.len()
    }

    /// Adds an entry at `tail`, which is the front's own copy of the word.
    pub(super) fn push(self, tail: &mut u64, claim: Claim) {
        let entry = u64::from(claim.sequence) << 32 | u64::from(claim.slot);
        self.entries[self.position(*tail)].store(entry, Ordering::Release);
        *tail += 1;
        self.tail.store(*tail, Ordering::SeqCst);
    }

    /// The oldest entry and its position; `None` when there is none.
    pub(super) fn oldest(self) -> Option<(u64, Claim)> {
        let head = self.head.load(Ordering::Acquire);
        if head == self.tail.load(Ordering::Acquire) {
            return None;
        }
        let entry = self.entries[self.position(head)].load(Ordering::Acquire);
        let claim = Claim {
            slot: entry as u16,
            sequence: (entry >> 32) as u32,
        };
        Some((head, claim))
    }

    /// Steps over the entry at `head`, where no other thread has done so.
    pub(super) fn step_over(self, head: u64) {
        let next = head.wrapping_add(1);
        let _ = (self.head).compare_exchange(head, next, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// Number of entries: an upper bound of the requests that wait, since entries can be stale. Never more than the
    /// ring holds, whatever a broken worker wrote into head and tail.
    pub(crate) fn waiting(self) -> u64 {
        // The head first: it never passes the tail, so the difference can't be negative.
        let head = self.head.load(Ordering::SeqCst);
        let waiting = self.tail.load(Ordering::SeqCst).saturating_sub(head);
        waiting.min(self.len())
    }

    /// The most entries it holds.
    pub(crate) fn len(self) -> u64 {
        self.entries.len() as u64
    }

    fn position(self, at: u64) -> usize {
        (at as usize) & (self.entries.len() - 1)
    }
}
