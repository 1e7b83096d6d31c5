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

/// What may stand in a path. RFC 3986 leaves out `"[\]^{|}`, but clients send them raw, and the application
/// sees the path undecoded. `#` is out: a target has no fragment.
static PATH: line::Class = line::alphanumeric_and(b"!$%&'()*+,-./:;=@_~\"[\\]^{|}");
/// What may stand in a query; the same, with what the WHATWG URL standard leaves raw there.
static QUERY: line::Class = line::alphanumeric_and(b"!$%&'()*+,-./:;=@_~[\\]^{|}?`");
/// unreserved and sub-delims of RFC 3986. Percent-encoding is left out: it means nothing in a DNS name.
static REGISTERED_NAME: line::Class = line::alphanumeric_and(b"-._~!$&'()*+,;=");

/// Longer than every host and port: a DNS name has at most 253 bytes (RFC 1035 section 2.3.4). A longer one would not fit
/// into a request's record either.
const MAX_AUTHORITY_BYTES: usize = 1024;

/// How many of the first bytes belong to the target.
#[inline]
pub(super) fn length(bytes: &[u8]) -> usize {
    let path = line::prefix(bytes, &PATH);
    match bytes.get(path) {
        Some(b'?') => path + 1 + line::prefix(&bytes[path + 1..], &QUERY),
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
    let end = after_scheme
        .iter()
        .position(|byte| matches!(byte, b'/' | b'?'))
        .unwrap_or(after_scheme.len());
    if is_authority(&after_scheme[..end]) {
        Ok(Form::Absolute)
    } else {
        // User information is refused here too (RFC 9110 section 4.2.4).
        Err(Refusal::new(400, "the request target's host is invalid"))
    }
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
