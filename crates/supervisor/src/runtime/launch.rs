//! The launch of a generation: how it begins, and how it ends: its caller gets the result, and the log a line. The fleet
//! decides; the tasks have found what went wrong.

use std::rc::Rc;

use tokio::sync::oneshot;
use tokio::task::spawn_local;

use crate::launcher::handle::Launcher;
use crate::note::GenerationNote;
use crate::rules::fleet::{self, GiveUpReason, Rules};
use crate::rules::refork::Reforking;
use crate::runtime::exit_status::ExitStatus;
use crate::runtime::exits::Exits;
use crate::runtime::load::{Booted, Load, StartError};
use crate::runtime::refork::due::refork_when_due;
use crate::runtime::shared::{Processes, Shared};
use crate::runtime::supervisor::Supervisor;

/// Has a launcher start, signal and measure all processes of this supervisor, for they have a user of their own. To be called
/// before the first launch.
pub fn start_by(supervisor: &Supervisor, launcher: Rc<Launcher>) {
    // A second one would not know the processes of the first.
    let _ = supervisor.shared.launcher.set(launcher);
}

impl Supervisor {
    /// Starts a generation: its template loads the application and forks its workers; once they are ready,
    /// requests are routed to it. Another generation serves until then, and finishes its requests
    /// afterwards. Needs a `LocalRuntime`.
    ///
    /// # Errors
    /// Why it cannot serve. The other generation then serves on; without one, drop the supervisor.
    pub async fn launch(&self, load: Load) -> Result<Booted, StartError> {
        let generation = load.start.generation;
        let scarce = !load.plan.worker_by_worker && self.limits.is_scarce(generation).await;
        let plan = &load.plan;
        let rules = Rules {
            places: plan.most_workers,
            workers: self.limits.affordable(plan),
            boot_timeout: plan.boot_timeout,
            drain_timeout: plan.drain_timeout,
            worker_by_worker: plan.worker_by_worker || scarce,
            check: plan.check.is_some(),
            experiment: false,
        };
        let verdict = self.enlist(load, rules)?;
        // Without a verdict everything is being torn down.
        verdict.await.unwrap_or(Err(StartError::CalledOff))
    }

    /// Begins to start a generation. The receiver gets the result.
    pub(super) fn enlist(
        &self,
        load: Load,
        rules: Rules,
    ) -> Result<oneshot::Receiver<Result<Booted, StartError>>, StartError> {
        let shared = &self.shared;
        let generation = load.start.generation;
        let (verdict, receiver) = oneshot::channel();
        let mut inner = shared.inner.borrow_mut();
        if inner.fleet.stopping() {
            return Err(StartError::CalledOff);
        }
        if !inner.fleet.is_settled() {
            return Err(StartError::Busy);
        }
        let first = inner.fleet.finished();
        let plan = &load.plan;
        let refork = !plan.refork.is_empty();
        let processes = Processes {
            workers: (0..=plan.most_workers).map(|_| None).collect(),
            load: Rc::new(load),
            exits: Exits::default(),
            template: None,
            older: None,
            refork: Reforking::default(),
            corrupt: false,
            first,
            booted: None,
            failure: None,
            verdict: Some(verdict),
        };
        inner.processes.insert(generation, processes);
        drop(inner);
        self.start_tasks();
        if refork {
            let (shared, limits) = (Rc::clone(shared), self.limits.clone());
            let task = spawn_local(refork_when_due(shared, limits, generation));
            let mut tasks = self.tasks.borrow_mut();
            // Those of earlier generations.
            tasks.retain(|task| !task.is_finished());
            tasks.push(task);
        }
        shared.dispatcher.resize(generation, rules.workers);
        if !first {
            shared.note(generation, GenerationNote::Starting);
        }
        shared.decide(fleet::Event::Launch { generation, rules });
        Ok(receiver)
    }

