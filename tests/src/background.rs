//! A server that a command has put into the background: found by its folder, stopped by a signal. It is nobody's child
//! here, so how it ends cannot be seen.

use std::path::{Path, PathBuf};

use rustix::process::Signal;
use test_support::{Process, Program, Status, TEST_TIMEOUT, until};

/// A server that serves in the background, until it is dropped or stopped.
#[derive(Debug)]
pub struct Background {
    folder: PathBuf,
    /// The process of the front.
    pub process: Process,
    /// Where it listens, without the scheme.
    pub address: String,
}

impl Background {
    /// Waits until a server of this folder serves its first generation.
    ///
    /// # Panics
    /// When none does in time.
    #[track_caller]
    pub fn wait(folder: &Path) -> Self {
        let status = wait_generation(folder, 1);
        let pid = u32::try_from(status.number("/pid")).expect("a process number");
        let listener = status.0["listeners"][0].as_str().expect("an address");
        Self {
            folder: folder.to_owned(),
            process: Process(pid),
            address: listener.trim_start_matches("http://").to_owned(),
        }
    }

    /// Waits until it serves this generation alone.
    ///
    /// # Panics
    /// When it does not in time.
    #[track_caller]
    pub fn wait_generation(&self, number: u64) {
        wait_generation(&self.folder, number);
    }

    /// Stops it, and waits until it is gone.
    ///
    /// # Panics
    /// When it does not end in time.
    #[track_caller]
    pub fn stop(self) {
        self.process.signal(Signal::TERM);
        assert!(self.process.wait_gone(TEST_TIMEOUT), "TERM did not end it");
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.process.signal(Signal::TERM);
    }
}

#[track_caller]
fn wait_generation(folder: &Path, number: u64) -> Status {
    let mut found = None;
    until("the server serves", || {
        found = status(folder).filter(|status| {
            let generations = status.0["generations"].as_array().expect("a list");
            let numbers: Vec<_> = generations
                .iter()
                .map(|one| one["number"].as_u64())
                .collect();
            status.0["state"] == "serving" && numbers == [Some(number)]
        });
        found.is_some()
    });
    found.expect("that was waited for")
}

/// The status of the server of a folder, if one runs.
fn status(folder: &Path) -> Option<Status> {
    let command = Program::highball(["status", "--json"]).current_dir(folder);
    serde_json::from_str(&command.run().stdout).ok().map(Status)
}
