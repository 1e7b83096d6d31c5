//! The request line (RFC 9112 section 3): `method SP target SP version`, one space each.

use super::target::{self, Form};
use super::{Limits, Refusal, line};

/// Longer than every registered method (18 bytes); a longer one cannot be implemented here (501).
pub(super) const MAX_METHOD_BYTES: usize = 64;
/// ` HTTP/1.1`
const VERSION_BYTES: usize = 9;

pub(super) const METHOD_TOO_LONG: Refusal = Refusal::new(501, "the method is too long");

/// What the rest of the head is judged by.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RequestLine {
    pub(super) version_minor: u8,
    pub(super) is_head: bool,
    /// Where a target starts and ends that hyper would refuse as it is.
    pub(super) raw_target: Option<(usize, usize)>,
}

/// The longest request line that can be accepted, without its CRLF.
pub(super) fn max_bytes(limits: &Limits) -> usize {
    (MAX_METHOD_BYTES + 1 + VERSION_BYTES).saturating_add(limits.max_target_bytes)
}

/// The refusal of a line that is longer than [`max_bytes`] and begins with `line`: its method or its target is too long.
pub(super) fn too_long(line: &[u8]) -> Refusal {
    let start = &line[..line.len().min(MAX_METHOD_BYTES + 1)];
    if line::token_prefix(start) > MAX_METHOD_BYTES {
        METHOD_TOO_LONG
    } else {
        Refusal::new(414, "the request line is too long")
    }
}

/// Checks the line, and rewrites a minor version above 1.
pub(super) fn parse(line: &mut [u8], limits: &Limits) -> Result<RequestLine, Refusal> {
    let method_bytes = line::token_prefix(line);
    if method_bytes == 0 || line.get(method_bytes) != Some(&b' ') {
        return Err(Refusal::new(400, "the method is not a token"));
    }
    if method_bytes > MAX_METHOD_BYTES {
        return Err(METHOD_TOO_LONG);
    }
    let target_start = method_bytes + 1;
    let (target_bytes, is_raw) = target::length(&line[target_start..]);
    if target_bytes > limits.max_target_bytes {
        return Err(Refusal::new(414, "the request target is too long"));
    }
    let target_end = target_start + target_bytes;
    let minor_at = target_end + VERSION_BYTES - 1;
    let form = target::form(&line[target_start..target_end])?;
    let (major, minor) = version(&line[target_end..])?;
    if major != b'1' {
        return Err(Refusal::new(505, "the HTTP version is not 1"));
    }
    let method = &line[..method_bytes];
    if method == b"CONNECT" {
        return Err(Refusal::new(501, "CONNECT: this server is no proxy"));
    }
    match form {
        Form::Asterisk if method != b"OPTIONS" => {
            return Err(Refusal::new(
                400,
                "target * with a method other than OPTIONS",
            ));
        }
        Form::Other => {
            return Err(Refusal::new(
                400,
                "the request target is neither a path nor an http URI",
            ));
        }
        _ => {}
    }
    let is_head = method == b"HEAD";
    if minor > b'1' {
        line[minor_at] = b'1';
    }
    Ok(RequestLine {
        version_minor: u8::from(minor != b'0'),
        is_head,
        raw_target: is_raw.then_some((target_start, target_end)),
    })
}

/// The digits of ` HTTP/d.d`, which must be all that is left of the line.
fn version(rest: &[u8]) -> Result<(u8, u8), Refusal> {
    match *rest {
        [
            b' ',
            b'H',
            b'T',
            b'T',
            b'P',
            b'/',
            major @ b'0'..=b'9',
            b'.',
            minor @ b'0'..=b'9',
        ] => Ok((major, minor)),
        _ => Err(Refusal::new(
            400,
            "the request line does not end in a target and an HTTP version",
        )),
    }
}