    /// Starts the tasks that run for as long as the supervisor lives, unless they run already.
    fn start_tasks(&self) {
        let mut tasks = self.tasks.borrow_mut();
        if !tasks.is_empty() {
            return;
        }
        tasks.push(spawn_local(Rc::clone(&self.shared).keep_time()));
        tasks.push(spawn_local(self.limits.clone().run()));
    }

    /// Lets no new generation take over any more: the server is going to stop.
    pub fn cancel_launch(&self) {
        self.shared.decide(fleet::Event::CancelLaunch);
    }
}

impl Shared {
    pub(crate) fn check(self: Rc<Self>, generation: u32) {
        let inner = self.inner.borrow();
        let processes = inner.processes.get(&generation);
        let check = processes.and_then(|processes| processes.load.plan.check.clone());
        drop(inner);
        spawn_local(async move {
            let checked = match check {
                Some(check) => self.dispatcher.check(generation, check).await,
                None => Ok(()),
            };
            let passed = checked.is_ok();
            if let Err(reason) = checked {
                let mut inner = self.inner.borrow_mut();
                if let Some(processes) = inner.processes.get_mut(&generation) {
                    processes.failure = Some(StartError::Check(reason));
                }
            }
            self.decide(fleet::Event::Checked { generation, passed });
        });
    }

    /// A generation has all its workers. It has taken over, or shares the requests with the other one in an experiment.
    pub(crate) fn serves(&self, generation: u32, takes_over: bool) {
        let mut inner = self.inner.borrow_mut();
        let Some(processes) = inner.processes.get_mut(&generation) else {
            return;
        };
        if let (Some(verdict), Some(booted)) = (processes.verdict.take(), &processes.booted) {
            // The caller may have stopped waiting.
            let _ = verdict.send(Ok(booted.clone()));
        }
        let first = processes.first;
        let load = Rc::clone(&processes.load);
        drop(inner);
        if !takes_over {
            return self.note(generation, GenerationNote::Shares);
        }
        self.budget.borrow_mut().set_bound(load.plan.budget);
        self.serving_load.replace(Some(load));
        if !first {
            self.note(generation, GenerationNote::Serves);
        }
    }

    pub(crate) fn give_up(&self, generation: u32, why: GiveUpReason) {
        let mut inner = self.inner.borrow_mut();
        let Some(processes) = inner.processes.get_mut(&generation) else {
            return;
        };
        let first = processes.first;
        let failure = processes.failure.take();
        let boot_timeout = processes.load.plan.boot_timeout;
        let verdict = processes.verdict.take();
        drop(inner);
        let error = match (why, failure) {
            (GiveUpReason::Template | GiveUpReason::Check, Some(failure)) => failure,
            (GiveUpReason::Template, None) => StartError::Template(ExitStatus::Unknown),
            (GiveUpReason::Check, None) => {
                StartError::Check("no answer within `boot_timeout`".to_owned())
            }
            (GiveUpReason::Worker { worker, deaths }, _) => StartError::Worker { worker, deaths },
            (GiveUpReason::Timeout, _) => StartError::Timeout(boot_timeout),
            (GiveUpReason::Corrupt, _) => StartError::Corrupt,
            (GiveUpReason::CalledOff, _) => StartError::CalledOff,
            (GiveUpReason::ExperimentOver, _) => StartError::ExperimentOver,
        };
        let reason = error.to_string();
        self.given_up.replace(Some((generation, reason.clone())));
        match why {
            GiveUpReason::ExperimentOver => self.note(generation, GenerationNote::ExperimentOver),
            _ if first => {}
            _ => self.note(generation, GenerationNote::GivenUp { reason }),
        }
        if let Some(verdict) = verdict {
            let _ = verdict.send(Err(error));
        }
    }

    pub(crate) fn close(&self, generation: u32) {
        let mut inner = self.inner.borrow_mut();
        let gone = inner.processes.remove(&generation);
        let last = inner.processes.is_empty();
        drop(inner);
        drop(gone);
        self.dispatcher.close(generation);
        if !last {
            self.note(generation, GenerationNote::Ended);
        }
    }
}
