//! The budget: how much memory all processes of the server may hold together, and what is to be done where they hold
//! more. Pure: measured figures go in with the time, a step comes out. It reads nothing and ends no process.
//!
//! Each process counts with its share (PSS): a page that several processes of the server have in common counts once, so
//! that workers are not charged for what they share after a fork.

use std::fmt;
use std::time::{Duration, Instant};

use crate::rules::memory::{Group, MemoryUsage, Size};

/// The part of a control group's limit that stays unused: one in so many. The kernel charges a group for more than
/// the pages of its processes, and kills when the limit is reached.
const RESERVE: u64 = 20;
/// How long a removed worker is missing at least.
const FIRST_PAUSE: Duration = Duration::from_secs(10);
/// The longest.
const LONGEST_PAUSE: Duration = Duration::from_secs(30 * 60);
/// How long memory that stopping workers hold counts as free.
const LEAVING_MEMORY_TIMEOUT: Duration = Duration::from_secs(30);
/// Where memory is short again within this time after a worker came back, the pause before the next one doubles.
const RELAPSE_WINDOW: Duration = Duration::from_secs(10 * 60);

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
    /// Remove this worker without a replacement.
    Shrink(u16),
    /// Replace the last worker, because a fresh one fits.
    Replace(u16),
    /// Start a worker again.
    Grow,
    /// Log that the last worker alone exceeds the budget, even when it is fresh.
    Warn,
}

/// What has been done so far.
#[derive(Debug)]
pub(crate) struct Budget {
    bound: Bound,
    /// Number of workers that were removed and have not come back.
    missing: u16,
    /// How long the last removed one stays missing.
    pause: Duration,
    /// When the last one was removed.
    went: Option<Instant>,
    /// Since when workers are stopping, or since the last one was removed.
    leaving: Option<Instant>,
    /// When the last one came back.
    came: Option<Instant>,
    /// Smallest private memory measured of any worker: what one more takes at first.
    least: Option<u64>,
    /// Smallest memory measured of the front. What it holds beyond that are buffers for clients, which have bounds of their
    /// own and are freed when those have left.
    least_front: Option<u64>,
    /// Whether it was logged that one worker alone exceeds the budget.
    warned: bool,
    /// Whether another server of the same service runs, which uses the same groups.
    other_server: bool,
}

