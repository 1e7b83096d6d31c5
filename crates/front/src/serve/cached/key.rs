//! The key of a request in the cache: the URL that its client used. It looks at nothing else of the request.

use ::cache::Key;
use http::header::{self, HeaderName};

use crate::http::forwarded;
use crate::http::request::Request;

/// What a trusted proxy says of the URL that the client used: applications put it into links.
const OF_THE_URL: [HeaderName; 5] = [
    HeaderName::from_static("x-forwarded-host"),
    HeaderName::from_static("x-forwarded-port"),
    HeaderName::from_static("x-forwarded-prefix"),
    HeaderName::from_static("x-forwarded-ssl"),
    HeaderName::from_static("forwarded"),
];

/// The key of a request: the URL that its client used.
pub(in crate::serve) fn key(request: &Request) -> Key {
    key_of(request, request.target())
}

/// The key of another target of the same host.
pub(super) fn key_of(request: &Request, target: &[u8]) -> Key {
    let scheme = forwarded::scheme(&request.headers, &request.peer);
    let host = match request.authority() {
        Some(authority) => authority.as_str().as_bytes(),
        None => request
            .headers
            .get(header::HOST)
            .map_or(&b""[..], |host| host.as_bytes()),
    };
    let key = Key::new(scheme, host, target);
    if !request.peer.trusted {
        return key;
    }
    let mut said = Vec::new();
    for name in &OF_THE_URL {
        for value in request.headers.get_all(name) {
            said.extend_from_slice(name.as_str().as_bytes());
            said.push(b':');
            said.extend_from_slice(value.as_bytes());
            said.push(b' ');
        }
    }
    match said.is_empty() {
        true => key,
        false => key.and(&said),
    }
}
