//! The control groups that this process is in, as far as they limit memory: versions 1 and 2 (cgroups(7)). It reads
//! and decides nothing.

use std::fs;

/// A group with a limit, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    /// What all processes in it may use together.
    pub(crate) limit: u64,
    /// What they use, those pages of files aside that the kernel takes back before anything else.
    pub(crate) used: u64,
}

/// Where the files of a group are, in each version.
struct Files {
    limit: &'static str,
    used: &'static str,
    reclaimable: &'static str,
}

const V2: Files = Files {
    limit: "memory.max",
    used: "memory.current",
    reclaimable: "inactive_file ",
};

const V1: Files = Files {
    limit: "memory.limit_in_bytes",
    used: "memory.usage_in_bytes",
    reclaimable: "total_inactive_file ",
};

/// A limit of version 1 beyond this is none: the kernel rounds the greatest number down to pages.
const UNLIMITED: u64 = 1 << 62;

/// The groups of this process that have a limit, and those above them.
pub(crate) fn own() -> Vec<Group> {
    let read = |path: &str| fs::read_to_string(path).ok();
    read("/proc/self/cgroup").map_or(Vec::new(), |own| groups(&own, read))
}

/// The same from the text of `/proc/self/cgroup`.
fn groups(own: &str, read: impl Fn(&str) -> Option<String>) -> Vec<Group> {
    let mut found = Vec::new();
    for line in own.lines() {
        // A line is `id:controllers:path`; in version 2 the controllers are empty.
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else {
            continue;
        };
        let (mounts, files) = match controllers {
            "" => (["/sys/fs/cgroup", "/sys/fs/cgroup/unified"], V2),
            _ if controllers.split(',').any(|name| name == "memory") => {
                (["/sys/fs/cgroup/memory", "/sys/fs/cgroup"], V1)
            }
            _ => continue,
        };
        for mount in mounts {
            found.extend(on_the_way(mount, path).filter_map(|at| group(&at, &files, &read)));
        }
    }
    found
}

/// The folders from that of the group at `path` up to `mount`. A container often sees only its own part of the tree,
/// mounted as the root, under which the path it reads does not exist: then the root's own counts.
fn on_the_way(mount: &str, path: &str) -> impl Iterator<Item = String> {
    let mut path = path.trim_matches('/').to_owned();
    let mut all = Vec::new();
    while !path.is_empty() {
        all.push(format!("{mount}/{path}"));
        path.truncate(path.rfind('/').unwrap_or(0));
    }
    all.push(mount.to_owned());
    all.into_iter()
}

fn group(at: &str, files: &Files, read: &impl Fn(&str) -> Option<String>) -> Option<Group> {
    let number = |file: &str| read(&format!("{at}/{file}"))?.trim().parse::<u64>().ok();
    let limit = number(files.limit).filter(|limit| *limit < UNLIMITED)?;
    let stat = read(&format!("{at}/memory.stat")).unwrap_or_default();
    let mut lines = stat.lines();
    let reclaimable = lines.find_map(|line| line.strip_prefix(files.reclaimable)?.parse().ok());
    let used = number(files.used)?.saturating_sub(reclaimable.unwrap_or(0));
    Some(Group { limit, used })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(own: &str, files: &[(&str, &str)], expect: &[(u64, u64)]) {
        let read = |path: &str| {
            let found = files.iter().find(|(known, _)| *known == path);
            found.map(|(_, text)| (*text).to_owned())
        };
        let found: Vec<_> = groups(own, read)
            .iter()
            .map(|group| (group.limit, group.used))
            .collect();
        assert_eq!(found, expect, "{own}");
    }

    #[test]
    fn version_2_counts_its_group_and_those_above_it() {
        let files = [
            ("/sys/fs/cgroup/a/b/memory.max", "1000\n"),
            ("/sys/fs/cgroup/a/b/memory.current", "600\n"),
            (
                "/sys/fs/cgroup/a/b/memory.stat",
                "anon 300\ninactive_file 200\nactive_file 9\n",
            ),
            ("/sys/fs/cgroup/a/memory.max", "max\n"),
            ("/sys/fs/cgroup/a/memory.current", "700\n"),
            ("/sys/fs/cgroup/memory.max", "5000\n"),
            ("/sys/fs/cgroup/memory.current", "800\n"),
        ];
        check("0::/a/b\n", &files, &[(1000, 400), (5000, 800)]);
        // A container's own root.
        check("0::/not/there\n", &files[5..], &[(5000, 800)]);
        check("0::/\n", &files[5..], &[(5000, 800)]);
    }

    #[test]
    fn version_1_has_its_own_names_and_a_greatest_number() {
        let files = [
            ("/sys/fs/cgroup/memory/x/memory.limit_in_bytes", "4096\n"),
            ("/sys/fs/cgroup/memory/x/memory.usage_in_bytes", "3000\n"),
            (
                "/sys/fs/cgroup/memory/x/memory.stat",
                "inactive_file 1\ntotal_inactive_file 1000\n",
            ),
            (
                "/sys/fs/cgroup/memory/memory.limit_in_bytes",
                "9223372036854771712\n",
            ),
            ("/sys/fs/cgroup/memory/memory.usage_in_bytes", "9000\n"),
        ];
        check("7:cpu,cpuacct:/x\n6:memory:/x\n", &files, &[(4096, 2000)]);
    }

    #[test]
    fn no_group_and_no_limit_are_nothing() {
        check("", &[], &[]);
        check("0::/a\n", &[], &[]);
        check("garbage", &[("/sys/fs/cgroup/memory.max", "1")], &[]);
        check("0::/", &[("/sys/fs/cgroup/memory.max", "1000")], &[]);
    }
}
