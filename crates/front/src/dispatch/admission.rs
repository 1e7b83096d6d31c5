//! Whether a request is taken: the bounds of the queue, and the times in which no worker can serve. Then nothing waits:
//! every request is answered at once, with the time of the next attempt.
//!
//! That no worker can serve is the supervisor's to say.

use std::time::Instant;

use super::queue::Queue;
use super::{Bounds, Dispatcher, Lane, Lanes};
use crate::failure::Failure;

impl Dispatcher {
    /// Whether a request for this path would be taken now, and where it would wait.
    ///
    /// # Errors
    /// Why it would be refused.
    pub fn admits(&self, path: &[u8]) -> Result<Lane, Failure> {
        let inner = self.inner.borrow();
        if inner.stopping {
            return Err(Failure::Stopping);
        }
        if let Some(until) = inner.outage {
            return Err(Failure::NoWorker(seconds(until)));
        }
        let lane = inner.lanes.of(path);
        let waiting = inner.queue.waiting(lane);
        let full = match lane {
            Lane::Priority => waiting >= self.bounds.get().queue_limit,
            Lane::Share(rule) if waiting >= inner.lanes.share(rule).places => true,
            Lane::Share(_) | Lane::Ordinary => {
                // Those that pass a full queue do not make it fuller for others.
                let passing = inner.queue.waiting(Lane::Priority);
                inner.beyond_seats(inner.queue.len() - passing) >= self.bounds.get().queue_limit
            }
        };
        if full {
            return Err(Failure::QueueFull);
        }
        Ok(lane)
    }

    /// Keeps these bounds from now on. What waits goes into the lanes as they are now, and stays also where it would not be
    /// let in any more.
    pub fn keep_to(&self, bounds: Bounds, lanes: Lanes) {
        self.bounds.set(bounds);
        let spool_limit = usize::try_from(bounds.spool_limit).unwrap_or(usize::MAX);
        self.spools.space.set_limit(spool_limit);
        self.response_memory.set_limit(bounds.response_memory_total);
        let mut inner = self.inner.borrow_mut();
        let mut waiting: Vec<_> = inner.queue.drain().collect();
        waiting.sort_by_key(|request| request.arrival().map(|arrival| arrival.ns));
        inner.queue = Queue::new(lanes.shares());
        for request in waiting {
            request.lane.set(lanes.of(request.path()));
            inner.queue.push(request);
        }
        for generation in &mut inner.generations {
            generation.sort_into(&lanes);
        }
        inner.lanes = lanes;
        self.fill(&mut inner);
    }

    /// Where no worker can serve: the seconds until the next one is started, rounded up.
    pub fn next_attempt(&self) -> Option<u32> {
        self.inner.borrow().outage.map(seconds)
    }
}

/// The seconds until then, rounded up: at least one, also where an attempt is under way.
pub(super) fn seconds(until: Instant) -> u32 {
    let left = until.saturating_duration_since(Instant::now());
    (left.as_secs_f64().ceil() as u32).max(1)
}
