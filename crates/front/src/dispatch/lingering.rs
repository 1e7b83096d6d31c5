//! Threads that linger: they have handed a request back and now run what the application wants done after its response,
//! such as `close` of the body, `rack.response_finished` and `rack.after_reply`. For that they have the request's time
//! once more; then they are late, as with a request.
//!
//! It ends nothing. What it goes by is the seat's word in the exchange: between two requests a thread looks for work.

use exchange::front::Holder;
use exchange::{Alarm, Run, WorkerId};

use super::generation::Generation;
use super::late::Work;
use crate::http::request::Request;

/// By the number of its seat: what each thread handed back, and was not seen to look for work since.
pub(super) type Lingering = Vec<Option<Lingerer>>;

/// A thread that handed a request back.
#[derive(Clone, Copy)]
pub(super) struct Lingerer {
    /// The request's last publication.
    run: Run,
    /// When the thread handed it back, nanoseconds of the monotonic clock.
    since_ns: u64,
    /// The time that the request had, in nanoseconds.
    timeout_ns: u64,
    /// When the thread is late, nanoseconds of the monotonic clock; none before the first look.
    until: Option<u64>,
    /// Whether that was told.
    told: bool,
}

impl Generation {
    /// The thread has handed back the request in this slot.
    pub(super) fn handed_back(&mut self, slot: u16, (worker, thread): (u16, u16), of: &Request) {
        let generation = self.number;
        let run = Run {
            by: WorkerId { generation, worker },
            thread,
            slot,
            sequence: self.exchange.publication(slot).sequence(),
        };
        let seat = self.seat(worker, thread);
        self.lingering[seat] = Some(Lingerer {
            run,
            since_ns: of.times.get().1,
            timeout_ns: of.timeout_ns(),
            until: None,
            told: false,
        });
    }

    /// Forgets threads that have come back, and adds those that are late.
    pub(super) fn look_after(&mut self, now: u64, alarms: &mut Vec<Alarm>) {
        for one in &mut self.lingering {
            one.take_if(|one| {
                !self
                    .exchange
                    .threads()
                    .is_busy(one.run.by.worker, one.run.thread)
            });
        }
        // After the seats: one that takes a request in between is seen to have it.
        for slot in self.slot_numbers() {
            if let Holder::Running { worker, thread } = self.exchange.publication(slot).holder() {
                let seat = self.seat(worker, thread);
                self.lingering[seat] = None;
            }
        }
        for one in self.lingering.iter_mut().flatten() {
            let until = *one.until.get_or_insert(now.saturating_add(one.timeout_ns));
            if until <= now && !one.told {
                one.told = true;
                let (by, since_ns) = (one.run.by, one.since_ns);
                let work = Work::Afterwards { by, since_ns };
                self.lates.begin(one.run, work, until);
                alarms.push(Alarm::Late(one.run));
            }
        }
    }

    /// Whether the thread that handed this back is late and has not come back.
    pub(super) fn lingers(&self, run: Run) -> bool {
        let mut late = self.lingering.iter().flatten().filter(|one| one.told);
        late.any(|one| one.run == run)
    }

    /// Whether a thread of the worker has handed a request back and is in time with what comes after.
    pub(super) fn winds_up(&self, worker: u16) -> bool {
        let mut in_time = self.lingering.iter().flatten().filter(|one| !one.told);
        in_time.any(|one| one.run.by.worker == worker)
    }

    /// The threads that linger at this moment: worker, thread, since when in nanoseconds of the monotonic clock.
    pub(super) fn linger(&self) -> impl Iterator<Item = (WorkerId, u16, u64)> {
        let away = move |one: &&Lingerer| {
            let (worker, thread) = (one.run.by.worker, one.run.thread);
            let has_one = |slot| {
                self.exchange.publication(slot).holder() == Holder::Running { worker, thread }
            };
            self.exchange.threads().is_busy(worker, thread) && !self.slot_numbers().any(has_one)
        };
        let all = self.lingering.iter().flatten().filter(away);
        all.map(|one| (one.run.by, one.run.thread, one.since_ns))
    }

    /// A worker is dead, and its threads with it.
    pub(super) fn forget_lingering(&mut self, worker: u16) {
        for one in &mut self.lingering {
            one.take_if(|one| one.run.by.worker == worker);
        }
    }
}
