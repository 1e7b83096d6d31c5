//! All processes of one server, with their CPU time and memory, read from `/proc`. It never signals a
//! process that it did not find in the tree.
//!
//! Daemons re-parent: Passenger's watchdog leaves its parent at once. A process belongs to the tree when it
//! descends from a member, shares a member's process group or session, or was seen as a member before. Where the root is
//! the reaper of its descendants (`PR_SET_CHILD_SUBREAPER`), what daemonized descends from it still.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal};

/// One line of `/proc/PID/stat`, as far as it is used here (proc(5)).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stat {
    /// Process id.
    pub pid: i32,
    /// The name, as the kernel keeps it.
    pub name: String,
    /// `R`, `S`, `Z` and so on.
    pub state: char,
    /// Parent.
    pub parent: i32,
    /// Process group.
    pub group: i32,
    /// Session.
    pub session: i32,
    /// CPU of the process itself, user and system, in clock ticks.
    pub own_ticks: u64,
    /// CPU of its children that ended and were waited for, in clock ticks.
    pub reaped_ticks: u64,
    /// When it started, in clock ticks since boot: with the pid, its identity.
    pub started: u64,
}

/// Memory of one or several processes, in kilobytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Memory {
    /// Proportional set size: shared pages are divided among those who share them.
    pub pss_kb: u64,
    /// Resident set size: shared pages count in full for everyone.
    pub rss_kb: u64,
    /// Pages that are private and were written to.
    pub private_dirty_kb: u64,
}

impl std::ops::AddAssign for Memory {
    fn add_assign(&mut self, other: Self) {
        self.pss_kb += other.pss_kb;
        self.rss_kb += other.rss_kb;
        self.private_dirty_kb += other.private_dirty_kb;
    }
}

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
        let mut members = self.select(&scan());
        members.retain(|stat| stat.state != 'Z' && (self.root_counts || stat.pid != self.root));
        members
    }

    /// CPU time that the tree has used since it started, user and system, of living and dead members.
    pub fn cpu(&mut self) -> Duration {
        // What a zombie used is in nobody else's counters yet.
        let members = self.select(&scan());
        let counted: u64 = members
            .iter()
            .map(|stat| {
                let own_counts = self.root_counts || stat.pid != self.root;
                stat.reaped_ticks + if own_counts { stat.own_ticks } else { 0 }
            })
            .sum();
        ticks(counted)
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
                    // It may have ended meanwhile, which is what is wanted.
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

/// CPU time of this process and of all children it has waited for.
pub fn own_cpu() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat")
        .ok()
        .and_then(|text| parse_stat(&text));
    ticks(stat.map_or(0, |stat| stat.own_ticks + stat.reaped_ticks))
}

/// Memory of one process, from `/proc/PID/smaps_rollup`.
///
/// # Errors
/// When the process is gone or not ours to look into.
pub fn memory_of(pid: i32) -> Result<Memory> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))
        .with_context(|| format!("memory of process {pid}"))?;
    Ok(parse_rollup(&text))
}

/// Clock ticks (`USER_HZ`) as time.
pub fn ticks(count: u64) -> Duration {
    Duration::from_secs_f64(count as f64 / rustix::param::clock_ticks_per_second() as f64)
}

fn scan() -> Vec<Stat> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter_map(|pid| parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?))
        .collect()
}

fn parse_stat(text: &str) -> Option<Stat> {
    // The name stands in parentheses and may hold any character, parentheses and spaces too.
    let (pid, rest) = text.split_once(" (")?;
    let (name, rest) = rest.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    // proc(5) numbers from 1 with the state as field 3.
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    let id = |number: usize| fields.get(number - 3)?.parse::<i32>().ok();
    Some(Stat {
        pid: pid.parse().ok()?,
        name: name.to_owned(),
        state: fields.first()?.chars().next()?,
        parent: id(4)?,
        group: id(5)?,
        session: id(6)?,
        own_ticks: field(14)? + field(15)?,
        reaped_ticks: field(16)? + field(17)?,
        started: field(22)?,
    })
}

fn parse_rollup(text: &str) -> Memory {
    let value = |key: &str| {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
        line.and_then(|rest| rest.trim().trim_end_matches("kB").trim().parse().ok())
            .unwrap_or(0)
    };
    Memory {
        pss_kb: value("Pss"),
        rss_kb: value("Rss"),
        private_dirty_kb: value("Private_Dirty"),
    }
}

#[cfg(test)]
mod tests;
