//! Whether a generation came up, for whoever waits to hear it and for the log. The fleet decides; what went wrong
//! was found by the tasks.

use std::rc::Rc;
use std::time::Duration;

use tokio::task::spawn_local;

use crate::Note;
use crate::rules::fleet::{self, Why};
use crate::runtime::exit_status::Ending;
use crate::runtime::supervisor::Shared;
use crate::runtime::template::BootError;

/// Why a generation did not come up.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The application was not loaded.
    #[error(transparent)]
    Boot(#[from] BootError),
    /// Its template ended after it had loaded the application.
    #[error("its template ended with {0}")]
    Template(Ending),
    /// Workers were forked but those of one number did not last.
    #[error(
        "worker {worker} ended {deaths} times in a row when it was started; the reason is in the server's output"
    )]
    Worker {
        /// The worker, from 0.
        worker: u16,
        /// How often.
        deaths: u32,
    },
    /// Workers took too long, for example in an after_fork hook.
    #[error("the workers were not ready within {0:?} (setting `boot_timeout`)")]
    Timeout(Duration),
    /// It did not pass the check.
    #[error("it did not pass its check (setting `ready_check`): {0}")]
    Check(String),
    /// One of its workers damaged the exchange.
    #[error("one of its workers wrote into the shared memory what no sound worker writes")]
    Corrupt,
    /// Another generation is on its way in or out.
    #[error("another generation is on its way")]
    Busy,
    /// The server stops.
    #[error("the server stops")]
    CalledOff,
}

impl Shared {
    pub(crate) fn check(self: Rc<Self>, generation: u32) {
        let inner = self.inner.borrow();
        let members = inner.members.get(&generation);
        let check = members.and_then(|members| members.load.plan.check.clone());
        drop(inner);
        spawn_local(async move {
            let checked = match check {
                Some(check) => self.dispatcher.check(generation, check).await,
                None => Ok(()),
            };
            let passed = checked.is_ok();
            if let Err(reason) = checked {
                self.fail(generation, StartError::Check(reason));
            }
            self.decide(fleet::Event::Checked { generation, passed });
        });
    }

    /// Remembers why a generation does not come up, for whoever waits for it.
    pub(crate) fn fail(&self, generation: u32, failure: StartError) {
        if let Some(members) = self.inner.borrow_mut().members.get_mut(&generation) {
            members.failure = Some(failure);
        }
    }

    pub(crate) fn serves(&self, generation: u32) {
        let mut inner = self.inner.borrow_mut();
        let Some(members) = inner.members.get_mut(&generation) else {
            return;
        };
        if let (Some(verdict), Some(booted)) = (members.verdict.take(), &members.booted) {
            // Nobody need wait for it.
            let _ = verdict.send(Ok(booted.clone()));
        }
        let first = members.first;
        let load = Rc::clone(&members.load);
        drop(inner);
        self.budget.borrow_mut().keep_to(load.plan.budget);
        self.in_force.replace(Some(load));
        if !first {
            self.note(generation, &Note::Serves);
        }
    }

    pub(crate) fn give_up(&self, generation: u32, why: Why) {
        let mut inner = self.inner.borrow_mut();
        let Some(members) = inner.members.get_mut(&generation) else {
            return;
        };
        let first = members.first;
        let failure = members.failure.take();
        let boot_timeout = members.load.plan.boot_timeout;
        let verdict = members.verdict.take();
        drop(inner);
        let error = match (why, failure) {
            (Why::Template | Why::Check, Some(failure)) => failure,
            (Why::Template, None) => StartError::Template(Ending::Unknown),
            (Why::Check, None) => StartError::Check("no answer within `boot_timeout`".to_owned()),
            (Why::Worker { worker, deaths }, _) => StartError::Worker { worker, deaths },
            (Why::Timeout, _) => StartError::Timeout(boot_timeout),
            (Why::Corrupt, _) => StartError::Corrupt,
            (Why::CalledOff, _) => StartError::CalledOff,
        };
        if !first {
            let reason = error.to_string();
            self.note(generation, &Note::GivenUp { reason });
        }
        if let Some(verdict) = verdict {
            let _ = verdict.send(Err(error));
        }
    }

    pub(crate) fn close(&self, generation: u32) {
        let mut inner = self.inner.borrow_mut();
        let gone = inner.members.remove(&generation);
        let last = inner.members.is_empty();
        drop(inner);
        drop(gone);
        self.dispatcher.close(generation);
        if !last {
            self.note(generation, &Note::Closed);
        }
    }
}
