//! Throttles a line of the log that tells of something that may happen often. It writes nothing itself.

use std::sync::atomic::{AtomicU64, Ordering};

/// How long after such a line the next one may come, in milliseconds.
const THROTTLE_MS: u64 = 10_000;

/// One line that is throttled, for all threads together.
#[derive(Debug, Default)]
pub struct Throttle {
    /// When it may be written again, milliseconds of the coarse clock.
    due_ms: AtomicU64,
}

impl Throttle {
    /// Takes the right to write the line now: false where it was written a moment ago.
    pub fn take(&self, now_ms: u64) -> bool {
        // Two threads at the same moment may both write it.
        let due = self.due_ms.load(Ordering::Relaxed) <= now_ms;
        if due {
            self.due_ms.store(now_ms + THROTTLE_MS, Ordering::Relaxed);
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_is_written_and_the_next_after_a_while() {
        let throttle = Throttle::default();
        let taken = [0, 1, 9_999, 10_000, 10_001, 25_000].map(|now| throttle.take(now));
        assert_eq!(taken, [true, false, false, true, false, true]);
    }
}
