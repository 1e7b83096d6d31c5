//! The supervisor: the only part that changes a process's life. It starts the template, has it load the
//! application and fork the workers, watches every process by its pidfd, replaces what dies, and stops all.
//!
//! It never runs Ruby, never touches a request and never writes to the exchange: what a death means for
//! requests is the [`Dispatcher`]'s business. Everything runs on the thread of one tokio `LocalRuntime`.

#![forbid(unsafe_code)]

mod beside;
mod budget;
mod channel;
mod children;
mod drain;
mod ending;
mod fleet;
mod limits;
mod look;
mod members;
mod memory;
mod note;
pub mod orphans;
mod pool;
mod process;
mod scales;
mod stuck;
mod supervisor;
mod template;
mod verdict;
mod watch;

use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::time::Instant;

pub use budget::{Bound, Held};
pub use channel::Channel;
pub use ending::Ending;
pub use limits::{Limits, Why};
pub use memory::Size;
pub use note::Note;
pub use process::{Generation, Process, Role};
pub use stuck::Hang;
pub use supervisor::Supervisor;
pub use template::{BootError, Booted, Load, Plan, Template};
pub use verdict::StartError;

/// What the supervisor needs of the front. No method may wait; any may be called from within another task's
/// turn, so none may hold a borrow across an await. A worker is named by its generation and its number in it.
pub trait Dispatcher {
    /// So many workers shall serve in the generation when nothing is on its way: not more than it has places for, and
    /// fewer where memory is short.
    fn resize(&self, generation: u32, workers: u16);

    /// A worker is about to be forked: its place in the exchange must be as new.
    fn prepare(&self, generation: u32, worker: u16);

    /// The threads of the worker serve requests from now on.
    fn worker_up(&self, generation: u32, worker: u16);

    /// Duplicates of the memory file and the doorbell of a generation whose exchange was corrupt, with a fresh one in its
    /// place.
    ///
    /// # Errors
    /// No memory or descriptors for it so far.
    fn exchange(&self, generation: u32) -> io::Result<[OwnedFd; 2]>;

    /// How many requests the worker's present life has finished.
    fn finished(&self, generation: u32, worker: u16) -> u64;

    /// Whether the worker's present life has come to the end of a request.
    fn has_served(&self, generation: u32, worker: u16) -> bool;

    /// The worker's process is gone: what it held is to be taken back before a replacement is forked.
    fn worker_died(&self, generation: u32, worker: u16);

    /// How a worker's process ended, told before or after its death.
    fn worker_ended(&self, generation: u32, worker: u16, how: &str);

    /// Until when, at the latest, what the worker runs is in time; none where nothing is.
    fn deadline(&self, generation: u32, worker: u16) -> Option<Instant>;

    /// The generation's workers are about to be killed, whatever they run. How many requests in time that loses.
    fn cut(&self, generation: u32) -> usize;

    /// Has the worker's threads finish what they run and leave.
    fn stop_worker(&self, generation: u32, worker: u16);

    /// The application took over the connection of the request in `slot`, claimed as `sequence`.
    fn hijacked(&self, generation: u32, worker: u16, slot: u32, sequence: u64, socket: OwnedFd);

    /// The worker was asked where the thread is that runs the request in `slot`, claimed as `sequence`, and has said
    /// so; no line where it does not run that request any more.
    fn traced(&self, generation: u32, worker: u16, slot: u16, sequence: u32, backtrace: &[String]);

    /// Requests go to these generations from now on, and to no other.
    fn feed(&self, generations: &[u32]);

    /// No worker can serve requests, nor is one started before this moment; `None`: one serves again. Said again
    /// when an attempt has failed.
    fn outage(&self, until: Option<Instant>);

    /// Whether the generation passes this check ([`Plan::check`]); says why not.
    fn check(
        &self,
        generation: u32,
        check: String,
    ) -> Pin<Box<dyn Future<Output = Result<(), String>>>>;

    /// Nothing is left of the generation.
    fn close(&self, generation: u32);

    /// Something of a generation for the log.
    fn note(&self, generation: u32, note: &Note);
}

/// Draws from 0 to below a number, for tests in simulated worlds: the same ones for the same seed (xorshift).
#[cfg(test)]
fn draws(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    move |below| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % below
    }
}
