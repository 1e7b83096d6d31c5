//! The changes that a running server is asked for (restart, reload, upgrade), and the bounded queue in which the requests
//! for them wait. Signals and touches of a file stand in it once for each change. It logs each request and tells its
//! requester what it waits for. It makes no change itself.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::path::PathBuf;
use std::rc::Rc;

use front::log::{AccessLog, Level};
use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, watch};

use crate::control::messages::{ExperimentRequest, Progress};

/// The most requests that wait, including those whose clients have left.
const MAX_CHANGE_REQUESTS: usize = 128;

/// A change of the running server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Change {
    /// Load the code of the application with this name again; none: of all.
    Restart(Option<String>),
    /// Read the settings again.
    Reload,
    /// Have another number of workers in place.
    Scale {
        /// The application's name; none: the only one.
        application: Option<String>,
        /// How many.
        to: ScaleTo,
    },
    /// Have a worker of the application with this name, or of each, fork a new template for the others.
    Refork(Option<String>),
    /// Run half of the workers with another setting.
    Experiment(Box<ExperimentRequest>),
    /// End the experiment of the application with this name, or of the only one.
    EndExperiment(Option<String>),
    /// Let another program take over: the named one, by default the one that this server was started from.
    Upgrade(Option<PathBuf>),
}

/// How many workers there shall be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ScaleTo {
    /// As many.
    Workers(u16),
    /// So many more than are wanted now; fewer if negative.
    By(i16),
    /// As many as the settings say.
    Setting,
}

impl fmt::Display for ScaleTo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Workers(workers) => write!(f, "to {workers}"),
            Self::By(more) => write!(f, "by {more:+}"),
            Self::Setting => f.write_str("to the setting"),
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Restart(None) => f.write_str("restart"),
            // A command may name anything.
            Self::Restart(Some(name)) => write!(f, "restart of {}", name.escape_debug()),
            Self::Reload => f.write_str("reload"),
            Self::Refork(_) => f.write_str("refork"),
            Self::Scale { to, .. } => write!(f, "scale {to}"),
            Self::Experiment(_) => f.write_str("experiment"),
            Self::EndExperiment(_) => f.write_str("experiment --stop"),
            Self::Upgrade(_) => f.write_str("upgrade"),
        }
    }
}

/// Who requests a change.
#[derive(Debug)]
pub(crate) enum Requester {
    /// A command, which sees the latest answer, and the end of the channel where none will come.
    Command(watch::Sender<Progress>),
    /// A signal, by its name.
    Signal(&'static str),
    /// `restart_file` was touched.
    File,
    /// The server that this one has replaced, which received the request and passes it on.
    Predecessor,
}

/// A request for a change.
#[derive(Debug)]
pub(crate) struct ChangeRequest {
    pub(crate) change: Change,
    pub(crate) requester: Requester,
}

impl ChangeRequest {
    /// Sends an answer, where the requester waits for one. A client that has left finds it in the log.
    pub(crate) fn reply(&self, answer: &Progress) {
        if let Requester::Command(client) = &self.requester {
            client.send_replace(answer.clone());
        }
    }

    /// Tells the requester what the change waits for.
    fn reply_waiting(&self, reason: &str) {
        let reason = reason.to_owned();
        self.reply(&Progress::Waiting { reason });
    }

    /// Adds another request of a signal for some more or fewer workers. Returns false if one of the two is not such a request.
    fn add_step(&mut self, other: &Self) -> bool {
        let (Requester::Signal(_), Requester::Signal(_)) = (&self.requester, &other.requester)
        else {
            return false;
        };
        match (&mut self.change, &other.change) {
            (
                Change::Scale {
                    to: ScaleTo::By(steps),
                    ..
                },
                Change::Scale {
                    to: ScaleTo::By(more),
                    ..
                },
            ) => {
                *steps = steps.saturating_add(*more);
                true
            }
            _ => false,
        }
    }

    /// Whether no client waits for an answer.
    pub(crate) fn needs_no_answer(&self) -> bool {
        match &self.requester {
            Requester::Command(client) => client.is_closed(),
            Requester::Signal(_) | Requester::File | Requester::Predecessor => true,
        }
    }
}

impl fmt::Display for ChangeRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let change = &self.change;
        write!(f, "{change} requested (")?;
        match self.requester {
            Requester::Command(_) => write!(f, "highball {change}")?,
            Requester::Signal(name) => write!(f, "signal {name}")?,
            Requester::File => f.write_str("restart_file was touched")?,
            Requester::Predecessor => f.write_str("passed on by the previous server")?,
        }
        f.write_str(")")
    }
}

/// The requests that wait, and those for the change that is being made.
pub(crate) struct ChangeQueue {
    waiting: RefCell<Vec<ChangeRequest>>,
    /// The requests for the change that is being made.
    current: RefCell<Vec<ChangeRequest>>,
    arrived: Notify,
    closed: Cell<bool>,
    /// What is being done, for requesters that wait; `None` while no change is being made.
    progress: RefCell<Option<String>>,
    /// What all changes wait for, the current one included.
    blocker: RefCell<Option<String>>,
    log: Box<dyn Fn(&str)>,
    on_reload: Box<dyn Fn()>,
}

