//! What all connections of one edge share; and the log line and counters of every request. An edge owns connections, from
//! accept to log line, and answers what needs no Ruby.

use std::cell::{Cell, RefCell};
use std::fmt::Display;
use std::io;
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
use crate::net::descriptors;
use crate::serve::files::ApplicationFiles;
use crate::spool;

/// How often deadlines are checked and the log is handed over.
pub(crate) const TICK: Duration = Duration::from_millis(100);

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
    /// Returns an edge without connections. Call it on the runtime of [`crate::runtime::build`].
    ///
    /// # Errors
    /// The threads that read files cannot be started.
    pub fn new(
        settings: Rc<Settings>,
        log: Rc<AccessLog>,
        dispatcher: Rc<dyn Dispatch>,
        responses: Rc<ResponseStore>,
    ) -> io::Result<Rc<Self>> {
        let edge = Self {
            settings: LiveSettings::new(settings),
            dispatcher,
            log,
            files: ApplicationFiles::new()?,
            responses,
            connections: Rc::default(),
            clock: Rc::new(Clock::new()),
            counts: std::array::from_fn(|_| Cell::new(0)),
        };
        descriptors::look(edge.settings.get().workers);
        edge.warn_of_memory();
        Ok(Rc::new(edge))
    }

    /// Moves the coarse clock on, ends connections that are over time, hands the log over, and calls `also`, with each tick.
    pub async fn run_ticks(&self, also: impl Fn()) {
        loop {
            let settings = self.settings.get();
            let mut timeouts = vec![
                settings.header_timeout,
                settings.body_timeout,
                settings.send_timeout,
                settings.keep_alive_timeout,
                settings.request_timeout,
            ];
            timeouts.extend(settings.request_timeouts.iter().map(|(_, timeout)| timeout));
            let period = Clock::period(&timeouts);
            let tick = period.min(TICK);
            let ticks_in_period = period.div_duration_f64(tick).ceil() as usize;
            let mut ticker = tokio::time::interval(tick);
            ticker.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            while Rc::ptr_eq(&settings, &self.settings.get()) {
                ticker.tick().await;
                self.clock.tick();
                descriptors::look(settings.workers);
                let now = self.clock.now_ms();
                self.connections
                    .check_clocks(now, &settings, ticks_in_period);
                also();
                self.log.flush();
            }
        }
    }

    /// Warns where files of large bodies lie in memory, unless the settings ask for that.
    fn warn_of_memory(&self) {
        let directory = &self.responses.spools.directory;
        if self.settings.get().spool_dir.is_none() && spool::place::is_in_memory(directory) {
            let text = "large bodies go to a file system in memory: found no folder on a disk; set spool_dir";
            let fields: [(&str, &dyn Display); 1] = [("directory", &directory.display())];
            self.log.event(Level::Warn, text, &fields);
        }
    }

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
