//! The budget: how much memory all processes of the server may hold together, and what is to be done where they hold
//! more. Pure: what was weighed goes in with the time, a step comes out. It reads nothing and ends nobody.
//!
//! Counted is each process's share: a page that the server's processes have in common counts once in all, so that
//! what a fork saves is not charged again for each worker.

use std::fmt;
use std::time::{Duration, Instant};

use crate::rules::memory::{Group, MemoryUsage, Size};

/// The part of a control group's limit that is left alone: one in so many. The kernel charges a group for more than
/// the pages of its processes, and kills when the limit is reached.
const RESERVE: u64 = 20;
/// How long the place of a worker that had to go stays empty at least.
const FIRST_PAUSE: Duration = Duration::from_secs(10);
/// The longest.
const LONGEST_PAUSE: Duration = Duration::from_secs(30 * 60);
/// How long memory that leaving workers hold is as good as free.
const AWAITED: Duration = Duration::from_secs(30);
/// Where memory is short again so soon after a worker came back, it came back too early.
const RELAPSE: Duration = Duration::from_secs(10 * 60);

/// What the server may hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bound {
    /// Whatever it likes.
    #[default]
    None,
    /// What its control groups leave to it.
    Auto,
    /// So many bytes, and not more than its control groups leave to it.
    Bytes(u64),
}

/// What the server holds, and what it may hold, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// The shares of all its processes.
    pub held: u64,
    /// Its budget.
    pub budget: u64,
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (held, budget) = (Size(self.held), Size(self.budget));
        write!(f, "server memory {held}, memory_budget {budget}")
    }
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Have this worker leave, and nobody come in its place.
    Shrink(u16),
    /// Have the last worker leave, for a fresh one would not be too much.
    Replace(u16),
    /// Have a worker come back.
    Grow,
    /// Say that the last worker alone is too much, however fresh.
    Warn,
}

/// What has been done so far.
#[derive(Debug)]
pub(crate) struct Budget {
    bound: Bound,
    /// How many workers had to go and have not come back.
    missing: u16,
    /// How long the place of the last one stays empty.
    pause: Duration,
    /// When the last one had to go.
    went: Option<Instant>,
    /// Since when there are some that leave, or since the last one had to go.
    leaving: Option<Instant>,
    /// When the last one came back.
    came: Option<Instant>,
    /// The least that any worker was seen to hold of its own: what one more takes at first.
    least: Option<u64>,
    /// The least that the front was seen to hold: what is more are buffers for clients, which have bounds of their own and
    /// are given back when these have left.
    least_front: Option<u64>,
    /// Whether it was said that one worker alone is too much.
    warned: bool,
    /// Whether another server of the same service is there, which uses the same groups.
    beside: bool,
}

impl Budget {
    /// Nobody had to go yet.
    pub(crate) fn new(bound: Bound) -> Self {
        Self {
            bound,
            missing: 0,
            pause: FIRST_PAUSE,
            went: None,
            leaving: None,
            came: None,
            least: None,
            least_front: None,
            warned: false,
            beside: false,
        }
    }

    /// Keeps to this bound from now on; where it is another one, as if nobody had had to go.
    pub(crate) fn set_bound(&mut self, bound: Bound) {
        if self.bound != bound {
            let (beside, least_front) = (self.beside, self.least_front);
            *self = Self::new(bound);
            self.beside = beside;
            self.least_front = least_front;
        }
    }

    /// Begins with this bound beside another server, and with so many workers fewer until that is gone.
    pub(crate) fn start_alongside(&mut self, bound: Bound, missing: u16) {
        self.set_bound(bound);
        self.beside = true;
        // Without a bound they would never come.
        self.missing = if self.is_set() { missing } else { 0 };
    }

    /// Whether another server is there from now on.
    pub(crate) fn set_other_server(&mut self, other: bool) {
        self.beside = other;
    }

    /// Of so many workers those that there may be under this bound, at least one.
    pub(crate) fn affordable(&self, workers: u16, bound: Bound) -> u16 {
        let missing = match self.bound == bound {
            true => self.missing,
            false => 0,
        };
        workers.saturating_sub(missing).max(1)
    }

    /// Whether there is one.
    pub(crate) fn is_set(&self) -> bool {
        self.bound != Bound::None
    }

    /// What is held and what may be; none without a budget. What another server beside this one leaves of a group is told
    /// by nothing, so groups do not count then.
    pub(crate) fn held(&self, weights: &MemoryUsage) -> Option<Held> {
        match self.beside {
            true => self.within(weights, &[]),
            false => self.within(weights, &weights.groups),
        }
    }

    /// What the front holds for clients just now: no worker has to leave for that, unless a group has no room for it.
    fn buffers(&self, weights: &MemoryUsage) -> u64 {
        let least = self.least_front.unwrap_or(weights.front);
        weights.front.saturating_sub(least)
    }

    /// The same within these groups. Buffers of the front are neither held nor left.
    fn within(&self, weights: &MemoryUsage, groups: &[Group]) -> Option<Held> {
        let buffers = self.buffers(weights);
        let held = weights.held.saturating_sub(buffers);
        let left = |group: &Group| {
            let usable = group.limit - group.limit / RESERVE;
            let left = usable.saturating_sub(group.used.saturating_sub(weights.held));
            left.saturating_sub(buffers)
        };
        let headroom = groups.iter().map(left).min();
        let budget = match self.bound {
            Bound::None => None,
            Bound::Auto => headroom,
            Bound::Bytes(bytes) => Some(headroom.map_or(bytes, |headroom| headroom.min(bytes))),
        };
        budget.map(|budget| Held { held, budget })
    }

