//! How many cores this process may use: its CPU affinity, and the CPU quota of its control groups (versions 1
//! and 2). Unlike `std::thread::available_parallelism` a part of a core counts as a whole one: two workers on a
//! quota of 1.5 cores use it, one would not.

use std::fs;

use rustix::thread::sched_getaffinity;

/// The cores this process may use, at least 1.
pub(crate) fn usable() -> u16 {
    let affinity = sched_getaffinity(None).map_or(1, |set| set.count());
    let read = |path: &str| fs::read_to_string(path).ok();
    let quota = read("/proc/self/cgroup").and_then(|own| quota(&own, read));
    combine(affinity, quota)
}

fn combine(affinity: u32, quota: Option<u64>) -> u16 {
    let cores = quota.map_or(u64::from(affinity), |quota| quota.min(u64::from(affinity)));
    u16::try_from(cores.max(1))
        .unwrap_or(u16::MAX)
        .min(MAX_WORKERS)
}

/// The end of the range of `workers`; a test compares them.
pub(crate) const MAX_WORKERS: u16 = 1024;

/// The least quota, in cores rounded up, of the groups in `own` (the text of `/proc/self/cgroup`, cgroups(7)) and of
/// all their ancestors; `None` where none is set.
fn quota(own: &str, read: impl Fn(&str) -> Option<String>) -> Option<u64> {
    own.lines().filter_map(|line| line_quota(line, &read)).min()
}

/// A line is `id:controllers:path`; in version 2 the id is 0 and the controllers are empty.
fn line_quota(line: &str, read: &impl Fn(&str) -> Option<String>) -> Option<u64> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (controllers, path) = (parts.next()?, parts.next()?);
    if controllers.is_empty() {
        let at = |group: &str| parse_v2(&read(&format!("{group}/cpu.max"))?);
        return ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"]
            .iter()
            .filter_map(|mount| least(mount, path, &at))
            .min();
    }
    if !controllers.split(',').any(|name| name == "cpu") {
        return None;
    }
    let at = |group: &str| {
        let quota = read(&format!("{group}/cpu.cfs_quota_us"))?;
        parse_v1(&quota, &read(&format!("{group}/cpu.cfs_period_us"))?)
    };
    let mounts = [
        format!("/sys/fs/cgroup/{controllers}"),
        "/sys/fs/cgroup/cpu".to_owned(),
    ];
    mounts
        .iter()
        .filter_map(|mount| least(mount, path, &at))
        .min()
}

/// The least quota on the way from `mount` to the group at `path`. A container often sees only its own part of
/// the tree, mounted as the root, under which the path it reads does not exist: then the root's own counts.
fn least(mount: &str, path: &str, at: &impl Fn(&str) -> Option<u64>) -> Option<u64> {
    let path = path.trim_matches('/');
    let ends = path
        .match_indices('/')
        .map(|(end, _)| end)
        .chain([path.len()]);
    let groups = ends
        .filter(|end| *end > 0)
        .map(|end| format!("{mount}/{}", &path[..end]));
    groups
        .chain([mount.to_owned()])
        .filter_map(|group| at(&group))
        .min()
}

/// Version 2: `max 100000`, or quota and period in microseconds.
fn parse_v2(text: &str) -> Option<u64> {
    let mut parts = text.split_ascii_whitespace();
    cores(parts.next()?, parts.next()?)
}

/// Version 1: quota and period in microseconds; a quota of -1 is none.
fn parse_v1(quota: &str, period: &str) -> Option<u64> {
    cores(quota.trim(), period.trim())
}

fn cores(quota: &str, period: &str) -> Option<u64> {
    let (quota, period): (u64, u64) = (quota.parse().ok()?, period.parse().ok()?);
    (quota > 0 && period > 0).then(|| quota.div_ceil(period))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas_round_up_to_whole_cores() {
        let check =
            |text: &str, expect: Option<u64>| assert_eq!(parse_v2(text), expect, "{text:?}");
        check("max 100000\n", None);
        check("100000 100000\n", Some(1));
        check("150000 100000\n", Some(2));
        check("50000 100000\n", Some(1));
        check("1000 100000\n", Some(1));
        check("400000 100000\n", Some(4));
        check("200000 50000", Some(4));
        check("100000 0", None);
        check("0 100000", None);
        check("", None);
        check("100000", None);
        check("many 100000", None);
        assert_eq!(parse_v1("-1\n", "100000\n"), None);
        assert_eq!(parse_v1("250000\n", "100000\n"), Some(3));
    }

    #[test]
    fn the_strictest_group_on_the_way_counts() {
        let check = |own: &str, files: &[(&str, &str)], expect: Option<u64>| {
            let read = |path: &str| {
                files
                    .iter()
                    .find(|(name, _)| *name == path)
                    .map(|(_, text)| (*text).to_owned())
            };
            assert_eq!(quota(own, read), expect, "{own:?} {files:?}");
        };
        let root = "/sys/fs/cgroup";
        let (own, app, slice) = (
            "0::/app.slice/web.service\n",
            "app.slice/web.service",
            "app.slice",
        );
        check(own, &[], None);
        check(
            own,
            &[(&format!("{root}/{app}/cpu.max"), "200000 100000")],
            Some(2),
        );
        check(
            own,
            &[
                (&format!("{root}/{app}/cpu.max"), "max 100000"),
                (&format!("{root}/{slice}/cpu.max"), "300000 100000"),
            ],
            Some(3),
        );
        check(
            own,
            &[
                (&format!("{root}/{app}/cpu.max"), "400000 100000"),
                (&format!("{root}/{slice}/cpu.max"), "100000 100000"),
            ],
            Some(1),
        );
        // In a container with its own namespace, and in one without.
        check(
            "0::/\n",
            &[("/sys/fs/cgroup/cpu.max", "150000 100000")],
            Some(2),
        );
        check(
            "0::/docker/0a1b\n",
            &[("/sys/fs/cgroup/cpu.max", "150000 100000")],
            Some(2),
        );

        let own = "12:memory:/docker/0a1b\n4:cpu,cpuacct:/docker/0a1b\n1:name=systemd:/docker/0a1b\n0::/system.slice\n";
        let group = "/sys/fs/cgroup/cpu,cpuacct/docker/0a1b";
        check(
            own,
            &[
                (&format!("{group}/cpu.cfs_quota_us"), "250000\n"),
                (&format!("{group}/cpu.cfs_period_us"), "100000\n"),
            ],
            Some(3),
        );
        check(
            own,
            &[
                (&format!("{group}/cpu.cfs_quota_us"), "-1\n"),
                (&format!("{group}/cpu.cfs_period_us"), "100000\n"),
            ],
            None,
        );
        check(
            own,
            &[
                ("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "50000\n"),
                ("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"),
            ],
            Some(1),
        );
        check(
            "4:cpuset:/a\n",
            &[
                ("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "50000\n"),
                ("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"),
            ],
            None,
        );
        check("nonsense", &[], None);
    }

    #[test]
    fn the_smaller_of_affinity_and_quota_counts() {
        let check = |affinity: u32, quota: Option<u64>, expect: u16| {
            assert_eq!(combine(affinity, quota), expect)
        };
        check(4, None, 4);
        check(4, Some(2), 2);
        check(2, Some(4), 2);
        check(0, None, 1);
        check(4, Some(0), 1);
        check(100_000, None, MAX_WORKERS);
    }

    #[test]
    fn this_machine_has_a_core() {
        assert!(usable() >= 1);
    }
}
