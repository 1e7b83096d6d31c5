//! All processes of one server, with their CPU time and memory, It never signals a
//! process that it did not find in the tree.
//!
//! Daemons re-parent: Passenger's watchdog leaves its parent at once. A process belongs to the tree when it
//! descends from a member, shares a member's process group or session, or was seen as a member before. Where the root is
//! the reaper of its descendants (`PR_SET_CHILD_SUBREAPER`), what daemonized descends from it still.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use proc::{Memory, Stat, memory_of};
use rustix::process::{Pid, Signal};

/// The processes of one server.
#[derive(Debug)]
pub struct ProcessTree {
    root: i32,
    /// Whether the root is one of the members.
    root_counts: bool,
    /// Pid to start time of every member ever seen.
    seen: BTreeMap<i32, u64>,
    /// Groups and sessions that only members can be in.
    groups: BTreeSet<i32>,
}

/// Makes this process the parent of every orphan among its descendants.
///
/// # Errors
/// When the kernel refuses, which it does on no Linux since 3.4.
pub fn become_reaper() -> Result<()> {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .context("becoming a subreaper")
}

impl ProcessTree {
    /// The tree below `root`, without orphans that left their group and session unseen.
    pub fn rooted(root: i32) -> Self {
        Self {
            root,
            root_counts: true,
            seen: BTreeMap::new(),
            groups: BTreeSet::new(),
        }
    }

    /// Everything below `root` and not `root` itself, which is to be the reaper of its descendants: the CPU of those
    /// that it waited for counts, its own does not.
    pub fn below(root: i32) -> Self {
        Self {
            root_counts: false,
            ..Self::rooted(root)
        }
    }

    /// The members alive now, the root first.
    pub fn members(&mut self) -> Vec<Stat> {
        let mut members = self.select(&proc::all());
        members.retain(|stat| !stat.is_zombie() && (self.root_counts || stat.pid != self.root));
        members
    }

    /// CPU time that the tree has used since it started, user and system, of living and dead members.
    pub fn cpu(&mut self) -> Duration {
        self.cpu_by_program().into_values().sum()
    }

    /// The same by the file name of each member's program. A member that ended counts to the one that waited for it.
    pub fn cpu_by_program(&mut self) -> BTreeMap<String, Duration> {
        let mut programs = BTreeMap::new();
        // A zombie's time is not part of its parent's counters yet.
        for stat in self.select(&proc::all()) {
            let own_counts = self.root_counts || stat.pid != self.root;
            let used = match own_counts {
                true => stat.reaped_cpu + stat.own_cpu,
                false => stat.reaped_cpu,
            };
            // Other users' programs and those of zombies can't be read.
            let program = proc::program(stat.pid).unwrap_or(stat.name);
            *programs.entry(program).or_default() += used;
        }
        programs
    }

    /// Memory of all living members together.
    pub fn memory(&mut self) -> Memory {
        let mut total = Memory::default();
        for stat in self.members() {
            // A member that ended since the scan has no memory left.
            total += memory_of(stat.pid).unwrap_or_default();
        }
        total
    }

    /// Kills every member that is left, and waits until none is. Gives how many had to be killed.
    pub fn kill(&mut self) -> usize {
        let deadline = Instant::now() + Duration::from_secs(10);
        let mut killed = BTreeSet::new();
        loop {
            let members = self.members();
            if members.is_empty() || Instant::now() > deadline {
                return killed.len();
            }
            for stat in members {
                if let Some(pid) = Pid::from_raw(stat.pid) {
                    // It may have ended by itself.
                    let _ = rustix::process::kill_process(pid, Signal::KILL);
                    killed.insert(stat.pid);
                }
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// The members among `all`, zombies too.
    fn select(&mut self, all: &[Stat]) -> Vec<Stat> {
        let mut members: BTreeSet<i32> = BTreeSet::new();
        loop {
            let before = members.len();
            for stat in all {
                if !members.contains(&stat.pid) && self.belongs(stat, &members) {
                    members.insert(stat.pid);
                    // A leader's group or session was made after it was a member: it holds members only.
                    self.groups.extend(
                        [stat.group, stat.session]
                            .into_iter()
                            .filter(|id| *id == stat.pid),
                    );
                }
            }
            if members.len() == before {
                break;
            }
        }
        self.seen.retain(|pid, started| {
            all.iter()
                .any(|stat| stat.pid == *pid && stat.started == *started)
        });
        let mut found: Vec<Stat> = all
            .iter()
            .filter(|stat| members.contains(&stat.pid))
            .cloned()
            .collect();
        self.seen
            .extend(found.iter().map(|stat| (stat.pid, stat.started)));
        found.sort_by_key(|stat| (stat.pid != self.root, stat.pid));
        found
    }

    fn belongs(&self, stat: &Stat, members: &BTreeSet<i32>) -> bool {
        stat.pid == self.root
            || members.contains(&stat.parent)
            || self.groups.contains(&stat.group)
            || self.groups.contains(&stat.session)
            || self.seen.get(&stat.pid) == Some(&stat.started)
    }
}

#[cfg(test)]
mod tests;
