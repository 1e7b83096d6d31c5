//! Which bytes of a file a client asks for (RFC 9110 section 14). It reads no file.

use std::hash::{BuildHasher, RandomState};
use std::ops::Range;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Method, header};

use crate::serve::preconditions::{self, Validators};

/// Ranges beyond these have the whole file sent: each costs a head of its own.
const MAX_RANGES: usize = 8;
/// The most that is sent of a file in several parts, in bytes: they are put together in memory.
const MAX_PARTS_BYTES: u64 = 256 * 1024;

/// What is to be sent of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// All of it.
    All,
    /// These parts, in the order of the field; never none, and none of them empty.
    Parts(Vec<Range<u64>>),
    /// Nothing: it ends before all of the ranges (RFC 9110 section 15.5.17).
    Unsatisfiable,
}

/// What a request wants of a file of `length` bytes.
pub fn wanted(method: &Method, request: &HeaderMap, file: &Validators, length: u64) -> Wanted {
    let Some(range) = request.get(header::RANGE) else {
        return Wanted::All;
    };
    let (etag, modified) = (Some(&file.etag), Some(file.modified_s));
    // Only GET has ranges (RFC 9110 section 14.2).
    if *method != Method::GET || !preconditions::range_holds(request, etag, modified) {
        return Wanted::All;
    }
    match parse(range.as_bytes(), length) {
        Wanted::Parts(parts) if parts.len() > 1 && sum(&parts) > MAX_PARTS_BYTES => Wanted::All,
        wanted => wanted,
    }
}

fn sum(parts: &[Range<u64>]) -> u64 {
    parts.iter().map(|part| part.end - part.start).sum()
}

/// Reads the value of a field `Range` for a file of `length` bytes. A field that is malformed or asks for too much is
/// ignored.
pub fn parse(field: &[u8], length: u64) -> Wanted {
    let ranges = field
        .split_at_checked(6)
        .filter(|(unit, _)| unit.eq_ignore_ascii_case(b"bytes="));
    let Some((_, ranges)) = ranges.filter(|_| length > 0) else {
        return Wanted::All;
    };
    let mut parts: Vec<Range<u64>> = Vec::new();
    let mut count = 0;
    for range in ranges.split(|&byte| byte == b',') {
        count += 1;
        match parse_one(range.trim_ascii(), length) {
            Some(_) if count > MAX_RANGES => return Wanted::All,
            Some(part) if part.is_empty() => {}
            Some(part) => parts.push(part),
            None => return Wanted::All,
        }
    }
    let bytes = sum(&parts);
    match parts.len() {
        0 => Wanted::Unsatisfiable,
        // Ranges that overlap would send more than there is.
        _ if bytes > length => Wanted::All,
        _ => Wanted::Parts(parts),
    }
}

/// One range; empty where the file ends before it, none where it is malformed.
fn parse_one(range: &[u8], length: u64) -> Option<Range<u64>> {
    let dash = range.iter().position(|&byte| byte == b'-')?;
    let (first, last) = (&range[..dash], &range[dash + 1..]);
    match (first, last) {
        (b"", last) => Some(length.saturating_sub(number(last)?)..length),
        (first, b"") => Some(number(first)?.min(length)..length),
        (first, last) => {
            let (first, last) = (number(first)?, number(last)?);
            (first <= last).then(|| first.min(length)..last.saturating_add(1).min(length))
        }
    }
}

/// A number, or the largest where it is larger.
fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let add = |sum: u64, digit: &u8| sum.saturating_mul(10).saturating_add((digit - b'0').into());
    Some(digits.iter().fold(0, add))
}

/// The value of `Content-Range` for a part.
pub fn content_range(part: &Range<u64>, length: u64) -> String {
    format!("bytes {}-{}/{length}", part.start, part.end - 1)
}

/// Returns a text that separates parts. Nobody can write files that hold it.
pub fn boundary() -> String {
    format!("{:016x}", RandomState::new().hash_one(()))
}

/// Returns the body of a response with several parts of a file (RFC 9110 section 14.6): `parts` and their bytes.
pub fn multipart(
    parts: &[(Range<u64>, Bytes)],
    length: u64,
    content_type: &str,
    boundary: &str,
) -> Bytes {
    let mut body = BytesMut::new();
    for (part, bytes) in parts {
        let range = content_range(part, length);
        let head = format!(
            "\r\n--{boundary}\r\nContent-Type: {content_type}\r\nContent-Range: {range}\r\n\r\n"
        );
        body.extend_from_slice(head.as_bytes());
        body.extend_from_slice(bytes);
    }
    body.extend_from_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
    body.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_what_the_rfc_says_and_a_bad_one_is_ignored() {
        let one = |start, end| Wanted::Parts(std::iter::once(start..end).collect());
        for (field, wanted) in [
            ("bytes=0-0", one(0, 1)),
            ("bytes=0-99", one(0, 100)),
            ("Bytes=10-", one(10, 100)),
            ("bytes=-1", one(99, 100)),
            ("bytes=-1000", one(0, 100)),
            ("bytes=50-1000", one(50, 100)),
            ("bytes= 5-6 ", one(5, 7)),
            ("bytes=0-99999999999999999999999", one(0, 100)),
            ("bytes=100-", Wanted::Unsatisfiable),
            ("bytes=-0", Wanted::Unsatisfiable),
            ("bytes=200-300,400-", Wanted::Unsatisfiable),
            ("bytes=0-1,200-", one(0, 2)),
            ("bytes=0-1,4-5", Wanted::Parts(vec![0..2, 4..6])),
            ("bytes=0-99,0-99", Wanted::All),
            ("bytes=0-0,1-1,2-2,3-3,4-4,5-5,6-6,7-7,8-8", Wanted::All),
            ("bytes=5-4", Wanted::All),
            ("bytes=", Wanted::All),
            ("bytes=-", Wanted::All),
            ("bytes=a-b", Wanted::All),
            ("bytes=+1-2", Wanted::All),
            ("bytes=1-2-3", Wanted::All),
            ("lines=0-1", Wanted::All),
            ("", Wanted::All),
        ] {
            assert_eq!(parse(field.as_bytes(), 100), wanted, "{field:?}");
        }
        assert_eq!(parse(b"bytes=0-", 0), Wanted::All);
        let thousand = format!("bytes={}", vec!["0-"; 1000].join(","));
        assert_eq!(parse(thousand.as_bytes(), 100), Wanted::All);
    }
}
