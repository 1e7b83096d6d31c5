//! The process group of a template that does not lead it. It signals it, and nothing else.

use std::os::fd::OwnedFd;
use std::rc::Rc;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process_group};

/// The process group of a template that a worker has forked, and of the workers: it was made for the first template of that
/// generation, whose number it has.
#[derive(Debug)]
pub(crate) struct ProcessGroup {
    pub(super) number: Pid,
    /// The template's. While that runs, the group is there and its number no other's.
    pub(super) pidfd: Rc<OwnedFd>,
}

impl ProcessGroup {
    /// Signals all processes of the group, unless the template has ended.
    pub(crate) fn signal(&self, signal: Signal) {
        let mut fds = [PollFd::new(&self.pidfd, PollFlags::IN)];
        if poll(&mut fds, Some(&Timespec::default())) == Ok(0) {
            let _ = kill_process_group(self.number, signal);
        }
    }
}
