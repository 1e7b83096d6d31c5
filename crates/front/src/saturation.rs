//! How much of an application's threads is in use: the one figure of its load that status, metrics, `endpoint-load-metrics` and
//! agent checks show. It asks nobody, and reads no clock.

use std::sync::atomic::{AtomicU32, Ordering};

use serde::Serialize;

/// The load of an application at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Saturation {
    /// Threads that run a request, or what follows a response.
    pub busy: usize,
    /// Requests that wait for a thread.
    pub waiting: usize,
    /// Threads of the workers that serve.
    pub threads: usize,
}

impl Saturation {
    /// Busy threads and waiting requests as a part of all threads, in thousandths' precision: 1 where all threads are busy, more
    /// where requests wait.
    pub fn ratio(self) -> f64 {
        let engaged = (self.busy + self.waiting) as f64;
        let ratio = engaged / self.threads.max(1) as f64;
        (ratio * 1e3).round() / 1e3
    }

    /// The load of two applications together.
    pub fn and(self, other: Self) -> Self {
        Self {
            busy: self.busy + other.busy,
            waiting: self.waiting + other.waiting,
            threads: self.threads + other.threads,
        }
    }
}

/// The latest ratio, which all edges read. Only the dispatcher's thread writes it.
#[derive(Debug, Default)]
pub struct LatestSaturation(AtomicU32);

impl LatestSaturation {
    /// Sets it.
    pub fn set(&self, saturation: Saturation) {
        let thousandths = (saturation.ratio() * 1e3).round() as u32;
        self.0.store(thousandths, Ordering::Relaxed);
    }

    /// The ratio.
    pub fn ratio(&self) -> f64 {
        f64::from(self.0.load(Ordering::Relaxed)) / 1e3
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_that_wait_make_more_than_one() {
        let check = |busy, waiting, threads, expect: f64| {
            let saturation = Saturation {
                busy,
                waiting,
                threads,
            };
            assert!((saturation.ratio() - expect).abs() < 1e-9, "{saturation:?}");
            let latest = LatestSaturation::default();
            latest.set(saturation);
            assert!((latest.ratio() - expect).abs() < 1e-9, "{latest:?}");
        };
        check(0, 0, 4, 0.0);
        check(1, 0, 3, 0.333);
        check(4, 2, 4, 1.5);
        check(0, 0, 0, 0.0);
        check(0, 3, 0, 3.0);
    }
}
