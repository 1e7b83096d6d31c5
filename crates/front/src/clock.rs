//! The front's coarse clock: milliseconds that a ticker moves on, read without asking the system.
//!
//! Time-outs of connections need no better; deadlines and log times use the real clock.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// The shortest time in which all connections are looked at.
const SHORTEST_PERIOD: Duration = Duration::from_millis(5);
/// The longest.
const LONGEST_PERIOD: Duration = Duration::from_secs(1);

/// Milliseconds since the front started, as of the last tick.
#[derive(Debug)]
pub struct Clock {
    start: Instant,
    now_ms: Cell<u64>,
}

impl Clock {
    /// A clock that stands at 1 until it is ticked.
    #[expect(
        clippy::new_without_default,
        reason = "it starts now, which is no default"
    )]
    pub fn new() -> Self {
        Self {
            start: Instant::now(),
            now_ms: Cell::new(1),
        }
    }

    /// A clock that counts from the same moment, for another thread.
    pub(crate) fn beside(start: Instant) -> Self {
        Self {
            start,
            now_ms: Cell::new(start.elapsed().as_millis() as u64 + 1),
        }
    }

    /// Since when it counts.
    pub(crate) fn start(&self) -> Instant {
        self.start
    }

    /// The time of the last tick, in milliseconds; never 0.
    pub fn now_ms(&self) -> u64 {
        self.now_ms.get()
    }

    /// Moves the clock on to now.
    pub fn tick(&self) {
        self.now_ms.set(self.start.elapsed().as_millis() as u64 + 1);
    }

    /// In what time every connection's clocks must be looked at once, so that time-outs of these lengths
    /// end at most a tenth late: between 5 ms and a second.
    pub fn period(timeouts: &[Duration]) -> Duration {
        let shortest = timeouts.iter().filter(|timeout| !timeout.is_zero()).min();
        shortest.map_or(LONGEST_PERIOD, |&timeout| {
            (timeout / 10).clamp(SHORTEST_PERIOD, LONGEST_PERIOD)
        })
    }
}
