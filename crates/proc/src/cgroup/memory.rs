//! How much memory the control groups of this process allow, and how much of it is used.

use super::{Read, memberships, own, read, upwards};

/// A group with a limit, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryGroup {
    /// What all processes in it may use together.
    pub limit: u64,
    /// What they use, those pages of files aside that the kernel takes back before anything else.
    pub used: u64,
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

/// Returns the groups of this process that have a limit of memory, and those above them.
pub fn limits() -> Vec<MemoryGroup> {
    groups(&own(), &read)
}

/// The same from the text of `/proc/self/cgroup`.
fn groups(own: &str, read: Read<'_>) -> Vec<MemoryGroup> {
    let mut found = Vec::new();
    for group in memberships(own) {
        let (mounts, files) = if group.controllers.is_empty() {
            (["/sys/fs/cgroup", "/sys/fs/cgroup/unified"], V2)
        } else if group.controllers.iter().any(|name| name == "memory") {
            (["/sys/fs/cgroup/memory", "/sys/fs/cgroup"], V1)
        } else {
            continue;
        };
        for mount in mounts {
            let folders = upwards(mount, &group.path);
            found.extend(folders.filter_map(|folder| limited(&folder, &files, read)));
        }
    }
    found
}

fn limited(folder: &str, files: &Files, read: Read<'_>) -> Option<MemoryGroup> {
    let number = |file: &str| {
        read(&format!("{folder}/{file}"))?
            .trim()
            .parse::<u64>()
            .ok()
    };
    let limit = number(files.limit).filter(|limit| *limit < UNLIMITED)?;
    let stat = read(&format!("{folder}/memory.stat")).unwrap_or_default();
    let mut lines = stat.lines();
    let reclaimable = lines.find_map(|line| line.strip_prefix(files.reclaimable)?.parse().ok());
    let used = number(files.used)?.saturating_sub(reclaimable.unwrap_or(0));
    Some(MemoryGroup { limit, used })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(own: &str, files: &[(&str, &str)], expect: &[(u64, u64)]) {
        let read = |path: &str| {
            let found = files.iter().find(|(known, _)| *known == path);
            found.map(|(_, text)| (*text).to_owned())
        };
        let found: Vec<_> = groups(own, &read)
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
