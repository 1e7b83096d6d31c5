//! What the supervisor reports to the dispatcher about generations and workers, and what that means for requests.
//!
//! It never starts or ends a process.

use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Instant;

use exchange::WorkerId;
use exchange::dispatcher::{Cause, ReadyCheck};
use exchange::scheduling::monotonic_ns;

use super::Dispatcher;
use super::generation::Generation;
use super::pending::PendingRequest;
use super::shutdown::last_deadline;
use super::state::{State, seconds};
use super::turns::PASSES;
use crate::failure::Failure;
use crate::http::request::{NO_DEADLINE, RequestBody};
use crate::log::{AccessLog, Level, Value};
use crate::net::descriptors;
use crate::serve::check;

impl exchange::Dispatcher for Dispatcher {
    fn resize(&self, generation: u32, workers: u16) {
        let mut state = self.state.borrow_mut();
        if let Some(generation) = state.generations.get_mut(generation) {
            generation.workers.resize(workers);
            generation.slots.exchange.set_single_worker(workers == 1);
        }
    }

    fn worker_starts(&self, worker: WorkerId) {
        let mut state = self.state.borrow_mut();
        if let Some(generation) = state.generations.get_mut(worker.generation) {
            generation.worker_starts(worker.worker);
        }
        let source = (worker.generation, Some(worker.worker));
        state.frames.counts().borrow_mut().started(source);
    }

    fn worker_up(&self, worker: WorkerId) {
        let mut state = self.state.borrow_mut();
        if let Some(generation) = state.generations.get_mut(worker.generation) {
            generation.workers.set_up(worker.worker);
        }
        state.fill();
    }

    fn stop_worker(&self, worker: WorkerId) {
        let state = &mut *self.state.borrow_mut();
        if let Some(generation) = state.generations.get_mut(worker.generation) {
            generation.stop_worker(worker.worker, monotonic_ns());
        }
        state.generations.requeue_for_others(&mut state.queue);
        state.fill();
    }

    /// What it had finished is delivered, what it held is run again where that is safe, and otherwise failed.
    fn worker_died(&self, worker: WorkerId, cause: Cause) {
        let state = &mut *self.state.borrow_mut();
        let death = state.crashes.poison.died(worker, cause);
        let WorkerId { generation, worker } = worker;
        let source = (generation, Some(worker));
        let State {
            generations,
            crashes,
            frames,
            queue,
            ..
        } = state;
        let Some(generation) = generations.get_mut(generation) else {
            return;
        };
        let Generation {
            deadlines, slots, ..
        } = generation;
        let unlogged = deadlines.forget_worker(slots, worker);
        let retries = state.settings.max_retries;
        let again = crashes.reclaim_worker(generation, worker, &death, frames, retries);
        // What it has counted in requests that had ended is taken.
        let counts = Rc::clone(frames.counts());
        counts.borrow_mut().ended(source);
        queue.put_all_back(again);
        generations.requeue_for_others(queue);
        state.fill();
        for work in unlogged {
            work.log(&state.log, None);
        }
    }

    fn finished(&self, worker: WorkerId) -> u64 {
        let state = self.state.borrow();
        let generation = state.generations.get(worker.generation);
        generation.map_or(0, |generation| generation.workers.finished(worker.worker))
    }

    fn has_served(&self, worker: WorkerId) -> bool {
        let state = self.state.borrow();
        let generation = state.generations.get(worker.generation);
        generation.is_some_and(|generation| generation.has_served(worker.worker))
    }

    /// A client that left changes nothing; a connection that the application took over has no deadline any more, and a
    /// response that was cut has none.
    fn deadline(&self, worker: WorkerId) -> Option<Instant> {
        let state = self.state.borrow();
        let generation = state.generations.get(worker.generation)?;
        last_deadline(generation, |runner| runner == worker.worker)
    }

    /// It waits for its announcement in the exchange where that is still to come. A socket for a request that the worker
    /// does not have is closed.
    fn hijacked(&self, by: WorkerId, slot: u32, sequence: u64, socket: OwnedFd) {
        let (Ok(slot), Ok(sequence)) = (u16::try_from(slot), u32::try_from(sequence)) else {
            return;
        };
        let state = &mut *self.state.borrow_mut();
        let Some(generation) = state.generations.get_mut(by.generation) else {
            return;
        };
        let current = generation.slots.request(slot);
        let current =
            current.filter(|_| generation.slots.exchange.publication(slot).sequence() == sequence);
        let owner = match (current, generation.hijacks.waiting(slot, sequence)) {
            (Some(_), _) => generation.slots.owner(slot),
            (None, Some(request)) => request.worker.get().map(|by| by.worker),
            // No client waits for the connection any more.
            (None, None) => return,
        };
        if owner != Some(by.worker) {
            return log_foreign_socket(&state.log, by, owner);
        }
        let expected =
            current.is_some_and(|request| !request.is_abandoned() && !request.has_ended());
        generation.hijacks.arrived(slot, sequence, socket, expected);
    }

