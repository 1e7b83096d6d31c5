//! The front of one server: its edge, the dispatcher of each application, and the work of each tick. It starts and ends no
//! process.

use std::io;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use config::Settings;

use crate::application_front::ApplicationFront;
use crate::dispatchers::Dispatchers;
use crate::edge::Edge;
use crate::edges::{EdgeParts, Edges};
use crate::http::response_store::ResponseStore;
use crate::log::AccessLog;
use crate::messages::Dispatch;
use crate::net::accept::Acceptors;
use crate::net::certificate_watch::{self, TlsStartError};
use crate::net::tls::certificates::Certificates;
use crate::serve::application::Application;
use crate::serve::plan::ApplicationPlan;
use crate::serve::reader::Reader;
use crate::serve::routes::{Routes, Served};

/// The front of one server.
pub struct Front {
    pub(crate) edge: Rc<Edge>,
    /// The edges of other threads.
    pub(crate) edges: Rc<Edges>,
    applications: Vec<Rc<ApplicationFront>>,
    acceptors: Rc<Acceptors>,
}

impl Front {
    /// Makes the front of a server with a single application, whose settings are the server's. Call it on the runtime of
    /// [`crate::runtime::build`].
    ///
    /// # Errors
    /// As [`Front::of_applications`].
    pub fn new(
        settings: Rc<Settings>,
        log: Rc<AccessLog>,
        generation: u32,
    ) -> io::Result<Rc<Self>> {
        let plan = ApplicationPlan {
            name: None,
            hosts: Vec::new(),
            prefix: String::new(),
            settings: Rc::clone(&settings),
            generation,
            reader: Reader::default(),
        };
        Self::of_applications(settings, log, &[plan])
    }

    /// Makes the exchange of the first generation of each application, and everything over it. Call it on the runtime of
    /// [`crate::runtime::build`].
    ///
    /// # Errors
    /// No memory or descriptors for an exchange.
    pub fn of_applications(
        settings: Rc<Settings>,
        log: Rc<AccessLog>,
        plans: &[ApplicationPlan],
    ) -> io::Result<Rc<Self>> {
        let responses = Rc::new(ResponseStore::new(&settings, plans.len()));
        let applications = (0..).zip(plans);
        let applications = applications
            .map(|(number, plan)| ApplicationFront::new(number, plan, &log, &responses))
            .collect::<io::Result<Vec<_>>>()?;
        let intakes = applications.iter();
        let intakes = intakes.map(|one| Rc::clone(one.dispatcher().intake()) as _);
        let intake: Rc<dyn Dispatch> = Dispatchers::of(intakes.collect());
        responses.set_dispatcher(&intake);
        let served = match (&applications[..], plans) {
            ([only], [plan]) if plan.name.is_none() => Served {
                application: Rc::clone(&only.application),
                routes: None,
            },
            _ => {
                let all = applications.iter().map(|one| Rc::clone(&one.application));
                Served {
                    application: Application::new(
                        Rc::clone(&settings),
                        Rc::clone(&log),
                        Reader::default(),
                    )?,
                    routes: Some(Routes::new(plans, all.collect())),
                }
            }
        };
        let others = usize::from(settings.front_threads) - 1;
        let edge = Edge::serving(served, settings, log, Rc::clone(&intake), responses);
        let edges = Edges::start(others, &edge, &intake)?;
        for one in &applications {
            one.set_edges(&edges);
            one.exceptions().share(applications.len());
        }
        let front = Rc::new(Self {
            acceptors: Acceptors::new(&edge, &edges),
            edge,
            edges,
            applications,
        });
        let ticks = Rc::clone(&front);
        tokio::task::spawn_local(async move {
            let edge = Rc::clone(&ticks.edge);
            edge.run_ticks(|| ticks.check_deadlines()).await;
        });
        Ok(front)
    }

    /// The fronts of its applications, in the order in which they were given.
    pub fn applications(&self) -> &[Rc<ApplicationFront>] {
        &self.applications
    }

    /// What accepts connections.
    pub fn acceptors(&self) -> &Rc<Acceptors> {
        &self.acceptors
    }

    /// The certificates of its hosts.
    pub fn certificates(&self) -> &Arc<Certificates> {
        &self.edge.tls.certificates
    }

    /// Reads the certificates of its TLS listeners, and again whenever they change; `dir` is the server's folder. For a
    /// server that has such a listener, before it accepts.
    ///
    /// # Errors
    /// A certificate or a setting cannot be used.
    pub fn begin_tls(&self, dir: PathBuf) -> Result<(), TlsStartError> {
        certificate_watch::begin(&self.edge, dir)
    }

    /// The server's settings in force.
    pub fn settings(&self) -> Rc<Settings> {
        self.edge.settings.get()
    }

    /// The server is to stop: probes hear that it is not ready. Requests are served as before.
    pub fn leave(&self) {
        self.edge.connections.leave();
    }

    /// Whether the server is to stop.
    pub fn is_leaving(&self) -> bool {
        self.edge.connections.is_leaving()
    }

    /// Puts these settings in force: those of the server for connections that begin, and the clocks of all; those of each
    /// application for its requests. Listeners and generations that are there stay as they are. What this returns waits
    /// until they are in force at edges of other threads too.
    pub fn apply(
        &self,
        settings: Rc<Settings>,
        applications: &[Rc<Settings>],
    ) -> impl Future<Output = ()> {
        for (one, settings) in self.applications.iter().zip(applications) {
            one.apply(Rc::clone(settings));
        }
        self.edge.apply(Rc::clone(&settings));
        let copies = applications.iter().map(|one| Settings::clone(one));
        let copies: Arc<Vec<Settings>> = Arc::new(copies.collect());
        let server = Arc::new(Settings::clone(&settings));
        let apply = move |parts: &EdgeParts| {
            for (one, settings) in parts.edge.applications().iter().zip(&*copies) {
                one.apply(Rc::new(settings.clone()));
            }
            parts.edge.apply(Rc::new(Settings::clone(&server)));
        };
        let applied = self.edges.ask_all(apply);
        self.edge.tls.reload.notify_one();
        // There may be room for more connections.
        self.edge.connections.ended.notify_waiters();
        async { drop(applied.await) }
    }

    /// Ends requests whose deadline has passed and hijacked connections of workers that leave, of each application.
    fn check_deadlines(&self) {
        for (number, one) in (0..).zip(&self.applications) {
            let leaving = one.check_deadlines();
            if !leaving.is_empty() {
                self.close_hijacked((number, Some(leaving)));
            }
        }
    }
}
