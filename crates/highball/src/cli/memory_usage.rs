//! The memory of a server as data: each process in the order in which it is shown, and sums. Measures nothing: the server
//! has read the figures from the kernel.

use serde::Serialize;
use supervisor::{Process, Role};

use crate::control::report::Report;

/// The memory of a server at one moment.
#[derive(Debug, Serialize)]
pub(super) struct Memory {
    /// The process of the front.
    pub(super) pid: i32,
    /// The time of the figures, in seconds of the UNIX epoch.
    pub(super) now: u64,
    /// The server's folder.
    pub(super) dir: String,
    /// The front, then templates, workers and children of each application.
    pub(super) processes: Vec<Row>,
    /// All of them together.
    pub(super) total: Total,
}

/// A process.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    /// The application, where the server has several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) application: Option<String>,
    /// The state of its generation: `booting`, `serving` or `draining`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) generation_state: Option<String>,
    #[serde(flatten)]
    pub(super) process: Process,
    /// By how much the private memory of a worker has changed since it became ready, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) grown_bytes: Option<i64>,
}

/// Sums over the processes whose memory is known, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Total {
    /// How many they are.
    pub(super) processes: usize,
    /// How many there are whose memory is not known.
    pub(super) unknown: usize,
    /// Each page in full for each process that has it.
    pub(super) rss_bytes: u64,
    /// Each page once, as far as these processes alone share it.
    pub(super) pss_bytes: u64,
    pub(super) private_bytes: u64,
    pub(super) swap_bytes: u64,
    /// What sharing saves: the difference of the resident sizes and the proportional ones.
    pub(super) saved_bytes: u64,
}

impl Memory {
    pub(super) fn of(report: &Report) -> Self {
        let front = report.all.processes.iter();
        let front = front.filter(|process| process.role == Role::Front);
        let mut rows: Vec<Row> = front.map(|process| Row::of(process, None, None)).collect();
        let alone = report
            .applications
            .is_empty()
            .then_some((None, &report.all));
        let several = report.applications.iter();
        let several = several.map(|one| (Some(&*one.name), &one.own));
        for (name, application) in alone.into_iter().chain(several) {
            let mut own: Vec<&Process> = application.processes.iter().collect();
            own.retain(|process| process.role != Role::Front);
            // Children after their worker: the status has them behind all others.
            own.sort_by_key(|process| {
                let (child, number) = (process.role == Role::Child, process.worker);
                (process.generation, number, child)
            });
            for process in own {
                let mut generations = application.generations.iter();
                let state = generations.find(|one| Some(one.number) == process.generation);
                rows.push(Row::of(process, name, state.map(|one| &*one.state)));
            }
        }
        Self {
            pid: report.pid,
            now: report.now,
            dir: report.dir.clone(),
            total: Total::of(&rows),
            processes: rows,
        }
    }
}

impl Row {
    fn of(process: &Process, application: Option<&str>, state: Option<&str>) -> Self {
        let figures = process.memory_bytes.zip(process.first_memory_bytes);
        Self {
            application: application.map(str::to_owned),
            generation_state: state.map(str::to_owned),
            process: process.clone(),
            grown_bytes: figures.map(|(now, first)| now.cast_signed() - first.cast_signed()),
        }
    }
}

impl Total {
    fn of(rows: &[Row]) -> Self {
        let mut total = Self::default();
        for process in rows.iter().map(|row| &row.process) {
            let Some((memory, private)) = process.memory.zip(process.memory_bytes) else {
                total.unknown += 1;
                continue;
            };
            total.processes += 1;
            total.rss_bytes += memory.rss_bytes;
            total.pss_bytes += memory.pss_bytes;
            total.private_bytes += private;
            total.swap_bytes += memory.swap_bytes;
        }
        total.saved_bytes = total.rss_bytes.saturating_sub(total.pss_bytes);
        total
    }
}