impl fmt::Debug for ChangeQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChangeQueue")
            .field("waiting", &self.waiting)
            .field("current", &self.current)
            .finish_non_exhaustive()
    }
}

impl ChangeQueue {
    /// An empty queue of a server with this log. A request for a reload has its file opened again, at once: a change that is
    /// under way may take minutes, and the old file may be compressed by then.
    pub(crate) fn of(log: &Rc<AccessLog>) -> Self {
        let (own, reopened) = (Rc::clone(log), Rc::clone(log));
        Self::new(
            move |text| own.event(Level::Info, text, &[]),
            move || reopened.reopen(),
        )
    }

    /// An empty queue, which writes a line to `log` for each request, and calls `on_reload` when a reload is requested.
    pub(crate) fn new(log: impl Fn(&str) + 'static, on_reload: impl Fn() + 'static) -> Self {
        Self {
            waiting: RefCell::default(),
            current: RefCell::default(),
            arrived: Notify::new(),
            closed: Cell::default(),
            progress: RefCell::default(),
            blocker: RefCell::default(),
            log: Box::new(log),
            on_reload: Box::new(on_reload),
        }
    }

    /// Adds a request at the end. Drops one that needs no answer if another such request for the same change waits already,
    /// and every one once the queue is closed.
    pub(crate) fn push(&self, request: ChangeRequest) {
        if request.change == Change::Reload {
            (self.on_reload)();
        }
        if self.closed.get() {
            return (self.log)(&format!("{request}; ignored: the server is stopping"));
        }
        let mut waiting = self.waiting.borrow_mut();
        // Each signal counts: two are two workers more.
        if waiting.iter_mut().any(|one| one.add_step(&request)) {
            return;
        }
        let mut one_is_there = false;
        waiting.retain(|one| {
            one.change != request.change
                || !one.needs_no_answer()
                || !std::mem::replace(&mut one_is_there, true)
        });
        if one_is_there && request.needs_no_answer() {
            return;
        }
        if waiting.len() >= MAX_CHANGE_REQUESTS {
            let text = format!("{MAX_CHANGE_REQUESTS} other requests for changes are waiting");
            (self.log)(&format!("{request}; refused: {text}"));
            return request.reply(&Progress::refused(format!("{text}; try again later")));
        }
        match self.reason() {
            None => (self.log)(&request.to_string()),
            Some(reason) => {
                (self.log)(&format!("{request}; waiting: {reason}"));
                request.reply_waiting(&reason);
            }
        }
        waiting.push(request);
        self.arrived.notify_one();
    }

    /// Waits for a request, and returns the change that the first one is for. The request stays in the queue.
    pub(crate) async fn first(&self) -> Change {
        loop {
            let first = self.waiting.borrow().first().map(|one| one.change.clone());
            match first {
                Some(change) => return change,
                None => self.arrived.notified().await,
            }
        }
    }

    /// Removes and returns all requests for a change.
    pub(crate) fn take(&self, change: &Change) -> Vec<ChangeRequest> {
        let mut waiting = self.waiting.borrow_mut();
        waiting
            .extract_if(.., |one| one.change == *change)
            .collect()
    }

    /// Makes all requests for this change the current ones. Tells the others, and those that come later, `progress`.
    pub(crate) fn begin(&self, change: &Change, progress: String) {
        *self.current.borrow_mut() = self.take(change);
        let waiting = self.waiting.borrow();
        waiting.iter().for_each(|one| one.reply_waiting(&progress));
        *self.progress.borrow_mut() = Some(progress);
    }

    /// Answers the current requests: the change has been made, or has failed.
    pub(crate) fn finish(&self, answer: &Progress) {
        self.progress.take();
        let current = self.current.take();
        current.iter().for_each(|one| one.reply(answer));
    }

    /// Tells all requesters, and those that come later, what all changes wait for.
    pub(crate) fn block(&self, reason: String) {
        for requests in [&self.current, &self.waiting] {
            let requests = requests.borrow();
            requests.iter().for_each(|one| one.reply_waiting(&reason));
        }
        *self.blocker.borrow_mut() = Some(reason);
    }

    /// Ends what [`ChangeQueue::block`] began.
    pub(crate) fn unblock(&self) {
        self.blocker.take();
    }

    /// What a new request waits for, except for its turn.
    fn reason(&self) -> Option<String> {
        let blocker = self.blocker.borrow().clone();
        blocker.or_else(|| self.progress.borrow().clone())
    }

    /// Drops all requests, and every one that comes later. Their requesters see the end of their channels.
    pub(crate) fn close(&self) {
        self.closed.set(true);
        drop((self.current.take(), self.waiting.take()));
    }
}

#[cfg(test)]
mod tests;
