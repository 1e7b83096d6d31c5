//! Figures over time: rings of bounded length, made from readings of counters. It reads no clock: readings say when they
//! were taken.
//!
//! Readings are cumulative, as those of Prometheus are. A counter that is lower than before has begun again; what it
//! counts now has then come since.

use std::collections::VecDeque;

pub(crate) mod recorder;
pub(crate) mod saved;

/// How far apart readings are to be taken, in seconds.
pub const STEP_S: u64 = 5;
/// Points of the last ten minutes.
const RECENT_POINTS: usize = 120;
/// Points of the last day: five minutes each.
const DAY_POINTS: usize = 288;
/// Seconds of a day.
pub(crate) const DAY_S: u64 = 86_400;
/// How much time a point of the day has, in seconds.
const DAY_STEP_S: f64 = 300.0;
/// A reading has at most so many buckets; what is beyond is left out.
const MAX_BUCKETS: usize = 256;

/// How many requests took between one duration and another.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bucket {
    /// They took longer than so many seconds.
    pub above_s: f64,
    /// They took at most so many seconds.
    pub up_to_s: f64,
    /// How many.
    pub count: u64,
}

/// Counters and gauges at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    /// The time of day, in seconds of the UNIX epoch.
    pub at: u64,
    /// A clock that nobody sets, in milliseconds.
    pub monotonic_ms: u64,
    /// Requests that ended since the start.
    pub requests: u64,
    /// Those of them that were the server's or the application's fault.
    pub errors: u64,
    /// Their durations: buckets that are not empty, in ascending order.
    pub latency: Vec<Bucket>,
    /// Requests that wait now.
    pub queue: u64,
    /// Threads that are busy now.
    pub busy: u64,
    /// All threads.
    pub threads: u64,
    /// The memory of all processes, in bytes; absent where it was not measured.
    pub memory_bytes: Option<u64>,
}

/// What happened between two readings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Point {
    /// The time of the later one, in seconds of the UNIX epoch.
    pub at: u64,
    /// How much time was between them, in seconds.
    pub seconds: f64,
    /// Requests that ended.
    pub requests: u64,
    /// Those of them that were errors.
    pub errors: u64,
    /// Their durations.
    pub latency: Vec<Bucket>,
    /// The most requests that waited.
    pub queue: u64,
    /// Busy threads, on average.
    pub busy: f64,
    /// All threads.
    pub threads: u64,
    /// The memory of all processes, in bytes.
    pub memory_bytes: Option<u64>,
}

/// Figures over time, the oldest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// The last ten minutes, five seconds each.
    pub recent: Vec<Point>,
    /// The last day, five minutes each. What an earlier server has kept in a file goes before what this one has seen.
    pub day: Vec<Point>,
}

/// The rings of one application, or of all together.
#[derive(Clone, Debug, Default)]
pub struct Series {
    last: Option<Reading>,
    recent: VecDeque<Point>,
    day: VecDeque<Point>,
    /// The point of the day that is not full yet.
    open: Option<Point>,
}

impl Reading {
    /// What happened since an earlier reading; `None` where no time has passed.
    fn since(&self, earlier: &Self) -> Option<Point> {
        let elapsed_ms = self.monotonic_ms.checked_sub(earlier.monotonic_ms)?;
        let seconds = elapsed_ms as f64 / 1000.0;
        let from_zero = self.requests < earlier.requests;
        let before = if from_zero { &[][..] } else { &earlier.latency };
        (elapsed_ms > 0).then(|| Point {
            at: self.at,
            seconds,
            requests: since(self.requests, earlier.requests),
            errors: match from_zero {
                true => self.errors,
                false => since(self.errors, earlier.errors),
            },
            latency: difference(&self.latency, before),
            queue: self.queue,
            busy: self.busy as f64,
            threads: self.threads,
            memory_bytes: self.memory_bytes,
        })
    }
}

/// How much a counter has counted since; one that is lower than before has begun again.
fn since(now: u64, before: u64) -> u64 {
    now.checked_sub(before).unwrap_or(now)
}

fn difference(now: &[Bucket], before: &[Bucket]) -> Vec<Bucket> {
    let mut before = before.iter().peekable();
    let mut found = Vec::new();
    for bucket in now.iter().take(MAX_BUCKETS) {
        while before.next_if(|old| old.up_to_s < bucket.up_to_s).is_some() {}
        let old = before.next_if(|old| old.up_to_s == bucket.up_to_s);
        let count = since(bucket.count, old.map_or(0, |old| old.count));
        if count > 0 {
            found.push(Bucket { count, ..*bucket });
        }
    }
    found
}

/// Both, in ascending order.
fn sum(one: &[Bucket], other: &[Bucket]) -> Vec<Bucket> {
    let mut all: Vec<Bucket> = one.iter().chain(other).copied().collect();
    all.sort_by(|a, b| a.up_to_s.total_cmp(&b.up_to_s));
    all.dedup_by(|next, kept| {
        let same = next.up_to_s == kept.up_to_s;
        if same {
            kept.count += next.count;
        }
        same
    });
    all
}

impl Point {
    /// Requests a second.
    pub fn rate(&self) -> f64 {
        match self.seconds > 0.0 {
            true => self.requests as f64 / self.seconds,
            false => 0.0,
        }
    }

    /// The share of errors among the requests, from 0 to 1; `None` without requests.
    pub fn error_share(&self) -> Option<f64> {
        (self.requests > 0).then(|| self.errors as f64 / self.requests as f64)
    }

