//! The signals of a running server: requests to stop and requests for changes. It handles every signal that people send to
//! servers, so that none ends the front by accident. Decides nothing about what follows.

use std::cell::Cell;
use std::io::IsTerminal;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::Signal;
use tokio::signal::unix::{Signal as Signals, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::spawn_local;

use crate::control::queue::{Change, ChangeQueue, ChangeRequest, Requester, ScaleTo};
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
        (SignalKind::user_defined1(), "USR1", Change::Restart(None)),
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

/// From now on TTIN requests one worker more, and TTOU one fewer. Not in a server that writes to a terminal: there the kernel
/// sends them to processes in the background.
///
/// # Errors
/// The system refuses a handler.
pub(crate) fn watch_scaling(queue: &Rc<ChangeQueue>) -> Result<()> {
    if terminals().contains(&true) {
        return Ok(());
    }
    for (signal, name, more) in [(Signal::TTIN, "TTIN", 1), (Signal::TTOU, "TTOU", -1)] {
        let queue = Rc::clone(queue);
        let mut signals = watch(SignalKind::from_raw(signal.as_raw()))?;
        spawn_local(async move {
            while signals.recv().await.is_some() {
                let (application, to) = (None, ScaleTo::By(more));
                let change = Change::Scale { application, to };
                let requester = Requester::Signal(name);
                queue.push(ChangeRequest { change, requester });
            }
        });
    }
    Ok(())
}

/// From now on HUP requests a reload; one that comes as the server's terminal closes requests a stop. Where HUP is ignored (nohup(1)) it stays ignored.
///
/// # Errors
/// The system refuses a handler.
pub(crate) fn watch_hangups(stops: &Stops, queue: &Rc<ChangeQueue>) -> Result<()> {
    if ignored(SignalKind::hangup()) {
        return Ok(());
    }
    let mut signals = watch(SignalKind::hangup())?;
    let (stops, queue) = (stops.sender.clone(), Rc::clone(queue));
    let terminals = Rc::new(RecentTerminals::new(terminals()));
    if terminals.any() {
        let terminals = Rc::clone(&terminals);
        spawn_local(async move {
            while terminals.any() {
                tokio::time::sleep(TERMINAL_CHECK_INTERVAL).await;
                terminals.note(self::terminals());
            }
        });
    }
    spawn_local(async move {
        while signals.recv().await.is_some() {
            if terminals.just_lost(self::terminals()) {
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

/// How often a server that was started in a terminal looks whether that is still there.
const TERMINAL_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Which of stdin, stdout and stderr were terminals at the last two looks. A shell may end and leave the server running; a HUP
/// that comes later is one for its log.
struct RecentTerminals {
    older: Cell<[bool; 3]>,
    newer: Cell<[bool; 3]>,
}

impl RecentTerminals {
    fn new(now: [bool; 3]) -> Self {
        let (older, newer) = (Cell::new(now), Cell::new(now));
        Self { older, newer }
    }

    fn any(&self) -> bool {
        self.older.get().contains(&true)
    }

    fn note(&self, now: [bool; 3]) {
        self.older.set(self.newer.replace(now));
    }

    /// Whether one was there at the look before the last and is not `now`.
    fn just_lost(&self, now: [bool; 3]) -> bool {
        self.older.get() != now
    }
}

/// Which of stdin, stdout and stderr are terminals. One whose terminal was closed is none any more.
fn terminals() -> [bool; 3] {
    [
        std::io::stdin().is_terminal(),
        std::io::stdout().is_terminal(),
        std::io::stderr().is_terminal(),
    ]
}

fn watch(kind: SignalKind) -> Result<Signals> {
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
    fn a_hangup_is_of_the_terminal_for_two_looks_after_it_closed() {
        let terminals = RecentTerminals::new([true; 3]);
        assert!(!terminals.just_lost([true; 3]));
        terminals.note([false; 3]);
        assert!(terminals.just_lost([false; 3]));
        assert!(terminals.any());
        terminals.note([false; 3]);
        assert!(!terminals.just_lost([false; 3]));
        assert!(!terminals.any());
    }

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
