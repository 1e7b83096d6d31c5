//! One application as an edge serves it: its settings, what its requests pass, and what is answered in its name without
//! Ruby. It knows no connection.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;
use std::sync::{Arc, OnceLock};

use config::{ParameterNames, Settings};
use metrics::{ApplicationMetrics, ApplicationTotals, Distribution, EventCounter, Recorder};
use traces::Tracer;

use crate::counters::Counters;
use crate::frequent_paths::FrequentPaths;
use crate::live_settings::LiveSettings;
use crate::log::AccessLog;
use crate::saturation::LatestSaturation;
use crate::serve::cached::ResponseCache;
use crate::serve::error_pages::ErrorPages;
use crate::serve::files::ApplicationFiles;
use crate::serve::gate::Gate;
use crate::serve::halves::Halves;
use crate::serve::public_folder::PublicFolder;
use crate::serve::reader::Reader;
use crate::serve::websockets::WebSockets;
use crate::slow_requests::SlowRequests;

/// One application, as one edge serves it.
pub struct Application {
    /// The settings in force.
    pub settings: LiveSettings,
    /// The log.
    pub log: Rc<AccessLog>,
    /// What requests pass before anything else.
    pub gate: Arc<Gate>,
    /// The pages for errors of the front's own.
    pub error_pages: Arc<ErrorPages>,
    /// Files that the application names.
    pub files: ApplicationFiles,
    /// For whom files that the application names are read.
    pub reader: Reader,
    /// The application's public folder.
    pub public_folder: PublicFolder,
    /// Responses that may be used again.
    pub cache: Arc<ResponseCache>,
    /// Its WebSockets, of all edges.
    pub websockets: Arc<WebSockets>,
    /// What became of its requests here.
    pub counters: Arc<Counters>,
    /// What its requests here cost.
    pub recorder: Recorder,
    /// The same by generations, while an experiment runs.
    pub(crate) halves: RefCell<Option<Box<Halves>>>,
    /// How much of its threads is in use; kept up to date where `endpoint_load_metrics` is set.
    pub saturation: Arc<LatestSaturation>,
    /// The slowest requests, of all edges.
    pub slow_requests: Arc<SlowRequests>,
    /// Its public pages that clients ask for most, of all edges; counted where `warm_up` names them.
    pub frequent_paths: Arc<FrequentPaths>,
    /// What traces its requests, if anything does; of all edges.
    pub tracer: Arc<OnceLock<Tracer>>,
    /// The same of all edges.
    metrics: ApplicationMetrics,
    /// What became of its requests at servers before this one.
    before: Counters,
    /// The counters of other edges.
    elsewhere: RefCell<Vec<Arc<Counters>>>,
    /// Parameters whose values are not logged: those of the settings and of the application.
    pub secret_parameters: RefCell<ParameterNames>,
    /// Those of the application.
    own_secrets: RefCell<Vec<String>>,
}

/// An application at an edge that another thread is to have: what all edges share, and its settings.
pub(crate) struct ApplicationSeed {
    /// The name in its lines of the log.
    name: Option<String>,
    reader: Reader,
    settings: Settings,
    gate: Arc<Gate>,
    error_pages: Arc<ErrorPages>,
    cache: Arc<ResponseCache>,
    websockets: Arc<WebSockets>,
    counters: Arc<Counters>,
    metrics: ApplicationMetrics,
    saturation: Arc<LatestSaturation>,
    slow_requests: Arc<SlowRequests>,
    frequent_paths: Arc<FrequentPaths>,
    tracer: Arc<OnceLock<Tracer>>,
}

impl ApplicationSeed {
    /// Returns the application, with the log of its edge's thread. Call it there.
    ///
    /// # Errors
    /// The threads that read files cannot be started.
    pub(crate) fn grow(self, log: &Rc<AccessLog>) -> io::Result<Rc<Application>> {
        let log = match &self.name {
            Some(name) => Rc::new(log.of_application(name)),
            None => Rc::clone(log),
        };
        self.grow_with(log)
    }

    fn grow_with(self, log: Rc<AccessLog>) -> io::Result<Rc<Application>> {
        let application = Application {
            settings: LiveSettings::new(Rc::new(self.settings)),
            log,
            gate: self.gate,
            error_pages: self.error_pages,
            files: ApplicationFiles::new(self.reader)?,
            public_folder: PublicFolder::new(self.reader)?,
            reader: self.reader,
            cache: self.cache,
            websockets: self.websockets,
            counters: self.counters,
            recorder: self.metrics.recorder(),
            halves: RefCell::default(),
            metrics: self.metrics,
            saturation: self.saturation,
            before: Counters::default(),
            slow_requests: self.slow_requests,
            frequent_paths: self.frequent_paths,
            tracer: self.tracer,
            elsewhere: RefCell::default(),
            secret_parameters: RefCell::default(),
            own_secrets: RefCell::default(),
        };
        application.hide_parameters(&[]);
        Ok(Rc::new(application))
    }
}

