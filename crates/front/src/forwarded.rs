//! Whom to believe about the client: which fields of a request reach the application, and over which scheme
//! the client came. Pure; who is trusted was decided before.
//!
//! REMOTE_ADDR stays the peer's address in every case: frameworks find the client in X-Forwarded-For with
//! trust lists of their own.

use http::HeaderMap;
use http::header::HeaderName;

const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// Fields by which a proxy speaks for a client, beside X-Forwarded-*. Rack and Rails act on each of them;
/// X-Sendfile-Type and X-Accel-Mapping choose which files Rack::Sendfile names to the proxy.
const OTHER_FORWARDING: [&str; 9] = [
    "forwarded",
    "x-real-ip",
    "x-request-start",
    "x-client-ip",
    "client-ip",
    "x-url-scheme",
    "x-cluster-client-ip",
    "x-sendfile-type",
    "x-accel-mapping",
];

/// Whether the field must not reach the application, from a peer that is `trusted` or not.
///
/// Nobody's names with an underscore are let in: in the env they could not be told from those with a hyphen,
/// which a proxy in front has set or removed. Nor is `Proxy`, which would become HTTP_PROXY (CVE-2016-5388).
pub fn is_dropped(name: &HeaderName, trusted: bool) -> bool {
    let name = name.as_str();
    name.bytes().any(|byte| byte == b'_') || name == "proxy" || (!trusted && is_forwarding(name))
}

/// Whether only a trusted proxy may send the field.
fn is_forwarding(name: &str) -> bool {
    // Most names are told apart by their first byte.
    match name.as_bytes().first() {
        Some(b'x' | b'f' | b'c') => {
            name.starts_with("x-forwarded-") || OTHER_FORWARDING.contains(&name)
        }
        _ => false,
    }
}

/// The scheme by which the client came, as in `rack.url_scheme`: a trusted peer's word, the last in
/// X-Forwarded-Proto (what the nearest proxy said), otherwise that of the connection itself, `http`.
pub fn scheme(headers: &HeaderMap, trusted: bool) -> &'static str {
    if !trusted {
        return "http";
    }
    let said = headers.get_all(X_FORWARDED_PROTO).iter().next_back();
    let last = said.and_then(|value| value.as_bytes().rsplit(|&byte| byte == b',').next());
    match last {
        Some(last) if last.trim_ascii().eq_ignore_ascii_case(b"https") => "https",
        _ => "http",
    }
}

#[cfg(test)]
mod tests {
    use http::header::HeaderName;
    use http::{HeaderMap, HeaderValue};

    use super::scheme;

    fn is_dropped(name: &'static str, trusted: bool) -> bool {
        super::is_dropped(&HeaderName::from_static(name), trusted)
    }

    fn proto(values: &[&'static str]) -> HeaderMap {
        let values = values.iter().copied().map(HeaderValue::from_static);
        values
            .map(|value| (super::X_FORWARDED_PROTO, value))
            .collect()
    }

    #[test]
    fn forwarding_fields_are_for_trusted_peers_only() {
        for name in [
            "x-forwarded-for",
            "x-forwarded-proto",
            "x-forwarded-host",
            "x-forwarded-port",
            "x-forwarded-ssl",
            "x-forwarded-scheme",
            "x-forwarded-prefix",
            "forwarded",
            "x-real-ip",
            "client-ip",
            "x-sendfile-type",
        ] {
            assert!(!is_dropped(name, true) && is_dropped(name, false), "{name}");
        }
    }

    #[test]
    fn other_fields_are_for_all() {
        for name in [
            "host",
            "x-forwarded",
            "x-requested-with",
            "cookie",
            "from",
            "proxy-authorization",
        ] {
            assert!(
                !is_dropped(name, true) && !is_dropped(name, false),
                "{name}"
            );
        }
    }

    #[test]
    fn names_with_an_underscore_and_proxy_are_for_nobody() {
        for name in [
            "x_forwarded_for",
            "x-forwarded_for",
            "content_length",
            "_",
            "proxy",
        ] {
            assert!(is_dropped(name, true) && is_dropped(name, false), "{name}");
        }
    }

    #[test]
    fn the_scheme_is_the_last_word_of_a_trusted_peer() {
        for (values, expected) in [
            (&[][..], "http"),
            (&["https"], "https"),
            (&["HTTPS"], "https"),
            (&["http"], "http"),
            (&["http, https"], "https"),
            (&["https , http "], "http"),
            (&["http,\thttps "], "https"),
            (&["https,"], "http"),
            (&["http", "https"], "https"),
            (&["https", "http"], "http"),
            (&["ftp"], "http"),
            (&["https://"], "http"),
            (&[""], "http"),
        ] {
            assert_eq!(scheme(&proto(values), true), expected, "{values:?}");
            assert_eq!(scheme(&proto(values), false), "http", "{values:?}");
        }
    }
}