    /// Decides on the next step. Calm is a pool all of whose workers serve, beside which nothing is on its way: only there
    /// does anybody come.
    pub(crate) fn step(&mut self, weights: &MemoryUsage, calm: bool, now: Instant) -> Option<Step> {
        let own = weights.workers.iter().map(|(_, memory)| memory.private);
        self.least = self.least.into_iter().chain(own).min();
        self.least_front = self.least_front.into_iter().chain([weights.front]).min();
        let awaited = self.awaited(weights, now);
        let all = self.held(weights)?;
        let Held { held, budget } = all;
        if held.saturating_sub(awaited) > budget {
            let largest = weights.workers.iter();
            let largest = largest.max_by_key(|(_, memory)| memory.private);
            let (worker, memory) = largest?;
            if weights.workers.len() > 1 {
                self.shrinks(now);
                return Some(Step::Shrink(*worker));
            }
            return match calm {
                true => self.relieve(*worker, memory.private, all, now),
                false => None,
            };
        }
        if held > budget {
            return None;
        }
        self.warned = false;
        if !calm || self.beside || self.missing == 0 {
            return None;
        }
        if !self.has_rested(now) || !self.has_room(weights) {
            return None;
        }
        self.missing -= 1;
        self.came = Some(now);
        Some(Step::Grow)
    }

    /// What leaving workers are about to give back: nobody else need go for that, unless they take their time.
    fn awaited(&mut self, weights: &MemoryUsage, now: Instant) -> u64 {
        if weights.leaving == 0 {
            self.leaving = None;
            return 0;
        }
        let since = *self.leaving.get_or_insert(now);
        if now < since + AWAITED {
            weights.leaving
        } else {
            0
        }
    }

    /// What is to be done about the last worker, which is too much.
    fn relieve(&mut self, worker: u16, private: u64, all: Held, now: Instant) -> Option<Step> {
        let grown = private.saturating_sub(self.least.unwrap_or(private));
        let would_do = grown > 0 && all.held.saturating_sub(grown) <= all.budget;
        if would_do && self.has_rested(now) {
            self.rest(now);
            self.came = Some(now);
            return Some(Step::Replace(worker));
        }
        if would_do || self.warned {
            return None;
        }
        self.warned = true;
        Some(Step::Warn)
    }

    /// Whether it is time for another fresh worker.
    fn has_rested(&self, now: Instant) -> bool {
        self.went.is_none_or(|went| went + self.pause <= now)
    }

    /// Whether what the groups leave alone has room for one more worker, such as it is at first.
    pub(crate) fn has_reserve(&self, weights: &MemoryUsage) -> bool {
        let more = self.least.unwrap_or(0);
        let mut groups = weights.groups.iter();
        groups.all(|group| group.used.saturating_add(more) <= group.limit)
    }

    /// Whether one more worker fits, such as it is at first; anything fits without a budget.
    pub(crate) fn has_room(&self, weights: &MemoryUsage) -> bool {
        let more = self.least.unwrap_or(0);
        let held = self.within(weights, &weights.groups);
        held.is_none_or(|Held { held, budget }| held.saturating_add(more) <= budget)
    }

    /// Whether a second template and as many workers as there are fit beside these; anything fits without a budget.
    pub(crate) fn has_room_for_all(&self, weights: &MemoryUsage) -> bool {
        let workers = weights.workers.iter().map(|(_, memory)| memory.private);
        let more = weights.loaded.saturating_add(workers.sum());
        let held = self.within(weights, &weights.groups);
        held.is_none_or(|Held { held, budget }| held.saturating_add(more) <= budget)
    }

    /// How many workers of another server like this one fit beside it, with a front and a template; none without a budget.
    pub(crate) fn fits_beside(&self, weights: &MemoryUsage) -> Option<u16> {
        let Held { held, budget } = self.within(weights, &weights.groups)?;
        let free = budget.saturating_sub(held);
        let free = free.saturating_sub(weights.front.saturating_add(weights.loaded));
        let workers = weights.workers.iter().map(|(_, memory)| memory.private);
        let count = weights.workers.len().max(1) as u64;
        let each = workers.sum::<u64>().div_ceil(count).max(1);
        Some(u16::try_from(free / each).unwrap_or(u16::MAX))
    }

    /// A worker leaves and nobody comes in its place, for now.
    pub(crate) fn shrinks(&mut self, now: Instant) {
        self.rest(now);
        self.missing += 1;
        self.leaving = Some(now);
    }

    /// Somebody had to go: how long the next fresh worker has to wait.
    fn rest(&mut self, now: Instant) {
        let early = self
            .came
            .is_some_and(|came| now < came + RELAPSE.max(2 * self.pause));
        self.pause = match early {
            true => LONGEST_PAUSE.min(2 * self.pause),
            false => FIRST_PAUSE,
        };
        self.went = Some(now);
    }
}

#[cfg(test)]
mod tests;
