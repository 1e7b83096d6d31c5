//! Whether the CPU is the limit of a server: then another worker would only take time from those that are there. Pure: it
//! reads nothing.

use std::time::Duration;

/// Of so many parts of the time at least this many in which a control group was throttled are too many.
const THROTTLED_PERCENT: u32 = 10;
/// From this share of their time on cores are busy.
const BUSY_PERCENT: u32 = 90;
/// From this share of the time on in which a process waited for a core, cores are short.
const PRESSURE_PERCENT: u32 = 50;
/// Where workers run or wait for a core in less than this share of the time, others are busy: the workers wait for something
/// else. One that computes has a thread that does one or the other all the time.
const DEMAND_PERCENT: u32 = 60;

/// What the CPU did, since a moment that does not change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuUse {
    /// How long a control group was throttled for its quota.
    pub throttled: Duration,
    /// In how much of the time a process waited for a core; zero where the kernel does not say.
    pub pressure: Duration,
    /// How long all cores of the machine were busy, together.
    pub machine: Duration,
    /// Number of these cores.
    pub machine_cores: u32,
    /// CPU time of the workers.
    pub own: Duration,
    /// Number of cores that they may use.
    pub own_cores: u32,
    /// CPU time of some of them, with the time in which their threads waited for a core.
    pub demand: Duration,
    /// Number of those.
    pub demanding: u32,
}

impl CpuUse {
    /// What it did since `earlier`. Of workers that have left since, nothing is known.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        Self {
            throttled: self.throttled.saturating_sub(earlier.throttled),
            pressure: self.pressure.saturating_sub(earlier.pressure),
            machine: self.machine.saturating_sub(earlier.machine),
            own: self.own.saturating_sub(earlier.own),
            demand: self.demand.saturating_sub(earlier.demand),
            ..*self
        }
    }
}

/// Whether the CPU was the limit in this time: the quota or the cores were used up, or cores were short and these workers waited
/// for them.
pub(crate) fn is_limit(cpu: &CpuUse, time: Duration) -> bool {
    let share = |part: Duration, cores: u32, percent: u32| {
        !part.is_zero() && part * 100 >= time * cores.max(1) * percent
    };
    if share(cpu.throttled, 1, THROTTLED_PERCENT) || share(cpu.own, cpu.own_cores, BUSY_PERCENT) {
        return true;
    }
    let are_busy = share(cpu.machine, cpu.machine_cores, BUSY_PERCENT)
        || share(cpu.pressure, 1, PRESSURE_PERCENT);
    are_busy && share(cpu.demand, cpu.demanding, DEMAND_PERCENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: Duration = Duration::from_secs(2);

    /// Shares of two seconds in percent, on four cores of which three workers may use two.
    fn cpu(throttled: u32, pressure: u32, machine: u32, own: u32, demand: u32) -> CpuUse {
        let part = |percent: u32| WHOLE * percent / 100;
        CpuUse {
            throttled: part(throttled),
            pressure: part(pressure),
            machine: 4 * part(machine),
            machine_cores: 4,
            own: 2 * part(own),
            own_cores: 2,
            demand: 3 * part(demand),
            demanding: 3,
        }
    }

    #[test]
    fn the_cpu_is_the_limit_where_its_time_is_used_up_by_the_workers() {
        let check = |cpu: CpuUse, expect| assert_eq!(is_limit(&cpu, WHOLE), expect, "{cpu:?}");
        check(CpuUse::default(), false);
        check(cpu(0, 0, 0, 0, 0), false);
        check(cpu(9, 40, 80, 80, 100), false);
        check(cpu(10, 0, 0, 0, 0), true);
        check(cpu(0, 0, 50, 90, 60), true);
        check(cpu(0, 0, 90, 50, 60), true);
        // They get little of the cores that others keep busy, and want more.
        check(cpu(0, 50, 50, 10, 60), true);
        // They wait for something else.
        check(cpu(0, 100, 100, 50, 59), false);
    }

    #[test]
    fn only_what_was_used_since_counts() {
        let later = cpu(50, 60, 70, 80, 90).since(&cpu(50, 10, 20, 90, 50));
        assert_eq!(later, cpu(0, 50, 50, 0, 40));
    }
}
