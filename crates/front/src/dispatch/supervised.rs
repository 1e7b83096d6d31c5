//! What the supervisor tells the dispatcher about generations and workers, and what that means for requests.
//!
//! It never starts or ends a process.

use std::fmt::Display;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Instant;

use exchange::WorkerId;
use exchange::dispatcher::{Cause, Check};
use exchange::front::Holder;
use exchange::scheduling::monotonic_ns;

use super::admission::seconds;
use super::end::{is_in_time, last_deadline};
use super::{Dispatcher, Inner};
use crate::failure::Failure;
use crate::http::request::{Place, Request};
use crate::log::Level;
use crate::log::errors;
use crate::serve::check;

impl exchange::Dispatcher for Dispatcher {
    fn resize(&self, generation: u32, workers: u16) {
        if let Some(generation) = self.inner.borrow_mut().generation(generation) {
            generation.resize(workers);
        }
    }

    fn worker_starts(&self, worker: WorkerId) {
        let mut inner = self.inner.borrow_mut();
        if let Some(generation) = inner.generation(worker.generation) {
            generation.worker_starts(worker.worker);
        }
    }

    fn worker_up(&self, worker: WorkerId) {
        let mut inner = self.inner.borrow_mut();
        if let Some(generation) = inner.generation(worker.generation) {
            generation.worker_up(worker.worker);
        }
        self.fill(&mut inner);
    }

    fn stop_worker(&self, worker: WorkerId) {
        let mut inner = self.inner.borrow_mut();
        if let Some(generation) = inner.generation(worker.generation) {
            generation.stop_worker(worker.worker);
        }
        inner.recall_for_others();
        self.fill(&mut inner);
    }

    /// What it had finished is delivered, what it held is run again where that is safe, and otherwise failed.
    fn worker_died(&self, dead: WorkerId, cause: Cause) {
        let death = self.suspects.borrow_mut().died(dead, cause);
        let WorkerId { generation, worker } = dead;
        let mut inner = self.inner.borrow_mut();
        let Inner {
            queue, generations, ..
        } = &mut *inner;
        let mut generations = generations.iter_mut();
        let Some(generation) = generations.find(|one| one.number == generation) else {
            return;
        };
        let untold = generation.forget_lates(worker);
        let held = generation.bury(worker);
        for slot in generation.slot_numbers() {
            // Also those of which it had only frames to say, or whose bell it did not live to ring.
            if matches!(generation.exchange.publication(slot).holder(), Holder::Done { worker: by, .. } if by == worker)
            {
                self.take(generation, slot);
            }
        }
        let orphans = held
            .into_iter()
            .filter_map(|slot| self.bereave(generation, slot, &death));
        let mut orphans: Vec<_> = orphans.collect();
        orphans.sort_by_key(|request| request.arrival().map(|arrival| arrival.ns));
        for request in orphans.into_iter().rev() {
            queue.put_back(request);
        }
        generation.hijacks.worker_died(worker);
        inner.recall_for_others();
        self.fill(&mut inner);
        drop(inner);
        for work in untold {
            errors::late(&self.log, &work, None);
        }
    }

    fn finished(&self, worker: WorkerId) -> u64 {
        let mut inner = self.inner.borrow_mut();
        let generation = inner.generation(worker.generation);
        generation.map_or(0, |generation| generation.finished(worker.worker))
    }

    fn has_served(&self, worker: WorkerId) -> bool {
        let mut inner = self.inner.borrow_mut();
        let generation = inner.generation(worker.generation);
        generation.is_some_and(|generation| generation.has_served(worker.worker))
    }

    /// A client that left changes nothing; a connection that the application took over has no deadline any more, and a
    /// response that was cut has none.
    fn deadline(&self, worker: WorkerId) -> Option<Instant> {
        let mut inner = self.inner.borrow_mut();
        let generation = inner.generation(worker.generation)?;
        last_deadline(generation, |runner| runner == worker.worker)
    }

