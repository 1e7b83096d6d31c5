//! The workers of a pool by number, and how many of them there shall be. Which one leaves and why is decided in the pool.

use std::ops::{Index, IndexMut};
use std::time::{Duration, Instant};

use super::Action;
use super::backoff::DEATHS_BEFORE_DELAY;
use super::worker::{State, Worker};

/// The workers of a generation. There is one number more than workers: the spare one, where a successor is forked while
/// its predecessor still serves.
#[derive(Debug)]
pub(crate) struct Workers {
    all: Vec<Worker>,
    /// How many there shall be; the highest numbers are left out.
    limit: u16,
}

impl Workers {
    /// Workers that are all still to come.
    pub(super) fn new(count: u16) -> Self {
        let mut all = vec![Worker::new(State::Absent); usize::from(count)];
        all.push(Worker::new(State::Spare));
        Self { all, limit: count }
    }

    /// How many there shall be.
    pub(crate) fn limit(&self) -> u16 {
        self.limit
    }

    /// Where a worker stands.
    pub(crate) fn state(&self, worker: u16) -> State {
        self[worker].state
    }

    /// Which life of a worker is the present one.
    pub(crate) fn life(&self, worker: u16) -> u32 {
        self[worker].life
    }

    /// How many serve requests, in a known process.
    pub(crate) fn ready(&self) -> u16 {
        self.count(|worker| worker.is_ready() && worker.fork_asked.is_none())
    }

    /// How many were told to leave and are still there, without those that still count as wanted.
    pub(crate) fn leaving(&self) -> u16 {
        self.count(|worker| worker.is_stopping() && !worker.replaced_after_exit)
    }

    /// How many there are or will be, without those that leave for good.
    pub(super) fn wanted(&self) -> u16 {
        self.count(Worker::is_wanted)
    }

    fn count(&self, which: impl Fn(&Worker) -> bool) -> u16 {
        self.all.iter().filter(|worker| which(worker)).count() as u16
    }

    /// Whether any of them is like that.
    pub(super) fn any(&self, which: impl Fn(&Worker) -> bool) -> bool {
        self.all.iter().any(which)
    }

    /// Whether any of them serves requests.
    pub(crate) fn serve(&self) -> bool {
        self.any(Worker::is_ready)
    }

    /// Whether all are gone for good.
    pub(crate) fn are_gone(&self) -> bool {
        self.all.iter().all(|worker| worker.state == State::Gone)
    }

    /// A worker that is not ready for having died too often, and how often, if there is one.
    pub(crate) fn hopeless(&self) -> Option<(u16, u32)> {
        let mut all = (0..).zip(&self.all);
        let found =
            all.find(|(_, worker)| !worker.is_ready() && worker.deaths >= DEATHS_BEFORE_DELAY);
        found.map(|(number, worker)| (number, worker.deaths))
    }

    /// Workers that leave and are killed at some moment, with that moment.
    pub(crate) fn exit_deadlines(&self) -> impl Iterator<Item = (u16, Instant)> {
        let all = (0..).zip(&self.all);
        all.filter_map(|(number, worker)| match worker.state {
            State::Stopping { until } => Some((number, until?)),
            _ => None,
        })
    }

    /// The number that is kept free for a successor, where it is free.
    pub(super) fn spare(&self) -> Option<u16> {
        let mut all = (0..).zip(&self.all);
        let found = all.find(|(_, worker)| worker.state == State::Spare);
        found.map(|(number, _)| number)
    }

    /// When the template was told to make the oldest of the forks that it still owes.
    pub(super) fn oldest_fork(&self) -> Option<Instant> {
        self.all.iter().filter_map(|worker| worker.fork_asked).min()
    }

    /// When the next of them is forked whose start is delayed.
    pub(super) fn next_start(&self) -> Option<Instant> {
        let delays = self.all.iter().filter_map(|worker| match worker.state {
            State::Waiting(until) => Some(until),
            _ => None,
        });
        delays.min()
    }

