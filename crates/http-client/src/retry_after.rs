//! The field Retry-After of a response. It waits for nothing.

use std::str::FromStr;
use std::time::{Duration, SystemTime};

use http::HeaderMap;
use http::header::RETRY_AFTER;

/// The time that `Retry-After` names (RFC 9110 section 10.2.3); none where there is none that makes sense.
pub fn retry_after(fields: &HeaderMap, now: SystemTime) -> Option<SystemTime> {
    let text = fields.get(RETRY_AFTER)?.to_str().ok()?.trim();
    match u64::from_str(text) {
        Ok(seconds) => now.checked_add(Duration::from_secs(seconds)),
        Err(_) => httpdate::parse_http_date(text).ok(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use http::HeaderValue;

    use super::*;

    #[test]
    fn retry_after_is_a_number_of_seconds_or_a_date() {
        let now = UNIX_EPOCH + Duration::from_secs(1000);
        for (text, expected) in [
            ("120", Some(1120)),
            ("Thu, 01 Jan 1970 01:00:00 GMT", Some(3600)),
            ("soon", None),
            ("-1", None),
            ("18446744073709551615", None),
        ] {
            let fields = HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_static(text))]);
            let expected = expected.map(|seconds| UNIX_EPOCH + Duration::from_secs(seconds));
            assert_eq!(retry_after(&fields, now), expected, "{text}");
        }
    }
}
