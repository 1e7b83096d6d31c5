//! Gathers the status of a running server. Only reads.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use certificates::Manager;
use front::log::AccessLog;
use front::{ApplicationSnapshot, Front, ServerCounts, frequent_paths};
use metrics::{ApplicationTotals, Counts};
use supervisor::{Process, Role, scale_of, worker_count};
use traces::Queue;

use crate::changes::restart::MAX_WARM_UP_FREQUENT;
use crate::control::log_level::LevelReport;
use crate::control::report::{ApplicationReport, NamedReport, Report, Workers, WorkersByLoad};
use crate::control::routes;
use crate::hosted::Hosted;
use crate::thread_advice::ThreadAdvice;
use crate::totals::{ServerTotals, Totals};

/// Gathers the status.
pub(crate) struct Reporter {
    /// The fields that never change.
    pub(crate) fixed: Report,
    pub(crate) front: Rc<Front>,
    pub(crate) hosted: Vec<Rc<Hosted>>,
    /// `booting`, `serving`, `replaced` or `stopping`.
    pub(crate) state: Rc<Cell<&'static str>>,
    pub(crate) certificates: SharedManager,
    /// Where spans are put, if any are sent.
    pub(crate) traces: Option<Arc<Queue>>,
    pub(crate) totals: Rc<Totals>,
    pub(crate) log: Rc<AccessLog>,
}

/// What keeps the certificates, from when the server serves.
pub(crate) type SharedManager = Rc<RefCell<Option<Manager>>>;

impl Reporter {
    /// What was counted, also by servers before this one.
    pub(crate) fn totals(&self) -> Rc<ServerTotals> {
        self.totals.shown()
    }

    /// The same without what servers before this one have counted.
    pub(crate) fn own_totals(&self) -> ServerTotals {
        self.totals.own()
    }

    /// Returns the status now. Waits for the kernel's figures of memory, for a bounded time.
    pub(crate) async fn report(&self) -> Report {
        let mut processes = Vec::new();
        for hosted in &self.hosted {
            processes.push(hosted.supervisor.measured_processes().await);
        }
        self.report_with(processes)
    }

    /// Returns the status now, without figures of memory. Waits for nothing.
    pub(crate) fn report_without_memory(&self) -> Report {
        let each = self.hosted.iter();
        let processes = each.map(|hosted| hosted.supervisor.processes());
        self.report_with(processes.collect())
    }

    /// The status with these processes of each application.
    fn report_with(&self, mut measured: Vec<Vec<Process>>) -> Report {
        let mut front = None;
        for processes in &mut measured {
            // Each supervisor names it.
            let own = processes.extract_if(.., |one| one.role == Role::Front);
            front = front.or(own.collect::<Vec<_>>().pop());
        }
        // Before those of the applications: what ends between the two is none of theirs otherwise.
        let snapshot = self.front.snapshot();
        let each = self.hosted.iter().zip(measured);
        let applications: Vec<_> = each
            .map(|(hosted, processes)| named_report(hosted, processes))
            .collect();
        let alone = self.hosted.iter().all(|one| one.name().is_none());
        let mut all = match &applications[..] {
            [only] if alone => only.own.clone(),
            several => {
                let nobody = ServerCounts::of(&self.front).totals();
                together(several, snapshot.all, nobody.unwrap_or_default())
            }
        };
        all.processes.splice(0..0, front);
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        Report {
            state: self.state.get().to_owned(),
            acme: self
                .certificates
                .borrow()
                .as_ref()
                .map_or_else(Vec::new, Manager::status),
            now: now.map_or(0, |elapsed| elapsed.as_secs()),
            connections: snapshot.connections,
            log_level: LevelReport::of(&self.log),
            certificates: snapshot.certificates,
            spans: self.traces.as_ref().map_or_else(BTreeMap::new, |queue| {
                let counts = queue.counts().all();
                counts.map(|(name, count)| (name.to_owned(), count)).into()
            }),
            all,
            applications: if alone { Vec::new() } else { applications },
            ..self.fixed.clone()
        }
    }
}

