//! `Cache-Control` and the fields that replace it for some caches (RFC 9111 section 5.2, RFC 9213). It decides nothing.

use http::header::{self, HeaderName};
use http::{HeaderMap, HeaderValue};

/// Fields for caches between the application and the client, the most specific one first (RFC 9213 section 2.1).
const TARGETED: [HeaderName; 2] = [
    HeaderName::from_static("highball-cache-control"),
    HeaderName::from_static("cdn-cache-control"),
];

/// nginx's field of the same meaning: seconds, or `@` and a time in seconds since 1970.
const X_ACCEL_EXPIRES: HeaderName = HeaderName::from_static("x-accel-expires");

/// The longest time that a directive may name, in seconds (RFC 9111 section 1.2.2).
const MAX_SECONDS: u64 = 1 << 31;

/// What a response says of caches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResponseControl {
    /// It came in a field for caches like this one, which replaces `Cache-Control` and `Expires`.
    pub targeted: bool,
    /// Any cache may store it.
    pub public: bool,
    /// No shared cache may.
    pub private: bool,
    /// None may.
    pub no_store: bool,
    /// It must be validated before each use.
    pub no_cache: bool,
    /// Fields that must not be used again without a validation, although the rest may (RFC 9111 section 5.2.2.4).
    pub no_cache_fields: Vec<HeaderName>,
    /// Once stale it must be validated.
    pub must_revalidate: bool,
    /// Only a cache that knows the status may store it.
    pub must_understand: bool,
    /// Seconds that it is fresh.
    pub max_age: Option<u64>,
    /// When it becomes stale, in seconds since 1970; counts before `max_age`.
    pub expires_s: Option<u64>,
    /// The same as `max_age`, for shared caches.
    pub s_maxage: Option<u64>,
    /// Seconds after its freshness in which it may be used while it is validated (RFC 5861 section 3).
    pub stale_while_revalidate: Option<u64>,
    /// Seconds after its freshness in which it may be used where the application fails (RFC 5861 section 4).
    pub stale_if_error: Option<u64>,
}

impl ResponseControl {
    /// Reads the fields of a response.
    pub fn of(fields: &HeaderMap) -> Self {
        for name in &TARGETED {
            if let Some(control) = Self::targeted(fields, name) {
                return control;
            }
        }
        let mut control = Self::default();
        each_directive(fields, &header::CACHE_CONTROL, |name, value| {
            control.take(name, value);
        });
        control.follow_accel(fields);
        control
    }

    /// Puts `X-Accel-Expires` in place of all but what is allowed of stale responses, as nginx does. A malformed one does not
    /// count.
    fn follow_accel(&mut self, fields: &HeaderMap) {
        let text = fields.get(X_ACCEL_EXPIRES).and_then(|it| it.to_str().ok());
        let Some(text) = text.map(str::trim) else {
            return;
        };
        let (max_age, expires_s) = match text.strip_prefix('@') {
            Some(time) => (None, seconds(time)),
            None => (seconds(text), None),
        };
        if max_age.or(expires_s).is_some() {
            *self = Self {
                targeted: true,
                no_store: max_age == Some(0),
                max_age,
                expires_s,
                stale_while_revalidate: self.stale_while_revalidate,
                stale_if_error: self.stale_if_error,
                ..Self::default()
            };
        }
    }

    /// What a field for some caches says; none where it is missing, empty or malformed (RFC 9213 section 2.2).
    fn targeted(fields: &HeaderMap, field: &HeaderName) -> Option<Self> {
        let mut control = Self {
            targeted: true,
            ..Self::default()
        };
        let mut any = false;
        each_directive(fields, field, |name, value| {
            any = true;
            control.take(name, value);
        });
        any.then_some(control)
    }

    fn take(&mut self, name: &str, value: Option<&str>) {
        match name {
            "public" => self.public = true,
            "private" => self.private = true,
            "no-store" => self.no_store = true,
            "no-cache" => match value.and_then(field_names) {
                Some(names) => self.no_cache_fields.extend(names),
                None => self.no_cache = true,
            },
            "must-revalidate" | "proxy-revalidate" => self.must_revalidate = true,
            "must-understand" => self.must_understand = true,
            "max-age" => take_first(&mut self.max_age, value),
            "s-maxage" => {
                take_first(&mut self.s_maxage, value);
                // It has the meaning of proxy-revalidate too (RFC 9111 section 5.2.2.10).
                self.must_revalidate = true;
            }
            "stale-while-revalidate" => self.stale_while_revalidate = value.and_then(seconds),
            "stale-if-error" => self.stale_if_error = value.and_then(seconds),
            _ => {}
        }
    }

    /// Whether it invites shared caches to store.
    pub fn invites_shared(&self) -> bool {
        let lifetime = self.max_age.or(self.expires_s);
        self.public || self.s_maxage.is_some() || self.targeted && lifetime.is_some()
    }
}

/// What a request says of caches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestControl {
    /// Nothing of the exchange may be stored.
    pub no_store: bool,
    /// A stored response must be validated.
    pub no_cache: bool,
    /// Only a stored response is wanted.
    pub only_if_cached: bool,
    /// The greatest age that is wanted, in seconds.
    pub max_age: Option<u64>,
    /// Seconds for which it must be fresh still.
    pub min_fresh: Option<u64>,
    /// Seconds that it may be stale; `u64::MAX` where any staleness will do.
    pub max_stale: Option<u64>,
}

