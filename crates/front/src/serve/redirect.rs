//! Redirections of requests that came without TLS, or for another host than the one that the settings want. It never names a
//! host that the client made up. And what browsers are told of TLS.

use bytes::Bytes;
use config::Settings;
use http::header::{self, HeaderValue};
use http::{HeaderMap, Method, Response, StatusCode};

use crate::http::forwarded;
use crate::http::request::Request;
use crate::http::response_body::ResponseBody;
use crate::http::transaction::Transaction;
use crate::net::tls::Tls;
use crate::serve::challenge;
const HTTPS_PORT: u16 = 443;

/// Returns the redirection of a request that should have come another way.
pub(crate) fn answer(transaction: &Transaction) -> Option<Response<ResponseBody>> {
    let (edge, request) = (&transaction.edge, &transaction.request);
    let settings = transaction.application.settings.get();
    let location = location(&settings, &edge.tls, request)?;
    let status = match request.method {
        Method::GET | Method::HEAD => StatusCode::MOVED_PERMANENTLY,
        // It keeps the method and the body (RFC 9110 section 15.4.9).
        _ => StatusCode::PERMANENT_REDIRECT,
    };
    let text = Some(Bytes::from(format!("{}\n", status.canonical_reason()?)));
    let body = ResponseBody::own(transaction, text, status, None);
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::LOCATION, HeaderValue::from_str(&location).ok()?);
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    headers.insert(header::CONTENT_TYPE, kind);
    Some(response)
}

/// Tells browsers that come by TLS to do so from now on, if the settings want that (RFC 6797 section 7.1).
pub(crate) fn promise_tls(transaction: &Transaction, headers: &mut HeaderMap) {
    if transaction.request.peer.tls.is_none() {
        return;
    }
    let settings = transaction.application.settings.get();
    let value = settings
        .hsts
        .as_ref()
        .map(|hsts| HeaderValue::from_str(hsts.header()));
    if let Some(Ok(value)) = value {
        let entry = headers.entry(header::STRICT_TRANSPORT_SECURITY);
        entry.or_insert(value);
    }
}

/// Where the request belongs, if not here.
fn location(settings: &Settings, tls: &Tls, request: &Request) -> Option<String> {
    let tls_port = tls.port().filter(|_| settings.tls_redirect);
    if tls_port.is_none() && settings.canonical_host.is_none() {
        return None;
    }
    let (host, port) = split(request.host()?);
    let host = host.to_ascii_lowercase();
    let scheme = forwarded::scheme(&request.headers, &request.peer);
    let canonical = settings.canonical_host.as_ref();
    let wanted = canonical.map_or(&host, |canonical| canonical);
    // Without a certificate there is no way to this host by TLS.
    let tls_port = tls_port.filter(|_| scheme == "http" && tls.certificates.knows(wanted));
    if (tls_port.is_none() && *wanted == host) || is_exempt(settings, request) {
        return None;
    }
    let authority = match (tls_port, port) {
        // Who names a port asks this machine itself. Who names none may ask something in front of it, with other ports.
        (Some(tls_port), Some(_)) if tls_port != HTTPS_PORT => format!("{wanted}:{tls_port}"),
        (None, Some(port)) => format!("{wanted}:{port}"),
        _ => wanted.clone(),
    };
    let scheme = if tls_port.is_some() { "https" } else { scheme };
    let target = printable(request.target());
    Some(format!("{scheme}://{authority}{target}"))
}

/// Whether requests for this path are always answered where they come: health checks follow no redirection.
fn is_exempt(settings: &Settings, request: &Request) -> bool {
    request.full_path().starts_with(challenge::PREFIX)
        || settings.priority_paths.find(request.path()).is_some()
}

/// Host and port of an authority.
fn split(authority: &str) -> (&str, Option<u16>) {
    match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()),
        _ => (authority, None),
    }
}

/// A target in ASCII; what a client should have escaped is escaped.
fn printable(target: &[u8]) -> String {
    let mut text = String::with_capacity(target.len());
    for &byte in target {
        match byte {
            b'!'..=b'~' => text.push(char::from(byte)),
            _ => text += &format!("%{byte:02X}"),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_port_is_not_a_part_of_an_address() {
        assert_eq!(super::split("a.test"), ("a.test", None));
        assert_eq!(super::split("a.test:80"), ("a.test", Some(80)));
        assert_eq!(super::split("[::1]"), ("[::1]", None));
        assert_eq!(super::split("[::1]:80"), ("[::1]", Some(80)));
    }

    #[test]
    fn a_target_has_no_byte_that_could_end_a_line() {
        assert_eq!(super::printable(b"/a\xc3?b=\r\n"), "/a%C3?b=%0D%0A");
    }
}
