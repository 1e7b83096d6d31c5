//! Processes by their numbers: descendants, memory, signals, and whether they are gone. Linux only.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

/// One process, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Process(pub u32);

impl Process {
    /// Sends it a signal. A process that is gone is no error.
    pub fn signal(self, signal: Signal) {
        if let Some(pid) = self.pid() {
            let _ = kill_process(pid, signal);
        }
    }

    /// Ends it as the kernel's memory killer would: SIGKILL.
    pub fn kill(self) {
        self.signal(Signal::KILL);
    }

    /// Stops it (SIGSTOP), and waits until no thread of it runs any more: the signal alone takes effect some time later.
    #[track_caller]
    pub fn suspend(self) {
        self.signal(Signal::STOP);
        crate::until("every thread is stopped", || self.all_threads_are('T'));
    }

    /// Waits until no thread of it runs or is about to.
    #[track_caller]
    pub fn wait_asleep(self) {
        crate::until("every thread sleeps", || self.all_threads_are('S'));
    }

    fn all_threads_are(self, state: char) -> bool {
        self.number()
            .is_some_and(|pid| proc::has_only_threads_in(pid, &[state]))
    }

    /// Its memory, shared pages counted by share, in bytes; `None` when it is gone.
    pub fn pss(self) -> Option<u64> {
        Some(proc::memory_of(self.number()?)?.pss)
    }

    /// The memory that it has written and shares with no other process, in bytes; `None` when it is gone.
    pub fn written_memory(self) -> Option<u64> {
        Some(proc::memory_of(self.number()?)?.private_dirty)
    }

    /// The most memory that was ever resident in it, in bytes; `None` when it is gone.
    pub fn high_water(self) -> Option<u64> {
        proc::peak_rss(self.number()?)
    }

    /// The time that it has spent on processors so far, in user and in kernel mode; `None` when it is gone.
    pub fn cpu(self) -> Option<Duration> {
        Some(self.stat()?.own_cpu)
    }

    /// The shared memory that it holds as descriptors, such as an exchange: how many files, and their bytes in all.
    /// `None` when it is gone.
    pub fn shared_memory(self) -> Option<(usize, u64)> {
        proc::shared_memory(self.number()?)
    }

    /// How many file descriptors it has open; `None` when it is gone.
    pub fn descriptors(self) -> Option<usize> {
        proc::descriptors(self.number()?)
    }

    /// Its parent; `None` when it is gone or a zombie.
    pub fn parent(self) -> Option<Self> {
        let stat = self.stat().filter(|stat| !stat.is_zombie())?;
        u32::try_from(stat.parent).ok().map(Self)
    }

    /// Whether it runs: neither gone nor a zombie.
    pub fn is_alive(self) -> bool {
        self.parent().is_some()
    }

    /// Waits until it has ended, even if it is still a zombie; false when it has not within `patience`.
    pub fn wait_gone(self, patience: Duration) -> bool {
        let pidfd = self
            .pid()
            .and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        pidfd.is_none_or(|pidfd| gone(&pidfd, Instant::now() + patience))
    }

    /// Whether it is there at all: a zombie is.
    pub fn exists(self) -> bool {
        self.stat().is_some()
    }

    /// Its children that are alive.
    pub fn children(self) -> Vec<Self> {
        let all = proc::all().into_iter();
        let alive = all.filter(|one| Some(one.parent) == self.number() && !one.is_zombie());
        let mut children: Vec<Self> = alive.map(|one| of(&one)).collect();
        children.sort();
        children
    }

    fn stat(self) -> Option<proc::Stat> {
        proc::stat(self.number()?)
    }

    fn number(self) -> Option<i32> {
        i32::try_from(self.0).ok()
    }

    fn pid(self) -> Option<Pid> {
        Pid::from_raw(self.number()?)
    }
}

/// A process and its descendants, held by descriptors, so that a number that is used again is no danger.
#[derive(Debug, Default)]
pub struct Family(Vec<(Process, OwnedFd)>);

impl Family {
    /// `root`, its descendants, and every process with `mark` in its environment, as they are now.
    pub fn of(root: Process, mark: &str) -> Self {
        let mut members = vec![root];
        let mut next = 0;
        while next < members.len() {
            members.extend(members[next].children());
            next += 1;
        }
        // Orphans have another parent; their environment gives them away.
        let others = proc::all();
        members.extend(
            others
                .iter()
                .filter(|one| proc::environment_contains(one.pid, mark))
                .map(of),
        );
        members.sort();
        members.dedup();
        Self(
            members
                .into_iter()
                .filter_map(|one| Some((one, pidfd_open(one.pid()?, PidfdFlags::empty()).ok()?)))
                .filter(|(one, _)| one.is_alive())
                .collect(),
        )
    }

    /// Adds the members of another one.
    pub fn join(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// Its members.
    pub fn members(&self) -> Vec<Process> {
        self.0.iter().map(|(one, _)| *one).collect()
    }

    /// Waits until all are gone; gives back those that are not within `patience`.
    pub fn wait_gone(&self, patience: Duration) -> Vec<Process> {
        let deadline = Instant::now() + patience;
        self.0
            .iter()
            .filter(|(_, pidfd)| !gone(pidfd, deadline))
            .map(|(one, _)| *one)
            .collect()
    }
}

/// Waits until the process behind `pidfd` ended; false at the deadline.
fn gone(pidfd: &OwnedFd, deadline: Instant) -> bool {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).expect("a test's patience is short");
        match poll(&mut [PollFd::new(pidfd, PollFlags::IN)], Some(&timeout)) {
            Ok(count) => return count > 0,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => panic!("poll: {error}"),
        }
    }
}

fn of(stat: &proc::Stat) -> Process {
    Process(stat.pid.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_found_measured_and_seen_to_end() {
        let mut child = std::process::Command::new("sleep")
            .arg("600")
            .env("HIGHBALL_TEST_MARK", "a-child-is-found")
            .spawn()
            .expect("sleep runs");
        let process = Process(child.id());
        assert!(process.is_alive());
        assert_eq!(process.parent(), Some(Process(std::process::id())));
        assert!(process.high_water().expect("it runs") > 0);
        let family = Family::of(process, "HIGHBALL_TEST_MARK=a-child-is-found");
        assert_eq!(family.members(), [process]);
        assert_eq!(family.wait_gone(Duration::ZERO), [process]);
        process.kill();
        assert_eq!(family.wait_gone(crate::TEST_TIMEOUT), []);
        child.wait().expect("it is ours");
        assert!(!process.is_alive());
    }
}
