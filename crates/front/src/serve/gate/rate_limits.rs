//! How many requests each client may send (setting `rate_limits`). It counts in a table of a fixed size, and answers nothing.

mod table;

use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use config::{PathRules, RateLimit, RateLimitKey};
use http::HeaderMap;

use crate::net::addresses::network;
use table::Table;

/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;

/// What each client has sent of late. It stays when the settings change: a rule that is the same goes on counting.
#[derive(Debug, Default)]
pub(super) struct RateLimits {
    /// Made with the first request that a rule counts.
    table: Mutex<Option<Table>>,
    /// Random: nobody can choose a client that takes another one's place in the table.
    hasher: RandomState,
}

/// Who sent a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sender<'a> {
    /// The client's address; none on a UNIX socket.
    pub(super) address: Option<IpAddr>,
    /// The request's fields.
    pub(super) headers: &'a HeaderMap,
}

impl RateLimits {
    /// Counts a request at `now_ns` of the monotonic clock.
    ///
    /// # Errors
    /// There were too many: after how many seconds the next one is allowed, at least 1.
    pub(super) fn count(
        &self,
        rules: &PathRules<RateLimit>,
        path: &[u8],
        sender: Sender<'_>,
        now_ns: u64,
    ) -> Result<(), u32> {
        let rule = rules.find_index(path);
        let Some(rule) = rule.and_then(|index| rules.iter().nth(index)) else {
            return Ok(());
        };
        let (key, limit) = (self.key(rule, sender), rule.1);
        // Whatever a thread that panicked left there is a count.
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let table = table.get_or_insert_with(Table::default);
        let wait = table.count(key, interval_ns(limit), limit.burst, now_ns);
        wait.map_err(|ns| {
            u32::try_from(ns.div_ceil(SECOND))
                .unwrap_or(u32::MAX)
                .max(1)
        })
    }

    /// What stands for a rule and a client in the table. Rules that say the same of different paths count apart.
    fn key(&self, rule: (&str, &RateLimit), sender: Sender<'_>) -> u64 {
        let mut key = self.hasher.build_hasher();
        rule.hash(&mut key);
        let value = match &rule.1.by {
            RateLimitKey::Address => None,
            RateLimitKey::Header(name) => sender.headers.get(name),
        };
        match value {
            Some(value) => value.as_bytes().hash(&mut key),
            None => sender.address.map(network).hash(&mut key),
        }
        key.finish()
    }
}

/// Nanoseconds between two requests of a client that sends them evenly.
fn interval_ns(limit: &RateLimit) -> u64 {
    limit.period.as_secs() * SECOND / u64::from(limit.requests)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::HeaderValue;

    use super::*;

    fn limit(requests: u32, burst: u32, by: RateLimitKey) -> RateLimit {
        let period = Duration::from_secs(60);
        RateLimit {
            requests,
            period,
            burst,
            by,
        }
    }

    fn count(
        limits: &RateLimits,
        rules: &PathRules<RateLimit>,
        path: &str,
        address: &str,
    ) -> Result<(), u32> {
        let headers = HeaderMap::new();
        let sender = Sender {
            address: address.parse().ok(),
            headers: &headers,
        };
        limits.count(rules, path.as_bytes(), sender, 5 * SECOND)
    }

    #[test]
    fn each_client_and_each_rule_counts_apart() {
        let rules = [("/login", 2), ("/reset", 2)];
        let rules =
            rules.map(|(path, requests)| (path, limit(requests, requests, RateLimitKey::Address)));
        let (rules, limits) = (PathRules::from_iter(rules), RateLimits::default());
        let count = |path, address| count(&limits, &rules, path, address);
        for address in ["192.0.2.1", "192.0.2.2", "2001:db8::1", "a UNIX socket"] {
            assert_eq!(count("/login", address), Ok(()));
            assert_eq!(count("//login/x", address), Ok(()));
            assert_eq!(count("/login", address), Err(30), "{address}");
            assert_eq!(count("/reset", address), Ok(()));
            assert_eq!(count("/other", address), Ok(()));
        }
        // The same network of IPv6, and another one.
        assert_eq!(count("/login", "2001:db8::2"), Err(30));
        assert_eq!(count("/login", "2001:db8:0:1::2"), Ok(()));
    }

    #[test]
    fn a_header_tells_clients_apart_and_without_it_the_address_does() {
        let by = RateLimitKey::Header("x-api-key".to_owned());
        let rules = PathRules::from_iter([("/", limit(1, 1, by))]);
        let limits = RateLimits::default();
        let count = |key: Option<&'static str>| {
            let value = key.map(HeaderValue::from_static);
            let headers = value.map(|value| ("x-api-key".parse().unwrap(), value));
            let headers = HeaderMap::from_iter(headers);
            let sender = Sender {
                address: None,
                headers: &headers,
            };
            limits.count(&rules, b"/", sender, 5 * SECOND).is_ok()
        };
        let counted = [Some("a"), Some("a"), Some("b"), None, None].map(count);
        assert_eq!(counted, [true, false, true, true, false]);
    }

    #[test]
    fn the_counts_stay_when_another_rule_changes() {
        let limits = RateLimits::default();
        let rule = || ("/login", limit(1, 1, RateLimitKey::Address));
        let before = PathRules::from_iter([rule()]);
        assert_eq!(count(&limits, &before, "/login", "192.0.2.1"), Ok(()));
        let other = ("/", limit(5, 5, RateLimitKey::Address));
        let after = PathRules::from_iter([other, rule()]);
        assert_eq!(count(&limits, &after, "/login", "192.0.2.1"), Err(60));
    }
}
