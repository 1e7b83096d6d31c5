//! The worker that forks a template: it is asked to, and what it forks when it leaves is waited for. Decides nothing about other
//! workers.

use std::os::fd::{AsFd, OwnedFd};
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use exchange::control::{FromTemplate, Received, ToWorker};
use tokio::time::timeout;

use super::{Refork, ReforkError, id};
use crate::note::TemplateNote;
use crate::rules::fleet::Fleet;
use crate::rules::limits::Life;
use crate::rules::pool::State;
use crate::runtime::channel::{Channel, open_pidfd};
use crate::runtime::template_process::TemplateProcess;

/// How long a worker may take to say whether it will fork a template.
const DONOR_ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// What became of the worker that was told to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Departure {
    /// Its process is gone.
    Gone,
    /// It stays: the number of workers has changed meanwhile, which calls every replacement off.
    CalledOff,
}

/// A template that is being forked: both halves of what there is to know, which come in either order.
#[derive(Default)]
struct Birth {
    /// From the worker that forks it.
    process: Option<TemplateProcess>,
    /// From the template.
    has_booted: bool,
}

impl Refork {
    /// Asks a worker to fork a template when it leaves. Returns the supervisor's end of that template's control socket.
    pub(super) async fn ask(&self, donor: Life) -> Result<Channel, ReforkError> {
        let failed = |text: &str| ReforkError::Failed(format!("worker {} {text}", donor.worker));
        let pair = Channel::pair();
        let (channel, far) = pair.map_err(|error| ReforkError::Failed(error.to_string()))?;
        self.send(donor, far)
            .ok_or_else(|| failed("takes no messages"))?;
        let answer = timeout(DONOR_ANSWER_TIMEOUT, channel.receive()).await;
        match answer.map(|answer| answer.ok().flatten().map(|received| received.message)) {
            Ok(Some(FromTemplate::Donor { lost })) => {
                for sentence in lost {
                    self.shared
                        .note(self.generation, TemplateNote::Held(sentence));
                }
                Ok(channel)
            }
            Ok(Some(FromTemplate::BootFailed { message, .. })) => {
                Err(ReforkError::Refused(message))
            }
            Ok(_) => Err(failed("cannot fork a template")),
            Err(_) => Err(failed(&format!(
                "did not answer within {} s",
                DONOR_ANSWER_TIMEOUT.as_secs()
            ))),
        }
    }

    fn send(&self, donor: Life, far: OwnedFd) -> Option<()> {
        let mut inner = self.shared.inner.borrow_mut();
        let worker = inner.worker(id(donor))?.as_ref()?;
        worker
            .send_with(&ToWorker::Refork, far.as_fd())
            .then_some(())
    }

    /// The template that the worker forks when it leaves. It is killed should it not say in time that it can fork.
    pub(super) async fn born(
        &self,
        channel: Channel,
        donor: Life,
    ) -> Result<TemplateProcess, ReforkError> {
        let channel = Rc::new(channel);
        let limit = self.patience();
        let born = timeout(limit, self.introduced(&channel, donor)).await;
        let late = || format!("no template was forked within {limit:?}");
        born.unwrap_or_else(|_| Err(ReforkError::Failed(late())))
    }

    async fn introduced(
        &self,
        channel: &Rc<Channel>,
        donor: Life,
    ) -> Result<TemplateProcess, ReforkError> {
        let mut birth = Birth::default();
        let mut departs = pin!(self.departure(donor));
        let mut is_gone = false;
        loop {
            let received = if is_gone && birth.process.is_none() {
                // What the worker had to say is here, or it was killed before that, and its template is not known.
                channel.take()
            } else {
                tokio::select! {
                    biased;
                    received = channel.receive() => {
                        received.map_err(|error| ReforkError::Failed(error.to_string()))?
                    }
                    departure = &mut departs, if !is_gone => match departure {
                        Departure::CalledOff => return Err(ReforkError::Busy),
                        Departure::Gone => {
                            is_gone = true;
                            continue;
                        }
                    },
                }
            };
            let too_early = "the worker or its template ended too early";
            let received = received.ok_or_else(|| ReforkError::Failed(too_early.to_owned()))?;
            self.learn(&mut birth, received, channel)
                .map_err(ReforkError::Failed)?;
            if let Some(process) = birth.process.take_if(|_| birth.has_booted) {
                return Ok(process);
            }
        }
    }

    fn learn(
        &self,
        birth: &mut Birth,
        received: Received<FromTemplate>,
        channel: &Rc<Channel>,
    ) -> Result<(), String> {
        match received.message {
            FromTemplate::Forked { pid, .. } => {
                let pidfd = received.fds.into_iter().next();
                let pidfd = pidfd.or_else(|| open_pidfd(pid));
                let pidfd = pidfd.ok_or("the template ended at once")?;
                let own = TemplateProcess::of_worker(pid, pidfd, Rc::clone(channel));
                birth.process = Some(own.map_err(|error| error.to_string())?);
            }
            FromTemplate::Booted { .. } => birth.has_booted = true,
            FromTemplate::BootFailed { message, .. } => return Err(message),
            FromTemplate::Counts { batch } => {
                self.shared.counts.pass_on(self.generation, None, &batch);
            }
            other => return Err(format!("no template sends {other:?}")),
        }
        Ok(())
    }

    /// Waits until the worker is gone, or stays although it was told to leave.
    async fn departure(&self, donor: Life) -> Departure {
        let state = |fleet: &Fleet| {
            let own = fleet.generations().get(donor.generation);
            let workers = own.map(|own| own.pool.workers());
            let workers = workers.filter(|own| own.life(donor.worker) == donor.life);
            match workers.map(|own| own.state(donor.worker)) {
                None => Some(Departure::Gone),
                Some(state) if !state.is_process() => Some(Departure::Gone),
                Some(State::Ready { .. }) if fleet.is_calm() => Some(Departure::CalledOff),
                Some(_) => None,
            }
        };
        self.shared.until(|fleet| state(fleet).is_some()).await;
        let departure = state(&self.shared.inner.borrow().fleet);
        departure.unwrap_or(Departure::Gone)
    }
}
