//! What all connections of one edge share, and its counters. An edge owns connections, from accept to log line, and answers
//! what needs no Ruby.

mod seed;

use std::fmt::Display;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use config::Settings;

use crate::clock::Clock;
use crate::failure::Failure;
use crate::http::response_store::ResponseStore;
use crate::live_settings::LiveSettings;
use crate::log::{AccessLog, Level, Value};
use crate::messages::Dispatch;
use crate::net::addresses::Addresses;
use crate::net::connections::Connections;
use crate::net::descriptors;
use crate::net::tls::Tls;
use crate::serve::application::Application;
use crate::serve::compression::pool::Encoders;
use crate::serve::reader::Reader;
use crate::serve::routes::{Routes, Served};
use crate::spool;
pub(crate) use seed::EdgeSeed;

/// How often deadlines are checked and the log is handed over.
pub(crate) const TICK: Duration = Duration::from_millis(100);

/// One edge.
pub struct Edge {
    /// The settings of connections that are in force.
    pub settings: LiveSettings,
    /// The application that it serves; where there are several, what stands for one where a request is none's.
    pub application: Rc<Application>,
    /// Which application a request is for, where there are several.
    pub routes: Option<Routes>,
    /// What has the queue and the exchange.
    pub dispatcher: Rc<dyn Dispatch>,
    /// The log.
    pub log: Rc<AccessLog>,
    /// What compresses its responses.
    pub encoders: Encoders,
    /// Where responses are kept on their way.
    pub responses: Rc<ResponseStore>,
    /// The connections of each address.
    pub(crate) addresses: Arc<Addresses>,
    /// Its connections.
    pub connections: Rc<Connections>,
    /// Its coarse clock.
    pub clock: Rc<Clock>,
    /// The TLS of its listeners.
    pub tls: Arc<Tls>,
}

impl Edge {
    /// Returns an edge without connections that serves one application, whose settings are the edge's own. Call it on the
    /// runtime of [`crate::runtime::build`].
    ///
    /// # Errors
    /// The threads that read files cannot be started.
    pub fn new(
        settings: Rc<Settings>,
        log: Rc<AccessLog>,
        dispatcher: Rc<dyn Dispatch>,
        responses: Rc<ResponseStore>,
    ) -> io::Result<Rc<Self>> {
        let application =
            Application::new(Rc::clone(&settings), Rc::clone(&log), Reader::default())?;
        let served = Served {
            application,
            routes: None,
        };
        Ok(Self::serving(served, settings, log, dispatcher, responses))
    }

    /// The same for what is there already.
    pub fn serving(
        served: Served,
        settings: Rc<Settings>,
        log: Rc<AccessLog>,
        dispatcher: Rc<dyn Dispatch>,
        responses: Rc<ResponseStore>,
    ) -> Rc<Self> {
        let edge = Self {
            application: served.application,
            routes: served.routes,
            settings: LiveSettings::new(settings),
            dispatcher,
            log,
            encoders: Encoders::default(),
            responses,
            addresses: Arc::default(),
            connections: Rc::default(),
            clock: Rc::new(Clock::new()),
            tls: Arc::default(),
        };
        descriptors::update_reserve(edge.workers());
        edge.warn_of_memory();
        Rc::new(edge)
    }

    /// What its applications are.
    pub fn applications(&self) -> &[Rc<Application>] {
        match &self.routes {
            Some(routes) => routes.applications(),
            None => std::slice::from_ref(&self.application),
        }
    }

    /// The most workers of all applications.
    fn workers(&self) -> usize {
        let all = self.applications().iter();
        all.map(|one| usize::from(one.settings.get().most_workers()))
            .sum()
    }

    /// Puts these settings in force for connections, and for requests that are no application's.
    pub fn apply(&self, settings: Rc<Settings>) {
        if self.routes.is_some() {
            self.application.apply(Rc::clone(&settings));
        }
        self.responses.apply(&settings);
        self.log.apply(&settings);
        self.settings.replace(settings);
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
            for one in self.applications() {
                let settings = one.settings.get();
                timeouts.extend(settings.request_timeout);
                timeouts.extend(settings.request_timeouts.iter().map(|(_, timeout)| timeout));
            }
            let period = Clock::period(&timeouts);
            let tick = period.min(TICK);
            let ticks_in_period = period.div_duration_f64(tick).ceil() as usize;
            let mut ticker = tokio::time::interval(tick);
            ticker.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            while Rc::ptr_eq(&settings, &self.settings.get()) {
                ticker.tick().await;
                self.clock.tick();
                descriptors::update_reserve(self.workers());
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
}
