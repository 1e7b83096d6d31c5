//! What the first process of a container owes the kernel: to reap processes that lost their parent. Leaves
//! alone what this process started itself: each template is reaped by the code that started it.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io;

use rustix::process::{Pid, WaitId, WaitIdOptions, getpid, waitid};
use tokio::signal::unix::{SignalKind, signal};

thread_local! {
    /// Every child that other code of this process waits for. One thread starts and reaps all of them.
    static OWN: RefCell<BTreeSet<i32>> = const { RefCell::new(BTreeSet::new()) };
}

/// A child that is not to be reaped here, until this is dropped.
#[derive(Debug)]
pub(crate) struct Own(i32);

impl Own {
    /// To be called before anything else can run on this thread.
    pub(crate) fn new(pid: Pid) -> Self {
        let pid = pid.as_raw_nonzero().get();
        OWN.with_borrow_mut(|own| own.insert(pid));
        Self(pid)
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        OWN.with_borrow_mut(|own| own.remove(&self.0));
    }
}

/// Where this is the first process of its process namespace: reaps each orphan when it ends, for ever.
/// Elsewhere orphans are another process's, and this returns at once.
///
/// # Errors
/// The system refuses the handler of CHLD.
pub async fn reap() -> io::Result<()> {
    if !getpid().is_init() {
        return Ok(());
    }
    let mut ended = signal(SignalKind::child())?;
    loop {
        reap_ended();
        if ended.recv().await.is_none() {
            return Ok(());
        }
    }
}

/// Reaps every orphan that has ended. All processes are asked: not every kernel lists a process's children.
fn reap_ended() {
    let ended = proc::pids().filter(|pid| OWN.with_borrow(|own| !own.contains(pid)));
    for pid in ended.filter_map(Pid::from_raw) {
        // Those that still run, and those that are no children of this process, are left as they are.
        let _ = waitid(
            WaitId::Pid(pid),
            WaitIdOptions::EXITED | WaitIdOptions::NOHANG,
        );
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use super::*;

    fn ended() -> Child {
        let child = Command::new("true").spawn().unwrap();
        let pid = WaitId::Pid(Pid::from_child(&child));
        waitid(pid, WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).unwrap();
        child
    }

    #[test]
    fn children_that_are_waited_for_elsewhere_are_not_reaped() {
        let (mut orphan, mut template) = (ended(), ended());
        let own = Own::new(Pid::from_child(&template));
        reap_ended();
        assert!(orphan.wait().is_err());
        assert!(template.try_wait().unwrap().is_some());
        drop(own);
        let mut template = ended();
        reap_ended();
        assert!(template.wait().is_err());
    }
}
