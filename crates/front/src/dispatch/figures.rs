//! What the dispatcher can say of itself at one moment. It only reads.

use exchange::front::Holder;

use super::Dispatcher;
use crate::request::Request;

impl Dispatcher {
    /// Requests that wait: in the queue, and in slots that no worker has taken yet.
    pub fn waiting(&self) -> usize {
        let inner = self.inner.borrow();
        let ready = (0..inner.slots.len() as u16)
            .filter(|&slot| inner.slots[usize::from(slot)].is_some())
            .filter(|&slot| inner.exchange.holder(slot) == Holder::Nobody);
        inner.queue.len() + ready.count()
    }

    /// How often a request was run again after its worker had died.
    pub fn run_again(&self) -> u64 {
        self.again.get()
    }

    /// The longest the queue has been.
    pub fn longest_queue(&self) -> usize {
        self.longest_queue.get()
    }

    /// The queue's bound.
    pub fn queue_limit(&self) -> usize {
        self.bounds.queue_limit
    }

    /// Slots in all and slots that nobody holds.
    pub fn slots(&self) -> (usize, usize) {
        let inner = self.inner.borrow();
        (inner.slots.len(), inner.exchange.free_slots())
    }

    /// Calls `each` for every request that a worker has: worker, thread, claimed at (monotonic ns).
    pub fn running(&self, mut each: impl FnMut(u16, u16, u64, &Request)) {
        let inner = self.inner.borrow();
        for (slot, request) in inner.slots.iter().enumerate() {
            let Some(request) = request else { continue };
            if let Holder::Seat { worker, thread } = inner.exchange.holder(slot as u16) {
                each(worker, thread, inner.exchange.times(slot as u16).0, request);
            }
        }
    }
}