impl RequestControl {
    /// Reads the fields of a request. `Pragma`, which is for caches of HTTP/1.0 alone, does not count (RFC 9111 section 5.4).
    pub fn of(fields: &HeaderMap) -> Self {
        let mut control = Self::default();
        each_directive(fields, &header::CACHE_CONTROL, |name, value| match name {
            "no-store" => control.no_store = true,
            "no-cache" => control.no_cache = true,
            "only-if-cached" => control.only_if_cached = true,
            "max-age" => control.max_age = value.and_then(seconds),
            "min-fresh" => control.min_fresh = value.and_then(seconds),
            "max-stale" => control.max_stale = value.map_or(Some(u64::MAX), seconds),
            _ => {}
        });
        control
    }
}

/// Of several times the first one counts; what is no time makes the response stale (RFC 9111 section 4.2.1).
fn take_first(kept: &mut Option<u64>, value: Option<&str>) {
    kept.get_or_insert(value.and_then(seconds).unwrap_or(0));
}

/// A list of names of fields; none where it is empty or malformed.
fn field_names(list: &str) -> Option<Vec<HeaderName>> {
    let names = list.split(',').map(|name| name.trim_matches([' ', '\t']));
    let names = names.filter(|name| !name.is_empty());
    let names = names.map(|name| HeaderName::from_bytes(name.as_bytes()));
    let names: Vec<_> = names.collect::<Result<_, _>>().ok()?;
    (!names.is_empty()).then_some(names)
}

/// A number of seconds.
pub(crate) fn seconds(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    // More digits than a number holds are more seconds than count.
    digits.then(|| text.parse().unwrap_or(MAX_SECONDS).min(MAX_SECONDS))
}

/// Calls `take` for each directive of all lines of a field: its name in small letters, and its value without quotes.
fn each_directive(
    fields: &HeaderMap,
    field: &HeaderName,
    mut take: impl FnMut(&str, Option<&str>),
) {
    for line in fields.get_all(field) {
        each_of_line(line, &mut take);
    }
}

fn each_of_line(line: &HeaderValue, take: &mut impl FnMut(&str, Option<&str>)) {
    let Ok(text) = line.to_str() else { return };
    let mut rest = text;
    while !rest.is_empty() {
        let (directive, after) = split_at_comma(rest);
        rest = after;
        let directive = directive.trim_matches([' ', '\t']);
        let (name, value) = match directive.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (directive, None),
        };
        // A space before or after the equals sign is malformed: then it is no directive that is known here.
        if name.is_empty() || name.ends_with([' ', '\t']) {
            continue;
        }
        let value = value.map(|value| match value.strip_prefix('"') {
            Some(quoted) => quoted.strip_suffix('"').unwrap_or(quoted),
            None => value,
        });
        take(&name.to_ascii_lowercase(), value);
    }
}

/// The text before the first comma that is not quoted, and what follows that.
fn split_at_comma(text: &str) -> (&str, &str) {
    let (mut quoted, mut escaped) = (false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b',' if !quoted => return (&text[..at], &text[at + 1..]),
            _ => {}
        }
    }
    (text, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(lines: &[(&'static str, &'static str)]) -> ResponseControl {
        let fields = lines.iter().map(|&(name, value)| {
            (
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            )
        });
        ResponseControl::of(&fields.collect())
    }

    #[test]
    fn directives_are_read_in_any_case_and_over_several_lines() {
        let read = response(&[("cache-control", "Public, MAX-AGE=60")]);
        assert!(read.public && read.max_age == Some(60));
        let mut fields = HeaderMap::new();
        fields.append("cache-control", HeaderValue::from_static("private"));
        fields.append("cache-control", HeaderValue::from_static("max-age=\"5\""));
        let read = ResponseControl::of(&fields);
        assert!(read.private && read.max_age == Some(5));
    }

    #[test]
    fn a_quoted_comma_ends_no_directive() {
        let read = response(&[("cache-control", "x=\"max-age=9, public\\\", y\", max-age=1")]);
        assert_eq!((read.max_age, read.public), (Some(1), false));
    }

    #[test]
    fn a_time_that_is_none_makes_the_response_stale() {
        for value in [
            "max-age=a",
            "max-age=-1",
            "max-age=1.5",
            "max-age='5'",
            "max-age",
            "max-age=0, max-age=3",
            "max-age=a, max-age=3",
        ] {
            let read = response(&[("cache-control", value)]);
            assert_eq!(read.max_age, Some(0), "{value}");
        }
        let read = response(&[("cache-control", "max-age=99999999999999999999999")]);
        assert_eq!(read.max_age, Some(MAX_SECONDS));
    }

    #[test]
    fn a_field_for_shared_caches_replaces_cache_control() {
        let read = response(&[
            ("cache-control", "no-store"),
            ("cdn-cache-control", "max-age=60"),
        ]);
        assert!(read.targeted && !read.no_store && read.invites_shared());
        let read = response(&[("cache-control", "no-store"), ("cdn-cache-control", "")]);
        assert!(read.no_store && !read.targeted);
    }

    #[test]
    fn of_several_times_the_first_one_counts() {
        let read = response(&[(
            "cache-control",
            "max-age=3, s-maxage=5, max-age=0, s-maxage=7",
        )]);
        assert_eq!((read.max_age, read.s_maxage), (Some(3), Some(5)));
    }
}
