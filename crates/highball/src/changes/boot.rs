//! The first generation of an application. Where a server has several applications, one that does not come up is tried again,
//! and the others serve meanwhile.

use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use exchange::Dispatcher;
use front::log::{Level, Value};
use supervisor::{Booted, StartError};
use tokio::sync::mpsc;

use crate::application::published;
use crate::hosted::Hosted;

/// How long an application that did not come up is left alone at first; this doubles with each attempt.
pub(crate) const FIRST_RETRY_DELAY: Duration = Duration::from_secs(1);
/// The longest.
const LONGEST_RETRY_DELAY: Duration = Duration::from_secs(60);

/// The server that this one replaces, as far as the application's processes are concerned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Alongside {
    /// Its process.
    pub(crate) pid: i32,
    /// How many workers fit into memory in addition to its own; `None` for all.
    pub(crate) workers: Option<u16>,
}

/// What became of the first attempt of the application with this number, or that a further one was successful.
pub(crate) type BootResult = (usize, Result<Booted>);

impl Hosted {
    /// Brings the first generation up and sends what became of it. If the server can do without this application, tries again
    /// until it comes up.
    pub(crate) async fn start(
        self: Rc<Self>,
        number: usize,
        alongside: Option<Alongside>,
        needed: bool,
        results: mpsc::Sender<BootResult>,
    ) {
        let result = self.boot(alongside).await;
        let failure = result.as_ref().err().map(|error| format!("{error:#}"));
        if let Some(reason) = failure.as_ref().filter(|_| !needed) {
            self.log_failed(reason, FIRST_RETRY_DELAY);
        }
        // A start that has enough applications listens no more.
        let _ = results.send((number, result)).await;
        if failure.is_some()
            && !needed
            && let Some(booted) = self.keep_trying().await
        {
            let _ = results.send((number, Ok(booted))).await;
        }
    }

    /// Brings the first generation up. To replace a running server it must pass the check of restarts.
    ///
    /// # Errors
    /// Why it does not serve.
    async fn boot(&self, alongside: Option<Alongside>) -> Result<Booted> {
        let _turn = self.turn.lock().await;
        let application = self.application.borrow().clone();
        let generation = self.latest.get();
        let load = self.load(&application, generation).await;
        let mut load = load.inspect_err(|_| self.front.dispatcher().close(generation))?;
        if let Some(Alongside { pid, workers }) = alongside {
            load.start.low_priority = true;
            self.supervisor.start_alongside(&load.plan, workers, pid);
        }
        let dir = PathBuf::from(&load.start.app);
        let booted = self.supervisor.launch(load).await?;
        published::apply(&self.front, &application, &dir, &booted).await;
        if alongside.is_some()
            && let Some(path) = self.front.settings().ready_check.clone()
        {
            let checked = self.front.dispatcher().check(generation, path).await;
            checked.map_err(StartError::Check)?;
        }
        self.set_serving(generation);
        if application.table.is_some() {
            let (capacity, ruby) = (self.capacity(generation), &booted.ruby);
            let text = format!("the application serves: {capacity}, ruby {ruby}");
            self.log().event(Level::Info, &text, &[]);
        }
        Ok(booted)
    }

    /// Launches generations until one serves, ever more slowly. Requests get 503 meanwhile. Returns none if a restart was
    /// faster, or the server stops.
    pub(crate) async fn keep_trying(&self) -> Option<Booted> {
        let mut delay = FIRST_RETRY_DELAY;
        loop {
            self.front.dispatcher().outage(Some(Instant::now() + delay));
            tokio::time::sleep(delay).await;
            let _turn = self.turn.lock().await;
            // A restart may have come up meanwhile.
            if self.serving.get().is_some() {
                return None;
            }
            self.supervisor.settled().await;
            let application = self.application.borrow().clone();
            delay = (delay * 2).min(LONGEST_RETRY_DELAY);
            match self.launch(&application).await {
                Ok(booted) => return Some(booted),
                Err(error) if is_stop(&error) => return None,
                Err(error) => self.log_failed(&format!("{error:#}"), delay),
            }
        }
    }

    /// Logs why no generation came up, and when it is tried again.
    pub(crate) fn log_failed(&self, reason: &str, delay: Duration) {
        let text = format!(
            "the application did not come up; trying again in {} s, and its requests get 503 until then",
            delay.as_secs()
        );
        let fields = [("reason", Value::Text(&reason))];
        self.log().event(Level::Error, &text, &fields);
    }
}

/// Whether the launch failed because the server stops.
pub(crate) fn is_stop(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(StartError::CalledOff))
}

/// The error of a start at which no application came up.
pub(crate) fn none_came_up(hosted: &[Rc<Hosted>], first: (usize, anyhow::Error)) -> anyhow::Error {
    let (number, error) = first;
    match hosted {
        [_] => error,
        all => {
            let text = all[number].named(&format!("{error:#}"));
            anyhow!("no application came up; the first that failed: {text}")
        }
    }
}
