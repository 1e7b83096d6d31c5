//! How many requests a client may send in which time, as it is written in the settings. It counts nothing.

use std::fmt;
use std::time::Duration;

/// What is allowed, in words that follow "expected".
pub(crate) const ALLOWED: &str = "a number of requests and a time, such as \"5/m\" or \"100/s burst 200 by x-api-key\" (s, m or h; 1 to 1000000 requests)";

/// The most requests that a limit or its burst may have.
const MOST: u32 = 1_000_000;

/// A limit for each client.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RateLimit {
    /// Requests in each period.
    pub requests: u32,
    /// The period: a second, a minute or an hour.
    pub period: Duration,
    /// Requests that may come at once.
    pub burst: u32,
    /// What tells clients apart.
    pub by: RateLimitKey,
}

/// What tells clients apart.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RateLimitKey {
    /// Their address.
    Address,
    /// The value of this header, by its name in lower case; the address where a request has none.
    Header(String),
}

impl RateLimit {
    /// Reads `5/m`, then `burst N` and `by address` or `by HEADER` in either order; none where it is something else.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace();
        let (requests, unit) = words.next()?.split_once('/')?;
        let period = match unit {
            "s" => 1,
            "m" => 60,
            "h" => 3600,
            _ => return None,
        };
        let requests = number(requests)?;
        let (mut burst, mut by) = (None, None);
        while let Some(word) = words.next() {
            let value = words.next()?;
            match word {
                "burst" if burst.is_none() => burst = Some(number(value)?),
                "by" if by.is_none() => by = Some(key(value)?),
                _ => return None,
            }
        }
        Some(Self {
            requests,
            period: Duration::from_secs(period),
            burst: burst.unwrap_or(requests),
            by: by.unwrap_or(RateLimitKey::Address),
        })
    }
}

fn number(text: &str) -> Option<u32> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.parse().ok().filter(|_| digits)?;
    (1..=MOST).contains(&number).then_some(number)
}

/// The name of a header is a token (RFC 9110 section 5.1).
fn key(text: &str) -> Option<RateLimitKey> {
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    match text {
        "address" => Some(RateLimitKey::Address),
        name if name.bytes().all(token) => Some(RateLimitKey::Header(name.to_ascii_lowercase())),
        _ => None,
    }
}

/// As it is written in a flag.
impl fmt::Display for RateLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = match self.period.as_secs() {
            1 => "s",
            60 => "m",
            _ => "h",
        };
        write!(f, "{}/{unit}", self.requests)?;
        if self.burst != self.requests {
            write!(f, " burst {}", self.burst)?;
        }
        match &self.by {
            RateLimitKey::Address => Ok(()),
            RateLimitKey::Header(name) => write!(f, " by {name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_and_written() {
        for (text, expect) in [
            ("5/m", Some("5/m")),
            ("100/s burst 200", Some("100/s burst 200")),
            ("100/s burst 100", Some("100/s")),
            ("3/h by X-Api-Key", Some("3/h by x-api-key")),
            ("3/h by address burst 1", Some("3/h burst 1")),
            ("1000000/s", Some("1000000/s")),
            ("", None),
            ("5", None),
            ("5/d", None),
            ("0/s", None),
            ("+5/s", None),
            ("1000001/s", None),
            ("5/s burst", None),
            ("5/s burst 0", None),
            ("5/s burst 1 burst 2", None),
            ("5/s by a:b", None),
            ("5/s by", None),
        ] {
            let limit = RateLimit::parse(text);
            assert_eq!(
                limit.map(|limit| limit.to_string()).as_deref(),
                expect,
                "{text}"
            );
        }
    }
}
