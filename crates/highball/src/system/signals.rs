//! The signals of a running server, and what else asks it to stop. Handles every signal that people send to
//! servers, so that none ends the front by accident; decides nothing about what follows.

use std::rc::Rc;

use anyhow::{Context, Result};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::spawn_local;

use crate::control::queue::{Change, ChangeQueue, ChangeRequest, Requester};

/// How the server is to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// `highball stop`.
    Drain,
    /// A signal: like the above, at once where it is not the first.
    Signal,
    /// `highball stop --now`.
    Now,
}

/// Everything that asks the server to stop.
pub(crate) struct Stops {
    /// For commands.
    pub(crate) sender: mpsc::Sender<Stop>,
    requested: mpsc::Receiver<Stop>,
}

impl Stops {
    /// From here on TERM, INT, QUIT and HUP ask for a stop instead of ending the process.
    ///
    /// # Errors
    /// The system refuses a handler.
    pub(crate) fn watch() -> Result<Self> {
        // Whoever finds it full waits. Signals of a kind that come meanwhile are one: tokio keeps no more of them.
        let (sender, requested) = mpsc::channel(1);
        let mut kinds = vec![
            SignalKind::terminate(),
            SignalKind::interrupt(),
            SignalKind::quit(),
        ];
        // Whoever starts a server with nohup(1) means it to outlive the terminal.
        if !ignored(SignalKind::hangup()) {
            kinds.push(SignalKind::hangup());
        }
        for kind in kinds {
            let sender = sender.clone();
            let mut signals = watch(kind)?;
            spawn_local(async move {
                // Nobody waits any more where the server has ended meanwhile.
                while signals.recv().await.is_some() && sender.send(Stop::Signal).await.is_ok() {}
            });
        }
        Ok(Self { sender, requested })
    }

    /// Waits for the next one.
    pub(crate) async fn next(&mut self) -> Stop {
        // It never ends: one of its senders is here.
        self.requested.recv().await.unwrap_or(Stop::Drain)
    }
}

/// From here on USR1 asks for a restart, and USR2 for an upgrade.
///
/// # Errors
/// The system refuses a handler.
pub(crate) fn watch_changes(queue: &Rc<ChangeQueue>) -> Result<()> {
    let asked = [
        (SignalKind::user_defined1(), "USR1", Change::Restart),
        (SignalKind::user_defined2(), "USR2", Change::Upgrade(None)),
    ];
    for (kind, name, change) in asked {
        let queue = Rc::clone(queue);
        let mut signals = watch(kind)?;
        spawn_local(async move {
            while signals.recv().await.is_some() {
                let (change, requester) = (change.clone(), Requester::Signal(name));
                queue.push(ChangeRequest { change, requester });
            }
        });
    }
    Ok(())
}

fn watch(kind: SignalKind) -> Result<Signal> {
    signal(kind).context("cannot handle signals")
}

/// Whether this process was started with the signal ignored. Only before it is handled: afterwards it no
/// longer shows.
fn ignored(kind: SignalKind) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    is_in_mask(&status, "SigIgn:", kind.as_raw_value())
}

/// Whether a line of `/proc/self/status` such as `SigIgn: 0000000000001000` has the signal's bit.
fn is_in_mask(status: &str, name: &str, signal: i32) -> bool {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let mask = line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_of_signals_is_read_from_its_line() {
        let check = |status, signal, expect| {
            assert_eq!(is_in_mask(status, "SigIgn:", signal), expect, "{status:?}");
        };
        let status = "SigBlk:\tffffffffffffffff\nSigIgn:\t0000000000001001\nSigCgt:\t0\n";
        check(status, 1, true);
        check(status, 13, true);
        check(status, 2, false);
        check("SigIgn:\tnonsense\n", 1, false);
        check("", 1, false);
    }
}
