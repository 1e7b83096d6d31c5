//! Whom to believe about the client: which fields of a request reach the application, and over which scheme
//! the client came. Pure; who is trusted was decided before.
//!
//! REMOTE_ADDR stays the peer's address in every case: frameworks find the client in X-Forwarded-For with
//! trust lists of their own.

use std::net::{IpAddr, SocketAddr};

use config::AddressList;
use http::HeaderMap;
use http::header::HeaderName;

use crate::http::request::{Peer, Request};

const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
/// The most proxies that are followed back to the client.
const FORWARDED_HOPS: usize = 32;

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

/// Whether a peer that is not trusted speaks for a client with this field.
pub fn is_untrusted(name: &HeaderName, trusted: bool) -> bool {
    !trusted && is_forwarding(name.as_str())
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
/// X-Forwarded-Proto (what the nearest proxy said), otherwise that of the connection itself.
pub fn scheme(headers: &HeaderMap, peer: &Peer) -> &'static str {
    if !peer.trusted {
        return peer.scheme();
    }
    let said = headers.get_all(X_FORWARDED_PROTO).iter().next_back();
    let last = said.and_then(|value| value.as_bytes().rsplit(|&byte| byte == b',').next());
    match last {
        Some(last) if last.trim_ascii().eq_ignore_ascii_case(b"https") => "https",
        Some(_) => "http",
        None => peer.scheme(),
    }
}

/// The address of the client, as far as trusted proxies vouch for it; none for a peer on a UNIX socket that names nobody.
///
/// X-Forwarded-For is read from the right, where the nearest proxy wrote: the first address that is not a trusted proxy's is
/// the client's. What is left of it may be the client's invention. Where every peer is trusted, only the nearest proxy's word
/// counts, for all others could be inventions too.
pub fn client_address(request: &Request, trusted: &AddressList) -> Option<IpAddr> {
    let peer = &request.peer;
    // A UNIX socket's peer has no port.
    let own = (peer.port != 0)
        .then(|| peer.address.parse().ok())
        .flatten();
    match peer.trusted {
        true => named_client(&request.headers, trusted).or(own),
        false => own,
    }
}

/// The client that X-Forwarded-For names; none where there is no such field, or its last entry is no address.
fn named_client(headers: &HeaderMap, trusted: &AddressList) -> Option<IpAddr> {
    let hops = match trusted.contains_everyone() {
        true => 1,
        false => FORWARDED_HOPS,
    };
    let values = headers.get_all(X_FORWARDED_FOR).iter().rev();
    let entries = values.flat_map(|value| value.as_bytes().rsplit(|&byte| byte == b','));
    let mut client = None;
    for entry in entries.take(hops) {
        // An entry that is no address does not say who is left of it.
        let Some(address) = address(entry) else { break };
        client = Some(address);
        if !trusted.contains(address) {
            break;
        }
    }
    client
}

/// The address in an entry of X-Forwarded-For, with or without a port.
fn address(entry: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(entry.trim_ascii()).ok()?;
    let bare = text
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'));
    let address = bare.unwrap_or(text).parse().ok();
    let address = address.or_else(|| text.parse().ok().map(|address: SocketAddr| address.ip()));
    address.map(|address| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use config::AddressList;
    use http::header::HeaderName;
    use http::{HeaderMap, HeaderValue};

    use super::scheme;
    use crate::http::request::Peer;
    use crate::net::tls::facts::TlsFacts;

    fn peer(trusted: bool, tls: bool) -> Peer {
        let facts = TlsFacts {
            version: "TLSv1.3",
            cipher: String::new(),
            server_name: None,
            protocol: None,
            client: None,
            asks_client: false,
            is_resumed: false,
        };
        Peer {
            address: "192.0.2.1".to_owned(),
            port: 1,
            local_host: "localhost".to_owned(),
            local_port: 80,
            trusted,
            tls: tls.then(|| Box::new(facts)),
            proxied: false,
        }
    }

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
    fn the_client_is_the_last_address_that_is_no_trusted_proxy() {
        let trusted = ["10.0.0.0/8", "::1"];
        let check = |trusted: &[&str], values: &[&str], expect: Option<&str>| {
            let list = AddressList::parse(trusted).expect("good items");
            let values = values.iter().map(|value| HeaderValue::from_str(value));
            let headers: HeaderMap = values
                .map(|value| (super::X_FORWARDED_FOR, value.expect("a value")))
                .collect();
            let expect = expect.map(|address| address.parse().expect("an address"));
            assert_eq!(super::named_client(&headers, &list), expect, "{headers:?}");
        };
        check(&trusted, &[], None);
        check(&trusted, &["192.0.2.1"], Some("192.0.2.1"));
        check(&trusted, &["192.0.2.1:4711"], Some("192.0.2.1"));
        check(&trusted, &["[2001:db8::1]:4711"], Some("2001:db8::1"));
        check(&trusted, &["[2001:db8::1]"], Some("2001:db8::1"));
        check(&trusted, &["::ffff:192.0.2.1"], Some("192.0.2.1"));
        // What the client wrote itself is on the left.
        check(
            &trusted,
            &["127.0.0.1, 192.0.2.1, 10.0.0.7"],
            Some("192.0.2.1"),
        );
        check(
            &trusted,
            &["198.51.100.1", "192.0.2.1", "10.0.0.7, ::1"],
            Some("192.0.2.1"),
        );
        check(&trusted, &["10.0.0.1, 10.0.0.2"], Some("10.0.0.1"));
        check(&trusted, &["192.0.2.1, unknown"], None);
        check(
            &trusted,
            &["192.0.2.1, unknown, 10.0.0.7"],
            Some("10.0.0.7"),
        );
        check(&trusted, &["192.0.2.1,"], None);
        check(&["all"], &["198.51.100.1, 192.0.2.1"], Some("192.0.2.1"));
        let long = format!("192.0.2.1{}", ", 10.0.0.7".repeat(10_000));
        check(&trusted, &[&long], Some("10.0.0.7"));
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
            assert_eq!(
                scheme(&proto(values), &peer(true, false)),
                expected,
                "{values:?}"
            );
            assert_eq!(
                scheme(&proto(values), &peer(false, false)),
                "http",
                "{values:?}"
            );
            assert_eq!(
                scheme(&proto(values), &peer(false, true)),
                "https",
                "{values:?}"
            );
        }
        assert_eq!(scheme(&proto(&[]), &peer(true, true)), "https");
        assert_eq!(scheme(&proto(&["http"]), &peer(true, true)), "http");
    }
}
