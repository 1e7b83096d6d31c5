//! What all connections of one edge share, and its counters. An edge owns connections, from accept to log line, and answers
//! what needs no Ruby.

use std::cell::{Cell, RefCell};
use std::fmt::Display;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use config::Settings;

use crate::clock::Clock;
use crate::failure::{Failure, Outcome};
use crate::http::incoming::{ResponseStore, Transaction};
use crate::log::{AccessLog, Level, errors};
use crate::messages::Dispatch;
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
        descriptors::update_reserve(edge.settings.get().workers);
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
                descriptors::update_reserve(settings.workers);
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

    /// Counts a request that has its outcome.
    pub(crate) fn count(&self, outcome: Outcome) {
        let count = &self.counts[outcome as usize];
        count.set(count.get() + 1);
    }
}
