//! Reads what the CPU does, for the rule about the number of workers. It judges nothing.

use std::time::Duration;

use proc::cgroup::{cpu_pressure, cpu_throttled};
use proc::machine::MachineCpu;
use supervisor::CpuUse;
use tokio::task::spawn_blocking;

/// Of at most so many workers each thread is read.
const MAX_DEMANDING: usize = 16;

/// Reads what the CPU did so far, and how much of it for these processes; on another thread, for the kernel may take its time.
/// `None` where that thread has failed.
pub(super) async fn read(pids: Vec<i32>, cores: fn() -> u16) -> Option<CpuUse> {
    let read = spawn_blocking(move || {
        let machine = MachineCpu::now();
        let own = pids.iter().filter_map(|pid| proc::stat(*pid));
        let demands = pids.iter().take(MAX_DEMANDING);
        let demands: Vec<_> = demands.filter_map(|pid| proc::cpu_demand(*pid)).collect();
        CpuUse {
            throttled: cpu_throttled(),
            pressure: cpu_pressure().unwrap_or_default(),
            machine: machine.busy,
            machine_cores: u32::try_from(machine.cores).unwrap_or(u32::MAX),
            own: own.map(|one| one.own_cpu).sum::<Duration>(),
            own_cores: cores().into(),
            demand: demands.iter().sum(),
            demanding: demands.len() as u32,
        }
    });
    read.await.ok()
}