    /// It waits for its announcement in the exchange where that is still to come. A socket for a request that the worker
    /// does not have is closed.
    fn hijacked(&self, by: WorkerId, slot: u32, sequence: u64, socket: OwnedFd) {
        let (Ok(slot), Ok(sequence)) = (u16::try_from(slot), u32::try_from(sequence)) else {
            return;
        };
        let mut inner = self.inner.borrow_mut();
        let Some(generation) = inner.generation(by.generation) else {
            return;
        };
        let current = generation.request(slot);
        let current =
            current.filter(|_| generation.exchange.publication(slot).sequence() == sequence);
        let owner = match (current, generation.hijacks.waiting(slot, sequence)) {
            (Some(_), _) => generation.owner(slot),
            (None, Some(request)) => request.worker.get().map(|by| by.worker),
            // Nobody waits for the connection any more.
            (None, None) => return,
        };
        if owner != Some(by.worker) {
            let owner = match owner {
                Some(worker) => format!("worker {worker} has"),
                None => "no worker has".to_owned(),
            };
            let text = format!(
                "worker {} sent a socket for the connection of a request that {owner}; it is refused",
                by.worker
            );
            let generation: [(&str, &dyn Display); 1] = [("generation", &by.generation)];
            self.log.event(Level::Error, &text, &generation);
            return;
        }
        let expected =
            current.is_some_and(|request| !request.is_abandoned() && !request.has_ended());
        generation.hijacks.arrived(slot, sequence, socket, expected);
    }

    fn traced(&self, by: WorkerId, slot: u16, sequence: u32, backtrace: &[String]) {
        let mut inner = self.inner.borrow_mut();
        let Some(generation) = inner.generation(by.generation) else {
            return;
        };
        let work = generation.lates.asked(by, slot, sequence);
        if let (Some(work), false) = (work, backtrace.is_empty()) {
            errors::late(&self.log, &work, Some(&backtrace.join("\n")));
        }
    }

    /// What no worker has yet goes to these generations with the queue.
    fn route_to(&self, numbers: &[u32]) {
        let mut inner = self.inner.borrow_mut();
        for generation in &mut inner.generations {
            generation.fed = numbers.contains(&generation.number);
        }
        inner.recall(|_, _| true);
        self.fill(&mut inner);
    }

    fn renewed_exchange(&self, generation: u32) -> io::Result<[OwnedFd; 2]> {
        self.files(Some(generation))
    }

    /// No request is blamed for the deaths that follow. Requests that are run again are not lost.
    fn cut(&self, generation: u32) -> usize {
        self.complete();
        let (now, most) = (monotonic_ns(), self.bounds.get().max_retries);
        let mut inner = self.inner.borrow_mut();
        let Some(generation) = inner.generation(generation) else {
            return 0;
        };
        generation.cut = true;
        let runs = |&slot: &u16| generation.runner(slot).is_some();
        let held = generation.slot_numbers().filter(runs);
        let lost = |request: &&Rc<Request>| {
            let again = request.retries.get() < most && request.may_run_again();
            !again && !request.is_abandoned() && is_in_time(request, now)
        };
        held.filter_map(|slot| generation.request(slot))
            .filter(lost)
            .count()
    }

    fn close(&self, number: u32) {
        let mut inner = self.inner.borrow_mut();
        if let Some(generation) = inner.generation(number) {
            (generation.fed, generation.closed) = (false, true);
        }
        self.suspects.borrow_mut().close(number);
        inner.forget_closed();
    }

    /// What waits fails, and so does what comes; what workers that leave still run goes on.
    fn outage(&self, until: Option<Instant>) {
        let mut inner = self.inner.borrow_mut();
        inner.outage = until;
        let Some(until) = until else {
            return self.fill(&mut inner);
        };
        // A generation that requests are not routed to yet may be asked whether it is fit to serve.
        inner.recall(|generation, _| generation.fed);
        let failure = Failure::NoWorker(seconds(until));
        for request in inner.queue.drain() {
            request.place.set(Place::Out);
            request.fail(failure);
        }
    }

    fn check(&self, generation: u32, path: String) -> Check {
        let (this, timeout) = (self.this.upgrade(), self.bounds.get().check_timeout);
        Box::pin(async move {
            match this {
                Some(dispatcher) => check::run(&dispatcher, generation, &path, timeout).await,
                None => Err("the server stops".to_owned()),
            }
        })
    }
}
