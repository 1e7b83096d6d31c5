//! Regions in which a worker wrote what no sound worker writes: nothing more is read from them. Each is replaced by a
//! fresh one; what lay in it is run again where that is safe, and otherwise failed.
//!
//! It ends no process: the supervisor hears of it.

use std::rc::Rc;

use exchange::Alarm;

use super::generation::Generation;
use super::{Dispatcher, Inner};
use crate::http::request::{Place, Request};

impl Dispatcher {
    /// Looks at the regions of all generations and replaces those that are corrupt.
    pub(super) fn replace_corrupt(&self, inner: &mut Inner, alarms: &mut Vec<Alarm>) {
        for at in 0..inner.generations.len() {
            let generation = &mut inner.generations[at];
            let Some(found) = generation.exchange.inspect() else {
                continue;
            };
            if !std::mem::replace(&mut generation.evicted, true) {
                let evicted = self.evict(generation);
                if !generation.closed {
                    alarms.push(Alarm::Corrupt(generation.number, found));
                }
                for request in evicted.into_iter().rev() {
                    inner.queue.put_back(request);
                }
            }
            let generation = &mut inner.generations[at];
            // Without memory or descriptors for it: with the next look.
            if let Ok(fresh) = generation.exchange.recreate() {
                generation.exchange = fresh;
                generation.evicted = false;
            }
        }
    }

    /// Takes every request out of a corrupt region without reading their responses on. Returns those that are to be run
    /// (again), oldest first.
    fn evict(&self, generation: &mut Generation) -> Vec<Rc<Request>> {
        let mut evicted: Vec<_> = generation
            .slot_numbers()
            .filter_map(|slot| self.evict_slot(generation, slot))
            .collect();
        generation.lose_workers();
        evicted.sort_by_key(|request| request.arrival().map(|arrival| arrival.ns));
        evicted
    }

    fn evict_slot(&self, generation: &mut Generation, slot: u16) -> Option<Rc<Request>> {
        let request = generation.request(slot).cloned()?;
        if generation.exchange.retract(slot) {
            generation.free(slot);
            request.place.set(Place::Queue);
            return Some(request);
        }
        let holder = generation.exchange.publication(slot).holder();
        generation.note_holder(slot, holder, &request);
        let by = request.worker.get();
        let death = by.map(|worker| self.suspects.borrow_mut().presume_dead(worker));
        self.run_again_or_fail(generation, slot, &request, death.as_ref())
    }
}
