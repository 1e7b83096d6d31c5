//! Whether a client has a stored response already (RFC 9110 section 13), and what the application is asked to compare with.

use http::header::{self, HeaderValue};
use http::{HeaderMap, StatusCode};

use crate::freshness::date;

/// What tells one version of a response from another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Validators {
    /// `ETag`.
    pub etag: Option<HeaderValue>,
    /// `Last-Modified`.
    pub modified: Option<HeaderValue>,
}

impl Validators {
    /// Those of a response.
    pub fn of(fields: &HeaderMap) -> Self {
        Self {
            etag: fields.get(header::ETAG).cloned(),
            modified: fields.get(header::LAST_MODIFIED).cloned(),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.etag.is_none() && self.modified.is_none()
    }

    /// Asks, in a request with these fields, whether the response is still this one.
    pub fn ask(&self, fields: &mut HeaderMap) {
        for name in [
            header::IF_MATCH,
            header::IF_UNMODIFIED_SINCE,
            header::IF_RANGE,
            header::IF_NONE_MATCH,
            header::IF_MODIFIED_SINCE,
            header::RANGE,
        ] {
            fields.remove(name);
        }
        if let Some(etag) = &self.etag {
            fields.insert(header::IF_NONE_MATCH, etag.clone());
        }
        if let Some(modified) = &self.modified {
            fields.insert(header::IF_MODIFIED_SINCE, modified.clone());
        }
    }

    /// Whether an answer 304 with these fields speaks of the response that has these validators (RFC 9111 section 4.3.4).
    pub fn are_confirmed_by(&self, fields: &HeaderMap) -> bool {
        let confirmed = Self::of(fields);
        match (&confirmed.etag, &confirmed.modified) {
            (Some(etag), _) => self.etag.as_ref().is_some_and(|known| is_same(known, etag)),
            (None, Some(modified)) => self.modified.as_ref() == Some(modified),
            (None, None) => true,
        }
    }
}

/// Whether a client that sent these fields has the response with those already: `If-None-Match` counts before
/// `If-Modified-Since` (RFC 9110 section 13.2.2).
pub fn is_not_modified(request: &HeaderMap, status: StatusCode, response: &HeaderMap) -> bool {
    if status != StatusCode::OK {
        return false;
    }
    if request.contains_key(header::IF_NONE_MATCH) {
        let known = response.get(header::ETAG);
        let lines = request.get_all(header::IF_NONE_MATCH);
        return lines.iter().any(|line| lists(line, known));
    }
    let since = date(request, header::IF_MODIFIED_SINCE);
    let modified = date(response, header::LAST_MODIFIED).or(date(response, header::DATE));
    since
        .zip(modified)
        .is_some_and(|(since, modified)| modified <= since)
}

/// Whether a list of tags has this one, or is `*`.
fn lists(line: &HeaderValue, known: Option<&HeaderValue>) -> bool {
    if line.as_bytes().trim_ascii() == b"*" {
        return true;
    }
    let Some(known) = known else { return false };
    if unquoted(line) == unquoted(known) {
        // Also where the quotes were left out on one side: the client has what this very tag came with.
        return true;
    }
    let known = opaque(known.as_bytes());
    let mut rest = line.as_bytes();
    while let Some(from) = rest.iter().position(|&byte| byte == b'"') {
        let Some(length) = rest[from + 1..].iter().position(|&byte| byte == b'"') else {
            break;
        };
        let to = from + 1 + length + 1;
        if rest[from..to] == *known {
            return true;
        }
        rest = &rest[to..];
    }
    false
}

/// A tag without quotes around it.
fn unquoted(tag: &HeaderValue) -> &[u8] {
    let tag = tag.as_bytes().trim_ascii();
    let inner = tag.strip_prefix(b"\"");
    let inner = inner.and_then(|inner| inner.strip_suffix(b"\""));
    inner.unwrap_or(tag)
}

/// The weak comparison (RFC 9110 section 8.8.3.2).
fn is_same(one: &HeaderValue, other: &HeaderValue) -> bool {
    opaque(one.as_bytes()) == opaque(other.as_bytes())
}

/// A tag without the sign that it is weak.
fn opaque(tag: &[u8]) -> &[u8] {
    let tag = tag.trim_ascii();
    tag.strip_prefix(b"W/").unwrap_or(tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has(asked: &'static str, known: &'static str) -> bool {
        let mut request = HeaderMap::new();
        request.insert(header::IF_NONE_MATCH, HeaderValue::from_static(asked));
        let mut response = HeaderMap::new();
        response.insert(header::ETAG, HeaderValue::from_static(known));
        is_not_modified(&request, StatusCode::OK, &response)
    }

    #[test]
    fn tags_are_compared_weakly_and_as_a_whole() {
        for (asked, known, expected) in [
            ("\"a\"", "\"a\"", true),
            ("W/\"a\"", "\"a\"", true),
            ("\"a\"", "W/\"a\"", true),
            ("\"b\", \"a,b\" , \"c\"", "\"a,b\"", true),
            ("*", "\"a\"", true),
            ("\"b\"", "\"a\"", false),
            ("a", "\"a\"", true),
            ("\"a\"", "a", true),
            ("a, b", "\"a\"", false),
            ("\"a", "\"a\"", false),
            ("a", "a", true),
            ("w/\"a\"", "w/\"a\"", true),
            ("a, b", "a", false),
        ] {
            assert_eq!(has(asked, known), expected, "{asked} {known}");
        }
    }

    #[test]
    fn a_date_counts_only_without_tags() {
        let mut request = HeaderMap::new();
        let date = |seconds| {
            let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
            HeaderValue::from_str(&httpdate::fmt_http_date(time)).expect("a date")
        };
        request.insert(header::IF_MODIFIED_SINCE, date(2000));
        let mut response = HeaderMap::new();
        response.insert(header::LAST_MODIFIED, date(2000));
        assert!(is_not_modified(&request, StatusCode::OK, &response));
        response.insert(header::LAST_MODIFIED, date(2001));
        assert!(!is_not_modified(&request, StatusCode::OK, &response));
        response.insert(header::LAST_MODIFIED, date(1));
        request.insert(header::IF_NONE_MATCH, HeaderValue::from_static("\"x\""));
        assert!(!is_not_modified(&request, StatusCode::OK, &response));
    }
}
