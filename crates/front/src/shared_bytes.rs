//! Bytes that many clients hold together, and their limit: responses in memory, files of spools. Where a server has several
//! applications, those of each are a part of them, with a limit of its own. It moves no bytes and refuses none: a caller that
//! would hold more asks first. Several threads may count at once.

use std::cmp::Ordering::{Equal, Greater, Less};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Number of bytes that every response may hold although memory is short: none goes to a disk for lack of less.
pub(crate) const ALWAYS_HELD: usize = 16 * 1024;

/// An application may hold so many times as much as all together leave free. So one alone gets four fifths of all, two that
/// want everything get four ninths each, and there is always something left for one that comes later.
const PART_OF_REST: usize = 4;

/// Counts the bytes that all shares hold.
#[derive(Debug)]
pub struct SharedBytes {
    held: AtomicUsize,
    limit: AtomicUsize,
    /// What this is a part of.
    whole: Option<Arc<SharedBytes>>,
}

impl SharedBytes {
    /// Returns a counter at 0, which is short from `limit` bytes on.
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self {
            held: AtomicUsize::new(0),
            limit: AtomicUsize::new(limit),
            whole: None,
        })
    }

    /// Returns a counter at 0 for one of several applications: what it counts counts in `whole` too, and it is short when
    /// that is, or when it holds more than its part of what is left.
    pub fn part_of(whole: &Arc<Self>) -> Arc<Self> {
        Arc::new(Self {
            held: AtomicUsize::new(0),
            limit: AtomicUsize::new(usize::MAX),
            whole: Some(Arc::clone(whole)),
        })
    }

    /// Number of bytes that are held.
    pub fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// Whether the limit is reached.
    pub fn is_short(&self) -> bool {
        match &self.whole {
            None => self.held() >= self.limit.load(Ordering::Relaxed),
            Some(whole) => whole.is_short() || self.held() >= whole.part(0),
        }
    }

    /// Whether `more` bytes would exceed the limit.
    pub fn lacks(&self, more: usize) -> bool {
        let then = self.held().saturating_add(more);
        match &self.whole {
            None => then > self.limit.load(Ordering::Relaxed),
            Some(whole) => whole.lacks(more) || then > whole.part(more),
        }
    }

    /// What an application may hold when `more` bytes are held than now.
    fn part(&self, more: usize) -> usize {
        let held = self.held().saturating_add(more);
        let rest = self.limit.load(Ordering::Relaxed).saturating_sub(held);
        rest.saturating_mul(PART_OF_REST)
    }

    fn add(&self, bytes: usize) {
        self.held.fetch_add(bytes, Ordering::Relaxed);
        if let Some(whole) = &self.whole {
            whole.add(bytes);
        }
    }

    fn subtract(&self, bytes: usize) {
        self.held.fetch_sub(bytes, Ordering::Relaxed);
        if let Some(whole) = &self.whole {
            whole.subtract(bytes);
        }
    }

    /// Replaces the limit.
    pub fn set_limit(&self, limit: usize) {
        self.limit.store(limit, Ordering::Relaxed);
    }
}

/// The bytes of one holder; given back when dropped.
#[derive(Debug, Default)]
pub struct Share {
    memory: Option<Arc<SharedBytes>>,
    bytes: usize,
}

impl Share {
    /// Number of bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Holds `bytes` of `memory` from now on. As long as it holds bytes of another one they stay there.
    pub fn set(&mut self, memory: &Arc<SharedBytes>, bytes: usize) {
        let is_own = |own: &Arc<SharedBytes>| self.bytes > 0 || Arc::ptr_eq(own, memory);
        if !self.memory.as_ref().is_some_and(is_own) {
            self.memory = Some(Arc::clone(memory));
        }
        self.resize(bytes);
    }

    /// Grows to `bytes` if that is more than now and within the limit. Returns false where the limit forbids it.
    pub fn grow(&mut self, memory: &Arc<SharedBytes>, bytes: usize) -> bool {
        let more = bytes.saturating_sub(self.bytes);
        if more > 0 && memory.lacks(more) {
            return false;
        }
        self.set(memory, self.bytes.max(bytes));
        true
    }

    /// Gives all bytes back.
    pub fn clear(&mut self) {
        self.resize(0);
    }

    /// Gives `bytes` back.
    pub fn shrink(&mut self, bytes: usize) {
        self.resize(self.bytes.saturating_sub(bytes));
    }

    fn resize(&mut self, bytes: usize) {
        if let Some(memory) = &self.memory {
            match bytes.cmp(&self.bytes) {
                Greater => memory.add(bytes - self.bytes),
                Less => memory.subtract(self.bytes - bytes),
                Equal => {}
            }
            self.bytes = bytes;
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_short_while_its_shares_are_as_large_as_its_bound() {
        let memory = SharedBytes::new(100);
        let (mut one, mut other) = (Share::default(), Share::default());
        one.set(&memory, 60);
        assert!(!memory.is_short());
        other.set(&memory, 50);
        assert!(memory.is_short());
        one.shrink(20);
        assert_eq!((memory.held(), memory.is_short()), (90, false));
        one.shrink(1000);
        drop(other);
        assert_eq!((memory.held(), one.bytes()), (0, 0));
        memory.set_limit(10);
        assert!(one.grow(&memory, 8) && one.grow(&memory, 3) && !one.grow(&memory, 11));
        assert_eq!(one.bytes(), 8);
        one.clear();
        memory.set_limit(0);
        assert!(memory.is_short());
    }

    #[test]
    fn an_application_holds_no_more_than_its_part_of_what_is_left() {
        let whole = SharedBytes::new(900);
        let parts = [(); 3].map(|()| SharedBytes::part_of(&whole));
        let fill = |part: &Arc<SharedBytes>| {
            let mut share = Share::default();
            while share.grow(part, share.bytes() + 1) {}
            share
        };
        let mut alone = fill(&parts[0]);
        assert_eq!((alone.bytes(), parts[0].is_short()), (720, true));
        assert!(!whole.is_short() && !parts[1].is_short());
        alone.shrink(320);
        let greedy = fill(&parts[1]);
        assert_eq!(greedy.bytes(), 400);
        let late = fill(&parts[2]);
        assert_eq!(late.bytes(), 80);
        assert_eq!(whole.held(), 880);
        drop((alone, greedy, late));
        assert_eq!((whole.held(), parts[0].held()), (0, 0));
    }

    #[test]
    fn a_share_that_is_empty_may_go_on_in_another_part() {
        let whole = SharedBytes::new(900);
        let parts = [(); 2].map(|()| SharedBytes::part_of(&whole));
        let mut share = Share::default();
        share.set(&parts[0], 5);
        share.set(&parts[1], 7);
        assert_eq!((parts[0].held(), parts[1].held()), (7, 0));
        share.clear();
        share.set(&parts[1], 3);
        assert_eq!((parts[0].held(), parts[1].held(), whole.held()), (0, 3, 3));
    }
}
