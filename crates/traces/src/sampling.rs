//! Which requests are traced. The decision at a request's head is told to the application; at its end, errors and slow
//! requests are kept in addition. A client that nobody trusts decides nothing.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::context::Parent;

/// Nanoseconds of a second.
const NANOSECONDS: u64 = 1_000_000_000;

/// A part of all requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ratio(u32);

impl Ratio {
    /// This many of a million requests.
    pub const fn millionths(millionths: u32) -> Self {
        Self(millionths)
    }

    /// Whether a request with this random number is one of them.
    fn has(self, random: u64) -> bool {
        let limit = u128::from(self.0) << 64;
        u128::from(random) * 1_000_000 < limit
    }
}

/// Decides for all requests of one server, from all its threads.
#[derive(Debug)]
pub struct Sampler {
    /// Requests that a trusted peer wants traced.
    parents: Rate,
    /// Requests that failed or were slow.
    notable: Rate,
}

impl Sampler {
    /// Returns one that traces at most this many requests a second for what a trusted peer says, and as many for how they
    /// ended.
    pub fn new(per_second: u32) -> Self {
        Self {
            parents: Rate::new(per_second),
            notable: Rate::new(per_second),
        }
    }

    /// Whether a request is traced, as far as its head says. `parent` is none where nobody trusts the peer: its client could
    /// choose ids and flags so that all is traced. `now_ns` is a monotonic clock's.
    pub fn at_head(&self, parent: Option<Parent>, ratio: Ratio, random: u64, now_ns: u64) -> bool {
        match parent {
            Some(parent) => parent.sampled && self.parents.take(now_ns),
            None => ratio.has(random),
        }
    }

    /// Whether a request that failed or was slow is kept, where its head did not say so.
    pub fn at_end(&self, now_ns: u64) -> bool {
        self.notable.take(now_ns)
    }
}

/// So many of something in each second.
#[derive(Debug)]
struct Rate {
    per_second: u32,
    /// The second in the upper half, how many were taken in it in the lower one.
    taken: AtomicU64,
}

impl Rate {
    fn new(per_second: u32) -> Self {
        Self {
            per_second,
            taken: AtomicU64::new(0),
        }
    }

    fn take(&self, now_ns: u64) -> bool {
        let second = (now_ns / NANOSECONDS) & u64::from(u32::MAX);
        let limit = u64::from(self.per_second);
        let next = |taken: u64| match (taken >> 32 == second, taken & u64::from(u32::MAX)) {
            _ if limit == 0 => None,
            (true, count) if count >= limit => None,
            (true, _) => Some(taken + 1),
            (false, _) => Some((second << 32) | 1),
        };
        self.taken
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next)
            .is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 5 * NANOSECONDS;

    fn parent(sampled: bool) -> Option<Parent> {
        let text = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let parent = Parent::parse(text.as_bytes()).unwrap();
        Some(Parent { sampled, ..parent })
    }

    #[test]
    fn a_ratio_is_that_part_of_all_random_numbers() {
        for (millionths, random, has) in [
            (0, 0, false),
            (1_000_000, u64::MAX, true),
            (500_000, u64::MAX / 2 - 1, true),
            (500_000, u64::MAX / 2 + 1, false),
            (10_000, u64::MAX / 100 - 1, true),
            (10_000, u64::MAX / 100 + 1, false),
        ] {
            assert_eq!(
                Ratio::millionths(millionths).has(random),
                has,
                "{millionths}"
            );
        }
    }

    #[test]
    fn a_trusted_parent_decides_within_the_rate() {
        let sampler = Sampler::new(2);
        let all = Ratio::millionths(1_000_000);
        assert!(!sampler.at_head(parent(false), all, 0, NOW));
        let none = Ratio::millionths(0);
        let asked = |now| sampler.at_head(parent(true), none, 0, now);
        assert_eq!([NOW; 3].map(asked), [true, true, false]);
        assert!(asked(NOW + NANOSECONDS));
    }

    #[test]
    fn errors_have_a_rate_of_their_own() {
        let sampler = Sampler::new(1);
        let all = Ratio::millionths(1_000_000);
        for _ in 0..10 {
            assert!(sampler.at_head(None, all, 1, NOW));
        }
        assert!(sampler.at_head(parent(true), all, 0, NOW));
        assert_eq!([NOW; 2].map(|now| sampler.at_end(now)), [true, false]);
        assert!(!Sampler::new(0).at_end(NOW));
    }
}
