//! How many cores this process may use: its CPU affinity, and the CPU quota of its control groups (versions 1
//! and 2). Unlike `std::thread::available_parallelism` a part of a core counts as a whole one: two workers on a
//! quota of 1.5 cores use it, one would not.

use rustix::thread::sched_getaffinity;

/// The cores this process may use, at least 1. Reads files of the kernel.
pub fn usable() -> u16 {
    let affinity = sched_getaffinity(None).map_or(1, |set| set.count());
    combine(affinity, proc::cgroup::cpu_quota())
}

fn combine(affinity: u32, quota: Option<u64>) -> u16 {
    let cores = quota.map_or(u64::from(affinity), |quota| quota.min(u64::from(affinity)));
    u16::try_from(cores.max(1))
        .unwrap_or(u16::MAX)
        .min(MAX_WORKERS)
}

/// The end of the range of `workers`; a test compares them.
pub(crate) const MAX_WORKERS: u16 = 1024;

#[cfg(test)]
mod tests {
    use super::*;

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
