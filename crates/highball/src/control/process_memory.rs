//! What memory the processes use, for Prometheus. It only reads.

use std::collections::BTreeMap;

use metrics::{Exposition, Kind};
use supervisor::Role;

use crate::control::report::{ApplicationReport, Report};

/// Adds the gauges of these applications and of the front: of processes that play the same part the sum, as in a restart.
pub(crate) fn expose(
    out: &mut Exposition,
    report: &Report,
    applications: &[(&str, &ApplicationReport)],
) {
    let mut sums: BTreeMap<(&str, &str, String), [u64; 2]> = BTreeMap::new();
    for (name, one) in applications {
        for process in &one.processes {
            let (name, role) = match process.role {
                Role::Front => ("", "front"),
                Role::Template => (*name, "template"),
                Role::Worker => (*name, "worker"),
                Role::Child => (*name, "child"),
            };
            let worker = process.worker.filter(|_| process.role == Role::Worker);
            let worker = worker.map_or(String::new(), |worker| worker.to_string());
            let sum = sums.entry((name, role, worker)).or_default();
            sum[0] += process.memory_bytes.unwrap_or(0);
            sum[1] += process.memory.map_or(0, |memory| memory.pss_bytes);
        }
    }
    // Of several applications the front is in none.
    let front = report.all.processes.iter();
    for process in front.filter(|process| process.role == Role::Front) {
        let pss = process.memory.map_or(0, |memory| memory.pss_bytes);
        let sum = [process.memory_bytes.unwrap_or(0), pss];
        sums.insert(("", "front", String::new()), sum);
    }
    for (at, metric, help) in [
        (
            0,
            "highball_process_private_memory_bytes",
            "Memory that processes share with no other one.",
        ),
        (
            1,
            "highball_process_pss_bytes",
            "Proportional memory of processes: a page that several share is divided among them.",
        ),
    ] {
        out.metric(metric, Kind::Gauge, help);
        for ((name, role, worker), sum) in &sums {
            let labels = [("application", *name), ("role", role), ("worker", worker)];
            out.count(&labels, sum[at]);
        }
    }
}
