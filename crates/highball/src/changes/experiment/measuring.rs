//! The measuring of the two halves of an experiment, slice by slice, until its time is up or it is ended. What is better is
//! judged by the crate `experiment`.

use std::rc::Rc;
use std::time::{Duration, Instant};

use experiment::{Findings, Memory, Recorded, Slice};
use front::log::Level;
use front::{ExperimentRecords, begin_experiment};
use metrics::ApplicationTotals;
use supervisor::{Process, Role, experiment_over, workers_are_back};
use tokio::time::sleep;

use crate::experiments::{ExperimentReport, ExperimentState};
use crate::hosted::Hosted;

/// Slices of time into which the measuring is divided: enough for a narrow interval.
const SLICES: u32 = 20;
/// The part of the measuring time that passes before it begins, while fresh workers warm up.
const WARM_UP_PARTS: u32 = 5;

/// Measures both halves of an experiment whose workers serve, until its time is up or it is ended. Then all workers have the
/// server's setting again. Returns when they do.
pub(super) async fn measure(hosted: Rc<Hosted>, generations: [u32; 2], time: Duration) {
    let experiments = &hosted.experiments;
    let until = Instant::now() + time + time / WARM_UP_PARTS;
    experiments.until.replace(Some(until));
    let measuring = Measuring {
        hosted: &hosted,
        generations,
        records: begin_experiment(&hosted.front, generations),
    };
    let ended = tokio::select! {
        reason = experiment_over(&hosted.supervisor, generations[1]) => reason,
        () = measuring.take_slices(time) => None,
    };
    front::end_experiment(&hosted.front);
    supervisor::end_experiment(&hosted.supervisor);
    experiments.until.take();
    let by = experiments.reason.take();
    experiments.change(|report| {
        report.ended = by.or(ended);
        report.state = ExperimentState::Ending;
    });
    workers_are_back(&hosted.supervisor).await;
    experiments.change(|report| report.state = ExperimentState::Over);
    if let Some(report) = experiments.report() {
        hosted.log().event(Level::Info, &verdict(&report), &[]);
    }
}

/// An experiment that is measured.
struct Measuring<'a> {
    hosted: &'a Hosted,
    generations: [u32; 2],
    records: ExperimentRecords,
}

impl Measuring<'_> {
    async fn take_slices(&self, time: Duration) {
        sleep(time / WARM_UP_PARTS).await;
        let experiments = &self.hosted.experiments;
        experiments.change(|report| report.state = ExperimentState::Measuring);
        let (mut slices, mut before) = (Vec::new(), self.records.totals());
        let began = tokio::time::Instant::now();
        for number in 1..=SLICES {
            tokio::time::sleep_until(began + time * number / SLICES).await;
            let now = self.records.totals();
            slices.push(self.slice(&before, &now).await);
            before = now;
            let findings = Findings::of(&slices);
            experiments.change(|report| report.findings = findings);
        }
    }

    async fn slice(&self, before: &[ApplicationTotals; 2], now: &[ApplicationTotals; 2]) -> Slice {
        let processes = self.hosted.supervisor.measured_processes().await;
        let half = |at: usize| {
            let mut half = Recorded::between(&before[at], &now[at]);
            half.memory = memory(&processes, self.generations[at]);
            half
        };
        Slice {
            base: half(0),
            variant: half(1),
        }
    }
}

/// The verdict in one line, for the log.
fn verdict(report: &ExperimentReport) -> String {
    let ExperimentReport {
        setting,
        ended,
        findings,
        ..
    } = report;
    let ended = ended.as_ref();
    let ended = ended.map_or_else(String::new, |why| format!(" (ended early: {why})"));
    let requests = (findings.base.requests, findings.variant.requests);
    let cpu = match findings.cpu.ratio {
        Some(ratio) => format!("CPU time of a request x {ratio:.3}"),
        None => "too few requests for a ratio of CPU times".to_owned(),
    };
    format!(
        "experiment over{ended}: {setting}: {cpu}, {} and {} requests; highball experiment --show has the rest",
        requests.0, requests.1
    )
}

/// The mean memory of the workers of a generation that serve.
fn memory(processes: &[Process], generation: u32) -> Option<Memory> {
    let serves = |one: &&Process| {
        one.role == Role::Worker && one.generation == Some(generation) && one.state == "ready"
    };
    let known = processes.iter().filter(serves);
    let known: Vec<_> = known
        .filter_map(|one| Some((one.memory?.pss_bytes, one.memory_bytes?)))
        .collect();
    let count = known.len() as f64;
    let sum = |of: fn(&(u64, u64)) -> u64| known.iter().map(of).sum::<u64>() as f64;
    (!known.is_empty()).then(|| Memory {
        pss_bytes: sum(|one| one.0) / count,
        private_bytes: sum(|one| one.1) / count,
    })
}
