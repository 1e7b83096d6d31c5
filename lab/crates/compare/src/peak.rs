//! The search for the largest rate that a stack holds: which rate comes next, and what was found. Decisions alone: it
//! starts no server and sends nothing ([`super::search`] does).
//!
//! Rates double until one is not held, then the gap is bisected (Shivam et al., "Cutting Corners", USENIX ATC 2008). A
//! short disturbance of the machine must not end a search: the smallest rate that was not held is tried once more before it
//! counts, and if it is held then, the search continues from there.

use super::results::{Limit, Step};

/// A rate below this, in requests a second, is none.
const LEAST: f64 = 1.0;

/// A search, as far as it has come. It depends on its steps alone, so it can be taken up again from what was written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Search<'a> {
    /// The rate to begin with, in requests a second.
    pub(super) start: f64,
    /// Where the last rate held and the first one not held are this close, relative to each other, the search is over.
    pub(super) precision: f64,
    /// What was tried so far.
    pub(super) steps: &'a [Step],
}

impl Search<'_> {
    /// The rate to try next; `None` where the search is over.
    pub(super) fn next(&self) -> Option<f64> {
        if self.steps.is_empty() {
            return Some(self.start.max(LEAST));
        }
        match (self.held(), self.lost()) {
            (held, None) => Some(round(held * 2.0)),
            (0.0, Some(lost)) if lost > LEAST => Some(round(lost / 2.0).max(LEAST)),
            (0.0, Some(_)) => None,
            (held, Some(lost)) if lost / held - 1.0 > self.precision => {
                Some(round((held + lost) / 2.0))
            }
            // The upper end counts once it was tried twice.
            (_, Some(lost)) => (self.tried(lost) < 2 && !self.is_limited(lost)).then_some(lost),
        }
    }

    /// The largest rate that was held, and the smallest that was not; the latter is `None` where the generator's own limit
    /// came first.
    pub(super) fn bracket(&self) -> (f64, Option<f64>) {
        let first_bad = self.lost().filter(|rate| !self.is_limited(*rate));
        (self.held(), first_bad)
    }

    /// The largest rate that was held at least once; zero without one.
    fn held(&self) -> f64 {
        let good = self.steps.iter().filter(|step| step.why.is_none());
        good.map(|step| step.rate).fold(0.0, f64::max)
    }

    /// The smallest rate above [`Self::held`] that was not held.
    fn lost(&self) -> Option<f64> {
        let held = self.held();
        let bad = self.steps.iter().filter(|step| step.rate > held);
        bad.map(|step| step.rate).min_by(f64::total_cmp)
    }

    fn tried(&self, rate: f64) -> usize {
        self.steps.iter().filter(|step| step.rate == rate).count()
    }

    /// Whether this rate failed for the generator's sake and so says nothing of the server.
    fn is_limited(&self, rate: f64) -> bool {
        let at = self.steps.iter().filter(|step| step.rate == rate);
        at.into_iter().all(|step| step.limit == Limit::Client)
    }
}

/// To three significant digits, so that rates read well.
pub(super) fn round(rate: f64) -> f64 {
    if rate <= 0.0 {
        return 0.0;
    }
    let unit = 10_f64.powf(rate.log10().floor() - 2.0);
    // Once more, since a unit such as 0.01 is no exact number.
    ((rate / unit).round() * unit * 1e6).round() / 1e6
}

#[cfg(test)]
mod tests;