    /// The duration that a share of the requests, from 0 to 1, did not exceed, in seconds.
    pub fn percentile(&self, share: f64) -> Option<f64> {
        percentile(&self.latency, share)
    }

    /// Several points that follow each other as one; `None` of none.
    pub fn joined<'a>(points: impl IntoIterator<Item = &'a Self>) -> Option<Self> {
        let mut points = points.into_iter();
        let first = points.next()?.clone();
        Some(points.fold(first, |joined, next| joined.followed_by(next)))
    }

    fn followed_by(self, next: &Self) -> Self {
        let seconds = self.seconds + next.seconds;
        let busy = self.busy * self.seconds + next.busy * next.seconds;
        Self {
            at: next.at,
            seconds,
            requests: self.requests + next.requests,
            errors: self.errors + next.errors,
            latency: sum(&self.latency, &next.latency),
            queue: self.queue.max(next.queue),
            busy: if seconds > 0.0 { busy / seconds } else { 0.0 },
            threads: next.threads,
            memory_bytes: next.memory_bytes.or(self.memory_bytes),
        }
    }

    /// The points of two applications at the same time as one.
    fn beside(self, other: &Self) -> Self {
        let memory = [self.memory_bytes, other.memory_bytes];
        let known = memory.iter().flatten().copied();
        Self {
            at: self.at.max(other.at),
            seconds: self.seconds.max(other.seconds),
            requests: self.requests + other.requests,
            errors: self.errors + other.errors,
            latency: sum(&self.latency, &other.latency),
            queue: self.queue + other.queue,
            busy: self.busy + other.busy,
            threads: self.threads + other.threads,
            memory_bytes: known.reduce(|a, b| a + b),
        }
    }
}

/// The duration that a share of requests, from 0 to 1, did not exceed, in seconds: within its bucket, by how many of that
/// are below. `None` without requests.
pub fn percentile(buckets: &[Bucket], share: f64) -> Option<f64> {
    let total: u64 = buckets.iter().map(|bucket| bucket.count).sum();
    let rank = (share.clamp(0.0, 1.0) * total as f64).ceil().max(1.0);
    let mut below = 0.0;
    for bucket in buckets {
        let count = bucket.count as f64;
        if count > 0.0 && below + count >= rank {
            let width = bucket.up_to_s - bucket.above_s;
            return Some(bucket.above_s + width * (rank - below) / count);
        }
        below += count;
    }
    None
}

impl Series {
    /// Takes a reading, and returns what happened since the one before. The first one has none before it, and counts
    /// nothing.
    pub fn record(&mut self, reading: Reading) -> Option<Point> {
        let point = self.last.as_ref().and_then(|last| reading.since(last));
        self.last = Some(reading);
        if let Some(point) = &point {
            self.push(point.clone());
        }
        point
    }

    fn push(&mut self, point: Point) {
        let open = match self.open.take() {
            None => point.clone(),
            Some(open) => open.followed_by(&point),
        };
        push_bounded(&mut self.recent, point, RECENT_POINTS);
        match open.seconds < DAY_STEP_S {
            true => self.open = Some(open),
            false => push_bounded(&mut self.day, open, DAY_POINTS),
        }
    }

    /// Puts what an earlier server has measured before what this one has. `now` is in seconds of the UNIX epoch.
    fn restore(&mut self, earlier: Measured, now: u64) {
        let is_new = self.day.is_empty() && self.open.is_none();
        let recent_s = RECENT_POINTS as u64 * STEP_S;
        put_before(
            &mut self.recent,
            earlier.recent,
            (now, recent_s),
            RECENT_POINTS,
        );
        // The point that is not full yet counts as the first one of those that are there.
        let open = self.open.take();
        let has_open = open.is_some();
        self.day.extend(open);
        put_before(&mut self.day, earlier.day, (now, DAY_S), DAY_POINTS);
        let goes_on = |last: &Point| {
            last.seconds < DAY_STEP_S
                && (has_open || now.saturating_sub(last.at) < DAY_STEP_S as u64)
        };
        if (is_new || has_open) && self.day.back().is_some_and(goes_on) {
            self.open = self.day.pop_back();
        }
    }

    /// What it holds now.
    pub fn measured(&self) -> Measured {
        Measured {
            recent: self.recent.iter().cloned().collect(),
            day: self.day.iter().chain(&self.open).cloned().collect(),
        }
    }
}

/// Puts earlier points before those that are there. Clocks may have been set: only those count that are not older than
/// `length_s` seconds, not of the future, and in their order.
fn put_before(
    ring: &mut VecDeque<Point>,
    earlier: Vec<Point>,
    (now, length_s): (u64, u64),
    limit: usize,
) {
    let mut last = now.saturating_sub(length_s);
    let end = ring.front().map_or(now, |first| first.at.saturating_sub(1));
    let mut kept = VecDeque::new();
    for point in earlier {
        if point.at > last && point.at <= end {
            last = point.at;
            push_bounded(&mut kept, point, limit);
        }
    }
    while kept.len() + ring.len() > limit && kept.pop_front().is_some() {}
    kept.append(ring);
    *ring = kept;
}

fn push_bounded(ring: &mut VecDeque<Point>, point: Point, limit: usize) {
    if ring.len() == limit {
        ring.pop_front();
    }
    ring.push_back(point);
}

#[cfg(test)]
mod tests;
