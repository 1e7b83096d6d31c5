//! The front's part in an experiment: requests go to the workers of both generations by chance, and each generation's are recorded
//! apart. It starts no worker and judges nothing.

use metrics::{ApplicationMetrics, ApplicationTotals};

use crate::application_front::{ApplicationFront, tell_other_edges};
use crate::dispatch::share_by_chance;
use crate::serve::application::Application;
use crate::serve::halves::Halves;

/// What is recorded of each generation of an experiment.
pub struct ExperimentRecords {
    base: ApplicationMetrics,
    variant: ApplicationMetrics,
}

impl ExperimentRecords {
    /// What was recorded so far: of the generation that was there before, then of the other.
    pub fn totals(&self) -> [ApplicationTotals; 2] {
        [self.base.totals(), self.variant.totals()]
    }
}

/// Records the requests of these two generations apart from now on, and has chance decide which of them gets a request. The second
/// one is that of the experiment.
pub fn begin_experiment(front: &ApplicationFront, generations: [u32; 2]) -> ExperimentRecords {
    let (base, variant) = (ApplicationMetrics::default(), ApplicationMetrics::default());
    let (own, other) = (base.clone(), variant.clone());
    on_all_edges(front, move |application| {
        let recorders = [own.recorder(), other.recorder()];
        let [first, second] = recorders;
        let halves = Halves::new([(generations[0], first), (generations[1], second)]);
        application.halves.replace(Some(Box::new(halves)));
    });
    share_by_chance(front.dispatcher(), true);
    ExperimentRecords { base, variant }
}

/// Ends what [`begin_experiment`] began.
pub fn end_experiment(front: &ApplicationFront) {
    on_all_edges(front, |application| drop(application.halves.take()));
    share_by_chance(front.dispatcher(), false);
}

fn on_all_edges(front: &ApplicationFront, work: impl Fn(&Application) + Clone + Send + 'static) {
    work(&front.application);
    tell_other_edges(front, work);
}
