//! The processes of one generation, and how it came up. Only data: the tasks change it.

use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::SystemTime;

use exchange::control::ToTemplate;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::runtime::exits::Exits;
use crate::runtime::load::{Booted, Load};
use crate::runtime::start_error::StartError;
use crate::runtime::worker_process::WorkerProcess;

/// The processes of one generation, and how it came up.
pub(crate) struct Processes {
    pub(crate) load: Rc<Load>,
    pub(crate) workers: Vec<Option<WorkerProcess>>,
    /// How the workers' processes ended.
    pub(crate) exits: Exits,
    pub(crate) template: Option<TemplateHandle>,
    /// Whether the exchange in `load` is corrupt, so that the next template needs the one that took its place.
    pub(crate) corrupt: bool,
    /// Whether it was alone when it was launched.
    pub(crate) first: bool,
    /// What its template said when it had loaded the application.
    pub(crate) booted: Option<Booted>,
    /// What went wrong, until the caller of the launch is told.
    pub(crate) failure: Option<StartError>,
    /// The caller of its launch, who waits to hear whether it serves.
    pub(crate) verdict: Option<oneshot::Sender<Result<Booted, StartError>>>,
}

/// The template as far as others than its own task know it.
pub(crate) struct TemplateHandle {
    /// Absent while it is being started.
    pub(crate) pid: Option<i32>,
    pub(crate) started: SystemTime,
    pub(crate) kill: Rc<Notify>,
    pub(crate) outbox: mpsc::UnboundedSender<(ToTemplate, Option<OwnedFd>)>,
    pub(crate) task: Option<JoinHandle<()>>,
}
