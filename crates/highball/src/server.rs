//! The parts of a server that serves, for those who change it or end it. Decides nothing.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use front::Front;
use front::log::AccessLog;
use tokio::task::JoinSet;

use crate::application::LEAST_GRACE;
use crate::changes::predecessor::PredecessorExit;
use crate::changes::saved_state::State;
use crate::control::operators::OperatorListeners;
use crate::control::queue::ChangeQueue;
use crate::control::reporter::SharedManager;
use crate::control::socket::ControlSocket;
use crate::hosted::Hosted;
use crate::housekeeping::Housekeeping;
use crate::launchers::Launchers;
use crate::statsd::Statsd;
use crate::system::systemd::Manager;
use crate::system::terminal::Terminal;
use crate::traces::SharedExporter;

/// The parts of a server.
pub(crate) struct Server {
    pub(crate) log: Rc<AccessLog>,
    pub(crate) front: Rc<Front>,
    /// Its applications, in the front's order.
    pub(crate) hosted: Vec<Rc<Hosted>>,
    /// The first starts of applications that have not come up.
    pub(crate) boots: RefCell<JoinSet<()>>,
    pub(crate) control: ControlSocket,
    pub(crate) operators: OperatorListeners,
    pub(crate) manager: Rc<Manager>,
    pub(crate) queue: Rc<ChangeQueue>,
    pub(crate) housekeeping: Housekeeping,
    /// What it has gathered, for the server that replaces it.
    pub(crate) gathered: Rc<State>,
    /// The end of the server that this one has replaced.
    pub(crate) predecessor: PredecessorExit,
    /// What starts the processes of applications with users of their own.
    pub(crate) launchers: Launchers,
    /// `booting`, `serving`, `replaced` or `stopping`, for the status.
    pub(crate) state: Rc<Cell<&'static str>>,
    /// What keeps the certificates.
    pub(crate) certificates: SharedManager,
    /// What tells StatsD.
    pub(crate) statsd: Option<Rc<Statsd>>,
    /// What sends traces.
    pub(crate) exporter: SharedExporter,
    /// The terminal that debuggers in workers use.
    pub(crate) terminal: Option<Arc<Terminal>>,
}

impl Server {
    /// The state of the server in a line, for people and for the service manager.
    pub(crate) fn status(&self) -> String {
        ready_line(&self.hosted)
    }

    /// How long workers that stop may take, whatever they run.
    pub(crate) fn drain_timeout(&self) -> Duration {
        self.front.settings().drain_timeout.max(LEAST_GRACE)
    }

    /// How long running requests may take to finish when the server stops: as the application says that gives them the most.
    pub(crate) fn longest_drain(&self) -> Duration {
        let all = self.hosted.iter();
        let longest = all.map(|one| one.front.settings().drain_timeout).max();
        longest.unwrap_or_default()
    }

    /// Lets the workers of all applications finish their requests, and kills those that are left after `grace`.
    pub(crate) async fn stop_workers(&self, grace: Duration) {
        let mut stops: Vec<_> = self
            .hosted
            .iter()
            .map(|one| Some(Box::pin(one.supervisor.stop(grace))))
            .collect();
        poll_fn(|cx| {
            for stop in &mut stops {
                let ended = stop
                    .as_mut()
                    .is_none_or(|one| one.as_mut().poll(cx).is_ready());
                if ended {
                    *stop = None;
                }
            }
            match stops.iter().all(Option::is_none) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
        .await;
    }
}

/// What serves, in a line.
pub(crate) fn ready_line(hosted: &[Rc<Hosted>]) -> String {
    if let [only] = hosted
        && only.name().is_none()
    {
        let generation = only.serving.get().unwrap_or_else(|| only.latest.get());
        return format!("ready: {}", only.capacity(generation));
    }
    let all = hosted.len();
    let serving = hosted
        .iter()
        .filter(|one| one.serving.get().is_some())
        .count();
    let stopped = hosted.iter().filter(|one| one.is_stopped.get()).count();
    match stopped {
        0 => format!("ready: {serving} of {all} applications"),
        _ => format!("ready: {serving} of {all} applications, {stopped} stopped"),
    }
}
