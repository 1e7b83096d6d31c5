//! The machine as a whole: its name, CPU time, memory, processor, load and IPv6.

use std::time::Duration;

use procfs::{Current as _, CurrentSI as _, KernelStats};

use crate::process::ticks;

/// CPU time of the whole machine since it started, over all cores.
#[derive(Debug, Clone, Copy, Default)]
pub struct MachineCpu {
    /// Time in which any process ran.
    pub busy: Duration,
    /// Time in which the hypervisor ran something else.
    pub steal: Duration,
    /// Number of cores that are online.
    pub cores: usize,
}

impl MachineCpu {
    /// Reads `/proc/stat`; zero where it cannot be read.
    pub fn now() -> Self {
        KernelStats::current().map_or(Self::default(), |stats| Self::from(&stats))
    }
}

impl From<&KernelStats> for MachineCpu {
    fn from(stats: &KernelStats) -> Self {
        let cpu = &stats.total;
        // Guests count in user already (proc(5)).
        let interrupts = cpu.irq.unwrap_or(0) + cpu.softirq.unwrap_or(0);
        Self {
            busy: ticks(cpu.user + cpu.nice + cpu.system + interrupts),
            steal: ticks(cpu.steal.unwrap_or(0)),
            cores: stats.cpu_time.len(),
        }
    }
}

/// What this machine is called; `localhost` where the kernel does not say.
pub fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match name.trim() {
        "" => "localhost".to_owned(),
        name => name.to_owned(),
    }
}

/// Memory of the machine, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MachineMemory {
    /// All of it.
    pub total: u64,
    /// What nothing uses, as `free` shows it: caches count as used.
    pub free: u64,
}

/// Returns the memory of the machine; `None` where it can't be read.
pub fn memory() -> Option<MachineMemory> {
    let memory = procfs::Meminfo::current().ok()?;
    Some(MachineMemory {
        total: memory.mem_total,
        free: memory.mem_free,
    })
}

/// Returns the name of the first processor, where the kernel knows one.
pub fn processor() -> Option<String> {
    let processors = procfs::CpuInfo::current().ok()?;
    processors.model_name(0).map(str::to_owned)
}

/// Returns the load averages of the last 1, 5 and 15 minutes.
pub fn load_averages() -> Option<[f32; 3]> {
    let load = procfs::LoadAverage::current().ok()?;
    Some([load.one, load.five, load.fifteen])
}

/// Whether this network namespace has IPv6: its loopback interface has the address `::1` (`/proc/net/if_inet6`).
pub fn has_ipv6() -> bool {
    std::fs::read_to_string("/proc/net/if_inet6").is_ok_and(|text| lists_ipv6_loopback(&text))
}

fn lists_ipv6_loopback(text: &str) -> bool {
    let mut addresses = text.lines().filter_map(|line| line.split(' ').next());
    addresses.any(|address| u128::from_str_radix(address, 16) == Ok(1))
}

#[cfg(test)]
mod tests {
    use procfs::FromBufReadSI as _;

    use super::*;

    #[test]
    fn the_machines_cpu_leaves_out_idle_and_counts_steal_apart() {
        let text =
            "cpu  100 10 50 9000 70 4 6 30 5 5\ncpu0 1 2 3 4\nctxt 1\nbtime 1\nprocesses 1\n";
        let stats = KernelStats::from_buf_read(text.as_bytes(), procfs::current_system_info());
        let cpu = MachineCpu::from(&stats.unwrap());
        assert_eq!(cpu.busy, ticks(170));
        assert_eq!(cpu.steal, ticks(30));
        assert_eq!(cpu.cores, 1);
    }

    #[test]
    fn this_machine_has_memory_and_was_busy() {
        let memory = memory().unwrap();
        assert!(memory.total > memory.free);
        assert!(MachineCpu::now().busy > Duration::ZERO);
        assert!(load_averages().is_some());
    }

    #[test]
    fn ipv6_is_there_where_the_loopback_interface_has_its_address() {
        let loopback = "00000000000000000000000000000001 01 80 10 80       lo\n";
        let other = "fe80000000000000a00027fffe4e66a1 02 40 20 80     eth0\n";
        assert!(lists_ipv6_loopback(&[other, loopback].concat()));
        assert!(!lists_ipv6_loopback(other));
        assert!(!lists_ipv6_loopback(""));
    }
}
