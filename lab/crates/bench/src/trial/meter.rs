//! CPU during a load: the servers', the generator's, and everybody else's. It reads counters only.

use std::time::{Duration, Instant};

use super::Figures;
use crate::workload::measure;
use proc::machine::MachineCpu;
use proc::own_cpu;
use stacks::Running;

/// CPU used between two points in time, over the wall time.
#[derive(Debug)]
pub(super) struct Meter {
    begin: Instant,
    server: Duration,
    client: Duration,
    machine: MachineCpu,
}

/// What a [`Meter`] found.
#[derive(Debug, Clone, Copy)]
pub(super) struct Used {
    server: Duration,
}

impl Meter {
    pub(super) fn start(running: &mut Running) -> Self {
        Self {
            begin: Instant::now(),
            server: running.tree().cpu(),
            client: own_cpu(),
            machine: MachineCpu::now(),
        }
    }

    pub(super) fn stop(self, running: &mut Running, figures: &mut Figures) -> Used {
        let server = running.tree().cpu().saturating_sub(self.server);
        let client = own_cpu().saturating_sub(self.client);
        let machine = MachineCpu::now();
        let wall = self.begin.elapsed().as_secs_f64();
        let busy = machine.busy.saturating_sub(self.machine.busy);
        figures.set(measure::SERVER_CORES, server.as_secs_f64() / wall);
        figures.set(measure::CLIENT_CORES, client.as_secs_f64() / wall);
        figures.set(
            measure::OTHER_CORES,
            busy.saturating_sub(server + client).as_secs_f64() / wall,
        );
        figures.set(
            measure::STEAL_CORES,
            machine
                .steal
                .saturating_sub(self.machine.steal)
                .as_secs_f64()
                / wall,
        );
        Used { server }
    }
}

impl Used {
    pub(super) fn microseconds_per(self, requests: usize) -> f64 {
        self.server.as_secs_f64() * 1e6 / requests as f64
    }
}
