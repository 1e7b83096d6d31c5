//! What the tests over the wire are made of: a running server, a raw client, an application, processes.
//! Plain threads and blocking sockets; every wait ends at an event or, with a failure, at a deadline.
//! Never used outside tests, and never waits by sleeping.

#![forbid(unsafe_code)]

mod application;
mod checks;
mod client;
mod directory;
mod fifo;
mod gated;
mod log;
mod machine;
mod probe;
mod process;
mod program;
mod pseudo_terminal;
mod screen;
mod server;
mod small_disk;
mod status;
mod terminal_session;

use std::time::{Duration, Instant};

pub use application::{Application, reflect};
pub use checks::{expect_echo, expect_to_wait_for_client};
pub use client::response::{Ending, Fault, Head, Response};
pub use client::{Client, IntoBytes};
pub use directory::Directory;
pub use fifo::{Events, Gate};
pub use gated::Gated;
pub use log::Log;
pub use machine::{Left, MachineError, REPORT, run_machine};
pub use probe::Probe;
pub use process::{Family, Process};
pub use program::{Program, Ran, binary, lab_binary, ruby_library, workspace};
pub use pseudo_terminal::PseudoTerminal;
pub use screen::Screen;
pub use server::builder::ServerBuilder;
pub use server::{Server, Stopped};
pub use small_disk::{fill_disk, under_small_disk};
pub use status::Status;
pub use terminal_session::TerminalSession;

/// How long a test waits for an event that must come before it fails. Long, since machines are shared:
/// a test that measures a time compares it itself.
pub const TEST_TIMEOUT: Duration = Duration::from_secs(120);

/// Waits until `reached`, asked again and again: for what no event tells.
///
/// # Panics
/// When it is not reached within [`TEST_TIMEOUT`]; the text says what was waited for.
#[track_caller]
pub fn until(what: &str, mut reached: impl FnMut() -> bool) {
    let deadline = Instant::now() + TEST_TIMEOUT;
    while !reached() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        std::thread::yield_now();
    }
}