    fn body(&self, by: WorkerId, slot: u16, sequence: u32) -> Option<OwnedFd> {
        let state = self.state.borrow();
        let slots = &state.generations.get(by.generation)?.slots;
        let request = slots.request(slot)?;
        let run = slots.run(slot)?;
        let is_its = run.by == by && run.sequence == sequence;
        match &request.request.arrival().filter(|_| is_its)?.body {
            RequestBody::File(file) => descriptors::reopen(file.raw_fd()).ok(),
            RequestBody::Inline(_) => None,
        }
    }

    fn traced(&self, by: WorkerId, slot: u16, sequence: u32, backtrace: &[String]) {
        let state = &mut *self.state.borrow_mut();
        let Some(generation) = state.generations.get_mut(by.generation) else {
            return;
        };
        generation.slow.traced(by, slot, sequence, backtrace);
        let work = generation.deadlines.traced(by, slot, sequence);
        if let (Some(work), false) = (work, backtrace.is_empty()) {
            work.log(&state.log, Some(&backtrace.join("\n")));
        }
    }

    /// What no worker has yet goes to these generations with the queue.
    fn route_to(&self, numbers: &[u32]) {
        let state = &mut *self.state.borrow_mut();
        state.generations.route_to(numbers);
        let queue = &mut state.queue;
        state.generations.requeue_unclaimed(queue, |_, _| true);
        state.fill();
    }

    fn renewed_exchange(&self, generation: u32) -> io::Result<[OwnedFd; 2]> {
        self.files(Some(generation))
    }

    /// No request is blamed for the deaths that follow. Requests that are run again are not lost.
    fn cut(&self, generation: u32) -> usize {
        let state = &mut *self.state.borrow_mut();
        state.take_completed(PASSES);
        let (now, most) = (monotonic_ns(), state.settings.max_retries);
        let Some(generation) = state.generations.get_mut(generation) else {
            return 0;
        };
        generation.cut = true;
        let is_lost = |request: &PendingRequest| {
            let again = request.retries.get() < most && request.may_run_again();
            !again && !request.is_abandoned() && request.is_within_first_deadline(now)
        };
        generation.slots.running(|_| true, is_lost)
    }

    fn close(&self, number: u32) {
        let mut state = self.state.borrow_mut();
        if let Some(generation) = state.generations.get_mut(number) {
            (generation.routable, generation.closed) = (false, true);
        }
        state.crashes.poison.close(number);
        state.frames.counts().borrow_mut().generation_ended(number);
        state.generations.forget_closed();
    }

    /// What waits fails, and so does what comes; what workers that leave still run goes on.
    fn outage(&self, until: Option<Instant>) {
        let state = &mut *self.state.borrow_mut();
        state.outage = until;
        let Some(until) = until else {
            return state.fill();
        };
        // A generation that requests are not routed to yet may be asked whether it is fit to serve.
        let routable = |generation: &Generation, _: &PendingRequest| generation.routable;
        let queue = &mut state.queue;
        state.generations.requeue_unclaimed(queue, routable);
        state.fail_queue(Failure::NoWorker(seconds(until)));
    }

    /// The answer may take as long as that to any request for the path.
    fn check(&self, generation: u32, path: String) -> ReadyCheck {
        let (intake, store) = (Rc::clone(&self.intake), Rc::clone(&self.check_store));
        let without_query = path.split('?').next().unwrap_or(&path);
        let settings = Rc::clone(&self.state.borrow().settings);
        let timeout = settings.request_timeout_of(without_query.as_bytes());
        let timeout = timeout.unwrap_or(NO_DEADLINE);
        Box::pin(async move { check::run(&intake, &store, generation, &path, timeout).await })
    }
}

/// Logs that a worker sent a socket for a request that another worker has, or none.
fn log_foreign_socket(log: &AccessLog, by: WorkerId, owner: Option<u16>) {
    let owner = match owner {
        Some(worker) => format!("worker {worker} has"),
        None => "no worker has".to_owned(),
    };
    let text = format!(
        "worker {} sent a socket for the connection of a request that {owner}; closing the socket",
        by.worker
    );
    let generation = [("generation", Value::Number(by.generation.into()))];
    log.event(Level::Error, &text, &generation);
}
