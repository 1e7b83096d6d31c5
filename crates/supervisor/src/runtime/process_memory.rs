//! Reads what processes hold: those of the server's user on another thread, for the kernel takes milliseconds, and those of
//! another user by its launcher, for the kernel tells nobody else. It changes nothing.

use std::collections::HashMap;
use std::rc::Rc;

use proc::Memory;
use rustix::process::getpid;
use tokio::task::spawn_blocking;

use crate::launcher::handle::Launcher;
use crate::rules::memory::ProcessMemory;

/// What each of some processes holds, without those that are gone and those of which the kernel does not tell.
#[derive(Debug, Default)]
pub(super) struct Figures(HashMap<i32, Memory>);

impl Figures {
    /// All figures of a process.
    pub(super) fn all(&self, pid: i32) -> Option<&Memory> {
        self.0.get(&pid)
    }

    /// What counts against limits.
    pub(super) fn of(&self, pid: i32) -> Option<ProcessMemory> {
        let memory = self.0.get(&pid)?;
        Some(ProcessMemory {
            private: memory.private(),
            share: memory.share(),
        })
    }
}

/// Reads the memory of processes of this application, and of the front.
pub(super) async fn read(pids: Vec<i32>, launcher: Option<&Rc<Launcher>>) -> Figures {
    let Some(launcher) = launcher else {
        let figures = spawn_blocking(move || read_here(&pids)).await;
        // A thread that panicked over it has read nothing.
        return figures.unwrap_or_default();
    };
    let front = getpid().as_raw_nonzero().get();
    let (own, others): (Vec<i32>, Vec<i32>) = pids.into_iter().partition(|pid| *pid == front);
    let mut figures = Figures(launcher.measure(&others).await);
    let own = spawn_blocking(move || read_here(&own)).await;
    figures.0.extend(own.unwrap_or_default().0);
    figures
}

/// The same on this thread, which may wait for the kernel.
pub(super) fn read_here(pids: &[i32]) -> Figures {
    let figures = pids
        .iter()
        .filter_map(|pid| Some((*pid, proc::memory_of(*pid)?)));
    Figures(figures.collect())
}
