//! Atomics and futexes, from the machine or from loom's model of it.
//!
//! Futexes here are never PRIVATE: the waiter and the waker are different processes.

#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// A word that one side sleeps on and another wakes it by.
#[cfg(not(loom))]
#[repr(transparent)]
pub struct Futex(AtomicU32);

#[cfg(not(loom))]
impl Futex {
    /// Sleeps while the word holds `expected`; may return early, so callers loop.
    pub(crate) fn wait(&self, expected: u32) {
        // Every error (EAGAIN, EINTR) means "look again", which every caller does.
        let _ = rustix::thread::futex::wait(
            &self.0,
            rustix::thread::futex::Flags::empty(),
            expected,
            None,
        );
    }

    /// The same, for so many nanoseconds at most.
    pub(crate) fn wait_for(&self, expected: u32, nanoseconds: u64) {
        let limit = rustix::fs::Timespec {
            tv_sec: (nanoseconds / 1_000_000_000) as i64,
            tv_nsec: (nanoseconds % 1_000_000_000) as i64,
        };
        let flags = rustix::thread::futex::Flags::empty();
        let _ = rustix::thread::futex::wait(&self.0, flags, expected, Some(&limit));
    }

    /// Wakes one sleeper.
    pub(crate) fn wake(&self) {
        let _ = rustix::thread::futex::wake(&self.0, rustix::thread::futex::Flags::empty(), 1);
    }

    /// Wakes all sleepers.
    pub(crate) fn wake_all(&self) {
        let flags = rustix::thread::futex::Flags::empty();
        let _ = rustix::thread::futex::wake(&self.0, flags, i32::MAX as u32);
    }
}

/// In the model a sleeper that no thread wakes is a deadlock, which fails the test.
#[cfg(loom)]
pub struct Futex(AtomicU32, loom::sync::Mutex<()>, loom::sync::Condvar);

#[cfg(loom)]
impl Futex {
    pub(crate) fn new(value: u32) -> Self {
        Self(
            AtomicU32::new(value),
            loom::sync::Mutex::new(()),
            loom::sync::Condvar::new(),
        )
    }

    pub(crate) fn wait(&self, expected: u32) {
        let look = self.1.lock().unwrap();
        if self.0.load(Ordering::SeqCst) == expected {
            drop(self.2.wait(look).unwrap());
        }
    }

    /// Time is over at once, as far as the model knows.
    pub(crate) fn wait_for(&self, _expected: u32, _nanoseconds: u64) {
        loom::thread::yield_now();
    }

    pub(crate) fn wake(&self) {
        let _look = self.1.lock().unwrap();
        self.2.notify_one();
    }

    pub(crate) fn wake_all(&self) {
        let _look = self.1.lock().unwrap();
        self.2.notify_all();
    }
}

impl std::ops::Deref for Futex {
    type Target = AtomicU32;

    fn deref(&self) -> &AtomicU32 {
        &self.0
    }
}

/// A value alone on its cache line, so that two sides do not slow each other down.
#[repr(C, align(64))]
pub struct Line<T>(pub T);

impl<T> std::ops::Deref for Line<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}
