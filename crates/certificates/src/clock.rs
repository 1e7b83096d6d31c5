//! The time of day, and waiting for one: the machine's own, or one that a test moves. It measures nothing.

use std::fmt::Debug;
use std::pin::Pin;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A wait for a time of day.
pub type Wait = Pin<Box<dyn Future<Output = ()>>>;

/// The clock may jump, and a machine may sleep: a wait looks at it at least this often.
const CLOCK_CHECK_INTERVAL: Duration = Duration::from_secs(60);

/// A clock that shows the time of day.
pub trait Clock: Debug + Send + Sync {
    /// The time of day.
    fn now(&self) -> SystemTime;

    /// Ends at `time` or soon after it; at once, if that has passed.
    fn wait_until(&self, time: SystemTime) -> Wait;
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }

    fn wait_until(&self, time: SystemTime) -> Wait {
        Box::pin(async move {
            while let Ok(left) = time.duration_since(SystemTime::now()) {
                tokio::time::sleep(left.min(CLOCK_CHECK_INTERVAL)).await;
                if left.is_zero() {
                    break;
                }
            }
        })
    }
}

/// Whole seconds since 1970; 0 for what was before.
pub(crate) fn to_seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

/// The time of day that [`to_seconds`] made a number of; at most the year 9999.
pub(crate) fn from_seconds(seconds: u64) -> SystemTime {
    const YEAR_9999: u64 = 253_402_300_799;
    UNIX_EPOCH + Duration::from_secs(seconds.min(YEAR_9999))
}
