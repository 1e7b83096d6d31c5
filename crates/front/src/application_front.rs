//! The front of one application: its dispatcher, and what the edge knows of it. It owns no connection, and starts and ends no
//! process.

use std::cell::OnceCell;
use std::io;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Instant;

use config::Settings;
use exchange::{Alarm, WorkerId};
use metrics::{ApplicationTotals, Distribution, EXCEPTIONS, EventCounter, Source};
use traces::Tracer;

use crate::dispatch::Dispatcher;
use crate::edges::Edges;
use crate::exceptions::Exceptions;
use crate::frequent_paths::FrequentPaths;
use crate::http::body_memory::INLINE_BODY_BYTES;
use crate::http::response_store::ResponseStore;
use crate::log::{AccessLog, Level, Value};
use crate::runtime::{self, Doorbell};
use crate::serve::application::Application;
use crate::serve::cached::ResponseCache;
use crate::serve::plan::ApplicationPlan;
use crate::serve::public_folder::served::Published;
use crate::serve::watch::Watch;
use crate::slow_requests::{SlowRequest, unix_seconds};

/// Bytes of a slot in addition to the limits of a head: the fixed part, the addresses, the front's own fields.
const RECORD_MARGIN_BYTES: usize = 16 * 1024;
/// A slot's response ring; a longer response goes through it in turns.
const RESPONSE_RING_BYTES: u32 = 1024 * 1024;

/// The front of one application.
pub struct ApplicationFront {
    number: u16,
    /// The edges of other threads, once they run.
    edges: OnceCell<Rc<Edges>>,
    pub(crate) application: Rc<Application>,
    dispatcher: Rc<Dispatcher>,
    /// Who hears of late requests, and of workers that stall.
    on_alarm: OnceCell<Box<dyn Fn(Alarm)>>,
    _doorbell: Doorbell,
}

impl ApplicationFront {
    /// Makes the exchange of its first generation and everything over it, for the application with this number.
    ///
    /// # Errors
    /// No memory or descriptors for the exchange.
    pub(crate) fn new(
        number: u16,
        plan: &ApplicationPlan,
        log: &Rc<AccessLog>,
        responses: &Rc<ResponseStore>,
    ) -> io::Result<Rc<Self>> {
        let settings = &plan.settings;
        let log = match &plan.name {
            Some(name) => Rc::new(log.of_application(name)),
            None => Rc::clone(log),
        };
        let dispatcher = Dispatcher::new(
            number,
            exchange::Front::new(geometry(settings))?,
            plan.generation,
            Rc::clone(settings),
            Rc::clone(&log),
            Rc::clone(responses),
        );
        let [_, bell] = dispatcher.files(None)?;
        let application = Application::new(Rc::clone(settings), log, plan.reader)?;
        let counting = Rc::clone(&application);
        let exceptions = dispatcher.turns().exceptions();
        exceptions.on_report(move |handled| {
            counting.count(&EXCEPTIONS, if handled { "true" } else { "false" });
        });
        Ok(Rc::new(Self {
            number,
            edges: OnceCell::new(),
            application,
            _doorbell: runtime::watch(dispatcher.turns(), bell)?,
            dispatcher,
            on_alarm: OnceCell::new(),
        }))
    }

    /// Reads the error pages, the maintenance file and the passwords in this folder, and again whenever they change. Waits for
    /// the first time, within a bound: to be called before connections are accepted.
    ///
    /// # Errors
    /// The thread that reads them cannot be had, or a file of passwords cannot be used.
    pub async fn watch_files(&self, folder: PathBuf) -> io::Result<()> {
        let watch = Watch::begin(&self.application, folder).await?;
        tokio::task::spawn_local(watch.run());
        Ok(())
    }

    /// Its dispatcher, for the supervisor.
    pub fn dispatcher(&self) -> &Rc<Dispatcher> {
        &self.dispatcher
    }

    /// Its log.
    pub fn log(&self) -> &Rc<AccessLog> {
        &self.application.log
    }

    /// Calls `hear` for requests past their deadline and for workers that stall. Only the first call counts.
    pub fn on_alarm(&self, hear: impl Fn(Alarm) + 'static) {
        let _ = self.on_alarm.set(Box::new(hear));
    }

    /// Makes the exchange of a new generation, as large as these settings want it. No request goes to it before
    /// [`exchange::Dispatcher::route_to`] says so.
    ///
    /// # Errors
    /// No memory or descriptors for it.
    pub fn open_generation(&self, generation: u32, settings: &Settings) -> io::Result<()> {
        self.dispatcher.open(generation, geometry(settings))
    }

    /// The settings in force.
    pub fn settings(&self) -> Rc<Settings> {
        self.application.settings.get()
    }

    /// Puts these settings in force for requests that begin. Generations that are there stay as they are.
    pub(crate) fn apply(&self, settings: Rc<Settings>) {
        self.dispatcher.apply(Rc::clone(&settings));
        self.application.apply(settings);
    }

    /// What became of its requests and what they cost, also at servers before this one.
    pub fn totals(&self) -> ApplicationTotals {
        let counts = self.dispatcher.turns().counts();
        ApplicationTotals {
            custom: counts.borrow().totals(),
            ..self.application.totals()
        }
    }

