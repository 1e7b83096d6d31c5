//! What an experiment records of the requests of each of its two generations, in one thread. It knows no worker by itself.

use metrics::{Ended, Recorder};

/// A recorder for each of two generations.
pub(crate) struct Halves([(u32, Recorder); 2]);

impl Halves {
    /// Recorders by the numbers of their generations.
    pub(crate) fn new(recorders: [(u32, Recorder); 2]) -> Self {
        Self(recorders)
    }

    /// Records a request that has ended in a worker of this generation, if it is one of them.
    pub(crate) fn record(&self, generation: u32, ended: &Ended<'_>) {
        let own = self.0.iter().find(|(number, _)| *number == generation);
        if let Some((_, recorder)) = own {
            recorder.record(ended);
        }
    }
}
