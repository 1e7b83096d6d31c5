//! What an edge on another thread begins with: what all edges of a server share, and copies of the rest. It starts no thread.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use config::Settings;

use super::Edge;
use crate::clock::Clock;
use crate::http::response_store::{ResponseStore, StoredBytes};
use crate::live_settings::LiveSettings;
use crate::log::ThreadLog;
use crate::net::addresses::Addresses;
use crate::net::connections::{Connections, Signals};
use crate::net::tls::Tls;
use crate::remote::EdgeEnd;
use crate::serve::application::ApplicationSeed;
use crate::serve::compression::pool::Encoders;
use crate::serve::routes::RoutesSeed;

/// The beginning of an edge that another thread is to have.
pub(crate) struct EdgeSeed {
    settings: Settings,
    log: ThreadLog,
    applications: Vec<ApplicationSeed>,
    /// Where there are several: what stands for one where a request is none's, and which request is whose.
    routes: Option<(ApplicationSeed, RoutesSeed)>,
    addresses: Arc<Addresses>,
    signals: Signals,
    /// When the server's clocks began.
    began: Instant,
    tls: Arc<Tls>,
    bytes: StoredBytes,
}

impl Edge {
    /// Returns the beginning of another edge of the same server.
    pub(crate) fn seed(&self) -> EdgeSeed {
        let applications = self.applications().iter().map(|one| one.seed());
        let routes = self.routes.as_ref();
        EdgeSeed {
            settings: Settings::clone(&self.settings.get()),
            log: self.log.for_thread(),
            applications: applications.collect(),
            routes: routes.map(|routes| (self.application.seed(), routes.seed())),
            addresses: Arc::clone(&self.addresses),
            signals: self.connections.signals(),
            began: self.clock.start(),
            tls: Arc::clone(&self.tls),
            bytes: self.responses.bytes(),
        }
    }
}

impl EdgeSeed {
    /// Returns the edge. Call it on its thread, within its runtime.
    ///
    /// # Errors
    /// The threads that read files cannot be started.
    pub(crate) fn grow(self, dispatcher: EdgeEnd) -> io::Result<Rc<Edge>> {
        let (settings, log) = (Rc::new(self.settings), Rc::new(self.log.open()));
        let dispatcher = dispatcher.into_dispatch();
        let responses = ResponseStore::sharing(&settings, self.bytes);
        responses.set_dispatcher(&dispatcher);
        let applications = self.applications.into_iter().map(|one| one.grow(&log));
        let applications: Vec<_> = applications.collect::<io::Result<_>>()?;
        let (application, routes) = match self.routes {
            None => (Rc::clone(&applications[0]), None),
            Some((none, routes)) => (none.grow(&log)?, Some(routes.grow(applications))),
        };
        Ok(Rc::new(Edge {
            settings: LiveSettings::new(settings),
            application,
            routes,
            dispatcher,
            log,
            encoders: Encoders::default(),
            responses: Rc::new(responses),
            addresses: self.addresses,
            connections: Rc::new(Connections::sharing(self.signals)),
            clock: Rc::new(Clock::beside(self.began)),
            tls: self.tls,
        }))
    }
}