    /// When a worker has to be ready, or gone.
    pub(super) fn next_deadline(&self, boot_timeout: Duration) -> Option<Instant> {
        let deadlines = self.all.iter().filter_map(|worker| match worker.state {
            State::Starting(since) => Some(since + boot_timeout),
            State::Stopping { until } => until,
            _ => None,
        });
        deadlines.min()
    }

    pub(super) fn numbers(&self) -> std::ops::Range<u16> {
        0..self.all.len() as u16
    }

    pub(super) fn get_mut(&mut self, worker: u16) -> Option<&mut Worker> {
        self.all.get_mut(usize::from(worker))
    }

    /// The worker, where this is its present life.
    pub(super) fn current(&mut self, worker: u16, life: u32) -> Option<&mut Worker> {
        self.get_mut(worker).filter(|found| found.life == life)
    }

    pub(super) fn numbered(&mut self) -> impl DoubleEndedIterator<Item = (u16, &mut Worker)> {
        self.numbers().zip(&mut self.all)
    }

    /// Has those forked that are missing, the successor of another one first.
    pub(super) fn fork_missing(
        &mut self,
        successor: Option<u16>,
        now: Instant,
        actions: &mut Vec<Action>,
    ) {
        let target = self.limit + u16::from(successor.is_some());
        let missing = target.saturating_sub(self.wanted());
        let absent = |&number: &u16| self.state(number) == State::Absent;
        let mut absent: Vec<u16> = self.numbers().filter(absent).collect();
        absent.sort_by_key(|number| Some(*number) != successor);
        for worker in absent.into_iter().take(missing.into()) {
            let life = self[worker].fork(now);
            actions.push(Action::Fork { worker, life });
        }
    }

    /// Keeps the number free that follows the wanted ones, where nobody has it, so that numbers have no gap.
    fn move_spare(&mut self, to: u16) {
        if let Some(spare) = self.spare()
            && self
                .get_mut(to)
                .is_some_and(|one| one.state == State::Absent)
        {
            self[spare].state = State::Absent;
            self[to].state = State::Spare;
            self[to].deaths = 0;
        }
    }

    /// Sets how many there shall be, and has those beyond that leave: `leaves` first, unless it is the only one that is
    /// ready, then those that are not ready, then the highest numbers.
    pub(super) fn resize(
        &mut self,
        limit: u16,
        leaves: Option<u16>,
        until: Instant,
        actions: &mut Vec<Action>,
    ) {
        self.limit = limit;
        self.move_spare(limit);
        let mut excess = self.wanted().saturating_sub(limit);
        for worker in &mut self.all {
            // These leave anyway.
            if excess > 0 && worker.replaced_after_exit && worker.is_stopping() {
                worker.replaced_after_exit = false;
                excess -= 1;
            }
        }
        let several = self.ready() > 1;
        if let Some(number) = leaves
            && excess > 0
            && several
            && let Some(worker) = self.get_mut(number)
            && worker.is_ready()
        {
            worker.dismiss(number, Some(until), actions);
            excess -= 1;
        }
        for ready in [false, true] {
            for (number, worker) in self.numbered().rev() {
                if excess == 0 || worker.is_ready() != ready {
                    continue;
                }
                match worker.state {
                    State::Absent | State::Spare | State::Stopping { .. } | State::Gone => continue,
                    State::Waiting(_) => worker.state = State::Absent,
                    _ => worker.dismiss(number, Some(until), actions),
                }
                excess -= 1;
            }
        }
    }
}

impl Index<u16> for Workers {
    type Output = Worker;

    fn index(&self, worker: u16) -> &Worker {
        &self.all[usize::from(worker)]
    }
}

impl IndexMut<u16> for Workers {
    fn index_mut(&mut self, worker: u16) -> &mut Worker {
        &mut self.all[usize::from(worker)]
    }
}
