//! Requests that killed two workers, for the log: with how the workers ended, where that becomes known.
//!
//! Only the line in the log waits for that, never a request.

use std::cell::OnceCell;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use exchange::WorkerId;
use exchange::dispatcher::Cause;
use tokio::task::spawn_local;

use crate::http::request::Request;
use crate::log::{AccessLog, errors};

/// A worker's death.
#[derive(Debug)]
pub(super) struct Death {
    worker: WorkerId,
    /// Its cause, `None` if that cannot be found out; empty until either is known.
    cause: OnceCell<Option<String>>,
}

impl Death {
    fn new(worker: WorkerId) -> Rc<Self> {
        let cause = OnceCell::new();
        Rc::new(Self { worker, cause })
    }

    fn is_explained(&self) -> bool {
        self.cause.get().is_some()
    }
}

impl fmt::Display for Death {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WorkerId { generation, worker } = self.worker;
        write!(f, "worker {worker} of generation {generation}")?;
        match self.cause.get() {
            Some(Some(cause)) => write!(f, " ({cause})"),
            Some(None) | None => Ok(()),
        }
    }
}

/// Requests that killed two workers and wait for their line in the log. Almost always empty.
#[derive(Default)]
pub(super) struct PoisonRequests {
    /// Workers that are about to be killed, for their exchange is corrupt. They hold nothing any more.
    presumed: Vec<Rc<Death>>,
    waiting: Vec<PoisonRequest>,
    count: u64,
}

/// A request that killed two workers.
struct PoisonRequest {
    request: Arc<Request>,
    /// The worker that had it last.
    worker: Option<WorkerId>,
    deaths: [Rc<Death>; 2],
}

impl PoisonRequests {
    /// A worker is about to be killed: what it held is taken back already.
    pub(super) fn presume_dead(&mut self, worker: WorkerId) -> Rc<Death> {
        if let Some(death) = self.presumed.iter().find(|death| death.worker == worker) {
            return Rc::clone(death);
        }
        let death = Death::new(worker);
        self.presumed.push(Rc::clone(&death));
        death
    }

    /// A worker is dead.
    pub(super) fn died(&mut self, worker: WorkerId, cause: Cause) -> Rc<Death> {
        let mut presumed = self.presumed.iter();
        let death = match presumed.position(|death| death.worker == worker) {
            Some(at) => self.presumed.swap_remove(at),
            None => Death::new(worker),
        };
        let explained = Rc::clone(&death);
        spawn_local(async move {
            let cause = cause.await;
            explained.cause.get_or_init(|| cause);
        });
        death
    }

    /// Nothing is left of a generation.
    pub(super) fn close(&mut self, generation: u32) {
        let of_it = |death: &mut Rc<Death>| death.worker.generation == generation;
        for death in self.presumed.extract_if(.., of_it) {
            death.cause.get_or_init(|| None);
        }
    }

    /// A request has killed two workers, this one last.
    pub(super) fn add(
        &mut self,
        request: &Arc<Request>,
        worker: Option<WorkerId>,
        deaths: [Rc<Death>; 2],
    ) {
        self.count += 1;
        self.waiting.push(PoisonRequest {
            request: Arc::clone(request),
            worker,
            deaths,
        });
    }

    /// Logs all of them, or those for which it is known how the workers ended.
    pub(super) fn log(&mut self, log: &AccessLog, all: bool) {
        let ready =
            |poison: &mut PoisonRequest| all || poison.deaths.iter().all(|one| one.is_explained());
        for poison in self.waiting.extract_if(.., ready) {
            let [first, second] = &poison.deaths;
            let text = format!(
                "PoisonRequest: {first}, then {second} died with it; it probably kills workers and is not run again"
            );
            errors::app_error(log, &poison.request, poison.worker, &text);
        }
    }

    /// How many there were.
    pub(super) fn count(&self) -> u64 {
        self.count
    }
}
