//! The front's one thread: tokio, with the exchange's doorbell wired into how it sleeps.
//!
//! Just before the runtime sleeps it takes what workers have completed; if that wakes a task it does not
//! sleep, and otherwise the workers know from then on that they must ring. The doorbell is an eventfd that
//! is never read: registered edge-triggered, its only work is to end the sleep. This file decides nothing.

use std::cell::RefCell;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use tokio::net::unix::pipe::Receiver;
use tokio::runtime::{Builder, LocalOptions, LocalRuntime};

use crate::dispatch::Turns;

/// Threads that make, write and read spools.
const SPOOL_THREADS: usize = 8;

thread_local! {
    /// The dispatchers of this thread: one for each application.
    static DISPATCHERS: RefCell<Vec<Rc<Turns>>> = const { RefCell::new(Vec::new()) };
}

/// The runtime that a front must run on.
///
/// # Errors
/// No descriptors for its epoll.
pub fn build() -> io::Result<LocalRuntime> {
    Builder::new_current_thread()
        .enable_all()
        // For spools, which lie on the disk that this server chose; all other work that waits for a file system has
        // `FileThreads` of its own.
        .thread_name("highball-spool")
        .max_blocking_threads(SPOOL_THREADS)
        .on_thread_park(|| with_dispatchers(Turns::park))
        .on_thread_unpark(|| with_dispatchers(Turns::unpark))
        .build_local(LocalOptions::default())
}

/// Lets the runtime's sleep end when a worker rings.
///
/// # Errors
/// The doorbell can't be registered.
pub fn watch(dispatcher: &Rc<Turns>, bell: OwnedFd) -> io::Result<Doorbell> {
    // An eventfd is no pipe, but all that is wanted of it is to be registered for reading.
    let bell = Receiver::from_owned_fd_unchecked(bell)?;
    DISPATCHERS.with_borrow_mut(|all| all.push(Rc::clone(dispatcher)));
    Ok(Doorbell {
        dispatcher: Rc::clone(dispatcher),
        _bell: bell,
    })
}

/// The registration; without it the runtime sleeps as any other.
pub struct Doorbell {
    dispatcher: Rc<Turns>,
    _bell: Receiver,
}

impl Drop for Doorbell {
    fn drop(&mut self) {
        DISPATCHERS.with_borrow_mut(|all| all.retain(|one| !Rc::ptr_eq(one, &self.dispatcher)));
    }
}

fn with_dispatchers(act: impl Fn(&Turns)) {
    DISPATCHERS.with_borrow(|all| all.iter().for_each(|one| act(one)));
}
