//! Requests that killed two workers, for the log: with how the workers ended, where that becomes known.
//!
//! Only the line in the log waits for that, never a request.

use std::cell::OnceCell;
use std::fmt;
use std::rc::Rc;

use exchange::WorkerId;
use exchange::dispatcher::Cause;
use tokio::task::spawn_local;

use crate::http::request::Request;

/// A worker's death.
#[derive(Debug)]
pub struct Death {
    worker: WorkerId,
    /// Its cause, or that nobody can tell it; empty until that is known.
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

/// What waits for its line. Almost always empty.
#[derive(Default)]
pub(super) struct Suspects {
    /// Workers that are about to be killed, for their exchange is corrupt. They hold nothing any more.
    presumed: Vec<Rc<Death>>,
    suspects: Vec<Suspect>,
    told: u64,
}

/// A request that killed two workers.
struct Suspect {
    request: Rc<Request>,
    deaths: [Rc<Death>; 2],
}

impl Suspects {
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
        let presumed = self
            .presumed
            .iter()
            .position(|death| death.worker == worker);
        let death = match presumed {
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

    /// A request has killed two workers.
    pub(super) fn suspect(&mut self, request: &Rc<Request>, deaths: [Rc<Death>; 2]) {
        self.told += 1;
        self.suspects.push(Suspect {
            request: Rc::clone(request),
            deaths,
        });
    }

    /// Takes those whose line waits no longer, or all of them, with its text.
    pub(super) fn ready(&mut self, all: bool) -> Vec<(Rc<Request>, String)> {
        let ready =
            |suspect: &mut Suspect| all || suspect.deaths.iter().all(|death| death.is_explained());
        let ready = self.suspects.extract_if(.., ready);
        let text = |suspect: Suspect| {
            let [first, second] = suspect.deaths;
            let text = format!(
                "KilledTwoWorkers: {first}, then {second} died with it, which makes it a likely culprit; it is not \
                 run again"
            );
            (suspect.request, text)
        };
        ready.map(text).collect()
    }

    /// How many there were.
    pub(super) fn count(&self) -> u64 {
        self.told
    }
}
