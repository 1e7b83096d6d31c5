//! Processes by their numbers: descendants, memory, signals, and whether they are gone. Linux only.

use std::fs;
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
        let Ok(threads) = fs::read_dir(format!("/proc/{}/task", self.0)) else {
            return false;
        };
        threads.flatten().all(|thread| {
            let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
            // The state is behind the name, which stands in parentheses and may hold anything.
            stat.rsplit_once(") ")
                .is_some_and(|(_, fields)| fields.starts_with(state))
        })
    }

    /// Its memory, shared pages counted by share, in bytes; `None` when it is gone.
    pub fn pss(self) -> Option<u64> {
        kilobytes(&self.file("smaps_rollup")?, "Pss:")
    }

    /// The most memory that was ever resident in it, in bytes; `None` when it is gone.
    pub fn high_water(self) -> Option<u64> {
        kilobytes(&self.file("status")?, "VmHWM:")
    }

    /// The time that it has spent on processors so far, in user and in kernel mode; `None` when it is gone.
    pub fn cpu(self) -> Option<Duration> {
        let stat = self.file("stat")?;
        let (_, fields) = stat.rsplit_once(')')?;
        // Fields 14 and 15 of proc(5), in ticks of 10 ms; the state behind the name is field 3.
        let ticks = fields.split_whitespace().skip(11).take(2);
        let ticks: u64 = ticks.filter_map(|field| field.parse::<u64>().ok()).sum();
        Some(Duration::from_millis(ticks * 10))
    }

    /// The shared memory that it holds as descriptors, such as an exchange: how many files, and their bytes in all.
    /// `None` when it is gone.
    pub fn shared_memory(self) -> Option<(usize, u64)> {
        let folder = fs::read_dir(format!("/proc/{}/fd", self.0)).ok()?;
        let mut found = (0, 0);
        for entry in folder.flatten() {
            let path = entry.path();
            let memory = fs::read_link(&path)
                .is_ok_and(|target| target.to_string_lossy().starts_with("/memfd:"));
            // Through the link, to the file itself.
            if let Some(facts) = fs::metadata(&path).ok().filter(|_| memory) {
                found = (found.0 + 1, found.1 + facts.len());
            }
        }
        Some(found)
    }

    /// How many file descriptors it has open; `None` when it is gone.
    pub fn descriptors(self) -> Option<usize> {
        Some(fs::read_dir(format!("/proc/{}/fd", self.0)).ok()?.count())
    }

    /// Its parent; `None` when it is gone or a zombie.
    pub fn parent(self) -> Option<Self> {
        let stat = self.file("stat")?;
        // The name stands in parentheses and may hold anything, so the fields count from the last one.
        let (_, fields) = stat.rsplit_once(')')?;
        let mut fields = fields.split_whitespace();
        if matches!(fields.next()?, "Z" | "X") {
            return None;
        }
        fields.next()?.parse().ok().map(Self)
    }

    /// Whether it runs: neither gone nor a zombie.
    pub fn is_alive(self) -> bool {
        self.parent().is_some()
    }

    /// Waits until it has ended, be it somebody's zombie or not; false when it has not within `patience`.
    pub fn wait_gone(self, patience: Duration) -> bool {
        let pidfd = self
            .pid()
            .and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        pidfd.is_none_or(|pidfd| gone(&pidfd, Instant::now() + patience))
    }

    /// Whether it is there at all: a zombie is.
    pub fn exists(self) -> bool {
        self.file("stat").is_some()
    }

    /// Its children that are alive.
    pub fn children(self) -> Vec<Self> {
        let mut children: Vec<Self> = all().filter(|one| one.parent() == Some(self)).collect();
        children.sort();
        children
    }

    fn file(self, name: &str) -> Option<String> {
        // Lossy: a command line may hold any bytes.
        let bytes = fs::read(format!("/proc/{}/{name}", self.0)).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn pid(self) -> Option<Pid> {
        Pid::from_raw(i32::try_from(self.0).ok()?)
    }
}

/// A process and its descendants, held by descriptors, so that a number used again deceives nobody.
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
        members.extend(all().filter(|one| {
            one.file("environ")
                .is_some_and(|environ| environ.contains(mark))
        }));
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

fn all() -> impl Iterator<Item = Process> {
    fs::read_dir("/proc")
        .expect("/proc is mounted")
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok().map(Process))
}

/// The value of a line such as `VmHWM:     1234 kB`, in bytes.
fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    let number: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(number * 1024)
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
        assert_eq!(family.wait_gone(crate::PATIENCE), []);
        child.wait().expect("it is ours");
        assert!(!process.is_alive());
    }

    #[test]
    fn kilobytes_are_read_from_their_line() {
        let check = |text, expect| assert_eq!(kilobytes(text, "VmHWM:"), expect);
        check("VmPeak:\t 9 kB\nVmHWM:\t  3 kB\n", Some(3072));
        check("VmPeak:\t 9 kB\n", None);
    }
}
