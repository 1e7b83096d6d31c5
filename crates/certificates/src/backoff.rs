//! How long the next attempt waits after failed ones. Pure: times go in, a time comes out.

use std::time::{Duration, SystemTime};

use crate::failure::{Cause, Failure};

/// The wait after the first failure; it doubles with each further one.
const FIRST_RETRY: Duration = Duration::from_secs(60);
/// The longest wait after refusals.
const LONGEST_RETRY: Duration = Duration::from_secs(24 * 3600);
/// The longest wait while the certificate authority cannot be reached: no order counts there.
const LONGEST_RETRY_UNREACHABLE: Duration = Duration::from_secs(3600);
/// The shortest wait after a rate limit that names no time.
const SHORTEST_RETRY_LIMITED: Duration = Duration::from_secs(3600);
/// A certificate authority may ask for a longer wait than ours (rate limits of a week), up to this.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(8 * 24 * 3600);

/// When the next attempt may begin, after `failures` failed ones in a row, of which `last` was the last.
pub(crate) fn next_attempt(now: SystemTime, failures: u32, last: &Failure) -> SystemTime {
    let doubled = FIRST_RETRY.saturating_mul(1 << failures.saturating_sub(1).min(20));
    let own = match last.cause {
        Cause::Unreachable | Cause::Storage => doubled.min(LONGEST_RETRY_UNREACHABLE),
        Cause::Refused => doubled.min(LONGEST_RETRY),
        Cause::RateLimited => doubled.clamp(SHORTEST_RETRY_LIMITED, LONGEST_RETRY),
    };
    let asked = last
        .retry_after
        .map(|time| time.min(now + LONGEST_RETRY_AFTER));
    asked.map_or(now + own, |asked| asked.max(now + own))
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);
    const HOUR: Duration = Duration::from_secs(3600);
    const DAY: Duration = Duration::from_secs(24 * 3600);

    fn wait(failures: u32, cause: Cause, retry_after: Option<Duration>) -> Duration {
        let now = UNIX_EPOCH + DAY;
        let failure = Failure {
            retry_after: retry_after.map(|after| now + after),
            ..Failure::new(cause, "no")
        };
        next_attempt(now, failures, &failure)
            .duration_since(now)
            .unwrap()
    }

    #[test]
    fn waits_double_from_a_minute_to_a_day() {
        assert_eq!(wait(1, Cause::Refused, None), MINUTE);
        assert_eq!(wait(2, Cause::Refused, None), 2 * MINUTE);
        assert_eq!(wait(5, Cause::Refused, None), 16 * MINUTE);
        assert_eq!(wait(12, Cause::Refused, None), DAY);
        assert_eq!(wait(u32::MAX, Cause::Refused, None), DAY);
    }

    #[test]
    fn an_unreachable_authority_is_asked_each_hour_at_least() {
        assert_eq!(wait(3, Cause::Unreachable, None), 4 * MINUTE);
        assert_eq!(wait(30, Cause::Unreachable, None), HOUR);
    }

    #[test]
    fn a_rate_limit_waits_an_hour_or_as_long_as_the_authority_says() {
        assert_eq!(wait(1, Cause::RateLimited, None), HOUR);
        assert_eq!(wait(1, Cause::RateLimited, Some(3 * DAY)), 3 * DAY);
        assert_eq!(wait(1, Cause::RateLimited, Some(300 * DAY)), 8 * DAY);
    }

    #[test]
    fn retry_after_never_shortens_a_wait() {
        assert_eq!(wait(5, Cause::Refused, Some(MINUTE)), 16 * MINUTE);
    }
}
