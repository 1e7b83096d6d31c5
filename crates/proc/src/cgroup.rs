//! The control groups that this process is in, versions 1 and 2 (cgroups(7)), and those above them: the memory and the
//! CPU time that they allow.

use std::fs;

use procfs::FromBufRead as _;
use procfs::ProcessCGroups;

mod cpu;
mod memory;

pub use cpu::{pressure as cpu_pressure, quota as cpu_quota, throttled as cpu_throttled};
pub use memory::{MemoryGroup, limits as memory_limits};

/// Reads a file by its path; `None` where there is none.
type Read<'a> = &'a dyn Fn(&str) -> Option<String>;

/// One line of `/proc/self/cgroup`.
struct Membership {
    /// Empty in version 2.
    controllers: Vec<String>,
    path: String,
}

/// The groups in the text of `/proc/self/cgroup`; none where it is something else.
fn memberships(text: &str) -> Vec<Membership> {
    let groups = ProcessCGroups::from_buf_read(text.as_bytes());
    let groups = groups.map_or(Vec::new(), |groups| groups.0).into_iter();
    groups
        .map(|group| Membership {
            controllers: group.controllers,
            path: group.pathname,
        })
        .collect()
}

/// The folders from that of the group at `path` up to `mount`. A container often sees only its own part of the tree,
/// mounted as the root, under which the path it reads does not exist: then the root's own counts.
fn upwards(mount: &str, path: &str) -> impl Iterator<Item = String> {
    let mut path = path.trim_matches('/').to_owned();
    let mut all = Vec::new();
    while !path.is_empty() {
        all.push(format!("{mount}/{path}"));
        path.truncate(path.rfind('/').unwrap_or(0));
    }
    all.push(mount.to_owned());
    all.into_iter()
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok()
}

/// The text of `/proc/self/cgroup`; empty where there is none.
fn own() -> String {
    read("/proc/self/cgroup").unwrap_or_default()
}
