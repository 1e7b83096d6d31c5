//! Bytes that many clients hold together, and their limit: responses in memory, files of spools. It moves no bytes and
//! refuses none: a caller that would hold more asks first. Several threads may count at once.

use std::cmp::Ordering::{Equal, Greater, Less};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Number of bytes that every response may hold although memory is short: none goes to a disk for lack of less.
pub(crate) const ALWAYS_HELD: usize = 16 * 1024;

/// Counts the bytes that all shares hold.
#[derive(Debug)]
pub struct SharedBytes {
    held: AtomicUsize,
    limit: AtomicUsize,
}

impl SharedBytes {
    /// Returns a counter at 0, which is short from `limit` bytes on.
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self {
            held: AtomicUsize::new(0),
            limit: AtomicUsize::new(limit),
        })
    }

    /// Number of bytes that are held.
    pub fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// Whether the limit is reached.
    pub fn is_short(&self) -> bool {
        self.held() >= self.limit.load(Ordering::Relaxed)
    }

    /// Whether `more` bytes would exceed the limit.
    pub fn lacks(&self, more: usize) -> bool {
        self.held().saturating_add(more) > self.limit.load(Ordering::Relaxed)
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

    /// Holds `bytes` of `memory` from now on.
    pub fn set(&mut self, memory: &Arc<SharedBytes>, bytes: usize) {
        if self.memory.is_none() {
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
                Greater => memory.held.fetch_add(bytes - self.bytes, Ordering::Relaxed),
                Less => memory.held.fetch_sub(self.bytes - bytes, Ordering::Relaxed),
                Equal => 0,
            };
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
}
