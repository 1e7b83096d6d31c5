//! Request targets and the host grammar (RFC 9112 section 3.2, RFC 3986 section 3.2.2). Checks; never decodes.

use std::net::Ipv6Addr;

use super::{Refusal, line};

/// Which form a target has (RFC 9112 section 3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// A path, with a query or without one.
    Origin,
    /// An http or https URI.
    Absolute,
    /// `*`
    Asterisk,
    /// Anything else: authority-form, a relative path, another scheme.
    Other,
}

/// What hyper takes in a path. RFC 3986 leaves out `"[\]^{|}`, but clients send them raw.
static PATH: line::Class = line::alphanumeric_and(b"!$%&'()*+,-./:;=@_~\"[\\]^{|}");
/// The same for a query.
static QUERY: line::Class = line::alphanumeric_and(b"!$%&'()*+,-./:;=@_~[\\]^{|}?`");
/// What clients send besides, and hyper refuses in a path or in a query. What is left out: control characters, the
/// space, `#` (a target has no fragment), `<` and `>` (Puma refuses them too).
const ELSEWHERE: &[u8] = b"\"`";
/// The classes of all that is taken.
static WIDE_PATH: line::Class = line::widened(&PATH, ELSEWHERE);
static WIDE_QUERY: line::Class = line::widened(&QUERY, ELSEWHERE);
/// What stands in for these before hyper.
const STAND_IN: u8 = b'_';
/// unreserved and sub-delims of RFC 3986. Percent-encoding is left out: it means nothing in a DNS name.
static REGISTERED_NAME: line::Class = line::alphanumeric_and(b"-._~!$&'()*+,;=");

/// Longer than every host and port: a DNS name has at most 253 bytes (RFC 1035 section 2.3.4). A longer one would not fit
/// into a request's record either.
const MAX_AUTHORITY_BYTES: usize = 1024;

/// A target with bytes that hyper refuses, as the client sent it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawTarget {
    bytes: Box<[u8]>,
    /// Where the path starts and where it ends.
    path: (usize, usize),
}

impl RawTarget {
    /// Keeps the target, and overwrites in place what hyper refuses: it is then a target of the same form and length.
    pub(super) fn mask(target: &mut [u8]) -> Self {
        let start = path_start(target);
        let path = line::prefix(&target[start..], &WIDE_PATH);
        let kept = Self {
            bytes: (&*target).into(),
            path: (start, start + path),
        };
        let (path, query) = target[start..].split_at_mut(path);
        for (part, class) in [(path, &PATH), (query, &QUERY)] {
            let refused = part.iter_mut().filter(|byte| !class[usize::from(**byte)]);
            refused.for_each(|byte| *byte = STAND_IN);
        }
        kept
    }

    /// The path; `/` where an absolute target has none (RFC 9112 section 3.2.2).
    pub fn path(&self) -> &[u8] {
        match &self.bytes[self.path.0..self.path.1] {
            b"" => b"/",
            path => path,
        }
    }

    /// The query, without the question mark.
    pub fn query(&self) -> &[u8] {
        self.bytes.get(self.path.1 + 1..).unwrap_or_default()
    }

    /// Path and query; of an absolute target either may be missing.
    pub fn path_and_query(&self) -> &[u8] {
        &self.bytes[self.path.0..]
    }
}

/// Where the path of a target starts, or would.
fn path_start(target: &[u8]) -> usize {
    let slashes = target.windows(3).position(|bytes| bytes == b"://");
    match slashes.filter(|_| !target.starts_with(b"/")) {
        Some(scheme) => {
            let authority = &target[scheme + 3..];
            scheme + 3 + authority_length(authority)
        }
        None => 0,
    }
}

/// How many of the first bytes belong to the target, and whether hyper refuses some of them.
#[inline]
pub(super) fn length(bytes: &[u8]) -> (usize, bool) {
    let length = length_of(bytes, &PATH, &QUERY);
    match bytes.get(length) {
        Some(&byte) if byte >= 0x80 || ELSEWHERE.contains(&byte) => {
            (length_of(bytes, &WIDE_PATH, &WIDE_QUERY), true)
        }
        _ => (length, false),
    }
}

#[inline]
fn length_of(bytes: &[u8], path: &line::Class, query: &line::Class) -> usize {
    let path = line::prefix(bytes, path);
    match bytes.get(path) {
        Some(b'?') => path + 1 + line::prefix(&bytes[path + 1..], query),
        _ => path,
    }
}

/// The form of a target that consists of target bytes only.
#[inline]
pub(super) fn form(target: &[u8]) -> Result<Form, Refusal> {
    match target {
        [b'/', ..] => Ok(Form::Origin),
        b"*" => Ok(Form::Asterisk),
        _ => absolute(target),
    }
}

fn absolute(target: &[u8]) -> Result<Form, Refusal> {
    let Some(after_scheme) =
        strip_scheme(target, b"http://").or_else(|| strip_scheme(target, b"https://"))
    else {
        return Ok(Form::Other);
    };
    if is_authority(&after_scheme[..authority_length(after_scheme)]) {
        Ok(Form::Absolute)
    } else {
        // User information is refused here too (RFC 9110 section 4.2.4).
        Err(Refusal::new(400, "the request target's host is invalid"))
    }
}

/// How many of the bytes after `://` are before the path and the query.
fn authority_length(after_scheme: &[u8]) -> usize {
    after_scheme
        .iter()
        .position(|byte| matches!(byte, b'/' | b'?'))
        .unwrap_or(after_scheme.len())
}

fn strip_scheme<'a>(target: &'a [u8], scheme: &[u8]) -> Option<&'a [u8]> {
    let (start, rest) = target.split_at_checked(scheme.len())?;
    start.eq_ignore_ascii_case(scheme).then_some(rest)
}

/// Whether this is `host [":" port]` with a host (RFC 9110 section 4.2.1: an empty one is invalid).
pub(super) fn is_authority(bytes: &[u8]) -> bool {
    let host_bytes = match bytes {
        [b'[', rest @ ..] => match rest.iter().position(|&byte| byte == b']') {
            Some(end) if is_ipv6(&rest[..end]) => end + 2,
            _ => return false,
        },
        _ => line::prefix(bytes, &REGISTERED_NAME),
    };
    host_bytes > 0 && bytes.len() <= MAX_AUTHORITY_BYTES && is_port(&bytes[host_bytes..])
}

fn is_ipv6(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok_and(|text| text.parse::<Ipv6Addr>().is_ok())
}

/// Nothing, or a colon and up to 65535; RFC 3986 lets the digits be absent.
fn is_port(bytes: &[u8]) -> bool {
    match bytes {
        [] => true,
        [b':', digits @ ..] => {
            digits.len() <= 5
                && digits.iter().all(u8::is_ascii_digit)
                && digits
                    .iter()
                    .fold(0_u32, |port, digit| port * 10 + u32::from(digit - b'0'))
                    <= 65535
        }
        _ => false,
    }
}
