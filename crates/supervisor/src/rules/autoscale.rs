//! The number of workers by load: more where requests wait and another worker would help, fewer where one fewer would have
//! been enough for long. Pure: looks at the load go in with the time, a step or the reason against one comes out. It reads
//! nothing and starts no process.

use std::collections::VecDeque;
use std::fmt;
use std::time::{Duration, Instant};

use crate::rules::cpu::{CpuUse, is_limit};

/// A request that waited longer than this for a thread waited for long.
pub const LONG_WAIT: Duration = Duration::from_millis(50);
/// One in so many requests may wait for long: what is looked at is the 95th percentile.
const LATE_PART: u64 = 20;
/// Over how long the waits of requests and the use of the CPU are looked at; also the least time between two additions.
const LOAD_WINDOW: Duration = Duration::from_secs(2);
/// From this share of the threads on they are busy; the others are between two requests.
const BUSY_PERCENT: usize = 90;
/// How long one worker fewer must have been enough before one is removed.
const FIRST_SPARE_TIME: Duration = Duration::from_secs(10 * 60);
/// The longest of these times: it doubles where a worker is added again soon after one was removed.
const LONGEST_SPARE_TIME: Duration = Duration::from_secs(2 * 60 * 60);
/// A reason against another worker is logged again after this time at the earliest.
const REPEAT_OBSTACLE_AFTER: Duration = Duration::from_secs(10 * 60);

/// Requests, and how many of them waited for long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// All of them.
    pub all: u64,
    /// Those that waited longer than [`LONG_WAIT`].
    pub late: u64,
}

impl Waits {
    fn and(self, other: Self) -> Self {
        Self {
            all: self.all + other.all,
            late: self.late + other.late,
        }
    }

    /// Whether more than one in [`LATE_PART`] waited for long.
    fn are_late(self) -> bool {
        self.late.saturating_mul(LATE_PART) > self.all
    }
}

/// What is seen of an application's load at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Look {
    /// Requests that a thread has claimed since the last look.
    pub claimed: Waits,
    /// Requests that wait now.
    pub waiting: Waits,
    /// Threads that are busy.
    pub busy: usize,
    /// Number of threads of a worker that take requests.
    pub threads: u16,
    /// Workers that are wanted.
    pub wanted: u16,
    /// As many of these as memory allows.
    pub allowed: u16,
    /// What the CPU did so far.
    pub cpu: CpuUse,
}

/// From how many to how many workers there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// The least.
    pub least: u16,
    /// The most.
    pub most: u16,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// There shall be more workers.
    Add {
        /// So many.
        to: u16,
        /// The requests of `LOAD_WINDOW`.
        waits: Waits,
    },
    /// There shall be one worker fewer.
    Remove {
        /// So many.
        to: u16,
        /// For how long these would have been enough.
        spare: Duration,
    },
    /// There shall be more workers, but there cannot be: to be logged.
    Blocked(Obstacle),
}

/// Why there is no further worker, although requests wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// The processor is busy or the quota used up: another worker would only take time from the others.
    Cpu,
    /// `memory_budget` has no room for those that are wanted already.
    Memory,
    /// There are as many as the setting allows.
    Most,
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cpu => "the CPU is the limit",
            Self::Memory => "memory_budget has no room",
            Self::Most => "the setting workers allows no more",
        })
    }
}

/// The rule, and what it remembers.
#[derive(Debug)]
pub struct Autoscale {
    /// From the last one that is at least [`LOAD_WINDOW`] old, the oldest first.
    looks: VecDeque<(Instant, Look)>,
    /// Since when one worker fewer would have been enough.
    spare_since: Option<Instant>,
    /// How long that must last.
    spare_time: Duration,
    /// When a worker was removed last, if none was added since.
    removed: Option<Instant>,
    obstacle: Option<Obstacle>,
    /// What was logged last, and when.
    logged: Option<(Obstacle, Instant)>,
}

impl Default for Autoscale {
    fn default() -> Self {
        Self {
            looks: VecDeque::new(),
            spare_since: None,
            spare_time: FIRST_SPARE_TIME,
            removed: None,
            obstacle: None,
            logged: None,
        }
    }
}

