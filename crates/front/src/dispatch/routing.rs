//! From the queue into slots: to which generation a request goes, and what becomes of those that wait when
//! that changes. It knows no process: the supervisor says when what happens.

use std::io;
use std::rc::Rc;

use exchange::Geometry;

use super::generation::Generation;
use super::queue::Next;
use super::{Dispatcher, Inner, Lane};
use crate::failure::Failure;
use crate::http::request::{Place, Request};

impl Dispatcher {
    /// Makes the exchange of a new generation, of these sizes. The queue does not go to it yet.
    ///
    /// # Errors
    /// No memory or descriptors for it.
    pub fn open(&self, number: u32, geometry: Geometry) -> io::Result<()> {
        let mut inner = self.inner.borrow_mut();
        let Some(other) = inner.generations.first() else {
            return Err(io::Error::other("no generation is left"));
        };
        let doorbell = other.exchange.doorbell().try_clone()?;
        let exchange = exchange::Front::with_doorbell(geometry, doorbell)?;
        exchange.set_queue_waits(inner.queue_told);
        let generation = Generation::new(number, exchange, inner.lanes.shares());
        inner.generations.push(generation);
        Ok(())
    }

    /// Gives a request to this very generation, past the queue.
    ///
    /// # Errors
    /// It has no free slot, or the request does not fit into one.
    pub fn submit_to(&self, number: u32, request: &Rc<Request>) -> Result<(), Failure> {
        self.complete();
        let mut inner = self.inner.borrow_mut();
        let generation = inner.generation(number).ok_or(Failure::Stopping)?;
        let slot = generation.exchange.acquire().ok_or(Failure::QueueFull)?;
        // Whoever asks one generation wants no other's answer.
        request.retries.set(self.bounds.get().max_retries);
        match self.put(generation, slot, request)? {
            true => Ok(()),
            false => Err(Failure::QueueFull),
        }
    }

    /// Fills free slots from the queue, oldest first of those that may run.
    pub(super) fn fill(&self, inner: &mut Inner) {
        self.fill_slots(inner);
        inner.tell_queue();
    }

    fn fill_slots(&self, inner: &mut Inner) {
        while let Some(next) = inner.next() {
            let Some((at, slot)) = inner.acquire() else {
                return;
            };
            let Some(request) = inner.queue.pop(next) else {
                return;
            };
            match self.put(&mut inner.generations[at], slot, &request) {
                Ok(true) => {}
                Ok(false) => {
                    inner.queue.put_back(request);
                    return;
                }
                Err(failure) => {
                    request.place.set(Place::Out);
                    request.fail(failure);
                }
            }
        }
    }

    /// Puts a request into a slot that was acquired for it. False when the ready ring has no place just now;
    /// then the slot is free again, as where it fails.
    fn put(
        &self,
        generation: &mut Generation,
        slot: u16,
        request: &Rc<Request>,
    ) -> Result<bool, Failure> {
        let area = generation.exchange.request_area(slot);
        let Ok(length) = request.write_record(&self.env, area) else {
            generation.exchange.release(slot);
            return Err(Failure::NotStored("its head does not fit into a slot"));
        };
        if !generation.exchange.publish(slot, length) {
            generation.exchange.release(slot);
            return Ok(false);
        }
        generation.keep(slot, request);
        Ok(true)
    }
}

impl Inner {
    /// The generation of this number.
    pub(super) fn generation(&mut self, number: u32) -> Option<&mut Generation> {
        let mut all = self.generations.iter_mut();
        all.find(|generation| generation.number == number)
    }

    /// Generations that the queue goes to.
    pub(super) fn fed(&self) -> impl Iterator<Item = &Generation> {
        self.generations.iter().filter(|generation| generation.fed)
    }

    /// Where the next request of the queue goes, and a slot for it.
    pub(super) fn acquire(&mut self) -> Option<(usize, u16)> {
        let at = self.roomiest()?;
        let slot = self.generations[at].exchange.acquire()?;
        Some((at, slot))
    }

    /// The only generation that the queue goes to. Where there are two, the one with more idle threads, and
    /// none without: a request that waited behind a busy thread could not go to the other generation's.
    fn roomiest(&self) -> Option<usize> {
        if let [only] = &self.generations[..] {
            return (only.fed && only.is_sound()).then_some(0);
        }
        let alone = self.fed().count() == 1;
        let fed = (0..).zip(&self.generations);
        let fed = fed.filter(|(_, one)| one.fed && one.is_sound());
        let idle = fed.filter_map(|(at, one)| match alone {
            true => Some((at, 0)),
            false => Some((at, one.seats_up().checked_sub(one.engaged() + 1)?)),
        });
        idle.max_by_key(|(_, idle)| *idle).map(|(at, _)| at)
    }

    /// Takes back into the queue what no worker has claimed, oldest first; of that, what is `wanted`.
    pub(super) fn recall(&mut self, wanted: impl Fn(&Generation, &Request) -> bool) {
        let mut recalled = Vec::new();
        for generation in &mut self.generations {
            for slot in generation.slot_numbers() {
                let request = generation.request(slot);
                if request.is_some_and(|request| wanted(generation, request))
                    && generation.exchange.retract(slot)
                {
                    recalled.extend(generation.free(slot));
                }
            }
        }
        recalled.sort_by_key(|request| request.arrival().map(|arrival| arrival.ns));
        for request in recalled.into_iter().rev() {
            request.place.set(Place::Queue);
            self.queue.put_back(request);
        }
    }

    /// The same where there is a choice: a worker fewer may leave requests waiting behind busy threads.
    pub(super) fn recall_for_others(&mut self) {
        if self.fed().count() > 1 {
            self.recall(|_, _| true);
        }
    }

    /// Lets a request of a priority path, which is in the queue, pass those that wait in slots.
    pub(super) fn let_pass(&mut self) {
        let fed = |count: fn(&Generation) -> usize| self.fed().map(count).sum::<usize>();
        // Where a thread idles all of these are taken at once.
        if fed(Generation::engaged) >= fed(Generation::seats_up) {
            self.recall(|generation, request| {
                generation.fed && request.lane.get() != Lane::Priority
            });
        }
    }

    /// The request of the queue that is to run next. Of a share no more lie in slots than it has of the threads that
    /// serve now, where they are run or about to be; of those that a worker died with, no second one beside one that has not begun to answer.
    fn next(&self) -> Option<Next> {
        let may = |rule| {
            let engaged = self.fed().map(|generation| generation.engaged_of(rule));
            let seats = self.fed().map(Generation::seats_up).sum();
            engaged.sum::<usize>() < self.lanes.share(rule).of_threads(seats)
        };
        let mut all = self.generations.iter();
        self.queue
            .next(may, || !all.any(Generation::tries_a_suspect))
    }

    /// Says to workers whether requests wait in the queue, where that has changed.
    fn tell_queue(&mut self) {
        let waits = self.queue.len() > 0;
        if waits != self.queue_told {
            self.queue_told = waits;
            for generation in &self.generations {
                generation.exchange.set_queue_waits(waits);
            }
        }
    }

    /// Drops generations that are gone, and what they left, once nobody waits for it.
    pub(super) fn forget_closed(&mut self) {
        self.generations
            .retain(|generation| !generation.closed || generation.taken() > 0);
    }
}
