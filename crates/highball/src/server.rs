//! The parts of a server that serves, for those who change it or end it. Decides nothing.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use front::Front;
use front::log::AccessLog;
use supervisor::Supervisor;

use crate::changes::predecessor::PredecessorExit;
use crate::control::queue::ChangeQueue;
use crate::control::socket::ControlSocket;
use crate::housekeeping::Housekeeping;
use crate::system::systemd::Manager;
use crate::system::terminal::Terminal;

/// The parts of a server.
pub(crate) struct Server {
    pub(crate) log: Rc<AccessLog>,
    pub(crate) front: Rc<Front>,
    pub(crate) supervisor: Rc<Supervisor>,
    pub(crate) control: ControlSocket,
    pub(crate) manager: Rc<Manager>,
    pub(crate) queue: Rc<ChangeQueue>,
    pub(crate) housekeeping: Housekeeping,
    /// The end of the server that this one has replaced.
    pub(crate) predecessor: PredecessorExit,
    /// `booting`, `serving` or `stopping`, for the status.
    pub(crate) state: Rc<Cell<&'static str>>,
    /// The terminal that debuggers in workers use.
    pub(crate) terminal: Option<Arc<Terminal>>,
}
