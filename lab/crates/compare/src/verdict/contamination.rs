//! Whether something else on the machine disturbed so many trials that rates, latencies and CPU times do not describe the
//! stacks. It judges no stack.

use std::fmt;

use crate::results::Results;

/// A trial is disturbed where something else on the machine used more CPU than this, in cores.
pub const DISTURBED_CORES: f64 = 0.2;

/// If a larger share of the trials is disturbed, rate, latency and CPU time get no verdict.
const TOLERATED: f64 = 1.0 / 3.0;

/// A comparison that was disturbed too often.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Contamination {
    /// Trials and steps of searches in which something else used more than [`DISTURBED_CORES`].
    pub disturbed: usize,
    /// All trials and steps of searches.
    pub trials: usize,
    /// The most that something else used in one of them, in cores.
    pub most_cores: f64,
}

impl Contamination {
    /// `None` where few enough trials were disturbed.
    pub fn of(results: &Results) -> Option<Self> {
        let trials = results.trials.iter();
        let trials = trials.filter(|trial| trial.failure.is_none());
        let steps = results.peaks.iter().flat_map(|peak| &peak.steps);
        let steps = steps.filter(|step| !step.died);
        let all: Vec<f64> = trials
            .map(|trial| trial.other_cores)
            .chain(steps.map(|step| step.other_cores))
            .collect();
        let is_disturbed = |cores: &&f64| **cores > DISTURBED_CORES;
        let disturbed = all.iter().filter(is_disturbed).count();
        (disturbed as f64 > all.len() as f64 * TOLERATED).then(|| Self {
            disturbed,
            trials: all.len(),
            most_cores: all.iter().copied().fold(0.0, f64::max),
        })
    }
}

/// What happened, what follows, and what to do.
impl fmt::Display for Contamination {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "Something else on the machine used more than {DISTURBED_CORES} cores in {} of {} trials, at most {:.1}. Rates, \
             latencies and CPU times get no verdict. Stop the other programs, or use a quiet machine, and repeat the \
             comparison.",
            self.disturbed, self.trials, self.most_cores
        )
    }
}