/// One application.
fn named_report(hosted: &Hosted, processes: Vec<Process>) -> NamedReport {
    let settings = hosted.front.settings();
    let application = hosted.application.borrow();
    let table = application.table.as_ref();
    let hosts = table.iter().flat_map(|table| &table.hosts);
    let totals = hosted.front.totals();
    let active_threads = hosted.thread_limit.get();
    let threads = active_threads.map_or(settings.threads.most(), |limit| limit.active);
    let own = ApplicationReport {
        environment: settings.environment.clone(),
        workers: workers(hosted),
        generations: hosted.supervisor.generations(),
        counters: totals.outcomes.clone(),
        responses: totals.responses.clone(),
        routes: routes::rows(&totals),
        thread_advice: ThreadAdvice::of(threads, &totals.cost()),
        active_threads,
        totals: Arc::new(totals),
        latency: hosted.front.latency(),
        experiment: hosted.experiments.report(),
        frequent_paths: frequent_paths(&hosted.front).list(MAX_WARM_UP_FREQUENT),
        stopped: hosted.is_stopped.get().then(|| "idle".to_owned()),
        ..ApplicationReport::default()
    };
    NamedReport {
        name: application.name().unwrap_or_default().to_owned(),
        dir: application.dir.display().to_string(),
        hosts: hosts.map(ToString::to_string).collect(),
        prefix: table.map_or_else(String::new, |table| table.prefix.clone()),
        own: own.with(hosted.front.snapshot(), processes, settings.threads.most()),
    }
}

/// How many workers there shall be.
fn workers(hosted: &Hosted) -> Workers {
    let settings = Rc::clone(&hosted.application.borrow().settings);
    let (wanted, count) = (hosted.wanted_workers(), worker_count(&hosted.supervisor));
    Workers {
        setting: settings.workers.least(),
        wanted,
        allowed: if count.wanted == wanted {
            count.allowed
        } else {
            wanted
        },
        max: settings.most_workers(),
        by_load: settings.workers.is_range().then(|| WorkersByLoad {
            min: settings.workers.least(),
            max: settings.workers.most(),
            scaled: scale_of(&hosted.supervisor).operator.is_some(),
            blocked: hosted.obstacle.get().map(|obstacle| obstacle.to_string()),
        }),
    }
}

/// All applications in one, with the requests of none.
fn together(
    applications: &[NamedReport],
    snapshot: ApplicationSnapshot,
    nobody: ApplicationTotals,
) -> ApplicationReport {
    let each = || applications.iter().map(|one| &one.own);
    let sum = |of: fn(&Workers) -> u16| each().map(|one| of(&one.workers)).sum();
    let (mut counters, mut responses) = (nobody.outcomes, nobody.responses);
    for one in each() {
        add(&mut counters, &one.counters);
        add(&mut responses, &one.responses);
    }
    let all = ApplicationReport {
        counters,
        responses,
        workers: Workers {
            setting: sum(|one| one.setting),
            wanted: sum(|one| one.wanted),
            allowed: sum(|one| one.allowed),
            max: sum(|one| one.max),
            by_load: None,
        },
        environment: each()
            .next()
            .map_or_else(String::new, |one| one.environment.clone()),
        generations: each().flat_map(|one| one.generations.clone()).collect(),
        ..ApplicationReport::default()
    };
    let processes = each().flat_map(|one| one.processes.clone()).collect();
    let threads = each().flat_map(|one| one.threads.clone()).collect();
    ApplicationReport {
        threads,
        ..all.with(snapshot, processes, 0)
    }
}

/// Adds counts to others of the same names.
fn add(counts: &mut Counts, more: &Counts) {
    for (name, count) in more {
        let sum = counts.entry(name.clone()).or_default();
        *sum = sum.saturating_add(*count);
    }
}