impl Application {
    /// Returns an application whose code is not loaded yet.
    ///
    /// # Errors
    /// The threads that read files cannot be started.
    pub fn new(settings: Rc<Settings>, log: Rc<AccessLog>, reader: Reader) -> io::Result<Rc<Self>> {
        let seed = ApplicationSeed {
            cache: Arc::new(ResponseCache::new(&settings)),
            settings: Settings::clone(&settings),
            gate: Arc::default(),
            error_pages: Arc::default(),
            name: None,
            reader,
            websockets: Arc::default(),
            counters: Arc::default(),
            metrics: ApplicationMetrics::default(),
            saturation: Arc::default(),
            slow_requests: Arc::default(),
            frequent_paths: Arc::default(),
            tracer: Arc::default(),
        };
        seed.gate.apply(&settings);
        seed.grow_with(log)
    }

    /// Returns the beginning of the same application at another edge.
    pub(crate) fn seed(&self) -> ApplicationSeed {
        let counters = Arc::new(Counters::default());
        self.elsewhere.borrow_mut().push(Arc::clone(&counters));
        ApplicationSeed {
            name: self.log.application().map(str::to_owned),
            reader: self.reader,
            counters,
            metrics: self.metrics.clone(),
            saturation: Arc::clone(&self.saturation),
            slow_requests: Arc::clone(&self.slow_requests),
            frequent_paths: Arc::clone(&self.frequent_paths),
            tracer: Arc::clone(&self.tracer),
            settings: Settings::clone(&self.settings.get()),
            gate: Arc::clone(&self.gate),
            error_pages: Arc::clone(&self.error_pages),
            cache: Arc::clone(&self.cache),
            websockets: Arc::clone(&self.websockets),
        }
    }

    /// The number of requests of each outcome at all edges, by its name.
    pub(crate) fn outcomes(&self) -> BTreeMap<&'static str, u64> {
        self.sum(Counters::outcomes)
    }

    /// What became of its requests at all edges, and what they cost, also at servers before this one.
    pub(crate) fn totals(&self) -> ApplicationTotals {
        let also_before = |counts: BTreeMap<&str, u64>, before: &BTreeMap<&str, u64>| {
            let counts = counts.into_iter();
            let all =
                counts.map(|(name, count)| (name.to_owned(), count.saturating_add(before[name])));
            all.collect()
        };
        let cache = self.cache.is_on().then(|| self.cache.counters.read());
        ApplicationTotals {
            outcomes: also_before(self.outcomes(), &self.before.outcomes()),
            responses: also_before(self.status_classes(), &self.before.status_classes()),
            cache: cache.unwrap_or_default(),
            ..self.metrics.totals()
        }
    }

    /// How long its requests took at all edges, from their arrival to the end of the response, at this server alone.
    pub(crate) fn latency(&self) -> Distribution {
        self.metrics.latency()
    }

    /// Adds what a server before this one has recorded.
    pub(crate) fn add_before(&self, totals: &ApplicationTotals) {
        self.metrics.add_before(totals);
        self.before.add(&totals.outcomes, &totals.responses);
        self.cache.counters.add_all(&totals.cache);
    }

    /// Counts an event of one of [`metrics::OF_APPLICATION`].
    pub(crate) fn count(&self, counter: &EventCounter, series: &str) {
        self.metrics.count(counter, series);
    }

    /// The number of responses of each class of status at all edges, such as `2xx`.
    pub(crate) fn status_classes(&self) -> BTreeMap<&'static str, u64> {
        self.sum(Counters::status_classes)
    }

    fn sum(&self, of: fn(&Counters) -> BTreeMap<&'static str, u64>) -> BTreeMap<&'static str, u64> {
        let mut sums = of(&self.counters);
        for (name, number) in self.elsewhere.borrow().iter().flat_map(|one| of(one)) {
            *sums.entry(name).or_default() += number;
        }
        sums
    }

    /// Puts these settings in force.
    pub fn apply(&self, settings: Rc<Settings>) {
        self.gate.apply(&settings);
        self.cache.apply(&settings);
        if !settings.warm_up.frequent {
            self.frequent_paths.clear();
        }
        self.settings.replace(settings);
        let names = self.own_secrets.take();
        self.hide_parameters(&names);
    }

    /// Keeps the values of these parameters, which the application names, out of the log too.
    pub fn hide_parameters(&self, names: &[String]) {
        let settings = self.settings.get();
        let all = settings.log_filter_parameters.with(names);
        self.secret_parameters.replace(all);
        self.own_secrets.replace(names.to_vec());
    }
}
