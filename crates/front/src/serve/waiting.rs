//! How many requests wait for the same thing, up to a bound. It makes nobody wait.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of those that wait, of all threads.
#[derive(Debug, Default)]
pub struct WaitingCount(AtomicUsize);

/// One that waits, until it is dropped.
#[derive(Debug)]
pub struct Waiting<'a>(&'a AtomicUsize);

impl WaitingCount {
    /// Counts one more; none where `most` wait already.
    pub fn enter(&self, most: usize) -> Option<Waiting<'_>> {
        // Its drop takes it back where that was one too many.
        let waiting = Waiting(&self.0);
        let before = self.0.fetch_add(1, Ordering::Relaxed);
        (before < most).then_some(waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_wait_than_may_and_one_that_leaves_makes_room() {
        let count = WaitingCount::default();
        let first = count.enter(2);
        let second = count.enter(2);
        assert!(first.is_some() && second.is_some() && count.enter(2).is_none());
        drop(first);
        assert!(count.enter(2).is_some());
    }
}
