//! What all connections of one edge share, and its counters. An edge owns connections, from accept to log line, and answers
//! what needs no Ruby.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use config::{ParameterNames, Settings};
use http::StatusCode;

use crate::clock::Clock;
use crate::failure::{Failure, Outcome};
use crate::http::incoming::{ResponseStore, Transaction};
use crate::log::{AccessLog, Level, Value, errors};
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
    /// What became of its requests.
    pub counters: Counters,
    /// Parameters whose values are not logged: those of the settings and of the application.
    pub secret_parameters: RefCell<ParameterNames>,
    /// Those of the application.
    application_secrets: RefCell<Vec<String>>,
}

/// Requests that ended.
#[derive(Default)]
pub struct Counters {
    /// By outcome, in the order of [`Outcome::ALL`].
    outcomes: [Cell<u64>; Outcome::ALL.len()],
    /// Responses by the first digit of their status, from 1xx on.
    status_classes: [Cell<u64>; STATUS_CLASSES.len()],
}

/// The names of the classes of a status.
const STATUS_CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

impl Counters {
    /// Counts a request; `status` is that of its response, if one was sent.
    pub fn count(&self, outcome: Outcome, status: Option<StatusCode>) {
        let add = |counter: &Cell<u64>| counter.set(counter.get() + 1);
        add(&self.outcomes[outcome as usize]);
        let class = status.map(|status| usize::from(status.as_u16() / 100));
        let class = class.and_then(|class| self.status_classes.get(class.checked_sub(1)?));
        class.map(add);
    }

    /// The number of requests of each outcome, by its name.
    pub fn outcomes(&self) -> BTreeMap<&'static str, u64> {
        let names = Outcome::ALL.iter().map(|outcome| outcome.name());
        names.zip(self.outcomes.iter().map(Cell::get)).collect()
    }

    /// The number of responses of each class of status, such as `2xx`.
    pub fn status_classes(&self) -> BTreeMap<&'static str, u64> {
        let counts = self.status_classes.iter().map(Cell::get);
        STATUS_CLASSES.into_iter().zip(counts).collect()
    }
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
            counters: Counters::default(),
            secret_parameters: RefCell::default(),
            application_secrets: RefCell::default(),
        };
        descriptors::update_reserve(edge.settings.get().workers);
        edge.filter_parameters(&[]);
        edge.warn_of_memory();
        Ok(Rc::new(edge))
    }

    /// Puts these settings in force.
    pub fn apply(&self, settings: Rc<Settings>) {
        self.settings.replace(settings);
        let names = self.application_secrets.take();
        self.filter_parameters(&names);
    }

    /// Keeps the values of these parameters, which the application names, out of the log too.
    pub fn filter_parameters(&self, names: &[String]) {
        let settings = self.settings.get();
        let all = settings.log_filter_parameters.with(names);
        self.secret_parameters.replace(all);
        self.application_secrets.replace(names.to_vec());
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
            ];
            timeouts.extend(settings.request_timeout);
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
            let directory = directory.display();
            let fields = [("directory", Value::Text(&directory))];
            self.log.event(Level::Warn, text, &fields);
        }
    }

    /// Logs that a request's body could not be stored.
    pub fn not_stored(&self, reason: &dyn Display) -> Failure {
        let text = "a request's body could not be stored";
        self.log
            .event(Level::Error, text, &[("reason", Value::Text(reason))]);
        Failure::NotStored("its body could not be kept on disk")
    }

    /// Logs what is wrong with the application's response.
    pub fn invalid_response(&self, transaction: &Transaction, reason: &str) {
        let (by, _) = transaction.response.run();
        let text = format!("InvalidResponse: {reason}");
        errors::app_error(&self.log, &transaction.request, by, &text);
    }
}
