//! Whether a client has a file already, or wants only an unchanged one (RFC 9110 section 13). It decides from fields and
//! validators alone.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::header::{self, HeaderName};
use http::{HeaderMap, HeaderValue};

/// What identifies a version of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Validators {
    /// The entity tag, with its quotes; those of files are strong.
    pub etag: HeaderValue,
    /// When it was changed, in seconds since 1970.
    pub modified_s: u64,
    /// The same, as a date.
    pub last_modified: HeaderValue,
}

impl Validators {
    /// Those of `bytes` of a file that was changed at `modified_ns`; `suffix` names the form of it.
    pub fn of_file(modified_ns: i128, bytes: u64, suffix: &str) -> Self {
        let modified_s = modified_ns.div_euclid(1_000_000_000);
        let modified_s = u64::try_from(modified_s).unwrap_or(0);
        Self::new(&format!("{modified_ns:x}-{bytes:x}{suffix}"), modified_s)
    }

    /// Those of a file that was changed at `modified_s` and has this tag, which is without quotes.
    pub fn new(tag: &str, modified_s: u64) -> Self {
        let value = |text: &str| HeaderValue::from_str(text).expect("printable characters");
        Self {
            etag: value(&format!("\"{tag}\"")),
            modified_s,
            last_modified: value(&date(modified_s)),
        }
    }
}

/// A time in seconds since 1970 as a field has it.
pub fn date(seconds: u64) -> String {
    // The last second that such a date can name; `httpdate` panics beyond it.
    let last = 253_402_300_799;
    httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(seconds.min(last)))
}

/// What a client's conditions come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It gets the file.
    Send,
    /// It has it: 304.
    NotModified,
    /// It wants another version: 412.
    Failed,
}

/// Evaluates the conditions of GET or HEAD, in the order of RFC 9110 section 13.2.2.
pub fn verdict(headers: &HeaderMap, file: &Validators) -> Verdict {
    let matching = if has(headers, &header::IF_MATCH) {
        names(headers, &header::IF_MATCH, &file.etag, false)
    } else {
        let since = seconds(headers, &header::IF_UNMODIFIED_SINCE);
        since.is_none_or(|since| file.modified_s <= since)
    };
    if !matching {
        return Verdict::Failed;
    }
    let known = if has(headers, &header::IF_NONE_MATCH) {
        names(headers, &header::IF_NONE_MATCH, &file.etag, true)
    } else {
        let since = seconds(headers, &header::IF_MODIFIED_SINCE);
        since.is_some_and(|since| file.modified_s <= since)
    };
    match known {
        true => Verdict::NotModified,
        false => Verdict::Send,
    }
}

/// Whether a `Range` may be followed: `If-Range` is not there, or names this version (RFC 9110 section 13.1.5).
pub fn range_holds(
    headers: &HeaderMap,
    etag: Option<&HeaderValue>,
    modified_s: Option<u64>,
) -> bool {
    let Some(condition) = headers.get(header::IF_RANGE) else {
        return true;
    };
    let condition = condition.as_bytes().trim_ascii();
    match condition.first() {
        Some(b'"') => etag.is_some_and(|etag| etag.as_bytes() == condition),
        // A weak one never holds.
        Some(b'W') if condition.starts_with(b"W/") => false,
        _ => parse_date(condition).is_some_and(|date| modified_s == Some(date)),
    }
}

fn has(headers: &HeaderMap, name: &HeaderName) -> bool {
    headers.contains_key(name)
}

/// Whether a list of tags names `etag`; `weak` says whether a weak one counts (RFC 9110 section 8.8.3.2).
fn names(headers: &HeaderMap, name: &HeaderName, etag: &HeaderValue, weak: bool) -> bool {
    headers.get_all(name).iter().any(|value| {
        // A comma may be in a tag of others; in ours there is none, so that no part of one equals it.
        let mut tags = value.as_bytes().split(|&byte| byte == b',');
        tags.any(|tag| {
            let tag = tag.trim_ascii();
            let equal = match weak {
                true => opaque(tag) == opaque(etag.as_bytes()),
                false => tag == etag.as_bytes() && tag == opaque(tag),
            };
            tag == b"*" || equal
        })
    })
}

/// A tag without the mark of a weak one.
fn opaque(tag: &[u8]) -> &[u8] {
    tag.strip_prefix(b"W/").unwrap_or(tag)
}

fn seconds(headers: &HeaderMap, name: &HeaderName) -> Option<u64> {
    parse_date(headers.get(name)?.as_bytes())
}

/// Reads a date; none where it is malformed, and the condition then does not count (RFC 9110 section 13.1.3).
pub fn parse_date(text: &[u8]) -> Option<u64> {
    let time: SystemTime = httpdate::parse_http_date(std::str::from_utf8(text).ok()?).ok()?;
    Some(time.duration_since(UNIX_EPOCH).ok()?.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
    const THEN: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const AFTER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";

    fn fields(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        let fields = fields.iter().map(|&(name, value)| {
            (
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            )
        });
        fields.collect()
    }

    #[test]
    fn conditions_are_evaluated_in_the_order_of_the_rfc() {
        let file = Validators::new("a-1", 784_111_777);
        assert_eq!(file.last_modified, THEN);
        for (given, expected) in [
            (&[][..], Verdict::Send),
            (&[("if-none-match", "\"a-1\"")], Verdict::NotModified),
            (&[("if-none-match", "W/\"a-1\"")], Verdict::NotModified),
            (&[("if-none-match", "\"x\", \"a-1\"")], Verdict::NotModified),
            (&[("if-none-match", "*")], Verdict::NotModified),
            (&[("if-none-match", "\"a\"")], Verdict::Send),
            (&[("if-none-match", "a-1")], Verdict::Send),
            (&[("if-modified-since", THEN)], Verdict::NotModified),
            (&[("if-modified-since", AFTER)], Verdict::NotModified),
            (&[("if-modified-since", BEFORE)], Verdict::Send),
            (&[("if-modified-since", "yesterday")], Verdict::Send),
            (
                &[("if-none-match", "\"x\""), ("if-modified-since", THEN)],
                Verdict::Send,
            ),
            (&[("if-match", "\"a-1\"")], Verdict::Send),
            (&[("if-match", "W/\"a-1\"")], Verdict::Failed),
            (&[("if-match", "*")], Verdict::Send),
            (&[("if-match", "\"x\"")], Verdict::Failed),
            (&[("if-unmodified-since", BEFORE)], Verdict::Failed),
            (&[("if-unmodified-since", THEN)], Verdict::Send),
            (
                &[("if-match", "\"a-1\""), ("if-unmodified-since", BEFORE)],
                Verdict::Send,
            ),
            (
                &[("if-match", "\"x\""), ("if-none-match", "\"a-1\"")],
                Verdict::Failed,
            ),
        ] {
            assert_eq!(verdict(&fields(given), &file), expected, "{given:?}");
        }
    }

    #[test]
    fn a_range_of_another_version_is_not_followed() {
        let file = Validators::new("a-1", 784_111_777);
        for (condition, expected) in [
            ("\"a-1\"", true),
            ("\"a-2\"", false),
            ("W/\"a-1\"", false),
            (THEN, true),
            (AFTER, false),
            ("", false),
        ] {
            let headers = fields(&[("if-range", condition)]);
            let holds = range_holds(&headers, Some(&file.etag), Some(file.modified_s));
            assert_eq!(holds, expected, "{condition}");
        }
        assert!(range_holds(&HeaderMap::new(), None, None));
    }
}
