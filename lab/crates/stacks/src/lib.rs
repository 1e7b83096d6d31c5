//! The stacks under comparison: what they are made of (data, in `lab/stacks/*.toml`), and how one is started, watched
//! and stopped. It knows no server by name and never tunes one; it sends a single request, to see that a stack is up.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

pub use catalogue::Catalogue;
pub use definition::Definition;
pub use presence::Presence;
pub use program::server_program;
pub use running::{Restarted, Running, Stopped};

pub mod application;
mod catalogue;
mod definition;
pub mod described;
pub mod keeper;
mod ports;
mod presence;
pub mod process_tree;
mod program;
mod rendering;
mod running;
pub mod shipped;
pub mod toml_file;

/// What a stack is started on: the same for all that are compared.
#[derive(Debug, Clone)]
pub struct Deployment {
    /// The application's folder, which holds `config.ru`.
    pub app: PathBuf,
    /// The program `highball`.
    pub highball: PathBuf,
    /// A folder of the trial's own, for configuration and logs; it is made where it is not there.
    pub scratch: PathBuf,
    /// Ruby processes.
    pub workers: usize,
    /// Threads of each, where a stack has a choice.
    pub threads: usize,
    /// Variables for every process. `RACK_ENV` and `RAILS_ENV` are `production` unless named here.
    pub environment: BTreeMap<String, String>,
    /// The page that must be answered with 200 before the stack counts as up.
    pub path: String,
    /// How long all of it may take to come up.
    pub boot_timeout: Duration,
    /// Cores that every process is bound to; empty leaves them to the kernel.
    pub cores: Vec<usize>,
}

#[cfg(test)]
mod tests;