impl Autoscale {
    /// Takes a look at an application whose workers all serve. Where a step is to be taken, the caller takes it.
    pub fn look(&mut self, ends: Ends, look: Look, now: Instant) -> Option<Step> {
        self.looks.push_back((now, look));
        while let Some((second, _)) = self.looks.get(1)
            && *second + LOAD_WINDOW <= now
        {
            self.looks.pop_front();
        }
        let waits = self.waits(&look);
        self.note_spare(&look, waits, now);
        if !waits.are_late() {
            self.obstacle = None;
            return self.remove(ends, &look, now);
        }
        let first = self.looks.front().copied();
        first.filter(|(at, _)| *at + LOAD_WINDOW <= now)?;
        let threads = usize::from(look.threads) * usize::from(look.allowed.min(look.wanted));
        // Where threads idle the wait is over, or is one for something else: a share of the threads, or a slow machine.
        let has_idle = look.busy * 100 < threads * BUSY_PERCENT;
        if !look.claimed.and(look.waiting).are_late() || has_idle {
            return None;
        }
        self.obstacle = if look.wanted >= ends.most {
            Some(Obstacle::Most)
        } else if self.cpu_is_limit(&look, now) {
            Some(Obstacle::Cpu)
        } else if look.allowed < look.wanted {
            Some(Obstacle::Memory)
        } else {
            None
        };
        if let Some(obstacle) = self.obstacle {
            return self.log(obstacle, now);
        }
        let filled = look.waiting.all.div_ceil(look.threads.max(1).into());
        // At most twice as many: what waits now is also what has piled up.
        let more = u16::try_from(filled).unwrap_or(u16::MAX);
        let to = look
            .wanted
            .saturating_add(more.clamp(1, look.wanted.max(1)));
        self.adds(now);
        let to = to.min(ends.most);
        Some(Step::Add { to, waits })
    }

    /// The next look begins anew: processes come or go, or the number is another one now.
    pub fn interrupt(&mut self) {
        self.looks.clear();
        self.spare_since = None;
        self.obstacle = None;
    }

    /// Why there is no further worker now, although requests wait.
    pub fn obstacle(&self) -> Option<Obstacle> {
        self.obstacle
    }

    /// Requests that were claimed since the first look, and those that wait at this one.
    fn waits(&self, look: &Look) -> Waits {
        let claimed = self.looks.iter().skip(1).map(|(_, look)| look.claimed);
        claimed.fold(look.waiting, Waits::and)
    }

    /// Whether the CPU was the limit since the first look, or since the last one: the load may have come just now.
    fn cpu_is_limit(&self, look: &Look, now: Instant) -> bool {
        let last = self.looks.iter().rev().nth(1);
        let mut earlier = self.looks.front().into_iter().chain(last);
        earlier.any(|(at, one)| is_limit(&look.cpu.since(&one.cpu), now.duration_since(*at)))
    }

    /// Notes whether one worker fewer would be enough.
    fn note_spare(&mut self, look: &Look, waits: Waits, now: Instant) {
        let fewer = u64::from(look.wanted.saturating_sub(1)) * u64::from(look.threads);
        let engaged = look.busy as u64 + look.waiting.all;
        match engaged <= fewer && !waits.are_late() {
            true => drop(self.spare_since.get_or_insert(now)),
            false => self.spare_since = None,
        }
    }

    fn remove(&mut self, ends: Ends, look: &Look, now: Instant) -> Option<Step> {
        let spare = now.saturating_duration_since(self.spare_since?);
        if look.wanted <= ends.least || spare < self.spare_time {
            return None;
        }
        self.removed = Some(now);
        self.interrupt();
        Some(Step::Remove {
            to: look.wanted - 1,
            spare,
        })
    }

    /// Workers are added. Where that follows a removal soon, the next removal waits longer.
    fn adds(&mut self, now: Instant) {
        if let Some(removed) = self.removed.take() {
            self.spare_time = match now < removed + 2 * self.spare_time {
                true => LONGEST_SPARE_TIME.min(2 * self.spare_time),
                false => FIRST_SPARE_TIME,
            };
        }
        self.interrupt();
    }

    fn log(&mut self, obstacle: Obstacle, now: Instant) -> Option<Step> {
        let before = self.logged;
        let is_known =
            before.is_some_and(|(one, at)| one == obstacle && now < at + REPEAT_OBSTACLE_AFTER);
        if is_known {
            return None;
        }
        self.logged = Some((obstacle, now));
        Some(Step::Blocked(obstacle))
    }
}

#[cfg(test)]
mod tests;
