//! The doorbell: an eventfd that ends the front's sleep. Who rings it and when is decided in
//! [`crate::coordination::Completions`].

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};

/// An end of the doorbell: the front's, or a worker's.
#[derive(Debug)]
pub struct Doorbell(OwnedFd);

impl Doorbell {
    /// Makes a doorbell that has not rung.
    ///
    /// # Errors
    /// Those of eventfd(2), such as too many open files.
    pub fn new() -> io::Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Self(eventfd(0, flags)?))
    }

    /// Another descriptor of the same doorbell.
    ///
    /// # Errors
    /// Too many open files.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self(self.0.try_clone()?))
    }

    /// Ends the front's sleep, or has the next one end at once.
    pub fn ring(&self) {
        // A full eventfd (EAGAIN) has rung already.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    /// Empties the eventfd, so that it can ring again.
    pub(crate) fn clear(&self) {
        // An empty one (EAGAIN) is as wanted.
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }
}

impl From<OwnedFd> for Doorbell {
    /// The doorbell that another process passed.
    fn from(eventfd: OwnedFd) -> Self {
        Self(eventfd)
    }
}

impl AsFd for Doorbell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
