//! What all connections of one edge share; and the log line and counters of every request. An edge owns connections, from
//! accept to log line, and answers what needs no Ruby.

use std::cell::{Cell, RefCell};
use std::fmt::Display;
use std::rc::Rc;
use std::time::Duration;

use config::Settings;
use exchange::scheduling::monotonic_ns;
use http::StatusCode;

use crate::clock::Clock;
use crate::failure::{Failure, Outcome};
use crate::http::incoming::ResponseStore;
use crate::http::screen::Refusal;
use crate::http::transaction::Transaction;
use crate::log::{AccessLog, Entry, Level, errors, filter};
use crate::messages::Dispatch;
use crate::net::client_io::ClientIo;
use crate::net::connections::Connections;
use crate::serve::files::ApplicationFiles;

/// One edge.
pub struct Edge {
    /// The settings in force.
    pub settings: LiveSettings,
    /// What has the queue and the exchange.
    pub dispatcher: Rc<dyn Dispatch>,
    /// The log.
    pub log: Rc<AccessLog>,
    /// Files that the application names.
    pub files: ApplicationFiles,
    /// Where responses are kept on their way.
    pub responses: Rc<ResponseStore>,
    /// Its connections.
    pub connections: Rc<Connections>,
    /// Its coarse clock.
    pub clock: Rc<Clock>,
    /// Requests by outcome, in the order of [`Outcome::ALL`].
    pub counts: [Cell<u64>; Outcome::ALL.len()],
}

/// Settings that may be replaced while the server runs.
pub struct LiveSettings(RefCell<Rc<Settings>>);

impl LiveSettings {
    /// Returns these settings, until they are replaced.
    pub fn new(settings: Rc<Settings>) -> Self {
        Self(RefCell::new(settings))
    }

    /// The settings in force now.
    pub fn get(&self) -> Rc<Settings> {
        Rc::clone(&self.0.borrow())
    }

    /// Puts other settings in force.
    pub fn replace(&self, settings: Rc<Settings>) {
        self.0.replace(settings);
    }
}

impl Edge {
    /// The time that a request for this path has.
    pub fn request_timeout(&self, path: &[u8]) -> Duration {
        let settings = self.settings.get();
        let own = settings.request_timeouts.find(path);
        own.copied().unwrap_or(settings.request_timeout)
    }

    /// Logs that a request's body could not be stored.
    pub fn not_stored(&self, reason: &dyn Display) -> Failure {
        let text = "a request's body could not be stored";
        self.log.event(Level::Error, text, &[("reason", reason)]);
        Failure::NotStored("its body could not be kept on disk")
    }

    /// Logs what is wrong with the application's response.
    pub fn invalid_response(&self, transaction: &Transaction, reason: &str) {
        let (by, _) = transaction.response.run();
        let text = format!("InvalidResponse: {reason}");
        errors::app_error(&self.log, &transaction.request, by, &text);
    }

    /// Logs and counts a message that never became a request, for the screen refused it.
    pub fn refused(&self, refusal: Refusal, io: &ClientIo) {
        let failure = Failure::Refused(refusal);
        self.count(failure.outcome());
        let settings = self.settings.get();
        if settings.access_log {
            let (method, target) = io.refused_line();
            self.log.record(&Entry {
                method: &method,
                path: &filter(&target, &settings.log_filter_parameters),
                status: Some(refusal.status),
                bytes: 0,
                queue: None,
                app: None,
                worker: None,
                generation: None,
                outcome: failure.outcome().name(),
            });
        }
    }

    /// Logs and counts a request that has its outcome.
    pub fn ended(
        &self,
        transaction: &Transaction,
        status: Option<StatusCode>,
        bytes: u64,
        outcome: Outcome,
    ) {
        self.count(outcome);
        let settings = self.settings.get();
        if !settings.access_log {
            return;
        }
        let request = &transaction.request;
        let (by, times) = transaction.response.run();
        let claimed = Some(times.claimed_ns).filter(|&at| at != 0);
        let finished = match times.finished_ns {
            0 => monotonic_ns(),
            finished => finished,
        };
        let since = |from: u64, to: u64| Duration::from_nanos(to.saturating_sub(from));
        self.log.record(&Entry {
            method: request.method.as_str().as_bytes(),
            path: &filter(request.target(), &settings.log_filter_parameters),
            status: status.map(|status| status.as_u16()),
            bytes,
            queue: claimed
                .zip(request.arrived_ns())
                .map(|(claimed, arrived)| since(arrived, claimed)),
            app: claimed.map(|claimed| since(claimed, finished)),
            worker: by.map(|by| by.worker.into()),
            generation: by.map(|by| by.generation),
            outcome: outcome.name(),
        });
    }

    fn count(&self, outcome: Outcome) {
        let count = &self.counts[outcome as usize];
        count.set(count.get() + 1);
    }
}
