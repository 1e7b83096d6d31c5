//! How long the next start of a process is delayed that keeps dying.

use std::time::Duration;

/// Deaths in a row without having been of use after which the next fork is delayed.
pub(super) const DEATHS_BEFORE_DELAY: u32 = 5;

/// A worker that was ready for so long was of use, even if it finished no request. Whatever ends each one after that time
/// costs a fork in so long.
pub(super) const HEALTHY_UPTIME: Duration = Duration::from_secs(10);

/// The first delay; it doubles with each further death.
pub(super) const FIRST_DELAY: Duration = Duration::from_millis(500);

/// The longest delay.
pub(super) const LONGEST_DELAY: Duration = Duration::from_secs(30);

/// The delay after so many earlier deaths: none, then doubling.
pub(super) fn delay_after(earlier: u32) -> Duration {
    match earlier.checked_sub(1) {
        None => Duration::ZERO,
        Some(doublings) => FIRST_DELAY
            .saturating_mul(1 << doublings.min(10))
            .min(LONGEST_DELAY),
    }
}
