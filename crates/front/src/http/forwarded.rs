//! Whom to believe about the client: which fields of a request reach the application, and over which scheme
//! the client came. Pure; who is trusted was decided before.
//!
//! REMOTE_ADDR stays the peer's address in every case: frameworks find the client in X-Forwarded-For with
//! trust lists of their own.

use http::HeaderMap;
use http::header::HeaderName;

const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// Fields by which a proxy speaks for a client: frameworks, middleware and applications act on each of them, so that
/// a peer that may send one chooses the address, the scheme, the host or the path that they see. A name that ends with a
/// hyphen stands for all that begin with it. [`is_forwarding`] looks at the first two bytes before it searches here.
const FORWARDING: [&str; 33] = [
    // The client's address, scheme, host and port (RFC 7239, and what came before it).
    "forwarded",
    "forwarded-",
    "x-forwarded",
    "x-forwarded-",
    // The client's address: Rack, Rails (`ActionDispatch::RemoteIp`) and middleware believe these.
    "client-ip",
    "x-client-ip",
    "x-cluster-client-ip",
    "x-real-ip",
    "x-remote-ip",
    "x-remote-addr",
    "x-originating-ip",
    "x-proxyuser-ip",
    "true-client-ip",
    // Address, scheme and country, as content delivery networks send them: Cloudflare, Fastly, Fly, Azure, Akamai, Envoy.
    "cf-",
    "fastly-",
    "fly-",
    "x-azure-",
    "x-akamai-edgescape",
    "x-envoy-external-address",
    "x-envoy-original-path",
    // The scheme (Rack::Request, Microsoft's proxies).
    "front-end-https",
    "x-url-scheme",
    "x-scheme",
    // The host and the path in place of those of the request (IIS, Zend, Symfony), and what a proxy replaced.
    "x-host",
    "x-http-host-override",
    "x-original-",
    "x-rewrite-",
    // When the request came, from which middleware computes how long it waited.
    "x-request-start",
    "x-queue-start",
    // Which files Rack::Sendfile names to a proxy, and where that finds them (CVE-2025-61780).
    "x-sendfile-",
    "x-accel-",
    "x-lighttpd-send-file",
    // The certificate that a client showed to the proxy.
    "x-ssl-client-",
];

/// Whether the field must not reach the application, from a peer that is `trusted` or not.
///
/// Names with an underscore are dropped from every peer: in the env they equal those with a hyphen, which a proxy in
/// front has set or removed. Nor is `Proxy`, which would become HTTP_PROXY (CVE-2016-5388).
pub fn is_dropped(name: &HeaderName, trusted: bool) -> bool {
    let name = name.as_str();
    name.bytes().any(|byte| byte == b'_') || name == "proxy" || (!trusted && is_forwarding(name))
}

/// Whether only a trusted proxy may send the field.
fn is_forwarding(name: &str) -> bool {
    let fits = |known: &&str| match known.ends_with('-') {
        true => name.starts_with(*known),
        false => name == *known,
    };
    // The first two bytes already exclude nearly all other names.
    match name.as_bytes() {
        [b'x', b'-', ..] | [b'c', b'f' | b'l', ..] | [b't', b'r', ..] | [b'f', ..] => {
            FORWARDING.iter().any(fits)
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
            "x-forwarded",
            "cf-connecting-ip",
            "true-client-ip",
            "x-original-url",
        ] {
            assert!(!is_dropped(name, true) && is_dropped(name, false), "{name}");
        }
    }

    #[test]
    fn every_field_of_the_table_is_for_trusted_peers_only() {
        for name in super::FORWARDING {
            let name = format!("{name}{}", if name.ends_with('-') { "b" } else { "" });
            assert!(super::is_forwarding(&name), "{name}");
        }
    }

    #[test]
    fn other_fields_are_for_all() {
        for name in [
            "host",
            "x-requested-with",
            "x-request-id",
            "x-http-method-override",
            "x-forwardedness",
            "x-hostage",
            "content-type",
            "trailer",
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
    fn names_with_an_underscore_and_proxy_are_always_dropped() {
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