impl Budget {
    /// A budget under which no worker was removed so far.
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
            other_server: false,
        }
    }

    /// Sets the bound. Where it changes, removed workers are forgotten.
    pub(crate) fn set_bound(&mut self, bound: Bound) {
        if self.bound != bound {
            let (other_server, least_front) = (self.other_server, self.least_front);
            *self = Self::new(bound);
            self.other_server = other_server;
            self.least_front = least_front;
        }
    }

    /// Begins with this bound while another server runs, and with so many workers fewer until that is gone.
    pub(crate) fn start_alongside(&mut self, bound: Bound, missing: u16) {
        self.set_bound(bound);
        self.other_server = true;
        // Without a bound they would never come.
        self.missing = if self.is_set() { missing } else { 0 };
    }

    /// Whether another server is there from now on.
    pub(crate) fn set_other_server(&mut self, other: bool) {
        self.other_server = other;
    }

    /// There shall be `to` workers in place of `from`: those that come in addition start as memory allows.
    pub(crate) fn scale(&mut self, from: u16, to: u16) {
        if self.is_set() {
            let now = self.affordable(from, self.bound);
            self.missing = to.saturating_sub(now);
        }
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

    /// What is held and what may be; none without a budget. What another server leaves of a group is told
    /// by nothing, so groups do not count then.
    pub(crate) fn held(&self, usage: &MemoryUsage) -> Option<Held> {
        match self.other_server {
            true => self.within(usage, &[]),
            false => self.within(usage, &usage.groups),
        }
    }

    /// What the front holds for clients just now: no worker has to leave for that, unless a group has no room for it.
    fn buffers(&self, usage: &MemoryUsage) -> u64 {
        let least = self.least_front.unwrap_or(usage.front);
        usage.front.saturating_sub(least)
    }

    /// The same within these groups. Buffers of the front are neither held nor left.
    fn within(&self, usage: &MemoryUsage, groups: &[Group]) -> Option<Held> {
        let buffers = self.buffers(usage);
        let held = usage.held.saturating_sub(buffers);
        let left = |group: &Group| {
            let usable = group.limit - group.limit / RESERVE;
            let left = usable.saturating_sub(group.used.saturating_sub(usage.held));
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

    /// Decides on the next step. A pool is calm when all of its workers serve and no other process is starting or stopping: only there
    /// does anybody come.
    pub(crate) fn step(&mut self, usage: &MemoryUsage, calm: bool, now: Instant) -> Option<Step> {
        let own = usage.workers.iter().map(|(_, memory)| memory.private);
        self.least = self.least.into_iter().chain(own).min();
        self.least_front = self.least_front.into_iter().chain([usage.front]).min();
        let awaited = self.awaited(usage, now);
        let all = self.held(usage)?;
        let Held { held, budget } = all;
        if held.saturating_sub(awaited) > budget {
            let largest = usage.workers.iter();
            let largest = largest.max_by_key(|(_, memory)| memory.private);
            let (worker, memory) = largest?;
            if usage.workers.len() > 1 {
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
        if !calm || self.other_server || self.missing == 0 {
            return None;
        }
        if !self.has_rested(now) || !self.has_room(usage) {
            return None;
        }
        self.missing -= 1;
        self.came = Some(now);
        Some(Step::Grow)
    }

    /// What leaving workers are about to give back: no other worker need go for that, unless they take their time.
    fn awaited(&mut self, usage: &MemoryUsage, now: Instant) -> u64 {
        if usage.leaving == 0 {
            self.leaving = None;
            return 0;
        }
        let since = *self.leaving.get_or_insert(now);
        if now < since + LEAVING_MEMORY_TIMEOUT {
            usage.leaving
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
    pub(crate) fn has_reserve(&self, usage: &MemoryUsage) -> bool {
        let more = self.least.unwrap_or(0);
        let mut groups = usage.groups.iter();
        groups.all(|group| group.used.saturating_add(more) <= group.limit)
    }

    /// Whether one more worker fits, such as it is at first; anything fits without a budget.
    pub(crate) fn has_room(&self, usage: &MemoryUsage) -> bool {
        let more = self.least.unwrap_or(0);
        let held = self.within(usage, &usage.groups);
        held.is_none_or(|Held { held, budget }| held.saturating_add(more) <= budget)
    }

    /// Whether a second template and as many workers as there are fit in addition; anything fits without a budget.
    pub(crate) fn has_room_for_all(&self, usage: &MemoryUsage) -> bool {
        let workers = usage.workers.iter().map(|(_, memory)| memory.private);
        let more = usage.loaded.saturating_add(workers.sum());
        let held = self.within(usage, &usage.groups);
        held.is_none_or(|Held { held, budget }| held.saturating_add(more) <= budget)
    }

    /// How many workers of another server like this one fit in addition, with a front and a template; none without a budget.
    pub(crate) fn fits_with_other_server(&self, usage: &MemoryUsage) -> Option<u16> {
        let Held { held, budget } = self.within(usage, &usage.groups)?;
        let free = budget.saturating_sub(held);
        let free = free.saturating_sub(usage.front.saturating_add(usage.loaded));
        let workers = usage.workers.iter().map(|(_, memory)| memory.private);
        let count = usage.workers.len().max(1) as u64;
        let each = workers.sum::<u64>().div_ceil(count).max(1);
        Some(u16::try_from(free / each).unwrap_or(u16::MAX))
    }

    /// A worker leaves and is not replaced, for now.
    pub(crate) fn shrinks(&mut self, now: Instant) {
        self.rest(now);
        self.missing += 1;
        self.leaving = Some(now);
    }

    /// A worker had to go: how long the next fresh worker has to wait.
    fn rest(&mut self, now: Instant) {
        let early = self
            .came
            .is_some_and(|came| now < came + RELAPSE_WINDOW.max(2 * self.pause));
        self.pause = match early {
            true => LONGEST_PAUSE.min(2 * self.pause),
            false => FIRST_PAUSE,
        };
        self.went = Some(now);
    }
}

#[cfg(test)]
mod tests;
