//! How much CPU time the control groups of this process allow, in cores.

use super::{Read, memberships, own, read, upwards};

/// Returns the least CPU quota, in cores rounded up, of the groups of this process and those above them; `None` where
/// none is set.
pub fn quota() -> Option<u64> {
    least(&own(), &read)
}

/// The same from the text of `/proc/self/cgroup`.
fn least(own: &str, read: Read<'_>) -> Option<u64> {
    let mut found = Vec::new();
    for group in memberships(own) {
        let version_2 = group.controllers.is_empty();
        let mounts = if version_2 {
            ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].map(str::to_owned)
        } else if group.controllers.iter().any(|name| name == "cpu") {
            let together = format!("/sys/fs/cgroup/{}", group.controllers.join(","));
            [together, "/sys/fs/cgroup/cpu".to_owned()]
        } else {
            continue;
        };
        for mount in mounts {
            let folders = upwards(&mount, &group.path);
            found.extend(folders.filter_map(|folder| match version_2 {
                true => parse_v2(&read(&format!("{folder}/cpu.max"))?),
                false => {
                    let quota = read(&format!("{folder}/cpu.cfs_quota_us"))?;
                    parse_v1(&quota, &read(&format!("{folder}/cpu.cfs_period_us"))?)
                }
            }));
        }
    }
    found.into_iter().min()
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
            assert_eq!(least(own, &read), expect, "{own:?} {files:?}");
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
}
