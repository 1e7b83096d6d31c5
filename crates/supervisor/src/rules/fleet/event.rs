//! What goes into the fleet (events, and the rules of a launch) and what comes out of it (actions).

use std::time::{Duration, Instant};

use crate::rules::pool;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// Bring up a new generation, which takes the place of the one that serves. Only in a fleet that is settled.
    Launch { generation: u32, rules: Rules },
    /// There shall be this many workers from now on; one too many is the one that `leaves`. Not within a rollout, and
    /// while a generation drains only fewer.
    Resize { workers: u16, leaves: Option<u16> },
    /// These times hold for what begins from now on.
    ApplySettings {
        boot_timeout: Duration,
        drain_timeout: Duration,
    },
    /// Kill the generations that drain: a change has waited for them long enough.
    KillDraining,
    /// The generation that serves shall stop, and none takes its place until the next launch: nobody needs it for now. Only
    /// in a fleet that is settled.
    StopServing,
    /// Something happened in a generation.
    Pool { generation: u32, event: pool::Event },
    /// A worker of the generation wrote into its exchange what no sound worker writes.
    Corrupt { generation: u32 },
    /// The check that [`Action::Check`] asked for is done.
    Checked { generation: u32, passed: bool },
    /// The server is going to stop, so no new generation is to take over.
    CancelLaunch,
    /// An experiment is over: its generation ends, and the other one gets its workers back.
    EndExperiment,
    /// Stop for good: workers finish what they hold.
    Stop,
    /// Stop for good, at once.
    Kill,
    /// A moment of [`super::Fleet::next`] came.
    Tick,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Something is to be done in a generation.
    Pool {
        generation: u32,
        action: pool::Action,
    },
    /// Have requests go to these generations and to no other.
    RouteTo { generations: Vec<u32> },
    /// No worker serves, and none is started before this moment; `None`: one serves again.
    Outage { until: Option<Instant> },
    /// Find out whether a generation is fit to serve.
    Check { generation: u32 },
    /// The generation has taken over.
    Serves { generation: u32 },
    /// The generation of an experiment has all its workers, and the other one as many fewer.
    Shares { generation: u32 },
    /// The generation will not take over.
    GiveUp { generation: u32, why: GiveUpReason },
    /// Nothing is left of the generation.
    Close { generation: u32 },
}

impl Action {
    /// Whether it tells that a worker's next start waits.
    pub(super) fn is_delay(&self) -> bool {
        let delayed = |action: &pool::Action| matches!(action, pool::Action::Delayed { .. });
        matches!(self, Self::Pool { action, .. } if delayed(action))
    }
}

/// Why a new generation was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GiveUpReason {
    /// Its template could not load the application, or died later.
    Template,
    /// A worker died too often before it was ready.
    Worker { worker: u16, deaths: u32 },
    /// Its workers were not ready in time.
    Timeout,
    /// It did not pass the check, or not in time.
    Check,
    /// One of its workers wrote into the exchange what no sound worker writes.
    Corrupt,
    /// The server stops.
    CalledOff,
    /// It was there for an experiment, which is over.
    ExperimentOver,
}

/// The rules of a generation, and of the rollout that starts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rules {
    /// Number of workers that the generation's exchange has room for.
    pub(crate) places: u16,
    /// Number of workers, at most `places`.
    pub(crate) workers: u16,
    /// How long each step of a start may take.
    pub(crate) boot_timeout: Duration,
    /// How long a worker that leaves may take to finish what it holds.
    pub(crate) drain_timeout: Duration,
    /// Whether workers are replaced one by one, so that there is never more than one too many.
    pub(crate) worker_by_worker: bool,
    /// Whether a new generation is to pass a check before it takes over.
    pub(crate) check: bool,
    /// Whether it is there for an experiment: its workers come in place of as many of the other generation, worker by worker, and
    /// both serve until [`Event::EndExperiment`]. It never takes over.
    pub(crate) experiment: bool,
}

impl Rules {
    /// Workers that there may be of this generation and the one before it.
    pub(super) fn most_with(&self, old: &Self) -> u16 {
        match self.worker_by_worker {
            true => self.workers.max(old.workers) + 1,
            false => self.workers + old.workers,
        }
    }
}
