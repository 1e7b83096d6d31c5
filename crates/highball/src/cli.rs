//! The commands, one file for each kind of them. They decide about no request and no process.

mod api;
pub(crate) mod certificates;
pub(crate) mod check;
pub(crate) mod client;
pub(crate) mod dashboard;
pub(crate) mod exceptions_page;
pub(crate) mod experiment;
pub(crate) mod help;
pub(crate) mod init;
pub(crate) mod lab;
pub(crate) mod launcher;
mod live;
pub(crate) mod maintenance;
pub(crate) mod memory;
mod memory_usage;
pub(crate) mod plan;
pub(crate) mod profile;
pub(crate) mod serve;
mod signals;
pub(crate) mod slow;
mod status_page;
mod terminal;
pub(crate) mod top;
pub(crate) mod watch;
pub(crate) mod workers;

use std::io::{self, Write};

use anyhow::{Context, Result};

/// Prints a command's answer.
///
/// # Errors
/// Stdout cannot be written to. A reader that has seen enough is no error, as in `highball status | head`.
fn print(text: &str) -> Result<()> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result.context("cannot write to stdout"),
    }
}
