//! How a launch ends: told to its caller and to the log. The fleet decides; the tasks have found what went wrong.

use std::rc::Rc;

use tokio::task::spawn_local;

use crate::note::GenerationNote;
use crate::rules::fleet::{self, Why};
use crate::runtime::exit_status::ExitStatus;
use crate::runtime::shared::Shared;
use crate::runtime::start_error::StartError;

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

    pub(crate) fn serves(&self, generation: u32) {
        let mut inner = self.inner.borrow_mut();
        let Some(processes) = inner.processes.get_mut(&generation) else {
            return;
        };
        if let (Some(verdict), Some(booted)) = (processes.verdict.take(), &processes.booted) {
            // Nobody need wait for it.
            let _ = verdict.send(Ok(booted.clone()));
        }
        let first = processes.first;
        let load = Rc::clone(&processes.load);
        drop(inner);
        self.budget.borrow_mut().set_bound(load.plan.budget);
        self.serving_load.replace(Some(load));
        if !first {
            self.note(generation, GenerationNote::Serves);
        }
    }

    pub(crate) fn give_up(&self, generation: u32, why: Why) {
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
            (Why::Template | Why::Check, Some(failure)) => failure,
            (Why::Template, None) => StartError::Template(ExitStatus::Unknown),
            (Why::Check, None) => StartError::Check("no answer within `boot_timeout`".to_owned()),
            (Why::Worker { worker, deaths }, _) => StartError::Worker { worker, deaths },
            (Why::Timeout, _) => StartError::Timeout(boot_timeout),
            (Why::Corrupt, _) => StartError::Corrupt,
            (Why::CalledOff, _) => StartError::CalledOff,
        };
        if !first {
            let reason = error.to_string();
            self.note(generation, GenerationNote::GivenUp { reason });
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
