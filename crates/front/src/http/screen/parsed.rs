//! The screen's rules for a head that another parser has read already: that of HTTP/2, where fields have no lines. It reads
//! no bytes of a connection and never looks at a body.

use http::header::{self, HeaderName};
use http::{HeaderMap, Method, Uri};

use super::fields::{MAX_NAME_BYTES, TOO_LARGE};
use super::request_line::{MAX_METHOD_BYTES, METHOD_TOO_LONG};
use super::{Limits, Refusal, target};

/// What a field line of HTTP/1.1 has beside name and value: colon, space and CRLF. The limits are those of lines.
const LINE_EXTRA_BYTES: usize = 4;

/// Checks the head of a request of HTTP/2 (RFC 9113 section 8.3.1) by the rules and limits that hold in HTTP/1.1. `tunnel`
/// says whether its CONNECT names a protocol that is served (RFC 8441).
///
/// # Errors
/// The refusal: the stream is answered with it.
pub fn check_parsed(
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
    tunnel: bool,
    limits: &Limits,
) -> Result<(), Refusal> {
    if method.as_str().len() > MAX_METHOD_BYTES {
        return Err(METHOD_TOO_LONG);
    }
    if method == Method::CONNECT && !tunnel {
        return Err(Refusal::new(501, "CONNECT: this server is no proxy"));
    }
    check_target(method, uri, limits)?;
    check_host(uri, headers)?;
    check_fields(headers, limits)
}

fn check_target(method: &Method, uri: &Uri, limits: &Limits) -> Result<(), Refusal> {
    let scheme = uri.scheme_str().unwrap_or("http");
    if !["http", "https"].contains(&scheme) {
        return Err(Refusal::new(400, "a scheme other than http and https"));
    }
    let target = uri.path_and_query().map_or("", |target| target.as_str());
    let target = target.as_bytes();
    if target.len() > limits.max_target_bytes {
        return Err(Refusal::new(414, "the request target is too long"));
    }
    match target {
        b"*" if method != Method::OPTIONS => Err(Refusal::new(
            400,
            "target * with a method other than OPTIONS",
        )),
        b"*" => Ok(()),
        [b'/', ..] if target::length(target).0 == target.len() => Ok(()),
        _ => Err(Refusal::new(400, "the request target is not a path")),
    }
}

/// There is one host: `:authority`, a Host field, or both with the same value (RFC 9113 section 8.3.1).
fn check_host(uri: &Uri, headers: &HeaderMap) -> Result<(), Refusal> {
    let mut hosts = headers.get_all(header::HOST).iter();
    let field = hosts.next().map(|host| host.as_bytes());
    if hosts.next().is_some() {
        return Err(Refusal::new(400, "more than one Host"));
    }
    let authority = uri
        .authority()
        .map(|authority| authority.as_str().as_bytes());
    match (authority, field) {
        (None, None) => Err(Refusal::new(400, "no Host")),
        (Some(authority), Some(field)) if !authority.eq_ignore_ascii_case(field) => {
            Err(Refusal::new(400, "Host is not the :authority"))
        }
        (Some(host), _) | (None, Some(host)) if target::is_authority(host) => Ok(()),
        _ => Err(Refusal::new(400, "an invalid Host")),
    }
}

fn check_fields(headers: &HeaderMap, limits: &Limits) -> Result<(), Refusal> {
    let mut lines = Lines::default();
    // Clients split one Cookie into many fields (RFC 9113 section 8.2.3); the application gets one.
    let mut cookie = None;
    for (name, value) in headers {
        if *name == header::COOKIE {
            let joined = cookie.map_or(0, |bytes| bytes + 2);
            cookie = Some(joined + value.len());
            continue;
        }
        lines.add(name, value.len(), limits)?;
    }
    if let Some(bytes) = cookie {
        lines.add(&header::COOKIE, bytes, limits)?;
    }
    let single = |name| headers.get_all(name).iter().nth(1).is_none();
    if !single(header::CONTENT_TYPE) {
        return Err(Refusal::new(400, "more than one Content-Type"));
    }
    if !single(header::CONTENT_LENGTH) {
        return Err(Refusal::new(400, "more than one Content-Length"));
    }
    let length = headers.get(header::CONTENT_LENGTH);
    let length = length.and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if length.is_some_and(|length| length > limits.max_body_bytes) {
        return Err(Refusal::new(413, "the declared body is too large"));
    }
    let mut expected = headers.get_all(header::EXPECT).iter();
    if expected.any(|value| !value.as_bytes().eq_ignore_ascii_case(b"100-continue")) {
        return Err(Refusal::new(417, "an expectation other than 100-continue"));
    }
    Ok(())
}

