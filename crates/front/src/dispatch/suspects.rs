//! Requests that killed two workers, for the log: with how the workers ended, where that becomes known.
//!
//! That a worker is dead and how it ended come by two ways, in either order; this brings the two together. Only the line
//! in the log waits for it, never a request.

use std::cell::OnceCell;
use std::fmt;
use std::rc::Rc;

use exchange::WorkerId;

use crate::http::request::Request;

/// How long the line waits for how the workers ended, in nanoseconds. Without a template nobody tells.
const PATIENCE_NS: u64 = 1_000_000_000;

/// A worker's death.
#[derive(Debug)]
pub struct Death {
    worker: WorkerId,
    how: OnceCell<String>,
}

impl fmt::Display for Death {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WorkerId { generation, worker } = self.worker;
        write!(f, "worker {worker} of generation {generation}")?;
        match self.how.get() {
            Some(how) => write!(f, " ({how})"),
            None => Ok(()),
        }
    }
}

/// What waits for its line. Almost always empty.
#[derive(Default)]
pub(super) struct Suspects {
    /// Deaths whose ending is not known yet: for each place the latest, for of earlier ones nothing is told any more.
    deaths: Vec<Rc<Death>>,
    /// Endings whose death was not told yet, likewise.
    endings: Vec<(WorkerId, String)>,
    suspects: Vec<Suspect>,
    told: u64,
}

/// A request that killed two workers.
struct Suspect {
    request: Rc<Request>,
    deaths: [Rc<Death>; 2],
    since_ns: u64,
}

impl Suspects {
    /// A worker is dead.
    pub(super) fn died(&mut self, worker: WorkerId) -> Rc<Death> {
        self.deaths.retain(|death| death.worker != worker);
        let told = self.endings.iter().position(|(of, _)| *of == worker);
        let how = told.map(|at| self.endings.swap_remove(at).1);
        let awaited = how.is_none();
        let how = how.map_or_else(OnceCell::new, OnceCell::from);
        let death = Rc::new(Death { worker, how });
        if awaited {
            self.deaths.push(Rc::clone(&death));
        }
        death
    }

    /// It is known how a worker ended.
    pub(super) fn ended(&mut self, worker: WorkerId, how: &str) {
        match self.deaths.iter().position(|death| death.worker == worker) {
            Some(at) => drop(self.deaths.swap_remove(at).how.set(how.to_owned())),
            None => {
                self.endings.retain(|(of, _)| *of != worker);
                self.endings.push((worker, how.to_owned()));
            }
        }
    }

    /// Nothing more is told of a generation.
    pub(super) fn close(&mut self, generation: u32) {
        self.deaths
            .retain(|death| death.worker.generation != generation);
        self.endings.retain(|(of, _)| of.generation != generation);
    }

    /// A request has killed two workers, at `now`, nanoseconds of the monotonic clock.
    pub(super) fn suspect(&mut self, request: &Rc<Request>, deaths: [Rc<Death>; 2], now: u64) {
        self.told += 1;
        self.suspects.push(Suspect {
            request: Rc::clone(request),
            deaths,
            since_ns: now,
        });
    }

    /// Takes those whose line waits no longer, with its text.
    pub(super) fn ready(&mut self, now: u64) -> Vec<(Rc<Request>, String)> {
        let ready = |suspect: &mut Suspect| {
            let told = |death: &Rc<Death>| death.how.get().is_some();
            suspect.deaths.iter().all(told) || now.saturating_sub(suspect.since_ns) >= PATIENCE_NS
        };
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
