//! Requests past their deadline: they are answered in place of the application, or cut where it had begun to answer, and
//! of those that a thread still runs the supervisor hears, which can find out where that thread is and replace its worker.
//!
//! The deadline of a response that has begun moves on with each piece of it, and while the application waits for the
//! client. It ends no process and logs nothing.

use std::rc::Rc;
use std::time::Duration;

use exchange::front::Holder;
use exchange::scheduling::monotonic_ns;
use exchange::{Alarm, Run, Stall, WorkerId};

use super::generation::Generation;
use super::{Bounds, Dispatcher};
use crate::failure::Failure;
use crate::http::request::{End, Place, Request};

/// A thread that was woken for a request and has not come after so long, in nanoseconds, may stand still.
const NUDGE: u64 = 100_000_000;

/// What is known of the late requests of one generation. Almost always empty.
#[derive(Default)]
pub(super) struct Lates {
    runs: Vec<LateRun>,
    /// Workers that are known to be stuck, and whether also to be spent.
    stuck: Vec<(u16, bool)>,
}

/// What a thread is late with.
#[derive(Clone)]
pub enum Work {
    /// A request.
    Request(Rc<Request>),
    /// What the application wants done after a response.
    Afterwards {
        /// The worker.
        by: WorkerId,
        /// When the thread handed the request back, nanoseconds of the monotonic clock.
        since_ns: u64,
    },
}

struct LateRun {
    run: Run,
    work: Work,
    /// Its deadline, nanoseconds of the monotonic clock.
    until: u64,
    /// Whether its worker has said where the thread is.
    traced: bool,
}

impl Dispatcher {
    /// Ends every request whose deadline has passed: those that wait never reach Ruby, those that run are answered 504 or
    /// cut and go on unwatched. Returns what the supervisor must hear.
    pub fn expire(&self) -> Vec<Alarm> {
        let now = monotonic_ns();
        let passed = Duration::from_nanos(now.saturating_sub(self.looked_ns.replace(now)));
        let Bounds { grace, between, .. } = self.bounds.get();
        let mut alarms = Vec::new();
        let mut inner = self.inner.borrow_mut();
        // Every one is looked at: those that came first need not be late first.
        inner.queue.retain(|request| {
            let late = request.is_late(now);
            if late {
                request.place.set(Place::Out);
                request.fail(Failure::ExpiredInQueue);
            }
            !late
        });
        self.replace_corrupt(&mut inner, &mut alarms);
        for generation in &mut inner.generations {
            generation.exchange.give_back_idle(now);
            generation.hijacks.expire(now);
            generation.extend_deadlines(now);
            generation.look_after(now, &mut alarms);
            generation.sound_alarms(now, grace, &mut alarms);
            let wanted = generation.nudge(now);
            generation.look_for_still(wanted, passed, between, &mut alarms);
            for slot in generation.slot_numbers() {
                // A worker may have died, or a word been overwritten, between the news and the bit that tells of it.
                if generation.request(slot).is_some()
                    && generation.exchange.publication(slot).has_news()
                {
                    self.take(generation, slot);
                }
                if let Some(request) = generation.request(slot).cloned()
                    && request.is_late(now)
                {
                    self.expire_in_slot(generation, slot, &request, &mut alarms);
                }
            }
        }
        inner.forget_closed();
        self.fill(&mut inner);
        drop(inner);
        self.name_suspects(false);
        alarms
    }

    fn expire_in_slot(
        &self,
        generation: &mut Generation,
        slot: u16,
        request: &Rc<Request>,
        alarms: &mut Vec<Alarm>,
    ) {
        if generation.exchange.retract(slot) {
            generation.free(slot);
            request.fail(Failure::ExpiredInQueue);
            return;
        }
        // Where the application has the connection, the two end it themselves.
        if request.overdue.get() || is_taken_over(request) && !request.is_abandoned() {
            return;
        }
        request.overdue.set(true);
        let run = generation.run(slot);
        if !request.is_abandoned() {
            request.fail(Failure::ExpiredInWorker);
            self.give_up(generation, request, slot);
        }
        if let Some(run) = run {
            let work = Work::Request(Rc::clone(request));
            generation.lates.begin(run, work, request.deadline_ns());
            alarms.push(Alarm::Late(run));
        }
    }
}

/// Whether the application has begun to answer, or has taken the connection over.
fn has_begun(request: &Request) -> bool {
    request.arrived.borrow().had_head || is_taken_over(request)
}

/// Whether the application has taken the connection over.
fn is_taken_over(request: &Request) -> bool {
    request.arrived.borrow().end == Some(End::Hijacked)
}

impl Lates {
    /// Takes what the thread is late with that runs the request in `slot`, claimed as `sequence`, where its worker was asked
    /// where it is and has not said so yet.
    pub(super) fn asked(&mut self, by: WorkerId, slot: u16, sequence: u32) -> Option<Work> {
        let asked = |late: &&mut LateRun| {
            let run = late.run;
            (run.by, run.slot, run.sequence) == (by, slot, sequence) && !late.traced
        };
        let late = self.runs.iter_mut().find(asked)?;
        late.traced = true;
        Some(late.work.clone())
    }

