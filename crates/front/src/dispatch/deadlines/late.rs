//! Threads that run past a deadline. Almost always none.

use std::sync::Arc;

use exchange::{Alarm, Run, Stall, WorkerId};

use super::Check;
use crate::http::request::Request;
use crate::log::{AccessLog, errors};

/// What a thread is late with.
#[derive(Clone)]
pub(in crate::dispatch) enum LateWork {
    /// A request.
    Request {
        /// What the client asked for.
        request: Arc<Request>,
        /// The worker.
        by: WorkerId,
        /// When the thread claimed it, nanoseconds of the monotonic clock.
        since_ns: u64,
    },
    /// What the application does after a response.
    AfterResponse {
        /// The worker.
        by: WorkerId,
        /// When the thread handed the request back, nanoseconds of the monotonic clock.
        since_ns: u64,
    },
}

impl LateWork {
    /// Logs where the thread is; no backtrace where its worker ended without having said so.
    pub(in crate::dispatch) fn log(&self, log: &AccessLog, backtrace: Option<&str>) {
        let (request, by, since_ns) = match self {
            Self::Request {
                request,
                by,
                since_ns,
            } => (Some(&**request), by, since_ns),
            Self::AfterResponse { by, since_ns } => (None, by, since_ns),
        };
        errors::late(log, request, *by, *since_ns, backtrace);
    }
}

struct LateRun {
    run: Run,
    work: LateWork,
    /// Its deadline, nanoseconds of the monotonic clock.
    until: u64,
    /// Whether its worker has said where the thread is.
    traced: bool,
}

/// The late threads of one generation.
#[derive(Default)]
pub(super) struct LateRuns {
    runs: Vec<LateRun>,
    /// Workers that are known to be stuck, and whether also to be spent.
    stuck: Vec<(u16, bool)>,
}

impl LateRuns {
    /// A thread is late from now on.
    pub(super) fn begin(&mut self, run: Run, work: LateWork, until: u64) {
        // A thread that runs another one has nothing to say of the last: no more is kept than there are threads.
        let of_thread = |late: &LateRun| (late.run.by, late.run.thread) == (run.by, run.thread);
        self.runs.retain(|late| !of_thread(late));
        self.runs.push(LateRun {
            run,
            work,
            until,
            traced: false,
        });
    }

    /// A worker has said where the thread of this run is. Returns what it is late with; once.
    pub(super) fn traced(&mut self, by: WorkerId, slot: u16, sequence: u32) -> Option<LateWork> {
        let asked = |late: &&mut LateRun| {
            let run = late.run;
            (run.by, run.slot, run.sequence) == (by, slot, sequence) && !late.traced
        };
        let late = self.runs.iter_mut().find(asked)?;
        late.traced = true;
        Some(late.work.clone())
    }

    /// Adds what has become of late threads since the last time. `goes_on` says whether a thread still has what it is late
    /// with, `of_use` whether a worker has anything else worth waiting for.
    pub(super) fn check(
        &mut self,
        check: Check,
        goes_on: impl Fn(Run) -> bool,
        of_use: impl Fn(u16) -> bool,
        alarms: &mut Vec<Alarm>,
    ) {
        if self.runs.is_empty() {
            return;
        }
        self.runs.retain(|late| !late.traced || goes_on(late.run));
        let grace = check.grace.as_nanos() as u64;
        let known = self.stuck.len();
        for late in &self.runs {
            let by = late.run.by;
            if late.until.saturating_add(grace) > check.now || !goes_on(late.run) {
                continue;
            }
            match self
                .stuck
                .iter()
                .position(|(worker, _)| *worker == by.worker)
            {
                None => {
                    self.stuck.push((by.worker, false));
                    alarms.push(Alarm::Stalled(by, Stall::LateRequest));
                }
                // Not at once: a thread that idles may take a last request while it hears that it is to leave.
                Some(at) if at < known && !self.stuck[at].1 && !of_use(by.worker) => {
                    self.stuck[at].1 = true;
                    alarms.push(Alarm::OnlyLateWork(by));
                }
                Some(_) => {}
            }
        }
    }

    /// Forgets a dead worker. Returns what it was late with and never said where.
    pub(super) fn forget_worker(
        &mut self,
        worker: u16,
        goes_on: impl Fn(Run) -> bool,
    ) -> Vec<LateWork> {
        self.stuck.retain(|(known, _)| *known != worker);
        let of_worker = |late: &mut LateRun| late.run.by.worker == worker;
        let gone = self.runs.extract_if(.., of_worker);
        let unlogged = gone.filter(|late| !late.traced && goes_on(late.run));
        unlogged.map(|late| late.work).collect()
    }
}
