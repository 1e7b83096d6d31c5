//! The signals of a running server: requests to stop and requests for changes. It handles every signal that people send to
//! servers, so that none ends the front by accident. Decides nothing about what follows.

use std::io::IsTerminal;
use std::rc::Rc;
use std::sync::Arc;

use anyhow::{Context, Result};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::spawn_local;

use crate::control::queue::{Change, ChangeQueue, ChangeRequest, Requester};
use crate::system::terminal::Terminal;

/// How the server is to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// `highball stop`.
    Drain,
    /// A signal: like `Drain`; a second one is like `Now`.
    Signal,
    /// `highball stop --now`.
    Now,
}

/// The requests to stop.
pub(crate) struct Stops {
    /// For the control socket.
    pub(crate) sender: mpsc::Sender<Stop>,
    requested: mpsc::Receiver<Stop>,
}

impl Stops {
    /// From now on TERM, INT and QUIT request a stop instead of ending the process; INT not while a debugger uses the
    /// terminal, for Ctrl-C is the debugger's then.
    ///
    /// # Errors
    /// The system refuses a handler.
    pub(crate) fn watch(terminal: Option<Arc<Terminal>>) -> Result<Self> {
        // A sender waits while it is full. Signals of a kind that come meanwhile are one: tokio keeps no more of them.
        let (sender, requested) = mpsc::channel(1);
        let kinds = [
            SignalKind::terminate(),
            SignalKind::interrupt(),
            SignalKind::quit(),
        ];
        for kind in kinds {
            let sender = sender.clone();
            let mut signals = watch(kind)?;
            let terminal = terminal.clone().filter(|_| kind == SignalKind::interrupt());
            spawn_local(async move {
                while signals.recv().await.is_some() {
                    if terminal.as_ref().is_some_and(|one| one.has_debugger()) {
                        continue;
                    }
                    // Sending fails once the server has ended.
                    if sender.send(Stop::Signal).await.is_err() {
                        return;
                    }
                }
            });
        }
        Ok(Self { sender, requested })
    }

    /// Waits for the next request.
    pub(crate) async fn next(&mut self) -> Stop {
        // The channel never closes: one of its senders is here.
        self.requested.recv().await.unwrap_or(Stop::Drain)
    }
}

/// From now on USR1 requests a restart, and USR2 an upgrade.
///
/// # Errors
/// The system refuses a handler.
pub(crate) fn watch_changes(queue: &Rc<ChangeQueue>) -> Result<()> {
    let signals = [
        (SignalKind::user_defined1(), "USR1", Change::Restart),
        (SignalKind::user_defined2(), "USR2", Change::Upgrade(None)),
    ];
    for (kind, name, change) in signals {
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

/// From now on HUP requests a reload; it requests a stop where the terminal is gone that the server was started in. Where HUP
/// is ignored (nohup(1)) it stays ignored.
///
/// # Errors
/// The system refuses a handler.
pub(crate) fn watch_hangups(stops: &Stops, queue: &Rc<ChangeQueue>) -> Result<()> {
    if ignored(SignalKind::hangup()) {
        return Ok(());
    }
    let mut signals = watch(SignalKind::hangup())?;
    let (stops, queue) = (stops.sender.clone(), Rc::clone(queue));
    let terminals_at_start = terminals();
    spawn_local(async move {
        while signals.recv().await.is_some() {
            if terminals() != terminals_at_start {
                // Sending fails once the server has ended.
                let _ = stops.send(Stop::Signal).await;
                continue;
            }
            let (change, requester) = (Change::Reload, Requester::Signal("HUP"));
            queue.push(ChangeRequest { change, requester });
        }
    });
    Ok(())
}

/// Which of stdin, stdout and stderr are terminals. One whose terminal was closed is none any more.
fn terminals() -> [bool; 3] {
    [
        std::io::stdin().is_terminal(),
        std::io::stdout().is_terminal(),
        std::io::stderr().is_terminal(),
    ]
}

fn watch(kind: SignalKind) -> Result<Signal> {
    signal(kind).context("cannot handle signals")
}

/// Whether this process was started with the signal ignored. To be called before the signal is handled.
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