    pub(super) fn begin(&mut self, run: Run, work: Work, until: u64) {
        // A thread that runs another one has nothing to say of the last: no more is kept than there are threads.
        let of_thread = |late: &LateRun| (late.run.by, late.run.thread) == (run.by, run.thread);
        self.runs.retain(|late| !of_thread(late));
        self.runs.push(LateRun {
            run,
            work,
            until,
            traced: false,
        });
    }
}

impl Generation {
    /// Who runs the request in this slot.
    fn run(&self, slot: u16) -> Option<Run> {
        let Holder::Running { worker, thread } = self.exchange.publication(slot).holder() else {
            return None;
        };
        let generation = self.number;
        Some(Run {
            by: WorkerId { generation, worker },
            thread,
            slot,
            sequence: self.exchange.publication(slot).sequence(),
        })
    }

    fn goes_on(&self, run: Run) -> bool {
        let in_slot = self.request(run.slot).is_some() && self.run(run.slot) == Some(run);
        in_slot || self.lingers(run)
    }

    /// Moves the deadlines on of responses that have begun and go on: something of them came since the last look, or the
    /// application waits for their client.
    fn extend_deadlines(&self, now: u64) {
        for slot in self.slot_numbers() {
            let Some(request) = self.request(slot) else {
                continue;
            };
            if request.overdue.get() || !has_begun(request) {
                continue;
            }
            // What is not taken has no room at the client's side.
            let waits = || request.is_late(now) && self.exchange.publication(slot).has_frames();
            if request.has_moved() || !request.is_abandoned() && waits() {
                request.extend(now);
            }
        }
    }

    /// Adds what has become of late requests since the last time.
    fn sound_alarms(&mut self, now: u64, grace: Duration, alarms: &mut Vec<Alarm>) {
        if self.lates.runs.is_empty() {
            return;
        }
        let mut lates = std::mem::take(&mut self.lates);
        lates
            .runs
            .retain(|late| !late.traced || self.goes_on(late.run));
        let out_of_grace = |late: &&LateRun| {
            late.until.saturating_add(grace.as_nanos() as u64) <= now && self.goes_on(late.run)
        };
        let stuck = lates.runs.iter().filter(out_of_grace);
        let stuck: Vec<WorkerId> = stuck.map(|late| late.run.by).collect();
        let known = lates.stuck.len();
        for by in stuck {
            let mut told = lates.stuck.iter();
            match told.position(|(worker, _)| *worker == by.worker) {
                None => {
                    lates.stuck.push((by.worker, false));
                    alarms.push(Alarm::Stalled(by, Stall::LateRequest));
                }
                // Not at once: a thread that idles may take a last request while it hears that it is to leave.
                Some(at) if at < known && !lates.stuck[at].1 && !self.is_of_use(by.worker, now) => {
                    lates.stuck[at].1 = true;
                    alarms.push(Alarm::Spent(by));
                }
                Some(_) => {}
            }
        }
        self.lates = lates;
    }

    /// Has another thread come for requests that were left alone: whoever was woken for one may be a process that somebody
    /// stopped. True where there are any.
    fn nudge(&self, now: u64) -> bool {
        let mut slots = self.slot_numbers();
        let left = slots.any(|slot| {
            let request = self.request(slot);
            let arrival = request.and_then(|request| request.arrival());
            arrival.is_some_and(|arrival| arrival.ns + NUDGE <= now)
                && self.exchange.publication(slot).holder() == Holder::Nobody
        });
        if left {
            self.exchange.wake_another();
        }
        left
    }

    /// Whether the worker runs something that is in time, or a connection that its application took over.
    fn is_of_use(&self, worker: u16, now: u64) -> bool {
        let mut slots = self.slot_numbers();
        let in_slots = slots.any(|slot| {
            let Some(request) = self.request(slot) else {
                return false;
            };
            let taken = is_taken_over(request) && !request.is_abandoned();
            self.runner(slot) == Some(worker) && (taken || !request.is_late(now))
        });
        in_slots || self.winds_up(worker)
    }

    /// Forgets what was known of a worker that is dead; call it before its slots are taken back. Returns what it was late
    /// with and never said where.
    pub(super) fn forget_lates(&mut self, worker: u16) -> Vec<Work> {
        if self.lates.runs.is_empty() && self.lates.stuck.is_empty() {
            return Vec::new();
        }
        let mut lates = std::mem::take(&mut self.lates);
        lates.stuck.retain(|(known, _)| *known != worker);
        let of_worker = |late: &mut LateRun| late.run.by.worker == worker;
        let gone = lates.runs.extract_if(.., of_worker);
        let untold = gone.filter(|late| !late.traced && self.goes_on(late.run));
        let untold = untold.map(|late| late.work).collect();
        self.lates = lates;
        untold
    }
}
