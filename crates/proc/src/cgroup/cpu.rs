//! How much CPU time the control groups of this process allow, in cores, and how long that has kept processes waiting.

use std::time::Duration;

use super::{Read, memberships, own, read, upwards};

/// Returns the least CPU quota, in cores rounded up, of the groups of this process and those above them; `None` where
/// none is set.
pub fn quota() -> Option<u64> {
    least(&own(), &read)
}

/// Returns how long the groups of this process and those above them were throttled since they were made, because they had used
/// up their quota: of the group that was throttled for the longest. Zero where none has a quota.
pub fn throttled() -> Duration {
    longest_throttled(&own(), &read)
}

/// Returns in how much of the time since the machine started a process waited for a core while another one ran (PSI): in the
/// group of this process, else on the whole machine. `None` where the kernel does not say.
pub fn pressure() -> Option<Duration> {
    pressure_of(&own(), &read)
}

/// The same as [`quota`] from the text of `/proc/self/cgroup`.
fn least(own: &str, read: Read<'_>) -> Option<u64> {
    let quotas = folders(own).filter_map(|(version_2, folder)| match version_2 {
        true => parse_v2(&read(&format!("{folder}/cpu.max"))?),
        false => {
            let quota = read(&format!("{folder}/cpu.cfs_quota_us"))?;
            parse_v1(&quota, &read(&format!("{folder}/cpu.cfs_period_us"))?)
        }
    });
    quotas.min()
}

/// The same as [`throttled`] from the text of `/proc/self/cgroup`.
fn longest_throttled(own: &str, read: Read<'_>) -> Duration {
    let times = folders(own).filter_map(|(version_2, folder)| {
        let stat = read(&format!("{folder}/cpu.stat"))?;
        let number = |name: &str| {
            let mut lines = stat.lines();
            lines.find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
        };
        match version_2 {
            true => number("throttled_usec ").map(Duration::from_micros),
            false => number("throttled_time ").map(Duration::from_nanos),
        }
    });
    times.max().unwrap_or_default()
}

/// The same as [`pressure`] from the text of `/proc/self/cgroup`.
fn pressure_of(own: &str, read: Read<'_>) -> Option<Duration> {
    let groups = folders(own).filter(|(version_2, _)| *version_2);
    let files = groups.map(|(_, folder)| format!("{folder}/cpu.pressure"));
    let mut files = files.chain(["/proc/pressure/cpu".to_owned()]);
    files.find_map(|file| {
        let text = read(&file)?;
        let some = text.lines().find_map(|line| line.strip_prefix("some "))?;
        let (_, total) = some.split_once("total=")?;
        total.trim().parse().ok().map(Duration::from_micros)
    })
}

/// The folders of the groups that may limit CPU time, each with whether it is of version 2, from the group of this process
/// upwards.
fn folders(own: &str) -> impl Iterator<Item = (bool, String)> {
    memberships(own).into_iter().flat_map(|group| {
        let version_2 = group.controllers.is_empty();
        let mounts = if version_2 {
            vec![
                "/sys/fs/cgroup".to_owned(),
                "/sys/fs/cgroup/unified".to_owned(),
            ]
        } else if group.controllers.iter().any(|name| name == "cpu") {
            let together = format!("/sys/fs/cgroup/{}", group.controllers.join(","));
            vec![together, "/sys/fs/cgroup/cpu".to_owned()]
        } else {
            Vec::new()
        };
        let all = mounts.into_iter();
        all.flat_map(move |mount| upwards(&mount, &group.path).collect::<Vec<_>>())
            .map(move |folder| (version_2, folder))
    })
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

    #[test]
    fn the_group_counts_that_was_throttled_for_the_longest() {
        let check = |own: &str, files: &[(&str, &str)], micros: u64| {
            let read = |path: &str| {
                let found = files.iter().find(|(name, _)| *name == path);
                found.map(|(_, text)| (*text).to_owned())
            };
            let found = longest_throttled(own, &read);
            assert_eq!(found, Duration::from_micros(micros), "{own:?}");
        };
        let stat = "usage_usec 9\nnr_periods 5\nnr_throttled 2\nthrottled_usec 1234\n";
        check("0::/a/b\n", &[("/sys/fs/cgroup/a/cpu.stat", stat)], 1234);
        check(
            "0::/a\n",
            &[("/sys/fs/cgroup/a/cpu.stat", "usage_usec 9\n")],
            0,
        );
        let stat = "nr_periods 5\nnr_throttled 2\nthrottled_time 5000\n";
        check(
            "4:cpu,cpuacct:/\n",
            &[("/sys/fs/cgroup/cpu/cpu.stat", stat)],
            5,
        );
        check("", &[], 0);
    }

    #[test]
    fn pressure_is_that_of_the_own_group_or_of_the_machine() {
        let text = |total: u64| {
            format!(
                "some avg10=1.91 avg60=6.32 avg300=11.22 total={total}\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=1\n"
            )
        };
        let check = |own: &str, files: &[(&str, String)], micros: Option<u64>| {
            let read = |path: &str| {
                let found = files.iter().find(|(name, _)| *name == path);
                found.map(|(_, text)| text.clone())
            };
            let expect = micros.map(Duration::from_micros);
            assert_eq!(pressure_of(own, &read), expect, "{own:?}");
        };
        let machine = ("/proc/pressure/cpu", text(7));
        let group = ("/sys/fs/cgroup/a/cpu.pressure", text(5));
        check("0::/a\n", &[machine.clone(), group.clone()], Some(5));
        check("0::/b\n", &[machine.clone(), group], Some(7));
        check("1:cpu:/\n", &[machine], Some(7));
        check("", &[("/proc/pressure/cpu", "garbage".to_owned())], None);
    }
}