    /// How long its requests took at this server, from their arrival to the end of the response.
    pub fn latency(&self) -> Distribution {
        self.application.latency()
    }

    /// Takes what a process of the application has counted outside of requests.
    pub fn take_counts(&self, source: Source, batch: &str) {
        let counts = self.dispatcher.turns().counts();
        counts.borrow_mut().take_in(source, batch.as_bytes());
    }

    /// Adds what a server before this one has recorded.
    pub fn add_before(&self, totals: &ApplicationTotals) {
        self.application.add_before(totals);
        let counts = self.dispatcher.turns().counts();
        counts.borrow_mut().add_before(&totals.custom);
    }

    /// Counts an event of one of [`metrics::OF_APPLICATION`].
    pub fn count(&self, counter: &EventCounter, series: &str) {
        self.application.count(counter, series);
    }

    /// Hides the values of these parameters too in the log, in place of those that an earlier generation named.
    pub fn hide_parameters(&self, names: &[String]) {
        self.application.hide_parameters(names);
        let names = names.to_vec();
        tell_other_edges(self, move |application| application.hide_parameters(&names));
    }

    /// Names the edges of other threads, which serve it too.
    pub(crate) fn set_edges(&self, edges: &Rc<Edges>) {
        let _ = self.edges.set(Rc::clone(edges));
    }

    /// Answers from this folder from now on, in place of an earlier one, or from none.
    pub async fn serve_public_files(&self, folder: Option<Published>) {
        let path = folder
            .as_ref()
            .map(|folder| folder.path.display().to_string());
        let others = self.edges.get();
        let others = others.map(|edges| edges.serve_public_files(self.number, folder.as_ref()));
        let found = self.application.public_folder.serve(folder).await;
        if let Some(others) = others {
            others.await;
        }
        if let (false, Some(path)) = (found, path) {
            let text = "files are not served: the folder is not there (setting public_files)";
            let fields = [("folder", Value::Text(&path))];
            self.log().event(Level::Warn, text, &fields);
        }
    }

    /// Has requests that begin be traced. Only the first call counts.
    pub fn trace(&self, tracer: Tracer) {
        let _ = self.application.tracer.set(tracer);
    }

    /// What the application has raised.
    pub fn exceptions(&self) -> Rc<Exceptions> {
        self.dispatcher.turns().exceptions()
    }

    /// The slowest requests of the last hour, the slowest first.
    pub fn slow_requests(&self) -> Vec<SlowRequest> {
        self.application.slow_requests.list(Instant::now())
    }

    /// Takes the slowest requests away, for another server.
    pub fn take_slow_requests(&self) -> Vec<SlowRequest> {
        self.application.slow_requests.take(Instant::now())
    }

    /// Adds the slowest requests of another server.
    pub fn merge_slow_requests(&self, slow: Vec<SlowRequest>) {
        let now = (Instant::now(), unix_seconds());
        self.application.slow_requests.merge(now, slow);
    }

    /// What `look` takes of each of these, in the same order, without a copy of them.
    pub fn of_slow_requests<T>(&self, look: impl Fn(&SlowRequest) -> Option<T>) -> Vec<T> {
        self.application.slow_requests.of_each(Instant::now(), look)
    }

    /// Responses that may be used again.
    pub fn cache(&self) -> &ResponseCache {
        &self.application.cache
    }

    /// Ends requests whose deadline has passed, and hands on what the supervisor must hear. Returns the workers whose
    /// hijacked connections have had their time.
    pub(crate) fn check_deadlines(&self) -> Vec<WorkerId> {
        let limit = self.settings().websocket_drain_timeout;
        let leaving = self.dispatcher.shutdown().leaving_for(limit);
        let alarms = self.dispatcher.turns().check_deadlines();
        if self.settings().endpoint_load_metrics {
            self.application
                .saturation
                .set(self.dispatcher.status().saturation);
        }
        if let Some(hear) = self.on_alarm.get() {
            alarms.into_iter().for_each(hear);
        }
        leaving
    }
}

/// Has the edges of other threads do this with the application.
pub(crate) fn tell_other_edges(
    front: &ApplicationFront,
    work: impl Fn(&Application) + Clone + Send + 'static,
) {
    if let Some(edges) = front.edges.get() {
        let number = front.number;
        edges.tell_all(move |parts| work(parts.application(number)));
    }
}

/// The public pages of an application that clients ask for most.
pub fn frequent_paths(front: &ApplicationFront) -> &FrequentPaths {
    &front.application.frequent_paths
}

/// Waits until other settings of the application are in force.
pub async fn settings_changed(front: &ApplicationFront) {
    front.application.settings.changed().await;
}

/// The sizes of an exchange.
fn geometry(settings: &Settings) -> exchange::Geometry {
    let (workers, threads) = (settings.most_workers(), settings.threads.most());
    let request_bytes = slot_bytes(settings) as u32;
    exchange::Geometry::new(workers, threads, request_bytes, RESPONSE_RING_BYTES)
}

/// The largest request that these settings let in, in bytes of a slot.
pub fn slot_bytes(settings: &Settings) -> usize {
    settings.max_header_bytes
        + settings.max_target_bytes
        // A field's place in the record is a little larger than on the wire.
        + settings.max_header_count * 16
        + RECORD_MARGIN_BYTES
        + INLINE_BODY_BYTES
}
