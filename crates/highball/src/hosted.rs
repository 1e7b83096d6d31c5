//! One application of a running server: its front, its supervisor and its generations. How they change is in
//! `changes/restart.rs` and `changes/boot.rs`.

use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Instant;

use exchange::Dispatcher;
use front::ApplicationFront;
use front::log::AccessLog;
use supervisor::{Obstacle, Supervisor, scale_of};
use tokio::sync::Mutex;

use crate::application::{Application, capacity};
use crate::experiments::Experiments;
use crate::housekeeping::Housekeeping;
use crate::thread_limit::ThreadLimit;

/// One application of a running server.
pub(crate) struct Hosted {
    pub(crate) front: Rc<ApplicationFront>,
    pub(crate) supervisor: Rc<Supervisor>,
    /// Looks at its files alone: another application's file system may hang.
    pub(crate) housekeeping: Housekeeping,
    /// The application, with the settings that the server uses.
    pub(crate) application: RefCell<Application>,
    /// The files of the server's UNIX sockets, for templates.
    pub(crate) socket_files: Vec<PathBuf>,
    /// The generation that serves; none before one has come up.
    pub(crate) serving: Cell<Option<u32>>,
    /// Whether none serves because nobody needed the application (`idle_timeout`).
    pub(crate) is_stopped: Cell<bool>,
    /// The latest that was launched.
    pub(crate) latest: Cell<u32>,
    /// Why there are no more workers now, although the load asks for more.
    pub(crate) obstacle: Cell<Option<Obstacle>>,
    /// How many threads of each worker take requests.
    pub(crate) thread_limit: ThreadLimit,
    /// Half of its workers with another setting.
    pub(crate) experiments: Experiments,
    /// Held while a generation is launched.
    pub(crate) turn: Mutex<()>,
}

impl Hosted {
    /// Its name, where the server has several applications.
    pub(crate) fn name(&self) -> Option<String> {
        self.application.borrow().name().map(str::to_owned)
    }

    /// Whether a generation of it serves.
    pub(crate) fn serves(&self) -> bool {
        self.serving.get().is_some()
    }

    /// How many workers there shall be: as many as an operator wants, or the load, or as the settings say.
    pub(crate) fn wanted_workers(&self) -> u16 {
        let application = self.application.borrow();
        let settings = &application.settings;
        let (range, most) = (settings.workers, settings.most_workers());
        scale_of(&self.supervisor).wanted(range.least(), range.most(), most)
    }

    /// Its capacity in words, with this generation.
    pub(crate) fn capacity(&self, generation: u32) -> String {
        capacity(&self.front.settings(), self.wanted_workers(), generation)
    }

    /// Its log.
    pub(crate) fn log(&self) -> &Rc<AccessLog> {
        self.front.log()
    }

    /// The text with the application's name before it, where the server has several.
    pub(crate) fn named(&self, text: &str) -> String {
        match self.name() {
            Some(name) => format!("{name}: {text}"),
            None => text.to_owned(),
        }
    }

    /// A generation serves from now on.
    pub(crate) fn set_serving(&self, generation: u32) {
        if self.serving.replace(Some(generation)).is_none() {
            // None served, and requests were refused.
            self.front.dispatcher().outage(None);
        }
    }

    /// Ends the launch of a generation, because the server ends. Where none serves, no worker will come for the requests that
    /// wait: they get 503. One that is stopped for want of requests may still start for clients of a server that was `replaced`.
    pub(crate) fn cancel_launch(&self, replaced: bool) {
        if replaced && self.is_stopped.get() {
            return;
        }
        self.supervisor.cancel_launch();
        if self.serving.get().is_none() {
            self.front.dispatcher().outage(Some(Instant::now()));
        }
    }
}
