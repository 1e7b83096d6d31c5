//! The supervisor: the only part that changes a process's life. It starts the template, has it load the
//! application and fork the workers, watches every process by its pidfd, replaces what dies, and stops all.
//!
//! It never runs Ruby, never touches a request and never writes to the exchange: what a death means for
//! requests is the [`Dispatcher`]'s business. Everything runs on the thread of one tokio `LocalRuntime`.

#![forbid(unsafe_code)]

mod channel;
mod children;
mod ending;
mod note;
pub mod orphans;
mod pool;
mod process;
mod supervisor;
mod template;
mod watch;

use std::os::fd::OwnedFd;

pub use ending::Ending;
pub use note::Note;
pub use process::{Process, Role};
pub use supervisor::{StartError, Supervisor};
pub use template::{BootError, Booted, Plan, Template};

/// What the supervisor needs of the front. No method may wait; any may be called from within another task's
/// turn, so none may hold a borrow across an await.
pub trait Dispatcher {
    /// A worker is about to be forked: its place in the exchange must be as new.
    fn prepare(&self, worker: u16);

    /// The threads of the worker serve requests from now on.
    fn worker_up(&self, worker: u16);

    /// The worker's process is gone: what it held is to be taken back before a replacement is forked.
    fn worker_died(&self, worker: u16);

    /// Has the worker's threads finish what they run and leave.
    fn stop_worker(&self, worker: u16);

    /// The application took over the connection of the request in `slot`, claimed as `sequence`.
    fn hijacked(&self, worker: u16, slot: u32, sequence: u64, socket: OwnedFd);

    /// Something for the log.
    fn note(&self, note: &Note);
}
