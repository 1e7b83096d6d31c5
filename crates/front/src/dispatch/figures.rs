//! What the dispatcher can say of itself at one moment. It only reads.

use exchange::WorkerId;
use exchange::front::Holder;

use super::Dispatcher;
use super::generation::Generation;
use crate::http::request::Request;

impl Dispatcher {
    /// Requests that wait: in the queue, and in slots that no worker has taken yet.
    pub fn waiting(&self) -> usize {
        let inner = self.inner.borrow();
        let ready = |generation: &Generation| {
            let waits = |&slot: &u16| {
                generation.request(slot).is_some()
                    && generation.exchange.publication(slot).holder() == Holder::Nobody
            };
            generation.slot_numbers().filter(waits).count()
        };
        inner.queue.len() + inner.generations.iter().map(ready).sum::<usize>()
    }

    /// How often a request was run again after its worker had died.
    pub fn run_again(&self) -> u64 {
        self.again.get()
    }

    /// Requests that were given up after two workers had died with them.
    pub fn killed_two(&self) -> u64 {
        self.suspects.borrow().count()
    }

    /// The longest the queue has been.
    pub fn longest_queue(&self) -> usize {
        self.longest_queue.get()
    }

    /// The queue's bound.
    pub fn queue_limit(&self) -> usize {
        self.bounds.get().queue_limit
    }

    /// Slots in all and slots that nobody holds, of every generation.
    pub fn slots(&self) -> (usize, usize) {
        let inner = self.inner.borrow();
        let all = inner.generations.iter();
        all.fold((0, 0), |(total, free), generation| {
            let own = generation.slots.len();
            (total + own, free + own - generation.taken())
        })
    }

    /// Calls `each` for every request that a worker has: worker, thread, claimed at (monotonic ns).
    pub fn running(&self, mut each: impl FnMut(WorkerId, u16, u64, &Request)) {
        for generation in &self.inner.borrow().generations {
            for slot in generation.slot_numbers() {
                let Some(request) = generation.request(slot) else {
                    continue;
                };
                if let Holder::Running { worker, thread } =
                    generation.exchange.publication(slot).holder()
                {
                    let id = WorkerId {
                        generation: generation.number,
                        worker,
                    };
                    each(
                        id,
                        thread,
                        generation.exchange.publication(slot).times().0,
                        request,
                    );
                }
            }
        }
    }
    /// Calls `each` for every thread that is busy with what follows a response: worker, thread, handed back at
    /// (monotonic ns).
    pub fn lingering(&self, mut each: impl FnMut(WorkerId, u16, u64)) {
        let inner = self.inner.borrow();
        let all = inner.generations.iter().flat_map(Generation::linger);
        all.for_each(|(worker, thread, since)| each(worker, thread, since));
    }
}
