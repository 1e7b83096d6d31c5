//! The supervisor: the only part that changes a process's life. It starts the template, has it load the
//! application and fork the workers, watches every process by its pidfd, replaces what dies, and stops all.
//!
//! It never runs Ruby, never touches a request and never writes to the exchange: what a death means for
//! requests is the [`exchange::Dispatcher`]'s business. Everything runs on the thread of one tokio `LocalRuntime`.

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

pub use budget::{Bound, Held};
pub use channel::Channel;
pub use ending::Ending;
pub use limits::{Limits, Why};
pub use memory::Size;
pub use note::Note;
pub use process::{Generation, Process, Role};
pub use supervisor::Supervisor;
pub use template::{BootError, Booted, Load, Plan, Template};
pub use verdict::StartError;

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
