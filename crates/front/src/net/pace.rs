//! Whether a client that is waited for moves at the least rate. Pure: times and counts go in. Only time in which it is
//! waited for counts, and bytes that moved meanwhile or in between.

/// So much time of waiting is looked at at once: short pauses are within it.
pub(crate) const WINDOW_MS: u64 = 10_000;
/// A look after a longer pause (a machine that slept) counts for so long.
const LONGEST_LOOK_MS: u64 = 1_000;

/// One direction of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pace {
    looked_ms: u64,
    waited_ms: u64,
    /// Bytes that had moved when the window began.
    began: u64,
}

impl Pace {
    /// A window that begins at `now`, milliseconds of the coarse clock, when `moved` bytes have moved.
    pub(crate) fn at(now: u64, moved: u64) -> Self {
        Self {
            looked_ms: now,
            waited_ms: 0,
            began: moved,
        }
    }

    /// When it was looked at last.
    pub(crate) fn looked_ms(&self) -> u64 {
        self.looked_ms
    }

    /// Looks at `now`: whether the client is waited for just now, and how many bytes have `moved` so far. True when a
    /// window ends in which fewer than `rate` bytes a second moved.
    pub(crate) fn is_slow(&mut self, now: u64, waited_for: bool, moved: u64, rate: u64) -> bool {
        let passed = now.saturating_sub(self.looked_ms).min(LONGEST_LOOK_MS);
        self.looked_ms = now;
        if !waited_for {
            return false;
        }
        self.waited_ms += passed;
        if self.waited_ms < WINDOW_MS {
            return false;
        }
        let least = rate.saturating_mul(self.waited_ms) / 1000;
        let slow = moved.saturating_sub(self.began) < least;
        *self = Self::at(now, moved);
        slow
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After how many seconds a client is slow that moves so many bytes in each, where it is waited for.
    fn slow_after(
        rate: u64,
        waited_for: impl Fn(u64) -> bool,
        bytes: impl Fn(u64) -> u64,
    ) -> Option<u64> {
        let (mut pace, mut moved) = (Pace::at(5_000, 0), 0);
        (0..100).find(|&second| {
            moved += bytes(second);
            pace.is_slow(5_000 + (second + 1) * 1000, waited_for(second), moved, rate)
        })
    }

    #[test]
    fn a_client_that_moves_less_than_the_rate_is_slow_after_a_window() {
        let always = |_| true;
        assert_eq!(slow_after(240, always, |_| 239), Some(9));
        assert_eq!(slow_after(240, always, |_| 240), None);
        // One byte every 29 seconds.
        assert_eq!(
            slow_after(240, always, |second| u64::from(second % 29 == 0)),
            Some(9)
        );
        // Much at once is no credit for later windows.
        let burst = |second| if second == 0 { 10_000_000 } else { 0 };
        assert_eq!(slow_after(240, always, burst), Some(19));
        // A pause within a window is made up for.
        let bursts = |second| if second % 9 == 0 { 5_000 } else { 0 };
        assert_eq!(slow_after(240, always, bursts), None);
    }

    #[test]
    fn time_in_which_a_client_is_not_waited_for_does_not_count() {
        assert_eq!(slow_after(240, |_| false, |_| 0), None);
        let half = |second: u64| second.is_multiple_of(2);
        assert_eq!(slow_after(240, half, |_| 0), Some(18));
    }

    #[test]
    fn a_machine_that_slept_makes_no_client_slow() {
        let mut pace = Pace::at(0, 0);
        assert!(!pace.is_slow(3_600_000, true, 0, 240));
    }
}
