//! Bytes that many hold together, and their bound: responses in memory, files of spools. It moves no bytes and refuses
//! none: a caller that would hold more asks first.

use std::cell::Cell;
use std::rc::Rc;

/// What every response may hold, also where memory is short, in bytes: it never goes to a disk for lack of less.
pub(crate) const ALWAYS_HELD: usize = 16 * 1024;

/// Counts what all hold.
#[derive(Debug)]
pub struct SharedBytes {
    held: Cell<usize>,
    limit: Cell<usize>,
}

impl SharedBytes {
    /// Nothing is held; short it is from `limit` bytes on.
    pub fn new(limit: usize) -> Rc<Self> {
        Rc::new(Self {
            held: Cell::new(0),
            limit: Cell::new(limit),
        })
    }

    /// Bytes that are held.
    pub fn held(&self) -> usize {
        self.held.get()
    }

    /// Whether as much is held as may be.
    pub fn is_short(&self) -> bool {
        self.held.get() >= self.limit.get()
    }

    /// Whether so many more are beyond the bound.
    pub fn lacks(&self, more: usize) -> bool {
        self.held.get().saturating_add(more) > self.limit.get()
    }

    /// Goes by another bound from now on.
    pub fn set_limit(&self, limit: usize) {
        self.limit.set(limit);
    }
}

/// What one holder has of it; given back when dropped.
#[derive(Debug, Default)]
pub struct Share {
    memory: Option<Rc<SharedBytes>>,
    bytes: usize,
}

impl Share {
    /// How many bytes it is.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// From now on it is so many bytes of this memory.
    pub fn set(&mut self, memory: &Rc<SharedBytes>, bytes: usize) {
        if self.memory.is_none() {
            self.memory = Some(Rc::clone(memory));
        }
        self.resize(bytes);
    }

    /// Makes it as large as `bytes` where it is smaller and that is within the bound. False where it is not.
    pub fn grow(&mut self, memory: &Rc<SharedBytes>, bytes: usize) -> bool {
        let more = bytes.saturating_sub(self.bytes);
        if more > 0 && memory.lacks(more) {
            return false;
        }
        self.set(memory, self.bytes.max(bytes));
        true
    }

    /// Gives all of it back.
    pub fn clear(&mut self) {
        self.resize(0);
    }

    /// Gives so many bytes of it back.
    pub fn shrink(&mut self, bytes: usize) {
        self.resize(self.bytes.saturating_sub(bytes));
    }

    fn resize(&mut self, bytes: usize) {
        if let Some(memory) = &self.memory {
            memory.held.set(memory.held.get() - self.bytes + bytes);
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