/// The field lines seen so far.
#[derive(Default)]
struct Lines {
    count: usize,
    bytes: usize,
}

impl Lines {
    fn add(&mut self, name: &HeaderName, value: usize, limits: &Limits) -> Result<(), Refusal> {
        let bytes = name.as_str().len() + value + LINE_EXTRA_BYTES;
        self.count += 1;
        self.bytes += bytes;
        if name.as_str().len() > MAX_NAME_BYTES {
            return Err(Refusal::new(TOO_LARGE, "a header field name is too long"));
        }
        if self.count > limits.max_header_count {
            return Err(Refusal::new(TOO_LARGE, "too many header fields"));
        }
        if bytes - 2 > limits.max_field_bytes {
            return Err(Refusal::new(TOO_LARGE, "a header field is too large"));
        }
        if self.bytes > limits.max_header_bytes {
            return Err(Refusal::new(
                TOO_LARGE,
                "the header fields are too large together",
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    const LIMITS: Limits = Limits {
        max_target_bytes: 20,
        max_header_count: 4,
        max_header_bytes: 200,
        max_field_bytes: 100,
        max_body_bytes: 1000,
    };

    fn status(method: &str, uri: &str, fields: &[(&str, &str)]) -> u16 {
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        let (parts, ()) = request.body(()).expect("a request").into_parts();
        let checked = check_parsed(&parts.method, &parts.uri, &parts.headers, false, &LIMITS);
        checked.map_or_else(|refusal| refusal.status, |()| 200)
    }

    #[test]
    fn methods_targets_and_hosts_have_the_rules_of_http_1() {
        let long = format!("http://a/{}", "x".repeat(19));
        let longer = format!("{long}x");
        for (method, uri, expected) in [
            ("GET", "http://a/", 200),
            ("GET", "https://a:8080/b?c=%00", 200),
            ("GET", "/", 400),
            ("GET", "ftp://a/", 400),
            ("GET", "http://u@a/", 400),
            ("GET", "http://a:99999/", 400),
            ("GET", &long, 200),
            ("GET", &longer, 414),
            ("CONNECT", "http://a/", 501),
            (&"M".repeat(64), "http://a/", 200),
            (&"M".repeat(65), "http://a/", 501),
        ] {
            assert_eq!(status(method, uri, &[]), expected, "{method} {uri}");
        }
        assert_eq!(status("GET", "/", &[("host", "a")]), 200);
        assert_eq!(status("GET", "/", &[("host", "a b")]), 400);
        assert_eq!(status("GET", "/", &[("host", "a"), ("host", "a")]), 400);
        assert_eq!(status("GET", "http://a/", &[("host", "A")]), 200);
        assert_eq!(status("GET", "http://a/", &[("host", "b")]), 400);
        assert_eq!(status("OPTIONS", "*", &[("host", "a")]), 200);
        assert_eq!(status("GET", "*", &[("host", "a")]), 400);
    }

    #[test]
    fn fields_have_the_limits_of_http_1_and_cookies_count_as_one() {
        let value = |bytes: usize| "x".repeat(bytes);
        // `a: ` and the value are a line.
        assert_eq!(status("GET", "http://a/", &[("a", &value(97))]), 200);
        assert_eq!(status("GET", "http://a/", &[("a", &value(98))]), 431);
        let two = |last: usize| {
            let (first, last) = (value(97), value(last));
            status("GET", "http://a/", &[("a", &first), ("b", &last)])
        };
        assert_eq!((two(93), two(94)), (200, 431));
        let fields = |name: &'static str, count| vec![(name, "x"); count];
        assert_eq!(status("GET", "http://a/", &fields("a", 4)), 200);
        assert_eq!(status("GET", "http://a/", &fields("a", 5)), 431);
        assert_eq!(status("GET", "http://a/", &fields("cookie", 20)), 200);
        assert_eq!(status("GET", "http://a/", &fields("cookie", 40)), 431);
        let name = value(MAX_NAME_BYTES + 1);
        assert_eq!(status("GET", "http://a/", &[(&name, "")]), 431);
    }

    #[test]
    fn length_type_and_expectation_are_judged_as_in_http_1() {
        let one = |name, value| status("POST", "http://a/", &[(name, value)]);
        assert_eq!(one("content-length", "1000"), 200);
        assert_eq!(one("content-length", "1001"), 413);
        assert_eq!(one("expect", "100-Continue"), 200);
        assert_eq!(one("expect", "other"), 417);
        let types = [("content-type", "a/b"), ("content-type", "a/b")];
        assert_eq!(status("POST", "http://a/", &types), 400);
    }
}
