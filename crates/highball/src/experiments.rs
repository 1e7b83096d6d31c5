//! The experiment of an application: what is known of it. It measures and judges nothing.

use std::cell::RefCell;
use std::time::Instant;

use experiment::Findings;
use serde::{Deserialize, Serialize};

/// How far an experiment is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ExperimentState {
    /// Fresh workers warm up; nothing counts yet.
    WarmingUp,
    /// Both halves are measured.
    Measuring,
    /// It is over, and the workers of the second half leave.
    Ending,
    /// All workers have the server's setting.
    #[default]
    Over,
}

/// An experiment that runs, or the last one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ExperimentReport {
    /// How far it is.
    pub(crate) state: ExperimentState,
    /// What is different in the second half.
    pub(crate) setting: String,
    /// The generation with the server's setting, and that with the other one.
    pub(crate) generations: [u32; 2],
    /// Workers of each half.
    pub(crate) workers: [usize; 2],
    /// How long it measures, in seconds, after the warm-up.
    pub(crate) seconds: u32,
    /// How long until its end, in seconds.
    pub(crate) remaining_s: u64,
    /// Why it ended before its time, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ended: Option<String>,
    /// What else to know of it, in sentences.
    pub(crate) notes: Vec<String>,
    /// The verdict on all slices of time so far.
    pub(crate) findings: Findings,
}

/// The experiment of an application, if there is or was one.
#[derive(Default)]
pub(crate) struct Experiments {
    report: RefCell<Option<ExperimentReport>>,
    /// When it ends by itself.
    pub(crate) until: RefCell<Option<Instant>>,
    /// Who ended it.
    pub(crate) reason: RefCell<Option<String>>,
}

impl Experiments {
    /// The one that runs, or the last one.
    pub(crate) fn report(&self) -> Option<ExperimentReport> {
        let until = self.until.borrow();
        let rest = until.map(|until| until.saturating_duration_since(Instant::now()));
        let report = self.report.borrow().clone();
        report.map(|report| ExperimentReport {
            remaining_s: rest.map_or(0, |rest| rest.as_secs_f64().ceil() as u64),
            ..report
        })
    }

    /// One begins.
    pub(crate) fn begin(&self, report: &ExperimentReport) {
        self.reason.take();
        self.report.replace(Some(report.clone()));
    }

    /// Changes the one that is known.
    pub(crate) fn change(&self, change: impl FnOnce(&mut ExperimentReport)) {
        self.report.borrow_mut().as_mut().map(change);
    }
}
